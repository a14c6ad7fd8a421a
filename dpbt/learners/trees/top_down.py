"""The top-down trees of LazyBB: Asadi et al. (2022), Algorithm 2.

A leaf and its split are chosen together among all current leaves. A tree of t internal nodes under
a depth cap D is stored in a complete tree of depth D. Nodes that are not split route left.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Float64, Int32

from dpbt import types
from dpbt.learners.trees.class_weights import (
    root_class_weights,
    split_weights_of_masked_rows,
    weights_by_class,
)
from dpbt.learners.trees.model import satisfies_splits
from dpbt.learners.trees.rows import TREES, TreeRows
from dpbt.learners.trees.split_scores import perspectives_of_class_weights
from dpbt.losses import check_perspective_of_family, constant_loss_family, unique_family_name
from dpbt.privacy import accounting, boundary, mechanisms, sensitivity, variates
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism_types import Numbers
from dpbt.privacy.mechanisms import Scores
from dpbt.types import GRID, Array, Noise, ProperLoss, Public, Tree

PUBLISHED_SPLIT_RANGE = 8
"""Asadi et al. (2022), section 9: one selection by Gini improvement is 8 eta zeta-DP."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopDownConfig:
    """The static configuration of a learner of top-down trees.

    Attributes:
        splits: t, the number of internal nodes, at most 2^D - 1.
        depth: D, the depth cap.
        criterion: G, the loss whose perspective scores splits: `losses.square` (Gini),
            `losses.log` (entropy), `losses.matsushita`.
        relation: the neighbouring relation of the ledger.
        calibration: "tight" or "published".
    """

    splits: int
    depth: int
    criterion: ProperLoss
    relation: types.Relation
    calibration: str = "tight"

    @property
    def identity(self) -> str:
        """A text of all static settings, from which noise keys are derived."""
        family = unique_family_name(constant_loss_family(self.criterion))
        under = types.as_relation(self.relation).value
        return f"{self.splits}, {self.depth}, {family}, {under}, {self.calibration}"


def improvement_change_range_with_rounding(
    criterion: ProperLoss, max_total_weight_in_caps: Numbers
) -> Numbers:
    """How far one row moves the improvements that splits make, in units of the weight cap.

    Rounding is allowed for.

    The range itself is evaluated in float32 (`sensitivity.tight_split_sensitivity`).
    """
    exact = sensitivity.improvement_change_range(criterion, max_total_weight_in_caps)
    return exact * sensitivity.BOUND_MARGIN + sensitivity.improvement_rounding_allowance(
        max_total_weight_in_caps
    )


def perspective_decrease_by_split(
    criterion: ProperLoss, products: Int32[Array, "nodes 2 S"], totals: Int32[Array, "nodes 2"]
) -> Float64[Array, "nodes S"]:
    """f64[nodes, S]: how far each split lowers the perspective of its node, in weight caps.

    For use within `variates.double_precision`.

    Args:
        criterion: the loss whose perspective is w G(q).
        products: i32[nodes, 2, S], weights that satisfy each split, by class.
        totals: i32[nodes, 2], the class weights of the nodes.
    """
    parent_perspectives = perspectives_of_class_weights(criterion, totals)[:, None]
    right = perspectives_of_class_weights(criterion, products)
    return (
        parent_perspectives
        - right
        - perspectives_of_class_weights(criterion, totals[:, :, None] - products)
    )


class _GrowingTree(NamedTuple):
    """A tree that is being grown, over a heap of 2^(D+1) - 1 nodes; all fields are private.

    Attributes:
        node: i32[N], the heap node of each row.
        totals: i32[heap, 2], the class weights of each node, in grid units.
        products: i32[2^D - 1, 2, S], the class weights of its rows that satisfy each split.
        is_leaf: bool[heap].
    """

    node: Array
    totals: Array
    products: Array
    is_leaf: Array


