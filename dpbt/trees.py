"""Trees as arrays: level statistics as matrix products, routing, prediction.

The weight of the rows at every (node, class) that satisfy every split is one product A[2 nodes, N] @
splits[N, S]. The left side of a split is the node's total minus the right side, and a left sibling's products
are its parent's minus the right sibling's, so each level multiplies for its right siblings only.

Levels are integers 0..GRID. A float32 sum of at most `CHUNK_ROWS` of them stays below 2**24 and is exact in any
order; chunks are added in int32. So statistics do not depend on row order, chunks, padding or device.
"""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from dpbt.base import GRID, UNSPLIT, Array, Table, Tree

CHUNK_ROWS = 2**24 // GRID
"""Most rows one float32 product may sum and stay exact."""

MAX_ROWS = 2**30 // GRID - 1
"""Most rows whose weights stay within what int32 counts and their noise can hold: 4,194,303."""


class Prepared(NamedTuple):
    """A table laid out for the loops: `prepare` makes it once, outside all of them.

    Attributes:
        splits: f32[N, S] of 0 and 1, for products.
        columns: bool[S, N], for routing.
        label, present: as in `Table`.
    """

    splits: Array
    columns: Array
    label: Array
    present: Array


def prepare(table: Table) -> Prepared:
    """The table in the layouts that `node_products` and `descend` read."""
    return Prepared(table.splits.astype(jnp.float32), table.splits.T, table.label, table.present)


def masked_levels(table: Prepared, level: Array) -> Array:
    """f32[2, N]: each row's level under its class (0 negative, 1 positive); 0 for absent rows."""
    positive = table.label[None, :] == jnp.array([[False], [True]])
    return jnp.where(positive & table.present[None, :], level[None, :], 0)


def _grid_product(left: Array, right: Array, chunk_rows: int) -> Array:
    """i32[..., S]: exact left[..., N] @ right[N, S] of grid integers and 0/1, in chunks of rows."""
    rows = right.shape[0]
    lead = left.shape[:-1]
    left = left.reshape(-1, rows)
    if rows <= chunk_rows:
        return (left @ right).astype(jnp.int32).reshape(*lead, -1)
    chunks = -(-rows // chunk_rows)
    spare = chunks * chunk_rows - rows
    left = jnp.pad(left, ((0, 0), (0, spare))).reshape(left.shape[0], chunks, chunk_rows)
    right = jnp.pad(right, ((0, spare), (0, 0))).reshape(chunks, chunk_rows, -1)

    def add(total, parts):
        a, b = parts
        return total + (a @ b).astype(jnp.int32), None

    start = jnp.zeros((left.shape[0], right.shape[-1]), jnp.int32)
    total, _ = jax.lax.scan(add, start, (left.swapaxes(0, 1), right))
    return total.reshape(*lead, -1)


def node_products(
    splits: Array, levels: Array, node: Array, nodes: int, parent: Array | None, chunk_rows: int = CHUNK_ROWS
) -> Array:
    """Weights of the rows of each node and class that satisfy each split.

    Args:
        splits: f32[N, S] of 0 and 1, as `prepare` makes it.
        levels: f32[2, N] from `masked_levels`.
        node: i32[N], the node of this level that each row is in.
        nodes: how many nodes the level has, a power of two.
        parent: this function's result one level up, or None to multiply for every node.
        chunk_rows: rows per product, at most `CHUNK_ROWS`.

    Returns:
        i32[nodes, 2, S], in units of the grid; exact.
    """
    chex.assert_shape((levels, node), [(2, splits.shape[0]), (splits.shape[0],)])
    if nodes == 1:
        return _grid_product(levels[None], splits, chunk_rows)
    every = jnp.arange(nodes, dtype=jnp.int32)
    wanted = every if parent is None else every[1::2]
    here = node[None, None, :] == wanted[:, None, None]
    products = _grid_product(jnp.where(here, levels[None], 0), splits, chunk_rows)
    if parent is None:
        return products
    return jnp.stack([parent - products, products], axis=1).reshape(nodes, 2, -1)


def node_totals(levels: Array) -> Array:
    """i32[1, 2]: the root's weight by class, in units of the grid; exact up to `MAX_ROWS` rows."""
    return jnp.sum(levels.astype(jnp.int32), axis=-1)[None]


def child_totals(products: Array, totals: Array, split: Array) -> Array:
    """i32[2 nodes, 2]: class weights of the children, from i32[nodes, 2, S], i32[nodes, 2] and i32[nodes]."""
    chosen = jnp.take_along_axis(products, jnp.maximum(split, 0)[:, None, None], axis=2)[..., 0]
    right = jnp.where(split[:, None] == UNSPLIT, 0, chosen)
    return jnp.stack([totals - right, right], axis=1).reshape(-1, 2)


def descend(columns: Array, node: Array, split: Array) -> Array:
    """i32[N]: the child each row moves to.

    Args:
        columns: bool[S, N], the transposed splits.
        node: i32[N], the node of this level each row is in.
        split: i32[nodes], the splits of this level.
    """
    satisfied = columns[jnp.maximum(split, 0)] & (split != UNSPLIT)[:, None]
    here = node[None, :] == jnp.arange(split.shape[0], dtype=jnp.int32)[:, None]
    return 2 * node + jnp.any(satisfied & here, axis=0).astype(jnp.int32)


def depth(tree: Tree) -> int:
    """D, from the shape of the leaves."""
    return int(tree.leaf.shape[-1]).bit_length() - 1


def level_slice(level: int) -> slice:
    """Where a level's nodes lie in heap order."""
    return slice(2**level - 1, 2 ** (level + 1) - 1)


def route(tree: Tree, columns: Array) -> Array:
    """i32[N]: the leaf each row ends in, from the transposed splits bool[S, N]."""
    node = jnp.zeros(columns.shape[1], jnp.int32)
    for level in range(depth(tree)):
        node = descend(columns, node, tree.split[level_slice(level)])
    return node


def predict(tree: Tree, columns: Array) -> Array:
    """f32[N]: the leaf value of each row, from the transposed splits bool[S, N]."""
    return tree.leaf[route(tree, columns)]


@functools.cache
def _parents(leaves: int) -> int:
    if leaves < 1 or leaves & (leaves - 1):
        raise ValueError(f"a complete tree has a power of two leaves, got {leaves}")
    return leaves.bit_length() - 1


def shrink_to_parents(counts: Array, prior: Array) -> Array:
    """f32[L]: the share of class 1 in each leaf, shrunk towards its ancestors'.

    q(node) = (c1 + prior q(parent)) / (c1 + c0 + prior), with q(root's parent) = 1/2. With a tiny prior an empty
    node takes its parent's share and any other its own.

    Args:
        counts: f32[L, 2], non-negative class weights (negative, positive) of the leaves.
        prior: f32[], above 0: how much weight the parent's share has.
    """
    sums = [counts]
    for _ in range(_parents(counts.shape[0])):
        sums.append(sums[-1].reshape(-1, 2, 2).sum(axis=1))
    share = jnp.full(1, 0.5, jnp.float32)
    for count in reversed(sums):
        above = share if count.shape[0] == 1 else jnp.repeat(share, 2)
        share = (count[:, 1] + prior * above) / (count.sum(axis=1) + prior)
    return share
