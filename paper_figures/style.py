"""What the figures share: colours that colour-blind readers tell apart, and plain axes."""

import matplotlib

from dpbt.analysis.style import BLUE, GREEN, ORANGE, PURPLE, SKY
from dpbt.analysis.style import finish as finish

ALPHAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
CALIBRATIONS = {"published": BLUE, "tight": ORANGE}
AUTO, PEER, WITHOUT, PAPER = GREEN, PURPLE, "0.45", "black"
"""The colours of `auto`, of a peer, of learning without privacy, and of what a paper prints."""

THREE = (BLUE, ORANGE, GREEN)
FIVE = (BLUE, ORANGE, GREEN, PURPLE, SKY)
DASHES = ("-", "--", "-.", ":", (0, (1, 1)))
MARKERS = ("o", "s", "^", "v", "D")


def colour(alpha: float):
    """The colour of an alpha: dark at 0 (the 0/1 loss), bright at 1 (Matsushita's loss)."""
    return matplotlib.colormaps["plasma"](0.9 * alpha)
