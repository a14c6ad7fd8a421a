"""Figures of `auto` beside other learners: two classes, several, and numbers.

Colours are those of Okabe and Ito, which colour-blind readers tell apart. dpbt's methods have
colours, other libraries are grey, and every method has a marker of its own.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from experiments.common import ranks as standings
from experiments.common import results
from experiments.common.results import Line
from experiments.comparisons import pages
from experiments.comparisons.people_pages import lines_about_others
from experiments.comparisons.task import FRESH
from paper_figures.style import BLUE, GREEN, ORANGE, PURPLE, SKY, finish

DOCS = Path(__file__).resolve().parents[1] / "docs"
STYLES: dict[str, dict[str, Any]] = {
    "auto": {"color": ORANGE, "marker": "o", "linewidth": 2.6, "markersize": 6, "zorder": 5},
    "additive": {"color": ORANGE, "marker": "d", "linestyle": ":"},
    "dp-logistic": {"color": "black", "marker": "<"},
    "naive-bayes": {"color": "black", "marker": ">", "linestyle": "--"},
    "adassp": {"color": "0.4", "marker": "h"},
    "dp-net": {"color": "0.4", "marker": "p", "linestyle": "-."},
    "mst": {"color": GREEN, "marker": "1", "markeredgecolor": GREEN, "linestyle": ":"},
    "mst-by-class": {"color": GREEN, "marker": "2", "markeredgecolor": GREEN, "linestyle": "--"},
    "bdpe-tight": {"color": BLUE, "marker": "s"},
    "bdpe-published": {"color": SKY, "marker": "D", "linestyle": "--"},
    "lazybb": {"color": GREEN, "marker": "^"},
    "forest": {"color": PURPLE, "marker": "v"},
    "dp-ebm": {"color": "0.25", "marker": "X"},
    "s-bdt": {"color": "0.25", "marker": "3", "markeredgecolor": "0.25", "linestyle": "--"},
    "privatree": {"color": "0.5", "marker": "4", "markeredgecolor": "0.5", "linestyle": ":"},
    "diffprivlib-forest": {"color": "0.5", "marker": "P"},
    "diffprivlib-logistic": {"color": "0.65", "marker": "*", "markersize": 7},
    "diffprivlib-bayes": {"color": SKY, "marker": "s"},
    "diffprivlib-linear": {"color": "0.65", "marker": "*", "markersize": 7},
}
"""Private method -> its line."""

PURE_STYLE: dict[str, Any] = {
    "linestyle": "--",
    "markerfacecolor": "white",
    "markeredgecolor": ORANGE,
}
"""How the pure line of `auto` differs where its lines of all deltas share a panel."""

LEVELS: dict[str, dict[str, Any]] = {
    "boosting": {"color": "black", "linestyle": "-", "linewidth": 0.9},
    "auto-without-noise": {"color": ORANGE, "linestyle": "--", "linewidth": 1.1},
    "random-forest": {"color": "black", "linestyle": "-.", "linewidth": 0.9},
    "larger-class": {"color": "black", "linestyle": ":", "linewidth": 1.1},
    "mean": {"color": "black", "linestyle": ":", "linewidth": 1.1},
    "median": {"color": "0.5", "linestyle": ":", "linewidth": 1.1},
}
"""Method without privacy -> its horizontal line."""

WORDS = {
    "boosting": "boosting, no privacy",
    "random-forest": "random forest, no privacy",
    "auto-without-noise": "auto, no noise",
    "larger-class": "larger class",
}
RANKS = {"auroc_mean": "mean rank by AUROC", "accuracy_mean": "mean rank by accuracy"}
MEASURES = {"auroc": "AUROC", "accuracy": "test error"}
"""Measure -> the label of its axis."""

MIN_DISTANCE, MAX_DISTANCE = 5e-4, 0.6
"""The least distance from perfection that is told apart, and the largest that is shown."""

TICKS = (0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""The distances from perfection that have a tick, where there is room."""

MIN_TICK_DISTANCE = 0.05
"""The least part of an axis between two ticks."""

EXCHANGE_EPSILONS = (5.0, 1.0, 0.1)
"""The epsilons of the first picture of the documentation."""

EPSILONS = (0.08, 6.2)
"""The epsilons that are shown of several classes and of numbers."""


