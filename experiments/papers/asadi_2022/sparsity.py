"""How many features LazyBB uses, beside Asadi et al. (2022), Tables 5-7: a measure of how much noise was there.

"doubled" is the published exponent eps kappa n / (4 tau) times two, which is still eps-DP (`docs/privacy.md`, 8); the
tight calibration has that and measures weights in units of a public cap, too.
"""

import argparse
import dataclasses

import jax
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.base import UNSPLIT, Array, Recipe, Table
from dpbt.tables import take
from experiments.papers.asadi_2022.settings import EPSILONS, FEATURE_COUNTS, ROUNDS, load, settings

SERIES = (
    ("published", 1, "published"),
    ("doubled", 2, "published"),
    ("tight", 1, "tight"),
    ("no_privacy", np.inf, "tight"),
)


@jax.jit
def chosen_splits(keys: Array, table: Table, recipe: Recipe) -> Array:
    """i32[keys, T]: the split of every 1-rule."""
    return jax.vmap(lambda key: dpbt.boost(key, table, recipe).hypotheses.split[:, 0])(keys)


def lines(dataset: str, options: argparse.Namespace) -> list[dict]:
    """A line for each epsilon of the tables: distinct features, the mean over keys, by series, and printed."""
    table, test, _ = load(dataset, options.features, options.data)
    if test is not None:
        table = take(table, ~test)
    rows, capacity = table.target.shape[0], max(ROUNDS[dataset])
    keys = jax.random.split(jax.random.key(options.seed), options.keys)
    found = []
    for epsilon, printed in zip(EPSILONS, FEATURE_COUNTS[dataset], strict=True):
        chosen = settings(dataset, epsilon)
        line = {"dataset": dataset, "epsilon": epsilon, "rounds": chosen["rounds"], "paper": printed}
        for name, factor, calibration in SERIES:
            recipe = recipes.lazybb_rules(epsilon=factor * epsilon, rows=rows, calibration=calibration, **chosen)
            recipe = dataclasses.replace(recipe, capacity=capacity)  # one program for all numbers of rounds
            splits = np.asarray(chosen_splits(keys, table, recipe))[:, : chosen["rounds"]]
            line[name] = float(np.mean([len(np.unique(own[own != UNSPLIT])) for own in splits]))
        found.append(line)
    return found
