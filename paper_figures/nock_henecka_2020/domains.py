"""Figures 8 to 61: runs of each domain by test error, in one figure for a domain.

The first row has the sizes of the models (Figures 8, 11, ...), and the second has the runs by alpha
without and with privacy (Figures 9, 12, ...). Then each calibration has two rows: the private runs
by epsilon, and by alpha at each epsilon (Figures 10, 13, ...). The lower one shows crops of the
upper one, as in the paper; here a crop holds the best fifth of a panel's runs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from paper_figures.nock_henecka_2020 import runs as of
from paper_figures.style import CALIBRATIONS, DASHES, THREE, WITHOUT, finish, ordered, sheet

EPSILONS = (0.01, 0.1, 1.0, 10.0, 25.0)
REGIMES = {of.NONE: WITHOUT, **CALIBRATIONS}
WORDS = {of.NONE: "no privacy"}

BEST = 0.2
"""The part of a panel's runs that its crop holds."""

PERCENT = (0, 50, 100)
ROW = 1.25
"""The height of a row, in inches."""


def draw() -> dict[str, Figure]:
    """A figure for each domain that has private runs.

    Raises:
        InputError: if no grid has been aggregated.
    """
    return {name: figure(name) for name in of.domains()}


def figure(domain: str) -> Figure:
    """The figure of one domain."""
    found = {name: of.runs(domain, name) for name in REGIMES}
    found = {name: own for name, own in found.items() if len(own.error)}
    private = [name for name in CALIBRATIONS if name in found]
    rows = 2 + 2 * len(private)
    height = 0.5 + ROW * rows
    drawn, panels = sheet(rows, 1 + len(EPSILONS), height, squeeze=False, layout=None)
    below, above = 0.5 / height, 1 - 0.42 / height  # for words; all panels have one size
    drawn.subplots_adjust(0.085, below, 0.978, above, wspace=0.48, hspace=0.5)
    _sizes(panels[0], found)
    _alphas(panels[1], domain, found)
    for k, name in enumerate(private):
        _calibration(panels[2 + 2 * k : 4 + 2 * k], domain, name, found[name])
    auto = list(of.auto_errors(domain).values())
    least = min([*(own.error.min() for own in found.values()), *auto])
    most = max([*(own.error.max() for own in found.values()), *auto])
    whole = [*panels[:2].flat, *panels[2::2].flat]
    for panel in (panel for panel in whole if panel.axison):
        panel.set_xlim(least - 0.03, min(most + 0.02, 1))
    shown = [panel for panel in panels.flat if panel.axison]
    of.mark_larger_class(shown, of.larger_class(domain))
    for panel in shown:
        _two_ticks(panel)
        finish(panel)
    drawn.supxlabel("mean test error x of ten folds", fontsize=7.5, y=0.1 / height)
    count = ", ".join(f"{len(own.error)} {WORDS.get(name, name)}" for name, own in found.items())
    drawn.suptitle(f"{domain}: v_q = 10, M = 10, seed 0; settings: {count}", y=1 - 0.07 / height)
    return drawn


def _two_ticks(panel: Axes) -> None:
    """Leave the horizontal axis of a small panel its first and its last round number."""
    low, high = panel.get_xlim()
    ticks = [at for at in MaxNLocator(5).tick_values(low, high) if low <= at <= high]
    panel.set_xticks([ticks[0], ticks[-1]])


def _sizes(row: Sequence[Axes], found: dict[str, of.Runs]) -> None:
    """Figure 8: depths and leaves of the settings that have at most an error."""
    kinds = {"depth": (of.depths, (1, 2, 4, 6)), "leaves": (of.leaves, (0, 20, 40, 60))}
    for k, (words, (size, ticks)) in enumerate(kinds.items()):
        for j, (name, shade) in enumerate(REGIMES.items()):
            panel = row[len(REGIMES) * k + j]
            if name not in found:
                panel.axis("off")
                continue
            of.sizes(panel, found[name], size, shade, yticks=ticks, ylim=(0, 1.1 * ticks[-1]))
            panel.set_title(f"{words}, {WORDS.get(name, name)}", fontsize=7)
    row[0].set_ylabel("asked for: mean, sd", fontsize=7)


