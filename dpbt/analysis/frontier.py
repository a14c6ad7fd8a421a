"""Accuracy or AUROC of private methods by epsilon, from saved lines of results.

Both axes are logarithmic. That of the measure is logarithmic in the distance from perfection,
because good methods differ little there.
"""

from __future__ import annotations  # the types of matplotlib are only named

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpbt.analysis.style import finish, line_styles, panel
from dpbt.validate import one_of, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = {"auroc": "AUROC", "accuracy": "test error"}
"""Measure -> the label of its axis."""

LEAST = 5e-4
"""The least distance from perfection that is told apart."""

_TICKS = (0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""The distances from perfection that have a tick, where there is room."""

_ROOM = 0.05
"""The least part of an axis between two ticks."""

_LEVEL_DASHES = ("--", ":", "-.")

Line = Mapping[str, Any]


def frontier(
    results: Sequence[Line],
    *,
    measure: str = "auroc",
    dataset: str | None = None,
    delta: float | None = None,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a measure against epsilon, a line for each method.

    Test scores of private rows are not private, and no ledger covers them. So results should be of
    public rows, or stay with the owner.

    Args:
        results: lines with `method`, `epsilon`, `delta`, and `auroc_mean` or `accuracy_mean`, as
            `python -m experiments frontier` saves them. Cells may be text, as `csv.DictReader`
            reads them. A line without an epsilon is of a method without privacy, and is drawn as a
            level.
        measure: "auroc", or "accuracy", of which the test error is shown.
        dataset: draw only lines of this `dataset`.
        delta: draw only lines of this delta. A pure guarantee holds at every delta, so methods that
            have only pure lines are drawn by these.
        styles: method -> properties of its line, such as its label, in the order of the legend.
        legend: whether to draw a legend.
        ax: the panel; a new figure by default.

    Raises:
        ValueError: for another measure, and where no line is left. Also for a line that lacks a
            column or holds no number there, and for two lines of one method at one epsilon.
        ImportError: without matplotlib.
    """
    one_of("measure", measure, tuple(MEASURES))
    chosen = curves(results, measure=measure, dataset=dataset, delta=delta)
    ax = panel(ax, (7.0, 4.0))
    given, spare, dashes = styles or {}, line_styles(), itertools.cycle(_LEVEL_DASHES)
    order = [method for method in given if method in chosen]
    for method in [*order, *(method for method in chosen if method not in given)]:
        points = chosen[method]
        if None in points:
            usual = {"color": "0.3", "linestyle": next(dashes), "linewidth": 1.1, "zorder": 1}
            own = {"label": method, **(given.get(method) or {})}
            ax.axhline(points[None], **{**usual, **own})
            continue
        own = given.get(method) or next(spare)
        curve(ax, list(points), list(points.values()), **{"label": method, **own})
    epsilon_axis(ax, [at for points in chosen.values() for at in points if at is not None])
    distance_axis(ax, [at for points in chosen.values() for at in points.values()], measure)
    if legend:
        ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def curves(
    results: Sequence[Line],
    *,
    measure: str = "auroc",
    dataset: str | None = None,
    delta: float | None = None,
) -> dict[str, dict[float | None, float]]:
    """Method -> epsilon -> distance from perfection, as `frontier` draws them.

    Epsilons ascend, and None stands for that of a method without privacy. Distances are at least
    5e-4.

    Raises:
        ValueError: as `frontier`.
    """
    read = [_read(line, measure) for line in results if dataset in (None, line.get("dataset"))]
    public = [line for line in read if line["epsilon"] is None]
    private = taking_part(read, delta) if delta is not None else read
    found: dict[str, dict[float | None, float]] = {}
    for line in [*(line for line in private if line["epsilon"] is not None), *public]:
        points = found.setdefault(line["method"], {})
        if line["epsilon"] in points:
            raise ValueError(
                f"two lines of {line['method']} at epsilon = {line['epsilon']}: choose a dataset "
                "and a delta"
            )
        points[line["epsilon"]] = max(1 - line["value"], LEAST)
    if not found:
        raise ValueError("no line of results is left to draw")
    for method, points in found.items():
        if None not in points:
            found[method] = dict(sorted(points.items(), key=lambda point: point[0] or 0.0))
    return found


def _read(line: Line, measure: str) -> dict[str, Any]:
    """What is drawn of a line, with numbers as numbers.

    Raises:
        ValueError: naming the column that is missing or holds no number.
    """
    read: dict[str, Any] = {}
    for name in ("method", "epsilon", "delta", f"{measure}_mean"):
        if name not in line:
            raise ValueError(f"a line of results lacks the column {name!r}, it has {list(line)}")
        cell = line[name]
        try:
            read[name] = cell if name == "method" else None if cell in (None, "") else float(cell)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a number, got {shown(cell)}") from None
    read["value"] = read.pop(f"{measure}_mean")
    if read["value"] is None or not 0 <= read["value"] <= 1:
        raise ValueError(f"{measure}_mean must be in [0, 1], got {shown(read['value'])}")
    if read["epsilon"] is not None and not 0 < read["epsilon"] < math.inf:
        raise ValueError(f"epsilon must be a number above 0, got {shown(read['epsilon'])}")
    return read


def taking_part(lines: Sequence[Line], delta: float) -> list[Any]:
    """The private lines that hold at a delta: its own, and those of methods that are pure alone.

    A pure guarantee is one at every delta.

    Args:
        lines: with columns method, epsilon and delta.
        delta: of the guarantee.
    """
    own = pure_alone(lines)
    return [
        line
        for line in lines
        if line["epsilon"] is not None and line["delta"] == (0 if line["method"] in own else delta)
    ]


def pure_alone(lines: Sequence[Line]) -> set[str]:
    """Methods that were measured at delta = 0 and at no other."""
    private = [line for line in lines if line["epsilon"] is not None]
    approximate = {line["method"] for line in private if line["delta"] > 0}
    return {line["method"] for line in private} - approximate


def curve(ax: Axes, x: Sequence[Any], y: Sequence[float], **style: Any) -> None:
    """Draw the line of a private method."""
    usual = {"linewidth": 1.2, "markersize": 5, "markeredgecolor": "white", "markeredgewidth": 0.4}
    ax.plot(x, y, **{**usual, **style})


def epsilon_axis(ax: Axes, epsilons: Sequence[float]) -> None:
    """Make the horizontal axis logarithmic, with epsilons as ticks where there is room."""
    finish(ax, xscale="log", xlabel="epsilon")
    ticks = sorted(set(epsilons))
    if ticks:
        kept = _apart(ticks, ticks[0], ticks[-1])
        ax.set_xticks(kept, [f"{tick:g}" for tick in kept])
    ax.minorticks_off()


def distance_axis(ax: Axes, distances: Sequence[float], measure: str, most: float = 1.0) -> None:
    """Make the vertical axis logarithmic, with ticks in the measure's own numbers.

    Args:
        ax: the panel.
        distances: from perfection, which are to be seen.
        measure: "auroc", which grows upwards, or "accuracy".
        most: the largest distance that is shown.
    """
    from matplotlib.ticker import NullLocator

    low, high = 0.8 * min(distances), min(most, 1.1 * max(distances))
    ticks = _apart([tick for tick in _TICKS if low <= tick <= high], low, high)
    upwards = measure == "auroc"
    ax.set(yscale="log", ylabel=MEASURES[measure], ylim=(high, low) if upwards else (low, high))
    ax.set_yticks(ticks, [f"{1 - tick:g}" if upwards else f"{tick:g}" for tick in ticks])
    ax.yaxis.set_minor_locator(NullLocator())


def _apart(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """The ticks that have room on a logarithmic axis, from the first on."""
    kept: list[float] = []
    for tick in ticks:
        if not kept or abs(math.log(kept[-1] / tick)) > _ROOM * math.log(high / low):
            kept.append(tick)
    return kept
