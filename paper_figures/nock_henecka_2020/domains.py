"""Figures 8 to 61: runs of each domain by test error, in one figure for a domain.

The first row has the sizes of the models (Figures 8, 11, ...) and the runs without privacy. The
next rows have the private runs of a calibration by alpha, by epsilon, and by alpha at each epsilon
(Figures 9 and 10, and so on). The paper's crops are parts of the same curves.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from paper_figures.nock_henecka_2020 import runs as of
from paper_figures.style import CALIBRATIONS, WITHOUT, finish

EPSILONS = (0.01, 0.1, 1.0, 10.0, 25.0)


def draw() -> dict[str, Figure]:
    """A figure for each domain that has private runs.

    Raises:
        InputError: if no grid has been aggregated.
    """
    return {name: figure(name) for name in of.domains()}


def figure(domain: str) -> Figure:
    """The figure of one domain."""
    found = {name: of.runs(domain, name) for name in CALIBRATIONS}
    found = {name: own for name, own in found.items() if len(own.error)}
    drawn, panels = plt.subplots(
        1 + len(found), 7, figsize=(17, 2.4 + 2.4 * len(found)), layout="constrained", squeeze=False
    )
    auto = list(of.auto_errors(domain).values())
    least = min([*(own.error.min() for own in found.values()), *auto])
    most = max([*(own.error.max() for own in found.values()), *auto])
    without = of.runs(domain, of.NONE)
    if len(without.error):
        least = min(least, without.error.min())
        of.sizes(panels[0, 0], without, WITHOUT, title="without privacy: size asked for")
        of.by_alpha(panels[0, 3], without, title="without privacy, by alpha")
        panels[0, 3].legend(frameon=False, fontsize=7)
    for panel, (name, own) in zip(panels[0, 1:], found.items(), strict=False):
        of.sizes(panel, own, CALIBRATIONS[name], title=f"{name}: size")
    for panel in panels[0, 4:]:
        panel.axis("off")
    for row, (name, own) in zip(panels[1:], found.items(), strict=True):
        of.by_alpha(row[0], own, title=f"{name}: by alpha")
        of.by_epsilon(row[1], own, title=f"{name}: by epsilon")
        for panel, epsilon in zip(row[2:], EPSILONS, strict=True):
            here = own.where(np.isclose(own.epsilon, epsilon))
            of.by_alpha(panel, here, title=f"{name}: epsilon = {epsilon:g}")
            of.mark_auto(panel, domain, epsilon)
        row[0].set_ylabel("% of settings with at most x")
        row[0].legend(frameon=False, fontsize=7)
        row[1].legend(frameon=False, fontsize=7, title="epsilon", title_fontsize=7)
    drawn_in = [panel for panel in panels.flat if panel.axison]
    of.mark_larger_class(drawn_in, of.larger_class(domain))
    for panel in panels.flat:
        finish(panel, xlim=(max(least - 0.02, 0), min(most + 0.02, 1)))
        panel.title.set_fontsize(8)
        panel.tick_params(labelsize=7)
    panels[0, 0].set_ylabel("depth of settings with at most x", fontsize=7)
    for panel in panels[-1]:
        panel.set_xlabel("mean test error x of ten folds", fontsize=7)
    count = ", ".join(f"{len(own.error)} settings {name}" for name, own in found.items())
    drawn.suptitle(
        f"{domain}: v_q = 10, M = 10, seed 0; {count}; "
        "vertical lines: the larger class (black), auto (purple)",
        fontsize=10,
    )
    return drawn
