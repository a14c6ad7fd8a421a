"""Table 1: errors of random forests with and without privacy, the paper's and ours."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common import aggregated
from experiments.common.results import Line
from paper_figures.style import CALIBRATIONS, PAPER, finish, legend_below, sheet

NAME = "bojarski_2014"
RULES = ("majority", "threshold")
ROWS = {False: "table-1-open", True: "table-1-private"}
TITLES = {False: "without privacy", True: "eta = 1000 / n_train"}
PUBLISHED, TIGHT = CALIBRATIONS.values()


def draw() -> Figure:
    """A panel for each voting rule, without and with privacy.

    Raises:
        InputError: if the table has not been aggregated.
    """
    lines = aggregated.read(NAME, "table_1")
    names = list(dict.fromkeys(line["dataset"] for line in lines))
    figure, panels = sheet(2, 2, 4.6, sharex=True)
    for row, private in zip(panels, ROWS, strict=True):
        for panel, rule in zip(row, RULES, strict=True):
            own = {
                line["dataset"]: line
                for line in lines
                if (line["private"], line["voting"]) == (private, rule)
            }
            _bars(panel, [own[name] for name in names], private, rule)
            panel.set_xticks(
                range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor"
            )
            finish(panel, title=f"{rule}, {TITLES[private]}")
    for panel in panels[:, 0]:
        panel.set_ylabel("test error, %")
    legend_below(figure, panels[1, 1], 3)
    words = "mean of ten runs; k, h of forests chosen on validation rows; 95 % binomial intervals"
    figure.suptitle(words)
    return figure


def _bars(panel: Axes, own: list[Line], private: bool, rule: str) -> None:
    """Printed errors, ours with negative counts as 0, and ours as printed."""
    error = [line["error"] for line in own]
    half = [line["interval"] for line in own]
    theirs = [line["paper_error"] for line in own]
    width = [line["paper_interval"] for line in own]
    places = range(len(own))
    style: dict[str, Any] = {"linestyle": ""}
    left = [k - 0.2 for k in places]
    panel.errorbar(
        left, theirs, width, color=PAPER, marker="*", markersize=6, label="printed", **style
    )
    words = "ours, negative counts as 0" if private else "ours"
    panel.errorbar(places, error, half, color=TIGHT, marker="s", label=words, **style)
    if private:
        letter = [line["as_printed"] for line in own]
        right = [k + 0.2 for k in places]
        words = "ours, Algorithm 2 as printed"
        panel.plot(right, letter, color=PUBLISHED, marker="o", label=words, linestyle="")
