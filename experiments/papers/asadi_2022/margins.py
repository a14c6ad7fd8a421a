"""Measure Figure 1 and the bounds of Table 11.

Figure 1 has the advantage of each round on Adult at epsilon 1, and the margins of its rows. It
takes kappa = 1/2, gamma = 1/20 and lambda = gamma / 4, as the text does. The text has no number of
rounds for the budget; here there are 500, twice those after which it sees the advantage fail.

Table 11 has the accuracy that margins and Rademacher complexity prove, at the settings of Tables
8-10 and epsilon 1.
"""

import argparse
from typing import NamedTuple

import jax
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.data.splits import satisfied_splits
from dpbt.types import Array, Table
from experiments.common import commands, diagnostics, results, smooth_bounds
from experiments.papers.asadi_2022 import tables
from experiments.papers.asadi_2022.features import load_features, take_training_rows
from experiments.papers.asadi_2022.jobs import add_shared_options, mean_and_sd_columns
from experiments.papers.asadi_2022.settings import (
    CALIBRATIONS,
    DATASETS,
    FIGURE_1,
    RELATION,
    printed_settings,
)

BOUND_KEYS, COMPLEXITY_DRAWS, HISTOGRAM_BINS = 5, 32, 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_shared_options(parser, DATASETS)
    parser.set_defaults(keys=10)
    commands.add_shared(parser, smoke=True)


def run_command(options: argparse.Namespace) -> None:
    """Measure advantages, margins and bounds; write them, and print the bounds."""
    out = commands.out_folder(options)
    config = {"features": options.features, "seed": options.seed}
    advantages, histogram = figure_1_lines(options)
    setting = {**FIGURE_1, "rounds": _num_rounds(options), "keys": options.keys}
    results.write_csv(out / "advantages.csv", advantages, {**config, **setting})
    results.write_csv(out / "histogram.csv", histogram, {**config, **setting})
    bounds = [line for name in options.dataset for line in bound_lines(name, options)]
    results.write_csv(out / "bounds.csv", bounds, {**config, "epsilon": 1.0})
    tables.print_table(out, "bounds", as_json=options.json)


def _num_rounds(options: argparse.Namespace) -> int:
    return 20 if options.smoke else FIGURE_1["rounds"]


class BoostedRun(NamedTuple):
    """One run: the advantage of each round f32[T], and the scores f32[N]."""

    advantages: Array
    scores: Array


@jax.jit
def measure_boosted_run(key: Array, table: Table, recipe: dpbt.Recipe) -> BoostedRun:
    """The advantages and the scores of one run."""
    boosted = dpbt.boost(key, table, recipe)
    advantages = diagnostics.advantages(boosted.transcript, table, recipe)
    return BoostedRun(advantages, boosted.scores)


class Figure1Lines(NamedTuple):
    """The lines of advantages by round, and those of the histogram of margins."""

    advantages: list[results.Line]
    histogram: list[results.Line]


def figure_1_lines(options: argparse.Namespace) -> Figure1Lines:
    """The lines of Figure 1 in both calibrations."""
    table, test, _ = load_features("adult", options.features, options.data)
    table = take_training_rows(table, test)
    sign = np.where(np.asarray(table.target), 1.0, -1.0)
    rounds, advantages, histogram = _num_rounds(options), [], []
    for calibration in CALIBRATIONS:
        setting = {**FIGURE_1, "rounds": rounds, "calibration": calibration}
        gamma = setting.pop("gamma")
        setting |= {"rows": len(sign), "relation": RELATION, "learning_rate": gamma / 4}
        recipe = recipes.lazybb_rules(**setting)
        keys = jax.random.split(jax.random.key(options.seed), options.keys)
        runs = [jax.tree.map(np.asarray, measure_boosted_run(key, table, recipe)) for key in keys]
        curves = np.stack([run.advantages for run in runs])
        shape = {"mean": curves.mean(0), "least": curves.min(0), "most": curves.max(0)}
        advantages += [
            {"calibration": calibration, "round": k + 1}
            | {name: float(values[k]) for name, values in shape.items()}
            for k in range(rounds)
        ]
        margins = np.concatenate([sign * run.scores / rounds for run in runs])
        share, edges = diagnostics.margin_histogram(margins, HISTOGRAM_BINS)
        histogram += [
            {
                "calibration": calibration,
                "low": float(edges[k]),
                "high": float(edges[k + 1]),
                "share": float(share[k]),
            }
            for k in range(len(share))
        ]
    return Figure1Lines(advantages, histogram)


def bound_lines(name: str, options: argparse.Namespace) -> list[results.Line]:
    """The accuracies that margins prove on a data set, in both calibrations."""
    table, test, _ = load_features(name, options.features, options.data)
    table = take_training_rows(table, test)
    key = jax.random.key(options.seed)
    complexity, _ = diagnostics.rademacher_complexity(
        key, satisfied_splits(table), COMPLEXITY_DRAWS
    )
    num_keys = 2 if options.smoke else BOUND_KEYS
    keys, lines = jax.random.split(key, num_keys), []
    for calibration in CALIBRATIONS:
        setting = {**printed_settings(name, 1.0), "calibration": calibration, "relation": RELATION}
        recipe = recipes.lazybb_rules(epsilon=1.0, rows=len(table.target), **setting)
        models = [dpbt.fit(key, table, recipe) for key in keys]
        bounds = [
            smooth_bounds.margin_accuracy(
                diagnostics.margins(model, table, table.target), complexity
            )
            for model in models
        ]
        line = {"dataset": name, "calibration": calibration, **mean_and_sd_columns("bound", bounds)}
        lines.append({**line, "complexity": complexity})
    return lines
