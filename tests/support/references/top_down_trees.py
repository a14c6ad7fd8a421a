"""Top-down boosting of one tree (Algorithm 2 of LazyBB), as a loop over leaves and splits."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from dpbt import losses
from dpbt.types import GRID, UNSPLIT


class Candidate(NamedTuple):
    """A split of a leaf, which is named by its place in the heap of nodes."""

    node: int
    split: int


class Leaf(NamedTuple):
    """A leaf of a tree that grows."""

    rows: np.ndarray
    """bool[N]: which rows are in the leaf."""
    node: int
    """Its place in the heap of nodes, where the children of k are 2 k + 1 and 2 k + 2."""
    level: int


class TopDownTree(NamedTuple):
    """A grown tree: the split of each inner node, or UNSPLIT, and the leaves."""

    splits: np.ndarray
    leaves: list[Leaf]


def perspective(criterion, w1, w0):
    """The perspective of two class weights by its formula, without cancellation.

    For long doubles it is a long double.
    """
    if min(w0, w1) == 0:
        return 0.0
    if criterion is losses.square:
        return 4 * w1 * w0 / (w1 + w0)
    if criterion is losses.matsushita:
        return 2 * np.sqrt(w1 * w0)
    return (w1 * np.log1p(w0 / w1) + w0 * np.log1p(w1 / w0)) / np.log(np.longdouble(2))


def class_weights(rows, label, levels):
    """The weights of class 1 and of class 0 among some rows, from weights in grid units."""
    return [levels[rows & (label == c)].sum() / GRID for c in (True, False)]


def grow(
    *,
    criterion,
    satisfied: np.ndarray,
    label: np.ndarray,
    levels: np.ndarray,
    num_splits: int,
    depth: int,
    select: Callable[[int, Mapping[Candidate, float]], Candidate],
) -> TopDownTree:
    """Split one leaf after another.

    Args:
        criterion: The loss whose perspective scores splits.
        satisfied: bool[N, S], the splits that each row satisfies.
        label: bool[N].
        levels: The weights of rows, in grid units.
        num_splits: How many leaves are split.
        depth: The largest level of a leaf.
        select: Chooses the k-th split from the improvement of each candidate.
    """

    def score(rows):
        return perspective(criterion, *class_weights(rows, label, levels))

    leaves = [Leaf(rows=np.ones(len(label), bool), node=0, level=0)]
    splits = np.full(2**depth - 1, UNSPLIT)
    for k in range(num_splits):
        improvements = {}
        for leaf in (leaf for leaf in leaves if leaf.level < depth):
            for s in range(satisfied.shape[1]):
                children = (leaf.rows & satisfied[:, s], leaf.rows & ~satisfied[:, s])
                improvements[Candidate(leaf.node, s)] = score(leaf.rows) - sum(map(score, children))
        node, s = select(k, improvements)
        splits[node] = s
        parent = next(leaf for leaf in leaves if leaf.node == node)
        leaves = [leaf for leaf in leaves if leaf is not parent]
        leaves.append(Leaf(parent.rows & ~satisfied[:, s], 2 * node + 1, parent.level + 1))
        leaves.append(Leaf(parent.rows & satisfied[:, s], 2 * node + 2, parent.level + 1))
    return TopDownTree(splits, leaves)
