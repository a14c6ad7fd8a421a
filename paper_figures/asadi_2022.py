"""Figures and tables of Asadi et al. (2022)."""

import itertools
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from dpbt.owners.cli.parsing import InputError
from experiments.common import aggregated
from experiments.common.results import Line, columns, distinct, where
from paper_figures.style import (
    CALIBRATION_MARKERS,
    CALIBRATIONS,
    DASHES,
    GREEN,
    PAPER,
    PURPLE,
    SKY,
    WITHOUT,
    bar_style,
    calibration_style,
    finish,
    keys_in_words,
    legend_below,
    make_sheet,
)

NAME = "asadi_2022"
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 5)


RIVALS = {
    "dp-lr": ("DP-LR, tuned (diffprivlib)", GREEN, "v"),
    "dp-boost": ("DP-Boost", PURPLE, "P"),
    "dp-bag": ("DP-Bag", SKY, "X"),
}
"""Private method of the paper -> words, colour and marker."""

LEVELS = {"boosting": ("boosted trees, no privacy", "--"), "one rule": ("one 1-rule", ":")}
"""Method without privacy -> words and dash."""


def draw_baselines(panel: Axes, dataset: str, protocol: str) -> None:
    """Draw what stands beside LazyBB, where it has been measured."""
    try:
        lines = aggregated.read_result(NAME, "baselines")
    except InputError:
        return
    of_protocol = where(lines, dataset=dataset, protocol=protocol)
    for method, (words, dash) in LEVELS.items():
        for line in where(of_protocol, method=method):
            style = {"color": WITHOUT, "linestyle": dash, "linewidth": 1}
            panel.axhline(line["accuracy_mean"], label=words, **style)


def draw_rivals(panel: Axes, dataset: str) -> None:
    """Draw the paper's private rivals, where they have been measured."""
    try:
        lines = where(aggregated.read_result(NAME, "rivals"), dataset=dataset)
    except InputError:
        return
    for method, (words, shade, marker) in RIVALS.items():
        style: dict[str, Any] = {"color": shade, "marker": marker, "linewidth": 1}
        of_method = where(lines, method=method)
        if of_method:
            _draw_accuracies(panel, of_method, label=words, linestyle="-.", **style)
        else:
            panel.plot([], [], label=words, linestyle="-.", **style)


def draw_by_epsilon(panel: Axes, lines: list[Line], calibration: str, words: str, **style) -> None:
    """Draw the mean accuracy with its standard deviation over keys."""
    of_calibration = where(lines, calibration=calibration)
    _draw_accuracies(
        panel, of_calibration, label=words, **{**calibration_style(calibration), **style}
    )


def _draw_accuracies(panel: Axes, lines: list[Line], **style) -> None:
    x, mean, sd = columns(lines, "epsilon", "accuracy_mean", "accuracy_sd")
    panel.errorbar(x, mean, yerr=sd, **style)


def set_epsilon_axis(panel: Axes, **properties) -> None:
    """Make the axis of epsilon logarithmic, with ticks at the paper's values."""
    finish(panel, xscale="log", xlabel="epsilon", **properties)
    panel.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    panel.minorticks_off()


def fig1() -> Figure:
    """Figure 1: the advantage of each round on Adult, and the histogram of margins.

    A line for each calibration: the mean over keys, between the least and the most.

    Raises:
        InputError: if the advantages have not been aggregated.
    """
    advantages, histogram = (
        aggregated.read_result(NAME, "advantages"),
        aggregated.read_result(NAME, "histogram"),
    )
    setting = advantages[0]
    figure, (left, right) = make_sheet(1, 2, 3)
    for k, (name, shade) in enumerate(CALIBRATIONS.items()):
        of_calibration = where(advantages, calibration=name)
        rounds, mean, smallest, most = columns(of_calibration, "round", "mean", "least", "most")
        left.plot(rounds, mean, color=shade, linestyle=DASHES[k], linewidth=0.9, label=name)
        shade_words = f"{name}, smallest to largest"
        left.fill_between(
            rounds, smallest, most, color=shade, alpha=0.15, linewidth=0, label=shade_words
        )
        bars = where(histogram, calibration=name)
        width = (bars[0]["high"] - bars[0]["low"]) / 2
        places = [line["low"] + k * width for line in bars]
        shares = [100 * line["share"] for line in bars]
        right.bar(places, shares, width, align="edge", label=name, **bar_style(k))
    most = max(abs(bar[end]) for bar in histogram if bar["share"] for end in ("low", "high"))
    gamma = setting["gamma"]
    left.axhline(gamma, color="black", linewidth=0.8, label=f"gamma = {gamma:g}")
    left.axhline(0, color="0.7", linewidth=0.8)
    left.axvline(250, color="black", linewidth=0.8, linestyle=":", label="the text's 250 rounds")
    legend_below(figure, left, 3)
    right.legend()
    right.xaxis.set_major_locator(MultipleLocator(0.2))
    finish(left, xlabel="round", ylabel="advantage, mean over keys")
    finish(right, xlabel="margin y H / T of training rows", ylabel="% of rows", xlim=(-most, most))
    figure.suptitle(
        f"LazyBB with 1-rules on Adult: epsilon = {setting['epsilon']:g}, "
        f"kappa = {setting['density']:g}, "
        f"lambda = gamma / 4, T = {setting['rounds']}, {keys_in_words(advantages)}"
    )
    return figure


