"""Theorems 24, 27 and 30 as figures: rounds, advantage and rows by margin."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common import aggregated
from experiments.common.results import Line
from paper_figures.style import CALIBRATIONS, FIVE, MARKERS, PAPER, finish

NAME = "bun_2020"
ROUNDS = {
    "rounds_by_advantage": "Theorem 24 at the measured advantage",
    "rounds_to_margin": "until its margins hold",
    "rounds_to_error": "until training error <= alpha",
}


def draw() -> Figure:
    """A panel for each theorem.

    Raises:
        InputError: if the rounds have not been aggregated.
    """
    lines = aggregated.read(NAME, "rounds")
    figure, panels = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    curve(panels[0], lines, "theorem_rounds", "HS-StL asks for", color=PAPER, marker="*")
    for k, (column, words) in enumerate(ROUNDS.items()):
        curve(panels[0], lines, column, words, color=FIVE[k], marker=MARKERS[k])
    curve(panels[1], lines, "claimed_advantage", "claimed, tau / 8", color=PAPER, marker="*")
    words = "smallest that was measured"
    curve(panels[1], lines, "smallest_advantage", words, color=FIVE[0], marker="o")
    words = "Theorem 30 without its constants"
    curve(panels[2], lines, "theorem_rows", words, color=PAPER, marker="*")
    for name, shade in CALIBRATIONS.items():
        words = f"HS-StL's noise, {name}"
        curve(panels[2], lines, f"rows_for_{name}", words, color=shade, marker="o")
    titles = ("Theorem 24: rounds", "Theorem 27: advantage", "Theorem 30: rows for (1, 1e-6)-DP")
    tau = [line["tau"] for line in lines]
    for panel, title in zip(panels, titles, strict=True):
        finish(panel, title=title, xlabel="margin tau", xscale="log", yscale="log")
        panel.set_xticks(tau, [f"{t:g}" for t in tau])
        panel.minorticks_off()
        low, high = panel.get_ylim()
        panel.set_ylim(low, high * (high / low) ** 0.35)
        panel.legend(frameon=False, fontsize=8)
    about = lines[0]
    figure.suptitle(
        f"HS-StL at alpha = {about['alpha']:g}, beta = {about['beta']:g}, epsilon = 1, "
        f"delta = {about['delta']:g}; run on {about['rows']} rows, worst of three samples",
        fontsize=10,
    )
    return figure


def curve(panel: Axes, lines: list[Line], column: str, words: str, **style) -> None:
    """Draw a column by margin, where it is known."""
    known = [(line["tau"], line[column]) for line in lines if line[column]]
    panel.plot(*zip(*known, strict=True), label=words, markersize=5, **style)
