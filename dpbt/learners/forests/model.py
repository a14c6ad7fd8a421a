"""Groups of random trees: thresholds on positions, and leaves that state shares.

This module has how they predict, their arrays, words and graphs. Functions take arrays of NumPy or
of JAX alike, and nothing here imports JAX.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Int32

from dpbt.common.arithmetic import array_namespace, fold, map_over_first_axis
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.complete_trees import (
    check_complete_trees,
    depth_of_complete_tree,
    describe_trees_as_rules,
    leaf_boxes_of_tree,
)
from dpbt.learners.graph import Graph, GraphOutputs, Value
from dpbt.learners.model_parts import DIGITS, Domain, LeafBoxes, check_indices_in_range
from dpbt.public_types import AnyArray, Splits


class TreeGroup(NamedTuple):
    """A group of P complete trees of height D, whose leaves state shares of the positive class.

    A forest has more leading axes.

    Attributes:
        attribute: i32[P, 2^D - 1], heap order: the children of node i are 2i+1 and 2i+2 (right).
        threshold: f32[P, 2^D - 1] in [0, 1): a row goes right if its position is above it.
        leaf: f32[P, 2^D]: theta, the share of the positive class that the leaf states, in [0, 1].
        grown: f32[P]: 1 for a grown tree, 0 for padding beyond the number of rounds.
    """

    attribute: AnyArray
    threshold: AnyArray
    leaf: AnyArray
    grown: AnyArray


def assign_leaves_by_position(
    attribute: Int32[Any, "... _"],
    threshold: Float32[Any, "... _"],
    positions: Float32[Any, "N A"],
    tree_of_row: Int32[Any, "N"] = 0,
) -> Int32[Any, "N"]:
    """i32[N]: route each row to a leaf of its tree, by its positions and the thresholds.

    Args:
        attribute: i32[..., 2^D - 1], of P trees or of one.
        threshold: f32[..., 2^D - 1].
        positions: f32[N, A].
        tree_of_row: i32[N], which of the P trees each row passes through.
    """
    xp, inner = array_namespace(attribute, threshold, positions), attribute.shape[-1]
    attributes, thresholds = attribute.reshape(-1), threshold.reshape(-1)

    def ask(node: Any, _: Any) -> Any:
        split = tree_of_row * inner + node
        value = xp.take_along_axis(positions, attributes[split][:, None], axis=1)[:, 0]
        return 2 * node + 1 + (value > thresholds[split]).astype(np.int32)

    start = xp.zeros(positions.shape[0], np.int32)
    return fold(ask, start, xp.arange(depth_of_complete_tree(inner + 1))) - inner


def leaf_values_by_tree(group: TreeGroup, positions: Any) -> Float32[Any, "P N"]:
    """f32[P, N]: the positive share theta that each tree's leaf states for each row."""
    leaf = map_over_first_axis(
        lambda tree: assign_leaves_by_position(tree[0], tree[1], positions),
        (group.attribute, group.threshold),
    )
    return array_namespace(*group, positions).take_along_axis(group.leaf, leaf, axis=1)


def net_votes(group: TreeGroup, positions: Any) -> Float32[Any, "N"]:
    """f32[N]: the number of trees that vote positive minus the number that vote negative."""
    xp, grown = array_namespace(*group, positions), group.grown[:, None]
    return xp.sum(xp.where(leaf_values_by_tree(group, positions) > 0.5, grown, -grown), axis=0)


def positive_shares_by_tree(
    trees: TreeGroup, positions: Float32[Any, "N A"]
) -> Float32[Any, "k N"]:
    """f32[k, N]: the share of the positive class that each tree's leaf states for each row.

    Args:
        trees: a TreeGroup with any leading axes, such as `Model.hypotheses`. Padding beyond the
            number of rounds states NaN.
        positions: f32[N, A].
    """
    attribute, threshold, leaf = (array.reshape(-1, array.shape[-1]) for array in trees[:3])
    stated = leaf_values_by_tree(TreeGroup(attribute, threshold, leaf, trees.grown), positions)
    xp = array_namespace(stated)
    return xp.where(trees.grown.reshape(-1)[:, None] > 0, stated, np.float32(np.nan))


