"""Additive models: a score for each bin of each column, how they predict, and their words.

Functions take arrays of NumPy or of JAX alike, as in `learners.hypotheses`.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.common.arithmetic import Array, fold, namespace
from dpbt.common.public import MAX_BINS, Splits
from dpbt.learners.graph import Graph, Value

Nodes = tuple[Value, Value | None]
"""The score of each row in an ONNX graph, and its mean share where hypotheses state shares."""

SCORES = "score of a row: the sum of what the trees add; positive above 0"


def indented(lines: list[str]) -> list[str]:
    """Lines two columns further in."""
    return [f"  {line}" for line in lines]


class Shapes(NamedTuple):
    """A curve for each column.

    Attributes:
        score: f32[F, C], or f32[K, F, C] with several classes: what each bin adds to the score.
            Bins beyond C add what the last one adds.
        noise: f32[], the deviation of the noise that privacy adds to the score of a bin. Between
            rounds it is f32[T], by the round that the noise comes from.
    """

    score: Array
    noise: Array


def predict_shapes(shapes: Shapes, bins: Any) -> Any:
    """f32[N], or f32[K, N] with several classes: the sum over columns; bins u8[F, N]."""
    xp, score = namespace(bins, *shapes), shapes.score

    def add(total: Any, column: tuple[Any, Any]) -> Any:
        curve, bin = column
        return total + curve[..., xp.minimum(bin, score.shape[-1] - 1).astype(np.int32)]

    start = xp.zeros((*score.shape[:-2], bins.shape[1]), np.float32)
    return fold(add, start, (xp.moveaxis(score, -2, 0), bins))


def check_shapes(shapes: Shapes, width: int, splits: Splits | None, axes: tuple) -> None:
    """Refuse curves that do not fit the rows, the classes or each other.

    Raises:
        ValueError: saying so.
    """
    if splits is None:
        raise ValueError("additive models must read bins")
    score, count = shapes.score, shapes.score.shape[:1]
    if score.shape != (*count, *axes, width, score.shape[-1]) or shapes.noise.shape != count:
        raise ValueError("score must have a number for each bin of each column and class")
    if not 1 <= score.shape[-1] <= MAX_BINS:
        raise ValueError(f"score must be of at most {MAX_BINS} bins")


def explain_shapes(
    shapes: Shapes, _: Splits, domain: Mapping[str, Any], target: Any, classes: Sequence | None
) -> str:
    """The curve of each column, from the one that moves scores most; equal bins are joined."""
    head, factor, style = SCORES.replace("trees add", "columns add"), 1.0, "+.2f"
    several = shapes.score.ndim == 4
    if several:
        head = "scores of a row: for each class the sum of what the columns add; the class of the "
        head += "largest is predicted"
    elif target is not None:
        head = "number of a row: the sum of what the columns add, clipped to "
        head += f"{target.low:g}..{target.high:g}"
        factor, style = target.high - target.low, "+.3g"
    score = np.sum(np.asarray(shapes.score, np.float64), axis=0) * factor
    noise = float(np.sqrt(np.sum(np.asarray(shapes.noise, np.float64) ** 2))) * factor
    names, curves = [""], score[None]
    if several:
        names, curves = [f" [{word}]" for word in classes or target.values], score
    lines = [head, f"the noise of privacy moves each number by about {noise:{style[1:]}}"]

    columns = list(domain.items())
    spread = [np.ptp(curves[:, k, : column.n_bins]) for k, (_, column) in enumerate(columns)]
    for number in np.argsort(spread, kind="stable")[::-1]:
        name, column = columns[number]
        words = column.words
        for of_class, curve in zip(names, curves[:, number], strict=True):
            values = [f"{value:{style}}" for value in curve[: len(words)]]
            said, first = [], 0
            for last in range(len(words)):
                if last + 1 == len(words) or values[last + 1] != values[first]:
                    said.append(f"{_run(words[first : last + 1])} {values[first]}")
                    first = last + 1
            wrapped = textwrap.wrap(", ".join(said), 96)
            lines += [f"{name}{of_class}", *indented(wrapped)]
    return "\n".join(lines)


def _run(words: list[str]) -> str:
    """What bins of one value hold: one interval of numbers, or several values."""
    if len(words) > 1 and all(" to " in word for word in words):
        return f"{words[0].split(' to ')[0]} to {words[-1].split(' to ')[1]}:"
    return f"{' or '.join(words)}:"


def nodes_of_shapes(graph: Graph, shapes: Shapes, rows: Value, *_: Any) -> Nodes:
    """The scores of all columns are one table, in which each column has a place of its own."""
    score = np.sum(shapes.score, axis=0, dtype=np.float64).astype(np.float32)
    columns, bins = score.shape[-2:]
    table = np.moveaxis(score, (-2, -1), (0, 1)).reshape(columns * bins, *score.shape[:-2])
    first = bins * np.arange(columns, dtype=np.int64)[None]
    place = graph.add("Min", rows.cast("INT64"), np.int64(bins - 1)) + first
    return graph.constant(table).at(place).sum(), None