def read_lines(command: str, folder: Path | None) -> list[Line]:
    """The saved lines of a command, or those of its summary in docs/.

    Args:
        command: its name.
        folder: the folder of the results; by default that of the working folder.

    Raises:
        InputError: if there is neither.
    """
    path = (folder or results.results_folder(command)) / f"{command}.csv"
    return results.read_csv(path if path.exists() else DOCS / path.name, command)


def curves(folder: Path | None = None) -> dict[str, Figure]:
    """AUROC and test error by epsilon, one figure for each data set.

    Both axes are logarithmic in the distance from perfection, because good methods differ little
    there. A column is a delta, and a row a measure.

    Raises:
        InputError: if nothing has been saved.
    """
    lines = read_lines("frontier", folder)
    names = dict.fromkeys(line["dataset"] for line in lines)
    return {
        name: _draw_data_set([line for line in lines if line["dataset"] == name]) for name in names
    }


def _draw_data_set(lines: list[Line]) -> Figure:
    lines = [line for line in lines if line["method"] in STYLES or line["method"] in LEVELS]
    deltas = sorted({line["delta"] for line in lines if line["delta"] is not None})
    figure, panels = _make_panels(len(MEASURES), len(deltas), sharey="row")
    for row, measure in zip(panels, MEASURES, strict=True):
        distances = []
        for panel, delta in zip(row, deltas, strict=True):
            distances += _draw_frontier(panel, lines, measure, delta)
        _set_distance_axis(row[0], distances, measure)
    _set_delta_titles(panels, deltas)
    for panel in panels.flat:
        panel.label_outer()

    add_legend(figure, [*STYLES, *WORDS.values()])
    first = lines[0]
    words = f"{first['dataset']}: {first['rows']} training rows at most"
    figure.suptitle(f"{words}, mean of {_format_splits(lines)} splits", fontsize=10)
    return figure


def _draw_frontier(panel: Axes, lines: list[Line], measure: str, delta: float) -> list[float]:
    """Draw a measure against epsilon, a line for each method; the distances from perfection."""
    lines_at_delta, distances = standings.lines_that_hold(lines, delta), []
    for method, style in STYLES.items():
        of_method = sorted(
            (one for one in lines_at_delta if one["method"] == method),
            key=lambda one: one["epsilon"],
        )
        y = [max(1 - one[f"{measure}_mean"], MIN_DISTANCE) for one in of_method]
        if of_method:
            _draw_curve(panel, [one["epsilon"] for one in of_method], y, label=method, **style)
        distances += y
    for line in (one for one in lines if one["epsilon"] is None):
        y, words = max(1 - line[f"{measure}_mean"], MIN_DISTANCE), WORDS.get(line["method"])
        panel.axhline(y, label=words or line["method"], zorder=1, **LEVELS[line["method"]])
        distances.append(y)
    _set_epsilon_axis(panel, [one["epsilon"] for one in lines_at_delta])
    return distances


def _draw_curve(panel: Axes, x: Sequence[Any], y: Sequence[float], **style: Any) -> None:
    """Draw the line of a private method."""
    defaults = {
        "linewidth": 1.2,
        "markersize": 5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
    }
    panel.plot(x, y, **{**defaults, **style})


def _set_epsilon_axis(panel: Axes, epsilons: Sequence[float]) -> None:
    """Make the horizontal axis logarithmic, with epsilons as ticks where there is room."""
    finish(panel, xscale="log", xlabel="epsilon")
    ticks = sorted(set(epsilons))
    shown_ticks = _ticks_with_room(ticks, ticks[0], ticks[-1])
    panel.set_xticks(shown_ticks, [f"{tick:g}" for tick in shown_ticks])
    panel.minorticks_off()


def _set_distance_axis(panel: Axes, distances: Sequence[float], measure: str) -> None:
    """Make the vertical axis logarithmic, with ticks in the measure's own numbers."""
    low, high = 0.8 * min(distances), min(MAX_DISTANCE, 1.1 * max(distances))
    ticks = _ticks_with_room([tick for tick in TICKS if low <= tick <= high], low, high)
    upwards = measure == "auroc"
    ends = (high, low) if upwards else (low, high)
    panel.set(yscale="log", ylabel=MEASURES[measure], ylim=ends)
    panel.set_yticks(ticks, [f"{1 - tick:g}" if upwards else f"{tick:g}" for tick in ticks])
    panel.yaxis.set_minor_locator(NullLocator())