def tree_group_without_padding(
    attribute: np.ndarray, threshold: np.ndarray, leaf: np.ndarray
) -> TreeGroup:
    """Make a group of trees from arrays, all of which count as grown."""
    return TreeGroup(attribute, threshold, leaf, np.ones(leaf.shape[:-1], np.float32))


def _check_tree_groups(
    groups: TreeGroup, num_features: int, splits: Splits | None, score_axes: tuple[int, ...]
) -> None:
    """Refuse trees that are not complete, or whose attributes are out of range.

    Raises:
        ValueError: saying so.
    """
    if score_axes or groups.leaf.ndim != 3 or groups.attribute.shape != groups.threshold.shape:
        raise ValueError("attribute, threshold and leaf must be of the same trees")
    check_complete_trees(groups.attribute, groups.leaf)
    num_attributes = num_features if splits is None else len(splits.attribute)
    check_indices_in_range("attribute", groups.attribute, 0, num_attributes)


def _describe_tree_groups(groups: TreeGroup, splits: Splits, domain: Domain, *_: Any) -> str:
    """A text of each tree as nested rules, with the positive share that each leaf states."""
    attribute, threshold, leaf = (array.reshape(-1, array.shape[-1]) for array in groups[:3])
    column, position = np.asarray(splits.attribute), np.asarray(splits.position)

    def ask(tree: int, node: int) -> tuple[int, np.ndarray]:
        number = attribute[tree, node]
        return int(column[number]), position[number] > float(threshold[tree, node])

    head = "vote of each tree: positive if its share of positive is above 0.5"
    return describe_trees_as_rules(
        leaf, ask, domain, heading=head, leaf_format=f"share of positive {{:.{DIGITS}f}}"
    )


def _add_tree_groups_to_graph(
    graph: Graph, groups: TreeGroup, rows: Value, splits: Splits | None
) -> GraphOutputs:
    """Add the net votes of all trees, and the mean of their shares, to an ONNX graph."""
    positions = graph.attribute_positions(rows, splits)
    attribute = graph.add_constant(groups.attribute.reshape(-1), np.int64)
    threshold = graph.add_constant(groups.threshold.reshape(-1), np.float32)

    def goes_right(node: Value) -> Value:
        value = graph.add_node("GatherElements", positions, attribute.gather(node), axis=1)
        return (value > threshold.gather(node)).cast("INT64")

    shares = graph.leaf_values_by_descent(
        positions, groups.leaf.reshape(-1, groups.leaf.shape[-1]), goes_right
    )
    vote = (shares > np.float32(0.5)).cast("FLOAT") * np.float32(2) + np.float32(-1)
    return GraphOutputs(vote.sum(), graph.add_node("ReduceMean", shares, axes=[1], keepdims=0))


def _iterate_leaf_boxes_of_voting_trees(
    groups: TreeGroup, splits: Splits, num_bins: int
) -> Iterator[LeafBoxes]:
    """Yield the leaves of each tree as boxes of bins, with their votes.

    A vote is 1 for positive, else -1.
    """
    column, position = np.asarray(splits.attribute), np.asarray(splits.position)[:, :num_bins]
    arrays = (np.asarray(array).reshape(-1, array.shape[-1]) for array in groups[:3])
    grown = np.asarray(groups.grown).ravel()
    for attribute, threshold, leaf, weight in zip(*arrays, grown, strict=True):
        right = position[attribute] > threshold[:, None]
        votes = np.where(leaf > 0.5, weight, -weight)
        yield leaf_boxes_of_tree(column[attribute], right, votes)


TREE_GROUPS = HypothesisKind(
    name="tree_groups",
    predict=net_votes,
    read_rows=lambda rows: rows.attribute_positions,
    shares=positive_shares_by_tree,
    arrays=(("attribute", "int32"), ("threshold", "float32"), ("leaf", "float32")),
    make=tree_group_without_padding,
    check_arrays=_check_tree_groups,
    describe=_describe_tree_groups,
    add_to_graph=_add_tree_groups_to_graph,
    leaf_boxes=_iterate_leaf_boxes_of_voting_trees,
)
"""Groups over positions. Their sum is a majority vote; `dpbt.predict` has all voting rules."""
