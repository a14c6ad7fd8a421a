"""Aggregate saved errors and rounds into `reproduction/bun_2020`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from scipy.stats import chi

from dpbt.cli.shared import InputError
from experiments.common import aggregated, smooth_bounds
from experiments.common.results import Line
from experiments.papers.bun_2020 import rates
from experiments.papers.bun_2020.settings import (
    ALPHA,
    BETA,
    CALIBRATIONS,
    DELTA,
    DIMENSION,
    EPSILON,
    NAME,
    halfspace_settings,
)
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
    """The claims with numbers, each beside the paper's formula.

    They are how the rows that HS-StL's noise needs grow with the margin, and the length of that
    noise at each margin.
    """
    first, last = (end(rounds, key=lambda line: line["tau"]) for end in (min, max))
    orders = [
        smooth_bounds.halfspace_rows(ALPHA, BETA, line["tau"], EPSILON, DELTA)
        for line in (first, last)
    ]
    formulas = {
        "growth of rows from the largest to the smallest margin": "total",
        "growth of rows, privacy term": "privacy",
    }
    lines: list[Line] = [
        {
            "name": name,
            "calibration": calibration,
            "value": first[f"rows_for_{calibration}"] / last[f"rows_for_{calibration}"],
            "formula": orders[0][term] / orders[1][term],
        }
        for name, term in formulas.items()
        for calibration in CALIBRATIONS
    ]
    for tau in (line["tau"] for line in rounds):
        name = f"length of the noise, tau = {tau:g}"
        line: Line = {"name": name, "calibration": "none", "value": longest_noise(tau)}
        lines.append(line | {"formula": tau / 8})
    return lines


def longest_noise(tau: float) -> float:
    """The length that the noise of all rounds of HS-StL stays below, by Lemma 29's probability.

    A round exceeds it with probability beta / (3 T), in the dimension of our samples.
    """
    chosen = halfspace_settings(ALPHA, BETA, tau)
    return chosen.noise * float(chi.isf(BETA / (3 * chosen.rounds), DIMENSION))
