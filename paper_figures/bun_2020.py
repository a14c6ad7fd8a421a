"""Figures and tables of Bun et al. (2020)."""

from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common import aggregated
from experiments.common.results import Line, distinct, where
from paper_figures.style import (
    CALIBRATIONS,
    DASHES,
    FIVE,
    MARKERS,
    PAPER,
    WITHOUT,
    finish,
    legend_below,
    line_of,
    sheet,
)

NAME = "bun_2020"
AXES = {
    "rows": "rows n",
    "tau": "margin tau",
    "noise": "label noise / (alpha tau)",
    "epsilon": "epsilon",
}
MEAN, SD = "test_error_mean", "test_error_sd"


def halfspaces() -> Figure:
    """Private halfspaces: test error by rows, margin, label noise and epsilon.

    Four panels of errors, each along one axis around the base.

    Raises:
        InputError: if the experiment has not been saved.
    """
    lines = aggregated.read_result(NAME, "errors")
    alpha = aggregated.read_result(NAME, "rounds")[0]["alpha"]
    figure, panels = sheet(2, 2, 4.8, sharey=True)
    for panel, (axis, words) in zip(panels.flat, AXES.items(), strict=True):
        own = where(lines, axis=axis)
        _curves(panel, own, axis, alpha)
        panel.axhline(alpha, color=PAPER, linewidth=0.7, label=f"alpha = {alpha}")
        finish(panel, xlabel=words)
        _ticks(panel, sorted({_place(line, axis, alpha) for line in own} - {float("inf")}), axis)
    top = max(line[MEAN] + line[SD] for line in lines)
    panels[0, 0].set_ylim(-0.01, 1.03 * top)
    for panel in panels[:, 0]:
        panel.set_ylabel("test error, mean and sd")
    legend_below(figure, panels[0, 0], 4)
    base = next(line for line in lines if line["axis"] == "epsilon")
    figure.suptitle(
        f"base: n = {base['rows']}, tau = {base['tau']}, no label noise, epsilon = 1, "
        f"delta = {base['delta']},\nT = {base['rounds']}, kappa = {base['density']}, "
        f"d = {base['dimension']}; each point is over {base['fits']} samples and keys"
    )
    return figure


def _curves(panel: Axes, lines: list[Line], axis: str, alpha: float) -> None:
    """Both calibrations, and learning without privacy."""
    for name in CALIBRATIONS:
        own = [line for line in where(lines, calibration=name) if np.isfinite(line["epsilon"])]
        place = [_place(line, axis, alpha) for line in own]
        mean, sd = ([line[column] for line in own] for column in (MEAN, SD))
        panel.errorbar(place, mean, yerr=sd, label=name, **line_of(name))
    without = where(lines, calibration="tight", epsilon=np.inf)
    style: dict[str, Any] = {"color": WITHOUT, "linestyle": ":"}
    if axis == "epsilon":
        panel.axhline(without[0][MEAN], **style)
    else:
        place = [_place(line, axis, alpha) for line in without]
        panel.plot(place, [line[MEAN] for line in without], label="without privacy", **style)


def _ticks(panel: Axes, ticks: list[float], axis: str) -> None:
    """Scale an axis, with ticks where there are runs."""
    if axis == "noise":
        panel.set_xscale("symlog", linthresh=1 / 32, linscale=0.4)
        panel.set_xlim(-0.01, 22)
        words = ["0", *(str(Fraction(tick).limit_denominator(99)) for tick in ticks[1:])]
    else:
        panel.set_xscale("log")
        words = [f"{tick:g}" if tick < 1000 else f"{tick / 1000:g}k" for tick in ticks]
    panel.set_xticks(ticks, words)
    panel.minorticks_off()


def _place(line: Line, axis: str, alpha: float) -> float:
    """The place of a line on an axis: its value; label noise is in units of alpha tau."""
    return line[axis] / (alpha * line["tau"]) if axis == "noise" else line[axis]


ROUNDS = {
    "rounds_by_advantage": "at the measured advantage",
    "rounds_to_error": "until training error <= alpha",
    "rounds_to_margin": "until margins hold, lambda = tau / 8",
}
COUNTED = ("rounds_to_margin", "rounds_to_error")
"""Columns that are empty where the rounds that were run did not suffice."""


def theorems() -> Figure:
    """Theorems 24, 27 and 30 as figures: rounds, advantage and rows by margin.

    A panel for each theorem.

    Raises:
        InputError: if the rounds have not been aggregated.
    """
    lines = where(aggregated.read_result(NAME, "rounds"), rate="tau / 8")
    slower = where(aggregated.read_result(NAME, "rounds"), rate="tau / 32")
    figure, panels = sheet(1, 3, 3.6)
    _rounds(panels[0], lines, slower)
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
        if low_ticks := [0.01, 0.02, 0.05] if panel is panels[1] else []:
            panel.set_yticks(low_ticks, [f"{tick:g}" for tick in low_ticks])
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), handlelength=2.2)
    about = lines[0]
    figure.suptitle(
        f"HS-StL at alpha = {about['alpha']:g}, beta = {about['beta']:g}, epsilon = 1, "
        f"delta = {about['delta']:g}; run on {about['rows']} rows, worst of three samples"
    )
    return figure


