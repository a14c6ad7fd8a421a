"""Saved models as ONNX graphs of encoded rows. The extra `onnx` installs what this needs.

A graph reads what `SavedModel.encode` gives, so the domain stays outside: words and missing cells
are read by `dpbt.domains.encode`. JAX is never imported here.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbt.data.kinds import Nominal, Numeric
from dpbt.public import CELLS, UNSPLIT
from dpbt.reader import Groves, Halfspaces, ObliviousTrees, SavedModel, Trees
from dpbt.storage import write_whole
from dpbt.validate import as_path

OPSET, IR_VERSION = 17, 8


class _Graph:
    """Nodes and constants of a graph that is being built; every value has a name."""

    def __init__(self, onnx: Any):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any) -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(value, dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        name = name or f"v{len(self.nodes)}"
        node = self.onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        self.nodes.append(node)
        return name

    def cast(self, value: str, kind: str) -> str:
        return self.add("Cast", value, to=getattr(self.onnx.TensorProto, kind))

    def descend(self, count: int, depth: int, right: Any) -> str:
        """i64[N, trees]: the leaf of each row in trees in heap order, in one array of all leaves.

        Args:
            count: the number of trees.
            depth: D.
            right: name of i64[N, trees], places in one array of all inner nodes -> i64[N, trees], 1
                where the row goes right.
        """
        inner, leaves = 2**depth - 1, 2**depth
        first = self.constant(np.arange(count)[None], np.int64)
        node = self.constant(np.zeros((1, count)), np.int64)
        base = self.add("Mul", first, self.constant(inner, np.int64))
        one, two = self.constant(1, np.int64), self.constant(2, np.int64)
        for _ in range(depth):
            step = self.add("Add", right(self.add("Add", base, node)), one)
            node = self.add("Add", self.add("Mul", node, two), step)
        leaf = self.add("Sub", node, self.constant(inner, np.int64))
        return self.add("Add", leaf, self.add("Mul", first, self.constant(leaves, np.int64)))

    def sum(self, value: str) -> str:
        return self.add("ReduceSum", value, self.constant([1], np.int64), keepdims=0)


def _asked(graph: _Graph, feature: np.ndarray, table: np.ndarray) -> str:
    """i64[N, S]: the entry of table [S, CELLS] at the cell of feature [S] of each row."""
    cells = graph.add(
        "Gather", graph.cast("rows", "INT64"), graph.constant(feature, np.int64), axis=1
    )
    first = graph.constant(CELLS * np.arange(len(feature))[None], np.int64)
    flat = graph.constant(table.reshape(-1), table.dtype)
    return graph.add("Gather", flat, graph.add("Add", cells, first))


def _split_scores(graph: _Graph, feature: np.ndarray, satisfied: np.ndarray, trees: Trees) -> str:
    """f32[N]: the sum of the trees' leaves, for splits by tables of cells, bool[S, CELLS]."""
    used, place = np.unique(trees.split[trees.split != UNSPLIT], return_inverse=True)
    split = np.full(trees.split.shape, len(used))  # the last split is satisfied by no row
    split[trees.split != UNSPLIT] = place
    tables = np.concatenate([satisfied[used], np.zeros((1, CELLS), bool)]).astype(np.int64)
    answers = _asked(graph, np.append(feature[used], 0), tables)
    of_node = graph.constant(split.reshape(-1), np.int64)
    each_row = graph.add(
        "Mul", graph.add("Slice", answers, *_first(graph)), graph.constant(0, np.int64)
    )

    def right(node: str) -> str:
        asked = graph.add("Add", graph.add("Gather", of_node, node), each_row)
        return graph.add("GatherElements", answers, asked, axis=1)

    depth = trees.leaf.shape[1].bit_length() - 1
    leaf = graph.descend(len(trees.leaf), depth, right)
    return graph.sum(graph.add("Gather", graph.constant(trees.leaf.reshape(-1), np.float32), leaf))


def _first(graph: _Graph) -> list[str]:
    """Starts, ends and axes of a slice that keeps the first column."""
    return [graph.constant([number], np.int64) for number in (0, 1, 1)]


def _positions(graph: _Graph, model: SavedModel) -> str:
    """f32[N, A]."""
    if model.questions is None:
        return "rows"
    attribute, position = (np.asarray(field) for field in model.questions[3:5])
    return _asked(graph, attribute, position.astype(np.float32))


