"""AUROC and test error by epsilon, one figure for each data set."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common import results
from paper_figures.frontier.methods import (
    LEVELS,
    STYLES,
    WORDS,
    curve,
    epsilon_axis,
    guarantee,
    lines_of,
    taking_part,
)

Line = results.Line
MEASURES = ("AUROC", "test error")


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
        column[0].set(title=guarantee(delta), xlabel="")
    for panel, measure in zip(panels[:, 0], MEASURES, strict=True):
        panel.set_ylabel(measure)

    handles = {}
    for panel in panels.flat:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    order = [*(name for name in STYLES if name in handles), *WORDS.values()]
    shown = [handles[name] for name in order if name in handles]
    words = [name for name in order if name in handles]
    drawn.legend(shown, words, frameon=False, fontsize=8, ncols=4, loc="outside lower center")
    drawn.suptitle(_title(lines), fontsize=10)
    return drawn


def _title(lines: list[Line]) -> str:
    first = lines[0]
    splits = "/".join(map(str, sorted({line["splits"] for line in lines})))
    return f"{first['dataset']}: bound of {first['rows']} rows, mean of {splits} splits"


def _panel(panel: Axes, lines: list[Line], delta: float, measure: str) -> None:
    here = taking_part(lines, delta)
    for method in STYLES:
        own = sorted((at for at in here if at["method"] == method), key=lambda at: at["epsilon"])
        if own:
            x, y = ([f(at) for at in own] for f in (lambda at: at["epsilon"], _value(measure)))
            curve(panel, x, y, method)
    for line in lines:
        if line["method"] in LEVELS:
            words, style = WORDS[line["method"]], LEVELS[line["method"]]
            panel.axhline(_value(measure)(line), label=words, zorder=1, **style)
    epsilon_axis(panel)


def _value(measure: str):
    """Line -> the measure."""
    if measure == "AUROC":
        return lambda line: line["auroc_mean"]
    return lambda line: 1 - line["accuracy_mean"]
