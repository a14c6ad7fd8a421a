"""Figure 2: banknote with and without privacy, by alpha, and the number of leaves."""

from typing import Any

from matplotlib.figure import Figure

from dpbt.commands.errors import InputError
from paper_figures.nock_henecka_2020 import runs as of
from paper_figures.style import CALIBRATIONS, WITHOUT, finish, legend_below, sheet

DOMAIN = "banknote"
CLAIM = (0.2, 200 / 3)
"""What the text says of O.C.: the error and the percentage of runs that have at most it."""


def draw() -> Figure:
    """Curves by alpha above the leaves; without privacy, published and tight.

    Raises:
        InputError: if no grid has been aggregated.
    """
    names = {of.NONE: WITHOUT, **CALIBRATIONS}
    words = {of.NONE: "without privacy"}
    if DOMAIN not in of.domains():
        raise InputError(f"the grid has no {DOMAIN} yet; run: python -m experiments {of.NAME} run")
    figure, panels = sheet(2, 3, 4.4, sharey="row")
    for column, (name, shade) in zip(panels.T, names.items(), strict=True):
        found = of.runs(DOMAIN, name)
        if len(found.error):
            of.by_alpha(column[0], found, title=words.get(name, name))
            of.sizes(column[1], found, of.leaves, shade)
    for panel in panels[0, 1:]:
        of.cumulated_auto(panel, DOMAIN)
        style: dict[str, Any] = {"color": "0.5", "linewidth": 0.9, "linestyle": ":"}
        panel.axvline(CLAIM[0], **style)
        panel.axhline(CLAIM[1], label="the text's claim: 2/3 of O.C. at 20 % error", **style)
    words = "dotted: all settings,\nconstant by construction"
    panels[1, 1].text(-0.01, 24, words, fontsize=7)
    panels[0, 0].set_ylabel("% of settings with at most x")
    panels[1, 0].set_ylabel("leaves asked for, mean and sd")
    for panel in panels.flat:
        finish(panel, xlim=(-0.02, 0.64))
    of.mark_larger_class(panels.ravel().tolist(), of.larger_class(DOMAIN))
    for panel in panels[1]:
        panel.set_xlabel("mean test error x of ten folds")
    panels[0, 1].plot([], [], color="black", linewidth=0.8, label="larger class")
    legend_below(figure, panels[0, 1], 3)
    figure.suptitle(f"{DOMAIN}: v_q = 10, M = 10, T, d, beta_tree and epsilon together")
    return figure