def _grove_shares(graph: _Graph, groves: Groves, positions: str) -> str:
    """f32[N, T P]."""
    attribute = graph.constant(groves.attribute.reshape(-1), np.int64)
    threshold = graph.constant(groves.threshold.reshape(-1), np.float32)
    first = graph.add("Slice", positions, *_first(graph))
    none = graph.add("Mul", graph.cast(first, "INT64"), graph.constant(0, np.int64))

    def right(node: str) -> str:
        asked = graph.add("Add", graph.add("Gather", attribute, node), none)
        value = graph.add("GatherElements", positions, asked, axis=1)
        above = graph.add("Greater", value, graph.add("Gather", threshold, node))
        return graph.cast(above, "INT64")

    leaves = groves.leaf.reshape(-1, groves.leaf.shape[-1])
    leaf = graph.descend(len(leaves), leaves.shape[1].bit_length() - 1, right)
    return graph.add("Gather", graph.constant(leaves.reshape(-1), np.float32), leaf)


def _oblivious_scores(graph: _Graph, trees: ObliviousTrees) -> str:
    """f32[N], or f32[N, K] with several classes.

    A tree's answers are the bits of its leaf, the first of them the highest.
    """
    count, depth = trees.feature.shape
    tables = trees.right.reshape(-1, CELLS).astype(np.int64)
    bits = _asked(graph, trees.feature.reshape(-1), tables)
    by_tree = graph.add("Reshape", bits, graph.constant([-1, count, depth], np.int64))
    worth = graph.constant(2 ** np.arange(depth)[::-1], np.int64)
    places = graph.add(
        "ReduceSum", graph.add("Mul", by_tree, worth), graph.constant([2], np.int64), keepdims=0
    )
    first = graph.constant(2**depth * np.arange(count)[None], np.int64)
    leaf = graph.add("Add", places, first)
    if trees.leaf.ndim == 2:
        values = graph.constant(trees.leaf.reshape(-1), np.float32)
        return graph.sum(graph.add("Gather", values, leaf))
    by_leaf = np.moveaxis(trees.leaf, 1, 2).reshape(count * 2**depth, -1)
    return graph.sum(graph.add("Gather", graph.constant(by_leaf, np.float32), leaf))


def _halfspace_scores(graph: _Graph, halfspaces: Halfspaces, positions: str) -> str:
    """f32[N]: as `reader` computes it, for rows of finite numbers."""
    double = graph.cast(positions, "DOUBLE")
    length = graph.add(
        "Sqrt",
        graph.add(
            "ReduceSum", graph.add("Mul", double, double), graph.constant([1], np.int64), keepdims=1
        ),
    )
    divisor = graph.add("Max", length, graph.constant(1, np.float64))
    normal = halfspaces.normal.sum(axis=0, dtype=np.float64)
    inside = graph.add("Div", double, divisor)
    score = graph.sum(graph.add("Mul", inside, graph.constant(normal[None], np.float64)))
    return graph.cast(score, "FLOAT")


def _probability(graph: _Graph, kind: str, score: str) -> str:
    """f32[N]: the probability that a loss gives the scores."""

    def number(value: float) -> str:
        return graph.constant(value, np.float32)

    match kind:
        case "log":
            natural = graph.add("Mul", score, number(np.log(2)))
            return graph.add("Sigmoid", natural)
        case "square":
            share = graph.add("Div", graph.add("Add", score, number(4)), number(8))
            return graph.add("Clip", share, number(0), number(1))
        case "matsushita":
            square = graph.add("Add", graph.add("Mul", score, score), number(4))
            slope = graph.add("Div", score, graph.add("Sqrt", square))
            return graph.add("Div", graph.add("Add", slope, number(1)), number(2))
    raise ValueError(f"no graph is known for the probabilities of {kind}")


class _Output(NamedTuple):
    """An output of a graph: its type, and its axes after that of rows."""

    type: str
    axes: tuple[int, ...] = ()


