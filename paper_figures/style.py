"""What the figures share: colours, and axes without a box."""

import matplotlib
from matplotlib.axes import Axes

ALPHAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
CALIBRATIONS = {"published": "C0", "tight": "C1"}


def colour(alpha: float):
    """From dark (alpha = 0, the 0/1 loss) to bright (alpha = 1, Matsushita's)."""
    return matplotlib.colormaps["plasma"](0.9 * alpha)


def finish(panel: Axes, **properties) -> None:
    """Labels and limits, and no box."""
    panel.set(**properties)
    panel.spines[["top", "right"]].set_visible(False)
