"""Predictions of saved hypotheses with NumPy alone: one class for each kind that files hold."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpbt.public import UNSPLIT, Questions, without_values


class Trees(NamedTuple):
    """Complete trees in heap order, as `base.Tree`: split i32[T, 2^D - 1], leaf f32[T, 2^D]."""

    split: np.ndarray
    leaf: np.ndarray


class ObliviousTrees(NamedTuple):
    """Trees of one question a level: feature i32[T, D], right bool[T, D, CELLS], leaf f32[T, 2^D].

    With several classes leaf is f32[T, K, 2^D].
    `learners.oblivious_tree.ObliviousTree` says what they mean.
    """

    feature: np.ndarray
    right: np.ndarray
    leaf: np.ndarray


class Groves(NamedTuple):
    """Random trees, as `learners.random_tree.Grove`.

    Attributes:
        attribute: i32[T, P, 2^D - 1].
        threshold: f32[T, P, 2^D - 1].
        leaf: f32[T, P, 2^D], shares of the positive class.
    """

    attribute: np.ndarray
    threshold: np.ndarray
    leaf: np.ndarray


class Halfspaces(NamedTuple):
    """Linear functions on the unit ball, as `learners.halfspace.Halfspace`: normal f32[T, d]."""

    normal: np.ndarray


Hypotheses = Trees | ObliviousTrees | Groves | Halfspaces


class Rows(NamedTuple):
    """Encoded rows: u8[N, F] cells and what is asked of them, or f32[N, F] numbers alone."""

    cells: np.ndarray
    questions: Questions | None

    __repr__ = without_values

    @property
    def positions(self) -> np.ndarray:
        """f32[N, A]: the position of each row in each attribute's range, or its numbers."""
        if self.questions is None:
            return self.cells
        attribute = np.asarray(self.questions.attribute)
        position = np.asarray(self.questions.position)
        return position[np.arange(len(attribute)), self.cells[:, attribute]]


def _descend(depth: int, count: int, right: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """i64[N]: the leaf of each row in a tree in heap order.

    Args:
        depth: D.
        count: N.
        right: nodes i64[N] -> bool[N], whether each row goes right at its node.
    """
    node = np.zeros(count, np.int64)
    for _ in range(depth):
        node = 2 * node + 1 + right(node)
    return node - (2**depth - 1)


def _depth(leaves: int) -> int:
    return leaves.bit_length() - 1


def _tree_scores(trees: Trees, rows: Rows) -> np.ndarray:
    assert rows.questions is not None
    feature, low, high = (np.asarray(field) for field in rows.questions[:3])
    each = np.arange(len(rows.cells))
    total = np.zeros(len(rows.cells), np.float32)
    for split, leaf in zip(trees.split, trees.leaf, strict=True):

        def right(node: np.ndarray, split: np.ndarray = split) -> np.ndarray:
            asked = split[node]
            cell = rows.cells[each, feature[asked]]
            return (low[asked] <= cell) & (cell <= high[asked]) & (asked != UNSPLIT)

        total += leaf[_descend(_depth(len(leaf)), len(total), right)]
    return total


def _oblivious_scores(trees: ObliviousTrees, rows: Rows) -> np.ndarray:
    total = np.zeros((*trees.leaf.shape[1:-1], len(rows.cells)), np.float32)
    for feature, right, leaf in zip(*trees, strict=True):
        place = np.zeros(len(rows.cells), np.int64)
        for read, goes_right in zip(feature, right, strict=True):
            place = 2 * place + goes_right[rows.cells[:, read]]
        total += leaf[..., place]
    return total


def _grove_shares(groves: Groves, rows: Rows) -> np.ndarray:
    """f32[T P, N]: the share of the positive class that each tree states for each row."""
    attributes, thresholds, leaves = (field.reshape(-1, field.shape[-1]) for field in groves)
    position, each = rows.positions, np.arange(len(rows.cells))
    stated = np.empty((len(leaves), len(each)), np.float32)
    for tree, (attribute, threshold, leaf) in enumerate(
        zip(attributes, thresholds, leaves, strict=True)
    ):

        def right(
            node: np.ndarray, attribute: np.ndarray = attribute, threshold: np.ndarray = threshold
        ) -> np.ndarray:
            return position[each, attribute[node]] > threshold[node]

        stated[tree] = leaf[_descend(_depth(len(leaf)), len(each), right)]
    return stated


def _grove_scores(groves: Groves, rows: Rows) -> np.ndarray:
    positive = (_grove_shares(groves, rows) > 0.5).sum(axis=0)
    trees = groves.leaf.shape[0] * groves.leaf.shape[1]
    return (2 * positive - trees).astype(np.float32)


_INSIDE, _LARGEST = np.float32(1 - 2.0**-20), np.float32(1e18)
"""As in `learners.halfspace`."""


def _halfspace_scores(halfspaces: Halfspaces, rows: Rows) -> np.ndarray:
    """The sum of normal . x over all halfspaces, with x / max(1, |x|) for each row x."""
    given = rows.positions
    x = np.clip(np.where(np.isfinite(given), given, np.float32(0)), -_LARGEST, _LARGEST)
    largest = np.maximum(np.max(np.abs(x), axis=1, keepdims=True), np.float32(1))
    norm = largest * np.sqrt(np.sum((x / largest) ** 2, axis=1, keepdims=True))
    divisor = np.maximum(norm, _INSIDE)  # a row of zeros is divided by no zero, and warns of none
    ball = np.where(norm > _INSIDE, x / largest * (_INSIDE * largest / divisor), x)
    normal = halfspaces.normal.sum(axis=0, dtype=np.float64)
    return (ball * normal).sum(axis=1).astype(np.float32)  # a product depends on how many rows


class Kind(NamedTuple):
    """A class of hypotheses that files hold.

    Attributes:
        arrays: its arrays by name.
        score: (hypotheses, rows) -> f32[N], the sum of their predictions; f32[K, N] with several
            classes.
        shares: (hypotheses, rows) -> f32[k, N], where they state shares of the positive class.
    """

    arrays: type[Any]
    score: Callable[[Any, Rows], np.ndarray]
    shares: Callable[[Any, Rows], np.ndarray] | None = None


KINDS = {
    "trees": Kind(Trees, _tree_scores),
    "oblivious trees": Kind(ObliviousTrees, _oblivious_scores),
    "groves": Kind(Groves, _grove_scores, _grove_shares),
    "halfspaces": Kind(Halfspaces, _halfspace_scores),
}
"""The classes of hypotheses by their names in files."""


def _matsushita(z: np.ndarray) -> np.ndarray:
    half = np.abs(z) / np.float32(2)
    norm = np.hypot(np.ones_like(half), half)
    below = np.float32(0.5) / norm / (norm + half)
    return np.where(z < 0, below, np.float32(1) - below)


def _log(z: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.float32(1) / (np.float32(1) + np.exp2(-z))


PROBABILITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "matsushita": _matsushita,
    "log": _log,
    "square": lambda z: np.clip((z + np.float32(4)) / np.float32(8), 0, 1),
}
"""Score f32[N] -> probability f32[N] by the name of a loss, as `ProperLoss.probability`."""
