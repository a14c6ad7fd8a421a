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

import numpy as np

from experiments.common import commands, results
from experiments.common.progress import progress
from experiments.papers.bojarski_2014 import lines, settings, tables
from experiments.papers.bojarski_2014.grid import measure_errors, noise_scales
from experiments.papers.bojarski_2014.rows import Study, add_options, configuration, study_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser)
    words = "also measure the series of errors by eta (Figures 2, 4, ...)"
    parser.add_argument("--eta", action="store_true", help=words)
    commands.add_shared(
        parser,
        out=results.results_folder(settings.NAME),
        json="print Table 1's lines as a JSON list",
    )


def run(options: argparse.Namespace) -> None:
    """Measure and save; print Table 1."""
    names = [options.dataset] if options.dataset else settings.DATASETS
    for name in names:
        _save_data_set(name, options)
    out = commands.out_folder(options)
    tables.print_table_1(out, names, options.json)
    if options.json:
        return
    if not options.dataset:
        print("quantum is left out: its data could not be obtained; ", end="")
        print("--dataset quantum reads your own copy")
    print(f"wrote {out}")


def _save_data_set(name: str, options: argparse.Namespace) -> None:
    """Measure one data set, and write its series and its lines of Table 1 (CART last)."""
    study = study_of(name, options)
    rows, attributes = study.table.bins.shape
    grid, by_eta, seconds = _measure_series(study, options)

    numbers, target = np.asarray(study.table.bins), np.asarray(study.table.target)
    cart = lines.cart_test_error(numbers, target, study.runs)
    best = lines.table_1_lines(name, grid, rows)
    best.append(lines.table_1_line(name, False, "cart", cart, settings.PAPER[name][0], rows))

    config = {
        **configuration(study, options),
        **settings.ANALYSIS,
        "sure": settings.SURE,
        "seconds": round(seconds, 2),
    }
    for suffix, part in (("", grid), ("_eta", by_eta), ("_table", best)):
        if part:
            results.write_csv(commands.out_folder(options) / f"{name}{suffix}.csv", part, config)
    if not options.json:
        eta = f"eta = {settings.BUDGET / study.trained:.4g}"
        words = f"{rows} rows, {attributes} attributes, {eta}, {seconds:.1f} s"
        print(f"{name}: {words}", file=sys.stderr)


def _measure_series(
    study: Study, options: argparse.Namespace
) -> tuple[list[results.Line], list[results.Line], float]:
    """The series of the grid, the series by eta (with --eta), and the seconds of the grid."""
    rows, unit = len(study.table.target), settings.BUDGET / study.trained
    main = settings.SMOKE if options.smoke else settings.SETTINGS
    grids = [(eta, main) for eta in (np.inf, unit)]
    if options.eta:
        extra = _eta_grid(rows, options.smoke)
        grids += [(factor * unit, extra) for factor in extra["factors"]]

    grid, by_eta, start, seconds = [], [], time.perf_counter(), 0.0
    total = len(study.runs) * len(grids)
    with progress(total, "run", study.name, quiet=options.json) as shown:
        for eta, axes in grids:
            heights, sizes = axes["heights"], axes["trees"]
            scales = noise_scales(eta, sizes, rows)
            errors = measure_errors(
                study.table, study.runs, scales, heights, sizes, options.seed, shown
            )
            private = bool(eta < np.inf)
            new = lines.series_lines(errors, private, eta, study.trained, heights, sizes)
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
