"""Additive models: a score for each bin of each column.

This module has how they predict, their arrays, words and graphs. Functions take arrays of NumPy or
of JAX alike, and nothing here imports JAX.
"""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from dpbt.common.arithmetic import array_namespace, fold
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.graph import Graph, GraphOutputs, Value
from dpbt.learners.model_parts import model_heading_and_score_scale
from dpbt.public_types import MAX_BINS, AnyArray, Splits


class ShapeFunctions(NamedTuple):
    """A curve for each column, and a table of cells for each declared pair of columns.

    By default there are no pairs.

    Attributes:
        score: f32[F + P, C], or f32[K, F + P, C] with several classes: what each bin of a column
            adds to the score, and then what each cell of a pair adds. Bins beyond C add what the
            last one adds.
        noise: f32[], about the deviation of the noise that privacy adds to the score of a bin. It
            is that of the draws alone, and mostly an upper bound, since later rounds learn from
            what earlier noise did. Between rounds it is f32[T], by the round of the draw.
        pairs: i32[P, 2]: the two columns of each pair.
        parts: u8[P, 2, MAX_BINS]: for each bin of both columns a part of the number of the cell,
            which is the sum of the two.
    """

    score: AnyArray
    noise: AnyArray
    pairs: AnyArray = np.zeros((1, 0, 2), np.int32)
    parts: AnyArray = np.zeros((1, 0, 2, MAX_BINS), np.uint8)


def cells_of_rows_in_pairs(
    pairs: Any, cell_index_terms: Any, bins_of_rows: Any
) -> UInt8[Any, "P N"]:
    """u8[P, N]: the cell that each row u8[F, N] of bins is in, for each pair of columns."""
    xp = array_namespace(pairs, cell_index_terms, bins_of_rows)
    cell_parts = [
        xp.take_along_axis(
            cell_index_terms[:, side], bins_of_rows[pairs[:, side]].astype(np.int32), axis=1
        )
        for side in (0, 1)
    ]
    return cell_parts[0] + cell_parts[1]


def predict_shapes(shapes: ShapeFunctions, bins_of_rows: Any) -> Any:
    """f32[N], or f32[K, N] with several classes: the score of each row, summed over curves."""
    xp = array_namespace(bins_of_rows, *shapes)
    score = shapes.score

    def add(total: Any, column: tuple[Any, Any]) -> Any:
        curve, bin = column
        return total + curve[..., xp.minimum(bin, score.shape[-1] - 1).astype(np.int32)]

    start = xp.zeros((*score.shape[:-2], bins_of_rows.shape[1]), np.float32)
    curves = xp.moveaxis(score, -2, 0)
    num_columns = bins_of_rows.shape[0]
    total = fold(add, start, (curves[:num_columns], bins_of_rows))
    if not shapes.pairs.shape[0]:
        return total
    return fold(
        add,
        total,
        (curves[num_columns:], cells_of_rows_in_pairs(shapes.pairs, shapes.parts, bins_of_rows)),
    )


def check_shapes(
    shapes: ShapeFunctions, num_features: int, splits: Splits | None, score_axes: tuple[int, ...]
) -> None:
    """Refuse curves whose shapes or indices do not fit the rows, the classes or each other.

    Raises:
        ValueError: saying so.
    """
    if splits is None:
        raise ValueError("additive models must read bins")
    score = shapes.score
    rounds_axis = shapes.score.shape[:1]
    pairs_axis = shapes.parts.shape[1:2]
    most_bins = int(np.max(splits.high)) + 1
    fits = shapes.noise.shape == rounds_axis
    fits &= shapes.pairs.shape == (*rounds_axis, *pairs_axis, 2)
    fits &= score.shape[:-1] == (*rounds_axis, *score_axes, num_features + sum(pairs_axis))
    fits &= shapes.parts.shape == (*rounds_axis, *pairs_axis, 2, MAX_BINS)
    if not fits or not most_bins <= score.shape[-1] <= MAX_BINS or np.any(shapes.noise < 0):
        raise ValueError("score must have a number for each bin of each column, pair and class")
    cell = np.sum(shapes.parts.max(axis=-1), axis=-1, dtype=int)
    if np.any((shapes.pairs < 0) | (shapes.pairs >= num_features)) or np.any(
        cell >= score.shape[-1]
    ):
        raise ValueError(
            f"pairs must hold indices of {num_features} columns, and parts those of "
            f"{score.shape[-1]} cells"
        )
    alike = all(np.array_equal(each, each[:1].repeat(len(each), 0)) for each in shapes[2:])
    if not alike or any(len({tuple(pair) for pair in each}) < len(each) for each in shapes.pairs):
        raise ValueError("all rounds must have the same pairs, each once")


