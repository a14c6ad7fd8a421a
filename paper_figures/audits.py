"""The levels of the audit beside the truth; `python -m experiments audits` measures them."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments.common.results import Line, distinct, where
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
