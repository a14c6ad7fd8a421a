"""Models as ONNX graphs of encoded rows. The extra `onnx` installs what this needs.

A graph reads the arrays that `Model.encode` returns. So it does not hold the domain, and words and
missing cells are read by `dpbt.domains.encode`. JAX is never imported here.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbt.common.arithmetic import LN2
from dpbt.common.extras import import_extra
from dpbt.common.storage import write_atomically
from dpbt.common.validate import as_path
from dpbt.data.column_types import Nominal, Numeric
from dpbt.learners.graph import Graph, Value
from dpbt.models.model import Model, checked_model, without_training_parts

OPSET, IR_VERSION = 17, 8


def export(model: Model, path: str | Path) -> None:
    """Write a model as an ONNX file.

    The file is written whole or not at all.

    The input is `rows`, encoded rows u8[N, F] or f32[N, F] (`Model.encode`). The outputs are
    `score` f32[N], `positive` bool[N], and `probability` f32[N] of the positive class where there
    is one. The file also holds the statement and the ledger as texts, and the classes as a JSON
    list if they have names.

    With several classes the outputs are `score` f32[N, K], `class` i64[N], which numbers the
    classes in order, and `probability` f32[N, K]. Of a model of a number they are `score` f32[N],
    the position in the declared range or the logarithm of that of a count, and `number` f64[N], in
    its units and inside the range.

    Args:
        model: from `dpbt.load`, or `fit`.
        path: the file.

    Raises:
        ValueError: for anything that is no model, for hypotheses or a loss of your own, and for
            something that is no path.
        ImportError: without the package `onnx`, naming the extra.
        OSError: if the file cannot be written.
    """
    path = as_path("path", path)
    model = without_training_parts(checked_model(model))
    about = model.about
    if about.kind.add_to_graph is None:
        raise ValueError(f"the hypotheses of {about.name} are of your own, and no graph has them")
    onnx: Any = import_extra("onnx", extra="onnx", purpose="an ONNX file")
    graph = Graph(onnx)
    helper = onnx.helper
    types = onnx.TensorProto
    rows = Value(graph, "rows")
    score, share = about.kind.add_to_graph(graph, model.hypotheses, rows, model.splits)
    score = graph.add_node("Add", score, model.intercept, name="score")
    outputs = _add_outputs(graph, model, score, share)

    row_type = types.UINT8 if model.dtype == "uint8" else types.FLOAT
    input_info = helper.make_tensor_value_info("rows", row_type, ["rows", model.features])
    output_infos = [
        helper.make_tensor_value_info(name, getattr(types, output.element), ["rows", *output.axes])
        for name, output in outputs.items()
    ]
    onnx_graph = helper.make_graph(graph.nodes, "dpbt", [input_info], output_infos, graph.constants)
    opset = helper.make_opsetid("", OPSET)
    onnx_model = helper.make_model(
        onnx_graph, opset_imports=[opset], producer_name="dpbt", ir_version=IR_VERSION
    )
    texts = {"statement": about.statement, "ledger": about.ledger}
    if about.classes is not None:
        texts["classes"] = json.dumps(list(about.classes))
    helper.set_model_props(onnx_model, texts)
    onnx.checker.check_model(onnx_model, full_check=True)
    write_atomically(path, lambda part: part.write_bytes(onnx_model.SerializeToString()))


class OutputType(NamedTuple):
    """The type of an output of an ONNX graph: its numbers and its axes.

    Attributes:
        element: ONNX's name of the type of its numbers.
        axes: the lengths of its axes after that of rows.
    """

    element: str
    axes: tuple[int, ...] = ()


def _add_outputs(
    graph: Graph, model: Model, score: Value, share: Value | None
) -> dict[str, OutputType]:
    """Add the nodes of all outputs that follow from the score.

    Their types are returned by name.

    Args:
        graph: the graph, which has the output `score`.
        model: the model.
        score: its score.
        share: the mean share of the positive class; None for hypotheses that state scores.

    Raises:
        ValueError: for probabilities by a loss of the user's own.
    """
    match model.about.target:
        case Nominal(values=values):
            graph.add_node("ArgMax", score, axis=1, keepdims=0, name="class")
            graph.add_node("Softmax", score * np.float32(LN2), axis=1, name="probability")
            per_class = OutputType("FLOAT", (len(values),))
            return {"score": per_class, "class": OutputType("INT64"), "probability": per_class}
        case Numeric(low=low, high=high):
            position = score.cast("DOUBLE")
            if model.about.target.response.objective == "poisson":
                position = graph.add_node("Exp", position)
            clipped = graph.add_node("Clip", position, np.float64(0), np.float64(1))
            scaled = clipped * np.float64(float(high) - float(low))
            graph.add_node("Add", scaled, np.float64(low), name="number")
            return {"score": OutputType("FLOAT"), "number": OutputType("DOUBLE")}
    graph.add_node("Greater", score, np.float32(0), name="positive")
    outputs = {"score": OutputType("FLOAT"), "positive": OutputType("BOOL")}
    if model.about.probability is not None:
        match model.about.probability:
            case "log":
                share = graph.add_node("Sigmoid", score * np.float32(LN2))
            case "square":
                scaled = (score + np.float32(4)) / np.float32(8)
                share = graph.add_node("Clip", scaled, np.float32(0), np.float32(1))
            case "matsushita":
                root = graph.add_node("Sqrt", score * score + np.float32(4))
                share = (score / root + np.float32(1)) / np.float32(2)
        if share is None:
            raise ValueError("the loss is your own, and no graph is known for its probabilities")
        graph.add_node("Identity", share, name="probability")
        outputs["probability"] = OutputType("FLOAT")
    return outputs
