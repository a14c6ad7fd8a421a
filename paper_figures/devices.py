"""What lies on which device, and what travels, when a run is divided among devices."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from paper_figures.style import BLUE, GREEN, ORANGE, PRINT, make_sheet

_COLUMN, _GAP = 0.3, 0.05
"""The width of a device and the gap between two, as shares of a panel."""

_PARTS, _COPIES, _SUMS = BLUE, GREEN, ORANGE
"""The colours of what each device has of its own, of what all have, and of what is summed."""


def division() -> Figure:
    """What of a run lies on which device, where rows are divided and where keys are.

    It shows what `dpbt.common.devices` does, and reads no results.
    """
    with plt.rc_context(PRINT):
        figure, panels = make_sheet(1, 2, 3.1)
        _draw_divided_rows(panels[0])
        _draw_divided_keys(panels[1])
    return figure


def _draw_divided_rows(panel: Axes) -> None:
    _begin_panel(panel, "Rows are divided")
    for device in range(3):
        _draw_box(
            panel, [device], 0.70, 0.19, "a third of the rows:\nbins, labels,\nscores", _PARTS
        )
        _draw_box(panel, [device], 0.53, 0.11, "sums of its rows", _PARTS)
        middle = _middle_of_device(device)
        _draw_arrow(panel, middle, 0.53, 0.45)
        _draw_arrow(panel, middle, 0.35, 0.29)
    _draw_box(panel, range(3), 0.35, 0.10, "added up, once a draw: whole numbers, exact", _SUMS)
    _draw_box(panel, range(3), 0.18, 0.11, "key, noise, release: a copy on every device", _COPIES)
    _draw_box(panel, range(3), 0.03, 0.11, "recipe, splits, trees: a copy on every device", _COPIES)


def _draw_divided_keys(panel: Axes) -> None:
    _begin_panel(panel, "Keys (or settings) are divided")
    for device in range(3):
        _draw_box(panel, [device], 0.70, 0.19, "its third\nof the keys", _PARTS)
        _draw_box(panel, [device], 0.35, 0.28, "its runs:\nscores, sums,\nnoise, trees", _PARTS)
        _draw_arrow(panel, _middle_of_device(device), 0.70, 0.63)
        _draw_arrow(panel, _middle_of_device(device), 0.29, 0.35)
    _draw_box(panel, range(3), 0.18, 0.11, "all rows: a copy on every device", _COPIES)
    _draw_box(panel, range(3), 0.03, 0.11, "recipe, splits: a copy on every device", _COPIES)


def _begin_panel(panel: Axes, title: str) -> None:
    panel.set(xlim=(-0.01, 1.01), ylim=(0, 1), title=title)
    panel.set_axis_off()
    for device in range(3):
        panel.text(
            _middle_of_device(device), 0.95, f"device {device + 1}", ha="center", va="center"
        )


def _left_of_device(device: int) -> float:
    return device * (_COLUMN + _GAP)


def _middle_of_device(device: int) -> float:
    return _left_of_device(device) + _COLUMN / 2


def _draw_box(
    panel: Axes, devices: Sequence[int], bottom: float, height: float, text: str, color: str
) -> None:
    """Draw a box with a text across some neighbouring devices."""
    left = _left_of_device(devices[0])
    width = _left_of_device(devices[-1]) + _COLUMN - left
    box = FancyBboxPatch(
        (left, bottom),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.015",
        facecolor=(color, 0.16),
        edgecolor=color,
        linewidth=0.9,
    )
    panel.add_patch(box)
    panel.text(left + width / 2, bottom + height / 2, text, ha="center", va="center", fontsize=7)


def _draw_arrow(panel: Axes, x: float, start: float, end: float) -> None:
    panel.annotate(
        "", xy=(x, end), xytext=(x, start), arrowprops={"arrowstyle": "->", "linewidth": 0.8}
    )
