"""Figure 62: v_q = 10 and 50 by alpha, and their difference, one figure for a calibration.

The paper shows extracts: all private runs, and those of epsilon = 0.01. As the curves of both v_q
nearly coincide, the panel below each has their difference.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.nock_henecka_2020 import runs as of
from paper_figures.style import CALIBRATIONS, DASHES, PALE, THREE, finish, legend_below, sheet

EPSILON = 0.01
BINS = (10, 50)
EXTRACT = ("banknote", "qsar", "wine-red", "wine-white")
"""The domains that the paper's text compares."""

WORDS = {None: "all epsilons", EPSILON: f"epsilon = {EPSILON:g}"}


def draw() -> dict[str, Figure]:
    """A figure for each calibration that has runs of both v_q, with a column for each domain.

    Raises:
        InputError: if the grid of v_q = 50 has not been aggregated.
    """
    found = {}
    for calibration in CALIBRATIONS:
        there = [set(of.domains(bins, calibration)) for bins in BINS]
        names = [name for name in EXTRACT if all(name in some for some in there)]
        if names:
            found[calibration] = figure(calibration, names)
    return found


def figure(calibration: str, names: Sequence[str]) -> Figure:
    """Curves above their difference: of all private settings, and of those of high privacy."""
    heights = [2, 1.4] * len(WORDS)
    options = {"sharex": "col", "sharey": "row", "squeeze": False, "height_ratios": heights}
    drawn, panels = sheet(len(heights), len(names), 6.8, **options)
    for name, column in zip(names, panels.T, strict=True):
        for k, (epsilon, words) in enumerate(WORDS.items()):
            curves, difference = column[2 * k : 2 * k + 2]
            finish(curves, title=f"{name}, {words}")
            _runs(curves, difference, name, calibration, epsilon)
        finish(column[-1], xlabel="test error x")
        of.mark_larger_class(column.tolist(), of.larger_class(name))
    for k in range(len(WORDS)):
        panels[2 * k, 0].set_ylabel("% of settings\nwith at most x")
        panels[2 * k + 1, 0].set_ylabel("points more\nat v_q = 50")
    panels[0, 0].plot([], [], color="grey", label="v_q = 10: wide and pale", **PALE)
    panels[0, 0].plot([], [], color="black", linewidth=0.8, label="larger class")
    legend_below(drawn, panels[0, 0], 3)
    drawn.suptitle(
        f"v_q = 10 and 50, {calibration}: M = 10, seed 0, mean of ten folds; "
        "auto has one setting an epsilon"
    )
    return drawn


def _runs(curves: Axes, difference: Axes, name: str, calibration: str, epsilon: float | None):
    """The settings of a domain with at most each error, by alpha, and what v_q changes."""
    found = [of.runs(name, calibration, bins) for bins in BINS]
    if epsilon is not None:
        found = [own.where(np.isclose(own.epsilon, epsilon)) for own in found]
    for (way, words), shade, dash in zip(of.WAYS.items(), THREE, DASHES, strict=False):
        few, many = (own.error[own.alpha == way] for own in found)
        if not (len(few) and len(many)):
            continue
        of.cumulated(curves, few, color=shade, **PALE)
        style: dict[str, Any] = {"color": shade, "linestyle": dash, "linewidth": 1.1}
        of.cumulated(curves, many, label=f"{words}, v_q = 50", **style)
        x = np.unique(np.concatenate([few, many]))
        difference.step(x, _share(many, x) - _share(few, x), where="post", **style)
    difference.axhline(0, color="0.5", linewidth=0.8)
    if epsilon is None:
        of.cumulated_auto(curves, name)
    else:
        of.mark_auto(curves, name, epsilon)


def _share(error: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The percentage of settings that have at most each error."""
    return 100 * np.searchsorted(np.sort(error), x, side="right") / len(error)