def _scores_of_leaf_split_pairs(
    criterion: ProperLoss, tree: _GrowingTree, allowed: types.AnyArray | None
) -> Scores:
    """Scores of all pairs of a leaf and a split, for the exponential mechanism.

    They are [S * nodes], at index split * nodes + leaf.

    A pair is forbidden if its node is not a leaf above the depth cap, or if its split is not
    allowed.
    """
    nodes, _, splits = tree.products.shape
    is_open = jnp.broadcast_to(tree.is_leaf[:nodes, None], (nodes, splits))
    if allowed is not None:
        is_open = is_open & allowed[None, :]
    with variates.double_precision():
        gains = perspective_decrease_by_split(criterion, tree.products, tree.totals[:nodes])
        return mechanisms.behind_best(gains.T.reshape(-1), is_open.T.reshape(-1))


def _split_leaf(
    table: TreeRows,
    row_weights_by_class: Array,
    tree: _GrowingTree,
    node: Array,
    split: Array,
    *,
    is_last: bool,
) -> _GrowingTree:
    """Split one leaf of a tree: move its rows to two children, and sum up their class weights.

    The last split of a tree needs no products of its children.
    """
    left, right = 2 * node + 1, 2 * node + 2
    child = left + satisfies_splits(table.splits_of_rows, split[None])[0].astype(jnp.int32)
    inside = tree.products[node, :, split]
    tree = tree._replace(
        node=jnp.where(tree.node == node, child, tree.node),
        totals=tree.totals.at[left].set(tree.totals[node] - inside).at[right].set(inside),
        is_leaf=tree.is_leaf.at[node].set(False).at[left].set(True).at[right].set(True),
    )
    if is_last:
        return tree

    # The products of the left child by subtraction.
    below = split_weights_of_masked_rows(table, row_weights_by_class, tree.node == right)
    products = tree.products.at[left].set(tree.products[node] - below, mode="drop")
    return tree._replace(products=products.at[right].set(below, mode="drop"))


def _improvement_change_range(
    config: TopDownConfig, public: Public, weight_cap: Numbers = 1.0
) -> Float32[Numbers, "..."]:
    """f32[...]: the sensitivity of improvements that the ledger claims, in weight caps."""
    mass = sensitivity.max_total_weight_in_caps(
        public.max_rows, public.weight_params.density, weight_cap
    )
    proved = improvement_change_range_with_rounding(config.criterion, mass)
    tight = config.calibration == "tight"
    return proved if tight else jnp.maximum(proved, PUBLISHED_SPLIT_RANGE)


def _draw_leaf_split_pairs_and_labels(
    draw: Draw,
    table: TreeRows,
    weights: Array,
    params: Noise,
    public: Public,
    *,
    config: TopDownConfig,
) -> None:
    """Draw each pair of a leaf and its split in turn, and then the labels of all leaves."""
    nodes = 2**config.depth - 1
    row_weights_by_class = weights_by_class(table, weights)
    tree = _single_leaf_tree(config, table, row_weights_by_class)
    for k in range(config.splits):
        choice = _draw_leaf_split_pair(config, draw, table, public, tree=tree, pair_number=k)
        tree = _split_leaf(
            table,
            row_weights_by_class,
            tree,
            node=choice % nodes,
            split=choice // nodes,
            is_last=k + 1 == config.splits,
        )
    _draw_leaf_labels(config, draw, _leaf_class_weights_in_complete_tree(config, tree))


def _theorem_of_calibration(config: TopDownConfig) -> str:
    """The theorem that proves the sensitivities of the calibration, for the ledger."""
    return "dpbt theorem 9" if config.calibration == "tight" else "Asadi et al. (2022), Thm 4.4"


def _single_leaf_tree(
    config: TopDownConfig, table: TreeRows, row_weights_by_class: Array
) -> _GrowingTree:
    """The growing tree before its first split: the root is a leaf and has all rows."""
    nodes, leaves = 2**config.depth - 1, 2**config.depth
    heap = nodes + leaves
    root_products = split_weights_of_masked_rows(table, row_weights_by_class, table.present)
    root_weights = root_class_weights(row_weights_by_class)[0]
    return _GrowingTree(
        node=jnp.zeros(table.target.shape[0], jnp.int32),
        totals=jnp.zeros((heap, 2), jnp.int32).at[0].set(root_weights),
        products=jnp.zeros((nodes, *root_products.shape), jnp.int32).at[0].set(root_products),
        is_leaf=jnp.zeros(heap, bool).at[0].set(True),
    )


