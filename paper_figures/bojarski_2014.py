"""Figures and tables of Bojarski et al. (2014)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpbt.owners.cli.parsing import InputError
from experiments.common import aggregated
from experiments.common.results import Line, columns, distinct, where
from paper_figures.style import (
    CALIBRATIONS,
    DASHES,
    MARKERS,
    PAPER,
    THREE,
    finish,
    legend_below,
    make_sheet,
    ordered_style,
)

NAME = "bojarski_2014"
HEIGHTS = (8, 12)
"""The heights of panel c; the text does not say which are drawn."""

NUMBERED = (
    *("mushroom", "adult", "banknote", "transfusion"),
    *("voting", "mammographic", "covertype", "quantum"),
)
"""Data sets in the order of their figures: 1 and 2, 3 and 4, ..."""
RULES: dict[str, dict[str, Any]] = {
    voting: {"color": shade, "marker": marker}
    for voting, shade, marker in zip(
        ("majority", "threshold", "probabilistic"), THREE, MARKERS, strict=False
    )
}
"""Voting rule -> how it is drawn."""

BOTH = {"majority": "-", "threshold": "--"}
"""The dashes of the rules of the last panel."""

LARGER_CLASS = {
    "mushroom": 0.48203,
    "adult": 0.24081,
    "banknote": 0.44461,
    "transfusion": 0.23797,
    "voting": 0.38621,
    "mammographic": 0.46306,
    "covertype": 0.4864,
}
"""Data set -> the error of the larger class, over the rows that the experiment uses."""

NEAR = 0.01
"""How far from that error a curve may be that hardly differs from it."""


def series() -> dict[str, Figure]:
    """Figures 1 to 14: test error by height, number of trees and eta, one figure for a data set.

    The figures have the data sets' names. Each data set has two figures in the paper, of four and
    of two panels; here they are one. The panels have the numbers of the 2013 draft. The 2014 text
    shows banknote, voting, mammographic and mushroom together as Figures 1 and 2.

    Private leaves read negative counts as 0. Bounds are drawn where they are below one half; they
    hold for the training rows.

    Raises:
        InputError: if there is no series.
    """
    saved = aggregated.result_names(NAME)
    names = [name for name in NUMBERED if name in saved]
    if not names:
        raise InputError(f"there is no series; run: python -m experiments {NAME} aggregate")
    return {
        name: draw_figure(
            read_series(name), read_series(f"{name}_eta") if f"{name}_eta" in saved else []
        )
        for name in names
    }


SELECTED = ("banknote", "voting", "mammographic", "mushroom")
"""The data sets that Figures 1 and 2 of the 2014 text show."""


def fig1() -> Figure:
    """Figure 1 of the 2014 text: error by height and by number of trees, on its four data sets.

    A row of panels for each data set.

    Raises:
        InputError: if a series has not been aggregated.
    """
    figure, panels = make_sheet(4, 4, 8.2, sharey="row")
    titles = ("a: by height", "b: majority, all k", "c: by number of trees", "d: majority, all h")
    for row, name in zip(panels, SELECTED, strict=True):
        grid = read_series(name)
        _draw_grid_panels(row, grid)
        for panel in row:
            panel.axhline(LARGER_CLASS[name], color="black", linewidth=0.8, zorder=1)
            panel.set_ylim(bottom=0)
        row[0].set_ylabel(f"{name}\ntest error")
    for panel, title in zip(panels[0], titles, strict=True):
        panel.set_title(title)
    for row in panels[:-1]:
        for panel in row:
            panel.set_xlabel("")
    first, second, third = (panel.get_legend_handles_labels() for panel in panels[0, :3])
    handles_by_words = {}
    for handles, words in (first, third, second):
        handles_by_words |= dict(zip(words, handles, strict=True))
    for panel in panels.flat:
        panel.get_legend().remove()
    figure.legend(
        handles_by_words.values(), handles_by_words.keys(), loc="outside lower center", ncols=6
    )
    figure.suptitle(
        "private forests at eta = 1000 / n_train, mean of ten runs; a and c: rules by k or h; "
        "b and d:\nsmallest, mean and largest error of majority voting; black: the larger class"
    )
    return figure


def fig2() -> Figure:
    """Figure 2 of the 2014 text: error by eta, and by number of trees, on its four data sets.

    A row of panels for each data set.

    Raises:
        InputError: if a series has not been aggregated.
    """
    figure, panels = make_sheet(4, 2, 8.4, sharey="row")
    for row, name in zip(panels, SELECTED, strict=True):
        _draw_eta_panels(row, read_series(f"{name}_eta"), 2)
        for panel in row:
            panel.axhline(LARGER_CLASS[name], color="black", linewidth=0.8, zorder=1)
            panel.set_ylim(bottom=0)
        row[0].set_ylabel(f"{name}\ntest error")
        row[0].get_legend().remove()
    for row in panels[1:]:
        for panel in row:
            panel.set_title("")
    for row in panels[:-1]:
        row[1].set_xlabel("")
        row[0].set_xlabel("")
    places: Any = ("outside lower left", "outside lower right")
    for panel, place, wide in zip(panels[1], places, (2, 4), strict=True):
        handles, words = panel.get_legend_handles_labels()
        figure.legend(handles, words, loc=place, ncols=wide)
    figure.suptitle(
        "mean of ten runs; colours of b: eta n_train; black line: the larger class; "
        "crosses: bounds below one half"
    )
    return figure


def read_series(name: str) -> list[Line]:
    """The lines of a series; `least_bound` is NaN where no bound is proved."""
    lines, nothing = aggregated.read_result(NAME, name), {"least_bound": float("nan")}
    return [line if line["least_bound"] is not None else line | nothing for line in lines]


def draw_figure(grid: list[Line], by_eta: list[Line]) -> Figure:
    """The panels of one data set: its grid at eta = 1000 / n_train, and its series by eta."""
    figure, panels = make_sheet(3 if by_eta else 2, 2, 8.6 if by_eta else 5.6)
    private = [line for line in grid if line["private"]]
    setting = grid[0]
    first = 2 * NUMBERED.index(setting["dataset"]) + 1
    _draw_grid_panels(panels[:2].flat, grid)
    titles = (
        *("a: error by height", "b: majority voting, over all k"),
        *("c: error by number of trees", "d: majority voting, over all h"),
    )
    for panel, title in zip(panels[:2].flat, titles, strict=True):
        panel.set_title(f"{first}{title}")
    if by_eta:
        _draw_eta_panels(panels[2], by_eta, first + 1)
        legend_below(figure, panels[2, 1], 4, title=f"{first + 1}b: eta n_train, rules, bounds")
    top = max(line["test_error"] for line in grid + by_eta)
    error = LARGER_CLASS.get(setting["dataset"])
    for panel in panels.flat:
        panel.set_ylim(0, 1.4 * top)  # with room for a legend
        if error is not None:
            panel.axhline(error, color="black", linewidth=0.8, zorder=1)
    for panel in panels[:, 0]:
        panel.set_ylabel("test error")
    for panel in panels[:2].flat:
        panel.xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle("\n".join(_heading_lines(setting, private, grid + by_eta, first)))
    return figure


def _draw_grid_panels(panels: Iterable[Axes], grid: list[Line]) -> None:
    """Panels a to d of the first figure."""
    private = [line for line in grid if line["private"]]
    heights, trees = distinct_values(private, "height"), distinct_values(private, "trees")
    few = sorted({trees[0], trees[len(trees) // 4], trees[-1]})
    two = [height for height in HEIGHTS if height in heights] or heights[-1:]
    first, second, third, last = panels
    draw_by_rule(first, private, "height", "trees", few, "k")
    draw_spread(second, private, "height")
    draw_by_rule(third, private, "trees", "height", two, "h")
    draw_spread(last, private, "trees")
    for panel in (first, second):
        finish(panel, xlabel="height h")
    for panel in (third, last):
        finish(panel, xlabel="trees k")


def _heading_lines(
    setting: Line, private: list[Line], all_lines: list[Line], first: int
) -> list[str]:
    """What a figure shows, and what its curves and the theorems do not say."""
    words = [
        f"{setting['dataset']}: {setting['rows']} rows, {setting['attributes']} attributes, "
        f"mean of {setting['runs']} runs; {first}a to {first}d at eta = 1000 / n_train = "
        f"{private[0]['eta']:.3g}"
    ]
    error = LARGER_CLASS.get(setting["dataset"])
    if error is not None:
        flat = [line["test_error"] for line in private if line["voting"] != "probabilistic"]
        words.append(f"black line: the larger class, {error:.3f}")
        if max(abs(test_error - error) for test_error in flat) < NEAR:
            words[-1] += f"; majority and threshold averaging stay within {NEAR} of it there"
    return [*words, *bound_lines(all_lines)]


def _draw_eta_panels(panels: Sequence[Axes], by_eta: list[Line], number: int) -> None:
    """Panels a and b of the second figure."""
    draw_by_budget(panels[0], by_eta)
    title = f"{number}a: error by eta, k chosen on validation rows"
    finish(panels[0], title=title)
    tall = distinct_values(by_eta, "height")[-1]
    draw_by_trees(panels[1], [line for line in by_eta if line["height"] == tall])
    title = f"{number}b: error by number of trees, h = {tall:.0f}"
    finish(panels[1], title=title, xlabel="trees k")


def distinct_values(lines: Iterable[Line], key: str) -> list[float]:
    """The distinct values of a column, in increasing order."""
    return sorted({line[key] for line in lines})


def draw_curve(panel: Axes, lines: Iterable[Line], key: str, **style) -> None:
    """Test error by a column."""
    by_key = sorted(lines, key=lambda line: line[key])
    panel.plot(*columns(by_key, key, "test_error"), **style)


def draw_by_rule(
    panel: Axes,
    lines: list[Line],
    key: str,
    other_key: str,
    other_values: Sequence[float],
    symbol: str,
) -> None:
    """Panels a and c of the first figure: a curve for each voting rule and value of `other_key`."""
    for value, dash in zip(other_values, DASHES, strict=False):
        for voting, style in RULES.items():
            of_curve = where(lines, **{other_key: value}, voting=voting)
            draw_curve(panel, of_curve, key, linestyle=dash, markersize=3, linewidth=1, **style)
        panel.plot([], [], color="grey", linestyle=dash, label=f"{symbol} = {value:.0f}")
    for voting, style in RULES.items():
        panel.plot([], [], label=voting, **style)
    _add_legend(panel)


def draw_spread(panel: Axes, lines: list[Line], key: str) -> None:
    """Panels b and d of the first figure: smallest, mean and largest error of majority voting."""
    places = distinct_values(lines, key)
    majority = where(lines, voting="majority")
    errors = [[line["test_error"] for line in majority if line[key] == place] for place in places]
    measures: dict[str, Callable] = {"largest": np.max, "mean": np.mean, "smallest": np.min}
    for k, (words, measure) in enumerate(measures.items()):
        style: dict[str, Any] = {"color": THREE[0], "linestyle": DASHES[k]}
        panel.plot(
            places, [measure(errors_at_place) for errors_at_place in errors], label=words, **style
        )
    _add_legend(panel)


def draw_by_budget(panel: Axes, lines: list[Line]) -> None:
    """Panel a of the second figure: the k of least validation error, by eta and without privacy."""
    finite = [eta for eta in distinct_values(lines, "eta") if np.isfinite(eta)]
    unit = num_train_of(lines)
    places = [eta * unit for eta in (*finite, 4 * finite[-1])]
    for k, height in enumerate(distinct_values(lines, "height")):
        dash, fill = DASHES[k], "none" if k else "full"
        for voting, style in RULES.items():
            of_curve = where(lines, height=height, voting=voting)
            best = {
                eta: min(where(of_curve, eta=eta), key=lambda line: line["validation_error"])
                for eta in distinct(of_curve, "eta")
            }
            errors = [best[eta]["test_error"] for eta in finite]
            panel.plot(places[:-1], errors, linestyle=dash, fillstyle=fill, **style)
            if np.inf in best:
                panel.plot(places[-1], best[np.inf]["test_error"], fillstyle=fill, **style)
        words = f"h = {height:.0f}"
        panel.plot([], [], color="grey", linestyle=dash, marker="o", fillstyle=fill, label=words)
    for voting, style in RULES.items():
        panel.plot([], [], label=voting, **style)
    _add_legend(panel)
    names = [f"{place:.0f}" for place in places[:-1]]
    finish(panel, xlabel="eta n_train", xscale="log")
    panel.set_xticks(places, [*names, "no\nprivacy"])
    panel.minorticks_off()


def draw_by_trees(panel: Axes, lines: list[Line]) -> None:
    """Panel b of the second figure: majority (solid), threshold (dashed), bounds below one half."""
    budgets, unit = distinct_values(lines, "eta"), num_train_of(lines)
    for k, eta in enumerate(budgets):
        words = f"{eta * unit:.0f}" if np.isfinite(eta) else "no privacy"
        shade = ordered_style(k, len(budgets))["color"]
        for voting, dash in BOTH.items():
            of_curve = where(lines, eta=eta, voting=voting)
            step = max(len(of_curve) // 5, 1)
            style: dict[str, Any] = {"color": shade, "linestyle": dash, "linewidth": 0.8}
            if voting == "majority":
                style |= {"marker": MARKERS[k % len(MARKERS)], "markevery": (k % step, step)}
                style |= {"markeredgecolor": "black", "markeredgewidth": 0.5, "label": words}
            draw_curve(panel, of_curve, "trees", **style)
            proved = [line for line in of_curve if line["least_bound"] < 0.5]
            style = {"linestyle": "", "color": "black"}
            style |= {"marker": {"majority": "+", "threshold": "x"}[voting]}
            style |= {"label": f"bound, {voting}" if proved else None}
            panel.plot(*columns(proved, "trees", "least_bound"), **style)
    for voting, dash in BOTH.items():
        panel.plot([], [], color="grey", linestyle=dash, label=voting)


def _add_legend(panel: Axes) -> None:
    """A legend above the curves."""
    panel.legend(ncols=2, loc="upper right", columnspacing=1, labelspacing=0.3)


def num_train_of(lines: list[Line]) -> float:
    """n_train, nine tenths of the rows; figures show eta n_train."""
    return round(0.9 * lines[0]["rows"])


def bound_lines(lines: list[Line]) -> list[str]:
    """Two lines of words: of how many settings Theorems 5.4 to 5.6 and 5.8 say an error < 1/2."""
    sure = lines[0]["sure"]
    printed = [line for line in lines if line["bound"] is not None]
    free = [line for line in lines if line["least_bound"] < 0.5]
    words = [
        f"theorems at the paper's constants: {len(printed)} of {len(lines)} settings have a bound "
        "below 1/2;",
        f"at the best constants, with probability {sure:g}: {len(free)}",
    ]
    if free:
        never_private = not any(line["private"] for line in free)
        words[-1] += f", all {'without' if never_private else 'with or without'} privacy"
    return words


TITLES = {False: "without privacy", True: "eta = 1000 / n_train"}
PUBLISHED, TIGHT = CALIBRATIONS.values()


def table1() -> Figure:
    """Table 1: errors of random forests with and without privacy, the paper's and ours.

    A panel for each voting rule, without and with privacy.

    Raises:
        InputError: if the table has not been aggregated.
    """
    lines = aggregated.read_result(NAME, "table_1")
    names = distinct(lines, "dataset")
    turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    figure, panels = make_sheet(2, 2, 4.6, sharex=True)
    for row, private in zip(panels, TITLES, strict=True):
        for panel, rule in zip(row, BOTH, strict=True):
            _draw_errors(panel, where(lines, private=private, voting=rule), private)
            panel.set_xticks(range(len(names)), names, **turned)
            finish(panel, title=f"{rule}, {TITLES[private]}")
    for panel in panels[:, 0]:
        panel.set_ylabel("test error, %")
    legend_below(figure, panels[1, 1], 3)
    words = "mean of ten runs; k, h of forests chosen on validation rows; 95 % binomial intervals"
    figure.suptitle(words)
    return figure


def _draw_errors(panel: Axes, lines: list[Line], private: bool) -> None:
    """Printed errors, ours with negative counts as 0, and ours as printed."""
    error, half, paper_error, paper_half = columns(
        lines, "error", "interval", "paper_error", "paper_interval"
    )
    places = np.arange(len(lines))
    style: dict[str, Any] = {"linestyle": "", "color": PAPER, "marker": "*", "markersize": 6}
    panel.errorbar(places - 0.2, paper_error, paper_half, label="printed", **style)
    words = "ours, negative counts as 0" if private else "ours"
    panel.errorbar(places, error, half, color=TIGHT, marker="s", label=words, linestyle="")
    if private:
        (letter,), words = columns(lines, "as_printed"), "ours, Algorithm 2 as printed"
        panel.plot(places + 0.2, letter, color=PUBLISHED, marker="o", label=words, linestyle="")
