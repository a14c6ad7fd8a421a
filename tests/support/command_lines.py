"""Files and arguments for the commands of dpbt, which run in this process."""

import csv
import json

import numpy as np

from dpbt import __main__ as command_line

NUM_ROWS = 60
BOUND = NUM_ROWS + 10
SITES = ("north", "mid", "south")
COLUMNS = {
    "age": {"type": "numeric", "low": 0, "high": 100, "bins": 8, "missing": True},
    "job": {"type": "nominal", "values": ["clerk", "smith, or mason"]},
    "member": {"type": "boolean", "true": "yes", "false": "no"},
}
TWO_CLASSES = {"column": "class", "positive": "ill, or worse", "negative": "healthy"}
LABELS = {
    "site": {"column": "site", "type": "nominal", "values": SITES},
    "rings": {"column": "rings", "type": "numeric", "low": 0, "high": 20},
}
WEIGHT = {"weight": {"column": "w", "most": 3}}
RECIPES = {
    "class": ("--epsilon", "5", "--recipe", "bdpe", "--rounds", "2", "--depth", "2"),
    "site": ("--epsilon", "30", "--recipe", "oblivious_boost", "--rounds", "3", "--depth", "2"),
}
RECIPES["rings"] = RECIPES["site"]
ODD_LINES = """age,job,extra,member,class
40,clerk,1,yes,healthy
,"smith, or mason",1,no,
NA,zebra,1,maybe,unknown
-3,,1,,healthy
1e99,clerk,1,YES,healthy
too,few
"open,clerk,1,no,healthy

71,clerk,1,no,healthy"""


def write_rows(path):
    """Write rows, of which some sites, rings and weights are undeclared."""
    rng = np.random.default_rng(0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("age", "job", "extra", "member", "class", "site", "rings", "w"))
        for _ in range(NUM_ROWS):
            age = int(rng.integers(0, 100))
            cells = rng.choice(["clerk", "smith, or mason"]), "x", rng.choice(["yes", "no"])
            labels_and_weight = [SITES[age // 34], age / 5, rng.integers(1, 4)]
            with_missing = ["NA" if rng.random() < 0.1 else value for value in labels_and_weight]
            writer.writerow(
                (age, *cells, "ill, or worse" if age > 50 else "healthy", *with_missing)
            )


def write_rows_and_domains(folder):
    """Write rows, odd rows, and a domain for each label; that of two classes is domain.json."""
    write_rows(folder / "rows.csv")
    (folder / "odd.csv").write_text(ODD_LINES)
    (folder / "domain.json").write_text(json.dumps({"columns": COLUMNS, "label": TWO_CLASSES}))
    for name, label in LABELS.items():
        declared = {"columns": COLUMNS, "label": label, **WEIGHT}
        (folder / f"{name}.json").write_text(json.dumps(declared))


def fit_command(folder, out="model.json", rows=BOUND, label="class"):
    domain = folder / ("domain.json" if label == "class" else f"{label}.json")
    files = (folder / "rows.csv", "--domain", domain, "--out", folder / out, "--rows", rows)
    return list(map(str, ("fit", *files, *RECIPES[label], "--seed", "3")))


def run_command(capsys, *arguments):
    status = command_line.main(list(map(str, arguments)))
    return status, *capsys.readouterr()


def refusal_line(capsys, *arguments):
    """The one line that a refused command prints to standard error."""
    status, out, err = run_command(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err
