"""Measure test errors at small margins by learning rate, with the centre as printed or normalized.

The rate of `run` was chosen at its base, whose margin is larger. Samples are of the same kind as
those of `run`, with its base's rows and no label noise.
"""

import argparse
import itertools
import json

from dpbt import recipes, sweeps
from experiments.common import commands, results, tables
from experiments.common.results import Line
from experiments.papers.bun_2020.errors import (
    add_options,
    fit_columns_by_point,
    mean_test_error,
    sample_task,
)
from experiments.papers.bun_2020.settings import BASE, BOOSTING, CALIBRATIONS, EPSILON

MARGINS = (0.05, 0.07)
RATES = {False: (4.0, 16.0), True: (3.2, 6.4)}
"""Whether centres are normalized -> learning rates."""

COLUMNS = (
    *("tau", "normalized", "learning_rate", "calibration"),
    *("test_error_mean", "test_error_sd", "fits"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, "print the lines as a JSON list")


def run_command(options: argparse.Namespace) -> None:
    """Measure all rates; write and print the lines."""
    lines = measure_rates(MARGINS[-1:] if options.smoke else MARGINS, options)
    config = {name: BOOSTING[name][0] for name in ("rounds", "density", "delta")}
    config |= {"rows": BASE["rows"], "epsilon": EPSILON, "seed": options.seed}
    results.write_csv(commands.out_folder(options) / "rates.csv", lines, config)
    print(json.dumps(lines, indent=1) if options.json else tables.align_lines(lines, COLUMNS))


def rate_sweep(keys: int, seed: int) -> sweeps.Sweep:
    """All rates in both calibrations."""
    shared_axes = {**BOOSTING, "epsilon": (EPSILON,), "calibration": CALIBRATIONS}
    blocks = tuple(
        {**shared_axes, "learning_rate": rates, "normalized": (normalized,)}
        for normalized, rates in RATES.items()
    )
    return sweeps.Sweep("halfspaces_rates", recipes.halfspace_boost, blocks, keys, seed)


def measure_rates(margins: tuple[float, ...], options: argparse.Namespace) -> list[Line]:
    """A line for each margin, kind of centre, rate and calibration.

    Args:
        margins: the margins of the samples.
        options: `keys`, `samples` and `seed` are read.
    """
    tasks = [
        sample_task(f"{m}-{s}", (options.seed, s, m), **{**BASE, "tau": tau})
        for m, tau in enumerate(margins)
        for s in range(options.samples)
    ]
    lines = []
    sweep = rate_sweep(options.keys, options.seed)
    by_margin = fit_columns_by_point(sweep, tasks, options.samples)
    for tau, columns in zip(margins, by_margin, strict=True):
        for normalized, rates in RATES.items():
            for rate, calibration in itertools.product(rates, CALIBRATIONS):
                setting = {"normalized": normalized, "learning_rate": rate}
                setting |= {"calibration": calibration}
                errors = mean_test_error(columns, **setting)
                del errors["train_error_mean"]
                lines.append({"tau": tau, **setting, **errors})
    return lines
