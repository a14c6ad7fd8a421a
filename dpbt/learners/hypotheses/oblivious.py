"""Oblivious trees: all nodes of a level ask the same question.

A tree of depth D partitions the rows by D bits.
"""

from typing import Any, NamedTuple

import numpy as np

from dpbt.arithmetic import Array, fold, namespace
from dpbt.data.domains import Domain, Predicate
from dpbt.learners.hypotheses import words
from dpbt.learners.hypotheses.graph import Graph, Value
from dpbt.learners.hypotheses.kind import Heap, Kind, check_within
from dpbt.public import CELLS, Questions


class ObliviousTree(NamedTuple):
    """A tree of which every level asks one question.

    Attributes:
        feature: i32[D]: the feature that each level reads.
        right: bool[D, CELLS]: whether a row with this cell of the feature goes right. For a column
            whose cells are ordered these cells have no gap, as `oblivious_questions.draw` makes
            them.
        leaf: f32[2^D]: the value added to the score; the first level is the highest bit. It is
            f32[K, 2^D] with several classes.
    """

    feature: Array
    right: Array
    leaf: Array


def predict(tree: ObliviousTree, cells: Any) -> Any:
    """f32[N], or f32[K, N] with several classes: the value of each row's leaf; cells u8[F, N]."""

    def ask(leaf: Any, level: tuple[Any, Any]) -> Any:
        feature, right = level
        return leaf + leaf + right[cells[feature].astype(np.int32)].astype(np.int32)

    start = namespace(cells, *tree).zeros(cells.shape[1], np.int32)
    return tree.leaf[..., fold(ask, start, (tree.feature, tree.right))]


def _check(
    trees: ObliviousTree, features: int, questions: Questions | None, axes: tuple[int, ...]
) -> None:
    if questions is None:
        raise ValueError("oblivious trees must read cells")
    count, depth = trees.feature.shape if trees.feature.ndim == 2 else (0, 0)
    right, leaf = (count, depth, CELLS), (count, *axes, 2 ** min(depth, 32))
    if (trees.right.shape, trees.leaf.shape) != (right, leaf):
        raise ValueError("feature, right and leaf must be of the same trees and classes")
    check_within("feature", trees.feature, 0, features)


def _heap(trees: ObliviousTree, questions: Questions, domain: Domain) -> Heap:
    del questions
    feature, right, leaf = (np.asarray(array) for array in trees)
    columns = list(domain.items())

    def ask(tree: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        level = np.frexp(node + 1)[1] - 1
        return feature[tree, level], right[tree, level]

    def in_words(tree: int, node: int) -> Predicate:
        level = (node + 1).bit_length() - 1
        name, column = columns[feature[tree, level]]
        asked = f"{name} {words.cells_in_words(column, right[tree, level])}"
        return Predicate(name, asked, f"not: {asked}")

    return Heap(ask, in_words, leaf if leaf.ndim == 2 else np.moveaxis(leaf, 1, 2))


def _nodes(
    graph: Graph, trees: ObliviousTree, rows: Value, questions: Questions | None
) -> tuple[Value, None]:
    """A tree's answers are the bits of its leaf, the first of them the highest."""
    del questions
    feature, right, leaf = (np.asarray(array) for array in trees)
    count, depth = feature.shape
    bits = graph.asked(rows, feature.reshape(-1), right.reshape(-1, CELLS).astype(np.int64))
    by_tree = graph.add("Reshape", bits, np.array([-1, count, depth], np.int64))
    place = (by_tree * (2 ** np.arange(depth, dtype=np.int64)[::-1])).sum(axis=2)
    last = leaf if leaf.ndim == 2 else np.moveaxis(leaf, 1, 2)
    values = last.reshape(count * 2**depth, *last.shape[2:])
    first = 2**depth * np.arange(count, dtype=np.int64)[None]
    return graph.constant(values).at(place + first).sum(), None


OBLIVIOUS = Kind(
    name="oblivious trees",
    predict=predict,
    read=lambda rows: rows.cells.T,
    arrays=(("feature", "int32"), ("right", "bool"), ("leaf", "float32")),
    make=ObliviousTree,
    check=_check,
    explain=lambda trees, heap, domain, *named: words.of_oblivious_trees(heap, *named),
    heap=_heap,
    nodes=_nodes,
)
"""Oblivious trees over the cells of a domain."""
