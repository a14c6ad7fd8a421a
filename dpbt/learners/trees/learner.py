"""Trees as arrays: level statistics, shrinkage, the layout of rows, and greedy growth.

One product A[2 nodes, N] @ splits[N, S] gives, for every node, class and split, the weight of the
rows that satisfy the split. The left side of a split is the node's total minus the right side. A
left sibling's products are its parent's minus the right sibling's. So each level multiplies for its
right siblings only.

Of many rows with many splits for each feature, the weights in all bins are summed up instead, and
a split is a difference of cumulative sums (`split_weights_by_bins`).

Weights are integers 0..GRID and splits are bits, so both fit eight bits, and sums fit int32. So
statistics are exact, and do not depend on row order, shards, padding, method or device.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Float64, Int8, Int32, Shaped

from dpbt import types
from dpbt.data import splits
from dpbt.learners.complete_trees import tree_depth
from dpbt.learners.trees import model
from dpbt.learners.trees.model import ONE_HOT_NODES, BinsAndSplits, move_to_children, node_dtype
from dpbt.losses import family_name
from dpbt.privacy import accounting, boundary, mechanisms, variates
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism import Mechanism, Numbers
from dpbt.privacy.mechanisms import Scores
from dpbt.public_types import redacted_repr
from dpbt.types import GRID, AnyArray, Array, LossFamily, Release, View

MANY_CELLS, SPLITS_OF_A_FEATURE = 2**14, 16
"""From so many rows and splits for each feature on, sums by bin beat products on CPUs.

Seconds of processor time of ten trees in memory, by product / by bin, on 2 cores with AVX2:

| rows x features | depth | splits of a feature | seconds    |
|-----------------|-------|---------------------|------------|
| 32000 x 14      | 3     | 9                   | .03 / .05  |
| 32000 x 14      | 3     | 63                  | .15 / .05  |
| 200000 x 20     | 5     | 31                  | 2.26 / .66 |
"""


class TreeRows(NamedTuple):
    """A table laid out for the loops; `prepare_tree_rows` makes it once, outside all of them.

    Attributes:
        splits_of_rows: i8[S, N] of 0 and 1, which split is satisfied by which row. Where products
            are slower, the rows by their bins.
        target, present: as in `Table`.
        allowed: bool[S] or None, as in `Splits`.
        weight: f32[N] or None, as in `Table`.
    """

    splits_of_rows: Array | BinsAndSplits
    target: Array
    present: Array
    allowed: types.AnyArray | None = None
    weight: Array | None = None

    __repr__ = redacted_repr


def prepare_tree_rows(table: types.Table) -> TreeRows:
    """The rows and their splits, as `node_products` and `move_to_children` read them."""
    table_splits, (rows, features) = table.splits, table.bins.shape
    assert table_splits is not None  # as `check_tree_table` says
    if rows >= MANY_CELLS and len(table_splits.feature) >= SPLITS_OF_A_FEATURE * features:
        splits_of_rows = BinsAndSplits(
            table.bins.T,
            *map(jnp.asarray, (table_splits.feature, table_splits.low, table_splits.high)),
        )
    else:
        splits_of_rows = splits.satisfied_rows_by_split(table).astype(jnp.int8)
    return TreeRows(splits_of_rows, table.target, table.present, table_splits.allowed, table.weight)


def bytes_of_level_sums(table: TreeRows, nodes: int) -> tuple[int, int]:
    """(bytes of a row, bytes of all rows together) that the sums of a level take beside themselves.

    Args:
        table: the shapes of rows that are laid out.
        nodes: how many nodes the level has.
    """
    compared_bytes = 4 * min(2 * nodes, 2 * ONE_HOT_NODES)  # of each, its bin and three Booleans
    if not isinstance(table.splits_of_rows, BinsAndSplits):
        return 6 * table.splits_of_rows.shape[0] + 2 * nodes + compared_bytes + _ROW_BYTES, 0
    features = table.splits_of_rows.bins.shape[0]
    return features + compared_bytes + _ROW_BYTES, 4 * 3 * features * 2 * nodes * types.MAX_BINS


_ROW_BYTES = 40
"""What a row takes for its node, its weight and its place, with room for copies."""


def materialize(number: Int32[types.AnyArray, ""], compute: Callable[[], Array]) -> Array:
    """What `compute` returns, stored in memory.

    It is a branch on a number that compilers cannot know, so they cannot work the array out anew
    wherever it is read. Without it every level of a tree would weigh all rows again for each of its
    nodes, and route them again through all levels above. An optimization barrier does not help,
    because XLA takes it away on CPUs before it fuses loops.

    Args:
        number: i32[], at least 0: the number of the round. Nothing is stored where it is constant.
        compute: gives one array.
    """
    shape = jax.eval_shape(compute)
    never = functools.partial(jnp.zeros, shape.shape, shape.dtype)
    return jax.lax.cond(jnp.asarray(number) >= 0, compute, never)


def weights_by_class(table: TreeRows, weights: Array) -> Int8[Array, "2 N"]:
    """i8[2, N]: each row's weight under its class (0 negative, 1 positive); 0 for absent rows."""
    is_of_class = table.target[None, :] == jnp.array([[False], [True]])
    is_counted = is_of_class & table.present[None, :]
    return jnp.where(is_counted, weights.astype(jnp.int8)[None, :], jnp.int8(0))


