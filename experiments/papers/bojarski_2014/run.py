"""Measure random forests with and without privacy, and save Table 1.

Saved are the series of the figures, too. There are ten runs, each with another tenth of the rows as
test set and a tenth of the rest as validation set, which chooses height and number of trees. A
random tree of height h is the top of a taller one and a forest of k trees is part of a larger one,
so one set of 21 trees of height 15 serves the whole grid of a run; every number of trees has its
own noise on its leaves. The paper's rpart is replaced by scikit-learn's CART with rpart's defaults.

Private leaves are read in two ways, at the same cost: "zero" takes negative counts as 0, "uniform"
is Algorithm 2 as printed, theta uniform at random where a count is negative. The paper's private
numbers are those of "zero".
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from experiments.common import commands, results
from experiments.papers.bojarski_2014 import lines, settings, table
from experiments.papers.bojarski_2014.grid import grid_scales, measure
from experiments.papers.bojarski_2014.rows import Task, add_options, configuration, task_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser)
    words = "also the series of error by eta (Figures 2, 4, ...)"
    parser.add_argument("--eta", action="store_true", help=words)
    commands.add_out(parser, results.folder(settings.NAME))
    commands.add_json(parser, "print Table 1's lines as a JSON list")


def run(options: argparse.Namespace) -> None:
    """Measure and save; print Table 1."""
    names = [options.dataset] if options.dataset else settings.DATASETS
    for name in names:
        _save(name, options)
    table.show(Path(options.out), names, options.json)
    if options.json:
        return
    if not options.dataset:
        print("quantum is not among them: its data could not be obtained; ", end="")
        print("--dataset quantum reads a copy of your own")
    print(f"wrote {options.out}")


def _save(name: str, options: argparse.Namespace) -> None:
    """Measure one data set, and write its series and its lines of Table 1 (CART last)."""
    task = task_of(name, options)
    rows, attributes = task.table.cells.shape
    grid, by_eta, seconds = _measure(task, options)

    numbers, target = np.asarray(task.table.cells), np.asarray(task.table.target)
    cart = lines.cart_error(numbers, target, task.runs)
    best = lines.table_lines(name, grid, rows)
    best.append(lines.table_line(name, False, "cart", cart, settings.PAPER[name][0], rows))

    config = {
        **configuration(task, options),
        **settings.ANALYSIS,
        "sure": settings.SURE,
        "seconds": round(seconds, 2),
    }
    for suffix, part in (("", grid), ("_eta", by_eta), ("_table", best)):
        if part:
            results.write_csv(Path(options.out) / f"{name}{suffix}.csv", part, config)
    if not options.json:
        eta = f"eta = {settings.BUDGET / task.trained:.4g}"
        words = f"{rows} rows, {attributes} attributes, {eta}, {seconds:.1f} s"
        print(f"{name}: {words}", file=sys.stderr)


def _measure(
    task: Task, options: argparse.Namespace
) -> tuple[list[results.Line], list[results.Line], float]:
    """The series of the grid, those by eta if asked for, and the seconds that the grid took."""
    rows, unit = len(task.table.target), settings.BUDGET / task.trained
    main = settings.SMOKE if options.smoke else settings.SETTINGS
    grids = [(eta, main) for eta in (np.inf, unit)]
    if options.eta:
        extra = _eta_grid(rows, options.smoke)
        grids += [(factor * unit, extra) for factor in extra["factors"]]

    grid, by_eta, start, seconds = [], [], time.perf_counter(), 0.0
    total = len(task.runs) * len(grids)
    with tqdm(total=total, unit="run", desc=task.name, disable=options.json) as progress:
        for eta, axes in grids:
            heights, sizes = axes["heights"], axes["trees"]
            scales = grid_scales(eta, sizes, rows)
            found = measure(task.table, task.runs, scales, heights, sizes, options.seed, progress)
            private = bool(eta < np.inf)
            new = lines.series(found, private, eta, task.trained, heights, sizes)
            if axes is main:
                grid += new
                seconds = time.perf_counter() - start
            else:
                by_eta += new
    return grid, by_eta, seconds


def _eta_grid(rows: int, smoke: bool) -> dict:
    if smoke:
        return settings.ETA_SMOKE
    thin = {"trees": settings.THIN} if rows > settings.LARGE else {}
    return {**settings.ETA_SERIES, **thin}
