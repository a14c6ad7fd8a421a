"""Private halfspaces: test error by rows, margin, label noise and epsilon."""

from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common import aggregated, results
from paper_figures.style import (
    CALIBRATIONS,
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


def draw() -> Figure:
    """Four panels of errors, each along one axis around the base.

    Raises:
        InputError: if the experiment has not been saved.
    """
    lines = aggregated.read(NAME, "errors")
    alpha = aggregated.read(NAME, "rounds")[0]["alpha"]
    figure, panels = sheet(2, 2, 4.8, sharey=True)
    for panel, (axis, words) in zip(panels.flat, AXES.items(), strict=True):
        own = [line for line in lines if line["axis"] == axis]
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


def _curves(panel: Axes, lines: list[results.Line], axis: str, alpha: float) -> None:
    """Both calibrations, and learning without privacy."""
    for name in CALIBRATIONS:
        own = [
            line for line in lines if line["calibration"] == name and np.isfinite(line["epsilon"])
        ]
        place = [_place(line, axis, alpha) for line in own]
        mean, sd = ([line[column] for line in own] for column in (MEAN, SD))
        panel.errorbar(place, mean, yerr=sd, label=name, **line_of(name))
    without = [
        line for line in lines if line["calibration"] == "tight" and np.isinf(line["epsilon"])
    ]
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


def _place(line: results.Line, axis: str, alpha: float) -> float:
    """The place of a line on an axis: its value; label noise is in units of alpha tau."""
    return line[axis] / (alpha * line["tau"]) if axis == "noise" else line[axis]
