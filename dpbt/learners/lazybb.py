"""The learners of LazyBB: 1-rules, and top-down trees.

Asadi et al. (2022), Algorithms 3 and 2. A 1-rule is a signed literal or a constant, selected by its
weighted error: a tree of depth one with leaves +-1, whose node is not split for a constant. Of a
top-down tree a leaf and its split are chosen together among all current leaves. A tree of t
internal nodes under a depth cap D is stored in a complete tree of depth D. Nodes that are not split
route left.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt import types
from dpbt.learners import trees
from dpbt.learners.hypotheses import satisfies_splits
from dpbt.learners.trees import TreeRows
from dpbt.losses import check_criterion, constant_family, family_name
from dpbt.privacy import accounting, boundary, mechanisms, sensitivity, variates
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism import Numbers
from dpbt.privacy.mechanisms import Scores
from dpbt.types import GRID, Array, Noise, ProperLoss, Public, Tree

# 1-rules.


PUBLISHED_RULE_RANGE = 4
"""The 4 in 4 eta zeta of Asadi et al. (2022), Theorem 8.2; `sensitivity.RULE_ERRORS_RANGE` is 2."""


def error_weights_of_rules(table: TreeRows, weights: Array) -> Array:
    """i32[2 S + 2]: the weight that each 1-rule gets wrong, in grid units; exact.

    The order is: constant +, constant -, then for each split the literal and its negation. So for
    every S, 1-rule k has split k // 2 - 1 (`UNSPLIT` for constants), and sign + for even k.
    """
    # The class weights of all rows, and of those on the right side of each split.
    by_class = trees.weights_by_class(table, weights)
    right = _split_weights_of_mask(table, by_class, table.present)
    negative, positive = trees.node_totals(by_class)[0]

    # A literal errs on the positive rows without it and on the negative rows with it.
    agreement = right[1] - right[0]
    literals = jnp.stack([positive - agreement, negative + agreement], axis=1)
    return jnp.concatenate([jnp.stack([negative, positive]), literals.reshape(-1)])


def tree_of_rule(choice: Array) -> Tree:
    """The tree of 1-rule `choice` of `error_weights_of_rules`."""
    split, sign = choice // 2 - 1, (1 - 2 * (choice % 2)).astype(jnp.float32)
    leaf = jnp.where(split < 0, jnp.ones(2), jnp.array([-1.0, 1.0])).astype(jnp.float32)
    return Tree(split[None], sign * leaf)


def _rule_scores(errors: Array, allowed: Array | None) -> Scores:
    with variates.double_precision():
        return mechanisms.behind_best(-errors, allowed)


def _draw_rule(tight: bool, draw: Draw, table: TreeRows, weights: Array, *_: Any) -> None:
    """One selection among all rules, by their errors; rules of splits not allowed are masked."""
    allowed = None
    if table.allowed is not None:
        allowed = jnp.concatenate([jnp.ones(2, bool), jnp.repeat(table.allowed, 2)])

    # Errors move by the range times a grid unit.
    draw(
        "rule",
        mechanisms.exponential,
        boundary.Total(error_weights_of_rules(table, weights), _rule_scores, public=(allowed,)),
        sensitivity=GRID * (sensitivity.RULE_ERRORS_RANGE if tight else PUBLISHED_RULE_RANGE),
        moves=1,
        theorem="dpbt theorem 8" if tight else "Asadi et al. (2022), Thm 8.2",
        releases="a split, its negation or a constant",
        unit=accounting.ROW_STEP,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuleConfig:
    """The static parts of one rule.

    Attributes:
        relation: the neighbouring relation of the ledger.
        calibration: "tight" or "published", what the ledger claims for a scale.
    """

    relation: types.Relation
    calibration: str

    @property
    def identity(self) -> str:
        """Every static part as text, which enters keys."""
        return f"{types.as_relation(self.relation).value}, {self.calibration}, exponential"


@functools.cache
def one_rule(relation: types.Relation, calibration: str = "tight") -> types.WeakLearner:
    """DP-1R: a release of one index into the signed literals and the two constants.

    Guarantee, under `relation`, with `weighting.lazy_bregman` or with weights that depend on
    their own row alone. Errors move by at most GRID grid units. So the exponential mechanism
    (weighted, Definition 2.12) is (2 GRID / scale)-DP and (2 GRID / scale)^2 / 8-zCDP. Proofs are
    in `sensitivity`. In the papers' terms the scale is GRID kappa n / eta, so this is
    2 eta / (kappa n). The published calibration's ledger has the paper's 4 eta / (kappa n), which
    is true and twice what is needed.

    Errors are exact integers.

    Args:
        relation: the neighbouring relation of the ledger.
        calibration: "tight" or "published", what the ledger claims for a scale.
    """
    return boundary.weak_learner(
        name="one_rule",
        config=RuleConfig(relation=relation, calibration=calibration),
        program=functools.partial(_draw_rule, calibration == "tight"),
        hypothesis=lambda release, params, public: tree_of_rule(release["rule"]),
        kind=trees.TREES,
        fractions={"rule": 1.0},
        relation=relation,
        coupled=True,
        work_bytes=functools.partial(trees.bytes_of_level_sums, nodes=1),
    )


# Top-down trees.


PUBLISHED_SPLIT_RANGE = 8
"""Asadi et al. (2022), section 9: one selection by Gini improvement is 8 eta zeta-DP."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopDownConfig:
    """The static parts of a top-down tree.

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
        """Every static part as text, which enters keys."""
        family = family_name(constant_family(self.criterion))
        under = types.as_relation(self.relation).value
        return f"{self.splits}, {self.depth}, {family}, {under}, {self.calibration}"


def tight_improvement_range(criterion: ProperLoss, mass: Numbers) -> Numbers:
    """`sensitivity.improvement_change_range` and what rounding may add, in units of the weight cap.

    The range itself is evaluated in float32 (`sensitivity.tight_split_sensitivity`).
    """
    exact = sensitivity.improvement_change_range(criterion, mass)
    return exact * sensitivity.BOUND_MARGIN + sensitivity.improvement_rounding_allowance(mass)


def split_improvements(criterion: ProperLoss, products: Array, totals: Array) -> Array:
    """f64[nodes, S]: the decrease of the perspectives by each split, in units of the weight cap.

    For use within `variates.double_precision`.

    Args:
        criterion: the loss whose perspective is w G(q).
        products: i32[nodes, 2, S], weights that satisfy each split, by class.
        totals: i32[nodes, 2], the class weights of the nodes.
    """
    here = trees.perspectives_of_weights(criterion, totals)[:, None]
    right = trees.perspectives_of_weights(criterion, products)
    return here - right - trees.perspectives_of_weights(criterion, totals[:, :, None] - products)


class _GrowingTree(NamedTuple):
    """A growing tree, over a heap of 2^(D+1) - 1 nodes; all fields are private.

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


