"""How often one noisy stump and its beta_t tell neighbours apart with certainty.

The stump is a release with noise. beta_t is then a function of the rows without any noise. Where it
differs between two neighbours, the release has probability 0 under one of them, so the privacy loss
is infinite.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.boosting import boost
from experiments.common import data, results
from experiments.papers.nock_henecka_2020.reading_settings import READINGS
from experiments.papers.nock_henecka_2020.second_option import recipe
from experiments.papers.nock_henecka_2020.settings import EPSILONS, SEED

DATASET, CLIP = "banknote", 10.0
TRIALS, SMOKE_TRIALS = 4_000, 100
NEIGHBOURS = {
    "removed": "a row is removed",
    "replaced": "a row is replaced by another row of the data",
    "flipped": "a label is flipped",
}
"""Kind of neighbour -> its words."""


def lines(folder: str | None, smoke: bool = False) -> list[results.Line]:
    """One line for each epsilon, with the share of trials for each kind of neighbour."""
    dataset = data.load(DATASET, 10, folder)
    trials = SMOKE_TRIALS if smoke else TRIALS
    return [
        {
            "kind": "told apart",
            "epsilon": epsilon,
            "trials": trials,
            **told_apart(dataset, epsilon, trials),
        }
        for epsilon in EPSILONS
    ]


def told_apart(dataset: data.Dataset, epsilon: float, trials: int) -> dict[str, float]:
    """Kind of neighbour -> the share of trials in which beta_t differs, in exact integers.

    A trial draws a stump and a row, and for "replaced" another row. Labels are -1 and 1. All
    weights of the first round are equal, so beta_t is proportional to the sum of y h over rows,
    divided by their number.

    Args:
        dataset: its rows.
        epsilon: the budget of one stump; half of it is for the split.
        trials: how many.
    """
    split, steps = stumps(dataset, epsilon, trials)
    rng = np.random.default_rng(SEED)
    row, other = rng.integers(0, len(dataset.label), (2, trials))

    # y h of every row of every trial, in whole steps of the leaves' grid.
    right = dataset.splits[:, split].T
    edge = np.where(dataset.label, 1, -1) * np.where(right, steps[:, 1:], steps[:, :1])
    total, rows = edge.sum(axis=1), edge.shape[1]
    own, another = (np.take_along_axis(edge, each[:, None], 1)[:, 0] for each in (row, other))
    differs = {
        "removed": (total - own) * rows != total * (rows - 1),
        "replaced": own != another,
        "flipped": own != 0,
    }
    return {kind: float(np.mean(differs[kind])) for kind in NEIGHBOURS}


def stumps(dataset: data.Dataset, epsilon: float, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits i64[trials], and noisy leaf values i64[trials, 2], clamped, in steps of their grid."""
    noise = READINGS["second option"].noise
    assert noise is not None
    setting = recipe(
        epsilon=epsilon,
        rows=len(dataset.label),
        rounds=1,
        depth=1,
        alpha="objective",
        beta_tree=0.5,
        noise=noise,
        clip=CLIP,
    )

    table = dataset.table

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        release = boost(key, table, setting).transcript.rounds
        return release["split_0"][0, 0], release["leaf"][0]

    keys = jax.random.split(jax.random.key(SEED), trials)
    split, leaf = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=100))(keys)
    most = round(CLIP / float(np.asarray(setting.budget.leaf_step)))
    return np.asarray(split, np.int64), np.asarray(jnp.clip(leaf, -most, most), np.int64)
