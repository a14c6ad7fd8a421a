"""Top-down trees: leaf and split are chosen together among all current leaves.

Asadi et al. (2022), Algorithm 2. A tree of t internal nodes under a depth cap D lives in a complete
tree of depth D, in which nodes that are not split route left.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt.base import (
    GRID,
    UNSPLIT,
    AnyArray,
    Array,
    ProperLoss,
    Public,
    Relation,
    Release,
    Tree,
    WeakLearner,
    relation_name,
)
from dpbt.learners import trees
from dpbt.losses import family_name, fixed
from dpbt.privacy import boundary, mechanisms, sensitivity, slickness
from dpbt.privacy.accounting import Event
from dpbt.privacy.mechanism import Allowance, Mechanism, Numbers, rounded_down

PUBLISHED_RANGE = 8
"""Asadi et al. (2022), section 9: one selection by Gini improvement is 8 eta zeta-DP."""


class TopDownBudget(NamedTuple):
    """The traced numbers of top-down trees; each may have leading axes of settings.

    Attributes:
        split_epsilon: f32[], the cost of one selection; infinite in the non-private mode.
        leaf_scale: f32[], the noise of the labels: temperature (tight) or Laplace scale
            (published), in grid units.
    """

    split_epsilon: AnyArray
    leaf_scale: AnyArray


class Kind(NamedTuple):
    """What is static in a top-down tree.

    Attributes:
        splits: t, the number of internal nodes, at most 2**D - 1.
        depth: D, the depth cap.
        criterion: G.
        relation: the neighbouring relation of the ledger.
        calibration: "tight" or "published".
    """

    splits: int
    depth: int
    criterion: ProperLoss
    relation: Relation
    calibration: str

    @property
    def tight(self) -> bool:
        """Whether the calibration is the tight one."""
        return self.calibration == "tight"

    @property
    def labels(self) -> Mechanism:
        """The mechanism of the labels."""
        return mechanisms.exponential if self.tight else mechanisms.noisy_max


def tight_range(criterion: ProperLoss, mass: Numbers, relation: Relation) -> Numbers:
    """`slickness.improvement_range` with its allowance for float32, in units of the weight cap."""
    exact = slickness.improvement_range(criterion, mass, relation)
    return exact + slickness.improvement_rounding(mass)


def improvements(criterion: ProperLoss, products: Array, totals: Array) -> Array:
    """f32[nodes, S]: what each split of each node takes off the perspectives, in units of the cap.

    Args:
        criterion: the loss whose perspective is w G(q).
        products: i32[nodes, 2, S], weights that satisfy each split, by class.
        totals: i32[nodes, 2].
    """

    def perspective(counts: Array) -> Array:
        weight = counts.astype(jnp.float32) / GRID
        return criterion.perspective(weight[:, 1], weight[:, 0])

    return (
        perspective(totals)[:, None]
        - perspective(products)
        - perspective(totals[:, :, None] - products)
    )


@functools.cache
def _leftmost_leaf(depth: int) -> np.ndarray:
    """i32[2**(D+1) - 1]: where a row ends that is routed left from each heap node on."""
    ends = [(np.arange(2**level) << (depth - level)) for level in range(depth + 1)]
    return np.concatenate(ends).astype(np.int32)


class _Growth(NamedTuple):
    """A tree in the making, over a heap of 2**(D+1) - 1 nodes; all of it is private.

    Attributes:
        node: i32[N], the heap node of each row.
        totals: i32[heap, 2], the class weights of each node, in grid units.
        products: i32[2**D - 1, 2, S], those of its rows that satisfy each split.
        is_leaf: bool[heap].
    """

    node: Array
    totals: Array
    products: Array
    is_leaf: Array


def _mask_products(table: trees.Prepared, by_class: Array, mask: Array) -> Array:
    """i32[2, S]: `trees.node_products` of the rows of a mask bool[N]."""
    root = jnp.zeros(table.target.shape[0], jnp.int32)
    return trees.node_products(table, jnp.where(mask[None], by_class, 0), root, 1, None)[0]


def _root(table: trees.Prepared, by_class: Array, depth: int) -> _Growth:
    """A tree whose only leaf is the root."""
    nodes, heap = 2**depth - 1, 2 ** (depth + 1) - 1
    root = _mask_products(table, by_class, table.present)
    return _Growth(
        node=jnp.zeros(table.target.shape[0], jnp.int32),
        totals=jnp.zeros((heap, 2), jnp.int32).at[0].set(trees.node_totals(by_class)[0]),
        products=jnp.zeros((nodes, *root.shape), jnp.int32).at[0].set(root),
        is_leaf=jnp.zeros(heap, bool).at[0].set(True),
    )


def _scores(criterion: ProperLoss, growth: _Growth, allowed: AnyArray | None) -> Array:
    """f32[S * (2**D - 1)]: of candidate split * nodes + node; -inf for those that are not open."""
    nodes = growth.products.shape[0]
    gains = improvements(criterion, growth.products, growth.totals[:nodes])
    is_open = growth.is_leaf[:nodes, None]
    if allowed is not None:
        is_open = is_open & allowed[None, :]
    return jnp.where(is_open, gains, -jnp.inf).T.reshape(-1)


def _split_leaf(table: trees.Prepared, growth: _Growth, node: Array, split: Array) -> _Growth:
    """The tree with one leaf split; the products of its children are not made yet."""
    left, right = 2 * node + 1, 2 * node + 2
    child = left + table.columns[split].astype(jnp.int32)
    satisfied = growth.products[node, :, split]
    unsatisfied = growth.totals[node] - satisfied
    return growth._replace(
        node=jnp.where(growth.node == node, child, growth.node),
        totals=growth.totals.at[left].set(unsatisfied).at[right].set(satisfied),
        is_leaf=growth.is_leaf.at[node].set(False).at[left].set(True).at[right].set(True),
    )


def _grow(
    draw: boundary.Draw,
    table: trees.Prepared,
    weights: Array,
    kind: Kind,
    scale: tuple[Array, Array],
) -> Array:
    """Draw all pairs of leaf and split.

    Args:
        draw: what the program asks for its draws.
        table: the prepared rows.
        weights: f32[N], integers 0..GRID.
        kind: of the tree.
        scale: the temperature of a selection, and what the ledger measures it in.

    Returns:
        i32[L, 2], the leaves' class weights in grid units; private.
    """
    nodes = 2**kind.depth - 1
    by_class = trees.weights_by_class(table, weights)
    growth = _root(table, by_class, kind.depth)
    for k in range(kind.splits):
        scores = _scores(kind.criterion, growth, table.allowed)
        choice = draw(f"split_{k}", mechanisms.exponential, scores, *scale)
        node, split = choice % nodes, choice // nodes
        growth = _split_leaf(table, growth, node, split)

        # The next selection needs the children's products.
        if k + 1 < kind.splits:
            left, right = 2 * node + 1, 2 * node + 2
            below = _mask_products(table, by_class, growth.node == right)
            products = growth.products.at[left].set(growth.products[node] - below, mode="drop")
            growth = growth._replace(products=products.at[right].set(below, mode="drop"))

    counts = jnp.where(growth.is_leaf[:, None], growth.totals, 0)
    leaves = jnp.zeros((2**kind.depth, 2), jnp.int32)
    return leaves.at[_leftmost_leaf(kind.depth)].add(counts)


def _split_range(kind: Kind, public: Public, cap: Numbers = 1.0) -> Numbers:
    """f32[...]: the range of the change of improvements, in units of the cap."""
    mass = slickness.total_mass(public.rows, public.reweighting.density, cap)
    proved = tight_range(kind.criterion, mass, kind.relation)
    if kind.tight:
        return proved
    return jnp.maximum(proved, PUBLISHED_RANGE)  # 8, and float32's allowance beyond 1,000 rows


def _leaf_sensitivity(kind: Kind, rows: Numbers) -> np.ndarray:
    """f64[...]: the range of the change of all labels' scores, in grid units."""
    return sensitivity.count_step(rows) * slickness.label_range(kind.relation)


