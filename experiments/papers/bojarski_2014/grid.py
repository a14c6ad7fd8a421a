"""Errors of forests of every height and number of trees; each run grows one set of trees."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import recipes
from dpbt.learners.forests import learner as forests
from dpbt.privacy import keys, variates
from dpbt.types import Array, Table
from experiments.common import protocols, structures
from experiments.common.progress import Progress

NEGATIVE = forests.NEGATIVE_WEIGHT_RULES
READINGS = (*NEGATIVE, "negative class")
"""The readings of a private leaf's counts by `forests.learner.positive_shares_or_fallback`.

The last is "zero", except that theta = 0 where both counts are 0."""


class Run(NamedTuple):
    """The rows of one run.

    Attributes:
        train: bool[N], the rows that train.
        held_out: i64[M], the indices of validation and test rows, padded.
        validation: bool[M], which of `held_out` are validation rows.
        test: bool[M], which of `held_out` are test rows.
    """

    train: np.ndarray
    held_out: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class Errors(NamedTuple):
    """Errors of one run.

    Attributes:
        validation: f32[readings, votings, trees, heights].
        test: f32[readings, votings, trees, heights].
        accuracy: f32[heights], the average accuracy of trees in training.
    """

    validation: Any
    test: Any
    accuracy: Any


def split_runs(label: np.ndarray, runs: int, seed: int) -> list[Run]:
    """Runs whose test sets are disjoint stratified tenths; a tenth of the rest validates."""
    folds = protocols.stratified_folds(label, max(runs, 10), seed)
    masks = []
    for run in range(runs):
        test = folds == run
        rest = np.random.default_rng((seed, run)).permutation(np.flatnonzero(~test))
        validation = np.zeros(len(label), bool)
        validation[rest[: round(len(rest) / 10)]] = True
        masks.append((~test & ~validation, validation, test))
    capacity = max(int((validation | test).sum()) for _, validation, test in masks)
    padded_runs = []
    for train, validation, test in masks:
        held_out = np.flatnonzero(validation | test)
        padded = np.pad(held_out, (0, capacity - len(held_out)))
        is_row = np.arange(capacity) < len(held_out)
        padded_runs.append(Run(train, padded, validation[padded] & is_row, test[padded] & is_row))
    return padded_runs


def noise_scales(eta, sizes: tuple[int, ...], rows: int) -> np.ndarray:
    """f32[sizes]: the published noise scale of a count, in rows, by the number of trees.

    It is 0 for an infinite eta.
    """
    recipe = recipes.random_forest(
        epsilon=eta, rows=rows, rounds=sizes, depth=1, calibration="published"
    )
    return recipe.params.noise["leaf"]


def leaf_shares(noisy: Array, fallback: Array, reading: str) -> Array:
    """f32[...]: theta from noisy class counts f32[..., 2] by one of READINGS."""
    if reading == READINGS[-1]:
        return forests.positive_shares_or_fallback(noisy, jnp.zeros_like(fallback), "zero")
    return forests.positive_shares_or_fallback(noisy, fallback, reading)


def _add_laplace_noise(key: Array, value: Array, scale: Array) -> Array:
    """f32[...]: the values plus Laplace(scale) noise."""
    bits = keys.random_words(key, variates.EXPONENTIAL_WORDS, value.shape)
    with variates.double_precision():
        size = variates.exponential_variables(bits)
        noise = jnp.where(variates.fair_coins(bits), -size, size).astype(jnp.float32)
    return value + scale * noise


@functools.partial(jax.jit, static_argnames=("heights", "sizes", "readings", "separate"))
def grid_errors(
    key: Array,
    table: Table,
    *,
    held_out: Array,
    masks: Array,
    scales: Array,
    heights: tuple[int, ...],
    sizes: tuple[int, ...],
    readings: tuple[str, ...] = NEGATIVE,
    separate: bool = False,
) -> Errors:
    """Errors of forests of every height and number of trees, by every voting rule.

    The forest of height h and k trees has the distribution of `recipes.random_forest` in the
    published calibration. Its structure is uniform, and its class counts have Laplace noise of that
    k's scale. Theta is uniform where the counts cannot be used. Forests of different h and k share
    structures but not noise; readings share both.

    This is a shortcut for an experiment and not a release. The noise is real Laplace noise in
    float32, and does not come through a weak learner's `draw`. So no ledger counts it, and no
    transcript of it can be replayed or audited. `dpbt.fit` releases forests; a test
    compares the two in distribution, and would notice another scale of the noise.

    Args:
        key: the key of the run.
        table: all rows; the training rows are present.
        held_out: i32[M], the indices of validation and test rows.
        masks: bool[2, M], which of `held_out` are validation rows, and which are test rows.
        scales: f32[sizes], the noise scale in rows.
        heights: increasing heights, at least 1.
        sizes: increasing numbers of trees.
        readings: a subset of READINGS.
        separate: grow another forest for each number of trees. Otherwise the first k trees of one
            forest serve k.
    """
    structure_key, noise_key, coin_key = jax.random.split(key, 3)
    rows = forests.attribute_positions_of_rows(table)
    slices = [slice(2**h - 1, 2 ** (h + 1) - 1) for h in heights]
    # Offset of each height's nodes among the nodes of these heights.
    offset = np.cumsum([0, *(2**h for h in heights)])[:-1]
    shift = jnp.asarray([o - (2**h - 1) for o, h in zip(offset, heights, strict=True)], jnp.int32)

    def grow_tree(tree_key):
        tree = structures.draw_structure(tree_key, max(heights), rows.position.shape[1])
        heap, count = structures.count_at_all_heights(tree, rows)
        counts = jnp.concatenate([count[s] for s in slices])
        return heap[np.array(heights)][:, held_out] + shift[:, None], counts

    pairs = np.array([(s, j) for s, k in enumerate(sizes) for j in range(k)], np.int32)
    if separate:
        pairs[:, 1] = np.arange(len(pairs))
    node, count = jax.lax.map(
        grow_tree, jax.random.split(structure_key, pairs[:, 1].max() + 1), batch_size=3
    )
    num_right = [
        jnp.sum(jnp.max(count[:, o : o + 2**h], axis=-1), axis=-1)
        for o, h in zip(offset, heights, strict=True)
    ]
    num_train = jnp.sum(rows.present).astype(jnp.float32)
    accuracy = jnp.stack([jnp.mean(count.astype(jnp.float32)) for count in num_right]) / num_train

    def add_tree(totals, pair):
        size, tree, pair_key = pair
        laplace_key, fallback_key = jax.random.split(pair_key)
        noisy = _add_laplace_noise(laplace_key, count[tree].astype(jnp.float32), scales[size])
        fallback = jax.random.uniform(fallback_key, noisy.shape[:1], jnp.float32)
        theta = jnp.stack(
            [leaf_shares(noisy, fallback, reading)[node[tree]] for reading in readings]
        )
        votes, sums = totals
        return (votes.at[size].add((theta > 0.5).astype(jnp.int32)), sums.at[size].add(theta)), None

    shape = (len(sizes), len(readings), len(heights), held_out.shape[0])
    start = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)
    (votes, sums), _ = jax.lax.scan(
        add_tree, start, (*jnp.asarray(pairs).T, jax.random.split(noise_key, len(pairs)))
    )
    trees = jnp.asarray(sizes, jnp.int32)[:, None, None, None]
    mean = sums / trees.astype(jnp.float32)
    coins = jax.random.uniform(coin_key, shape, jnp.float32)
    answers = jnp.stack([2 * votes > trees, mean > 0.5, coins < mean])
    wrong = jnp.moveaxis(answers != rows.target[held_out][None, None, None, None], 2, 0)

    def error_on(mask):
        num_wrong = jnp.sum(wrong & mask[None, None, None, None], axis=-1).astype(jnp.float32)
        return num_wrong / jnp.sum(mask).astype(jnp.float32)

    return Errors(error_on(masks[0]), error_on(masks[1]), accuracy)


def measure_errors(
    table: Table,
    runs: list[Run],
    *,
    scales: np.ndarray,
    heights: tuple[int, ...],
    sizes: tuple[int, ...],
    seed: int,
    progress_bar: Progress,
    readings: tuple[str, ...] = NEGATIVE,
    separate: bool = False,
) -> Errors:
    """Errors of all runs, stacked; see `grid_errors`.

    With `separate`, heights do not share forests either.
    """
    by_run = []
    for r, run in enumerate(runs):
        key = jax.random.fold_in(jax.random.key(seed), r)
        groups = [(height,) for height in heights] if separate else [heights]
        by_group = [
            grid_errors(
                jax.random.fold_in(key, number) if separate else key,
                table._replace(present=jnp.asarray(run.train)),
                held_out=jnp.asarray(run.held_out),
                masks=np.stack([run.validation, run.test]),
                scales=scales,
                heights=group,
                sizes=sizes,
                readings=readings,
                separate=separate,
            )
            for number, group in enumerate(groups)
        ]
        by_run.append(jax.tree.map(lambda *groups: np.concatenate(groups, axis=-1), *by_group))
        progress_bar.update()
    return jax.tree.map(lambda *runs: np.stack(runs), *by_run)
