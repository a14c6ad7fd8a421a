"""Measure random forests with and without privacy, and save Table 1.

The series of the figures are saved, too. Each of ten runs has another tenth of the rows as test
set. A tenth of the rest is the validation set, which chooses the height and the number of trees. A
random tree of height h is the top of a taller one, and a forest of k trees is part of a larger one.
So one set of 21 trees of height 15 serves the whole grid of a run. Every number of trees has its
own noise on its leaves. scikit-learn's CART with rpart's defaults replaces the paper's rpart.

Private leaves are read in two ways, at the same cost. The reading "zero" takes negative counts as
0. The reading "uniform" is Algorithm 2 as printed: theta is uniform at random where a count is
negative. The paper's private numbers are those of "zero".
"""

import argparse
import sys
import time
from typing import NamedTuple

import numpy as np

from experiments.common import commands, results
from experiments.common.progress import progress
from experiments.papers.bojarski_2014 import lines, settings, tables
from experiments.papers.bojarski_2014.grid import measure_errors, noise_scales
from experiments.papers.bojarski_2014.rows import (
    Study,
    add_options,
    configuration,
    study_of_options,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser)
    words = "also measure the series of errors by eta (Figures 2, 4, ...)"
    parser.add_argument("--eta", action="store_true", help=words)
    commands.add_shared(
        parser,
        out=results.results_folder(settings.NAME),
        json="print Table 1's lines as a JSON list",
    )


def run_command(options: argparse.Namespace) -> None:
    """Measure and save; print Table 1."""
    names = [options.dataset] if options.dataset else settings.DATASETS
    for name in names:
        _save_data_set(name, options)
    out = commands.out_folder(options)
    tables.print_table_1(out, names, as_json=options.json)
    if options.json:
        return
    if not options.dataset:
        print("quantum is left out: its data could not be obtained; ", end="")
        print("--dataset quantum reads your own copy")
    print(f"wrote {out}")


def _save_data_set(name: str, options: argparse.Namespace) -> None:
    """Measure one data set, and write its series and its lines of Table 1 (CART last)."""
    study = study_of_options(name, options)
    rows, attributes = study.table.bins.shape
    series = _measure_series(study, options)

    positions, target = np.asarray(study.table.bins), np.asarray(study.table.target)
    cart = lines.cart_test_error(positions, target, study.runs)
    table = lines.table_1_lines(name, series.grid, rows)
    table.append(
        lines.table_1_line(
            name,
            private=False,
            voting="cart",
            error=cart,
            paper_error=settings.PAPER_ERRORS[name][0],
            rows=rows,
        )
    )

    config = {
        **configuration(study, options),
        **settings.ANALYSIS,
        "sure": settings.MIN_PROBABILITY,
        "seconds": round(series.seconds, 2),
    }
    files = {name: series.grid, f"{name}_eta": series.by_eta, f"{name}_table": table}
    for file, file_lines in files.items():
        if file_lines:
            results.write_csv(commands.out_folder(options) / f"{file}.csv", file_lines, config)
    if not options.json:
        eta = f"eta = {settings.ETA_TIMES_TRAINING_ROWS / study.num_train:.4g}"
        words = f"{rows} rows, {attributes} attributes, {eta}, {series.seconds:.1f} s"
        print(f"{name}: {words}", file=sys.stderr)


class Series(NamedTuple):
    """The measured series of a data set.

    Attributes:
        grid: the lines of the grid.
        by_eta: those of the series by eta; empty without --eta.
        seconds: the seconds of the grid.
    """

    grid: list[results.Line]
    by_eta: list[results.Line]
    seconds: float


def _measure_series(study: Study, options: argparse.Namespace) -> Series:
    """Measure the series of a data set."""
    rows, unit = len(study.table.target), settings.ETA_TIMES_TRAINING_ROWS / study.num_train
    main = settings.SMOKE if options.smoke else settings.SETTINGS
    grids = [(eta, main) for eta in (np.inf, unit)]
    if options.eta:
        extra = _eta_grid(rows, smoke=options.smoke)
        grids += [(factor * unit, extra) for factor in extra["factors"]]

    grid, by_eta, start, seconds = [], [], time.perf_counter(), 0.0
    total = len(study.runs) * len(grids)
    with progress(total, "run", study.name, quiet=options.json) as progress_bar:
        for eta, axes in grids:
            heights, sizes = axes["heights"], axes["trees"]
            errors = measure_errors(
                study.table,
                study.runs,
                scales=noise_scales(eta, sizes, rows),
                heights=heights,
                sizes=sizes,
                seed=options.seed,
                progress_bar=progress_bar,
            )
            forests = lines.ForestGrid(
                eta=eta, num_train=study.num_train, heights=heights, sizes=sizes
            )
            new_lines = lines.series_lines(errors, forests)
            if axes is main:
                grid += new_lines
                seconds = time.perf_counter() - start
            else:
                by_eta += new_lines
    return Series(grid, by_eta, seconds)


def _eta_grid(rows: int, *, smoke: bool) -> dict:
    if smoke:
        return settings.ETA_SMOKE
    fewer_trees = {"trees": settings.FEWER_TREES} if rows > settings.LARGE else {}
    return {**settings.ETA_SERIES, **fewer_trees}
