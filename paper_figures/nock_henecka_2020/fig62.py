"""Figure 62: v_q = 10 and 50 side by side, by alpha, in both calibrations."""

import itertools

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.nock_henecka_2020 import runs as of
from paper_figures.style import THREE, finish

EPSILON = 0.01
EXTRACT = ("banknote", "qsar", "wine-red", "wine-white")
"""The domains that the paper's text compares."""

ROWS = tuple(itertools.product(("published", "tight"), (None, EPSILON)))
"""(calibration, epsilon or None for all) of each row."""


def draw() -> Figure:
    """A column for each domain: all private settings, and those of high privacy.

    Raises:
        InputError: if the grid of v_q = 50 has not been aggregated.
    """
    there = of.domains(50)
    names = [name for name in EXTRACT if name in there]
    size = (3 * len(names), 2.8 * len(ROWS))
    figure, panels = plt.subplots(
        len(ROWS), len(names), figsize=size, layout="constrained", squeeze=False
    )
    for name, column in zip(names, panels.T, strict=True):
        for panel, (calibration, epsilon) in zip(column, ROWS, strict=True):
            _runs(panel, name, calibration, epsilon)
            words = "all epsilons" if epsilon is None else f"epsilon = {epsilon:g}"
            last = panel is column[-1]
            label = "mean test error x of ten folds" if last else ""
            finish(panel, title=f"{name}, {calibration}\n{words}", xlabel=label)
        of.mark_larger_class(column.tolist(), of.larger_class(name))
    for panel in panels[:, 0]:
        panel.set_ylabel("% of settings with at most x")
    panels[0, 0].legend(frameon=False, fontsize=6)
    figure.suptitle("v_q = 10 and 50: M = 10, seed 0", fontsize=10)
    return figure


def _runs(panel: Axes, name: str, calibration: str, epsilon: float | None) -> None:
    """The settings of a domain with at most each error, by alpha and v_q."""
    for bins, dash in ((10, "-"), (50, "--")):
        found = of.runs(name, calibration, bins)
        if epsilon is not None:
            found = found.where(found.epsilon == epsilon)
        for (way, words), shade in zip(of.WAYS.items(), THREE, strict=True):
            error, label = found.error[found.alpha == way], f"{words}, v_q = {bins}"
            of.cumulated(panel, error, color=shade, linestyle=dash, label=label)