def integer_product(left: Array, columns: Array) -> Int32[Array, "... S"]:
    """i32[..., S]: left i8[..., N] times the transpose of columns i8[S, N] of bits; exact.

    Processors multiply small integers. Compiled for an H100, XLA's product of small integers was
    wrong where N was no multiple of 16 (JAX 0.11.2), so other devices multiply floats.
    """
    over_rows = (((left.ndim - 1,), (1,)), ((), ()))
    integers = functools.partial(
        jax.lax.dot_general, dimension_numbers=over_rows, preferred_element_type=jnp.int32
    )
    return jax.lax.platform_dependent(left, columns, cpu=integers, default=float_product)


def float_product(left: Array, columns: Array) -> Int32[Array, "... S"]:
    """i32[..., S]: `integer_product` by floats, of so few rows at a time that their sums are exact.

    Partial sums of 2^17 rows are whole numbers of at most 2^24, in any order. Devices
    may round factors to eight bits, which changes none of them.
    """
    rows = left.shape[-1]
    size = min(rows, 2**17)
    parts = -(-rows // size)

    def cut(array: Array) -> Array:
        padding = [(0, 0)] * (array.ndim - 1) + [(0, parts * size - rows)]
        padded = jnp.pad(array, padding).reshape(*array.shape[:-1], parts, size)
        return padded.astype(jnp.float32)

    precision = jax.lax.Precision.DEFAULT  # whatever a flag of JAX says
    sums = jnp.einsum("...pn,spn->...sp", cut(left), cut(columns), precision=precision)
    return jnp.sum(sums.astype(jnp.int32), axis=-1)


def split_weights_by_product(
    columns: Array, by_class: Array, node: Array, wanted: Array
) -> Int32[Array, "W 2 S"]:
    """i32[W, 2, S]: `node_products` of W wanted nodes, by a product of small integers."""
    is_in_node = node[None, None, :] == wanted.astype(node.dtype)[:, None, None]
    return integer_product(jnp.where(is_in_node, by_class[None], jnp.int8(0)), columns)


def _node_class_and_weight(by_class: Array, node: Array) -> tuple[Array, Array]:
    """i32[N] the node and class of each row, as 2 node + class, and i32[N] its weight."""
    segment = 2 * node.astype(jnp.int32) + (by_class[1] > 0).astype(jnp.int32)
    return segment, jnp.max(by_class, axis=0).astype(jnp.int32)


def split_weights_by_bins(
    bins: BinsAndSplits, by_class: Array, node: Array, nodes: int
) -> Int32[Array, "nodes 2 S"]:
    """i32[nodes, 2, S]: `node_products` of a level, from the weights in each bin."""
    segment, weight = _node_class_and_weight(by_class, node)

    def of_feature(bin: Array) -> Array:
        sums = jnp.zeros(2 * nodes * types.MAX_BINS, jnp.int32)
        place = types.MAX_BINS * segment + bin.astype(jnp.int32)
        return sums.at[place].add(weight, mode="promise_in_bounds")

    # The weight of the rows below each bin, for each feature, node and class.
    sums = jax.lax.map(of_feature, bins.bins).reshape(-1, 2 * nodes, types.MAX_BINS)
    below = jnp.pad(jnp.cumsum(sums, axis=-1), ((0, 0), (0, 0), (1, 0)))

    # The bins of a split are below its end, and not below its start.
    start, end = bins.low.astype(jnp.int32), bins.high.astype(jnp.int32) + 1
    right = below[bins.feature, :, jnp.maximum(end, start)] - below[bins.feature, :, start]
    return right.T.reshape(nodes, 2, -1)


def node_products(
    table: TreeRows,
    by_class: Int8[Array, "2 N"],
    node: Shaped[Array, "N"],
    nodes: int,
    parent: Array | None,
) -> Int32[Array, "nodes 2 S"]:
    """The weight of the rows of each node and class that satisfy each split.

    Args:
        table: prepared rows.
        by_class: i8[2, N] from `weights_by_class`.
        node: i8 or i32[N], the node of this level that each row is in.
        nodes: how many nodes the level has, a power of two.
        parent: this function's result one level up, or None to sum for every node.

    Returns:
        i32[nodes, 2, S], in units of the grid; exact.
    """
    if isinstance(table.splits_of_rows, BinsAndSplits):
        return split_weights_by_bins(table.splits_of_rows, by_class, node, nodes)
    every = jnp.arange(nodes, dtype=jnp.int32)
    if parent is None:
        return split_weights_by_product(table.splits_of_rows, by_class, node, every)
    right = split_weights_by_product(table.splits_of_rows, by_class, node, every[1::2])
    return jnp.stack([parent - right, right], axis=1).reshape(nodes, 2, -1)


def split_weights_of_mask(table: TreeRows, by_class: Array, mask: Array) -> Int32[Array, "2 S"]:
    """i32[2, S]: `node_products` of the rows of a mask bool[N]."""
    root = jnp.zeros(table.target.shape[0], jnp.int32)
    return node_products(table, jnp.where(mask[None], by_class, 0), root, 1, None)[0]


def node_totals(by_class: Array) -> Int32[Array, "1 2"]:
    """i32[1, 2]: the root's weight by class, in units of the grid; exact up to `MAX_ROWS` rows."""
    return jnp.sum(by_class, axis=-1, dtype=jnp.int32)[None]


def perspectives_of_weights(
    loss: types.ProperLoss, counts: Shaped[Array, "nodes 2 ..."]
) -> Float64[Array, "nodes ..."]:
    """f64[nodes, ...]: the perspective of exact class weights, in units of the weight bound.

    For use within `variates.double_precision`, with a loss whose alpha is float64.

    Args:
        loss: the criterion.
        counts: i32[nodes, 2, ...], class weights in grid units.
    """
    weight = variates.to_float64(counts) / GRID
    return loss.perspective(weight[:, 1], weight[:, 0])


def class_weights_of_nodes(
    by_class: Int8[Array, "2 N"], node: Shaped[Array, "N"], nodes: int
) -> Int32[Array, "nodes 2"]:
    """i32[nodes, 2]: the class weights of the nodes of a level, row by row.

    Args:
        by_class: i8[2, N] from `weights_by_class`.
        node: i8 or i32[N], the node of this level that each row is in.
        nodes: how many nodes the level has.
    """
    segment, weight = _node_class_and_weight(by_class, node)
    sums = jnp.zeros(2 * nodes, jnp.int32).at[segment].add(weight, mode="promise_in_bounds")
    return sums.reshape(nodes, 2)


def child_totals(
    products: Array, totals: Array, split: Int32[Array, "nodes"]
) -> Shaped[Array, "_ 2"]:
    """i32 or f64[2 nodes, 2]: the children's class weights.

    Args:
        products: i32[nodes, 2, S], or the same in float64, from `node_products`.
        totals: i32[nodes, 2], or the same in float64, the class weights of the nodes.
        split: i32[nodes].
    """
    chosen = jnp.take_along_axis(products, jnp.maximum(split, 0)[:, None, None], axis=2)[..., 0]
    right = jnp.where(split[:, None] == types.UNSPLIT, 0, chosen)
    return jnp.stack([totals - right, right], axis=1).reshape(-1, 2)


def check_tree_table(table: types.Table) -> None:
    """Refuse a table that trees cannot read.

    Raises:
        ValueError: as `splits.check_bins_and_splits`, and unless the table holds uint8 bins with
            splits.
    """
    splits.check_bins_and_splits(table)
    if table.bins.dtype != jnp.uint8:
        dtype_words = types.dtype_and_rank(table.bins)
        raise ValueError(f"trees ask splits of uint8 table.bins, got {dtype_words}")


TREES = model.TREES.with_training(
    example_table=splits.absent_row_table,
    check_table=check_tree_table,
    prepare=prepare_tree_rows,
    prediction_input=lambda rows: rows.splits_of_rows,
    bound=lambda tree: jnp.max(jnp.abs(tree.leaf)),
)
"""Trees of any depth over public splits."""


def leaf_shares_shrunk_to_parents(counts: Shaped[Array, "L 2"], prior: Array) -> Shaped[Array, "L"]:
    """f32 or f64[L]: the share of class 1 in each leaf, shrunk towards the shares of its ancestors.

    q(node) = (c1 + prior q(parent)) / (c1 + c0 + prior), with q(root's parent) = 1/2. With a tiny
    prior an empty node takes its parent's share, and any other node its own.

    Args:
        counts: f32 or f64[L, 2], non-negative class weights (negative, positive) of the leaves.
        prior: of the same type, above 0: the weight of the parent's share.
    """
    # The class weights of all nodes, from the leaves up.
    sums = [counts]
    for _ in range(tree_depth(counts.shape[0])):
        sums.append(sums[-1].reshape(-1, 2, 2).sum(axis=1))

    # Their shares, from the root down.
    share = jnp.full(1, 0.5, counts.dtype)
    for count in reversed(sums):
        parent_share = share if count.shape[0] == 1 else jnp.repeat(share, 2)
        share = (count[:, 1] + prior * parent_share) / (count.sum(axis=1) + prior)
    return share


# Greedy growth, level by level.


TINY_PRIOR = 1e-6
"""A parent's weight in the share of its leaf, where it should only fill in for empty leaves."""


class TreeSettings(NamedTuple):
    """The numbers of a tree that are no noise; each may have axes of settings.

    Attributes:
        alpha: f32[] for each of D depths, the criterion's alpha, where it is given.
        link_alpha: f32[], alpha of the link and of the leverage.
        clip: f32[], M: leaf values before leverage are clamped to [-M, M].
        zeta: f32[], shares of a class are clamped to [zeta, 1 - zeta] before the link.
        step: f32[], a of Algorithm 1 for M = clip.
        step_clip: f32[], at most clip: the least M of the step; see `leverage`.
        smoothing: f32[], a parent's weight in the share of its leaf, in units of the leaf's noise.
    """

    alpha: tuple[Numbers, ...]
    link_alpha: Numbers
    clip: Numbers
    zeta: Numbers
    step: Numbers
    step_clip: Numbers
    smoothing: Numbers


class GreedyTreeParams(NamedTuple):
    """The traced numbers of a greedy tree.

    Attributes:
        noise: f32[], the noise multiplier of "split", "error" and "leaf". That of splits is 0 in
            the non-private mode, which takes the best split and leaves pure nodes alone.
        settings: numbers that are no noise.
    """

    noise: Mapping[str, AnyArray]
    settings: TreeSettings


def default_tree_settings(link: LossFamily, depth: int) -> TreeSettings:
    """The settings of `recipes.bdpe` for alpha = 1."""
    clip, smoothness = 10.0, float(link(np.float32(1)).smoothness)
    return TreeSettings((1.0,) * depth, 1.0, clip, 1e-4, 1 / (4 * smoothness * clip**2), clip, 1.0)


def tree_budget_fractions(structure: Numbers, errors: Numbers | None) -> dict[str, Numbers]:
    """How a tree's budget is shared.

    Args:
        structure: the fraction of splits and errors together; leaves have the rest.
        errors: the fraction of the structure's fraction for noisy errors; None without them.
    """
    if errors is None:
        return {"split": structure, "leaf": 1 - structure}
    return {"split": structure * (1 - errors), "error": structure * errors, "leaf": 1 - structure}


AlphaOfLevel = Callable[[int, Array], Array]
"""(level, class weights i32[nodes, 2] of its nodes) -> the criterion's alpha at that level."""


def majority_errors(totals: Shaped[AnyArray, "nodes 2"]) -> Shaped[AnyArray, ""]:
    """The weight that predicting each node's majority class gets wrong, in grid units.

    Args:
        totals: i32[nodes, 2], class weights; of large sums the same in float64.

    Returns:
        In the dtype of the class weights, with the shape [].
    """
    return totals.min(axis=-1).sum()


def split_scores(
    loss: types.ProperLoss, products: Shaped[Array, "nodes 2 S"], totals: Shaped[Array, "nodes 2"]
) -> Float64[Array, "nodes S"]:
    """f64[nodes, S]: minus the summed perspectives of the two children of every node and split.

    For use within `variates.double_precision`, with a loss whose alpha is float64.

    Args:
        loss: the criterion.
        products: i32[nodes, 2, S] from `node_products`, or the same in float64.
        totals: i32[nodes, 2], the class weights of the nodes, or the same in float64.
    """
    left = totals[:, :, None] - products
    return -(perspectives_of_weights(loss, products) + perspectives_of_weights(loss, left))


@functools.cache
def split_scorer(family: LossFamily) -> Callable[..., Scores]:
    """From the class weights of the nodes of a level to the scores of their splits.

    Args:
        family: the criterion by alpha.

    Returns:
        ((products, totals), alpha, noise, allowed) -> the scores [nodes, S]. The first two are as
        in `split_scores`. The bool[S] `allowed` says which splits may be chosen; None for all.
        Without noise, pure nodes are left alone.
    """

    def scores(
        sums: tuple[Array, Array], alpha: Array, noise: Array, allowed: Array | None
    ) -> Scores:
        with variates.double_precision():
            products, totals = sums
            pure = jnp.min(totals, axis=-1) == 0
            chosen_from = ~((noise == 0) & pure)[:, None]
            if allowed is not None:
                chosen_from = chosen_from & allowed[None, :]
            exact = split_scores(family(variates.to_float64(alpha)), products, totals)
            return mechanisms.behind_best(exact, chosen_from)

    return scores


@dataclasses.dataclass(frozen=True, kw_only=True)
class GreedyTreeConfig:
    """The static parts of a greedy tree.

    Attributes:
        depth: D, at least 1.
        criterion: the family whose perspective scores splits.
        link: the family of the link and of the leverage.
        objective: take alpha from errors instead of `TreeSettings.alpha`.
        relation: the neighbouring relation of the ledger.
        noise: the mechanism of errors and leaves: `mechanisms.discrete_laplace`, or
            `mechanisms.rounded_gaussian` for zCDP.
    """

    depth: int
    criterion: LossFamily
    link: LossFamily
    objective: bool
    relation: types.Relation
    noise: Mechanism = mechanisms.discrete_laplace

    @property
    def identity(self) -> str:
        """Every static part as text, which enters keys."""
        families = f"{family_name(self.criterion)}, {family_name(self.link)}"
        return f"{self.depth}, {self.objective}, {families}, {self.under}, {self.noise.name}"

    @property
    def under(self) -> str:
        """The name of the neighbouring relation that the guarantee holds under."""
        return types.as_relation(self.relation).value


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPricing:
    """How the draws of splits are priced.

    Attributes:
        bound: (loss, rows) -> the sensitivity of a score.
        moves: the range of the change of scores is moves * bound.
        each_node: whether every node is paid for, instead of all nodes of a level together.
        theorem: where the bound is proved.
    """

    bound: Callable[[types.ProperLoss, AnyArray], Array]
    moves: int
    each_node: bool
    theorem: str

    def sensitivity(self, family: LossFamily, alpha: Numbers, rows: Numbers) -> Float32[Array, ""]:
        """f32[]: the range of the change of scores, worked out in double precision.

        So a fit in memory and one in blocks have the same.
        """
        with variates.double_precision():
            numbers = (
                variates.to_float64(jnp.asarray(alpha)),
                variates.to_float64(jnp.asarray(rows)),
            )
            bound = self.bound(family(numbers[0]), numbers[1])
            return (self.moves * bound).astype(jnp.float32)


def draw_tree_splits(
    config: GreedyTreeConfig,
    draw: Draw,
    view: View,
    alpha_of: AlphaOfLevel | None,
    price: SplitPricing,
) -> Int32[Array, "L 2"]:
    """Draw all splits, level by level.

    Args:
        config: the static parts of the tree.
        draw: the program's access to random draws.
        view: prepared rows, their weights in 0..GRID, `GreedyTreeParams`, and what is public in the
            round.
        alpha_of: the alpha of each level; None for that of `TreeSettings.alpha`.
        price: how the draws of splits are priced.

    Returns:
        i32[L, 2], the leaves' class weights in grid units; private.
    """
    table, weights, params, public = view
    family, noise_of = config.criterion, params.noise
    by_class = materialize(public.round, functools.partial(weights_by_class, table, weights))
    node = jnp.zeros(table.target.shape[0], node_dtype(2**config.depth))
    totals, products = node_totals(by_class), None
    by_rows = isinstance(table.splits_of_rows, BinsAndSplits)
    for level in range(config.depth):
        # The weights on the right side of every split, and the criterion of this level.
        nodes = 2**level
        products = node_products(table, by_class, node, nodes, products)
        alpha = params.settings.alpha[level] if alpha_of is None else alpha_of(level, totals)
        alpha = jnp.asarray(alpha, jnp.float32)
        largest = params.settings.alpha[level] if alpha_of is None else jnp.float32(1)

        # One split for each node, by its score; every row moves to its child.
        site = f"split_{level}"
        noise = noise_of[boundary.budget_group_of_site(site, noise_of)]
        read_by_scorer = alpha, jnp.asarray(noise, jnp.float32), table.allowed
        split = draw(
            site,
            mechanisms.exponential,
            boundary.Total((products, totals), split_scorer(family), public=read_by_scorer),
            sensitivity=price.sensitivity(family, alpha, public.rows),
            max_sensitivity=price.sensitivity(family, largest, public.rows),
            moved_outputs=nodes if price.each_node else price.moves,
            theorem=price.theorem,
            num_payments=nodes if price.each_node else 1,
            releases=f"splits at depth {level}, "
            f"{'each node paid for' if price.each_node else 'all nodes together'}",
            unit=accounting.ROW,
        )
        # A sum over rows, where it is cheap, lets a pass on a table in parts leave out the products
        # of the levels above.
        if level + 1 < config.depth or by_rows:
            node = materialize(
                public.round, functools.partial(move_to_children, table.splits_of_rows, node, split)
            )
        if by_rows:
            totals = class_weights_of_nodes(by_class, node, 2 * nodes)
        else:
            totals = child_totals(products, totals, split)
    return totals


def link_values(family: LossFamily, settings: TreeSettings, share: Array) -> Shaped[Array, "L"]:
    """f32 or f64[L], as the shares: the canonical link of each, with both clamped."""
    value = family(settings.link_alpha).link(jnp.clip(share, settings.zeta, 1 - settings.zeta))
    return jnp.clip(value, -settings.clip, settings.clip)


def leverage(
    settings: TreeSettings,
    value: Shaped[Array, "L"],
    edge: Shaped[Array, ""],
    cap: Shaped[AnyArray, ""],
) -> Shaped[Array, ""]:
    """f32 or f64[]: beta_t of Algorithm 1, the edge of a tree times a of its M.

    M is max |value|, or `step_clip` where that is larger. A leveraged leaf beta_t h is at most
    a M^2 for weights of at most 1. That is the same number for every M: `step * clip^2`.

    Args:
        settings: of the tree.
        value: f32 or f64[L], the values h of its leaves, clamped to [-clip, clip].
        edge: f32 or f64[], the mean of w y h; clamped to its range.
        cap: f32 or f64[], the largest weight.
    """
    bound = jnp.maximum(jnp.max(jnp.abs(value)), settings.step_clip)
    step = settings.step * (settings.clip / bound) ** 2
    return step * jnp.clip(edge, -cap * bound, cap * bound)


def splits_in_heap_order(release: Release, depth: int) -> Int32[Array, "_"]:
    """i32[2^D - 1]: the splits of all D levels in heap order."""
    return jnp.concatenate([release[f"split_{level}"] for level in range(depth)])
