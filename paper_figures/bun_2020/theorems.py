"""Theorems 24, 27 and 30 as figures: rounds, advantage and rows by margin."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common import aggregated
from experiments.common.results import Line
from paper_figures.style import (
    CALIBRATIONS,
    DASHES,
    FIVE,
    MARKERS,
    PAPER,
    finish,
    line_of,
    sheet,
)

NAME = "bun_2020"
ROUNDS = {
    "rounds_by_advantage": "at the measured advantage",
    "rounds_to_margin": "until its margins hold",
    "rounds_to_error": "until training error <= alpha",
}
COUNTED = ("rounds_to_margin", "rounds_to_error")
"""Columns that are empty where the rounds that were run did not suffice."""


def draw() -> Figure:
    """A panel for each theorem.

    Raises:
        InputError: if the rounds have not been aggregated.
    """
    lines = aggregated.read(NAME, "rounds")
    figure, panels = sheet(1, 3, 3.3)
    _rounds(panels[0], lines)
    curve(panels[1], lines, "claimed_advantage", "claimed, tau / 8", color=PAPER, marker="*")
    style: dict[str, Any] = {"color": FIVE[0], "marker": "o", "linestyle": "--"}
    curve(panels[1], lines, "smallest_advantage", "smallest that was measured", **style)
    words = "formula without constants"
    curve(panels[2], lines, "theorem_rows", words, color=PAPER, marker="*")
    for name in CALIBRATIONS:
        curve(panels[2], lines, f"rows_for_{name}", f"HS-StL's noise, {name}", **line_of(name))
    titles = ("Theorem 24: rounds", "Theorem 27: advantage", "Theorem 30: rows, (1, 1e-6)-DP")
    tau = [line["tau"] for line in lines]
    for panel, title in zip(panels, titles, strict=True):
        finish(panel, title=title, xlabel="margin tau", xscale="log", yscale="log")
        panel.set_xticks(tau, [f"{t:g}" for t in tau])
        panel.minorticks_off()
        low, high = panel.get_ylim()
        panel.set_ylim(low, high * (high / low) ** 0.6)
        panel.legend(loc="upper right", handlelength=2.2)
    about = lines[0]
    figure.suptitle(
        f"HS-StL at alpha = {about['alpha']:g}, beta = {about['beta']:g}, epsilon = 1, "
        f"delta = {about['delta']:g}; run on {about['rows']} rows, worst of three samples"
    )
    return figure


def _rounds(panel: Axes, lines: list[Line]) -> None:
    """What Theorem 24 asks for and what it took; an arrow where the rounds that were run ended."""
    curve(panel, lines, "theorem_rounds", "HS-StL asks for", color=PAPER, marker="*")
    for k, (column, words) in enumerate(ROUNDS.items()):
        style: dict[str, Any] = {"color": FIVE[k], "marker": MARKERS[k]}
        curve(panel, lines, column, words, linestyle=DASHES[k + 1], **style)
        if column not in COUNTED:
            continue
        for line in (line for line in lines if not line[column]):
            place, most = line["tau"], line["rounds_run"]
            panel.plot(place, most, fillstyle="none", linestyle="", **style)
            arrow = {"arrowstyle": "->", "color": FIVE[k]}
            panel.annotate("", (place, 6 * most), (place, 1.3 * most), arrowprops=arrow)
            panel.annotate(
                f"not in {most:,}",
                (place, most),
                xytext=(5, 0),
                textcoords="offset points",
                fontsize=7,
                va="center",
            )


def curve(panel: Axes, lines: list[Line], column: str, words: str, **style) -> None:
    """Draw a column by margin, where it is known."""
    known = [(line["tau"], line[column]) for line in lines if line[column]]
    panel.plot(*zip(*known, strict=True), label=words, **style)
