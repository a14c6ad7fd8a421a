"""Count the features that LazyBB uses, beside Tables 5-7.

Their number measures the noise. "doubled" is twice the published exponent eps kappa n / (4 tau),
and is still eps-DP (`docs/privacy.md`, 8). The tight calibration has the same exponent, and also
measures weights in units of a public cap.
"""

import argparse
import dataclasses
from typing import NamedTuple

import jax
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.types import UNSPLIT, Array, Recipe, Table
from experiments.common import aggregated, commands, results
from experiments.papers.asadi_2022 import tables
from experiments.papers.asadi_2022.features import load_features, take_training_rows
from experiments.papers.asadi_2022.jobs import add_shared_options, mean_and_sd_columns
from experiments.papers.asadi_2022.settings import (
    DATASETS,
    EPSILONS,
    NAME,
    RELATION,
    ROUNDS,
    printed_settings,
)


class Series(NamedTuple):
    """A column of counts: its name, the multiple of epsilon, and the calibration."""

    name: str
    epsilon_factor: float
    calibration: str


SERIES = (
    Series("published", 1, "published"),
    Series("doubled", 2, "published"),
    Series("tight", 1, "tight"),
    Series("no_privacy", np.inf, "tight"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_shared_options(parser, DATASETS)


def run_command(options: argparse.Namespace) -> None:
    """Count features by epsilon; write the lines, and print them."""
    lines = [line for dataset in options.dataset for line in sparsity_lines(dataset, options)]
    config = {"features": options.features, "keys": options.keys, "seed": options.seed}
    results.write_csv(commands.out_folder(options) / "sparsity.csv", lines, config)
    tables.print_table(commands.out_folder(options), "sparsity", as_json=options.json)


@jax.jit
def chosen_splits(keys: Array, table: Table, recipe: Recipe) -> Array:
    """i32[keys, T]: the split of every 1-rule."""
    return jax.vmap(lambda key: dpbt.boost(key, table, recipe).hypotheses.split[:, 0])(keys)


def sparsity_lines(dataset: str, options: argparse.Namespace) -> list[results.Line]:
    """A line for each epsilon of the tables: distinct features by series, and the printed number.

    Args:
        dataset: the data set's name.
        options: `features`, `keys`, `seed` and `data` are read; counts are means over keys.
    """
    table, test, _ = load_features(dataset, options.features, options.data)
    table = take_training_rows(table, test)
    rows, max_rounds = table.target.shape[0], max(ROUNDS[dataset])
    keys = jax.random.split(jax.random.key(options.seed), options.keys)
    (row,) = [
        aggregated.printed_numbers(NAME, row)
        for row in ("table-5", "table-6", "table-7")
        if aggregated.printed_numbers(NAME, row)[0].setting["dataset"] == dataset
    ]
    lines = []
    for epsilon, printed in zip(EPSILONS, row, strict=True):
        settings = printed_settings(dataset, epsilon)
        rounds = settings["rounds"]
        line = {"dataset": dataset, "epsilon": epsilon, "rounds": rounds, "paper": printed.number}
        for name, factor, calibration in SERIES:
            budget = {"epsilon": factor * epsilon, "rows": rows, "calibration": calibration}
            recipe = recipes.lazybb_rules(**budget, **settings, relation=RELATION)
            # One program serves all numbers of rounds.
            recipe = dataclasses.replace(recipe, max_rounds=max_rounds)
            splits = np.asarray(chosen_splits(keys, table, recipe))[:, :rounds]
            counts = mean_and_sd_columns(
                "", [len(np.unique(used[used != UNSPLIT])) for used in splits]
            )
            line |= {name: counts["_mean"], f"{name}_sd": counts["_sd"]}
        lines.append(line)
    return lines
