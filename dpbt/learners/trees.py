"""Trees as arrays: level statistics, routing, prediction.

One product A[2 nodes, N] @ splits[N, S] gives, for every node, class and split, the weight of the
rows that satisfy the split. The left side of a split is the node's total minus the right side. A
left sibling's products are its parent's minus the right sibling's. So each level multiplies for its
right siblings only.

Of many rows with many splits for each feature, the weights in all cells are summed up instead, and
a split is a difference of cumulative sums (`cell_sums`).

Weights are integers 0..GRID and splits are bits, so both fit eight bits, and sums fit int32. So
statistics are exact, and do not depend on row order, shards, padding, method or device.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpbt.base import (
    CELLS,
    GRID,
    UNSPLIT,
    AnyArray,
    Array,
    HypothesisClass,
    ProperLoss,
    Table,
    dtype_and_rank,
)
from dpbt.data import questions
from dpbt.learners.hypotheses.kind import Of
from dpbt.learners.hypotheses.trees import ONE_HOT_NODES, Cells, depth, predict
from dpbt.learners.hypotheses.trees import descend as descend
from dpbt.learners.hypotheses.trees import node_dtype as node_dtype
from dpbt.learners.hypotheses.trees import route as route
from dpbt.learners.hypotheses.trees import satisfied as satisfied
from dpbt.privacy import variates
from dpbt.public import without_values

CHUNK_ROWS = 2**24 // GRID
"""Most rows whose weights a float32 accumulator sums exactly."""

SEGMENT_NODES = 128
"""From this many right siblings on, sums by segment beat products on CPUs.

Milliseconds by product / by segment, measured on 2 cores with eight-bit matrix units:

| right siblings            | 8        | 64       | 256       | 1024     |
|---------------------------|----------|----------|-----------|----------|
| 16 trees on 1372 x 36     | .3 / .6  | .6 / .5  | 3 / .6    | 12 / 1   |
| 8 trees on 5473 x 90      | .4 / 4   | 1 / 4    | 3 / 3     | 27 / 5   |
| one tree on 16384 x 160   | .6 / 1.4 | .7 / 1.6 | 2.5 / 1.4 | 11 / 1.3 |
"""

MANY_ROWS = 2**12
"""From this many rows on, products read the transposed table.

Milliseconds of one core with eight-bit matrix units, by the table / by its transpose:

| rows of left | 2         | 32        | 128       | 2048      |
|--------------|-----------|-----------|-----------|-----------|
| 1372 x 36    | .02 / .02 | .03 / .02 | .04 / .03 | .31 / .33 |
| 4096 x 160   | .09 / .04 | .09 / .04 | .13 / .10 | 2.0 / 1.4 |
| 65536 x 160  | 2.4 / .5  | 2.5 / .7  | 4.0 / 2.7 | 63 / 48   |
"""

MANY_CELLS, SPLITS_OF_A_FEATURE = 2**14, 16
"""From so many rows and splits for each feature on, sums by cell beat products on CPUs.

Seconds of processor time of ten trees in memory, by product / by cell, on 2 cores with AVX2:

| rows x features | depth | splits of a feature | seconds    |
|-----------------|-------|---------------------|------------|
| 32000 x 14      | 3     | 9                   | .03 / .05  |
| 32000 x 14      | 3     | 63                  | .15 / .05  |
| 200000 x 20     | 5     | 31                  | 2.26 / .66 |
"""

STREAMED_ROWS = 2**17
"""From this many rows on, a plain sum over rows is as fast as a product with ones."""

_ONES = 16
"""How many equal columns a sum over rows has as a product; one column takes longer on CPUs."""


class Prepared(NamedTuple):
    """A table laid out for the loops; `prepare` makes it once, outside all of them.

    A program that prepares a table leaves out the layouts that it does not read.

    Attributes:
        splits: i8[N, S] of 0 and 1, for products.
        columns: i8[S, N], the same transposed, for routing and for products of many rows.
        target, present: as in `Table`.
        allowed: bool[S] or None, as in `Questions`.
        weight: f32[N] or None, as in `Table`.
        cells: the rows by their cells, which are read in place of the first two layouts; None where
            products are faster.
    """

    splits: Array
    columns: Array
    target: Array
    present: Array
    allowed: AnyArray | None = None
    weight: Array | None = None
    cells: Cells | None = None

    __repr__ = without_values

    @property
    def asked(self) -> Cells | Array:
        """What splits are asked of, as `descend` and `predict` take it."""
        return self.columns if self.cells is None else self.cells


def prepare(table: Table) -> Prepared:
    """The splits of the table's rows, in the layouts that `node_products` and `descend` read."""
    columns, asked = questions.columns_of(table).astype(jnp.int8), table.questions
    assert asked is not None  # as `columns_of` says
    cells, (rows, features) = None, table.cells.shape
    if rows >= MANY_CELLS and len(asked.feature) >= SPLITS_OF_A_FEATURE * features:
        of_splits = map(jnp.asarray, (asked.feature, asked.low, asked.high))
        cells = Cells(table.cells.T, *of_splits)
    read = columns.T, columns, table.target, table.present, asked.allowed, table.weight
    return Prepared(*read, cells)


