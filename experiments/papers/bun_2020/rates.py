"""Measure test errors at small margins by learning rate, with the centre as printed or normalized.

The rate of `run` was chosen at its base, whose margin is larger. Samples are of the same kind as
those of `run`, with its base's rows and no label noise.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from dpbt import recipes
from dpbt.sweeps import plan, runner, storage
from experiments.common import commands, results, tables
from experiments.common.results import Line
from experiments.papers.bun_2020.errors import task
from experiments.papers.bun_2020.settings import BASE, BOOSTING, CALIBRATIONS, EPSILON, NAME

MARGINS = (0.05, 0.07)
RATES = {False: (4.0, 16.0), True: (3.2, 6.4)}
"""Whether centres are normalized -> learning rates."""

COLUMNS = (
    *("tau", "normalized", "learning_rate", "calibration"),
    *("test_error_mean", "test_error_sd", "fits"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_count(parser, "--keys", 4, "number of keys for each sample")
    commands.add_count(
        parser, "--samples", 5, "number of samples of rows, each with its own target"
    )
    commands.add_seed(parser, "samples and keys")
    commands.add_out(parser, results.folder(NAME))
    commands.add_smoke(parser)
    commands.add_json(parser, "print the lines as a JSON list")


def run(options: argparse.Namespace) -> None:
    """Measure all rates; write and print the lines."""
    lines = measure(MARGINS[-1:] if options.smoke else MARGINS, options)
    config = {name: BOOSTING[name][0] for name in ("rounds", "density", "delta")}
    config |= {"rows": BASE["rows"], "epsilon": EPSILON, "seed": options.seed}
    results.write_csv(commands.out_folder(options) / "rates.csv", lines, config)
    print(json.dumps(lines, indent=1) if options.json else tables.of_lines(lines, COLUMNS))


def sweep(keys: int, seed: int) -> plan.Sweep:
    """All rates in both calibrations."""
    shared = {**BOOSTING, "epsilon": (EPSILON,), "calibration": CALIBRATIONS}
    blocks = tuple(
        {**shared, "learning_rate": rates, "normalized": (normalized,)}
        for normalized, rates in RATES.items()
    )
    return plan.Sweep("halfspaces_rates", recipes.halfspace_boost, blocks, keys, seed)


def measure(margins: tuple[float, ...], options: argparse.Namespace) -> list[Line]:
    """A line for each margin, way, rate and calibration.

    Args:
        margins: the margins of the samples.
        options: `keys`, `samples` and `seed` are read.
    """
    work = [
        task(f"{m}-{s}", (options.seed, s, m), **{**BASE, "tau": tau})
        for m, tau in enumerate(margins)
        for s in range(options.samples)
    ]
    with tempfile.TemporaryDirectory() as folder:
        runner.run(sweep(options.keys, options.seed), work, Path(folder))
        found = [storage.load_columns(Path(folder) / f"{one.name}.npz")[0] for one in work]

    lines = []
    for m, tau in enumerate(margins):
        own = found[m * options.samples : (m + 1) * options.samples]
        columns = {name: np.concatenate([part[name] for part in own]) for name in own[0]}
        for normalized, rates in RATES.items():
            for rate in rates:
                lines += [_line(tau, columns, normalized, rate, name) for name in CALIBRATIONS]
    return lines


def _line(
    tau: float, columns: dict[str, np.ndarray], normalized: bool, rate: float, calibration: str
) -> Line:
    wanted = {"normalized": normalized, "learning_rate": rate, "calibration": calibration}
    saved = {**wanted, "normalized": str(normalized)}  # columns hold what is no number as text
    chosen = np.all([columns[name] == value for name, value in saved.items()], axis=0)
    errors = columns["test_error"][chosen].astype(float)
    return {
        "tau": tau,
        **wanted,
        "test_error_mean": float(errors.mean()),
        "test_error_sd": float(errors.std(ddof=1)) if len(errors) > 1 else 0.0,
        "fits": len(errors),
    }
