"""What the figures of Asadi et al. (2022) share: their folder, and accuracy by epsilon."""

from typing import Any

from matplotlib.axes import Axes

from dpbt.commands.errors import InputError
from experiments.common import aggregated, results
from paper_figures.style import AUTO, PEER, SKY, WITHOUT, finish, line_of

NAME = "asadi_2022"
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 5)


BASELINES = {
    "auto": ("auto", AUTO, "^"),
    "dp-lr": ("DP-LR (diffprivlib)", PEER, "v"),
    "dp-rf": ("random forest (diffprivlib)", SKY, "D"),
}
"""Private method -> words, colour and marker."""

LEVELS = {"boosting": ("boosted trees, no privacy", "--"), "one rule": ("one 1-rule", ":")}
"""Method without privacy -> words and dash."""


def saved(name: str) -> list[results.Line]:
    """The lines of one result.

    Raises:
        InputError: naming the program that aggregates it, if it does not exist.
    """
    return aggregated.read(NAME, name)


def baselines(panel: Axes, dataset: str, protocol: str) -> None:
    """Draw what stands beside LazyBB, where it has been measured."""
    try:
        lines = saved("baselines")
    except InputError:
        return
    own = [line for line in lines if (line["dataset"], line["protocol"]) == (dataset, protocol)]
    for method, (words, shade, marker) in BASELINES.items():
        here = [line for line in own if line["method"] == method]
        if here:
            names = ("epsilon", "accuracy_mean", "accuracy_sd")
            x, mean, sd = ([line[name] for line in here] for name in names)
            style: dict[str, Any] = {"color": shade, "marker": marker}
            panel.errorbar(x, mean, yerr=sd, linestyle="-.", linewidth=1, label=words, **style)
    for method, (words, dash) in LEVELS.items():
        for line in own:
            if line["method"] == method:
                style = {"color": WITHOUT, "linestyle": dash, "linewidth": 1}
                panel.axhline(line["accuracy_mean"], label=words, **style)


def by_epsilon(
    panel: Axes, lines: list[results.Line], calibration: str, words: str, **style
) -> None:
    """Draw the mean accuracy with its standard deviation over keys."""
    own = [line for line in lines if line["calibration"] == calibration]
    names = ("epsilon", "accuracy_mean", "accuracy_sd")
    x, mean, sd = ([line[name] for line in own] for name in names)
    panel.errorbar(x, mean, yerr=sd, label=words, **{**line_of(calibration), **style})


def epsilon_axis(panel: Axes, **properties) -> None:
    """Make the axis of epsilon logarithmic, with ticks at the paper's values."""
    finish(panel, xscale="log", xlabel="epsilon", **properties)
    panel.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    panel.minorticks_off()
