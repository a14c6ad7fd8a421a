"""Claimed epsilon against the largest exact loss of saved audits, in both calibrations."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments.common import results
from paper_figures.style import finish

MARKERS = {"objective": "o", "alpha": "s", "square": "^"}
WORDS = {"objective": "objective calibration", "alpha": "alpha = 1", "square": "Gini"}


def draw() -> Figure:
    """Two panels, one for each relation.

    Filled is the worst transcript; hollow is the worst step, as a share of the claim.

    Raises:
        ValueError: if no audit has been saved.
    """
    lines = results.read_csv(results.folder("audit") / "audit.csv", "audit --grid --steps")
    figure, panels = plt.subplots(1, 2, figsize=(10, 5.2), sharey=True, layout="constrained")
    for panel, relation in zip(panels, ("add_remove", "replace_one"), strict=True):
        panel.plot([0.05, 20], [0.05, 20], color="grey", linewidth=0.8)
        panel.text(0.055, 0.085, "claim", color="grey", fontsize=8, rotation=32)
        for line in lines:
            if line["relation"] != relation:
                continue
            claimed, loss = line["claimed_epsilon"], line["largest_loss"]
            style = {
                "marker": MARKERS[line["criterion"]],
                "color": "C1" if line["calibration"] == "tight" else "C0",
                "markersize": 7,
            }
            panel.plot(claimed, loss, linestyle="", **style)
            if line["worst_step_ratio"]:
                worst = claimed * line["worst_step_ratio"]
                panel.plot(claimed, worst, linestyle="", fillstyle="none", **style)
        finish(
            panel,
            xscale="log",
            yscale="log",
            xlabel="claimed epsilon",
            title=relation,
            xlim=(0.05, 20),
        )
    panels[0].set_ylabel("exact privacy loss")
    for calibration, colour in (("published", "C0"), ("tight", "C1")):
        panels[1].plot(
            [], [], "o", color=colour, label=f"{calibration}: largest loss of a transcript"
        )
        panels[1].plot(
            [],
            [],
            "o",
            color=colour,
            fillstyle="none",
            label=f"{calibration}: claim x worst step / its line",
        )
    for name, marker in MARKERS.items():
        panels[1].plot([], [], marker, color="grey", label=WORDS[name])
    figure.legend(
        *panels[1].get_legend_handles_labels(),
        frameon=False,
        fontsize=8,
        loc="outside lower center",
        ncols=3,
    )
    first = lines[0]
    figure.suptitle(
        f"{first['algorithm']} on {first['dataset']}: {first['transcripts']} transcripts of "
        f"{first['rounds']} trees of depth {first['depth']}, {first['neighbours']} neighbours each",
        fontsize=10,
    )
    return figure
