"""The weights of the rows of each node and class that satisfy each split; exact.

One product A[2 nodes, N] @ splits[N, S] gives, for every node, class and split, the weight of the
rows that satisfy the split. The left side of a split is the node's total minus the right side. A
left sibling's products are its parent's minus the right sibling's. So each level multiplies for its
right siblings only.

Of many rows with many splits for each feature, the weights in all bins are summed up instead, and
a split is a difference of cumulative sums (`split_weights_by_bins`).

Weights are integers 0..GRID and splits are bits, so both fit eight bits, and sums fit int32. So
statistics are exact, and do not depend on row order, shards, padding, method or device.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Int8, Int32, Shaped

from dpbt import types
from dpbt.learners.trees.model import BinsAndSplits
from dpbt.learners.trees.rows import TreeRows
from dpbt.types import AnyArray, Array


def weights_by_class(table: TreeRows, weights: Array) -> Int8[Array, "2 N"]:
    """i8[2, N]: each row's weight under its class (0 negative, 1 positive); 0 for absent rows."""
    is_of_class = table.target[None, :] == jnp.array([[False], [True]])
    is_counted = is_of_class & table.present[None, :]
    return jnp.where(is_counted, weights.astype(jnp.int8)[None, :], jnp.int8(0))


def integer_matrix_product(left: Array, columns: Array) -> Int32[Array, "... S"]:
    """i32[..., S]: left i8[..., N] times the transpose of columns i8[S, N] of bits; exact.

    Processors multiply small integers. Compiled for an H100, XLA's product of small integers was
    wrong where N was no multiple of 16 (JAX 0.11.2), so other devices multiply floats.
    """
    over_rows = (((left.ndim - 1,), (1,)), ((), ()))
    integers = functools.partial(
        jax.lax.dot_general, dimension_numbers=over_rows, preferred_element_type=jnp.int32
    )
    return jax.lax.platform_dependent(
        left, columns, cpu=integers, default=exact_float_matrix_product
    )


def exact_float_matrix_product(left: Array, columns: Array) -> Int32[Array, "... S"]:
    """i32[..., S]: `integer_matrix_product` by floats, in parts whose sums are exact.

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
    columns: Array, by_class: Array, node: Array, node_numbers: Array
) -> Int32[Array, "W 2 S"]:
    """i32[W, 2, S]: `node_products` of W nodes, by a product of small integers."""
    is_in_node = node[None, None, :] == node_numbers.astype(node.dtype)[:, None, None]
    return integer_matrix_product(jnp.where(is_in_node, by_class[None], jnp.int8(0)), columns)


class _RowSegments(NamedTuple):
    """Where the weight of each row is added up.

    Attributes:
        segment: i32[N], the node and the class of the row, as 2 node + class.
        weight: i32[N].
    """

    segment: Array
    weight: Array


def _sort_rows_into_segments(by_class: Array, node: Array) -> _RowSegments:
    """The node and the class of each row, and its weight."""
    segment = 2 * node.astype(jnp.int32) + (by_class[1] > 0).astype(jnp.int32)
    return _RowSegments(segment, jnp.max(by_class, axis=0).astype(jnp.int32))


def split_weights_by_bins(
    bins: BinsAndSplits, by_class: Array, node: Array, nodes: int
) -> Int32[Array, "nodes 2 S"]:
    """i32[nodes, 2, S]: `node_products` of a level, from the weights in each bin."""
    segment, weight = _sort_rows_into_segments(by_class, node)

    def sums_of_feature(bin: Array) -> Array:
        sums = jnp.zeros(2 * nodes * types.MAX_BINS, jnp.int32)
        place = types.MAX_BINS * segment + bin.astype(jnp.int32)
        return sums.at[place].add(weight, mode="promise_in_bounds")

    # The weight of the rows below each bin, for each feature, node and class.
    sums = jax.lax.map(sums_of_feature, bins.bins).reshape(-1, 2 * nodes, types.MAX_BINS)
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


def class_weights_of_nodes(
    by_class: Int8[Array, "2 N"], node: Shaped[Array, "N"], nodes: int
) -> Int32[Array, "nodes 2"]:
    """i32[nodes, 2]: the class weights of the nodes of a level, row by row.

    Args:
        by_class: i8[2, N] from `weights_by_class`.
        node: i8 or i32[N], the node of this level that each row is in.
        nodes: how many nodes the level has.
    """
    segment, weight = _sort_rows_into_segments(by_class, node)
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


def majority_errors(totals: Shaped[AnyArray, "nodes 2"]) -> Shaped[AnyArray, ""]:
    """The weight that predicting each node's majority class gets wrong, in grid units.

    Args:
        totals: i32[nodes, 2], class weights; of large sums the same in float64.

    Returns:
        In the dtype of the class weights, with the shape [].
    """
    return totals.min(axis=-1).sum()