def calibrate(
    kind: Kind, leaf_share: Numbers, allowance: Allowance, rounds: Numbers, public: Public
) -> TopDownBudget:
    """The budget: splits have equal parts of what labels leave.

    Args:
        kind: of the tree.
        leaf_share: the share of a round's allowance for the labels.
        allowance: of all rounds.
        rounds: tau.
        public: for the number of rows.
    """
    tree = allowance.part(1 / np.asarray(rounds))
    leaf_share = np.asarray(leaf_share, np.float64)
    split = tree.part((1 - leaf_share) / kind.splits)
    return TopDownBudget(
        rounded_down(mechanisms.exponential.price.shift(split)),
        kind.labels.scale(_leaf_sensitivity(kind, public.rows), tree.part(leaf_share)),
    )


def program(
    kind: Kind,
    draw: boundary.Draw,
    table: trees.Prepared,
    weights: Array,
    budget: TopDownBudget,
    public: Public,
) -> None:
    """All pairs of leaf and split, and the labels of the leaves."""
    widest = _split_range(kind, public, public.cap)
    scale = widest / jnp.asarray(budget.split_epsilon)
    counts = _grow(draw, table, weights, kind, (scale, widest))
    behind = counts - jnp.max(counts, axis=1, keepdims=True)
    draw("leaf", kind.labels, behind.astype(jnp.float32), budget.leaf_scale)


