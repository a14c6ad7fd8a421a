"""Aggregate saved errors and rounds into `reproduction/bun_2020`."""

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi

from dpbt.owners.cli.shared import InputError
from experiments.common import aggregated, smooth_bounds
from experiments.common.results import Line, distinct, where
from experiments.papers.bun_2020 import rates, sizes
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
from experiments.papers.bun_2020.tables import ERRORS, ROUNDS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_options(parser, NAME)


def run(options: argparse.Namespace) -> None:
    """Write what was saved in short.

    Raises:
        InputError: if nothing was saved.
    """
    sources = {"errors": ("run", ERRORS), "rounds": ("run", ROUNDS)}
    sources |= {"rates": ("rates", rates.COLUMNS), "sizes": ("sizes", sizes.KEPT)}
    is_saved = [
        aggregated.take_saved_file(options, NAME, name, f"{NAME} {program}", columns)
        for name, (program, columns) in sources.items()
    ]
    if is_saved[1]:
        out = Path(options.out)
        needed = aggregated.read_result(NAME, "sizes", out) if is_saved[3] else []
        lines = claim_lines(aggregated.read_result(NAME, "rounds", out), needed)
        aggregated.write_result(
            options, NAME, "measures", lines, aggregated.read_origin(NAME, "rounds", out)
        )
    if not any(is_saved):
        raise InputError(
            f"{options.results} holds no results; run: python -m experiments {NAME} run"
        )


def claim_lines(rounds: Sequence[Line], needed: Sequence[Line]) -> list[Line]:
    """The claims with numbers, each beside the paper's formula.

    They are the length of HS-StL's noise at each margin, and how the rows that an error of alpha
    needs grow along each axis.
    """
    lines = []
    for tau in distinct(rounds, "tau"):
        name = f"length of the noise, tau = {tau:g}"
        lines.append(_claim_line(name, "none", [max_noise_length(tau)], tau / 8))
    for calibration in CALIBRATIONS:
        own_lines = where(needed, calibration=calibration)
        for name, (low, high, formula) in GROWTHS.items():
            ratios = _row_ratios(own_lines, low, high)
            if ratios:
                lines.append(_claim_line(name, calibration, ratios, formula))
        at = {"axis": "tau", "tau": 0.1, **_AT}
        rows = [line["rows"] for line in where(own_lines, **at)]
        if rows and None not in rows:
            words = "rows that an error of 0.1 needs at tau = 0.1"
            lines.append(_claim_line(words, calibration, rows, _rows_of_theorem_30(0.1)))
        exponents = _dimension_exponents(
            where(own_lines, axis="dimension", alpha=ALPHA, epsilon=EPSILON)
        )
        if exponents:
            words = "exponent of the dimension in the rows"
            lines.append(_claim_line(words, calibration, exponents, 0.0))
    return lines


def _claim_line(name: str, calibration: str, values: Sequence[float], formula: float) -> Line:
    """The mean of a value over samples, its standard error, and the paper's formula."""
    spread = None if len(values) < 2 else statistics.stdev(values) / math.sqrt(len(values))
    line: Line = {"name": name, "calibration": calibration, "value": statistics.fmean(values)}
    return line | {"error": spread, "formula": formula}


def _rows_of_theorem_30(tau: float) -> float:
    return smooth_bounds.halfspace_rows(ALPHA, BETA, tau, EPSILON, DELTA)["total"]


def _rows_of_theorem_33(tau: float) -> float:
    terms = 1 / (EPSILON * ALPHA * tau**2), 1 / (ALPHA * tau) ** 2, 1 / EPSILON**2, 1 / ALPHA**2
    return sum(terms)


_AT, _WIDE = {"alpha": ALPHA, "epsilon": EPSILON}, {"axis": "clipped", "alpha": ALPHA}
GROWTHS = {
    "growth of rows from tau = 0.3 to 0.1": (
        {"axis": "tau", "tau": 0.3, **_AT},
        {"axis": "tau", "tau": 0.1, **_AT},
        _rows_of_theorem_30(0.1) / _rows_of_theorem_30(0.3),
    ),
    "growth of rows from tau = 0.3 to 0.1, Theorem 33": (
        {"axis": "tau", "tau": 0.3, **_AT},
        {"axis": "tau", "tau": 0.1, **_AT},
        _rows_of_theorem_33(0.1) / _rows_of_theorem_33(0.3),
    ),
    "growth of rows from epsilon = 3 to 0.3": (
        {"axis": "epsilon", "epsilon": 3, "alpha": ALPHA},
        {"axis": "epsilon", "epsilon": 0.3, "alpha": ALPHA},
        10.0,
    ),
    "growth of rows from alpha = 0.1 to 0.025": (
        {"axis": "tau", "tau": 0.2, **_AT},
        {"axis": "tau", "tau": 0.2, **_AT, "alpha": 0.025},
        16.0,
    ),
    "growth of rows from 20 to 2,000 dimensions": (
        {"axis": "dimension", "dimension": 20, **_AT},
        {"axis": "dimension", "dimension": 2000, **_AT},
        1.0,
    ),
    "growth of rows from 200 to 2,000 dimensions": (
        {"axis": "dimension", "dimension": 200, **_AT},
        {"axis": "dimension", "dimension": 2000, **_AT},
        1.0,
    ),
    "rows with clipped hypotheses over those without, d = 20": (
        {"axis": "dimension", "dimension": 20, **_AT},
        {**_WIDE, "dimension": 20},
        1.0,
    ),
}
"""Name -> the points of fewer and of more rows, and the growth by the paper's formula."""


def _row_ratios(
    lines: Sequence[Line], low: Mapping[str, Any], high: Mapping[str, Any]
) -> list[float]:
    """On each sample, the rows at one point over those at another; empty if one is not known."""
    first, second = ([line["rows"] for line in where(lines, **at)] for at in (low, high))
    if not first or len(first) != len(second) or None in (*first, *second):
        return []
    return [more / less for less, more in zip(first, second, strict=True)]


def _dimension_exponents(lines: Sequence[Line]) -> list[float]:
    """On each sample, the slope of log rows over log d."""
    exponents = []
    for sample in distinct(lines, "sample"):
        own_lines = where(lines, sample=sample)
        if len(own_lines) < 2 or None in [line["rows"] for line in own_lines]:
            return []
        x, y = ([math.log(line[name]) for line in own_lines] for name in ("dimension", "rows"))
        exponents.append(float(np.polyfit(x, y, 1)[0]))
    return exponents


def max_noise_length(tau: float) -> float:
    """The length that the noise of all rounds of HS-StL stays below, by Lemma 29's probability.

    A round exceeds it with probability beta / (3 T), in the dimension of our samples.
    """
    chosen = halfspace_settings(ALPHA, BETA, tau)
    return chosen.noise * float(chi.isf(BETA / (3 * chosen.rounds), DIMENSION))
