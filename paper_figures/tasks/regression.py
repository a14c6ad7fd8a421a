"""Errors of predicted numbers, by epsilon; a column for each data set.

Errors are relative to those of the mean of the training rows.
"""

from pathlib import Path

from matplotlib.figure import Figure

from paper_figures.tasks import panels

Line = panels.Line

MOST = 1.3
"""The largest relative error that is shown."""


def draw(saved: Path | None = None) -> Figure:
    """The figure of the saved lines.

    Raises:
        InputError: if nothing has been saved.
    """
    lines = panels.lines_of("regression", saved)
    values = {"RMSE / that of the mean": _rmse, "MAE / that of the mean": _mae}
    drawn = panels.figure(lines, "mean", values, (0.5, MOST))
    for panel in drawn.axes:
        panel.set_ylim(0.5, MOST)
    return drawn


def _rmse(line: Line, base: Line) -> float:
    return line["rmse_mean"] / base["rmse_mean"]


def _mae(line: Line, base: Line) -> float:
    return line["mae_mean"] / base["mae_mean"]
