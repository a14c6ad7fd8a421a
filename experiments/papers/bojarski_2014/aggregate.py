"""Aggregate saved errors into `reproduction/bojarski_2014`.

The lines of Table 1 of all data sets are one file. The series of a data set are NAME and NAME_eta.
They keep the reading of leaves that the paper's numbers are of.
"""

import argparse
from pathlib import Path

from dpbt.owners.cli.parsing import InputError
from experiments.common import aggregated, results
from experiments.papers.bojarski_2014 import draft, points
from experiments.papers.bojarski_2014.claims import claim_lines
from experiments.papers.bojarski_2014.settings import ALL_DATASETS, NAME, PAPER_ROWS

SERIES_COLUMNS = (
    *("private", "eta", "negative", "voting", "trees", "height"),
    *("test_error", "validation_error", "bound", "least_bound"),
)
TABLE_COLUMNS = (
    *("dataset", "private", "voting", "trees", "height", "error", "interval", "paper_error"),
    *("paper_interval", "lowest_test_error", "papers_forest", "as_printed", "rows", "attributes"),
)
MIN_VOID_BOUND = 0.5
"""A bound of at least this says nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_options(parser, NAME)


def run_command(options: argparse.Namespace) -> None:
    """Write the results that were saved, in short.

    Raises:
        InputError: if nothing was saved.
    """
    folder = Path(options.results)
    is_aggregated = [
        aggregated.aggregate_saved_file(options, NAME, name, command=f"{NAME} points", keep=columns)
        for name, columns in points.COLUMNS_OF_FILES.items()
    ]
    is_aggregated.append(_write_draft(options))
    saved = [name for name in ALL_DATASETS if (folder / f"{name}_table.csv").exists()]
    if not saved and any(is_aggregated):
        return
    if not saved:
        raise InputError(f"{folder} holds no results; run: python -m experiments {NAME} run")
    _write_table_1(options, saved)
    series = {name: _write_series(options, name, name) for name in saved}
    by_eta = {name: _write_series(options, name, f"{name}_eta") for name in saved}
    by_eta = {name: lines for name, lines in by_eta.items() if lines}
    origin = aggregated.read_origin(NAME, "table_1", Path(options.out))
    table = aggregated.read_result(NAME, "table_1", Path(options.out))
    rows = {line["dataset"]: int(line["rows"]) for line in table}
    lines = claim_lines(series, by_eta, rows)
    aggregated.write_result(options, NAME, "measures", lines=lines, origin=origin)


def _write_draft(options: argparse.Namespace) -> bool:
    """Write the repeats of Table 1 by the draft's words, and the joint comparison, if saved."""
    folder = Path(options.results)
    paths = [folder / f"draft_{name}.csv" for name in ALL_DATASETS]
    paths = [path for path in paths if path.exists()]
    if not paths:
        return False
    lines, commits = [], []
    for path in paths:
        lines += results.read_csv(path, f"{NAME} draft")
        commits.append(lines[-1]["commit"])
    origin = {column: lines[0][column] for column in (*aggregated.ORIGIN_COLUMNS, "runs", "seed")}
    origin |= {"command": f"python -m experiments {NAME} draft"}
    origin |= {"date": max(aggregated.date_written(path) for path in paths)}
    origin["commit"] = aggregated.COMMIT_SEPARATOR.join(dict.fromkeys(commits))
    sampled = {line["dataset"]: line["rows"] for line in lines if line.get("rows")}
    if sampled:
        words = (f"{rows} rows of {name}" for name, rows in sampled.items())
        origin["reduced"] = ", ".join(words)
    for name, result_lines in {
        "draft": draft.aggregated_lines(lines),
        "draft_joint": draft.joint_lines(lines),
    }.items():
        aggregated.write_result(options, NAME, name, lines=result_lines, origin=origin)
    return True


def _write_table_1(options: argparse.Namespace, names: list[str]) -> None:
    """Write one file of Table 1's lines of all these data sets."""
    lines, origin, commits = [], {}, []
    for name in names:
        path = Path(options.results) / f"{name}_table.csv"
        saved = results.read_csv(path, f"{NAME} run --dataset {name}")
        lines += [{column: line.get(column) for column in TABLE_COLUMNS} for line in saved]
        run_columns = (*aggregated.ORIGIN_COLUMNS, "runs", "seed")
        origin |= {column: saved[0][column] for column in run_columns}
        origin["date"] = aggregated.date_written(path)
        commits.append(saved[0]["commit"])
    origin["commit"] = aggregated.COMMIT_SEPARATOR.join(dict.fromkeys(commits))
    origin["command"] = f"python -m experiments {NAME} run --eta"
    aggregated.write_result(options, NAME, "table_1", lines=lines, origin=origin)


def _write_series(options: argparse.Namespace, name: str, source: str) -> list[results.Line]:
    """Write one series of a data set, and return it; a bound that says nothing is left out.

    It is empty if it was not saved.
    """
    path = Path(options.results) / f"{source}.csv"
    if not path.exists():
        return []
    command = f"{NAME} run --eta --dataset {name}"
    saved = results.read_csv(path, command)
    lines = [
        {column: line[column] for column in SERIES_COLUMNS} | {"bound": _informative_bound(line)}
        for line in saved
        if line["negative"] != "uniform"
    ]
    first = saved[0]
    origin = {column: value for column, value in first.items() if column not in SERIES_COLUMNS}
    for column in ("best_trees", "test_error_sd", "tree_accuracy", "bound_probability"):
        origin.pop(column, None)
    origin |= {"command": f"python -m experiments {command}"}
    origin |= {"date": aggregated.date_written(path)}
    if first["rows"] < PAPER_ROWS.get(name, 0):
        origin["reduced"] = f"{first['rows']} of {PAPER_ROWS[name]} rows"
    aggregated.write_result(
        options, NAME, source, lines=lines, origin=origin, digits=aggregated.EXACT_DIGITS
    )
    return lines


def _informative_bound(line: results.Line) -> float | None:
    """The bound at the paper's constants, if it says something."""
    holds = line["bound_probability"] > 0 and line["bound"] < MIN_VOID_BOUND
    return line["bound"] if holds else None
