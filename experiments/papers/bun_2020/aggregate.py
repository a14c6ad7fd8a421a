"""Aggregate saved errors and rounds into `reproduction/bun_2020`."""

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi

from dpbt.owners.cli.parsing import InputError
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_options(parser, NAME)


def run_command(options: argparse.Namespace) -> None:
    """Write the results that were saved, in short.

    Raises:
        InputError: if nothing was saved.
    """
    columns_of_files = {
        ("run", "errors"): ERRORS,
        ("run", "rounds"): ROUNDS,
        ("rates", "rates"): rates.COLUMNS,
        ("sizes", "sizes"): sizes.COLUMNS,
    }
    saved = {
        name
        for (program, name), columns in columns_of_files.items()
        if aggregated.aggregate_saved_file(
            options, NAME, name, command=f"{NAME} {program}", keep=columns
        )
    }
    if "rounds" in saved:
        out = Path(options.out)
        size_lines = aggregated.read_result(NAME, "sizes", out) if "sizes" in saved else []
        lines = claim_lines(aggregated.read_result(NAME, "rounds", out), size_lines)
        origin = aggregated.read_origin(NAME, "rounds", out)
        aggregated.write_result(options, NAME, "measures", lines=lines, origin=origin)
    if not saved:
        raise InputError(
            f"{options.results} holds no results; run: python -m experiments {NAME} run"
        )


def claim_lines(rounds: Sequence[Line], size_lines: Sequence[Line]) -> list[Line]:
    """The claims with numbers, each beside the paper's formula.

    They are the length of HS-StL's noise at each margin, and how the rows that an error of alpha
    needs grow along each axis.

    Args:
        rounds: the lines of `rounds`.
        size_lines: the lines of `sizes`; none if they were not saved.
    """
    lines = []
    for tau in distinct(rounds, "tau"):
        name = f"length of the noise, tau = {tau:g}"
        lines.append(_claim_line(name, "none", [max_noise_length(tau)], tau / 8))
    for calibration in CALIBRATIONS:
        of_calibration = where(size_lines, calibration=calibration)
        for name, growth in GROWTHS.items():
            ratios = _row_ratios(of_calibration, growth)
            if ratios:
                lines.append(_claim_line(name, calibration, ratios, growth.formula))
        rows = [line["rows"] for line in where(of_calibration, axis="tau", tau=0.1, **_BASE)]
        if rows and None not in rows:
            words = "rows that an error of 0.1 needs at tau = 0.1"
            lines.append(_claim_line(words, calibration, rows, _rows_of_theorem_30(0.1)))
        exponents = _dimension_exponents(
            where(of_calibration, axis="dimension", alpha=ALPHA, epsilon=EPSILON)
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
    return smooth_bounds.theorem_30_rows(
        alpha=ALPHA, beta=BETA, tau=tau, epsilon=EPSILON, delta=DELTA
    ).total


def _rows_of_theorem_33(tau: float) -> float:
    terms = 1 / (EPSILON * ALPHA * tau**2), 1 / (ALPHA * tau) ** 2, 1 / EPSILON**2, 1 / ALPHA**2
    return sum(terms)


class Growth(NamedTuple):
    """How the rows grow from one point to another.

    Attributes:
        low: column -> value, of the point of fewer rows.
        high: the point of more rows.
        formula: the growth by the paper's formula.
    """

    low: Mapping[str, Any]
    high: Mapping[str, Any]
    formula: float


_BASE = {"alpha": ALPHA, "epsilon": EPSILON}
GROWTHS = {
    "growth of rows from tau = 0.3 to 0.1": Growth(
        {"axis": "tau", "tau": 0.3, **_BASE},
        {"axis": "tau", "tau": 0.1, **_BASE},
        _rows_of_theorem_30(0.1) / _rows_of_theorem_30(0.3),
    ),
    "growth of rows from tau = 0.3 to 0.1, Theorem 33": Growth(
        {"axis": "tau", "tau": 0.3, **_BASE},
        {"axis": "tau", "tau": 0.1, **_BASE},
        _rows_of_theorem_33(0.1) / _rows_of_theorem_33(0.3),
    ),
    "growth of rows from epsilon = 3 to 0.3": Growth(
        {"axis": "epsilon", "epsilon": 3, "alpha": ALPHA},
        {"axis": "epsilon", "epsilon": 0.3, "alpha": ALPHA},
        10.0,
    ),
    "growth of rows from alpha = 0.1 to 0.025": Growth(
        {"axis": "tau", "tau": 0.2, **_BASE},
        {"axis": "tau", "tau": 0.2, **_BASE, "alpha": 0.025},
        16.0,
    ),
    "growth of rows from 20 to 2,000 dimensions": Growth(
        {"axis": "dimension", "dimension": 20, **_BASE},
        {"axis": "dimension", "dimension": 2000, **_BASE},
        1.0,
    ),
    "growth of rows from 200 to 2,000 dimensions": Growth(
        {"axis": "dimension", "dimension": 200, **_BASE},
        {"axis": "dimension", "dimension": 2000, **_BASE},
        1.0,
    ),
    "rows with clipped hypotheses over those without, d = 20": Growth(
        {"axis": "dimension", "dimension": 20, **_BASE},
        {"axis": "clipped", "alpha": ALPHA, "dimension": 20},
        1.0,
    ),
}
"""Name of a claim -> the growth that it is of."""


MIN_KNOWN_SHARE = 0.75
"""The least share of samples with known rows for a growth to be stated."""


def _row_ratios(lines: Sequence[Line], growth: Growth) -> list[float]:
    """On each sample that both points have, the rows at one point over those at the other.

    A sample is left out if more rows than were run are needed at one of them. The result is empty
    if a fourth of the samples would be.
    """
    low_rows, high_rows = (
        {line["sample"]: line["rows"] for line in where(lines, **point)}
        for point in (growth.low, growth.high)
    )
    samples = [sample for sample in low_rows if sample in high_rows]
    ratios = [
        high_rows[sample] / low_rows[sample]
        for sample in samples
        if low_rows[sample] is not None and high_rows[sample] is not None
    ]
    return ratios if len(ratios) > MIN_KNOWN_SHARE * len(samples) else []


def _dimension_exponents(lines: Sequence[Line]) -> list[float]:
    """On each sample that all dimensions have, the slope of log rows over log d."""
    exponents, dimensions = [], len(distinct(lines, "dimension"))
    for sample in distinct(lines, "sample"):
        of_sample = where(lines, sample=sample)
        if len(of_sample) < max(dimensions, 2):
            continue
        if None in [line["rows"] for line in of_sample]:
            return []
        x, y = ([math.log(line[name]) for line in of_sample] for name in ("dimension", "rows"))
        exponents.append(float(np.polyfit(x, y, 1)[0]))
    return exponents


def max_noise_length(tau: float) -> float:
    """The length that the noise of all rounds of HS-StL stays below, by Lemma 29's probability.

    A round exceeds it with probability beta / (3 T), in the dimension of our samples.
    """
    settings = halfspace_settings(ALPHA, BETA, tau)
    return settings.noise * float(chi.isf(BETA / (3 * settings.rounds), DIMENSION))
