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
    calibration_style,
    finish,
    legend_below,
    make_sheet,
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
    figure, panels = make_sheet(2, 2, 4.8, sharey=True)
    for panel, (axis, words) in zip(panels.flat, AXES.items(), strict=True):
        of_axis = where(lines, axis=axis)
        _draw_curves(panel, of_axis, axis, alpha)
        panel.axhline(alpha, color=PAPER, linewidth=0.7, label=f"alpha = {alpha}")
        finish(panel, xlabel=words)
        _set_ticks(
            panel,
            sorted({_place_on_axis(line, axis, alpha) for line in of_axis} - {float("inf")}),
            axis,
        )
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


def _draw_curves(panel: Axes, lines: list[Line], axis: str, alpha: float) -> None:
    """Both calibrations, and learning without privacy."""
    for name in CALIBRATIONS:
        of_calibration = [
            line for line in where(lines, calibration=name) if np.isfinite(line["epsilon"])
        ]
        place = [_place_on_axis(line, axis, alpha) for line in of_calibration]
        mean, sd = ([line[column] for line in of_calibration] for column in (MEAN, SD))
        panel.errorbar(place, mean, yerr=sd, label=name, **calibration_style(name))
    without = where(lines, calibration="tight", epsilon=np.inf)
    style: dict[str, Any] = {"color": WITHOUT, "linestyle": ":"}
    if axis == "epsilon":
        panel.axhline(without[0][MEAN], **style)
    else:
        place = [_place_on_axis(line, axis, alpha) for line in without]
        panel.plot(place, [line[MEAN] for line in without], label="without privacy", **style)


def _set_ticks(panel: Axes, ticks: list[float], axis: str) -> None:
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


def _place_on_axis(line: Line, axis: str, alpha: float) -> float:
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
    figure, panels = make_sheet(1, 3, 3.6)
    _draw_rounds(panels[0], lines, slower)
    draw_curve(panels[1], lines, "claimed_advantage", "claimed, tau / 8", color=PAPER, marker="*")
    style: dict[str, Any] = {"color": FIVE[0], "marker": "o", "linestyle": "--"}
    draw_curve(panels[1], lines, "smallest_advantage", "smallest that was measured", **style)
    words = "formula without constants"
    draw_curve(panels[2], lines, "theorem_rows", words, color=PAPER, marker="*")
    for name in CALIBRATIONS:
        draw_curve(
            panels[2],
            lines,
            f"rows_for_{name}",
            f"HS-StL's noise, {name}",
            **calibration_style(name),
        )
    titles = ("Theorem 24: rounds", "Theorem 27: advantage", "Theorem 30: rows, (1, 1e-6)-DP")
    tau = [line["tau"] for line in lines]
    for panel, title in zip(panels, titles, strict=True):
        finish(panel, title=title, xlabel="margin tau", xscale="log", yscale="log")
        panel.set_xticks(tau, [f"{t:g}" for t in tau])
        panel.minorticks_off()
        if low_ticks := [0.01, 0.02, 0.05] if panel is panels[1] else []:
            panel.set_yticks(low_ticks, [f"{tick:g}" for tick in low_ticks])
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), handlelength=2.2)
    setting = lines[0]
    figure.suptitle(
        f"HS-StL at alpha = {setting['alpha']:g}, beta = {setting['beta']:g}, epsilon = 1, "
        f"delta = {setting['delta']:g}; slowest of {setting['samples']} samples"
    )
    return figure


def _draw_rounds(panel: Axes, lines: list[Line], slower: list[Line]) -> None:
    """What Theorem 24 asks for and what it took; an arrow where the rounds that were run ended.

    Args:
        panel: where to draw.
        lines: with HS-StL's lambda, tau / 8.
        slower: with Theorem 24's, tau / 32.
    """
    draw_curve(panel, lines, "theorem_rounds", "HS-StL asks for", color=PAPER, marker="*")
    curves = [(column, words, lines) for column, words in ROUNDS.items()]
    curves.append(("rounds_to_margin", "the same, tau / 32", slower))
    for k, (column, words, lines_of_curve) in enumerate(curves):
        style: dict[str, Any] = {"color": FIVE[k], "marker": MARKERS[k]}
        draw_curve(panel, lines_of_curve, column, words, linestyle=DASHES[k + 1], **style)
        if column not in COUNTED:
            continue
        for line in (line for line in lines_of_curve if not line[column]):
            place, rounds_run = line["tau"] * (1 + 0.03 * (k - 2)), line["rounds_run"]
            panel.plot(place, rounds_run, fillstyle="none", linestyle="", **style)
            arrow = {"arrowstyle": "->", "color": FIVE[k]}
            panel.annotate("", (place, 6 * rounds_run), (place, 1.3 * rounds_run), arrowprops=arrow)
        if open_ := [line for line in lines_of_curve if not line[column]]:
            place, rounds_run = open_[-1]["tau"], open_[-1]["rounds_run"]
            label_style = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
            panel.annotate(f"not in {rounds_run:,}", (place, rounds_run), fontsize=7, **label_style)


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
    figure, panels = make_sheet(2, 2, 4.8, sharey=True)
    for panel, (axis, (title, point)) in zip(panels.flat, SIZES.items(), strict=True):
        of_axis = where(lines, **{"axis": axis, **point})
        for name in CALIBRATIONS:
            private = [
                line for line in where(of_axis, calibration=name) if np.isfinite(line["epsilon"])
            ]
            _draw_sizes(panel, private, axis, name, **calibration_style(name))
        if axis == "dimension":
            style: dict[str, Any] = {"linestyle": "", "fillstyle": "none"}
            for name in CALIBRATIONS:
                clipped = where(lines, axis="clipped", calibration=name, **point)
                clipped_beside = [line | {axis: 1.3 * line[axis]} for line in clipped]
                words = f"{name}, clipped (drawn beside)"
                _draw_sizes(panel, clipped_beside, axis, words, **calibration_style(name) | style)
        if axis != "epsilon":
            without = where(of_axis, calibration="tight", epsilon=np.inf)
            style = {"color": WITHOUT, "linestyle": ":", "marker": "x"}
            _draw_sizes(panel, without, axis, "without privacy", **style)
        finish(panel, xlabel=title, xscale="log", yscale="log")
        ticks = distinct(of_axis, axis)
        ticks = [tick for tick in ticks if np.isfinite(tick)]
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.minorticks_off()
    counts = [64, 128, 256, 512, 1024, 2048]
    panels[0, 0].set_yticks(counts, [f"{count:,}" for count in counts])
    for panel in panels[:, 0]:
        panel.set_ylabel("rows")
    legend_below(figure, panels[0, 0], 3)
    setting = lines[0]
    figure.suptitle(
        "rows that an error of alpha needs; base: alpha = 0.1, d = 20, tau = 0.2, epsilon = 1, "
        f"delta = {setting['delta']:g},\nlambda = {setting['learning_rate']}, "
        f"kappa = {setting['density']}, T = {setting['rounds_times']} / tau^2; bars: min to max of "
        f"{len(distinct(lines, 'sample'))} samples;\n"
        "128 rows are the fewest that were run at tau = 0.2"
    )
    return figure


def _draw_sizes(panel: Axes, lines: list[Line], axis: str, words: str, **style: Any) -> None:
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


def draw_curve(panel: Axes, lines: list[Line], column: str, words: str, **style) -> None:
    """Draw a column by margin, where it is known."""
    points = [(line["tau"], line[column]) for line in lines if line[column]]
    panel.plot([tau for tau, _ in points], [value for _, value in points], label=words, **style)
