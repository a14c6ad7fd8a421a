"""Samples of rows with a margin, and errors of private halfspaces along each axis."""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt import recipes, sweeps
from dpbt.types import Table
from experiments.common import commands, results, smooth_bounds
from experiments.common.progress import progress
from experiments.common.results import Line
from experiments.papers.bun_2020.settings import (
    AGREEING,
    ALPHA,
    BASE,
    BETA,
    BOOSTING,
    CALIBRATIONS,
    DELTA,
    DIMENSION,
    EPSILON,
    NAME,
    RELATION,
    SPURIOUS,
    TEST_ROWS,
)


def add_options(parser: argparse.ArgumentParser, words: str) -> None:
    """Declare the options of programs that fit samples; `words` are the help of --json."""
    commands.add_count(parser, "--keys", 4, "number of keys for each sample")
    samples_words = "number of samples of rows, each with its own target"
    commands.add_count(parser, "--samples", 5, samples_words)
    commands.add_seed(parser, "samples and keys")
    commands.add_shared(parser, out=results.results_folder(NAME), smoke=True, json=words)


def sample_task(
    name: str, seed: Sequence[int], *, rows: int, tau: float, noise: float
) -> sweeps.Task:
    """One sample as a task with one evaluation. The number of training rows is public."""
    table = draw_sample(seed, rows=rows, tau=tau, noise=noise).table
    train = np.arange(table.target.shape[0])[None] < rows
    return sweeps.Task(name, table, train, ~train, {"rows": rows, "relation": RELATION})


def measure_errors(axes: dict, options: argparse.Namespace) -> list[Line]:
    """A line for each point, epsilon and calibration; an infinite epsilon is without privacy.

    Args:
        axes: axis -> its values; the other axes are at the base.
        options: `keys`, `samples`, `seed` and `json` are read.
    """
    lines = []
    count = sum(len(values) for values in axes.values()) * options.samples
    with progress(count, "task", quiet=options.json) as progress_bar:
        for axis, values in axes.items():
            epsilons = values if axis == "epsilon" else (EPSILON, float("inf"))
            points = [BASE] if axis == "epsilon" else [{**BASE, axis: value} for value in values]
            by_point = _fit_points(axis, points, epsilons, options)
            for point, columns in zip(points, by_point, strict=True):
                for epsilon in epsilons:
                    lines += [
                        _error_line(axis, point, columns, epsilon=epsilon, calibration=calibration)
                        for calibration in CALIBRATIONS
                    ]
            progress_bar.update(len(values) * options.samples)
    return lines


def _fit_points(
    axis: str, points: list[dict], epsilons: Sequence[float], options: argparse.Namespace
) -> list[dict[str, np.ndarray]]:
    """For each point, the columns of its fits on all samples."""
    grid = {**BOOSTING, "epsilon": epsilons, "calibration": CALIBRATIONS}
    name = f"halfspaces_{axis}"
    sweep = sweeps.Sweep(name, recipes.halfspace_boost, (grid,), options.keys, options.seed)
    tasks = [
        sample_task(f"{p}-{s}", (options.seed, s, p), **point)
        for p, point in enumerate(points)
        for s in range(options.samples)
    ]

    return fit_columns_by_point(sweep, tasks, options.samples)


def fit_columns_by_point(
    sweep: sweeps.Sweep, tasks: list[sweeps.Task], samples: int
) -> list[dict[str, np.ndarray]]:
    """The columns of the fits of a sweep on the samples of each point, which follow each other."""
    with tempfile.TemporaryDirectory() as folder:
        sweeps.run(sweep, tasks, Path(folder))
        columns = [sweeps.load_columns(Path(folder) / f"{task.name}.jsonl")[0] for task in tasks]
    by_point = (columns[start : start + samples] for start in range(0, len(columns), samples))
    return [
        {name: np.concatenate([sample[name] for sample in point]) for name in point[0]}
        for point in by_point
    ]


def mean_test_error(columns: Mapping[str, np.ndarray], **setting: Any) -> Line:
    """The mean and deviation of the test errors of the fits of a setting, and their number."""
    values = {
        name: str(value) if value is True or value is False else value
        for name, value in setting.items()
    }
    is_of_setting = np.all([columns[name] == value for name, value in values.items()], axis=0)
    test = columns["test_error"][is_of_setting].astype(float)
    spread = float(test.std(ddof=1)) if len(test) > 1 else 0.0
    return {
        "test_error_mean": float(test.mean()),
        "test_error_sd": spread,
        "train_error_mean": float(columns["train_error"][is_of_setting].astype(float).mean()),
        "fits": len(test),
    }


def _error_line(axis: str, point: dict, columns: dict, *, epsilon: float, calibration: str) -> Line:
    rows = None
    if np.isfinite(epsilon):
        rows = smooth_bounds.theorem_30_rows(
            alpha=ALPHA, beta=BETA, tau=point["tau"], epsilon=epsilon, delta=DELTA
        ).total
    setting = {"epsilon": epsilon, "calibration": calibration}
    line = {"axis": axis, **point, **setting, **mean_test_error(columns, **setting)}
    return {**line, "theorem_rows": rows and round(rows)}


class Sample(NamedTuple):
    """Training rows, then test rows, and the target u f64[d] from which they have a margin."""

    table: Table
    target: np.ndarray


def draw_sample(
    seed: Sequence[int],
    *,
    rows: int,
    tau: float,
    noise: float,
    tests: int = TEST_ROWS,
    dimension: int = DIMENSION,
) -> Sample:
    """Rows with a margin of tau.

    A row is x = y m u + y a c w + r. The margin m is uniform in [tau, 2 tau], and c = SPURIOUS. The
    sign a is 1 with probability AGREEING, and else -1. The direction w is orthogonal to u. The rest
    r is uniform in the orthogonal complement of u and w, and makes x a unit vector; in two
    dimensions there is none.

    Args:
        seed: the seed of all draws.
        rows: the number of training rows.
        tau: the margin, in (0, 0.4].
        noise: the probability that a training row's label is flipped.
        tests: the number of test rows, which have clean labels.
        dimension: d, at least 2.

    Raises:
        ValueError: if the margin leaves no room on the unit sphere.
    """
    if not 0 < tau <= 0.4:
        raise ValueError(f"tau must be in (0, 0.4], got {tau}")
    rng, count = np.random.default_rng(seed), rows + tests
    basis = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    sign = rng.choice([-1.0, 1.0], count)
    margin = rng.uniform(tau, 2 * tau, count)
    agrees = np.where(rng.random(count) < AGREEING, SPURIOUS, -SPURIOUS)
    rest = rng.normal(size=(count, dimension - 2))
    if dimension > 2:
        rest *= (np.sqrt(1 - margin**2 - SPURIOUS**2) / np.linalg.norm(rest, axis=1))[:, None]
    features = np.column_stack([sign * margin, sign * agrees, rest]) @ basis.T

    is_flipped = (rng.random(count) < noise) & (np.arange(count) < rows)
    label = jnp.asarray((sign > 0) ^ is_flipped)
    table = Table(jnp.asarray(features, jnp.float32), label, jnp.ones(count, bool))
    return Sample(table, basis[:, 0])