def work(table: Prepared, nodes: int) -> tuple[int, int]:
    """(bytes of a row, bytes of all rows together) that the sums of a level take beside themselves.

    Args:
        table: the shapes of rows that are laid out.
        nodes: how many nodes the level has.
    """
    asked_at_once = 4 * min(2 * nodes, 2 * ONE_HOT_NODES)  # of each, its cell and three Booleans
    if table.cells is None:
        splits = table.columns.shape[0]
        return 6 * splits + 2 * nodes + asked_at_once + _ROW_BYTES, 0
    features = table.cells.cells.shape[0]
    return features + asked_at_once + _ROW_BYTES, 4 * 3 * features * 2 * nodes * CELLS


_ROW_BYTES = 40
"""What a row takes for its node, its weight and its place, with room for copies."""


def stored(number: AnyArray, compute: Callable[[], Array]) -> Array:
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


def weights_by_class(table: Prepared, weights: Array) -> Array:
    """i8[2, N]: each row's weight under its class (0 negative, 1 positive); 0 for absent rows."""
    of_class = table.target[None, :] == jnp.array([[False], [True]])
    counted = of_class & table.present[None, :]
    return jnp.where(counted, weights.astype(jnp.int8)[None, :], jnp.int8(0))


Product = Callable[[Array, Array, Array], Array]
"""(left i8[..., N], right i8[N, S], right's transpose) -> left @ right, i32[..., S]; exact."""


def product_int8(left: Array, right: Array, columns: Array) -> Array:
    """i32[..., S]: left i8[..., N] @ right i8[N, S], summed in int32; exact up to `MAX_ROWS` rows.

    For many rows it reads `columns`, right's transpose, so that the left operand is rearranged and
    not the table (`MANY_ROWS`).
    """
    if right.shape[0] < MANY_ROWS:
        return jnp.matmul(left, right, preferred_element_type=jnp.int32)
    sums = _transposed_product(columns, left.reshape(-1, left.shape[-1]))
    return sums.T.reshape(*left.shape[:-1], -1)


def _transposed(columns: Array, left: Array) -> Array:
    """i32[S, M]: columns i8[S, N] times the transpose of left i8[M, N]."""
    return jnp.tensordot(columns, left, (1, 1), preferred_element_type=jnp.int32)


_transposed_product = jax.custom_batching.custom_vmap(_transposed)
"""`_transposed`, to which the lanes of a vmap are more rows of left.

With an axis of lanes, XLA would first store left in another order, which takes longer than the
product.
"""


@_transposed_product.def_vmap
def _transposed_product_of_lanes(
    axis_size: int, in_batched: Sequence[bool], columns: Array, left: Array
) -> tuple[Array, bool]:
    own_table, own_left = in_batched
    if own_table:
        return jax.vmap(_transposed, (0, 0 if own_left else None))(columns, left), True
    sums = _transposed_product(columns, left.reshape(-1, left.shape[-1]))
    return jnp.moveaxis(sums.reshape(sums.shape[0], axis_size, -1), 1, 0), True


def product_bfloat16(
    left: Array, right: Array, columns: Array, chunk_rows: int = CHUNK_ROWS
) -> Array:
    """The same product in bfloat16, which holds 0..GRID exactly.

    Chunks of rows are summed in float32, and the chunks' sums in int32.
    """
    del right
    left, right = _row_chunks((left, columns), chunk_rows)

    def add(total: Array, chunk: tuple[Array, ...]) -> tuple[Array, None]:
        a, b = (part.astype(jnp.bfloat16) for part in chunk)
        exact = jnp.matmul(a, b.T, preferred_element_type=jnp.float32)
        return total + exact.astype(jnp.int32), None

    start = jnp.zeros((*left.shape[1:-1], right.shape[1]), jnp.int32)
    return jax.lax.scan(add, start, (left, right))[0]