def _rounds(panel: Axes, lines: list[Line], slower: list[Line]) -> None:
    """What Theorem 24 asks for and what it took; an arrow where the rounds that were run ended.

    Args:
        panel: where to draw.
        lines: with HS-StL's lambda, tau / 8.
        slower: with Theorem 24's, tau / 32.
    """
    curve(panel, lines, "theorem_rounds", "HS-StL asks for", color=PAPER, marker="*")
    drawn = [(column, words, lines) for column, words in ROUNDS.items()]
    drawn.append(("rounds_to_margin", "the same, tau / 32", slower))
    for k, (column, words, own) in enumerate(drawn):
        style: dict[str, Any] = {"color": FIVE[k], "marker": MARKERS[k]}
        curve(panel, own, column, words, linestyle=DASHES[k + 1], **style)
        if column not in COUNTED:
            continue
        for line in (line for line in own if not line[column]):
            place, most = line["tau"] * (1 + 0.03 * (k - 2)), line["rounds_run"]
            panel.plot(place, most, fillstyle="none", linestyle="", **style)
            arrow = {"arrowstyle": "->", "color": FIVE[k]}
            panel.annotate("", (place, 6 * most), (place, 1.3 * most), arrowprops=arrow)
        if open_ := [line for line in own if not line[column]]:
            place, most = open_[-1]["tau"], open_[-1]["rounds_run"]
            beside = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
            panel.annotate(f"not in {most:,}", (place, most), fontsize=7, **beside)


SIZES = {
    "dimension": ("dimension d", {"alpha": 0.1}),
    "tau": ("margin tau", {"alpha": 0.1}),
    "epsilon": ("epsilon", {"alpha": 0.1}),
    "alpha": ("error alpha", {"axis": "tau", "tau": 0.2}),
}


def sizes() -> Figure:
    """Theorems 1, 30 and 33: rows that an error of alpha needs, by dimension, margin and epsilon.

    A panel for each axis. Points are geometric means over samples, and bars reach from the smallest
    to the largest.

    Raises:
        InputError: if the sizes have not been aggregated.
    """
    lines = aggregated.read_result(NAME, "sizes")
    figure, panels = sheet(2, 2, 4.8, sharey=True)
    for panel, (axis, (title, at)) in zip(panels.flat, SIZES.items(), strict=True):
        own = where(lines, **{"axis": axis, **at})
        for name in CALIBRATIONS:
            private = [
                line for line in where(own, calibration=name) if np.isfinite(line["epsilon"])
            ]
            _sizes(panel, private, axis, name, **line_of(name))
        if axis == "dimension":
            style: dict[str, Any] = {"linestyle": "", "fillstyle": "none"}
            for name in CALIBRATIONS:
                clipped = where(lines, axis="clipped", calibration=name, **at)
                beside = [line | {axis: 1.3 * line[axis]} for line in clipped]
                words = f"{name}, clipped (drawn beside)"
                _sizes(panel, beside, axis, words, **line_of(name) | style)
        if axis != "epsilon":
            without = where(own, calibration="tight", epsilon=np.inf)
            style = {"color": WITHOUT, "linestyle": ":", "marker": "x"}
            _sizes(panel, without, axis, "without privacy", **style)
        finish(panel, xlabel=title, xscale="log", yscale="log")
        ticks = distinct(own, axis)
        ticks = [tick for tick in ticks if np.isfinite(tick)]
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.minorticks_off()
    counts = [64, 128, 256, 512, 1024, 2048]
    panels[0, 0].set_yticks(counts, [f"{count:,}" for count in counts])
    for panel in panels[:, 0]:
        panel.set_ylabel("rows")
    legend_below(figure, panels[0, 0], 3)
    about = lines[0]
    figure.suptitle(
        "rows that an error of alpha needs; base: alpha = 0.1, d = 20, tau = 0.2, epsilon = 1, "
        f"delta = {about['delta']:g},\nlambda = {about['learning_rate']}, "
        f"kappa = {about['density']}, T = {about['rounds_times']} / tau^2; bars: min to max of "
        f"{len(distinct(lines, 'sample'))} samples;\n"
        "128 rows are the fewest that were run at tau = 0.2"
    )
    return figure


def _sizes(panel: Axes, lines: list[Line], axis: str, words: str, **style: Any) -> None:
    """The rows of each place, where all samples have a number."""
    places, means, below, above = [], [], [], []
    for place in distinct(lines, axis):
        rows = [line["rows"] for line in where(lines, **{axis: place})]
        if None in rows:
            continue
        mean = float(np.exp(np.mean(np.log(rows))))
        places.append(place)
        means.append(mean)
        below.append(max(mean - min(rows), 0))
        above.append(max(max(rows) - mean, 0))
    panel.errorbar(places, means, yerr=[below, above], label=words, **style)


def curve(panel: Axes, lines: list[Line], column: str, words: str, **style) -> None:
    """Draw a column by margin, where it is known."""
    known = [(line["tau"], line[column]) for line in lines if line[column]]
    panel.plot([tau for tau, _ in known], [value for _, value in known], label=words, **style)
