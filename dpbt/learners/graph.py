"""ONNX graphs as values that are added and multiplied. ONNX is not imported here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from dpbt.public_types import MAX_BINS, Splits


class Graph:
    """Nodes and constants of a graph that is being built."""

    def __init__(self, onnx: Any):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = None) -> Value:
        """A constant; one without a dtype is an array or a number of NumPy."""
        name = f"c{len(self.constants)}"
        array = np.asarray(value, dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return Value(self, name)

    def add(self, operator: str, *inputs: Any, name: str | None = None, **attributes: Any) -> Value:
        """The value of an operator; inputs are values, or constants as NumPy has them."""
        values = [value if isinstance(value, Value) else self.constant(value) for value in inputs]
        name = name or f"v{len(self.nodes)}"
        names = [value.name for value in values]
        self.nodes.append(self.onnx.helper.make_node(operator, names, [name], **attributes))
        return Value(self, name)

    def look_up_bins(self, rows: Value, feature: np.ndarray, table: np.ndarray) -> Value:
        """[N, S]: the entry of table [S, MAX_BINS] at the bin of feature [S] of each row."""
        bins = self.add("Gather", rows.cast("INT64"), feature.astype(np.int64), axis=1)
        first = MAX_BINS * np.arange(len(feature), dtype=np.int64)[None]
        return self.constant(table.reshape(-1)).at(bins + first)

    def positions(self, rows: Value, splits: Splits | None) -> Value:
        """f32[N, A]: the position of each row in each attribute's range, or its numbers."""
        if splits is None:
            return rows
        attribute, position = (np.asarray(field) for field in splits[3:5])
        return self.look_up_bins(rows, attribute, position.astype(np.float32))

    def descend(
        self, rows: Value, leaf: Float32[np.ndarray, "k _"], right: Int64[Any, "N k"]
    ) -> Value:
        """f32[N, k]: the leaf of each row in k trees in heap order.

        Args:
            rows: a value with the axis of rows and another one.
            leaf: f32[k, 2^D].
            right: i64[N, k], places in one array of all inner nodes -> i64[N, k], 1 where the row
                goes right.
        """
        count, leaves = leaf.shape
        tree = np.arange(count, dtype=np.int64)[None]
        # One column of zeros, so that all places have the axis of rows.
        column = self.add("Slice", rows, *(np.array([end], np.int64) for end in (0, 1, 1)))
        node = self.constant(np.zeros((1, count), np.int64)) + column.cast("INT64") * np.int64(0)
        for _ in range(leaves.bit_length() - 1):
            answers = right(node + tree * (leaves - 1))
            node = node * np.int64(2) + (answers + np.int64(1))
        place = node + (tree * leaves - (leaves - 1))
        return self.constant(leaf.reshape(-1), np.float32).at(place)


class Value:
    """A value of a graph, by its name."""

    def __init__(self, graph: Graph, name: str):
        self.graph, self.name = graph, name

    def __add__(self, other: Any) -> Value:
        return self.graph.add("Add", self, other)

    def __mul__(self, other: Any) -> Value:
        return self.graph.add("Mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.add("Div", self, other)

    def __gt__(self, other: Any) -> Value:
        return self.graph.add("Greater", self, other)

    def cast(self, kind: str) -> Value:
        """The value as another type of ONNX."""
        return self.graph.add("Cast", self, to=getattr(self.graph.onnx.TensorProto, kind))

    def at(self, places: Value) -> Value:
        """The entries at some places of the first axis."""
        return self.graph.add("Gather", self, places)

    def sum(self, axis: int = 1, keeps_axis: bool = False) -> Value:
        """The sum over an axis."""
        return self.graph.add(
            "ReduceSum", self, np.array([axis], np.int64), keepdims=int(keeps_axis)
        )


class GraphOutputs(NamedTuple):
    """The outputs of a model for the rows of an ONNX graph.

    Attributes:
        score: f32[N], or f32[N, K] with several classes.
        mean_share: f32[N], the mean share of the positive class; None if hypotheses state scores.
    """

    score: Value
    mean_share: Value | None = None
