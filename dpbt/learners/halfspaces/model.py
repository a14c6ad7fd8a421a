"""Halfspaces: linear functions of rows in the unit ball.

This module has how they predict, their arrays, words and graphs. Functions take arrays of NumPy or
of JAX alike, and nothing here imports JAX.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from dpbt.common.arithmetic import (
    array_namespace,
    fold,
    multiply_by_reciprocal,
    round_separately,
    sum_in_order,
)
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.graph import Graph, GraphOutputs, Value
from dpbt.learners.model_parts import DIGITS, Domain
from dpbt.public_types import AnyArray, Splits

_INSIDE = 1 - 2.0**-20
"""The radius that rows are projected to, so that float32 leaves none outside the unit ball."""

_LARGEST = 1e18
"""The largest entry of a row; float32 flushes reciprocals of larger numbers to 0."""


class Halfspace(NamedTuple):
    """A halfspace through the origin: the score of a row x of the unit ball is normal . x.

    Attributes:
        normal: f32[d].
    """

    normal: AnyArray


def project_to_unit_ball(rows: Any) -> Float32[Any, "N d"]:
    """f32[N, d]: project each row to the unit ball: x / max(1, |x|), up to 1e-6.

    It is a fixed map of a row: no row is rejected, and nothing is learned from other rows. Entries
    that are not finite count as 0, and all entries are clipped to +-1e18.
    """
    xp = array_namespace(rows)
    rows = xp.clip(xp.where(xp.isfinite(rows), rows, np.float32(0)), -_LARGEST, _LARGEST)
    largest = xp.maximum(xp.max(xp.abs(rows), axis=1, keepdims=True), 1)
    scaled = multiply_by_reciprocal(rows, largest)
    norm = round_separately(largest * xp.sqrt(sum_in_order(round_separately(scaled**2).T))[:, None])
    outside = xp.maximum(norm, _INSIDE)  # no row of zeros is divided by zero
    factor = round_separately(round_separately(_INSIDE * largest) / outside)
    return xp.where(norm > _INSIDE, scaled * factor, rows)


def _predict_halfspace(halfspace: Halfspace, row_columns: Float32[Any, "d N"]) -> Float32[Any, "N"]:
    """f32[N]: the score normal . x of each row, which does not depend on other rows.

    It is summed in the order of the features.

    A matrix product adds in another order for other numbers of rows.

    Args:
        halfspace: one.
        row_columns: f32[d, N], rows in the unit ball.
    """

    def add(score: Any, feature: tuple[Any, Any]) -> Any:
        return score + round_separately(feature[0] * feature[1])

    normal = halfspace.normal
    first = round_separately(row_columns[0] * normal[0])
    return fold(add, first, (row_columns[1:], normal[1:]), unroll=4)


def _check_shape_of_normals(
    halfspaces: Halfspace, num_features: int, splits: Splits | None, score_axes: tuple[int, ...]
) -> None:
    """Refuse halfspaces whose normals have another length than the number of attributes.

    Raises:
        ValueError: saying so.
    """
    num_attributes = num_features if splits is None else len(splits.attribute)
    normal = halfspaces.normal
    if score_axes or normal.ndim != 2 or normal.shape[1] != num_attributes:
        raise ValueError("normal must have a number for each attribute")


def _describe_halfspaces(halfspaces: Halfspace, _: Splits, domain: Domain, *__: Any) -> str:
    """A text of the weight of each attribute in the summed halfspaces, largest first.

    The weight is what the attribute adds at position 1.
    """
    names = []
    for name, column in domain.items():
        words = [split.yes for split in column.splits(name)]
        names += [name] * (column.num_thresholds > 0) + words[column.num_thresholds :]
    total = np.asarray(halfspaces.normal, np.float64).sum(axis=0)
    order = np.argsort(-np.abs(total), kind="stable")
    head = [
        "score of a row: the sum of weight times position over the attributes; positive above 0",
        "a position is from 0 to 1 in the declared range; a row's positions are divided by their "
        "length where that is above 1",
        "weight   attribute",
    ]
    return "\n".join([*head, *(f"{total[a]:+.{DIGITS}f}  {names[a]}" for a in order)])


def _add_halfspaces_to_graph(
    graph: Graph, halfspaces: Halfspace, rows: Value, splits: Splits | None
) -> GraphOutputs:
    """Add the summed scores of halfspaces to an ONNX graph.

    They are computed in double precision.

    Rows have finite numbers.
    """
    double = graph.attribute_positions(rows, splits).cast("DOUBLE")
    length = graph.add_node("Sqrt", (double * double).sum(keeps_axis=True))
    inside = double / graph.add_node("Max", length, np.float64(1))
    normal = halfspaces.normal.sum(axis=0, dtype=np.float64)
    return GraphOutputs((inside * normal[None]).sum().cast("FLOAT"))


HALFSPACES = HypothesisKind(
    name="halfspaces",
    predict=_predict_halfspace,
    read_rows=lambda rows: project_to_unit_ball(rows.attribute_positions).T,
    arrays=(("normal", "float32"),),
    make=Halfspace,
    check_arrays=_check_shape_of_normals,
    describe=_describe_halfspaces,
    add_to_graph=_add_halfspaces_to_graph,
)
"""Linear functions of rows in the unit ball, which hold exact numbers or positions of bins."""
