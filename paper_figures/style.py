"""What the figures share: one printed width, sizes of letters, colours, dashes and markers.

Figures of papers are drawn at the width of a printed page, so letters have the size that they have
in print. Colours are those of Okabe and Ito, which colour-blind readers tell apart. Lines and bars
also differ in dashes, markers or hatches, so that nothing is lost in grey.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ORANGE, BLUE, GREEN, PURPLE, SKY = "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9"
WIDTH = 7.0
"""The width of a figure in print, in inches."""

PRINT: dict[Any, Any] = {
    "font.size": 8,
    "figure.titlesize": 8.5,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "errorbar.capsize": 2,
    "hatch.linewidth": 0.7,
    "pdf.fonttype": 42,
}
"""Sizes in points at `WIDTH`; no letter has fewer than 7."""

ALPHAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
CALIBRATIONS = {"published": BLUE, "tight": ORANGE}
CALIBRATION_MARKERS = {"published": "o", "tight": "s"}
AUTO, PEER, WITHOUT, PAPER = PURPLE, GREEN, "0.45", "black"
"""The colours of `auto`, of a peer, of learning without privacy, and of what a paper prints."""

THREE = (BLUE, ORANGE, GREEN)
FIVE = (BLUE, ORANGE, GREEN, PURPLE, SKY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (9, 2)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "v", "D", "P", "X")
HATCHES = ("", "////", "....")
PALE: dict[str, Any] = {"linewidth": 3.2, "alpha": 0.4, "solid_capstyle": "butt"}
"""A wide pale line, on which a thin line of the same colour can be seen."""


def make_sheet(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure of the printed width and its panels.

    Args:
        rows: the number of rows of panels.
        columns: the number of columns of panels.
        height: the height of the figure, in inches.
        options: the options of `matplotlib.pyplot.subplots`; panels are placed by what they show
            unless it has another layout.
    """
    options = {"layout": "constrained", **options}
    return plt.subplots(rows, columns, figsize=(WIDTH, height), **options)


def finish(ax: Axes, **properties: Any) -> None:
    """Set labels and limits, and remove the frame at the top and right."""
    ax.set(**properties)
    ax.spines[["top", "right"]].set_visible(False)


def alpha_colour(alpha: float):
    """The colour of an alpha: dark at 0 (the 0/1 loss), bright at 1 (Matsushita's loss)."""
    return matplotlib.colormaps["plasma"](0.9 * alpha)


def calibration_style(calibration: str) -> dict[str, Any]:
    """Colour, marker and dash of a calibration."""
    return {
        "color": CALIBRATIONS[calibration],
        "marker": CALIBRATION_MARKERS[calibration],
        "linestyle": "-" if calibration == "published" else "--",
    }


def bar_style(k: int) -> dict[str, Any]:
    """Colour and hatch of the k-th of at most three kinds of bars."""
    return {"color": THREE[k], "hatch": HATCHES[k], "edgecolor": "white", "linewidth": 0}


def ordered_style(k: int, count: int) -> dict[str, Any]:
    """Colour and dash of the k-th of some ordered values, from dark to bright."""
    shade = matplotlib.colormaps["viridis"](0.88 * k / max(count - 1, 1))
    return {"color": shade, "linestyle": DASHES[k % len(DASHES)]}


def keys_in_words(lines: Iterable[Mapping[str, Any]]) -> str:
    """Words for the number of keys that lines are means over, such as "2 to 5 keys"."""
    counts = sorted({line["keys"] for line in lines})
    min_keys, max_keys = counts[0], counts[-1]
    return (
        count_in_words(max_keys, "key")
        if min_keys == max_keys
        else f"{min_keys} to {max_keys} keys"
    )


def count_in_words(number: int, noun: str) -> str:
    """Words such as "1 key" or "5 keys"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def legend_below(figure: Figure, panel: Axes, columns: int, title: str | None = None) -> None:
    """Explain the lines of a panel below all panels."""
    handles, words = panel.get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=columns, title=title)
