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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_budget_options(parser)
    words = "search the grid of Table 1 for trees as it is printed"
    parser.add_argument("--printed", action="store_true", help=words)
    add_shared_options(parser, ["adult"])
    add_folds_option(parser)


def run_command(options: argparse.Namespace) -> None:
    """Select and measure; write all lines and the selected ones, and print the selected ones."""
    all_lines, selected = [], []
    for dataset in options.dataset:
        for epsilon in options.epsilon:
            lines = _search_grid(dataset, epsilon, options)
            all_lines += lines
            for calibration in CALIBRATIONS:
                candidates = results.where(lines, calibration=calibration)
                selected.append(_measure_best(candidates, options))

    out = commands.out_folder(options)
    config = {"features": options.features, "folds": options.folds}
    results.write_csv(out / "grid.csv", all_lines, config)
    results.write_csv(out / "selected.csv", selected, config)
    tables.print_table(out, "selected", as_json=options.json)


def _search_grid(dataset: str, epsilon: float, options: argparse.Namespace) -> list[results.Line]:
    """The lines of the grid in both calibrations, cross-validated with one key."""
    axes = {"epsilon": (epsilon,), "delta": (options.delta,), "learner": (options.learner,)}
    blocks = [
        {
            **axes,
            **searched_axes(options.learner, calibration, printed=options.printed),
            "calibration": (calibration,),
        }
        for calibration in CALIBRATIONS
    ]
    seed = options.seed + SELECTION_SEED
    job = make_job(dataset, blocks, options, cross_validated=True, keys=1, seed=seed)
    accuracy = fit_job(job, quiet=options.json).accuracy
    return accuracy_lines(job, accuracy, comparable=False)


def _measure_best(candidates: list[results.Line], options: argparse.Namespace) -> results.Line:
    """The setting of the best of the lines of one data set and calibration, with all keys."""
    best = max(candidates, key=lambda line: line["accuracy_mean"])
    axes = searched_axes(options.learner, best["calibration"], printed=options.printed)
    block = single_setting_block(
        epsilon=best["epsilon"],
        delta=options.delta,
        learner=options.learner,
        calibration=best["calibration"],
        **{axis: best[axis] for axis in axes},
    )
    job = make_job(best["dataset"], [block], options)
    accuracy = fit_job(job, quiet=options.json).accuracy
    (line,) = accuracy_lines(job, accuracy, comparable=options.features == "intervals")
    return {**line, "selected_by": best["accuracy_mean"], "of": len(candidates)}
