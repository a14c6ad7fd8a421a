"""How often does a stump with noise and its beta_t tell neighbours apart with certainty?

The stump is a release with noise, and the beta_t of section 6's second option is then a function of
the rows without any. Where it differs between two neighbours, the release has probability 0 under
one of them, so the privacy loss is infinite.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.training.boost import boost
from experiments.common import data
from experiments.common.results import Line
from experiments.papers.nock_henecka_2020.options import PAPER_CLIP, READINGS, recipe_of
from experiments.papers.nock_henecka_2020.settings import EPSILONS, SEED

DATASET = "banknote"
TRIALS, SMOKE_TRIALS = 4_000, 100
NEIGHBOURS = {
    "removed": "a row is removed",
    "replaced": "a row is replaced by another row of the data",
    "flipped": "a label is flipped",
}
"""Kind of neighbour -> its words."""


def tell_apart_lines(dataset: data.Dataset, *, smoke: bool = False) -> list[Line]:
    """One line for each epsilon, with the share of trials for each kind of neighbour."""
    trials, lines = SMOKE_TRIALS if smoke else TRIALS, []
    for epsilon in EPSILONS:
        line: Line = {"kind": "told apart", "epsilon": epsilon, "trials": trials}
        lines.append(line | shares_told_apart(dataset, epsilon=epsilon, trials=trials))
    return lines


def shares_told_apart(dataset: data.Dataset, *, epsilon: float, trials: int) -> dict[str, float]:
    """Kind of neighbour -> the share of trials in which beta_t differs, in exact integers.

    A trial draws a stump and a row, and for "replaced" another row. Labels are -1 and 1. All
    weights of the first round are equal, so beta_t is proportional to the sum of y h over rows,
    divided by their number.

    Args:
        dataset: its rows.
        epsilon: the budget of one stump; half of it is for the split.
        trials: how many.
    """
    split, steps = draw_stumps(dataset, epsilon=epsilon, trials=trials)
    rng = np.random.default_rng(SEED)
    row, other = rng.integers(0, len(dataset.label), (2, trials))

    # y h of every row of every trial, in whole steps of the leaves' grid.
    right = dataset.splits[:, split].T
    edge = np.where(dataset.label, 1, -1) * np.where(right, steps[:, 1:], steps[:, :1])
    total, rows = edge.sum(axis=1), edge.shape[1]
    row_edge, other_edge = (
        np.take_along_axis(edge, row_numbers[:, None], 1)[:, 0] for row_numbers in (row, other)
    )
    differs = {
        "removed": (total - row_edge) * rows != total * (rows - 1),
        "replaced": row_edge != other_edge,
        "flipped": row_edge != 0,
    }
    return {kind: float(np.mean(differs[kind])) for kind in NEIGHBOURS}


class Stumps(NamedTuple):
    """Trees of one split.

    Attributes:
        split: i64[trials].
        steps: i64[trials, 2], the noisy leaf values, clamped, in steps of their grid.
    """

    split: np.ndarray
    steps: np.ndarray


def draw_stumps(dataset: data.Dataset, *, epsilon: float, trials: int) -> Stumps:
    """Stumps that are learned from a data set, each with noise of its own."""
    table = dataset.table
    recipe = recipe_of(
        READINGS["second option"],
        epsilon=epsilon,
        rows=len(dataset.label),
        rounds=1,
        depth=1,
        alpha="objective",
        beta_tree=0.5,
    )

    def draw_stump(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        release = boost(key, table, recipe).transcript.rounds
        return release["split_0"][0, 0], release["leaf"][0]

    keys = jax.random.split(jax.random.key(SEED), trials)
    split, leaf = jax.jit(lambda keys: jax.lax.map(draw_stump, keys, batch_size=100))(keys)
    max_steps = round(PAPER_CLIP / float(np.asarray(recipe.params.leaf_step)))
    steps = np.asarray(jnp.clip(leaf, -max_steps, max_steps), np.int64)
    return Stumps(np.asarray(split, np.int64), steps)
