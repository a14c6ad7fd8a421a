"""Figure 2: banknote with and without privacy, by alpha, and the number of leaves."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dpbt.commands.errors import InputError
from paper_figures.nock_henecka_2020 import runs as of
from paper_figures.style import CALIBRATIONS, WITHOUT, finish

DOMAIN = "banknote"


def draw() -> Figure:
    """Curves by alpha above sizes; without privacy, published and tight.

    Raises:
        InputError: if no grid has been aggregated.
    """
    names = {of.NONE: WITHOUT, **CALIBRATIONS}
    words = {of.NONE: "without privacy"}
    if DOMAIN not in of.domains():
        raise InputError(f"the grid has no {DOMAIN} yet; run: python -m experiments {of.NAME} run")
    figure, panels = plt.subplots(2, 3, figsize=(10.5, 5.6), layout="constrained")
    for column, (name, shade) in zip(panels.T, names.items(), strict=True):
        found = of.runs(DOMAIN, name)
        if len(found.error):
            title = words.get(name, name)
            of.by_alpha(column[0], found, title=title)
            of.sizes(column[1], found, shade, xlabel="mean test error x of ten folds")
    for panel in panels.flat:
        finish(panel, xlim=(0, 0.62))
    panels[0, -1].legend(frameon=False, fontsize=8)
    panels[0, 0].set_ylabel("% of settings with at most x")
    panels[1, 0].set_ylabel("depth of settings with at most x")
    of.mark_larger_class(panels.ravel().tolist(), of.larger_class(DOMAIN))
    for panel in panels[0, 1:]:
        panel.axvline(0.2, color="0.6", linewidth=0.8, linestyle=":")
        panel.axhline(200 / 3, color="0.6", linewidth=0.8, linestyle=":")
    words = "dotted: the text's claim, 2/3 of O.C. runs at an error of at most 20 %"
    figure.suptitle(
        f"{DOMAIN}: v_q = 10, M = 10, T, d, beta_tree and epsilon together; {words}", fontsize=9
    )
    return figure
