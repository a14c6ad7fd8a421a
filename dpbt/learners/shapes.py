"""Additive models: a score for each bin of each column, how they predict, and their words.

Functions take arrays of NumPy or of JAX alike, as in `learners.hypotheses`.
"""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.common.arithmetic import Array, fold, namespace
from dpbt.common.public import MAX_BINS, Splits
from dpbt.learners.graph import Graph, Value

Nodes = tuple[Value, Value | None]
"""The score of each row in an ONNX graph, and its mean share where hypotheses state shares."""


def heading(target: Any, several: bool, parts: str) -> tuple[str, float]:
    """What the parts of a model add up to, in words, and the width of a number's range or 1."""
    if several:
        words = (
            f"scores of a row: for each class the sum of what the {parts} add; the class of the "
        )
        return f"{words}largest is predicted", 1.0
    if target is not None:
        words = f"number of a row: the sum of what the {parts} add, clipped to "
        return f"{words}{target.low:g}..{target.high:g}", target.high - target.low
    return f"score of a row: the sum of what the {parts} add; positive above 0", 1.0


def indented(lines: list[str]) -> list[str]:
    """Lines two columns further in."""
    return [f"  {line}" for line in lines]


class Shapes(NamedTuple):
    """A curve for each column.

    Attributes:
        score: f32[F, C], or f32[K, F, C] with several classes: what each bin adds to the score.
            Bins beyond C add what the last one adds.
        noise: f32[], about the deviation of the noise that privacy adds to the score of a bin. It
            is that of the draws alone, and mostly an upper bound, since later rounds learn from
            what earlier noise did. Between rounds it is f32[T], by the round of the draw.
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
    widest = int(np.max(splits.high)) + 1
    fits = score.shape[:-1] == (*count, *axes, width) and shapes.noise.shape == count
    if not fits or not widest <= score.shape[-1] <= MAX_BINS or np.any(shapes.noise < 0):
        raise ValueError("score must have a number for each bin of each column and class")


def curves(shapes: Shapes) -> tuple[np.ndarray, float]:
    """The curves of all rounds together, f64[F, C] or f64[K, F, C], and the noise of a bin."""
    score, noise = (np.asarray(array, np.float64) for array in shapes)
    return score.sum(axis=0), float(np.sqrt(np.sum(noise**2)))


def explain_shapes(
    shapes: Shapes, _: Splits, domain: Mapping[str, Any], target: Any, classes: Sequence | None
) -> str:
    """The curve of each column, from the one that moves scores most; equal bins are joined."""
    several = shapes.score.ndim == 4
    head, factor = heading(target, several, "columns")
    names = [f" [{word}]" for word in classes or target.values] if several else [""]
    score, noise = curves(shapes)
    score, noise = score.reshape(-1, *score.shape[-2:]) * factor, noise * factor
    # Two digits of the noise, or without noise three of the numbers.
    unit = noise or float(np.ptp(score)) / 10 or 1.0
    digits = min(max(1 - math.floor(math.log10(unit)), 0), 9)
    words = f"the noise of privacy moves it by about {noise:.{digits}f}"
    lines = [head, f"of each column the first entry that holds counts; {words}"]

    columns, half = list(domain.items()), False
    indent = min(max(len(name) for name in domain) + max(map(len, names)), 24) + 2
    spread = [np.ptp(score[:, k, : column.n_bins]) for k, (_, column) in enumerate(columns)]
    for number in np.argsort(spread, kind="stable")[::-1]:
        name, column = columns[number]
        for of_class, curve in zip(names, score[:, number], strict=True):
            block = textwrap.wrap(
                ", ".join(_entries(column, curve, digits)),
                98,
                initial_indent=f"{name}{of_class}".ljust(indent - 2) + "  ",
                subsequent_indent=" " * indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            short = len(block) == 1 and len(block[0]) < 49
            if short and half:  # the last line has room for it
                lines[-1] = lines[-1].ljust(50) + block[0]
            else:
                lines += block
            half = short and not half
    return "\n".join(lines).replace("\0", " ")


def _entries(column: Any, curve: np.ndarray, digits: int) -> list[str]:
    """What the bins of a column add; values without an order fall, and no entry has a space."""
    values = [f"{round(value, digits) + 0.0:+.{digits}f}" for value in curve[: column.n_bins]]
    bins = range(column.n_bins)
    if not getattr(column, "ordered", True):
        bins = sorted(bins, key=lambda bin: -float(values[bin]))
    runs = itertools.groupby(bins, key=values.__getitem__)
    return [f"{column.held([*run])}: {value}".replace(" ", "\0") for value, run in runs]


def nodes_of_shapes(graph: Graph, shapes: Shapes, rows: Value, *_: Any) -> Nodes:
    """The scores of all columns are one table, in which each column has a place of its own."""
    score: Any = np.sum(shapes.score, axis=0, dtype=np.float64).astype(np.float32)
    columns, bins = score.shape[-2:]
    table = np.moveaxis(score, (-2, -1), (0, 1)).reshape(columns * bins, *score.shape[:-2])
    first = bins * np.arange(columns, dtype=np.int64)[None]
    place = graph.add("Min", rows.cast("INT64"), np.int64(bins - 1)) + first
    return graph.constant(table).at(place).sum(), None
