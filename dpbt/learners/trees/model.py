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
    depth_of_complete_tree,
    describe_trees_as_rules,
    leaf_boxes_of_tree,
)
from dpbt.learners.graph import Graph, GraphOutputs, Value
from dpbt.learners.model_parts import (
    DIGITS,
    Domain,
    EncodedRows,
    LeafBoxes,
    check_indices_in_range,
    model_heading_and_score_scale,
)
from dpbt.public_types import MAX_BINS, UNSPLIT, AnyArray, Splits, Tree, redacted_repr

ONE_HOT_NODES = 16
"""Up to so many nodes of a level, rows are compared with each of them."""


class BinsAndSplits(NamedTuple):
    """The bins of the rows, and the splits of bins that trees ask.

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


def _encoded_rows_as_bins_and_splits(rows: EncodedRows) -> BinsAndSplits:
    """Lay out encoded rows as bins u8[F, N] and the splits that trees ask of them."""
    assert rows.splits is not None
    return BinsAndSplits(rows.bins.T, *rows.splits[:3])


def narrowest_node_dtype(num_leaves: int) -> type[np.integer]:
    """The narrowest integer dtype that can number the nodes of a level.

    The narrowest compares fastest.
    """
    return np.int8 if num_leaves <= 128 else np.int32


def satisfies_splits(
    splits_of_rows: Any, split_numbers: Int32[Any, "K"], rows: Any = slice(None)
) -> Bool[Any, "K N"]:
    """bool[K, N]: whether each row satisfies each of K splits, given by their numbers.

    Args:
        splits_of_rows: as `move_to_children`.
        split_numbers: i32[K], at least 0.
        rows: all rows, or i32[K], a row for each split; then the result is bool[K].
    """
    if not isinstance(splits_of_rows, BinsAndSplits):
        return splits_of_rows[split_numbers, rows].astype(bool)
    bin = splits_of_rows.bins[splits_of_rows.feature[split_numbers], rows]
    low, high = (
        end[split_numbers].reshape(-1, *[1] * (bin.ndim - 1)) for end in splits_of_rows[2:]
    )
    return (low <= bin) & (bin <= high)


def move_to_children(
    splits_of_rows: Shaped[Any, "S N"],
    node_of_row: Shaped[Any, "N"],
    split_of_node: Int32[Any, "nodes"],
) -> Any:
    """i8 or i32[N]: move each row from its node to a child, by the split of the node.

    The result has the dtype of `node_of_row`.

    Args:
        splits_of_rows: bool or i8[S, N], which split is satisfied by which row; or the rows by
            their bins.
        node_of_row: i8 or i32[N], the node of this level that each row is in.
        split_of_node: i32[nodes], the splits of this level.
    """
    xp = array_namespace(node_of_row, split_of_node)
    if split_of_node.shape[0] > ONE_HOT_NODES:
        split_of_row = split_of_node[node_of_row.astype(np.int32)]
        split_and_row = xp.maximum(split_of_row, 0), xp.arange(split_of_row.shape[0])
        right = satisfies_splits(splits_of_rows, *split_and_row) & (split_of_row != UNSPLIT)
    else:
        moves = (
            satisfies_splits(splits_of_rows, xp.maximum(split_of_node, 0))
            & (split_of_node != UNSPLIT)[:, None]
        )
        is_in_node = (
            node_of_row[None, :]
            == xp.arange(split_of_node.shape[0], dtype=node_of_row.dtype)[:, None]
        )
        right = xp.any(moves & is_in_node, axis=0)
    return 2 * node_of_row + right.astype(node_of_row.dtype)


def _heap_slice_of_level(level: int) -> slice:
    """The slice of the nodes of a level in an array in heap order."""
    return slice(2**level - 1, 2 ** (level + 1) - 1)


def assign_leaves(tree: Tree, splits_of_rows: Any) -> Shaped[Any, "N"]:
    """i8 or i32[N]: route each row to its leaf of the tree.

    Rows are given by the splits that they satisfy, or by their bins, as `move_to_children` takes
    them.
    """
    leaves = tree.leaf.shape[-1]
    by_bins = isinstance(splits_of_rows, BinsAndSplits)
    rows = (splits_of_rows.bins if by_bins else splits_of_rows).shape[1]
    node = array_namespace(*tree).zeros(rows, narrowest_node_dtype(leaves))
    for level in range(depth_of_complete_tree(leaves)):
        node = move_to_children(splits_of_rows, node, tree.split[_heap_slice_of_level(level)])
    return node


def predict_tree(tree: Tree, splits_of_rows: Any) -> Float32[Any, "N"]:
    """f32[N]: the value of the leaf that each row reaches.

    Rows are given by the splits that they satisfy, or by their bins, as `move_to_children` takes
    them.

    In a shallow tree each row chooses between the values of two children at every node, from the
    leaves up. That needs no numbers of nodes, and no gather.
    """
    xp, leaves = array_namespace(*tree), tree.leaf.shape[-1]
    if leaves > 2 * ONE_HOT_NODES:
        return tree.leaf[assign_leaves(tree, splits_of_rows).astype(np.int32)]
    right = satisfies_splits(splits_of_rows, xp.maximum(tree.split, 0))
    right = right & (tree.split != UNSPLIT)[:, None]
    value = tree.leaf[:, None]
    for level in reversed(range(depth_of_complete_tree(leaves))):
        value = xp.where(right[_heap_slice_of_level(level)], value[1::2], value[::2])
    return xp.broadcast_to(value[0], right.shape[1:])


def _check_trees(trees: Tree, _: int, splits: Splits | None, score_axes: tuple[int, ...]) -> None:
    """Refuse trees that are not complete, or whose split numbers are out of range.

    Raises:
        ValueError: saying so.
    """
    if splits is None or score_axes:
        raise ValueError("trees must have splits, and tell two classes apart")
    check_complete_trees(trees.split, trees.leaf)
    check_indices_in_range("split", trees.split, UNSPLIT, len(splits.feature))


def _describe_trees(trees: Tree, splits: Splits, domain: Domain, *_: Any) -> str:
    """A text of each tree as nested rules, with the score that each leaf adds."""
    column, low, high = (np.asarray(field) for field in splits[:3])
    bin = np.arange(MAX_BINS)

    def ask(tree: int, node: int) -> tuple[int, np.ndarray]:
        split = trees.split[tree, node]
        return int(column[split]), (low[split] <= bin) & (bin <= high[split]) & (split != UNSPLIT)

    head = model_heading_and_score_scale(None, False, "trees").text
    return describe_trees_as_rules(
        np.asarray(trees.leaf),
        ask,
        domain,
        heading=head,
        leaf_format=f"add {{:+.{DIGITS}f}}",
    )


def _add_trees_to_graph(
    graph: Graph, trees: Tree, rows: Value, splits: Splits | None
) -> GraphOutputs:
    """Add the summed scores of trees over public splits to an ONNX graph.

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
    answers = graph.look_up_entries_of_bins(rows, feature, tables.astype(np.int64))
    table_of_node = graph.add_constant(number.reshape(-1) % len(tables), np.int64)  # -1 is the last

    def goes_right(node: Value) -> Value:
        return graph.add_node("GatherElements", answers, table_of_node.gather(node), axis=1)

    return GraphOutputs(
        graph.leaf_values_by_descent(rows, np.asarray(trees.leaf), goes_right).sum()
    )


def _iterate_leaf_boxes_of_trees(trees: Tree, splits: Splits, num_bins: int) -> Iterator[LeafBoxes]:
    """Yield the leaves of each tree as boxes of bins, with the score that each adds."""
    feature, low, high = (np.asarray(field) for field in splits[:3])
    bin = np.arange(num_bins)
    for split, leaf in zip(np.asarray(trees.split), np.asarray(trees.leaf), strict=True):
        right = (low[split][:, None] <= bin) & (bin <= high[split][:, None])
        yield leaf_boxes_of_tree(feature[split], right & (split != UNSPLIT)[:, None], leaf)


TREES = HypothesisKind(
    name="trees",
    predict=predict_tree,
    read_rows=_encoded_rows_as_bins_and_splits,
    arrays=(("split", "int32"), ("leaf", "float32")),
    make=Tree,
    check_arrays=_check_trees,
    describe=_describe_trees,
    add_to_graph=_add_trees_to_graph,
    leaf_boxes=_iterate_leaf_boxes_of_trees,
)
"""Trees of any depth over public splits; `public_types.Tree` says what they are."""
