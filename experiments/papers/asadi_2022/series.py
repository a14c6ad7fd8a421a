"""Measure accuracy by epsilon: the plots of Table 2, or Figure 2 or 3 (Adult, two deltas).

Table 2 has all data sets under the protocol of `run`. Figures 2 and 3 cross-validate Adult's
training rows, with and without a delta; Figure 2 fixes one setting for all epsilons. The series
`rounds` has Figure 2's setting with other numbers of rounds, and `trees` has top-down trees at one
setting on Adult, under the protocol of Table 2.
"""

import argparse
import itertools
from typing import Any

from experiments.papers.asadi_2022.jobs import (
    add_folds_option,
    add_shared_options,
    measure_accuracies,
    single_setting_block,
)
from experiments.papers.asadi_2022.settings import (
    CALIBRATIONS,
    DATASETS,
    EPSILONS,
    FIGURE_2,
    LEARNERS,
    ROUNDS_SERIES,
    SERIES,
    SERIES_DELTA,
    TREES,
    printed_settings,
)

SERIES_WITH_DELTA = ("fig2", "fig3", "rounds")
"""The series with and without a delta."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("series", choices=SERIES, help="the series to measure")
    words = "weak learner: 1-rules or top-down trees (%(default)s)"
    parser.add_argument("--learner", choices=LEARNERS, default="one_rule", help=words)
    add_shared_options(parser, None)
    add_folds_option(parser)


def run_command(options: argparse.Namespace) -> None:
    """Fit the settings that are not saved yet; write the lines, and print them."""
    default_datasets = DATASETS if options.series == "table2" else ("adult",)
    learner = "top_down" if options.series == "trees" else options.learner
    blocks = {
        dataset: _setting_blocks(dataset, options.series, learner)
        for dataset in options.dataset or default_datasets
    }
    measure_accuracies(
        blocks,
        options,
        options.series,
        cross_validated=options.series in SERIES_WITH_DELTA,
        comparable=options.series == "table2",
    )


def _setting_blocks(dataset: str, series: str, learner: str) -> list[dict[str, tuple]]:
    """One block for each setting of a series."""
    deltas = (0.0, SERIES_DELTA) if series in SERIES_WITH_DELTA else (0.0,)
    if series == "rounds":
        product: Any = itertools.product(*ROUNDS_SERIES.values(), deltas, CALIBRATIONS)
        return [
            single_setting_block(
                epsilon=epsilon,
                delta=delta,
                learner=learner,
                calibration=calibration,
                **{**FIGURE_2, "rounds": rounds},
            )
            for rounds, epsilon, delta, calibration in product
        ]
    blocks = []
    for epsilon, delta, calibration in itertools.product(EPSILONS, deltas, CALIBRATIONS):
        settings = FIGURE_2 if series == "fig2" else printed_settings(dataset, epsilon)
        settings = TREES[calibration] if learner == "top_down" else settings
        blocks.append(
            single_setting_block(
                epsilon=epsilon,
                delta=delta,
                learner=learner,
                calibration=calibration,
                **settings,
            )
        )
    return blocks
