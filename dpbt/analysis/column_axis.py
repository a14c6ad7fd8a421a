"""An axis of a picture for a column of a domain: real cut points, words, and the missing cell."""

from __future__ import annotations  # the types of matplotlib are only named

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpbt.data.kinds import Boolean, Column, Nominal, Numeric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GAP, _SPAN = 0.06, 0.08
"""The parts of a numeric axis between its range and its missing cell, and of that cell."""


_SCALES: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "linear": (float, float),
    "log": (math.log, math.exp),
    "log1p": (math.log1p, math.expm1),
}
"""Scale -> the number to a place on the axis, and back."""


class ColumnAxis(NamedTuple):
    """Where the cells of a column lie on an axis.

    Attributes:
        edges: f64[ordinary cells + 1]: the ends of the ordinary cells, which touch each other. For
            a numeric column they are its range and its thresholds.
        apart: the ends of the cell of missing or unlisted values; None if there is none.
        words: the names of the ordinary cells; None for a numeric column.
        apart_word: what the cell apart holds.
        scale: "linear", "log" or "log1p", a logarithm of 1 + x.
    """

    edges: np.ndarray
    apart: tuple[float, float] | None
    words: tuple[str, ...] | None
    apart_word: str
    scale: str

    @property
    def middles(self) -> np.ndarray:
        """f64[cells]: the middles of all cells; the cell apart is the last."""
        inside = (self.edges[1:] + self.edges[:-1]) / 2
        return inside if self.apart is None else np.append(inside, self._middle_apart)

    @property
    def _middle_apart(self) -> float:
        assert self.apart is not None
        low, high = (self._forward(end) for end in self.apart)
        return self._backward((low + high) / 2)

    def _forward(self, x: float) -> float:
        return _SCALES[self.scale][0](x)

    def _backward(self, x: float) -> float:
        return _SCALES[self.scale][1](x)

    def limits(self, margin: float) -> tuple[float, float]:
        """The ends of the axis, with a margin at both."""
        last = float(self.edges[-1]) if self.apart is None else self.apart[1]
        low, high = self._forward(float(self.edges[0])), self._forward(last)
        free = margin * (high - low)
        return self._backward(low - free), self._backward(high + free)

    @property
    def ticks(self) -> dict[float, str]:
        """Place of each tick -> its words."""
        low, high = float(self.edges[0]), float(self.edges[-1])
        if self.words is not None:
            found = dict(zip(self.middles.tolist(), self.words, strict=False))
        else:
            words = "{:g}".format if self.scale == "linear" else _tick_words
            found = {at: words(at) for at in _tick_places(self.scale, low, high)}
        return found if self.apart is None else found | {self._middle_apart: self.apart_word}


def axis_of(column: Column) -> ColumnAxis:
    """The axis of a column."""
    match column:
        case Numeric():
            edges = np.array([column.low, *column.thresholds, column.high], np.float64)
            scale = column.scale
            if scale == "log" and column.low == 0:
                scale = "log1p"
            axis = ColumnAxis(edges, None, None, "missing", scale)
            return axis._replace(apart=_beyond(axis)) if column.missing else axis
        case Nominal():
            words, unlisted = column.names, column.other is None
            apart = (len(words) + 0.0, len(words) + 1.0) if unlisted else None
            return ColumnAxis(_places(len(words)), apart, words, "not listed", "linear")
        case Boolean():
            words = (column.false, column.true)
            apart = (2.0, 3.0) if column.missing else None
            return ColumnAxis(_places(2), apart, words, "missing", "linear")


def _places(count: int) -> np.ndarray:
    """The ends of cells around 0, 1, 2, ..."""
    return np.arange(count + 1) - 0.5


def _beyond(axis: ColumnAxis) -> tuple[float, float]:
    """A cell beyond the end of a numeric range, apart from it."""
    low, high = axis._forward(axis.edges[0]), axis._forward(axis.edges[-1])
    start = high + _GAP * (high - low)
    return axis._backward(start), axis._backward(start + _SPAN * (high - low))


def _tick_places(scale: str, low: float, high: float) -> list[float]:
    """Round numbers in [low, high], or powers of ten; the two ends where there are too few."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if scale == "linear" or (low == 0 and high <= 10):
        found: Any = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(low, high)
    else:
        powers: Any = LogLocator(numticks=8).tick_values(low or 1, high)
        found = [*([0.0] if low == 0 else []), *powers[powers >= (low or 1)]]
    inside = [float(f"{at:.12g}") for at in found if low <= at <= high]
    return inside if len(inside) > 1 else [low, high]


def _tick_words(number: float) -> str:
    """A number; a power of ten of four zeros or more as a power."""
    exponent = math.log10(number) if number > 0 else 0.0
    power = abs(exponent) > 3 and abs(exponent - round(exponent)) < 1e-9
    return f"$10^{{{round(exponent)}}}$" if power else f"{number:g}"


def draw_axis(
    ax: Axes, axis: ColumnAxis, name: str, which: str = "x", margin: float = 0.03
) -> None:
    """Give a panel the scale, the limits, the ticks and the label of a column.

    Args:
        ax: the panel.
        axis: of the column.
        name: of the column.
        which: "x" or "y".
        margin: what is left free at both ends, as a part of the axis.
    """
    own = ax.xaxis if which == "x" else ax.yaxis
    set_scale = ax.set_xscale if which == "x" else ax.set_yscale
    if axis.scale == "log":
        set_scale("log")
    elif axis.scale == "log1p":
        set_scale("function", functions=(_log1p, np.expm1))
    set_limits = ax.set_xlim if which == "x" else ax.set_ylim
    set_limits(*axis.limits(margin))
    places, words = list(axis.ticks), list(axis.ticks.values())
    own.set_ticks(places, words)
    ax.minorticks_off()
    long = which == "x" and sum(len(word) + 2 for word in words) > 60
    if long:
        own.set_tick_params(rotation=90)
    own.set_label_text(name)


def _log1p(x: np.ndarray) -> np.ndarray:
    """The logarithm of 1 + x; matplotlib also asks for margins below -1."""
    return np.log1p(np.maximum(x, -1 + 1e-9))
