"""Claimed epsilon against the largest exact loss of saved audits, in both calibrations."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpbt.owners.cli.parsing import InputError
from experiments.common import results
from paper_figures.style import CALIBRATIONS, finish

FOLDER = results.results_folder("audit")
COMMAND = "audit --grid --steps"
MARKERS = {"objective": "o", "alpha": "s", "square": "^"}
"""Criterion -> its marker. Algorithms with other settings take `SPARE` in turn."""

SPARE = ("o", "s", "^", "D", "v")
WORDS = {"objective": "objective calibration", "alpha": "alpha = 1", "square": "Gini"}


def draw(folder: Path = FOLDER) -> dict[str, Figure]:
    """A figure for each audited algorithm, by the algorithm's name.

    Raises:
        InputError: if no audit has been saved.
    """
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise InputError(f"{folder} holds no audits; run: python -m experiments {COMMAND}")
    return {path.stem: draw_figure(results.read_csv(path, COMMAND)) for path in paths}


def draw_figure(lines: list[results.Line]) -> Figure:
    """Two panels, one for each relation.

    A filled marker is the largest loss of a transcript. A hollow one is the worst step's share of
    its line, times the claim.
    """
    figure, panels = plt.subplots(1, 2, figsize=(10, 5.2), sharey=True, layout="constrained")
    markers = markers_of(lines)
    for panel, relation in zip(panels, ("add_remove", "replace_one"), strict=True):
        panel.plot([0.05, 20], [0.05, 20], color="grey", linewidth=0.8)
        panel.text(0.055, 0.085, "claim", color="grey", fontsize=8, rotation=32)
        for line in lines:
            if line["relation"] == relation:
                _draw_points(panel, line, markers)
        axes = {"xscale": "log", "yscale": "log", "xlabel": "claimed epsilon", "xlim": (0.05, 20)}
        finish(panel, title=relation, **axes)
    panels[0].set_ylabel("exact privacy loss")
    _add_legend(figure, panels[1], markers)

    first = lines[0]
    words = f"{first['transcripts']} transcripts of {first['rounds']} trees of depth"
    figure.suptitle(
        f"{first['algorithm']} on {first['dataset']}: {words} {first['depth']}, "
        f"{first['neighbours']} neighbours each",
        fontsize=10,
    )
    return figure


def markers_of(lines: list[results.Line]) -> dict[str, str]:
    """Setting of the algorithm -> marker."""
    names = list(dict.fromkeys(line["criterion"] for line in lines))
    if set(names) <= set(MARKERS):
        return MARKERS
    return {name: SPARE[k % len(SPARE)] for k, name in enumerate(names)}


def _draw_points(panel: Axes, line: results.Line, markers: dict[str, str]) -> None:
    claimed, loss = line["claimed_epsilon"], line["largest_loss"]
    style = {
        "marker": markers[line["criterion"]],
        "color": CALIBRATIONS[line["calibration"]],
        "markersize": 7,
    }
    panel.plot(claimed, loss, linestyle="", **style)
    if line["worst_step_ratio"]:
        worst = claimed * line["worst_step_ratio"]
        panel.plot(claimed, worst, linestyle="", fillstyle="none", **style)


def _add_legend(figure: Figure, panel: Axes, markers: dict[str, str]) -> None:
    for calibration, colour in CALIBRATIONS.items():
        words = f"{calibration}: largest loss of a transcript"
        panel.plot([], [], "o", color=colour, label=words)
        words = f"{calibration}: claim x worst step / its line"
        panel.plot([], [], "o", color=colour, fillstyle="none", label=words)
    for name, marker in markers.items():
        panel.plot([], [], marker, color="grey", linestyle="", label=WORDS.get(name, name))
    handles = panel.get_legend_handles_labels()
    figure.legend(*handles, frameon=False, fontsize=8, loc="outside lower center", ncols=3)