class ShapesByColumn(NamedTuple):
    """The curves of a model by the names of their columns.

    Attributes:
        functions: by the name of a column, what each of its bins adds, f64[bins]; by the two names
            of a pair, what each two bins add, f64[bins, bins]. With several classes these have an
            axis of classes before them.
        noise: the deviation of the noise that privacy adds to one of these numbers.
    """

    functions: dict[tuple[str, ...], np.ndarray]
    noise: float


def shape_functions_by_column(shapes: ShapeFunctions, domain: Mapping[str, Any]) -> ShapesByColumn:
    """Curves and pair tables of a model by the names of their columns, and their noise.

    They are summed over rounds.
    """
    score, noise = (np.asarray(array, np.float64) for array in shapes[:2])
    score, names, bins = score.sum(axis=0), [*domain], [each.n_bins for each in domain.values()]
    functions: dict[tuple[str, ...], np.ndarray] = {}
    functions |= {(name,): score[..., k, : bins[k]] for k, name in enumerate(names)}
    for k, ((one, two), part) in enumerate(zip(shapes.pairs[0], shapes.parts[0], strict=True)):
        cell = part[0, : bins[one], None] + part[1, None, : bins[two]]
        functions[names[one], names[two]] = score[..., len(names) + k, cell]
    return ShapesByColumn(functions, float(np.sqrt(np.sum(noise**2))))


def describe_shapes(
    shapes: ShapeFunctions,
    _: Splits,
    domain: Mapping[str, Any],
    target: Any,
    classes: Sequence | None,
) -> str:
    """A text of what each bin of each column and pair adds to the score.

    The column or pair that adds most is first.

    A pair has a line of the second column for bins of the first one.
    """
    has_several_classes = shapes.score.ndim == 4
    heading, score_scale = model_heading_and_score_scale(target, has_several_classes, "columns")
    class_suffixes = [""]
    if has_several_classes:
        class_suffixes = [f" [{word}]" for word in classes or target.values]
    by_name, noise = shape_functions_by_column(shapes, domain)
    by_name = {names: values * score_scale for names, values in by_name.items()}
    noise = noise * score_scale
    digits = _digits_of_values(by_name, noise)
    noise_text = f"the noise of privacy moves it by about {noise:.{digits}f}"
    label_length = max(len(name) for name in domain) + max(map(len, class_suffixes))
    layout = _ValueLayout(indent=min(label_length, 24) + 2, digits=digits)

    lines, has_room = (
        [heading, f"of each column the first entry that holds counts; {noise_text}"],
        False,
    )
    for (*first, last), values in sorted(by_name.items(), key=lambda each: -np.ptp(each[1])):
        axes = values.shape[values.ndim - 1 - len(first) :]
        for suffix, curve in zip(class_suffixes, values.reshape(-1, *axes), strict=True):
            if first:
                lines.append(f"{first[0]} and {last}{suffix}")
                lines += layout.pair_lines(domain[first[0]], domain[last], curve)
                has_room = False
                continue
            block = layout.curve_lines(f"{last}{suffix}", domain[last], curve)
            is_short = len(block) == 1 and len(block[0]) < 49
            if is_short and has_room:
                lines[-1] = lines[-1].ljust(50) + block[0]
            else:
                lines += block
            has_room = is_short and not has_room
    return "\n".join(lines).replace("\0", " ")


