"""The structure of random trees, and statistics of the trees of a data set at every height."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpbt.learners.complete_trees import depth_of_complete_tree
from dpbt.learners.forests import learner as forests
from dpbt.learners.forests.model import assign_leaves_by_position
from dpbt.types import Array


class Structure(NamedTuple):
    """Public randomness of a tree of height H; its top is that of every lower tree.

    Attributes:
        attribute: i32[2^H - 1], heap order.
        threshold: f32[2^H - 1].
    """

    attribute: Array
    threshold: Array


def draw_structure(key: Array, depth: int, attributes: int) -> Structure:
    """A structure of height H over A attributes, distributed as the learner draws it."""
    attribute_key, threshold_key = jax.random.split(key)
    nodes = (2**depth - 1,)
    return Structure(
        attribute=jax.random.randint(attribute_key, nodes, 0, attributes, jnp.int32),
        threshold=jax.random.uniform(threshold_key, nodes, jnp.float32),
    )


class NodesAtAllHeights(NamedTuple):
    """Nodes of one tree at every height 0..H; both arrays are private.

    Attributes:
        node: i32[H + 1, N], the heap index of each row's node at each height, for absent rows, too.
        class_count: i32[2^(H + 1) - 1, 2], the present rows of each node and class.
    """

    node: Array
    class_count: Array


def count_at_all_heights(tree: Structure, rows: forests.PositionRows) -> NodesAtAllHeights:
    """Nodes and class counts of one tree at every height 0..H.

    They are in heap order: node i of level h is at 2^h - 1 + i. A random tree of height h is the
    top of a taller one, so one descent serves all heights. The counts of a node are the sums of its
    children's counts.

    Args:
        tree: the structure.
        rows: from `forests.learner.attribute_positions_of_rows`.
    """
    leaf = assign_leaves_by_position(tree.attribute, tree.threshold, rows.position)
    depth = depth_of_complete_tree(tree.attribute.size + 1)

    present = rows.present.astype(jnp.int32)
    count = forests.sum_class_weights_by_leaf(leaf, rows.target, present, 2**depth)
    levels = [count]
    for _ in range(depth):
        levels.append(levels[-1].reshape(-1, 2, 2).sum(axis=1))

    height = jnp.arange(depth + 1, dtype=jnp.int32)[:, None]
    node = (leaf[None] >> (depth - height)) + 2**height - 1
    return NodesAtAllHeights(node, jnp.concatenate(levels[::-1]))
