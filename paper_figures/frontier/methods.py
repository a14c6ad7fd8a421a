"""What the figures share: the saved lines, and how each method is drawn.

Colours are those of Okabe and Ito, which colour-blind readers tell apart. dpbt's methods have
colours, other libraries are grey, and every method has a marker of its own.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.common import results

Line = results.Line

SAVED = results.folder("frontier") / "frontier.csv"
SUMMARY = Path(__file__).resolve().parents[2] / "docs" / "frontier.csv"
"""The lines in short, which are drawn where nothing has been saved."""

STYLES: dict[str, dict[str, Any]] = {
    "auto": {"color": "#D55E00", "marker": "o", "linewidth": 2.6, "markersize": 6, "zorder": 5},
    "bdpe-tight": {"color": "#0072B2", "marker": "s"},
    "bdpe-published": {"color": "#56B4E9", "marker": "D", "linestyle": "--"},
    "lazybb": {"color": "#009E73", "marker": "^"},
    "forest": {"color": "#CC79A7", "marker": "v"},
    "dp-ebm": {"color": "0.25", "marker": "X"},
    "diffprivlib-forest": {"color": "0.5", "marker": "P"},
    "diffprivlib-logistic": {"color": "0.65", "marker": "*", "markersize": 7},
    "diffprivlib-bayes": {"color": "#56B4E9", "marker": "s"},
    "diffprivlib-linear": {"color": "0.65", "marker": "*", "markersize": 7},
}
"""Private method -> its line."""

LEVELS: dict[str, dict[str, Any]] = {
    "boosting": {"color": "black", "linestyle": "-", "linewidth": 0.9},
    "auto-without-noise": {"color": "#D55E00", "linestyle": "--", "linewidth": 1.1},
    "random-forest": {"color": "black", "linestyle": "-.", "linewidth": 0.9},
    "larger-class": {"color": "black", "linestyle": ":", "linewidth": 1.1},
    "mean": {"color": "black", "linestyle": ":", "linewidth": 1.1},
    "median": {"color": "0.5", "linestyle": ":", "linewidth": 1.1},
}
"""Method without privacy -> its horizontal line."""

WORDS = {
    "boosting": "boosting, no privacy",
    "random-forest": "random forest, no privacy",
    "auto-without-noise": "auto, no noise",
    "larger-class": "larger class",
}


def lines_of(saved: Path | None) -> list[Line]:
    """The saved lines, or those of the summary in docs/.

    Args:
        saved: the file of results; by default that of the working folder.

    Raises:
        InputError: if there is neither.
    """
    path = SAVED if saved is None else saved
    return results.read_csv(path if path.exists() else SUMMARY, "frontier")


def guarantee(delta: float) -> str:
    """The words of a delta."""
    return f"delta = {delta:g}" if delta else "pure (delta = 0)"


def legend(drawn: Figure, order: Iterable[str]) -> None:
    """A legend below the panels of all that they show, in an order."""
    handles = {}
    for panel in drawn.axes:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    names = [name for name in order if name in handles]
    shown = [handles[name] for name in names]
    drawn.legend(shown, names, frameon=False, fontsize=8, ncols=4, loc="outside lower center")
