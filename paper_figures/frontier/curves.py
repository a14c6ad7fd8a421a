"""AUROC and test error by epsilon, one figure for each data set.

Both axes are logarithmic in the distance from perfection, because good methods differ little there.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from experiments.common import ranks, results
from paper_figures.frontier.methods import (
    LEVELS,
    STYLES,
    WORDS,
    curve,
    epsilon_axis,
    guarantee,
    legend,
    lines_of,
)

Line = results.Line

LEAST = 5e-4
"""The least distance from perfection that is told apart."""

MEASURES = ("AUROC", "test error")
TICKS = (0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""The distances from perfection that have a tick, where there is room."""

ROOM = 0.05
"""The least part of an axis between two ticks."""

MOST = 0.6
"""The largest distance that is shown."""


def draw(saved: Path | None = None) -> dict[str, Figure]:
    """A figure for each data set, by its name.

    Raises:
        InputError: if nothing has been saved.
    """
    lines = lines_of(saved)
    names = list(dict.fromkeys(line["dataset"] for line in lines))
    return {name: figure([line for line in lines if line["dataset"] == name]) for name in names}


def figure(lines: list[Line]) -> Figure:
    """The panels of one data set: a column for each delta, a row for each measure."""
    deltas = sorted({line["delta"] for line in lines if line["delta"] is not None})
    drawn, panels = plt.subplots(
        len(MEASURES),
        len(deltas),
        figsize=(4.4 * len(deltas), 6.4),
        sharex=True,
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for column, delta in zip(panels.T, deltas, strict=True):
        for panel, measure in zip(column, MEASURES, strict=True):
            _panel(panel, lines, delta, measure)
        column[0].set_title(guarantee(delta), fontsize=10)
        column[0].set_xlabel("")
    for row, measure in zip(panels, MEASURES, strict=True):
        _distances(row[0], lines, measure)

    legend(drawn, [*STYLES, *WORDS.values()])
    first = lines[0]
    splits = "/".join(map(str, sorted({line["splits"] for line in lines})))
    words = f"{first['dataset']}: {first['rows']} training rows at most, mean of {splits} splits"
    drawn.suptitle(words, fontsize=10)
    return drawn


def _panel(panel: Axes, lines: list[Line], delta: float, measure: str) -> None:
    here = ranks.taking_part(lines, delta)
    for method in STYLES:
        own = sorted((at for at in here if at["method"] == method), key=lambda at: at["epsilon"])
        if own:
            curve(
                panel, [at["epsilon"] for at in own], [_distance(at, measure) for at in own], method
            )
    for line in lines:
        if line["method"] in LEVELS:
            words, style = WORDS[line["method"]], LEVELS[line["method"]]
            panel.axhline(_distance(line, measure), label=words, zorder=1, **style)
    epsilon_axis(panel)


def _distance(line: Line, measure: str) -> float:
    """How far a line is from perfection."""
    value = line["auroc_mean"] if measure == "AUROC" else line["accuracy_mean"]
    return max(1 - value, LEAST)


def _distances(panel: Axes, lines: list[Line], measure: str) -> None:
    """Make the axis logarithmic, with ticks in the measure's own numbers; AUROC grows upwards."""
    least = min(_distance(line, measure) for line in lines)
    low, high = 0.8 * least, min(MOST, 1.1 * max(_distance(line, measure) for line in lines))
    ticks: list[float] = []
    for tick in TICKS:
        apart = math.log((ticks or [math.inf])[-1] / tick) > ROOM * math.log(high / low)
        if low <= tick <= high and apart:
            ticks.append(tick)
    names = [f"{1 - tick:g}" if measure == "AUROC" else f"{tick:g}" for tick in ticks]
    panel.set(yscale="log", ylabel=measure, ylim=(high, low) if measure == "AUROC" else (low, high))
    panel.set_yticks(ticks, names)
    panel.yaxis.set_minor_locator(NullLocator())
