"""AUROC and test error for several classes, by epsilon; a column for each data set."""

from pathlib import Path

from matplotlib.figure import Figure

from paper_figures.tasks import panels

Line = panels.Line

MOST = 1.5
"""The largest error that is shown, as a multiple of that of the larger class."""


def draw(saved: Path | None = None) -> Figure:
    """The figure of the saved lines.

    Raises:
        InputError: if nothing has been saved.
    """
    values = {
        "AUROC, one class against the rest": _auroc,
        "error / that of the larger class": _error,
    }
    return panels.figure(panels.lines_of("classes", saved), "larger-class", values, (0, MOST))


def _auroc(line: Line, base: Line) -> float | None:
    del base
    return line["auroc_mean"]


def _error(line: Line, base: Line) -> float:
    return (1 - line["accuracy_mean"]) / (1 - base["accuracy_mean"])
