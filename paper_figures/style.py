"""What the figures share: colours, and axes without a frame."""

import matplotlib

from dpbt.analysis.style import finish as finish

ALPHAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
CALIBRATIONS = {"published": "C0", "tight": "C1"}


def colour(alpha: float):
    """The colour of an alpha: dark at 0 (the 0/1 loss), bright at 1 (Matsushita's loss)."""
    return matplotlib.colormaps["plasma"](0.9 * alpha)