def _draw_leaf_split_pair(
    config: TopDownConfig,
    draw: Draw,
    table: TreeRows,
    public: Public,
    *,
    tree: _GrowingTree,
    pair_number: int,
) -> Int32[Array, ""]:
    """i32[]: draw together a leaf to split and its split, as the index split * nodes + leaf."""
    return draw(
        f"split_{pair_number}",
        mechanisms.exponential,
        _scores_of_leaf_split_pairs(config.criterion, tree, table.allowed),
        sensitivity=_improvement_change_range(config, public, public.cap),
        max_sensitivity=_improvement_change_range(config, public),
        moved_outputs=1,
        theorem=_theorem_of_calibration(config),
        releases=f"choice {pair_number + 1} of a leaf and its split",
        unit=accounting.ROW,
    )


def _leaf_class_weights_in_complete_tree(
    config: TopDownConfig, tree: _GrowingTree
) -> Int32[Array, "leaves 2"]:
    """i32[2^D, 2]: the class weights of a tree's leaves, at their places in the complete tree.

    A leaf above the last level stands for its leftmost descendant, which its rows reach from it.
    """
    ends = [np.arange(2**level) << (config.depth - level) for level in range(config.depth + 1)]
    counts = jnp.where(tree.is_leaf[:, None], tree.totals, 0)
    return jnp.zeros((2**config.depth, 2), jnp.int32).at[np.concatenate(ends)].add(counts)


def _draw_leaf_labels(
    config: TopDownConfig, draw: Draw, leaf_class_weights: Int32[Array, "leaves 2"]
) -> None:
    """Draw the noisy label of each leaf by its class weights."""
    draw(
        "leaf",
        mechanisms.exponential if config.calibration == "tight" else mechanisms.noisy_max,
        mechanisms.behind_best(leaf_class_weights),
        sensitivity=GRID * sensitivity.LABELS_RANGE,
        moved_outputs=2**config.depth,
        theorem=_theorem_of_calibration(config),
        releases="labels, all leaves",
        unit=accounting.ROW_STEP,
    )


def tree_of_release_with_sign_leaves(
    config: TopDownConfig, release: types.Release, *_: Any
) -> Tree:
    """Build the tree of a release, whose leaves are its labels +1 or -1.

    Nodes that no draw split stay unsplit.
    """
    nodes = 2**config.depth - 1
    split = jnp.full(nodes, types.UNSPLIT, jnp.int32)
    for k in range(config.splits):
        choice = release[f"split_{k}"]
        split = split.at[choice % nodes].set(choice // nodes)
    return Tree(split, (2 * release["leaf"] - 1).astype(jnp.float32))


def top_down_budget_fraction_by_group(label_fraction: Numbers) -> dict[str, Numbers]:
    """Share a tree's budget between the groups "split" and "leaf".

    It returns the fraction of each by its name.
    """
    return {"split": 1 - label_fraction, "leaf": label_fraction}


@functools.cache
def top_down_tree(config: TopDownConfig) -> types.WeakLearner:
    """A weak learner of top-down trees with noisy splits and labels: DP-TopDown.

    A round releases t pairs of leaf and split, and 2^D labels.

    Guarantee, under `relation`, with `weighting.lazy_bregman`, whose total weight it assumes.
    A selection costs sensitivity / scale, and so do all labels together. Both are proved in
    `sensitivity`.

    The published calibration differs in three ways. Its constant is 8 for Gini. Its labels are
    drawn by return-noisy-max, where the tight one has the exponential mechanism, which has less
    noise at the same cost. Its weights are not measured in units of a public cap below 1.
    """
    family = constant_loss_family(config.criterion)
    check_perspective_of_family(family)
    return boundary.weak_learner(
        name="top_down_tree",
        config=config,
        program=functools.partial(_draw_leaf_split_pairs_and_labels, config=config),
        hypothesis=functools.partial(tree_of_release_with_sign_leaves, config),
        kind=TREES,
        fractions=top_down_budget_fraction_by_group(0.5),
        relation=config.relation,
        coupled=True,
        total_weight=True,
    )
