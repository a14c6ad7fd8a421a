"""Print the errors and the rounds that were saved."""

import argparse
import json
from pathlib import Path

from experiments.common import commands, results, tables
from experiments.papers.bun_2020.settings import BASE, BOOSTING, EPSILON, NAME

ERRORS = (
    *("axis", "rows", "tau", "noise", "epsilon", "calibration"),
    *("test_error_mean", "test_error_sd", "train_error_mean", "fits", "theorem_rows"),
)
ROUNDS = (
    *("tau", "rate", "rows", "theorem_rounds", "rounds_by_advantage"),
    *("claimed_advantage", "smallest_advantage", "largest_bound", "rounds_run"),
    *("rounds_to_error", "rounds_to_margin"),
    *("theorem_rows", "rows_for_published", "rows_for_tight"),
)
CONSTANT = (*BOOSTING, "dimension", "test_rows", "seed")
"""Columns of the errors that have one value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_shared(
        parser, saved=results.results_folder(NAME), json="print errors and rounds as JSON"
    )


def run_command(options: argparse.Namespace) -> None:
    """Print what was saved."""
    print_tables(Path(options.results), as_json=options.json)


def print_tables(folder: Path, *, as_json: bool) -> None:
    """Print errors and rounds, of a run or aggregated.

    Raises:
        InputError: if they have not been saved.
    """
    errors = results.read_with_constants(folder / "errors.csv", f"{NAME} run")
    rounds = results.read_with_constants(folder / "rounds.csv", f"{NAME} run")
    if as_json:
        report = {
            "errors": _select_columns(errors, ERRORS),
            "rounds": _select_columns(rounds, ROUNDS),
        }
        print(json.dumps(report, indent=1))
        return

    constants = {name: errors[0][name] for name in CONSTANT}
    print(f"base: {BASE}, epsilon {EPSILON:g}; {constants}\n")
    print(tables.align_lines(errors, ERRORS))
    print(f"\nHS-StL, alpha {rounds[0]['alpha']}")
    print(tables.align_lines(rounds, ROUNDS))


def _select_columns(lines: list[results.Line], names: tuple[str, ...]) -> list[results.Line]:
    return [{name: line[name] for name in names} for line in lines]
