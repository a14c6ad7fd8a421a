"""Top-down trees: leaf and split chosen together among all current leaves (Asadi et al., 2022, Algorithm 2).

A tree of t internal nodes under a depth cap D lives in a complete tree of depth D; what is not split routes left.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt import accounting, boundary, mechanisms, sensitivity, slickness, trees
from dpbt.base import (
    GRID,
    UNSPLIT,
    AnyArray,
    Array,
    ProperLoss,
    Relation,
    Tree,
    WeakLearner,
    relation_name,
)
from dpbt.losses import family_name, fixed

PUBLISHED_RANGE = 8
"""Asadi et al. (2022), section 9: one selection by Gini improvement is 8 eta zeta-DP."""


class TopDownBudget(NamedTuple):
    """The traced numbers of boosted top-down trees; each may have leading axes of settings.

    Attributes:
        split_epsilon: f32[], the cost of one selection; infinite in the non-private mode.
        leaf_scale: f32[], the noise of the labels: temperature (tight) or Laplace scale (published), in levels.
        density: f32[], kappa: see `reweighting.lazy_bregman`.
        learning_rate: f32[], lambda on margins.
        rows: f32[], m: the public bound on the number of rows (add/remove) or their number (replace-one).
    """

    split_epsilon: AnyArray
    leaf_scale: AnyArray
    density: AnyArray
    learning_rate: AnyArray
    rows: AnyArray


def tight_range(criterion: ProperLoss, mass, relation: Relation):
    """`slickness.improvement_range` with its allowance for float32, in units of the weight cap."""
    return slickness.improvement_range(criterion, mass, relation) + slickness.improvement_rounding(mass)


def improvements(criterion: ProperLoss, products: Array, totals: Array) -> Array:
    """f32[nodes, S]: what splitting each node by each split takes off the sum of perspectives, in units of the cap.

    Args:
        criterion: the loss whose perspective is w G(q).
        products: i32[nodes, 2, S], levels that satisfy each split, by class.
        totals: i32[nodes, 2].
    """

    def perspective(counts: Array) -> Array:
        weight = counts.astype(jnp.float32) / GRID
        return criterion.perspective(weight[:, 1], weight[:, 0])

    return perspective(totals)[:, None] - perspective(products) - perspective(totals[:, :, None] - products)


@functools.cache
def _first_leaf(depth: int) -> np.ndarray:
    """i32[2**(D+1) - 1]: the leaf in which a row ends that is routed left from each heap node on."""
    ends = [(np.arange(2**level) << (depth - level)) for level in range(depth + 1)]
    return np.concatenate(ends).astype(np.int32)


def _grow(
    draw: boundary.Draw,
    table,
    weights,
    splits: int,
    depth: int,
    criterion: ProperLoss,
    scale: tuple[Array, Array],
) -> Array:
    """Draw `splits` pairs of leaf and split; returns the leaves' class weights i32[L, 2] in levels (private).

    `scale` is the temperature of a selection and the public unit that the ledger measures it in.
    """
    nodes, heap = 2**depth - 1, 2 ** (depth + 1) - 1
    levels = trees.masked_levels(table, weights.level)
    together = jnp.zeros(table.target.shape[0], jnp.int32)

    def product(mask: Array) -> Array:
        return trees.node_products(table, jnp.where(mask[None], levels, 0), together, 1, None)[0]

    root = product(table.present)
    totals = jnp.zeros((heap, 2), jnp.int32).at[0].set(trees.node_totals(levels)[0])
    products = jnp.zeros((nodes, *root.shape), jnp.int32).at[0].set(root)
    is_leaf = jnp.zeros(heap, bool).at[0].set(True)
    position = together
    for k in range(splits):
        gains = improvements(criterion, products, totals[:nodes])
        open_nodes = is_leaf[:nodes, None]
        if table.allowed is not None:
            open_nodes = open_nodes & table.allowed[None, :]
        scores = jnp.where(open_nodes, gains, -jnp.inf).T.reshape(-1)  # candidate = split * nodes + node
        choice = draw(f"split_{k}", mechanisms.exponential, scores, *scale)
        node, split = choice % nodes, choice // nodes
        left, right = 2 * node + 1, 2 * node + 2
        position = jnp.where(position == node, left + table.columns[split].astype(jnp.int32), position)
        satisfied = products[node, :, split]
        totals = totals.at[left].set(totals[node] - satisfied).at[right].set(satisfied)
        is_leaf = is_leaf.at[node].set(False).at[left].set(True).at[right].set(True)
        if k + 1 < splits:
            below = product(position == right)
            products = products.at[left].set(products[node] - below, mode="drop").at[right].set(below, mode="drop")
    counts = jnp.where(is_leaf[:, None], totals, 0)
    return jnp.zeros((2**depth, 2), jnp.int32).at[_first_leaf(depth)].add(counts)


@functools.cache
def top_down_tree(
    splits: int, depth: int, criterion: ProperLoss, relation: Relation, calibration: str = "tight"
) -> WeakLearner:
    """DP-TopDown: a release of t pairs of leaf and split, and of 2**D labels.

    Guarantee, under `relation`, with `reweighting.lazy_bregman`, on whose total weight it counts: every selection is
    `split_epsilon`-DP, all labels together (2 GRID / leaf_scale)-DP; both are proved in `slickness`. The published
    calibration differs in its constant 8 for Gini, in labels by return-noisy-max where the tight one has the
    exponential mechanism (the same cost for less noise), and in weights that are not measured in units of a public
    cap below 1.

    Args:
        splits: t, the number of internal nodes, at most 2**D - 1.
        depth: D, the depth cap.
        criterion: G: `losses.square` (Gini), `losses.log` (entropy), `losses.matsushita`.
        relation: the neighbouring relation the ledger speaks of.
        calibration: "tight" or "published".
    """
    nodes = 2**depth - 1
    tight = calibration == "tight"
    labels = mechanisms.exponential if tight else mechanisms.noisy_max

    def width(mass):
        own = tight_range(criterion, mass, relation)
        return own if tight else jnp.maximum(own, PUBLISHED_RANGE)  # 8, and float32's allowance beyond 1,000 rows

    def program(draw, table, weights, budget):
        mass = slickness.level_mass(budget.rows, budget.density, weights.unit)
        unit = width(mass)
        scale = unit / jnp.asarray(budget.split_epsilon)
        counts = _grow(draw, table, weights, splits, depth, criterion, (scale, unit))
        behind = counts - jnp.max(counts, axis=1, keepdims=True)
        draw("leaf", labels, behind.astype(jnp.float32), budget.leaf_scale)

    def hypothesis(release, budget, unit):
        del budget, unit
        split = jnp.full(nodes, UNSPLIT, jnp.int32)
        for k in range(splits):
            choice = release[f"split_{k}"]
            split = split.at[choice % nodes].set(choice // nodes)
        return Tree(split, (2 * release["leaf"] - 1).astype(jnp.float32))

    def events(budget):
        epsilon = float(budget.split_epsilon)
        widest = float(width(slickness.level_mass(budget.rows, budget.density, 1.0)))
        lines = [
            accounting.selection(
                f"split_{k}",
                f"leaf and split, number {k + 1}",
                epsilon=epsilon,
                sensitivity=widest / 2,
                scale=widest / epsilon,
                theorem="docs/privacy.md 9" if tight else "Asadi et al., Thm 4.4",
                unit=widest,
            )
            for k in range(splits)
        ]
        spread = float(sensitivity.count_step(budget.rows)) * slickness.label_range(relation)
        scale = float(budget.leaf_scale)
        label = accounting.selection if tight else accounting.noisy_maximum
        leaf = label(
            "leaf",
            "labels, all leaves",
            epsilon=spread / scale if scale > 0 else float("inf"),
            sensitivity=spread / 2,
            scale=scale,
            theorem="docs/privacy.md 9" if tight else "Asadi et al., Thm 4.4",
        )
        return [*lines, leaf]

    words = f"{splits}, {depth}, {family_name(fixed(criterion))}, {relation_name(relation)}"
    tag = f"top_down_tree({words}, {calibration})"
    return boundary.weak_learner(program, hypothesis, events, trees.TREES, relation, slick=True, tag=tag, total=True)
