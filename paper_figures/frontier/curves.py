"""AUROC and test error by epsilon, one figure for each data set.

Both axes are logarithmic in the distance from perfection, because good methods differ little there.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpbt.analysis import frontier
from dpbt.analysis.frontier import MEASURES, distance_axis
from experiments.common import results
from paper_figures.frontier.methods import (
    LEVELS,
    STYLES,
    WORDS,
    guarantee,
    legend,
    lines_of,
)

Line = results.Line

MOST = 0.6
"""The largest distance that is shown."""


_DRAWN = {**STYLES, **{name: {**LEVELS[name], "label": WORDS.get(name, name)} for name in LEVELS}}
"""Method -> properties of its line; others are not drawn."""


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
    lines = [line for line in lines if line["method"] in _DRAWN]
    deltas = _deltas(lines)
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
    for row, measure in zip(panels, MEASURES, strict=True):
        _distances(row[0], lines, measure)
    for panel in panels.flat:
        panel.label_outer()

    legend(drawn, [*STYLES, *WORDS.values()])
    first = lines[0]
    splits = "/".join(map(str, sorted({line["splits"] for line in lines})))
    words = f"{first['dataset']}: {first['rows']} training rows at most, mean of {splits} splits"
    drawn.suptitle(words, fontsize=10)
    return drawn


def _deltas(lines: list[Line]) -> list[float]:
    return sorted({line["delta"] for line in lines if line["delta"] is not None})


def _panel(panel: Axes, lines: list[Line], delta: float, measure: str) -> None:
    frontier.frontier(lines, measure=measure, delta=delta, styles=_DRAWN, legend=False, ax=panel)


def _distances(panel: Axes, lines: list[Line], measure: str) -> None:
    """Give a row of panels one vertical axis."""
    found = [at for delta in _deltas(lines) for at in _shown(lines, delta, measure)]
    distance_axis(panel, found, measure, MOST)


def _shown(lines: list[Line], delta: float, measure: str) -> list[float]:
    """The distances from perfection that a panel shows."""
    found = frontier.curves(lines, measure=measure, delta=delta)
    return [distance for points in found.values() for distance in points.values()]
