"""The levels of the audit beside the truth, and how much of a table comes back.

`python -m experiments audits` and `python -m experiments reconstruction` measure them.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments.common.results import Line, columns, distinct, where
from paper_figures.comparisons import legend, lines_of
from paper_figures.style import BLUE, GREEN, ORANGE, PRINT, PURPLE, finish, sheet

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
        folder: as `comparisons.lines_of`.
    """
    lines = where(lines_of("audits", folder), part="levels")
    with plt.rc_context(PRINT):
        return _drawn(lines)


def _drawn(lines: Sequence[Line]) -> Figure:
    names = distinct(lines, "name")
    drawn, panels = sheet(1, len(names), 2.3, sharey=True)
    for panel, name in zip(panels, names, strict=True):
        panel.axhline(1, color=PURPLE, linewidth=0.8)
        for level, style in STYLES.items():
            own = where(lines, name=name, level=level)
            x = [line["runs"] for line in own]
            y, error = ([line[key] / line["truth"] for line in own] for key in ("epsilon", "error"))
            if own:
                panel.errorbar(x, y, error, label=level, capsize=2, **style)
        finish(panel, xscale="log", xlabel="runs", ylim=(-0.03, 1.08))
        ticks = distinct(sorted(lines, key=lambda line: line["runs"]), "runs")
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        panel.minorticks_off()
        panel.set_title(name)
    panels[0].set_ylabel("bound / truth")
    legend(drawn, STYLES)
    return drawn


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

MOST = 300.0
"""Where an infinite epsilon is drawn."""


def reconstruction(folder: Path | None = None) -> Figure:
    """Wrong cells of reconstructed tables beside guesses, and what of them is memorised.

    Args:
        folder: as `comparisons.lines_of`.
    """
    lines = lines_of("reconstruction", folder)
    with plt.rc_context(PRINT):
        return _reconstructed(lines)


def _reconstructed(lines: Sequence[Line]) -> Figure:
    names = distinct(lines, "dataset")
    drawn, panels = sheet(2, len(names), 3.6, sharex=True, sharey="row")
    for name, above, below in zip(names, *panels, strict=True):
        guess = where(lines, dataset=name)[0]
        for key, style in GUESSES.items():
            above.axhline(guess[key], label=f"{key} rows", **style)
        below.axhline(0, color="0.4", linewidth=0.8)
        for learner, style in LEARNERS.items():
            own = where(lines, dataset=name, learner=learner)
            x = [min(line["epsilon"], MOST) for line in own]
            for panel, key in ((above, "most likely"), (below, "memorised, informed")):
                y, error = columns(own, key, f"{key} +-")
                panel.errorbar(x, y, error, label=learner, capsize=2, **style)
        above.set_title(name)
        finish(above, xscale="log", ylim=(0, None))
        finish(below, xscale="log", xlabel="epsilon")
        below.set_xticks([0.1, 1, 10, 100, MOST], ["0.1", "1", "10", "100", "none"])
        below.minorticks_off()
    panels[0][0].set_ylabel("wrong cells")
    panels[1][0].set_ylabel("memorised")
    legend(drawn, [*LEARNERS, *(f"{key} rows" for key in GUESSES)])
    return drawn
