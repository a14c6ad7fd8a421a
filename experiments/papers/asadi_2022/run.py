"""Measure the accuracy of LazyBB at given budgets, beside Tables 4 and 11.

Adult is tested on its own test rows. Cod-RNA (its training file) and Mushroom are cross-validated
in five folds, with other folds for every key; the paper does not say how many folds it has.

Settings are those of Tables 8-10, which were selected on the same data; no ledger covers that
selection. With one data set and one epsilon, a model of 1-rules is printed as a table of votes.
"""

import argparse
import itertools

import jax

import dpbt
from dpbt.data.domains import Boolean
from dpbt.data.splits import satisfied_splits
from dpbt.data.tables import select_rows
from experiments.common import aggregated, commands, diagnostics, smooth_bounds
from experiments.papers.asadi_2022.jobs import (
    Job,
    add_budget_options,
    add_folds_option,
    add_shared_options,
    lazybb_recipe,
    measure_accuracies,
    single_setting_block,
)
from experiments.papers.asadi_2022.settings import CALIBRATIONS, NAME, TREES, printed_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_budget_options(parser)
    words = "use the paper's settings for this epsilon at all epsilons"
    parser.add_argument(
        "--settings-at", type=commands.positive_number, metavar="EPSILON", help=words
    )
    add_shared_options(parser, ["adult"])
    add_folds_option(parser)


def run_command(options: argparse.Namespace) -> None:
    """Fit the settings that are not saved yet; write the lines, and print them."""
    blocks = {dataset: _setting_blocks(dataset, options) for dataset in options.dataset}
    comparable = options.settings_at is None
    jobs, lines = measure_accuracies(blocks, options, "accuracy", comparable=comparable)
    if not options.json and len(lines) == 2 and options.learner == "one_rule":
        _print_model(jobs[0], lines[-1], options.seed)


def _setting_blocks(dataset: str, options: argparse.Namespace) -> list[dict[str, tuple]]:
    blocks = []
    for epsilon, calibration in itertools.product(options.epsilon, CALIBRATIONS):
        settings = printed_settings(dataset, options.settings_at or epsilon)
        if options.learner == "top_down":
            settings = TREES[calibration]
        blocks.append(
            single_setting_block(
                epsilon=epsilon,
                delta=options.delta,
                learner=options.learner,
                calibration=calibration,
                **settings,
            )
        )
    return blocks


def _print_model(job: Job, line: dict, seed: int) -> None:
    """Print one model as a table of votes, and the accuracy that its margins guarantee."""
    key, table = jax.random.key(seed), select_rows(job.task.table, job.task.train[0])
    setting = {axis: line[axis] for axis in job.sweep.settings[0]}
    arguments = {**job.task.arguments, **setting, "rows": len(table.target)}
    model = dpbt.fit(key, table, lazybb_recipe(**arguments))

    votes = diagnostics.count_votes(model, dict.fromkeys(job.words, Boolean()))
    words = diagnostics.format_votes(votes)
    print(f"\none model ({line['calibration']}), {len(votes)} features:\n{words}")

    complexity, _ = diagnostics.rademacher_complexity(key, satisfied_splits(table), 32)
    margins = diagnostics.margins(model, table, table.target)
    bound = smooth_bounds.margin_accuracy(margins, complexity)
    words = f"accuracy proved by its margins and Rademacher complexity {complexity:.4f}"
    print(f"\n{words}: at least {bound:.2f}")
    printed = aggregated.printed_numbers(NAME, "table-11-bound")
    (printed_bound,) = (
        number for setting, number in printed if setting["dataset"] == job.task.name
    )
    print(f"(Table 11, at epsilon 1: {printed_bound})")
