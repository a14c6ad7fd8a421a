"""From a private CSV file to a released model: the steps of docs/tutorial.md.

Run it with `python docs/examples/income.py income.csv`, where the file has the columns that
`income.json` declares.
"""

import sys
from pathlib import Path

import dpbt

ROWS = 40_000  # a public bound on the number of rows

# 1. The public domain. It is written from what the columns mean, never from the rows.
domain, label = dpbt.domains.read_domain(Path(__file__).parent / "income.json")

# 2. The private rows. Each cell is read by itself.
rows = dpbt.files.read_csv(sys.argv[1], domain, label)
table = dpbt.table(
    domain, rows.columns, rows.labels, negative=label.negative, positive=label.positive
)

# 3. The recipe, and what it costs. This needs no rows.
recipe = dpbt.recipes.bdpe(epsilon=1.0, rows=ROWS, rounds=8, depth=3, criterion="gini")
print(dpbt.ledger(recipe))

# 4. The release. The key is a secret: it is not kept.
model = dpbt.fit(dpbt.fresh_key(), table, recipe)

# 5. What may be published: the rules, and what they say of people who are in no file.
print(dpbt.explain(model, domain).split("tree 2")[0])
people = {
    "age": [28, 45],
    "education-num": [9, 14],
    "hours-per-week": [40, 50],
    "capital-gain": [0, 0],
    "marital-status": ["Never-married", "Married-civ-spouse"],
    "sex": ["Female", "Male"],
}
print(dpbt.predict_proba(model, dpbt.domains.encode(domain, people)))
