"""From a private CSV file to a released model: the steps of docs/tutorial.md, in its order.

Run it with `python income.py adult.csv adult_test.csv adult.json people.csv 40000`. The arguments
are the private rows, public rows with labels, the public domain, new rows without labels, and a
public bound on the number of private rows.
"""

import csv
import sys

import numpy as np

import dpbt

private, benchmark, declared, newcomers, bound = sys.argv[1:]

with open(private) as file:
    names = file.readline().strip().split(",")
print(dpbt.domains.template(names, label=names[-1]))

domain, label = dpbt.domains.read_domain(declared)
print(len(domain), "columns and", label)

recipe = dpbt.recipes.auto(epsilon=1.0, delta=1e-6, rows=int(bound), domain=domain)
print(dpbt.ledger(recipe))

rows = dpbt.files.read_columns(private, (*domain, label.column))
table = dpbt.table(domain, rows, rows[label.column], **label.options)
report = dpbt.file_report.owner_report_of_rows(domain, label, [rows])
print(report)  # for the owner of the file alone

model = dpbt.fit(dpbt.fresh_key(), table, recipe)

with open(newcomers) as file:
    people = list(csv.DictReader(file))
columns = {name: [person[name] for person in people] for name in domain}
print(dpbt.predict_proba(model, dpbt.domains.encode(domain, columns))[:, 1])

known = dpbt.files.read_columns(benchmark, (*domain, label.column))
bins = dpbt.domains.encode(domain, known)
positive = np.array([cell == label.positive for cell in known[label.column]])


def measure(fitted):
    """Accuracy and AUROC on the public rows, as text."""
    score = np.asarray(dpbt.decision_function(fitted, bins))
    above, below = score[positive], np.sort(score[~positive])
    won = [np.searchsorted(below, above, side) for side in ("left", "right")]
    auroc = np.mean(won) / len(below)
    return f"accuracy {np.mean((score > 0) == positive):.3f}, AUROC {auroc:.3f}"


print(f"the negative class alone: accuracy {np.mean(~positive):.3f}")

print("the model:", measure(model))

print(dpbt.statement(model))

dpbt.save(model, "model.json", domain=domain, classes=(label.negative, label.positive))

readable = dpbt.recipes.bdpe(epsilon=1.0, rows=int(bound), rounds=8, depth=3, criterion="gini")
print(dpbt.ledger(readable))
second = dpbt.fit(dpbt.fresh_key(), table, readable)
print(dpbt.explain(second, domain).split("tree 2")[0])
print(measure(second))