def _digits_of_values(by_name: Mapping[tuple[str, ...], np.ndarray], noise: float) -> int:
    """The number of decimals with which the values of curves are shown.

    They show two digits of the noise, or without noise three of the values.
    """
    unit = noise or max(float(np.ptp(values)) for values in by_name.values()) / 10 or 1.0
    return min(max(1 - math.floor(math.log10(unit)), 0), 9)


class _ValueLayout(NamedTuple):
    """How the values of curves are laid out as lines of a text.

    Attributes:
        indent: how many characters are left of the values.
        digits: the decimals of a value.
    """

    indent: int
    digits: int

    def curve_lines(self, label: str, column: Any, curve: np.ndarray) -> list[str]:
        """Wrapped lines of the values of one curve, with a label on the left of the first line."""
        return textwrap.wrap(
            ", ".join(_value_text_of_bin_runs(column, curve, self.digits)),
            98,
            initial_indent=label.ljust(self.indent - 2) + "  ",
            subsequent_indent=" " * self.indent,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def pair_lines(self, first: Any, second: Any, table: np.ndarray) -> list[str]:
        """Lines of the values of a pair: a curve of the second column for bins of the first one."""
        lines: list[str] = []
        row_values = [*map(tuple, table)].__getitem__
        for bins in (list(run) for _, run in itertools.groupby(range(len(table)), row_values)):
            lines += self.curve_lines(f"  {first.describe_bins(bins)}", second, table[bins[0]])
        return lines


def _value_text_of_bin_runs(column: Any, curve: np.ndarray, digits: int) -> list[str]:
    """Texts "bins: value" of one curve, where bins that add the same share a text.

    Bins in order have a text for each run of equal values; unordered bins are sorted by falling
    value.

    Spaces in a text are NUL, so that lines do not break there.
    """
    values = [f"{round(value, digits) + 0.0:+.{digits}f}" for value in curve[: column.n_bins]]
    bins = range(column.n_bins)
    if not getattr(column, "ordered", True):
        bins = sorted(bins, key=lambda bin: -float(values[bin]))
    runs = itertools.groupby(bins, key=values.__getitem__)
    return [f"{column.describe_bins([*run])}: {value}".replace(" ", "\0") for value, run in runs]


def add_shapes_to_graph(graph: Graph, shapes: ShapeFunctions, rows: Value, *_: Any) -> GraphOutputs:
    """Add the summed scores of curves and pair tables to an ONNX graph.

    The scores of all columns and pairs are one table, in which each has a place of its own.
    """
    score: Any = np.sum(shapes.score, axis=0, dtype=np.float64).astype(np.float32)
    (columns, bins), pairs = score.shape[-2:], shapes.pairs[0]
    table = np.moveaxis(score, (-2, -1), (0, 1)).reshape(columns * bins, *score.shape[:-2])
    first = bins * np.arange(columns, dtype=np.int64)[None]
    place = graph.add_node("Min", rows.cast("INT64"), np.int64(bins - 1))
    if len(pairs):
        parts = shapes.parts[0].reshape(-1, MAX_BINS).astype(np.int64)
        parts_of_rows = graph.look_up_entries_of_bins(rows, pairs.reshape(-1), parts)
        cells = graph.add_node(
            "Reshape", parts_of_rows, np.array([-1, len(pairs), 2], np.int64)
        ).sum(axis=2)
        place = graph.add_node("Concat", place, cells, axis=1)
    place = place + first
    return GraphOutputs(graph.add_constant(table).gather(place).sum())


def _curve_values(hypotheses: Any) -> Any:
    """The numbers that curves add to scores."""
    return hypotheses.score


SHAPES = HypothesisKind(
    name="shapes",
    predict=predict_shapes,
    read_rows=lambda rows: rows.bins.T,
    arrays=(("score", "float32"), ("pairs", "int32"), ("parts", "uint8"), ("noise", "float32")),
    make=ShapeFunctions,
    check_arrays=check_shapes,
    describe=describe_shapes,
    add_to_graph=add_shapes_to_graph,
    added_numbers=_curve_values,
)
"""Additive models over the bins of a domain: one curve a column, and declared pairs."""
