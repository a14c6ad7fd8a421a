"""Select settings from Table 1's grid, and measure the best of each calibration.

Selection cross-validates the training rows with one key. The selected setting is then measured with
all keys, on the test rows or in new folds. Selection costs privacy that no ledger covers.
"""

import argparse

from experiments.common import commands, results
from experiments.papers.asadi_2022 import tables
from experiments.papers.asadi_2022.jobs import (
    accuracy_lines,
    add_budget_options,
    add_folds_option,
    add_shared_options,
    fit_job,
    make_job,
    single_setting_block,
)
from experiments.papers.asadi_2022.settings import CALIBRATIONS, SELECTION_SEED, searched_axes


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_budget_options(parser)
    words = "search the grid of Table 1 for trees as it is printed"
    parser.add_argument("--printed", action="store_true", help=words)
    add_shared_options(parser, ["adult"])
    add_folds_option(parser)


def run(options: argparse.Namespace) -> None:
    """Select and measure; write all lines and the selected ones, and print the selected ones."""
    tried, selected = [], []
    for dataset in options.dataset:
        for epsilon in options.epsilon:
            lines = _search_grid(dataset, epsilon, options)
            tried += lines
            for calibration in CALIBRATIONS:
                candidates = [line for line in lines if line["calibration"] == calibration]
                selected.append(_measure_best(dataset, epsilon, calibration, candidates, options))

    out, config = (
        commands.out_folder(options),
        {"features": options.features, "folds": options.folds},
    )
    results.write_csv(out / "grid.csv", tried, config)
    results.write_csv(out / "selected.csv", selected, config)
    tables.print_table(out, "selected", options.json)


def _search_grid(dataset: str, epsilon: float, options: argparse.Namespace) -> list[results.Line]:
    """The lines of the grid in both calibrations, cross-validated with one key."""
    axes = {"epsilon": (epsilon,), "delta": (options.delta,), "learner": (options.learner,)}
    blocks = [
        {
            **axes,
            **searched_axes(options.learner, calibration, options.printed),
            "calibration": (calibration,),
        }
        for calibration in CALIBRATIONS
    ]
    seed = options.seed + SELECTION_SEED
    work = make_job(dataset, blocks, options, cross_validated=True, keys=1, seed=seed)
    return accuracy_lines(work, fit_job(work, options.json)[0], comparable=False)


def _measure_best(
    dataset: str,
    epsilon: float,
    calibration: str,
    tried: list[results.Line],
    options: argparse.Namespace,
) -> results.Line:
    """The best of the lines, measured with all keys."""
    best = max(tried, key=lambda line: line["accuracy_mean"])
    chosen = {
        axis: best[axis] for axis in searched_axes(options.learner, calibration, options.printed)
    }
    blocks = [single_setting_block(epsilon, options.delta, options.learner, calibration, chosen)]
    work = make_job(dataset, blocks, options)
    comparable = options.features == "intervals"
    line = accuracy_lines(work, fit_job(work, options.json)[0], comparable)[0]
    return {**line, "selected_by": best["accuracy_mean"], "of": len(tried)}