def fig2() -> Figure:
    """Figures 2 and 3: pure and approximate privacy on Adult, by epsilon.

    A panel for each figure; lines with a delta are dashed.

    Raises:
        InputError: if the series have not been saved.
    """
    figure, panels = make_sheet(1, 2, 3.9)
    titles = (
        "Figure 2: kappa = lambda = 1/4, T = 99",
        "Figure 3: settings of Table 8 (selected for delta = 0)",
    )
    series = [aggregated.read_result(NAME, name) for name in ("fig2", "fig3")]
    for panel, lines, title in zip(panels, series, titles, strict=True):
        for delta, style in ((0.0, "-"), (1e-5, "--")):
            of_delta = where(lines, delta=delta)
            for calibration in CALIBRATIONS:
                draw_by_epsilon(
                    panel,
                    of_delta,
                    calibration,
                    f"{calibration}, delta = {delta:g}",
                    linestyle=style,
                )
        draw_baselines(panel, lines[0]["dataset"], "folds")
        set_epsilon_axis(panel, title=title)
    panels[0].set_ylabel("cross-validated accuracy, mean and sd over keys")
    legend_below(figure, panels[1], 3)
    all_lines = list(itertools.chain(*series))
    names = " and ".join(distinct(all_lines, "dataset"))
    words = f"{names[0].upper()}{names[1:]}, training rows, LazyBB with 1-rules"
    figure.suptitle(f"{words}; {keys_in_words(all_lines)}")
    return figure


SERIES = {name: (shade, CALIBRATION_MARKERS[name]) for name, shade in CALIBRATIONS.items()}
SERIES |= {"doubled": (GREEN, "^"), "no_privacy": (WITHOUT, ".")}
COUNTS = (5, 10, 20, 50)
WORDS = {"doubled": "published, half of the noise", "no_privacy": "without privacy"}
TABLES = {"adult": "table-5", "cod-rna": "table-6", "mushroom": "table-7"}


def sparsity() -> Figure:
    """Tables 5-7: features that LazyBB with 1-rules uses, by calibration and as printed.

    A panel for each data set.

    Raises:
        InputError: if the counts have not been saved.
    """
    lines = aggregated.read_result(NAME, "sparsity")
    names = distinct(lines, "dataset")
    figure, panels = make_sheet(1, len(names), 2.9, squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        of_data_set = where(lines, dataset=name)
        for (series, (colour, marker)), dash in zip(SERIES.items(), DASHES, strict=False):
            epsilon, count = columns(of_data_set, "epsilon", series)
            style: dict[str, Any] = {"marker": marker, "color": colour, "linestyle": dash}
            panel.plot(epsilon, count, label=WORDS.get(series, series), **style)
        printed = [
            (setting["epsilon"], number)
            for setting, number in aggregated.printed_numbers(NAME, TABLES[name])
        ]
        style = {"color": PAPER, "marker": "*", "linestyle": "", "markersize": 7, "zorder": 5}
        panel.plot(*zip(*printed, strict=True), label="printed in the paper", **style)
        set_epsilon_axis(panel, title=name, yscale="log")
        panel.set_yticks(COUNTS, [str(count) for count in COUNTS])
        panel.minorticks_off()
    panels[0][0].set_ylabel("features used, mean over keys")
    legend_below(figure, panels[0][0], 5)
    figure.suptitle(f"LazyBB with 1-rules, settings of Tables 8-10; {keys_in_words(lines)}")
    return figure


PROTOCOL = {"adult": "its test rows", "cod-rna": "cross-validated", "mushroom": "cross-validated"}


def table2() -> Figure:
    """The plots of Table 2: accuracy of LazyBB with 1-rules by epsilon, on three data sets.

    A panel for each data set: both calibrations at the paper's settings, its rivals, and what it
    prints.

    Raises:
        InputError: if the series has not been saved.
    """
    lines = aggregated.read_result(NAME, "table2")
    names = distinct(lines, "dataset")
    figure, panels = make_sheet(1, len(names), 3.4, squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        of_data_set = where(lines, dataset=name)
        for calibration in CALIBRATIONS:
            draw_by_epsilon(panel, of_data_set, calibration, calibration)
        draw_rivals(panel, name)
        draw_baselines(panel, name, "test" if name == "adult" else "folds")
        for row in ("table-4", "table-11"):
            for setting, number in aggregated.printed_numbers(NAME, row):
                if setting["dataset"] == name:
                    panel.plot(setting["epsilon"], number, "k*", markersize=8, zorder=5)
        panel.plot([], [], "k*", markersize=8, label="printed in the paper")
        set_epsilon_axis(panel, title=f"{name}, {PROTOCOL[name]}")
    panels[0][0].set_ylabel("accuracy, mean and sd over keys")
    legend_below(figure, panels[0][-1], 3)
    words = f"LazyBB with 1-rules, settings of Tables 8-10; {keys_in_words(lines)}, delta = 0"
    try:
        rival_lines = [
            setting
            for setting in aggregated.read_result(NAME, "rivals")
            if setting["dataset"] in names
        ]
    except InputError:
        rival_lines = []
    if rival_lines:
        words += f"; rivals: {keys_in_words(rival_lines)}, where they were run"
    figure.suptitle(words)
    return figure
