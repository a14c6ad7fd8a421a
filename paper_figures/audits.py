"""The levels of the audit beside the truth, and how much of a table comes back.

`python -m experiments audits` and `python -m experiments reconstruction` measure them.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments.common.results import Line, columns, distinct, where
from paper_figures.comparisons import add_legend, read_lines
from paper_figures.style import BLUE, GREEN, ORANGE, PRINT, PURPLE, finish, make_sheet

STYLES = {
    "exact": {"color": ORANGE, "marker": "o"},
    "grey box": {"color": BLUE, "marker": "s"},
    "black box": {"color": "black", "marker": "^", "linestyle": "--"},
    "one run": {"color": GREEN, "marker": "v", "linestyle": ":"},
}
"""Level -> its line."""


def levels(folder: Path | None = None) -> Figure:
    """Lower bounds on epsilon as shares of what is spent, by runs, with standard errors.

    Args:
        folder: as `comparisons.read_lines`.
    """
    lines = where(read_lines("audits", folder), part="levels")
    with plt.rc_context(PRINT):
        return _draw_levels(lines)


def _draw_levels(lines: Sequence[Line]) -> Figure:
    names = distinct(lines, "name")
    figure, panels = make_sheet(1, len(names), 2.3, sharey=True)
    for panel, name in zip(panels, names, strict=True):
        panel.axhline(1, color=PURPLE, linewidth=0.8)
        for level, style in STYLES.items():
            of_level = where(lines, name=name, level=level)
            x = [line["runs"] for line in of_level]
            y, error = (
                [line[key] / line["truth"] for line in of_level] for key in ("epsilon", "error")
            )
            if of_level:
                panel.errorbar(x, y, error, label=level, capsize=2, **style)
        finish(panel, xscale="log", xlabel="runs", ylim=(-0.03, 1.08))
        ticks = distinct(sorted(lines, key=lambda line: line["runs"]), "runs")
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        panel.minorticks_off()
        panel.set_title(name)
    panels[0].set_ylabel("bound / truth")
    add_legend(figure, STYLES)
    return figure


LEARNERS = {
    "random_forest": {"color": BLUE, "marker": "s"},
    "diffprivlib-forest": {"color": GREEN, "marker": "v"},
    "auto": {"color": ORANGE, "marker": "o"},
}
"""Learner -> its line."""

GUESSES = {
    "uniform": {"color": "0.4", "linestyle": ":", "linewidth": 0.9},
    "population": {"color": "0.4", "linestyle": "--", "linewidth": 0.9},
}
"""Rows that are guessed without a release -> their horizontal line."""

INFINITE_EPSILON_PLACE = 300.0
"""Where an infinite epsilon is drawn."""


def reconstruction(folder: Path | None = None) -> Figure:
    """Wrong cells of reconstructed tables beside guesses, and what of them is memorised.

    Args:
        folder: as `comparisons.read_lines`.
    """
    lines = read_lines("reconstruction", folder)
    with plt.rc_context(PRINT):
        return _draw_reconstruction(lines)


def _draw_reconstruction(lines: Sequence[Line]) -> Figure:
    names = distinct(lines, "dataset")
    figure, panels = make_sheet(2, len(names), 3.6, sharex=True, sharey="row")
    for name, above, below in zip(names, *panels, strict=True):
        guess = where(lines, dataset=name)[0]
        for key, style in GUESSES.items():
            above.axhline(guess[key], label=f"{key} rows", **style)
        below.axhline(0, color="0.4", linewidth=0.8)
        for learner, style in LEARNERS.items():
            of_learner = where(lines, dataset=name, learner=learner)
            x = [min(line["epsilon"], INFINITE_EPSILON_PLACE) for line in of_learner]
            for panel, key in ((above, "most likely"), (below, "memorised, informed")):
                y, error = columns(of_learner, key, f"{key} +-")
                panel.errorbar(x, y, error, label=learner, capsize=2, **style)
        above.set_title(name)
        finish(above, xscale="log", ylim=(0, None))
        finish(below, xscale="log", xlabel="epsilon")
        below.set_xticks(
            [0.1, 1, 10, 100, INFINITE_EPSILON_PLACE], ["0.1", "1", "10", "100", "none"]
        )
        below.minorticks_off()
    panels[0][0].set_ylabel("wrong cells")
    panels[1][0].set_ylabel("memorised")
    add_legend(figure, [*LEARNERS, *(f"{key} rows" for key in GUESSES)])
    return figure