def _ticks_with_room(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """The ticks that have room on a logarithmic axis, from the first on."""
    shown_ticks: list[float] = []
    for tick in ticks:
        if not shown_ticks or abs(math.log(shown_ticks[-1] / tick)) > MIN_TICK_DISTANCE * math.log(
            high / low
        ):
            shown_ticks.append(tick)
    return shown_ticks


def ranks(folder: Path | None = None) -> Figure:
    """Mean ranks of the private methods over data sets, by epsilon; not over those about people.

    A column is a delta, and a row a measure. Rank 1 is on top. A method that lacks an epsilon is
    left out.

    Raises:
        InputError: if nothing has been saved.
    """
    lines = [line for line in read_lines("frontier", folder) if line["method"] in STYLES]
    lines = standings.lines_at_every_epsilon(
        [line for line in lines_about_others(lines) if line["dataset"] not in FRESH]
    )
    deltas, epsilons = (sorted({line[name] for line in lines}) for name in ("delta", "epsilon"))
    figure, panels = _make_panels(len(RANKS), len(deltas), sharey=True)
    datasets = set()
    for row, (measure, words) in zip(panels, RANKS.items(), strict=True):
        for panel, delta in zip(row, deltas, strict=True):
            standings_at = {
                epsilon: standings.mean_ranks(lines, epsilon=epsilon, delta=delta, measure=measure)
                for epsilon in epsilons
            }
            datasets |= {standing.datasets for standing in standings_at.values()}
            for method in STYLES:
                x = [epsilon for epsilon in epsilons if method in standings_at[epsilon].by_method]
                if x:
                    y = [standings_at[epsilon].by_method[method].rank for epsilon in x]
                    _draw_curve(panel, x, y, label=method, **STYLES[method])
            _set_epsilon_axis(panel, epsilons)
            panel.grid(axis="y", color="0.9", linewidth=0.8)
        row[0].set_ylabel(words)
    for panel in panels[0]:
        panel.set_xlabel("")
    _set_delta_titles(panels, deltas)
    panels[0, 0].invert_yaxis()  # the axes are shared

    add_legend(figure, STYLES)
    count = "/".join(map(str, sorted(datasets)))
    figure.suptitle(f"private methods over {count} data sets; 1 is best", fontsize=10)
    return figure


def worth(folder: Path | None = None) -> Figure:
    """What `auto` loses to boosting without privacy, and of how many rows that ranks as well.

    The horizontal axis is n mu, or n epsilon without a delta: the strength of the signal. A line is
    a data set. Where no number of rows of boosting ranks as `auto` does, there is no point.

    Raises:
        InputError: if nothing has been saved.
    """
    worths = pages.worth_in_rows(list(read_lines("frontier", folder)))
    deltas = sorted({one.delta for one in worths})
    figure, panels = _make_panels(2, len(deltas), sharey="row")
    names = list(dict.fromkeys(one.dataset for one in worths))
    colors = plt.get_cmap("tab20")(np.linspace(0, 1, len(names)))
    for column, delta in zip(panels.T, deltas, strict=True):
        for name, color, mark in zip(names, colors, itertools.cycle("osD^vP*"), strict=False):
            of_line = [one for one in worths if (one.dataset, one.delta) == (name, delta)]
            of_line.sort(key=lambda one: one.signal)
            style = {"color": color, "marker": mark, "label": name}
            _draw_curve(
                column[0], [e.signal for e in of_line], [100 * e.lost for e in of_line], **style
            )
            of_line = [one for one in of_line if one.within]
            _draw_curve(column[1], [e.signal for e in of_line], [e.rows for e in of_line], **style)
        for panel in column:
            finish(panel, xscale="log", xlabel="n mu" if delta else "n epsilon")
        column[0].axhline(0, color="0.6", linewidth=0.8, zorder=1)
    panels[0, 0].set_ylabel("AUROC below boosting\nwithout privacy, hundredths")
    panels[1, 0].set(yscale="log", ylabel="rows of which boosting without\nprivacy ranks as well")
    _set_delta_titles(panels, deltas)
    add_legend(figure, names)
    figure.suptitle("what an epsilon buys with auto", fontsize=10)
    return figure


def exchange(folder: Path | None = None) -> Figure:
    """What a private model gives up and what people get for it, on a census, in plain words.

    Above are pairs that `auto` with a pure epsilon, and boosting without privacy, rank right: their
    AUROC. Below is how often the best attacker is right who guesses, at even odds, whether a row is
    in the table: e^epsilon / (1 + e^epsilon) at most, as no test of two outputs that are within a
    factor of e^epsilon has smaller errors. Without privacy nothing bounds it.

    Raises:
        InputError: if nothing has been saved.
    """
    lines = [one for one in read_lines("frontier", folder) if one["dataset"] == "adult"]
    private = {
        line["epsilon"]: line["auroc_mean"]
        for line in lines
        if line["method"] == "auto" and line["delta"] == 0
    }
    (public,) = [line["auroc_mean"] for line in lines if line["method"] == "boosting"]
    labels = ["no privacy", *(f"epsilon {epsilon:g}" for epsilon in EXCHANGE_EPSILONS)]
    right_pairs = [public, *(private[epsilon] for epsilon in EXCHANGE_EPSILONS)]
    right_guesses = [1.0, *(1 / (1 + math.exp(-epsilon)) for epsilon in EXCHANGE_EPSILONS)]

    figure, (above, below) = plt.subplots(2, 1, figsize=(5.2, 5.2))
    figure.subplots_adjust(left=0.21, right=0.97, top=0.87, bottom=0.09, hspace=0.78)
    _draw_shares(above, dict(zip(labels, right_pairs, strict=True)), ORANGE)
    _draw_shares(below, dict(zip(labels, right_guesses, strict=True)), BLUE)
    words = "Of 100 pairs of people, how many it ranks right"
    _set_question(above, "What the model gives up", words)
    words = (
        "Of 100 guesses whether somebody is in the table,\nhow many an attacker gets right at most"
    )
    _set_question(below, "What the people get", words)
    return figure


def _draw_shares(panel: Axes, shares: Mapping[str, float], color: str) -> None:
    """Draw a bar for each share above a half, the first in grey, with how many of 100 it is."""
    places = range(len(shares))
    lengths = [100 * share - 50 for share in shares.values()]
    panel.barh(places, lengths, left=50, color=["0.55", *[color] * (len(shares) - 1)])
    for place, length in zip(places, lengths, strict=True):
        panel.text(50.7 + length, place, f"{50 + length:.0f}", va="center", fontsize=12)
    finish(panel, xlim=(50, 106))
    panel.set_yticks(places, list(shares), fontsize=11)
    panel.invert_yaxis()
    panel.set_xticks([50, 75, 100], ["50\na coin", "75", "100\nalways"], fontsize=10)


def _set_question(panel: Axes, title: str, question: str) -> None:
    """Write a title and a question above a panel, from the left end of the figure on."""
    figure, top = panel.figure, panel.get_position().y1 + 0.01
    figure.text(0.02, top, question, fontsize=10.5, va="bottom")
    title_place = top + 0.01 + 0.037 * len(question.splitlines())
    figure.text(0.02, title_place, title, fontsize=13, weight="bold")


def _make_panels(rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
    """Panels for measures and deltas."""
    size = (4.4 * columns, 6.4)
    options |= {"sharex": True, "squeeze": False, "layout": "constrained"}
    return plt.subplots(rows, columns, figsize=size, **options)


def _set_delta_titles(panels: Any, deltas: Sequence[float]) -> None:
    for panel, delta in zip(panels[0], deltas, strict=True):
        words = f"delta = {delta:g}" if delta else "pure (delta = 0)"
        panel.set_title(words, fontsize=10)


def _format_splits(lines: Sequence[Line]) -> str:
    return "/".join(map(str, sorted({line["splits"] for line in lines})))


Value = Callable[[Line, Line], float | None]
"""(a line, the line of the data set's plain method) -> what is drawn, or None."""


def _ratio(column: str) -> Value:
    return lambda line, base: line[column] / base[column]


def _relative_error(line: Line, base: Line) -> float:
    return (1 - line["accuracy_mean"]) / (1 - base["accuracy_mean"])


BY_DATASET: dict[str, tuple[str, dict[str, Value]]] = {
    "classes": (
        "larger-class",
        {
            "AUROC, one class against the rest": lambda line, base: line["auroc_mean"],
            "error / that of the larger class": _relative_error,
        },
    ),
    "regression": (
        "mean",
        {
            "RMSE / that of the mean": _ratio("rmse_mean"),
            "MAE / that of the mean": _ratio("mae_mean"),
        },
    ),
}
"""Command -> the plain method to which values refer; and the words of a row -> its values."""


def classes() -> Figure:
    """AUROC and test error for several classes, by epsilon; a column for each data set.

    Raises:
        InputError: if nothing has been saved.
    """
    figure = draw_by_dataset("classes")
    columns = len(figure.axes) // 2
    figure.axes[columns].set_ylim(0, 1.5)  # hides what is far worse than the larger class
    return figure


def regression() -> Figure:
    """Errors of predicted numbers, by epsilon; a column for each data set.

    Errors are relative to those of the mean of the training rows.

    Raises:
        InputError: if nothing has been saved.
    """
    figure = draw_by_dataset("regression")
    for panel in figure.axes:
        panel.set_ylim(0.5, 1.3)
    return figure


def draw_by_dataset(command: str, folder: Path | None = None) -> Figure:
    """A column for each data set, and a row for each measure.

    Other libraries hold at one delta alone, so all private methods share a panel, and `auto` has a
    line for each delta.

    Args:
        command: one of `BY_DATASET`.
        folder: as `read_lines`.
    """
    lines, (plain, values) = read_lines(command, folder), BY_DATASET[command]
    names = list(dict.fromkeys(line["dataset"] for line in lines))
    size = (2.9 * len(names), 2.9 * len(values) + 0.6)
    options: dict[str, Any] = {"sharex": True, "sharey": "row", "squeeze": False}
    figure, panels = plt.subplots(
        len(values), len(names), figsize=size, layout="constrained", **options
    )
    for column, name in zip(panels.T, names, strict=True):
        of_data_set = [line for line in lines if line["dataset"] == name]
        base = next(line for line in of_data_set if line["method"] == plain)
        for panel, value in zip(column, values.values(), strict=True):
            _draw_panel(panel, of_data_set, base, value)
        column[0].set_title(f"{name}, {base['rows']} training rows", fontsize=9)
    for row, words in zip(panels, values, strict=True):
        row[0].set_ylabel(words)
    for panel in panels[:-1].flat:
        panel.set_xlabel("")

    add_legend(figure, ["auto, delta", "auto, pure", *STYLES, *WORDS.values(), *LEVELS])
    figure.suptitle(f"mean of {_format_splits(lines)} splits", fontsize=10)
    return figure


def _draw_panel(panel: Axes, lines: Sequence[Line], base: Line, value: Value) -> None:
    for method in STYLES:
        for delta in sorted({line["delta"] for line in lines if line["method"] == method}):
            of_method = [
                line for line in lines if (line["method"], line["delta"]) == (method, delta)
            ]
            points = [(line["epsilon"], value(line, base)) for line in of_method]
            points = sorted((epsilon, y) for epsilon, y in points if y is not None)
            if not points:
                continue
            x, y = map(list, zip(*points, strict=True))
            changes = {"label": f"auto, {'delta' if delta else 'pure'}"} if method == "auto" else {}
            pure = PURE_STYLE if changes and not delta else {}
            _draw_curve(panel, x, y, **{"label": method, **STYLES[method], **changes, **pure})
    for line in lines:
        level = value(line, base) if line["method"] in LEVELS else None
        if level is not None:
            words = WORDS.get(line["method"], line["method"])
            panel.axhline(level, label=words, zorder=1, **LEVELS[line["method"]])
    epsilons = [float(line["epsilon"]) for line in lines if line["epsilon"] is not None]
    _set_epsilon_axis(panel, epsilons)
    panel.set_xlim(*EPSILONS)


def add_legend(figure: Figure, order: Iterable[str]) -> None:
    """A legend below the panels of all that they show, in an order."""
    handles: Mapping[str, Any] = {}
    for panel in figure.axes:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    names = [name for name in order if name in handles]
    shown_handles = [handles[name] for name in names]
    figure.legend(
        shown_handles, names, frameon=False, fontsize=8, ncols=4, loc="outside lower center"
    )
