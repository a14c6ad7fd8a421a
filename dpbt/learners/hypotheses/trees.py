"""Complete trees over public splits: how rows reach their leaves, in NumPy and in JAX."""

from typing import Any, NamedTuple

import numpy as np

from dpbt.arithmetic import Array, namespace
from dpbt.data.domains import Domain, Predicate, predicates
from dpbt.learners.hypotheses import words
from dpbt.learners.hypotheses.graph import Graph, Value
from dpbt.learners.hypotheses.kind import Heap, Kind, Rows, check_heap, check_within
from dpbt.public import CELLS, UNSPLIT, Questions, Tree, without_values

ONE_HOT_NODES = 16
"""Up to so many nodes of a level, rows are compared with each of them."""


class Cells(NamedTuple):
    """The cells of the rows, and the splits that are asked of them.

    Attributes:
        cells: u8[F, N].
        feature: i32[S], the feature of each split.
        low: u8[S]; high: u8[S]: its cells are in low..high.
    """

    cells: Array
    feature: Array
    low: Array
    high: Array

    __repr__ = without_values


def read(rows: Rows) -> Cells:
    """The cells of rows, and the splits that are asked of them."""
    assert rows.questions is not None
    return Cells(rows.cells.T, *rows.questions[:3])


def node_dtype(leaves: int) -> type[np.integer]:
    """The narrowest integers that number the nodes of a level; they compare fastest."""
    return np.int8 if leaves <= 128 else np.int32


def satisfied(asked: Any, split: Any) -> Any:
    """bool[K, N]: which rows satisfy some splits.

    Args:
        asked: as `descend`.
        split: i32[K], at least 0.
    """
    if not isinstance(asked, Cells):
        return asked[split].astype(bool)
    cell, low, high = asked.cells[asked.feature[split]], asked.low[split], asked.high[split]
    return (low[:, None] <= cell) & (cell <= high[:, None])


def _own_satisfied(asked: Any, split: Any) -> Any:
    """bool[N]: whether each row satisfies a split of its own, i32[N]."""
    rows = namespace(split).arange(split.shape[0])
    if not isinstance(asked, Cells):
        return asked[split, rows].astype(bool)
    cell = asked.cells[asked.feature[split], rows]
    return (asked.low[split] <= cell) & (cell <= asked.high[split])


def descend(asked: Any, node: Any, split: Any) -> Any:
    """The child that each row moves to, in the dtype of `node`.

    Args:
        asked: bool or i8[S, N], the transposed splits of the rows; or their cells.
        node: i8 or i32[N], the node of this level that each row is in.
        split: i32[nodes], the splits of this level.
    """
    xp = namespace(node, split)
    if split.shape[0] > ONE_HOT_NODES:
        of_row = split[node.astype(np.int32)]
        right = _own_satisfied(asked, xp.maximum(of_row, 0)) & (of_row != UNSPLIT)
    else:
        moves = satisfied(asked, xp.maximum(split, 0)) & (split != UNSPLIT)[:, None]
        here = node[None, :] == xp.arange(split.shape[0], dtype=node.dtype)[:, None]
        right = xp.any(moves & here, axis=0)
    return 2 * node + right.astype(node.dtype)


def depth(leaves: int) -> int:
    """D of a complete tree with this many leaves.

    Raises:
        ValueError: unless their number is a power of two.
    """
    if leaves < 1 or leaves & (leaves - 1):
        raise ValueError(f"a complete tree has a power of two leaves, got {leaves}")
    return leaves.bit_length() - 1


def level_slice(level: int) -> slice:
    """The places of a level's nodes in heap order."""
    return slice(2**level - 1, 2 ** (level + 1) - 1)


def route(tree: Tree, asked: Any) -> Any:
    """i8 or i32[N]: the leaf that each row ends in, from its splits or cells (`descend`)."""
    leaves = tree.leaf.shape[-1]
    rows = asked.cells.shape[1] if isinstance(asked, Cells) else asked.shape[1]
    node = namespace(*tree).zeros(rows, node_dtype(leaves))
    for level in range(depth(leaves)):
        node = descend(asked, node, tree.split[level_slice(level)])
    return node


def predict(tree: Tree, asked: Any) -> Any:
    """f32[N]: the leaf value of each row, from its splits or cells (`descend`).

    In a shallow tree each row chooses between the values of two children at every node, from the
    leaves up. That needs no numbers of nodes, and no gather.
    """
    xp, leaves = namespace(*tree), tree.leaf.shape[-1]
    if leaves > 2 * ONE_HOT_NODES:
        return tree.leaf[route(tree, asked).astype(np.int32)]
    right = satisfied(asked, xp.maximum(tree.split, 0)) & (tree.split != UNSPLIT)[:, None]
    value = tree.leaf[:, None]
    for level in reversed(range(depth(leaves))):
        value = xp.where(right[level_slice(level)], value[1::2], value[::2])
    return xp.broadcast_to(value[0], right.shape[1:])


def _check(trees: Tree, features: int, questions: Questions | None, axes: tuple[int, ...]) -> None:
    del features
    if questions is None or axes:
        raise ValueError("trees must have questions, and tell two classes apart")
    check_heap(np.asarray(trees.split), np.asarray(trees.leaf))
    check_within("split", trees.split, UNSPLIT, len(questions.feature))


def _heap(trees: Tree, questions: Questions, domain: Domain) -> Heap:
    column, low, high = (np.asarray(field) for field in questions[:3])
    split, known, cell = np.asarray(trees.split), predicates(domain), np.arange(CELLS)

    def ask(tree: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked = split[tree, node]
        inside = (low[asked][:, None] <= cell) & (cell <= high[asked][:, None])
        return column[asked], inside & (asked != UNSPLIT)[:, None]

    def in_words(tree: int, node: int) -> Predicate:
        return known[split[tree, node]]

    return Heap(ask, in_words, np.asarray(trees.leaf))


def _nodes(
    graph: Graph, trees: Tree, rows: Value, questions: Questions | None
) -> tuple[Value, None]:
    """The splits that trees use are looked up in tables of cells; the last is that of UNSPLIT."""
    assert questions is not None
    split, cell = np.asarray(trees.split), np.arange(CELLS)
    used, place = np.unique(split[split != UNSPLIT], return_inverse=True)
    number = np.full(split.shape, len(used), np.int64)
    number[split != UNSPLIT] = place
    feature, low, high = (np.append(np.asarray(field)[used], 0) for field in questions[:3])
    tables = (low[:, None] <= cell) & (cell <= high[:, None])
    tables[-1] = False
    answers = graph.asked(rows, feature, tables.astype(np.int64))
    of_node = graph.constant(number.reshape(-1))

    def right(node: Value) -> Value:
        return graph.add("GatherElements", answers, of_node.at(node), axis=1)

    return graph.descend(rows, np.asarray(trees.leaf), right).sum(), None


TREES = Kind(
    name="trees",
    predict=predict,
    read=read,
    arrays=(("split", "int32"), ("leaf", "float32")),
    make=Tree,
    check=_check,
    explain=lambda trees, heap, domain, *_: words.of_trees(heap, domain),
    heap=_heap,
    nodes=_nodes,
)
"""Trees of any depth over public splits; `public.Tree` says what they are."""
