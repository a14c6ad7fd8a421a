"""Trees of any depth over public splits: how they predict, their arrays, words and graphs.

Functions take arrays of NumPy or of JAX alike, and nothing here imports JAX. `public_types.Tree`
has the arrays.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int32, Shaped

from dpbt.common.arithmetic import array_namespace
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.complete_trees import (
    check_complete_trees,
    describe_trees_as_rules,
    leaf_boxes_of_tree,
    tree_depth,
)
from dpbt.learners.graph import Graph, GraphOutputs, Value
from dpbt.learners.model_parts import (
    DIGITS,
    Domain,
    EncodedRows,
    LeafBoxes,
    begin_model_description,
    check_indices,
)
from dpbt.public_types import MAX_BINS, UNSPLIT, AnyArray, Splits, Tree, redacted_repr

ONE_HOT_NODES = 16
"""Up to so many nodes of a level, rows are compared with each of them."""


class BinsAndSplits(NamedTuple):
    """The bins of the rows, and the splits that are asked of them.

    Attributes:
        bins: u8[F, N].
        feature: i32[S], the feature of each split.
        low: u8[S]; high: u8[S]: its bins are in low..high.
    """

    bins: AnyArray
    feature: AnyArray
    low: AnyArray
    high: AnyArray

    __repr__ = redacted_repr


def _bins_and_splits_of_rows(rows: EncodedRows) -> BinsAndSplits:
    assert rows.splits is not None
    return BinsAndSplits(rows.bins.T, *rows.splits[:3])


def node_dtype(leaves: int) -> type[np.integer]:
    """The narrowest integers that number the nodes of a level; they compare fastest."""
    return np.int8 if leaves <= 128 else np.int32


def satisfies_splits(
    splits_of_rows: Any, split: Int32[Any, "K"], rows: Any = slice(None)
) -> Bool[Any, "K N"]:
    """bool[K, N]: which rows satisfy some splits.

    Args:
        splits_of_rows: as `move_to_children`.
        split: i32[K], at least 0.
        rows: all rows, or i32[K], a row for each split; then the result is bool[K].
    """
    if not isinstance(splits_of_rows, BinsAndSplits):
        return splits_of_rows[split, rows].astype(bool)
    bin = splits_of_rows.bins[splits_of_rows.feature[split], rows]
    low, high = (end[split].reshape(-1, *[1] * (bin.ndim - 1)) for end in splits_of_rows[2:])
    return (low <= bin) & (bin <= high)


def move_to_children(
    splits_of_rows: Shaped[Any, "S N"], node: Shaped[Any, "N"], split: Int32[Any, "nodes"]
) -> Any:
    """The child that each row moves to, in the dtype of `node`.

    Args:
        splits_of_rows: bool or i8[S, N], which split is satisfied by which row; or the rows by
            their bins.
        node: i8 or i32[N], the node of this level that each row is in.
        split: i32[nodes], the splits of this level.
    """
    xp = array_namespace(node, split)
    if split.shape[0] > ONE_HOT_NODES:
        split_of_row = split[node.astype(np.int32)]
        split_and_row = xp.maximum(split_of_row, 0), xp.arange(split_of_row.shape[0])
        right = satisfies_splits(splits_of_rows, *split_and_row) & (split_of_row != UNSPLIT)
    else:
        moves = satisfies_splits(splits_of_rows, xp.maximum(split, 0)) & (split != UNSPLIT)[:, None]
        is_in_node = node[None, :] == xp.arange(split.shape[0], dtype=node.dtype)[:, None]
        right = xp.any(moves & is_in_node, axis=0)
    return 2 * node + right.astype(node.dtype)


def _nodes_of_level(level: int) -> slice:
    """The places of a level's nodes in heap order."""
    return slice(2**level - 1, 2 ** (level + 1) - 1)


def assign_leaves(tree: Tree, splits_of_rows: Any) -> Shaped[Any, "N"]:
    """i8 or i32[N]: the leaf of each row, from its splits or bins (`move_to_children`)."""
    leaves = tree.leaf.shape[-1]
    by_bins = isinstance(splits_of_rows, BinsAndSplits)
    rows = (splits_of_rows.bins if by_bins else splits_of_rows).shape[1]
    node = array_namespace(*tree).zeros(rows, node_dtype(leaves))
    for level in range(tree_depth(leaves)):
        node = move_to_children(splits_of_rows, node, tree.split[_nodes_of_level(level)])
    return node


