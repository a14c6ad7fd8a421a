"""Test and training errors of private halfspaces, along each axis around the base."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dpbt import recipes
from dpbt.sweeps import plan, runner, storage
from experiments.common import smooth_bounds
from experiments.common.progress import progress
from experiments.common.results import Line
from experiments.papers.bun_2020.samples import sample
from experiments.papers.bun_2020.settings import (
    ALPHA,
    BASE,
    BETA,
    BOOSTING,
    CALIBRATIONS,
    DELTA,
    EPSILON,
    RELATION,
)


def task(name: str, seed: Sequence[int], rows: int, tau: float, noise: float) -> plan.Task:
    """One sample as a task with one evaluation. The number of training rows is public."""
    table, _ = sample(seed, rows, tau, noise)
    train = np.arange(table.target.shape[0])[None] < rows
    return plan.Task(name, table, train, ~train, {"rows": rows, "relation": RELATION})


def measure(axes: dict, options: argparse.Namespace) -> list[Line]:
    """A line for each point, epsilon and calibration; an infinite epsilon is without privacy.

    Args:
        axes: axis -> its values; the other axes are at the base.
        options: `keys`, `samples`, `seed` and `json` are read.
    """
    lines = []
    count = sum(len(values) for values in axes.values()) * options.samples
    with progress(count, "task", quiet=options.json) as shown:
        for axis, values in axes.items():
            epsilons = values if axis == "epsilon" else (EPSILON, float("inf"))
            points = [BASE] if axis == "epsilon" else [{**BASE, axis: value} for value in values]
            found = _fit(axis, points, epsilons, options)
            for point, columns in zip(points, found, strict=True):
                for epsilon in epsilons:
                    lines += [_line(axis, point, columns, epsilon, c) for c in CALIBRATIONS]
            shown.update(len(values) * options.samples)
    return lines


def _fit(
    axis: str, points: list[dict], epsilons: Sequence[float], options: argparse.Namespace
) -> list[dict[str, np.ndarray]]:
    """For each point, the columns of its fits on all samples."""
    grid = {**BOOSTING, "epsilon": epsilons, "calibration": CALIBRATIONS}
    name = f"halfspaces_{axis}"
    sweep = plan.Sweep(name, recipes.halfspace_boost, (grid,), options.keys, options.seed)
    work = [
        task(f"{p}-{s}", (options.seed, s, p), **point)
        for p, point in enumerate(points)
        for s in range(options.samples)
    ]

    with tempfile.TemporaryDirectory() as folder:
        runner.run(sweep, work, Path(folder))
        found = [storage.load_columns(Path(folder) / f"{one.name}.npz")[0] for one in work]

    starts = range(0, len(found), options.samples)
    by_point = [found[start : start + options.samples] for start in starts]
    return [_joined(own) for own in by_point]


def _joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _line(axis: str, point: dict, columns: dict, epsilon: float, calibration: str) -> Line:
    chosen = (columns["epsilon"] == epsilon) & (columns["calibration"] == calibration)
    test, train = (columns[name][chosen].astype(float) for name in ("test_error", "train_error"))
    rows = None
    if np.isfinite(epsilon):
        rows = smooth_bounds.halfspace_rows(ALPHA, BETA, point["tau"], epsilon, DELTA)["total"]
    return {
        "axis": axis,
        **point,
        "epsilon": epsilon,
        "calibration": calibration,
        "test_error_mean": float(test.mean()),
        "test_error_sd": float(test.std(ddof=1)) if len(test) > 1 else 0.0,
        "train_error_mean": float(train.mean()),
        "fits": len(test),
        "theorem_rows": rows and round(rows),
    }