def _answers(graph: _Graph, model: SavedModel, score: str, share: str | None) -> dict[str, _Output]:
    """Add what scores predict. The outputs by name.

    Args:
        graph: it has an output "score".
        model: the saved model.
        score: the name of the scores.
        share: the name of the mean share of the positive class, where trees state shares.
    """
    match model.target:
        case Nominal(names=names):
            graph.add("ArgMax", score, axis=1, keepdims=0, name="class")
            natural = graph.add("Mul", score, graph.constant(np.log(2), np.float32))
            graph.add("Softmax", natural, axis=1, name="probability")
            several = _Output("FLOAT", (len(names),))
            return {"score": several, "class": _Output("INT64"), "probability": several}
        case Numeric(low=low, high=high):
            ends = graph.constant(0, np.float64), graph.constant(1, np.float64)
            inside = graph.add("Clip", graph.cast(score, "DOUBLE"), *ends)
            scaled = graph.add("Mul", inside, graph.constant(float(high) - float(low), np.float64))
            graph.add("Add", scaled, graph.constant(low, np.float64), name="number")
            return {"score": _Output("FLOAT"), "number": _Output("DOUBLE")}
    graph.add("Greater", score, graph.constant(0, np.float32), name="positive")
    outputs = {"score": _Output("FLOAT"), "positive": _Output("BOOL")}
    if model.probability is not None:
        found = share or _probability(graph, model.probability, score)
        graph.add("Identity", found, name="probability")
        outputs["probability"] = _Output("FLOAT")
    return outputs


def export(model: SavedModel, path: str | Path) -> None:
    """Write a saved model as an ONNX file: whole, or not at all.

    The input is `rows`, encoded rows u8[N, F] or f32[N, F] (`SavedModel.encode`). The outputs are
    `score` f32[N], `positive` bool[N], and `probability` f32[N] of the positive class where there
    is one. The file also holds the statement and the ledger as texts, and the classes as a JSON
    list if they have names.

    With several classes the outputs are `score` f32[N, K], `class` i64[N], which numbers the
    classes in order, and `probability` f32[N, K]. Of a model of a number they are `score` f32[N],
    the position in the declared range, and `number` f64[N], in its units and inside the range.

    Args:
        model: from `dpbt.load`.
        path: the file.

    Raises:
        ValueError: for anything that is no saved model, and for something that is no path.
        ImportError: without the package `onnx`.
        OSError: if the file cannot be written.
    """
    path = as_path("path", path)
    if not isinstance(model, SavedModel):
        raise ValueError(
            f"expected a saved model, as dpbt.load gives it, got {type(model).__name__}"
        )
    import onnx  # an extra

    graph = _Graph(onnx)
    share = None
    match model.hypotheses:
        case Trees() as trees:
            assert model.questions is not None
            feature, low, high = (np.asarray(field) for field in model.questions[:3])
            cell = np.arange(CELLS)
            satisfied = (low[:, None] <= cell) & (cell <= high[:, None])
            score = _split_scores(graph, feature, satisfied, trees)
        case ObliviousTrees() as trees:
            score = _oblivious_scores(graph, trees)
        case Groves() as groves:
            shares = _grove_shares(graph, groves, _positions(graph, model))
            share = graph.add("ReduceMean", shares, axes=[1], keepdims=0)
            yes = graph.cast(graph.add("Greater", shares, graph.constant(0.5, np.float32)), "FLOAT")
            vote = graph.add(
                "Sub",
                graph.add("Mul", yes, graph.constant(2, np.float32)),
                graph.constant(1, np.float32),
            )
            score = graph.sum(vote)
        case Halfspaces() as halfspaces:
            score = _halfspace_scores(graph, halfspaces, _positions(graph, model))
    score = graph.add("Add", score, graph.constant(model.intercept, np.float32), name="score")
    outputs = _answers(graph, model, score, share)
    _write(onnx, graph, model, outputs, path)


def _write(
    onnx: Any, graph: _Graph, model: SavedModel, outputs: dict[str, _Output], path: Path
) -> None:
    """Write the graph's file after the checks of ONNX."""
    helper, types = onnx.helper, onnx.TensorProto
    kind = types.UINT8 if model.dtype == "uint8" else types.FLOAT
    rows = helper.make_tensor_value_info("rows", kind, ["rows", model.features])
    stated = [
        helper.make_tensor_value_info(name, getattr(types, output.type), ["rows", *output.axes])
        for name, output in outputs.items()
    ]
    built = helper.make_graph(graph.nodes, "dpbt", [rows], stated, graph.constants)
    opset = helper.make_opsetid("", OPSET)
    whole = helper.make_model(
        built, opset_imports=[opset], producer_name="dpbt", ir_version=IR_VERSION
    )
    texts = {"statement": model.statement, "ledger": model.ledger}
    if model.classes is not None:
        texts["classes"] = json.dumps(list(model.classes))
    helper.set_model_props(whole, texts)
    onnx.checker.check_model(whole, full_check=True)
    write_whole(path, lambda part: part.write_bytes(whole.SerializeToString()))