def _split_weights_of_mask(table: TreeRows, by_class: Array, mask: Array) -> Array:
    """i32[2, S]: `trees.node_products` of the rows of a mask bool[N]."""
    root = jnp.zeros(table.target.shape[0], jnp.int32)
    return trees.node_products(table, jnp.where(mask[None], by_class, 0), root, 1, None)[0]


def _leaf_and_split_scores(
    criterion: ProperLoss, growth: _GrowingTree, allowed: types.AnyArray | None
) -> Scores:
    """The scores [S * nodes] of all pairs, at index split * nodes + node.

    A pair is forbidden if its node is not a leaf above the depth cap, or if its split is not
    allowed.
    """
    nodes, _, splits = growth.products.shape
    is_open = jnp.broadcast_to(growth.is_leaf[:nodes, None], (nodes, splits))
    if allowed is not None:
        is_open = is_open & allowed[None, :]
    with variates.double_precision():
        gains = split_improvements(criterion, growth.products, growth.totals[:nodes])
        return mechanisms.behind_best(gains.T.reshape(-1), is_open.T.reshape(-1))


def _split_leaf(
    table: TreeRows, by_class: Array, growth: _GrowingTree, node: Array, split: Array, last: bool
) -> _GrowingTree:
    """The tree with one leaf split; the last split needs no products of its children."""
    left, right = 2 * node + 1, 2 * node + 2
    child = left + satisfies_splits(table.asked, split[None])[0].astype(jnp.int32)
    inside = growth.products[node, :, split]
    growth = growth._replace(
        node=jnp.where(growth.node == node, child, growth.node),
        totals=growth.totals.at[left].set(growth.totals[node] - inside).at[right].set(inside),
        is_leaf=growth.is_leaf.at[node].set(False).at[left].set(True).at[right].set(True),
    )
    if last:
        return growth

    # The products of the left child by subtraction.
    below = _split_weights_of_mask(table, by_class, growth.node == right)
    products = growth.products.at[left].set(growth.products[node] - below, mode="drop")
    return growth._replace(products=products.at[right].set(below, mode="drop"))


