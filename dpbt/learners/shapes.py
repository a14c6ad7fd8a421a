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
from dpbt.data.kinds import Boolean, Column, Nominal, Numeric
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


def curves(shapes: Shapes) -> tuple[np.ndarray, float]:
    """The curves of all rounds together, f64[F, C] or f64[K, F, C], and the noise of a bin."""
    score, noise = (np.asarray(array, np.float64) for array in shapes)
    return score.sum(axis=0), float(np.sqrt(np.sum(noise**2)))


def _curve_words(column: Column, values: list[str]) -> list[str]:
    """What each bin adds, equal ones joined; values without an order are sorted by it."""
    if isinstance(column, Numeric):
        runs = [[*run] for _, run in itertools.groupby(range(column.bins), key=values.__getitem__)]
        digits = 4 if column.cuts is None else 15
        ends = [f"{float(f'{end:.{digits}g}'):.15g}" for end in column.thresholds]
        words = [f"<= {ends[run[-1]]}" for run in runs[:-1]]
        words.append(f"> {ends[runs[-1][0] - 1]}" if words else "any number")
        runs += [[column.bins]] * column.missing
        said = [
            ([word], values[run[0]]) for word, run in zip([*words, "missing"], runs, strict=False)
        ]
    else:
        boolean = isinstance(column, Boolean)
        named = (
            [column.false, column.true, "missing"] if boolean else [*column.values, "not listed"]
        )
        pairs = list(zip(map(str, named), values, strict=False))
        if not (boolean or column.ordered):
            pairs.sort(key=lambda pair: -float(pair[1]))
        by_value = itertools.groupby(pairs, key=lambda pair: pair[1])
        said = [([word for word, _ in group], value) for value, group in by_value]
    return [f"{' or '.join(words)}: {value}" for words, value in said]


def explain_shapes(
    shapes: Shapes, _: Splits, domain: Mapping[str, Column], target: Any, classes: Sequence | None
) -> str:
    """The curve of each column, from the one that moves scores most."""
    head, factor = SCORES.replace("trees add", "columns add"), 1.0
    if isinstance(target, Nominal):
        head = "scores of a row: for each class the sum of what the columns add; the class of the "
        head += "largest is predicted"
    if isinstance(target, Numeric):
        head = "number of a row: the sum of what the columns add, clipped to "
        head += f"{target.low:g}..{target.high:g}"
        factor = target.high - target.low
    score, noise = curves(shapes)
    score, noise = score.reshape(-1, *score.shape[-2:]) * factor, noise * factor
    # Two digits of the noise, or without noise three of the numbers.
    unit = noise or float(np.ptp(score)) / 10 or 1.0
    digits = min(max(1 - math.floor(math.log10(unit)), 0), 9)
    said = f"the noise of privacy moves it by about {noise:.{digits}f}"
    lines = [head, f"of each column the first entry that holds counts; {said}"]

    columns, names = list(domain.items()), [""]
    if isinstance(target, Nominal):
        names = [f" [{word}]" for word in classes or target.values]
    indent = min(max(len(name) for name, _ in columns) + max(map(len, names)), 24) + 2
    spread = [np.ptp(score[:, k, : column.n_bins]) for k, (_, column) in enumerate(columns)]
    half = False  # whether the last line has room for one more
    for number in np.argsort(spread, kind="stable")[::-1]:
        name, column = columns[number]
        for of_class, curve in zip(names, score[:, number], strict=True):
            values = [f"{round(v, digits) + 0.0:+.{digits}f}" for v in curve[: column.n_bins]]
            said = [words.replace(" ", "\0") for words in _curve_words(column, values)]
            first = f"{name}{of_class}".ljust(indent - 2) + "  "
            block = textwrap.wrap(
                ", ".join(said),
                98,
                initial_indent=first,
                subsequent_indent=" " * indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            short = len(block) == 1 and len(block[0]) < 49
            if short and half:
                lines[-1] = lines[-1].ljust(50) + block[0]
            else:
                lines += block
            half = short and not half
    return "\n".join(lines).replace("\0", " ")


def nodes_of_shapes(graph: Graph, shapes: Shapes, rows: Value, *_: Any) -> Nodes:
    """The scores of all columns are one table, in which each column has a place of its own."""
    score = np.sum(shapes.score, axis=0, dtype=np.float64).astype(np.float32)
    columns, bins = score.shape[-2:]
    table = np.moveaxis(score, (-2, -1), (0, 1)).reshape(columns * bins, *score.shape[:-2])
    first = bins * np.arange(columns, dtype=np.int64)[None]
    place = graph.add("Min", rows.cast("INT64"), np.int64(bins - 1)) + first
    return graph.constant(table).at(place).sum(), None
