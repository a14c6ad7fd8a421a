"""Trees as sums over leaves, whose averages over the cells of a domain are exact.

A row reaches a leaf if each of its cells is in a set of cells of that column. So a leaf is a box,
and under the uniform law of `effects` its share of the rows is a product of shares of cells.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dpbt.analysis.explain import hypotheses_on_host, kind_in_files
from dpbt.base import Model
from dpbt.public import UNSPLIT, Questions
from dpbt.reader import SavedModel

_LARGEST = 2**24
"""The most entries of an array of boxes."""

Ask = Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]]
"""(trees i64[k], nodes i64[k], C) -> the columns i64[k] that nodes read, and bool[k, C].

The second says which of the first C cells go right.
"""


class TreeSum(NamedTuple):
    """Complete trees in heap order, whose leaves are added up.

    Attributes:
        depth: D.
        ask: what nodes ask.
        leaf: f64[T, 2^D, ...], what the leaves add; the last axis is that of several classes.
        start: what is added to the sum; f64[K] with several classes.
    """

    depth: int
    ask: Ask
    leaf: np.ndarray
    start: float | np.ndarray


def of_model(model: Model | SavedModel, of: str) -> TreeSum | None:
    """The model as a sum over leaves; None where it is none.

    Scores of trees of all kinds are such sums: a random tree adds its vote, +1 or -1. Probabilities
    are such sums if they are mean shares of random trees.

    Args:
        model: of which `explain.domain_of` has found a domain.
        of: "score" or "probability".
    """
    kind, questions = kind_in_files(model), model.questions
    assert questions is not None  # as `domain_of` says
    found: Any = hypotheses_on_host(model)
    start = np.asarray(model.intercept, np.float64)
    match kind, of:
        case "trees", "score":
            leaf = found.leaf.astype(np.float64)
            return TreeSum(_depth(leaf), _ask_splits(found.split, questions), leaf, start)
        case "oblivious trees", "score":
            leaf = found.leaf.astype(np.float64)
            leaf = leaf if leaf.ndim == 2 else np.moveaxis(leaf, 1, 2)
            return TreeSum(_depth(leaf), _ask_levels(found.feature, found.right), leaf, start)
        case "groves", _:
            arrays = (found.attribute, found.threshold, found.leaf)
            attribute, threshold, share = (array.reshape(-1, array.shape[-1]) for array in arrays)
            ask = _ask_positions(attribute, threshold, questions)
            if of == "score":
                return TreeSum(_depth(share), ask, np.where(share > 0.5, 1.0, -1.0), start)
            return TreeSum(_depth(share), ask, share.astype(np.float64) / len(share), 0.0)
    return None


def _depth(leaf: np.ndarray) -> int:
    return leaf.shape[1].bit_length() - 1


def _ask_splits(split: np.ndarray, questions: Questions) -> Ask:
    """Nodes of public splits; split i32[T, 2^D - 1]."""
    column, low, high = (np.asarray(field) for field in questions[:3])

    def ask(t: np.ndarray, node: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        asked, cell = split[t, node], np.arange(most)
        inside = (low[asked][:, None] <= cell) & (cell <= high[asked][:, None])
        return column[asked], inside & (asked != UNSPLIT)[:, None]

    return ask


def _ask_levels(feature: np.ndarray, right: np.ndarray) -> Ask:
    """One question a level; feature i32[T, D], right bool[T, D, CELLS]."""

    def ask(t: np.ndarray, node: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        level = np.frexp(node + 1)[1] - 1
        return feature[t, level], right[t, level, :most]

    return ask


def _ask_positions(attribute: np.ndarray, threshold: np.ndarray, questions: Questions) -> Ask:
    """Thresholds on positions; attribute i32[T, 2^D - 1], threshold f32[T, 2^D - 1]."""
    column, position = np.asarray(questions.attribute), np.asarray(questions.position)

    def ask(t: np.ndarray, node: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        asked = attribute[t, node]
        return column[asked], position[asked, :most] > threshold[t, node][:, None]

    return ask


def means(trees: TreeSum, cells: list[int], chosen: list[int]) -> np.ndarray:
    """f64[cells of each chosen column, ...]: the mean over the cells of all other columns.

    Args:
        trees: the sum.
        cells: how many cells each column has.
        chosen: the numbers of one or two columns.
    """
    others = [column for column in range(len(cells)) if column not in chosen]
    axes = "cd"[: len(chosen)]
    terms = ",".join(f"b{axis}" for axis in axes)
    total: Any = trees.start
    for tree, leaf, possible in _boxes(trees, cells):
        share = possible.sum(axis=2) / np.asarray(cells)
        weight = np.prod(share[:, others], axis=1)
        sets = [possible[:, column, : cells[column]].astype(np.float64) for column in chosen]
        added = trees.leaf[tree, leaf]
        rule = f"b,{terms},b...->{axes}..."
        total = total + np.einsum(rule, weight, *sets, added, optimize=True)
    return total


def _boxes(trees: TreeSum, cells: list[int]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The leaves that rows can reach: (tree i64[k], leaf i64[k], cells bool[k, F, C]), in parts."""
    most, count = max(cells), len(trees.leaf)
    every = np.arange(most) < np.asarray(cells)[:, None]
    together = max(_LARGEST // every.size, 1)
    waiting = [(0, np.arange(count), np.zeros(count, np.int64), np.tile(every, (count, 1, 1)))]
    while waiting:
        level, tree, node, possible = waiting.pop()
        if level == trees.depth:
            yield tree, node - (2**trees.depth - 1), possible
            continue

        # The cells of the rows that go left, and of those that go right.
        column, right = trees.ask(tree, node, most)
        here = possible[np.arange(len(node)), column]
        sides = []
        for side, kept in ((1, here & ~right), (2, here & right)):
            reached = np.flatnonzero(kept.any(axis=1))
            below = possible[reached]
            below[np.arange(len(reached)), column[reached]] = kept[reached]
            sides.append((tree[reached], 2 * node[reached] + side, below))

        trees_below, nodes_below, cells_below = map(np.concatenate, zip(*sides, strict=True))
        for k in range(0, len(nodes_below), together):
            part = slice(k, k + together)
            waiting.append((level + 1, trees_below[part], nodes_below[part], cells_below[part]))
