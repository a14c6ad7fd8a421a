"""A folder of rows, and the commands that convert them to blocks and learn from those.

The commands run in the process of the test.
"""

import contextlib
import json
import sqlite3
from pathlib import Path

import numpy as np

from dpbt.__main__ import main

DOMAIN = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100, "bins": 8},
        "member": {"type": "boolean", "true": "yes", "false": "no"},
    },
    "label": {"column": "class", "positive": "ill", "negative": "healthy"},
}
NUM_ROWS = 300
FOREST_OPTIONS = ("--recipe", "random_forest", "--rounds", "3", "--depth", "3")
FIT_OPTIONS = ("--domain", "domain.json", "--rows", "400", "--epsilon", "4")


def write_rows_and_domain(folder):
    """Write a domain and rows of it."""
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, NUM_ROWS)
    labels = np.where(age + rng.normal(0, 10, NUM_ROWS) > 50, "ill", "healthy")
    member = rng.choice(["yes", "no"], NUM_ROWS)
    lines = [
        "age,member,class",
        *(f"{a},{m},{label}" for a, m, label in zip(age, member, labels, strict=True)),
    ]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    (folder / "domain.json").write_text(json.dumps(DOMAIN))


def run_command(*arguments):
    return main([str(argument) for argument in arguments])


def convert_rows(*options):
    return run_command(
        "convert", "domain.json", "rows.csv", "rows.chunks", "--capacity", 400, *options
    )


def refusal_line(capsys, *arguments):
    assert run_command(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


def releases_in_checkpoint(path):
    """The bytes of each part's release in a checkpoint that no process holds."""
    database = sqlite3.connect(path)
    releases = dict(database.execute("SELECT part, arrays FROM release ORDER BY rowid"))
    database.close()
    return releases


def raise_keyboard_interrupt(*_, **__):
    raise KeyboardInterrupt


def checkpoint_holds_keys():
    """Whether the checkpoint has keys; one that a kill left may have none yet."""
    if not Path("run").exists():
        return False
    with contextlib.closing(sqlite3.connect("run")) as database:
        tables = database.execute("SELECT name FROM sqlite_schema WHERE name = 'keys'").fetchall()
        return bool(tables and database.execute("SELECT * FROM keys").fetchall())