def _alphas(row: Sequence[Axes], domain: str, found: dict[str, of.Runs]) -> None:
    """Figure 9, by alpha; and what all lines mean, in the place of the other panels."""
    for panel, name in zip(row, REGIMES, strict=False):
        if name not in found:
            panel.axis("off")
            continue
        of.by_alpha(panel, found[name], yticks=PERCENT)
        panel.set_title(f"by alpha, {WORDS.get(name, name)}", fontsize=7)
        if name != of.NONE:
            of.cumulated_auto(panel, domain)
    row[0].set_ylabel("% of settings\nwith at most x", fontsize=7)
    for panel in row[len(REGIMES) :]:
        panel.axis("off")
    _legends(row[len(REGIMES)], row[-1])


def _legends(left: Axes, right: Axes) -> None:
    handles = [
        Line2D([], [], color=shade, linestyle=dash, label=words)
        for words, shade, dash in zip(of.WAYS.values(), THREE, DASHES, strict=False)
    ]
    handles += [
        Line2D([], [], label="auto, one setting an epsilon", **of.AUTO_STYLE),
        Line2D([], [], color="black", linewidth=0.8, label="larger class"),
        Patch(fill=False, edgecolor="0.4", label="crop, drawn below"),
        Line2D([], [], color="0.3", linestyle=":", label="sizes: all settings, by construction"),
    ]
    place = {"loc": "upper left", "bbox_to_anchor": (-0.2, 1.1), "labelspacing": 0.35}
    first = left.legend(handles=handles, **place)
    epsilons = [
        Line2D([], [], label=f"{epsilon:g}", **ordered(k, len(EPSILONS)))
        for k, epsilon in enumerate(EPSILONS)
    ]
    second = right.legend(
        handles=epsilons, title="epsilon", loc="upper right", bbox_to_anchor=(1.08, 1.1)
    )
    for legend in (first, second):
        legend.set_in_layout(False)


def _calibration(rows: np.ndarray, domain: str, name: str, own: of.Runs) -> None:
    """The private runs by epsilon, and by alpha at each epsilon, above their crops."""
    of.by_epsilon(rows[0, 0], own, EPSILONS, yticks=PERCENT)
    of.by_epsilon(rows[1, 0], own, EPSILONS)
    rows[0, 0].set_title("by epsilon", fontsize=7)
    _crop(rows[0, 0], rows[1, 0], [own.error[np.isclose(own.epsilon, at)] for at in EPSILONS])
    for (upper, lower), epsilon in zip(rows.T[1:], EPSILONS, strict=True):
        here = own.where(np.isclose(own.epsilon, epsilon))
        if not len(here.error):
            upper.axis("off")
            lower.axis("off")
            continue
        of.by_alpha(upper, here, yticks=PERCENT)
        of.by_alpha(lower, here)
        of.mark_auto(upper, domain, epsilon)
        upper.set_title(f"epsilon = {epsilon:g}", fontsize=7)
        _crop(upper, lower, [here.error[here.alpha == way] for way in of.WAYS])
    rows[0, 0].set_ylabel(f"{name}, %", fontsize=7)
    rows[1, 0].set_ylabel(f"{name},\ncrop, %", fontsize=7)


def _crop(whole: Axes, panel: Axes, curves: Sequence[np.ndarray]) -> None:
    """Limit a panel to its best runs, and show in the whole one what it holds."""
    errors = np.concatenate(curves)
    low, high = errors.min(), np.quantile(errors, BEST)
    margin = max(0.06 * (high - low), 0.002)
    low, high = low - margin, high + margin
    top = 103 * max(np.mean(own <= high) for own in curves if len(own))
    panel.set(xlim=(low, high), ylim=(0, top))
    panel.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    style: dict[str, Any] = {"fill": False, "edgecolor": "0.4", "linewidth": 0.8, "zorder": 4}
    whole.add_patch(Rectangle((low, 0), high - low, top, **style))
