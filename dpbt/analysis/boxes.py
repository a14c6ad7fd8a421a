"""Trees as sums over leaves, whose averages over the cells of a domain are exact.

A row reaches a leaf if each of its cells is in a set of cells of that column. So a leaf is a box,
and under the uniform law of `effects` its share of the rows is a product of shares of cells.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpbt.data.domains import Domain
from dpbt.learners.hypotheses.kind import Heap
from dpbt.release.explain import heap_of
from dpbt.release.model import Model

_LARGEST = 2**24
"""The most entries of an array of boxes."""


def of_model(model: Model, domain: Domain, of: str) -> tuple[Heap, Any] | None:
    """The model as a sum over leaves, and what is added to it; None where it is none.

    Scores of trees of all kinds are such sums: a random tree adds its vote, +1 or -1. Probabilities
    are such sums if they are mean shares of random trees.

    Args:
        model: of which `explain.domain_of` has found a domain.
        domain: that domain.
        of: "score" or "probability".
    """
    heap, states_shares = heap_of(model, domain), model.about.kind.shares is not None
    if heap is None or (of == "probability" and not states_shares):
        return None
    leaf, start = heap.leaf.astype(np.float64), np.asarray(model.intercept, np.float64)
    if states_shares and of == "score":
        leaf = np.where(leaf > 0.5, 1.0, -1.0)
    elif states_shares:
        leaf, start = leaf / len(leaf), np.float64(0)
    return heap._replace(leaf=leaf), start


def means(trees: Heap, start: Any, cells: list[int], chosen: list[int]) -> np.ndarray:
    """f64[cells of each chosen column, ...]: the mean over the cells of all other columns.

    Args:
        trees: whose leaves are added up.
        start: what is added to them; f64[K] with several classes.
        cells: how many cells each column has.
        chosen: the numbers of one or two columns.
    """
    others = [column for column in range(len(cells)) if column not in chosen]
    axes = "cd"[: len(chosen)]
    terms = ",".join(f"b{axis}" for axis in axes)
    total: Any = start
    for tree, leaf, possible in _boxes(trees, cells):
        share = possible.sum(axis=2) / np.asarray(cells)
        weight = np.prod(share[:, others], axis=1)
        sets = [possible[:, column, : cells[column]].astype(np.float64) for column in chosen]
        added = trees.leaf[tree, leaf]
        rule = f"b,{terms},b...->{axes}..."
        total = total + np.einsum(rule, weight, *sets, added, optimize=True)
    return total


def _boxes(trees: Heap, cells: list[int]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
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
        column, goes_right = trees.ask(tree, node)
        right = goes_right[:, :most]
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
