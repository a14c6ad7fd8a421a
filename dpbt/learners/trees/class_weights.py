"""The weights of the rows of each node and class that satisfy each split; exact.

One product A[2 nodes, N] @ splits[N, S] gives, for every node, class and split, the weight of the
rows that satisfy the split. The left side of a split is the node's total minus the right side. A
left sibling's products are its parent's minus the right sibling's. So each level multiplies for its
right siblings only.

Of many rows with many splits for each feature, the weights in all bins are summed up instead, and
a split is a difference of cumulative sums (`split_weights_from_bin_sums`).

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
    """i8[2, N]: put each row's weight under its class, and 0 under the other.

    The classes are 0, negative, and 1, positive. An absent row has 0 under both.
    """
    is_of_class = table.target[None, :] == jnp.array([[False], [True]])
    is_counted = is_of_class & table.present[None, :]
    return jnp.where(is_counted, weights.astype(jnp.int8)[None, :], jnp.int8(0))


def integer_product_over_rows(row_weights: Array, split_bits: Array) -> Int32[Array, "... S"]:
    """i32[..., S]: sum the integer weights of the rows that satisfy each split, exactly.

    It is the product over rows of weights i8[..., N] and bits i8[S, N] of each split.

    Processors multiply small integers. Compiled for an H100, XLA's product of small integers was
    wrong where N was no multiple of 16 (JAX 0.11.2), so other devices multiply floats.
    """
    over_rows = (((row_weights.ndim - 1,), (1,)), ((), ()))
    integers = functools.partial(
        jax.lax.dot_general, dimension_numbers=over_rows, preferred_element_type=jnp.int32
    )
    return jax.lax.platform_dependent(
        row_weights, split_bits, cpu=integers, default=exact_product_over_rows_by_floats
    )


def exact_product_over_rows_by_floats(
    row_weights: Array, split_bits: Array
) -> Int32[Array, "... S"]:
    """i32[..., S]: sum the integer weights of the rows that satisfy each split, by float products.

    The sums are exact: those of `integer_product_over_rows`.

    Partial sums of 2^17 rows are whole numbers of at most 2^24, in any order. Devices
    may round factors to eight bits, which changes none of them.
    """
    rows = row_weights.shape[-1]
    size = min(rows, 2**17)
    parts = -(-rows // size)

    def cut(array: Array) -> Array:
        padding = [(0, 0)] * (array.ndim - 1) + [(0, parts * size - rows)]
        padded = jnp.pad(array, padding).reshape(*array.shape[:-1], parts, size)
        return padded.astype(jnp.float32)

    precision = jax.lax.Precision.DEFAULT  # whatever a flag of JAX says
    sums = jnp.einsum("...pn,spn->...sp", cut(row_weights), cut(split_bits), precision=precision)
    return jnp.sum(sums.astype(jnp.int32), axis=-1)


def split_weights_by_matrix_product(
    splits_of_rows: Array, row_weights_by_class: Array, node_of_row: Array, node_numbers: Array
) -> Int32[Array, "W 2 S"]:
    """i32[W, 2, S]: the class weights that satisfy each split in W nodes, by a matrix product.

    The product is one of small integers: the weights of rows in each node, times the splits.
    """
    is_in_node = node_of_row[None, None, :] == node_numbers.astype(node_of_row.dtype)[:, None, None]
    return integer_product_over_rows(
        jnp.where(is_in_node, row_weights_by_class[None], jnp.int8(0)), splits_of_rows
    )


class _RowSegmentsAndWeights(NamedTuple):
    """The segment, of one node and class, that each row's weight is added to, and the weight.

    Attributes:
        segment: i32[N], the node and the class of the row, as 2 node + class.
        weight: i32[N].
    """

    segment: Array
    weight: Array


def _segments_and_weights_of_rows(
    row_weights_by_class: Array, node_of_row: Array
) -> _RowSegmentsAndWeights:
    """Number the pair of node and class that each row is in, and state the row's weight."""
    segment = 2 * node_of_row.astype(jnp.int32) + (row_weights_by_class[1] > 0).astype(jnp.int32)
    return _RowSegmentsAndWeights(segment, jnp.max(row_weights_by_class, axis=0).astype(jnp.int32))


def split_weights_from_bin_sums(
    bins: BinsAndSplits, row_weights_by_class: Array, node_of_row: Array, num_nodes: int
) -> Int32[Array, "nodes 2 S"]:
    """i32[nodes, 2, S]: the class weights that satisfy each split in each node, by sums over bins.

    The weights in every bin are summed up, and a split is a difference of cumulative sums.
    """
    segment, weight = _segments_and_weights_of_rows(row_weights_by_class, node_of_row)

    def sums_of_feature(bin: Array) -> Array:
        sums = jnp.zeros(2 * num_nodes * types.MAX_BINS, jnp.int32)
        index = types.MAX_BINS * segment + bin.astype(jnp.int32)
        return sums.at[index].add(weight, mode="promise_in_bounds")

    # The weight of the rows below each bin, for each feature, node and class.
    sums = jax.lax.map(sums_of_feature, bins.bins).reshape(-1, 2 * num_nodes, types.MAX_BINS)
    below = jnp.pad(jnp.cumsum(sums, axis=-1), ((0, 0), (0, 0), (1, 0)))

    # The bins of a split are below its end, and not below its start.
    start, end = bins.low.astype(jnp.int32), bins.high.astype(jnp.int32) + 1
    right = below[bins.feature, :, jnp.maximum(end, start)] - below[bins.feature, :, start]
    return right.T.reshape(num_nodes, 2, -1)


