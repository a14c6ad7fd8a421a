"""Aggregate saved errors and rounds into `reproduction/bun_2020`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from dpbt.commands.errors import InputError
from experiments.common import aggregated
from experiments.common.results import Line
from experiments.papers.bun_2020 import rates
from experiments.papers.bun_2020.settings import CALIBRATIONS, NAME
from experiments.papers.bun_2020.table import ERRORS, ROUNDS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.arguments(parser, NAME)


def run(options: argparse.Namespace) -> None:
    """Write what was saved in short.

    Raises:
        InputError: if nothing was saved.
    """
    kept = {"errors": ERRORS, "rounds": ROUNDS}
    found = [aggregated.take(options, NAME, name, f"{NAME} run", kept[name]) for name in kept]
    if found[1]:
        about = aggregated.origin(NAME, "rounds", Path(options.out))
        lines = measures(aggregated.read(NAME, "rounds", Path(options.out)))
        aggregated.write(options, NAME, "measures", lines, about)
    found.append(aggregated.take(options, NAME, "rates", f"{NAME} rates", rates.COLUMNS))
    if not any(found):
        raise InputError(
            f"{options.results} holds no results; run: python -m experiments {NAME} run"
        )


def measures(rounds: Sequence[Line]) -> list[Line]:
    """How the rows that HS-StL's noise needs grow with the margin, beside Theorem 30's formula."""
    first, last = (end(rounds, key=lambda line: line["tau"]) for end in (min, max))
    name = "growth of rows from the largest to the smallest margin"
    return [
        {
            "name": name,
            "calibration": calibration,
            "value": first[f"rows_for_{calibration}"] / last[f"rows_for_{calibration}"],
            "formula": first["theorem_rows"] / last["theorem_rows"],
        }
        for calibration in CALIBRATIONS
    ]
