"""Measure the rows that a test error of alpha needs: by dimension, margin and epsilon.

These are runs of the sample sizes of Theorems 1, 2, 30 and 33. HS-StL's own constants ask for
millions of rows and tens of thousands of rounds. So lambda, kappa and the number of rounds are
those of `settings.SLOW_BOOSTING`: lambda is in (0, 1), and rounds grow as 1 / tau^2, as the
theorem's do.

A point has the smallest number of rows at which the test error, its mean over keys, falls to alpha.
It is interpolated in the logarithms between the numbers that were run.
"""

import argparse
import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from dpbt import recipes, sweeps
from dpbt.types import Recipe
from experiments.common import commands, results, tables
from experiments.common.progress import progress
from experiments.common.results import Line
from experiments.papers.bun_2020.errors import add_options, draw_sample, fit_columns_by_point
from experiments.papers.bun_2020.settings import (
    ALPHAS,
    CALIBRATIONS,
    GROWTH_AXES,
    OTHER_SAMPLES,
    RELATION,
    ROUNDS_TIMES_TAU_SQUARED,
    SIZES_AXES,
    SIZES_BASE,
    SIZES_ROWS,
    SIZES_SMOKE,
    SIZES_TEST_ROWS,
    SLOW_BOOSTING,
)

COLUMNS = (
    "axis",
    "dimension",
    "tau",
    "epsilon",
    "clipped",
    "calibration",
    "alpha",
    "sample",
    "rows",
)
"""The columns of `sizes.csv`; `rows` is empty if no number of rows that was run suffices."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, "print the lines as a JSON list")


def run_command(options: argparse.Namespace) -> None:
    """Measure all points; write and print the lines."""
    lines = measure_sizes(SIZES_SMOKE if options.smoke else SIZES_AXES, options)
    config = {name: values[0] for name, values in SLOW_BOOSTING.items()}
    config |= {
        "rounds_times": ROUNDS_TIMES_TAU_SQUARED,
        "test_rows": SIZES_TEST_ROWS,
        "seed": options.seed,
    }
    results.write_csv(commands.out_folder(options) / "sizes.csv", lines, config)
    print(json.dumps(lines, indent=1) if options.json else tables.align_lines(lines, COLUMNS))


def clipped_boost(**arguments: Any) -> Recipe:
    """`recipes.halfspace_boost` with hypotheses clipped to [-1, 1], as Lemma 37 needs them.

    The sum of the rounds is then no halfspace.
    """
    recipe = recipes.halfspace_boost(**arguments)
    halfspaces = recipe.learner.kind
    clipped = dataclasses.replace(
        halfspaces.with_training(bound=lambda _: jnp.float32(1)),
        predict=lambda halfspace, rows: jnp.clip(halfspaces.predict(halfspace, rows), -1, 1),
    )
    learner = dataclasses.replace(recipe.learner, name="clipped halfspace", kind=clipped)
    return dataclasses.replace(recipe, learner=learner)


def measure_sizes(axes: Mapping[str, Sequence[float]], options: argparse.Namespace) -> list[Line]:
    """A line for each point, epsilon, calibration, alpha and sample.

    Args:
        axes: axis -> its values; the other axes are at the base. All but GROWTH_AXES have at most
            OTHER_SAMPLES samples.
        options: `keys`, `samples`, `seed`, `smoke` and `json` are read.
    """
    lines: list[Line] = []
    lines_of_points: dict[tuple, list[Line]] = {}  # the base is on all axes
    with progress(sum(map(len, axes.values())), "point", quiet=options.json) as progress_bar:
        for axis, values in axes.items():
            for value in values:
                name = "dimension" if axis == "clipped" else axis
                point = {**SIZES_BASE, name: value, "clipped": axis == "clipped"}
                place = tuple(point.values())
                if place not in lines_of_points:
                    is_growth = axis in GROWTH_AXES
                    samples = options.samples if is_growth else min(options.samples, OTHER_SAMPLES)
                    lines_of_points[place] = _size_lines(point, samples, options)
                lines += [{"axis": axis, **line} for line in lines_of_points[place]]
                progress_bar.update(1)
    return lines


def _size_lines(point: dict[str, Any], samples: int, options: argparse.Namespace) -> list[Line]:
    """The rows that a point needs, on each sample."""
    tau, dimension = point["tau"], point["dimension"]
    times = (SIZES_BASE["tau"] / tau) ** 2 / min(point["epsilon"], 1.0)
    rows = [round(count * times) for count in SIZES_ROWS]
    rows = rows[2:4] if options.smoke else rows
    epsilons = (point["epsilon"],) if point["clipped"] else (point["epsilon"], math.inf)
    grid = {
        **SLOW_BOOSTING,
        "rounds": (math.ceil(ROUNDS_TIMES_TAU_SQUARED / tau**2),),
        "epsilon": epsilons,
    }
    grid |= {"calibration": CALIBRATIONS, "features": (dimension,)}
    make = clipped_boost if point["clipped"] else recipes.halfspace_boost
    sweep = sweeps.Sweep("halfspaces_sizes", make, (grid,), options.keys, options.seed)
    tasks = [
        _sized_task((options.seed, s), rows=count, capacity=rows[-1], tau=tau, dimension=dimension)
        for s in range(samples)
        for count in rows
    ]
    by_task = fit_columns_by_point(sweep, tasks, 1)
    lines: list[Line] = []
    for s, epsilon, calibration in itertools.product(range(samples), epsilons, CALIBRATIONS):
        errors = [
            _mean_test_error(columns, epsilon=epsilon, calibration=calibration)
            for columns in by_task[s * len(rows) : (s + 1) * len(rows)]
        ]
        setting = {**point, "epsilon": epsilon, "calibration": calibration}
        for alpha in ALPHAS:
            rows_of_alpha = rows_for_error(rows, errors, alpha)
            lines.append({**setting, "alpha": alpha, "sample": s, "rows": rows_of_alpha})
    return lines


def _sized_task(
    seed: Sequence[int], *, rows: int, capacity: int, tau: float, dimension: int
) -> sweeps.Task:
    """A task that trains on the first rows of a sample; those of a point have one shape."""
    table, _ = draw_sample(
        seed, rows=capacity, tau=tau, noise=0.0, tests=SIZES_TEST_ROWS, dimension=dimension
    )
    place = np.arange(capacity + SIZES_TEST_ROWS)[None]
    public = {"rows": rows, "relation": RELATION}
    return sweeps.Task(f"{seed[1]}-{rows}", table, place < rows, place >= capacity, public)


def _mean_test_error(
    columns: Mapping[str, np.ndarray], *, epsilon: float, calibration: str
) -> float:
    """The mean test error over keys."""
    is_of_setting = (columns["epsilon"] == epsilon) & (columns["calibration"] == calibration)
    return float(columns["test_error"][is_of_setting].astype(float).mean())


def rows_for_error(rows: Sequence[int], errors: Sequence[float], alpha: float) -> float | None:
    """The number of rows from which on errors are at most alpha; None if the last one is above.

    It is interpolated between the last number above and the next, where log rows is linear in the
    log of the error. If the first error is within alpha, it is the first number of rows.
    """
    above = [k for k, error in enumerate(errors) if error > alpha]
    if not above:
        return float(rows[0])
    last = above[-1]
    if last == len(rows) - 1:
        return None
    high, low = (math.log(max(errors[k], 1e-4)) for k in (last, last + 1))
    share = (high - math.log(alpha)) / (high - low)
    return math.exp((1 - share) * math.log(rows[last]) + share * math.log(rows[last + 1]))