def split_weights_of_nodes(
    table: TreeRows,
    row_weights_by_class: Int8[Array, "2 N"],
    node_of_row: Shaped[Array, "N"],
    *,
    num_nodes: int,
    parent_products: Array | None = None,
) -> Int32[Array, "nodes 2 S"]:
    """i32[nodes, 2, S]: the class weights that satisfy each split in each node of a level.

    Args:
        table: prepared rows.
        row_weights_by_class: i8[2, N] from `weights_by_class`.
        node_of_row: i8 or i32[N], the node of this level that each row is in.
        num_nodes: how many nodes the level has, a power of two.
        parent_products: this function's result one level up, or None to sum for every node.

    Returns:
        i32[nodes, 2, S], in units of the grid; exact.
    """
    if isinstance(table.splits_of_rows, BinsAndSplits):
        return split_weights_from_bin_sums(
            table.splits_of_rows, row_weights_by_class, node_of_row, num_nodes
        )
    every = jnp.arange(num_nodes, dtype=jnp.int32)
    if parent_products is None:
        return split_weights_by_matrix_product(
            table.splits_of_rows, row_weights_by_class, node_of_row, every
        )
    right = split_weights_by_matrix_product(
        table.splits_of_rows, row_weights_by_class, node_of_row, every[1::2]
    )
    return jnp.stack([parent_products - right, right], axis=1).reshape(num_nodes, 2, -1)


def split_weights_of_masked_rows(
    table: TreeRows, row_weights_by_class: Array, mask: Array
) -> Int32[Array, "2 S"]:
    """i32[2, S]: the class weights of the rows of a mask that satisfy each split.

    The mask is bool[N].
    """
    root = jnp.zeros(table.target.shape[0], jnp.int32)
    weights_of_mask = jnp.where(mask[None], row_weights_by_class, 0)
    return split_weights_of_nodes(table, weights_of_mask, root, num_nodes=1)[0]


def root_class_weights(row_weights_by_class: Array) -> Int32[Array, "1 2"]:
    """i32[1, 2]: the class weights of the root, which are the totals over all rows, in grid units.

    It is exact up to `MAX_ROWS` rows.
    """
    return jnp.sum(row_weights_by_class, axis=-1, dtype=jnp.int32)[None]


def class_weights_of_nodes(
    row_weights_by_class: Int8[Array, "2 N"], node_of_row: Shaped[Array, "N"], num_nodes: int
) -> Int32[Array, "nodes 2"]:
    """i32[nodes, 2]: the class weights of the nodes of a level, summed over their rows.

    Args:
        row_weights_by_class: i8[2, N] from `weights_by_class`.
        node_of_row: i8 or i32[N], the node of this level that each row is in.
        num_nodes: how many nodes the level has.
    """
    segment, weight = _segments_and_weights_of_rows(row_weights_by_class, node_of_row)
    sums = jnp.zeros(2 * num_nodes, jnp.int32).at[segment].add(weight, mode="promise_in_bounds")
    return sums.reshape(num_nodes, 2)


def child_totals(
    products: Array, totals: Array, split_of_node: Int32[Array, "nodes"]
) -> Shaped[Array, "_ 2"]:
    """The class weights of the children that the nodes of a level get by their splits.

    They are i32[2 nodes, 2], or f64.

    Args:
        products: i32[nodes, 2, S], or the same in float64, from `split_weights_of_nodes`.
        totals: i32[nodes, 2], or the same in float64, the class weights of the nodes.
        split_of_node: i32[nodes].
    """
    chosen = jnp.take_along_axis(products, jnp.maximum(split_of_node, 0)[:, None, None], axis=2)[
        ..., 0
    ]
    right = jnp.where(split_of_node[:, None] == types.UNSPLIT, 0, chosen)
    return jnp.stack([totals - right, right], axis=1).reshape(-1, 2)


def total_majority_error_weight(totals: Shaped[AnyArray, "nodes 2"]) -> Shaped[AnyArray, ""]:
    """The weight of the rows that the majority class of their node misclassifies, over all nodes.

    It is in grid units.

    Args:
        totals: i32[nodes, 2], class weights; of large sums the same in float64.

    Returns:
        In the dtype of the class weights, with the shape [].
    """
    return totals.min(axis=-1).sum()
