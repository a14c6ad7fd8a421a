"""ONNX graphs as values that are added and multiplied. ONNX is not imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from dpbt.public_types import MAX_BINS, Splits


class Graph:
    """An ONNX graph that is being built: its nodes and its constants."""

    def __init__(self, onnx: Any):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add_constant(self, value: Any, dtype: Any = None) -> Value:
        """Add a constant array to the graph, and return it as a value of the graph.

        Without a dtype it keeps that of NumPy.
        """
        name = f"c{len(self.constants)}"
        array = np.asarray(value, dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return Value(self, name)

    def add_node(
        self, operator: str, *inputs: Any, name: str | None = None, **attributes: Any
    ) -> Value:
        """Add a node of an ONNX operator, and return its output.

        Inputs are values of the graph, or constants as NumPy has them.
        """
        values = [
            value if isinstance(value, Value) else self.add_constant(value) for value in inputs
        ]
        name = name or f"v{len(self.nodes)}"
        names = [value.name for value in values]
        self.nodes.append(self.onnx.helper.make_node(operator, names, [name], **attributes))
        return Value(self, name)

    def look_up_entries_of_bins(
        self, rows: Value, features: np.ndarray, table_of_feature: np.ndarray
    ) -> Value:
        """[N, S]: look up the entry of each row's bin in a table of entries by bin, for S features.

        `features` [S] are the features whose bins are read, and `table_of_feature` [S, MAX_BINS]
        has their entries.
        """
        bins = self.add_node("Gather", rows.cast("INT64"), features.astype(np.int64), axis=1)
        first = MAX_BINS * np.arange(len(features), dtype=np.int64)[None]
        return self.add_constant(table_of_feature.reshape(-1)).gather(bins + first)

    def attribute_positions(self, rows: Value, splits: Splits | None) -> Value:
        """f32[N, A]: the position of each row in the range of each attribute.

        Rows without splits hold positions or exact numbers, and are returned as they are.
        """
        if splits is None:
            return rows
        attribute, position = (np.asarray(field) for field in splits[3:5])
        return self.look_up_entries_of_bins(rows, attribute, position.astype(np.float32))

    def leaf_values_by_descent(
        self,
        rows: Value,
        leaf_values: Float32[np.ndarray, "k _"],
        goes_right: Callable[[Value], Value],
    ) -> Value:
        """f32[N, k]: route each row down k trees, and gather the values of its leaves.

        Nodes are in heap order.

        Args:
            rows: a value with the axis of rows and another one.
            leaf_values: f32[k, 2^D].
            goes_right: i64[N, k], indices in one array of all inner nodes -> i64[N, k], 1 where the
                row goes right.
        """
        count, leaves = leaf_values.shape
        tree = np.arange(count, dtype=np.int64)[None]
        # One column of zeros, so that all places have the axis of rows.
        column = self.add_node("Slice", rows, *(np.array([end], np.int64) for end in (0, 1, 1)))
        node = self.add_constant(np.zeros((1, count), np.int64)) + column.cast("INT64") * np.int64(
            0
        )
        for _ in range(leaves.bit_length() - 1):
            answers = goes_right(node + tree * (leaves - 1))
            node = node * np.int64(2) + (answers + np.int64(1))
        place = node + (tree * leaves - (leaves - 1))
        return self.add_constant(leaf_values.reshape(-1), np.float32).gather(place)


class Value:
    """A value of an ONNX graph, by its name, with operators that add nodes."""

    def __init__(self, graph: Graph, name: str):
        self.graph, self.name = graph, name

    def __add__(self, other: Any) -> Value:
        return self.graph.add_node("Add", self, other)

    def __mul__(self, other: Any) -> Value:
        return self.graph.add_node("Mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.add_node("Div", self, other)

    def __gt__(self, other: Any) -> Value:
        return self.graph.add_node("Greater", self, other)

    def cast(self, onnx_type: str) -> Value:
        """Convert the value to another type of ONNX, such as "INT64"."""
        return self.graph.add_node("Cast", self, to=getattr(self.graph.onnx.TensorProto, onnx_type))

    def gather(self, indices: Value) -> Value:
        """Take the entries of the value at the indices along its first axis."""
        return self.graph.add_node("Gather", self, indices)

    def sum(self, axis: int = 1, keeps_axis: bool = False) -> Value:
        """The sum of the value over an axis."""
        return self.graph.add_node(
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