def _row_chunks(arrays: tuple[Array, ...], chunk_rows: int) -> tuple[Array, ...]:
    """Arrays [..., N] cut along rows into [chunks, ..., chunk_rows], padded with zeros."""
    rows = arrays[0].shape[-1]
    size = min(chunk_rows, rows)
    chunks = -(-rows // size)

    def cut(array: Array) -> Array:
        filled = jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, chunks * size - rows)])
        return jnp.moveaxis(filled.reshape(*array.shape[:-1], chunks, size), -2, 0)

    return tuple(cut(array) for array in arrays)


def _product(left: Array, right: Array, columns: Array) -> Array:
    return jax.lax.platform_dependent(
        left, right, columns, cpu=product_int8, default=product_bfloat16
    )


def product_sums(
    table: Prepared, by_class: Array, node: Array, wanted: Array, product: Product = _product
) -> Array:
    """i32[W, 2, S]: `node_products` of the W wanted nodes, as one product of small integers."""
    here = node[None, None, :] == wanted.astype(node.dtype)[:, None, None]
    return product(jnp.where(here, by_class[None], jnp.int8(0)), table.splits, table.columns)


def _segments(by_class: Array, node: Array) -> tuple[Array, Array]:
    """i32[N] the node and class of each row, as 2 node + class, and i32[N] its weight."""
    segment = 2 * node.astype(jnp.int32) + (by_class[1] > 0).astype(jnp.int32)
    return segment, jnp.max(by_class, axis=0).astype(jnp.int32)


def segment_sums(
    table: Prepared, by_class: Array, node: Array, nodes: int, chunk_rows: int = CHUNK_ROWS
) -> Array:
    """i32[nodes, 2, S]: `node_products` of a level, by adding each row to its node and class."""
    segment, weight = _segments(by_class, node)

    def add(total: Array, chunk: tuple[Array, ...]) -> tuple[Array, None]:
        bits, segment, weight = chunk
        return total.at[segment].add(weight[:, None] * bits.T.astype(jnp.int32)), None

    start = jnp.zeros((2 * nodes, table.splits.shape[1]), jnp.int32)
    total, _ = jax.lax.scan(add, start, _row_chunks((table.columns, segment, weight), chunk_rows))
    return total.reshape(nodes, 2, -1)


def cell_sums(cells: Cells, by_class: Array, node: Array, nodes: int) -> Array:
    """i32[nodes, 2, S]: `node_products` of a level, from the weight of the rows in each cell."""
    segment, weight = _segments(by_class, node)

    def of_feature(cell: Array) -> Array:
        sums = jnp.zeros(2 * nodes * CELLS, jnp.int32)
        place = CELLS * segment + cell.astype(jnp.int32)
        return sums.at[place].add(weight, mode="promise_in_bounds")

    # The weight of the rows below each cell, for each feature, node and class.
    sums = jax.lax.map(of_feature, cells.cells).reshape(-1, 2 * nodes, CELLS)
    below = jnp.pad(jnp.cumsum(sums, axis=-1), ((0, 0), (0, 0), (1, 0)))

    # The cells of a split are below its end, and not below its start.
    start, end = cells.low.astype(jnp.int32), cells.high.astype(jnp.int32) + 1
    right = below[cells.feature, :, jnp.maximum(end, start)] - below[cells.feature, :, start]
    return right.T.reshape(nodes, 2, -1)


def _sums_by_cell(table: Prepared, by_class: Array, node: Array, nodes: int) -> Array:
    assert table.cells is not None
    return cell_sums(table.cells, by_class, node, nodes)


def _sums_by_product(table: Prepared, by_class: Array, node: Array, nodes: int) -> Array:
    return product_sums(table, by_class, node, jnp.arange(nodes, dtype=jnp.int32))


def node_products(
    table: Prepared, by_class: Array, node: Array, nodes: int, parent: Array | None
) -> Array:
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
    import chex  # here, as its import would be a tenth of a first fit of other trees

    rows = table.present.shape[0]
    chex.assert_shape((by_class, node), [(2, rows), (rows,)])
    if table.cells is not None:
        by_cell = functools.partial(_sums_by_cell, nodes=nodes)
        product = functools.partial(_sums_by_product, nodes=nodes)
        rows_of_node = table, by_class, node
        return jax.lax.platform_dependent(*rows_of_node, cpu=by_cell, default=product)
    every = jnp.arange(nodes, dtype=jnp.int32)
    if nodes == 1 or parent is None:
        return product_sums(table, by_class, node, every)
    if nodes // 2 >= SEGMENT_NODES:
        return segment_sums(table, by_class, node, nodes)
    right = product_sums(table, by_class, node, every[1::2])
    return jnp.stack([parent - right, right], axis=1).reshape(nodes, 2, -1)