def hypothesis(kind: Kind, release: Release, budget: TopDownBudget, public: Public) -> Tree:
    """The tree; nodes that no selection chose are not split."""
    del budget, public
    nodes = 2**kind.depth - 1
    split = jnp.full(nodes, UNSPLIT, jnp.int32)
    for k in range(kind.splits):
        choice = release[f"split_{k}"]
        split = split.at[choice % nodes].set(choice // nodes)
    return Tree(split, (2 * release["leaf"] - 1).astype(jnp.float32))


def events(kind: Kind, budget: TopDownBudget, public: Public) -> list[Event]:
    """A line for each selection, and one for all labels."""
    theorem = "docs/privacy.md 9" if kind.tight else "Asadi et al., Thm 4.4"
    widest = np.asarray(_split_range(kind, public), np.float64)
    with np.errstate(divide="ignore"):  # an epsilon of 0 is refused by its scale
        scale = widest / np.asarray(budget.split_epsilon, np.float64)
    lines = [
        Event(
            f"split_{k}",
            mechanisms.exponential,
            f"leaf and split, number {k + 1}",
            sensitivity=widest,
            scale=scale,
            theorem=theorem,
            scale_unit=widest,
            moved=1,
        )
        for k in range(kind.splits)
    ]
    labels = Event(
        "leaf",
        kind.labels,
        "labels, all leaves",
        sensitivity=_leaf_sensitivity(kind, public.rows),
        scale=budget.leaf_scale,
        theorem=theorem,
        moved=2**kind.depth,
    )
    return [*lines, labels]


@functools.cache
def top_down_tree(
    splits: int, depth: int, criterion: ProperLoss, relation: Relation, calibration: str = "tight"
) -> WeakLearner:
    """DP-TopDown: a release of t pairs of leaf and split, and of 2**D labels.

    Guarantee, under `relation`, with `reweighting.lazy_bregman`, on whose total weight it counts:
    every selection is `split_epsilon`-DP, all labels together (2 GRID / leaf_scale)-DP; both are
    proved in `slickness`. The published calibration differs in its constant 8 for Gini, in labels
    by return-noisy-max where the tight one has the exponential mechanism (the same cost for less
    noise), and in weights that are not measured in units of a public cap below 1.

    Args:
        splits: t, the number of internal nodes, at most 2**D - 1.
        depth: D, the depth cap.
        criterion: G: `losses.square` (Gini), `losses.log` (entropy), `losses.matsushita`.
        relation: the neighbouring relation the ledger speaks of.
        calibration: "tight" or "published".
    """
    kind = Kind(splits, depth, criterion, relation, calibration)
    static = f"{splits}, {depth}, {family_name(fixed(criterion))}, {relation_name(relation)}"
    return boundary.weak_learner(
        functools.partial(program, kind),
        functools.partial(hypothesis, kind),
        functools.partial(events, kind),
        trees.TREES,
        relation,
        calibrate=functools.partial(calibrate, kind, 0.5),
        coupled=True,
        tag=f"top_down_tree({static}, {calibration})",
        total=True,
    )
