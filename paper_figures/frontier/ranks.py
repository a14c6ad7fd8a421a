"""Mean ranks of the private methods over data sets, by epsilon."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dpbt.analysis.frontier import curve, epsilon_axis
from experiments.common import ranks
from paper_figures.frontier.methods import STYLES, guarantee, legend, lines_of

MEASURES = {"auroc_mean": "mean rank by AUROC", "accuracy_mean": "mean rank by accuracy"}


def draw(saved: Path | None = None) -> Figure:
    """A column for each delta, a row for each measure. Rank 1 is on top.

    Raises:
        InputError: if nothing has been saved.
    """
    lines = [line for line in lines_of(saved) if line["method"] in STYLES]
    deltas = sorted({line["delta"] for line in lines})
    epsilons = sorted({line["epsilon"] for line in lines})
    drawn, panels = plt.subplots(
        len(MEASURES),
        len(deltas),
        figsize=(4.4 * len(deltas), 6.4),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    datasets = set()
    for row, (measure, words) in zip(panels, MEASURES.items(), strict=True):
        for panel, delta in zip(row, deltas, strict=True):
            found = {at: ranks.mean_ranks(lines, at, delta, measure) for at in epsilons}
            datasets |= {standings.datasets for standings in found.values()}
            for method in STYLES:
                x = [at for at in epsilons if method in found[at].of]
                if x:
                    y = [found[at].of[method].rank for at in x]
                    curve(panel, x, y, label=method, **STYLES[method])
            epsilon_axis(panel, epsilons)
            panel.grid(axis="y", color="0.9", linewidth=0.8)
        row[0].set_ylabel(words)
    for panel, delta in zip(panels[0], deltas, strict=True):
        panel.set_title(guarantee(delta), fontsize=10)
        panel.set_xlabel("")
    panels[0, 0].invert_yaxis()  # the axes are shared

    legend(drawn, STYLES)
    count = "/".join(map(str, sorted(datasets)))
    drawn.suptitle(f"private methods over {count} data sets; 1 is best", fontsize=10)
    return drawn