def node_totals(by_class: Array) -> Array:
    """i32[1, 2]: the root's weight by class, in units of the grid; exact up to `MAX_ROWS` rows."""
    return jax.lax.platform_dependent(by_class, cpu=_sum_int8, default=_sum_int32)[None]


def _sum_int32(by_class: Array) -> Array:
    return jnp.sum(by_class.astype(jnp.int32), axis=-1)


def _sum_int8(by_class: Array) -> Array:
    """The sum as a product with ones: CPUs would store all rows in 32 bits before they add them."""
    rows = by_class.shape[-1]
    if rows >= STREAMED_ROWS:
        return _sum_int32(by_class)
    ones = jnp.ones((rows, _ONES), jnp.int8)
    return jnp.matmul(by_class, ones, preferred_element_type=jnp.int32)[..., 0]


def perspectives(loss: ProperLoss, counts: Array) -> Array:
    """f64[nodes, ...]: the perspective of exact class weights, in units of the weight bound.

    For use within `variates.double_precision`, with a loss whose alpha is float64.

    Args:
        loss: the criterion.
        counts: i32[nodes, 2, ...], class weights in grid units.
    """
    weight = variates.double(counts) / GRID
    return loss.perspective(weight[:, 1], weight[:, 0])


def sums_of_nodes(by_class: Array, node: Array, nodes: int) -> Array:
    """i32[nodes, 2]: the class weights of the nodes of a level, row by row.

    Args:
        by_class: i8[2, N] from `weights_by_class`.
        node: i8 or i32[N], the node of this level that each row is in.
        nodes: how many nodes the level has.
    """
    segment, weight = _segments(by_class, node)
    sums = jnp.zeros(2 * nodes, jnp.int32).at[segment].add(weight, mode="promise_in_bounds")
    return sums.reshape(nodes, 2)


def child_totals(products: Array, totals: Array, split: Array) -> Array:
    """i32[2 nodes, 2]: the children's class weights.

    Args:
        products: i32[nodes, 2, S], from `node_products`.
        totals: i32[nodes, 2], the class weights of the nodes.
        split: i32[nodes].
    """
    chosen = jnp.take_along_axis(products, jnp.maximum(split, 0)[:, None, None], axis=2)[..., 0]
    right = jnp.where(split[:, None] == UNSPLIT, 0, chosen)
    return jnp.stack([totals - right, right], axis=1).reshape(-1, 2)


def check(table: Table) -> None:
    """Refuse a table that trees cannot read.

    Raises:
        ValueError: as `questions.check`, and unless the table holds uint8 cells with questions.
    """
    questions.check(table)
    if table.cells.dtype != jnp.uint8:
        raise ValueError(
            f"trees ask questions of uint8 table.cells, got {dtype_and_rank(table.cells)}"
        )


TREES = HypothesisClass(
    example=questions.example,
    check=check,
    prepare=prepare,
    predict=Of("trees", lambda tree, table: predict(tree, table.asked)),
    bound=lambda tree: jnp.max(jnp.abs(tree.leaf)),
)
"""Trees of any depth over public splits."""


def shrink_to_parents(counts: Array, prior: Array) -> Array:
    """f32[L]: the share of class 1 in each leaf, shrunk towards the shares of its ancestors.

    q(node) = (c1 + prior q(parent)) / (c1 + c0 + prior), with q(root's parent) = 1/2. With a tiny
    prior an empty node takes its parent's share, and any other node its own.

    Args:
        counts: f32 or f64[L, 2], non-negative class weights (negative, positive) of the leaves.
        prior: of the same type, above 0: the weight of the parent's share.
    """
    # The class weights of all nodes, from the leaves up.
    sums = [counts]
    for _ in range(depth(counts.shape[0])):
        sums.append(sums[-1].reshape(-1, 2, 2).sum(axis=1))

    # Their shares, from the root down.
    share = jnp.full(1, 0.5, counts.dtype)
    for count in reversed(sums):
        above = share if count.shape[0] == 1 else jnp.repeat(share, 2)
        share = (count[:, 1] + prior * above) / (count.sum(axis=1) + prior)
    return share