def _improvement_range(config: TopDownConfig, public: Public, cap: Numbers = 1.0) -> Numbers:
    """f32[...]: the range of the change of improvements, in units of the cap."""
    mass = sensitivity.max_total_weight_in_caps(public.rows, public.weighting.density, cap)
    proved = tight_improvement_range(config.criterion, mass)
    tight = config.calibration == "tight"
    return proved if tight else jnp.maximum(proved, PUBLISHED_SPLIT_RANGE)


def _draw_splits_and_labels(
    config: TopDownConfig,
    draw: Draw,
    table: TreeRows,
    weights: Array,
    params: Noise,
    public: Public,
) -> None:
    """Draw all pairs of leaf and split, and the labels of the leaves."""
    nodes, leaves, tight = 2**config.depth - 1, 2**config.depth, config.calibration == "tight"
    theorem = "dpbt theorem 9" if tight else "Asadi et al. (2022), Thm 4.4"
    by_class = trees.weights_by_class(table, weights)

    # A tree whose only leaf is the root.
    root, heap = _split_weights_of_mask(table, by_class, table.present), nodes + leaves
    growth = _GrowingTree(
        node=jnp.zeros(table.target.shape[0], jnp.int32),
        totals=jnp.zeros((heap, 2), jnp.int32).at[0].set(trees.node_totals(by_class)[0]),
        products=jnp.zeros((nodes, *root.shape), jnp.int32).at[0].set(root),
        is_leaf=jnp.zeros(heap, bool).at[0].set(True),
    )
    for k in range(config.splits):
        # One selection among all pairs of an open leaf and a split.
        choice = draw(
            f"split_{k}",
            mechanisms.exponential,
            _leaf_and_split_scores(config.criterion, growth, table.allowed),
            sensitivity=_improvement_range(config, public, public.cap),
            at_most=_improvement_range(config, public),
            moves=1,
            theorem=theorem,
            releases=f"choice {k + 1} of a leaf and its split",
            unit=accounting.ROW,
        )
        node, split = choice % nodes, choice // nodes
        growth = _split_leaf(table, by_class, growth, node, split, k + 1 == config.splits)

    # Leaves above the depth cap stand for their leftmost descendants, which rows reach from them.
    ends = [np.arange(2**level) << (config.depth - level) for level in range(config.depth + 1)]
    counts = jnp.where(growth.is_leaf[:, None], growth.totals, 0)
    counts = jnp.zeros((leaves, 2), jnp.int32).at[np.concatenate(ends)].add(counts)

    # The labels, by the class weights up to a constant for each leaf.
    draw(
        "leaf",
        mechanisms.exponential if tight else mechanisms.noisy_max,
        mechanisms.behind_best(counts),
        sensitivity=GRID * sensitivity.LABELS_RANGE,
        moves=leaves,
        theorem=theorem,
        releases="labels, all leaves",
        unit=accounting.ROW_STEP,
    )


def tree_of_release(config: TopDownConfig, release: types.Release, *_: Any) -> Tree:
    """The tree, with leaves of +-1; nodes that no selection chose are not split."""
    nodes = 2**config.depth - 1
    split = jnp.full(nodes, types.UNSPLIT, jnp.int32)
    for k in range(config.splits):
        choice = release[f"split_{k}"]
        split = split.at[choice % nodes].set(choice // nodes)
    return Tree(split, (2 * release["leaf"] - 1).astype(jnp.float32))


def top_down_budget_fractions(leaves: Numbers) -> dict[str, Numbers]:
    """How a tree's budget is shared, by the fraction of the labels."""
    return {"split": 1 - leaves, "leaf": leaves}


@functools.cache
def top_down_tree(config: TopDownConfig) -> types.WeakLearner:
    """DP-TopDown: a release of t pairs of leaf and split, and of 2^D labels.

    Guarantee, under `relation`, with `weighting.lazy_bregman`, whose total weight it assumes.
    A selection costs sensitivity / scale, and so do all labels together. Both are proved in
    `sensitivity`.

    The published calibration differs in three ways. Its constant is 8 for Gini. Its labels are
    drawn by return-noisy-max, where the tight one has the exponential mechanism, which has less
    noise at the same cost. Its weights are not measured in units of a public cap below 1.

    """
    family = constant_family(config.criterion)
    check_criterion(family)
    return boundary.weak_learner(
        name="top_down_tree",
        config=config,
        program=functools.partial(_draw_splits_and_labels, config),
        hypothesis=functools.partial(tree_of_release, config),
        kind=trees.TREES,
        fractions=top_down_budget_fractions(0.5),
        relation=config.relation,
        coupled=True,
        total_weight=True,
    )
