"""Aggregate saved errors into `reproduction/bojarski_2014`.

The lines of Table 1 of all data sets are one file. The series of a data set are NAME and NAME_eta.
They keep the reading of leaves that the paper's numbers are of.
"""

import argparse
from pathlib import Path

from dpbt.owners.cli.shared import InputError
from experiments.common import aggregated, results
from experiments.papers.bojarski_2014 import points
from experiments.papers.bojarski_2014.claims import claim_lines
from experiments.papers.bojarski_2014.settings import EVERY_DATASET, NAME, PAPER_ROWS

SERIES = (
    *("private", "eta", "negative", "voting", "trees", "height"),
    *("test_error", "validation_error", "bound", "least_bound"),
)
TABLE = (
    *("dataset", "private", "voting", "trees", "height", "error", "interval", "paper_error"),
    *("paper_interval", "lowest_test_error", "papers_forest", "as_printed", "rows", "attributes"),
)
MIN_VOID_BOUND = 0.5
"""A bound of at least this says nothing."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_options(parser, NAME)


def run(options: argparse.Namespace) -> None:
    """Write what was saved in short.

    Raises:
        InputError: if nothing was saved.
    """
    folder = Path(options.results)
    columns_of = {"points": points.KEPT, "best_trees": points.PROVED, "adult_123": points.ADULT}
    is_aggregated = [
        aggregated.take_saved_file(options, NAME, name, f"{NAME} points", columns)
        for name, columns in columns_of.items()
    ]
    there = [name for name in EVERY_DATASET if (folder / f"{name}_table.csv").exists()]
    if not there and any(is_aggregated):
        return
    if not there:
        raise InputError(f"{folder} holds no results; run: python -m experiments {NAME} run")
    _write_table_1(options, there)
    series = {name: _write_series(options, name, name) for name in there}
    by_eta = {name: _write_series(options, name, f"{name}_eta") for name in there}
    by_eta = {name: lines for name, lines in by_eta.items() if lines}
    about = aggregated.read_origin(NAME, "table_1", Path(options.out))
    table = aggregated.read_result(NAME, "table_1", Path(options.out))
    rows = {line["dataset"]: int(line["rows"]) for line in table}
    aggregated.write_result(options, NAME, "measures", claim_lines(series, by_eta, rows), about)


def _write_table_1(options: argparse.Namespace, there: list[str]) -> None:
    """One file of Table 1's lines of all data sets."""
    lines, about, commits = [], {}, []
    for name in there:
        path = Path(options.results) / f"{name}_table.csv"
        own_lines = results.read_csv(path, f"{NAME} run --dataset {name}")
        lines += [{column: line.get(column) for column in TABLE} for line in own_lines]
        about |= {column: own_lines[0][column] for column in (*aggregated.ORIGIN, "runs", "seed")}
        about["date"] = aggregated.date_written(path)
        commits.append(own_lines[0]["commit"])
    about["commit"] = aggregated.SEPARATOR.join(dict.fromkeys(commits))
    about["command"] = f"python -m experiments {NAME} run --eta"
    aggregated.write_result(options, NAME, "table_1", lines, about)


def _write_series(options: argparse.Namespace, name: str, source: str) -> list[results.Line]:
    """Write one series of a data set, and return it; a bound that says nothing is left out."""
    path = Path(options.results) / f"{source}.csv"
    if not path.exists():
        return []
    command = f"{NAME} run --eta --dataset {name}"
    saved = results.read_csv(path, command)
    lines = [
        {column: line[column] for column in SERIES} | {"bound": _informative_bound(line)}
        for line in saved
        if line["negative"] != "uniform"
    ]
    first = saved[0]
    about = {column: value for column, value in first.items() if column not in SERIES}
    for column in ("best_trees", "test_error_sd", "tree_accuracy", "bound_probability"):
        about.pop(column, None)
    about |= {"command": f"python -m experiments {command}", "date": aggregated.date_written(path)}
    if first["rows"] < PAPER_ROWS.get(name, 0):
        about["reduced"] = f"{first['rows']} of {PAPER_ROWS[name]} rows"
    aggregated.write_result(options, NAME, source, lines, about, aggregated.WHOLE)
    return lines


def _informative_bound(line: results.Line) -> float | None:
    """The bound at the paper's constants, if it says something."""
    holds = line["bound_probability"] > 0 and line["bound"] < MIN_VOID_BOUND
    return line["bound"] if holds else None
