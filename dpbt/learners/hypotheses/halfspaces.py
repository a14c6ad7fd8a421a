"""Halfspaces: linear functions of rows in the unit ball."""

from typing import Any, NamedTuple

import numpy as np

from dpbt.arithmetic import Array, added, fold, namespace, rounded
from dpbt.learners.hypotheses import words
from dpbt.learners.hypotheses.graph import Graph, Value
from dpbt.learners.hypotheses.kind import Kind, Rows
from dpbt.public import Questions

_INSIDE = 1 - 2.0**-20
"""The radius that rows are projected to, so that float32 leaves none outside the unit ball."""

_LARGEST = 1e18
"""The largest entry of a row; float32 flushes reciprocals of larger numbers to 0."""


class Halfspace(NamedTuple):
    """h(x) = normal . x, on the unit ball.

    Attributes:
        normal: f32[d].
    """

    normal: Array


def to_ball(rows: Any) -> Any:
    """f32[N, d]: each row x as x / max(1, |x|), up to 1e-6.

    It is a fixed map of a row: no row is rejected, and nothing is learned from other rows. Entries
    that are not finite count as 0, and all entries are clipped to +-1e18.
    """
    xp = namespace(rows)
    rows = xp.clip(xp.where(xp.isfinite(rows), rows, np.float32(0)), -_LARGEST, _LARGEST)
    largest = xp.maximum(xp.max(xp.abs(rows), axis=1, keepdims=True), 1)
    norm = largest * xp.sqrt(added(rounded((rows / largest) ** 2).T))[:, None]
    outside = xp.maximum(norm, _INSIDE)  # no row of zeros is divided by zero
    return xp.where(norm > _INSIDE, rows / largest * (_INSIDE * largest / outside), rows)


def predict(halfspace: Halfspace, columns: Any) -> Any:
    """f32[N]: normal . x, feature after feature, so that no row's score depends on other rows.

    A matrix product adds in another order for other numbers of rows.

    Args:
        halfspace: one.
        columns: f32[d, N], rows in the unit ball.
    """
    normal = halfspace.normal

    def add(score: Any, feature: tuple[Any, Any]) -> Any:
        return score + rounded(feature[0] * feature[1])

    first = rounded(columns[0] * normal[0])
    return fold(add, first, (columns[1:], normal[1:]), unroll=4)


def _read(rows: Rows) -> Any:
    return to_ball(rows.positions).T


def _check(
    halfspaces: Halfspace, features: int, questions: Questions | None, axes: tuple[int, ...]
) -> None:
    attributes = features if questions is None else len(questions.attribute)
    if axes or halfspaces.normal.ndim != 2 or halfspaces.normal.shape[1] != attributes:
        raise ValueError("normal must have a number for each attribute")


def _nodes(
    graph: Graph, halfspaces: Halfspace, rows: Value, questions: Questions | None
) -> tuple[Value, None]:
    """In double precision, for rows of finite numbers."""
    double = graph.positions(rows, questions).cast("DOUBLE")
    length = graph.add("Sqrt", (double * double).sum(keep=True))
    inside = double / graph.add("Max", length, np.float64(1))
    normal = np.asarray(halfspaces.normal).sum(axis=0, dtype=np.float64)
    return (inside * normal[None]).sum().cast("FLOAT"), None


HALFSPACES = Kind(
    name="halfspaces",
    predict=predict,
    read=_read,
    arrays=(("normal", "float32"),),
    make=Halfspace,
    check=_check,
    explain=lambda halfspaces, heap, domain, *_: words.of_halfspaces(halfspaces, domain),
    nodes=_nodes,
)
"""Linear functions of rows in the unit ball, which hold exact numbers or positions of cells."""