def predict_tree(tree: Tree, splits_of_rows: Any) -> Float32[Any, "N"]:
    """f32[N]: the leaf value of each row, from its splits or bins (`move_to_children`).

    In a shallow tree each row chooses between the values of two children at every node, from the
    leaves up. That needs no numbers of nodes, and no gather.
    """
    xp, leaves = array_namespace(*tree), tree.leaf.shape[-1]
    if leaves > 2 * ONE_HOT_NODES:
        return tree.leaf[assign_leaves(tree, splits_of_rows).astype(np.int32)]
    right = satisfies_splits(splits_of_rows, xp.maximum(tree.split, 0))
    right = right & (tree.split != UNSPLIT)[:, None]
    value = tree.leaf[:, None]
    for level in reversed(range(tree_depth(leaves))):
        value = xp.where(right[_nodes_of_level(level)], value[1::2], value[::2])
    return xp.broadcast_to(value[0], right.shape[1:])


def _check_trees(trees: Tree, _: int, splits: Splits | None, score_axes: tuple[int, ...]) -> None:
    """Refuse arrays that do not fit the splits or each other.

    Raises:
        ValueError: saying so.
    """
    if splits is None or score_axes:
        raise ValueError("trees must have splits, and tell two classes apart")
    check_complete_trees(trees.split, trees.leaf)
    check_indices("split", trees.split, UNSPLIT, len(splits.feature))


def _describe_trees(trees: Tree, splits: Splits, domain: Domain, *_: Any) -> str:
    column, low, high = (np.asarray(field) for field in splits[:3])
    bin = np.arange(MAX_BINS)

    def ask(tree: int, node: int) -> tuple[int, np.ndarray]:
        split = trees.split[tree, node]
        return int(column[split]), (low[split] <= bin) & (bin <= high[split]) & (split != UNSPLIT)

    head = begin_model_description(None, False, "trees").words
    return describe_trees_as_rules(
        np.asarray(trees.leaf), ask, domain, head, f"add {{:+.{DIGITS}f}}"
    )


def _add_trees_to_graph(
    graph: Graph, trees: Tree, rows: Value, splits: Splits | None
) -> GraphOutputs:
    """Add the scores of trees to a graph.

    The splits that they use are looked up in tables of bins, of which the last is that of UNSPLIT.
    """
    assert splits is not None
    splits_in_use, number = np.unique(trees.split, return_inverse=True)
    if splits_in_use[0] == UNSPLIT:
        splits_in_use, number = splits_in_use[1:], number - 1
    feature, low, high = (np.append(np.asarray(field)[splits_in_use], 0) for field in splits[:3])
    bin = np.arange(MAX_BINS)
    tables = (low[:, None] <= bin) & (bin <= high[:, None])
    tables[-1] = False
    answers = graph.look_up_bins(rows, feature, tables.astype(np.int64))
    table_of_node = graph.constant(number.reshape(-1) % len(tables), np.int64)  # -1 is the last

    def goes_right(node: Value) -> Value:
        return graph.add("GatherElements", answers, table_of_node.at(node), axis=1)

    return GraphOutputs(graph.descend(rows, np.asarray(trees.leaf), goes_right).sum())


def _leaf_boxes(trees: Tree, splits: Splits, num_bins: int) -> Iterator[LeafBoxes]:
    """The leaves of each tree."""
    feature, low, high = (np.asarray(field) for field in splits[:3])
    bin = np.arange(num_bins)
    for split, leaf in zip(np.asarray(trees.split), np.asarray(trees.leaf), strict=True):
        right = (low[split][:, None] <= bin) & (bin <= high[split][:, None])
        yield leaf_boxes_of_tree(feature[split], right & (split != UNSPLIT)[:, None], leaf)


TREES = HypothesisKind(
    name="trees",
    predict=predict_tree,
    read_rows=_bins_and_splits_of_rows,
    arrays=(("split", "int32"), ("leaf", "float32")),
    make=Tree,
    check_arrays=_check_trees,
    describe=_describe_trees,
    add_to_graph=_add_trees_to_graph,
    leaf_boxes=_leaf_boxes,
)
"""Trees of any depth over public splits; `public_types.Tree` says what they are."""
