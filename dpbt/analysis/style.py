"""What all pictures share: a panel to draw in, colours, and axes without a frame.

Colours are those of Okabe and Ito, which colour-blind readers tell apart. Markers and dashes differ
as well, so that nothing is lost in print. matplotlib is the extra `figures`, and is imported only
where something is drawn.
"""

from __future__ import annotations  # the types of matplotlib are only named

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

ORANGE, BLUE, GREEN, PURPLE, SKY = "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9"

_COLOURS = (ORANGE, BLUE, GREEN, PURPLE, SKY, "0.25", "0.5")
_MARKERS = ("o", "s", "^", "v", "D", "X", "P", "*")
_DASHES = ("-", "--", "-.", ":")

DIVERGING = "PuOr"
"""A map of colours from orange over white to purple, which colour-blind readers tell apart."""


def panel(ax: Axes | None, size: tuple[float, float] = (6.0, 4.0)) -> Axes:
    """The panel to draw in: what was given, or that of a new figure.

    Args:
        ax: a panel, or None.
        size: of a new figure, in inches.

    Raises:
        ImportError: if matplotlib is not installed; the message says how to install it.
    """
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which the extra `figures` installs: "
            "pip install 'dpbt[figures]'"
        ) from error
    return plt.subplots(figsize=size, layout="constrained")[1]


def finish(ax: Axes, **properties: Any) -> None:
    """Set labels and limits, and remove the frame at the top and right."""
    ax.set(**properties)
    ax.spines[["top", "right"]].set_visible(False)


def line_styles() -> Iterator[dict[str, Any]]:
    """Endless styles of lines; the first 28 differ in colour and dash, and markers as well."""
    for number in itertools.count():
        yield {
            "color": _COLOURS[number % len(_COLOURS)],
            "marker": _MARKERS[number % len(_MARKERS)],
            "linestyle": _DASHES[number % len(_DASHES)],
        }


def diverging() -> Colormap:
    """The map `DIVERGING`."""
    import matplotlib

    return matplotlib.colormaps[DIVERGING]
