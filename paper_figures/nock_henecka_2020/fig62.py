"""Figure 62: v_q = 10 and 50 side by side, by alpha."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from paper_figures.nock_henecka_2020 import runs as of
from paper_figures.style import THREE, finish

EPSILON = 0.01


def draw() -> Figure:
    """A column for each domain: all private settings, and those of high privacy.

    Raises:
        InputError: if the grid of v_q = 50 has not been aggregated.
    """
    names = of.domains(50)
    size = (3 * len(names), 5.4)
    figure, panels = plt.subplots(2, len(names), figsize=size, layout="constrained", squeeze=False)
    for column, name in zip(panels.T, names, strict=True):
        for bins, dash in ((10, "-"), (50, "--")):
            found = of.runs(name, "published", bins)
            high = found.where(found.epsilon == EPSILON)
            for panel, own in zip(column, (found, high), strict=True):
                for (way, words), shade in zip(of.WAYS.items(), THREE, strict=True):
                    label = f"{words}, v_q = {bins}"
                    error = own.error[own.alpha == way]
                    of.cumulated(panel, error, color=shade, linestyle=dash, label=label)
        finish(column[0], title=f"{name}: all epsilons")
        finish(column[1], title=f"epsilon = {EPSILON:g}", xlabel="mean test error x of ten folds")
        of.mark_larger_class(column.tolist(), of.larger_class(name))
    for panel in panels[:, 0]:
        panel.set_ylabel("% of settings with at most x")
    panels[0, 0].legend(frameon=False, fontsize=7)
    figure.suptitle("published calibration, M = 10, seed 0", fontsize=10)
    return figure
