"""DP-Boost of Li et al. (2020), a rival of Table 2 of Asadi et al. (2022), as a weak learner.

It follows what their public code does for two classes, with the constants of its script.

- *Ensemble.* The 50 trees of an ensemble read disjoint parts of the rows. Part t has a share of
  eta (1 - eta)^t / (1 - (1 - eta)^50) of them, with eta = 0.1.
- *Splits.* Gradients are those of the logistic loss. A split is drawn with exponent
  eps gain / (2 * 3), and its gain is G^2 / (n + lambda), summed over both children, with the
  gradients' sum G and lambda = 0.1.
- *Leaves.* A leaf is G / (n + lambda), clipped to (1 - eta)^t, with Laplace noise of sensitivity
  min(1 / (1 + lambda), 2 (1 - eta)^t). Leaves are multiplied by eta.
- *Budget.* Half of epsilon goes to the leaves of each tree, and the other half to its levels.

It differs from that code in four ways. Trees are complete and of depth 5, where the code grows 31
leaves down to depth 6, and picks the leaf to split without noise. Leaves divide by the number of
rows, as the sensitivity above needs, and the code by sums of second derivatives. The code leaves
half of the levels' budget unspent. Parts are drawn once for all keys.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import recipes
from dpbt.learners.trees import TreeRows
from dpbt.learners.trees.class_weights import (
    class_weights_of_nodes,
    split_weights_of_nodes,
    weights_by_class,
)
from dpbt.learners.trees.growth import splits_in_heap_order
from dpbt.learners.trees.model import move_to_children
from dpbt.learners.trees.rows import TREES
from dpbt.privacy import boundary, mechanisms, variates
from dpbt.privacy.boundary import Draw
from dpbt.types import GRID, Array, Public, Recipe, Release, Tree, WeakLearner
from dpbt.weighting import MirrorNumbers, mirror

ROUNDS, DEPTH, RATE, LAMBDA = 50, 5, 0.1, 0.1
GAIN_SENSITIVITY = 3.0
"""How far a row moves a gain, for gradients of at most 1."""

LEAF_STEP = 2.0**-12
"""The grid of leaves."""


def recipe(*, epsilon: float, rows: int) -> Recipe:
    """One ensemble of 50 trees.

    Guarantee: epsilon-DP under add/remove if the stated sensitivities hold, since a row is in one
    part. The ledger adds up the rounds, and so states 50 times that.

    Args:
        epsilon: the budget of every tree, and of the ensemble.
        rows: a public bound on the number of rows.
    """
    return recipes.custom(
        learner(),
        epsilon=ROUNDS * epsilon,
        rows=rows,
        rounds=ROUNDS,
        weight_update=mirror("information_gain"),
        weighting=MirrorNumbers(np.ones((), np.float32)),
        relation="add_remove",
        name="dp_boost",
    )


@functools.cache
def learner() -> WeakLearner:
    """The weak learner; see the module."""
    return boundary.weak_learner(
        name="dp_boost",
        program=program,
        hypothesis=hypothesis,
        kind=TREES,
        fractions={"split": 0.5, "leaf": 0.5},
        relation="add_remove",
    )


class Parts(NamedTuple):
    """The disjoint parts of the rows.

    Attributes:
        order: i32[N + L], the rows in a random order, padded.
        starts: i32[51], where each part starts, and the end of the last one.
    """

    order: np.ndarray
    starts: np.ndarray


@functools.cache
def divide_rows(rows: int) -> Parts:
    """The parts of so many rows."""
    ends = (1 - (1 - RATE) ** np.arange(ROUNDS + 1)) / (1 - (1 - RATE) ** ROUNDS)
    starts = np.floor(ends * rows).astype(np.int32)
    order = np.random.default_rng(0).permutation(rows).astype(np.int32)
    return Parts(np.pad(order, (0, np.diff(starts).max())), starts)


def program(draw: Draw, table: TreeRows, weights: Array, params: Any, public: Public) -> None:
    """Draw the splits of each level, and the leaves, from the part of this round."""
    order, starts = divide_rows(table.target.shape[0])
    capacity = int(np.diff(starts).max())
    start = jnp.asarray(starts)[public.round]
    rows = jax.lax.dynamic_slice(jnp.asarray(order), (start,), (capacity,))
    is_of_part = start + jnp.arange(capacity) < jnp.asarray(starts)[public.round + 1]
    splits_of_rows = jnp.asarray(table.splits_of_rows)
    part = TreeRows(splits_of_rows[:, rows], table.target[rows], table.present[rows] & is_of_part)
    by_class = weights_by_class(part, weights[rows])
    ones = weights_by_class(part, jnp.ones(capacity, jnp.int8))

    node = jnp.zeros(capacity, jnp.int32)
    for level in range(DEPTH):
        sums = [
            split_weights_of_nodes(part, by_row, node, num_nodes=2**level)
            for by_row in (by_class, ones)
        ]
        totals = [class_weights_of_nodes(by_row, node, 2**level) for by_row in (by_class, ones)]
        split = draw(
            f"split_{level}",
            mechanisms.exponential,
            _gains(sums, totals, public.cap),
            sensitivity=2 * GAIN_SENSITIVITY,
            moved_outputs=1,
            theorem="Li et al. (2020), code",
        )
        node = move_to_children(part.splits_of_rows, node, split)
    totals = [class_weights_of_nodes(by_row, node, 2**DEPTH) for by_row in (by_class, ones)]
    value = _gradients(totals[0], public.cap) / (totals[1].sum(axis=1) + LAMBDA)
    clip = (1 - RATE) ** public.round.astype(jnp.float32)
    draw(
        "leaf",
        mechanisms.discrete_laplace,
        jnp.round(jnp.clip(value, -clip, clip) / LEAF_STEP).astype(jnp.int32),
        sensitivity=jnp.minimum(1 / (1 + LAMBDA), 2 * clip) / LEAF_STEP + 1,
        max_sensitivity=1 / (1 + LAMBDA) / LEAF_STEP + 1,
        moved_outputs=1,
        theorem="Li et al. (2020), code",
    )


def _gradients(totals: Array, cap: Array) -> Array:
    """f32[..., nodes]: sums of gradients, from class weights [..., nodes, 2, ...] of the grid."""
    return (totals[:, 1] - totals[:, 0]).astype(jnp.float32) * (cap / GRID)


def _gains(sums: list[Array], totals: list[Array], cap: Array) -> mechanisms.Scores:
    """The gains of all splits [nodes, S], up to what all splits of a node share."""
    gains = jnp.float32(0)
    for is_right in (True, False):
        weights, counts = (
            products if is_right else total[:, :, None] - products
            for products, total in zip(sums, totals, strict=True)
        )
        gains = gains + _gradients(weights, cap) ** 2 / (counts.sum(axis=1) + LAMBDA)
    with variates.double_precision():
        return mechanisms.behind_best(variates.to_float64(gains))


def hypothesis(release: Release, params: Any, public: Public) -> Tree:
    """The tree, on the scale of our logistic link, which has base 2."""
    leaf = RATE * LEAF_STEP * release["leaf"].astype(jnp.float32) / np.float32(np.log(2))
    return Tree(splits_in_heap_order(release, DEPTH), leaf)
