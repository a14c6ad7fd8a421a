"""The tables of the pages, from the saved lines; nothing of them is typed.

`experiments.common.pages` says where they stand.
"""

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dpbt.privacy.conversions import gdp_mu
from experiments.common import pages, ranks, results
from experiments.common.cells import Cell
from experiments.common.pages import budgets_of, delta_in_words
from experiments.common.results import Line, distinct, is_clearly_above, standard_error
from experiments.common.tables import markdown_table as table
from experiments.comparisons import challengers, number_pages, people_pages
from experiments.comparisons.task import FRESH, FRONTIER, NUMBERS, TUNING, Task

METHODS_WITHOUT_FIT = ("larger-class", "mean", "median")
"""Methods whose seconds say nothing."""

PRICE_EPSILONS = (0.1, 1.0, 5.0)
TUNED = ("tuned", "tuned-logarithmic", "hindsight")
"""The methods of the tables of tuning, in order."""

MEASURES = {"auroc_mean": (100, 1), "accuracy_mean": (100, 1), "log_loss_mean": (1, 3)}
"""Measure -> (factor, digits) in which its differences are shown."""

NOTHING = "Not measured yet."


def pages_of_task(task: Task) -> pages.Pages:
    """What the task's command writes."""
    page_tables: dict[str, pages.Table] = {"origin": pages.origin_table}
    if task is TUNING:
        page_tables["datasets"] = functools.partial(_tuning_table, "auroc_mean")
        page_tables["losses"] = functools.partial(_tuning_table, "log_loss_mean")
        page_tables["summary"] = _tuning_summary_table
    elif task is NUMBERS:
        page_tables |= number_pages.TABLES
    else:
        page_tables |= {name: functools.partial(make, task) for name, make in _TABLES.items()}
    if task is FRONTIER:
        tables_of_fresh = {
            f"fresh-{name}": _table_of_data_sets(page_tables[name], fresh=True)
            for name in ("ranks", "datasets")
        }
        page_tables |= {"price": _price_table, "worth": _worth_table, "grids": _grid_gain_table}
        page_tables = {
            name: _table_of_data_sets(make, fresh=False) for name, make in page_tables.items()
        }
        page_tables |= {
            **tables_of_fresh,
            "origin": pages.origin_table,
            "behind": _table_without_people(_behind_table),
            "unranked": _table_without_people(_unranked_table),
            "people": people_pages.summary_table,
            "people-behind": people_pages.behind_table,
            "people-datasets": people_pages.data_sets_table,
        }
    origin_columns = ("splits", "bins", "rows", "library", "commit", "jax", "device")
    order = pages.sort_key(list(task.defaults["dataset"]), list(task.methods))
    return pages.Pages(
        task.name, page_tables, (*task.keys, *origin_columns), f"{task.name}.csv", order
    )


def _table_of_data_sets(make: pages.Table, *, fresh: bool) -> pages.Table:
    """The table of fresh data sets alone, or of the others; none of them about people."""
    return _table_without_people(
        lambda lines: make([line for line in lines if (line["dataset"] in FRESH) == fresh])
    )


def _table_without_people(make: pages.Table) -> pages.Table:
    """The table of all data sets but those about people, which have tables of their own."""
    return lambda lines: make(people_pages.lines_about_others(lines))


def _lines_of_default_methods(task: Task, lines: Sequence[Line]) -> list[Line]:
    """The lines of the methods that are measured by default."""
    return [line for line in lines if line["method"] in task.defaults["methods"]]


def _setting_table(task: Task, lines: Sequence[Line]) -> str:
    """The settings of all methods, with the grids of those that have one."""
    return pages.setting_table([*_lines_of_default_methods(task, lines), *_lines_of_best(lines)])


def _lines_of_best(lines: Sequence[Line]) -> list[Line]:
    """The lines of the best of a grid, chosen on test rows; no owner can choose so."""
    return [line for line in lines if line["method"] in challengers.BEST]


def _rank_tables(task: Task, lines: Sequence[Line]) -> str:
    measures = [f"{name}_mean" for name in task.ranked]
    default_lines = _lines_of_default_methods(task, lines)
    return pages.rank_tables(default_lines, task.defaults["methods"], measures)


def _seconds_table(task: Task, lines: Sequence[Line]) -> str:
    default_lines = _lines_of_default_methods(task, lines)
    return pages.seconds_table(
        [line for line in default_lines if line["method"] not in METHODS_WITHOUT_FIT]
    )


def _data_set_tables(task: Task, lines: Sequence[Line]) -> str:
    """A table for each data set: the measures by method, delta and epsilon.

    The best private method of a column by the most telling measure is bold.
    """
    grid_lines, lines = _lines_of_best(lines), _lines_of_default_methods(task, lines)
    epsilons = budgets_of(lines).epsilons
    head = ("method", "", *(f"{epsilon:g}" for epsilon in epsilons))
    blocks = []
    for name in distinct(lines, "dataset"):
        lines_of_set = results.where(lines, dataset=name)
        grid_lines_of_set = results.where(grid_lines, dataset=name)
        rows = [
            *_private_rows(task, lines_of_set, grid_lines_of_set, budgets_of(lines)),
            *_rows_without_privacy(task, lines_of_set, len(epsilons)),
        ]
        blocks.append(f"### {name}\n\n{table(head, rows)}")
    return "\n\n".join(blocks)


def _private_rows(
    task: Task, lines: Sequence[Line], grid_lines: Sequence[Line], budgets: pages.Budgets
) -> Iterator[tuple[str, ...]]:
    """The rows of the private methods of one data set.

    Args:
        task: the comparison.
        lines: the lines of the methods that are measured by default.
        grid_lines: the lines of the best of a grid, which are never bold.
        budgets: those of all data sets.
    """
    measure = f"{task.ranked[0]}_mean"
    for delta in budgets.deltas:
        ranked = ranks.lines_that_hold(lines, delta)
        best = {
            epsilon: max(
                (line[measure] for line in results.where(ranked, epsilon=epsilon)), default=None
            )
            for epsilon in budgets.epsilons
        }
        at_delta = results.where([*lines, *grid_lines], delta=delta)
        for method in distinct(at_delta, "method"):
            by_epsilon = {line["epsilon"]: line for line in results.where(at_delta, method=method)}
            cells = []
            for epsilon in budgets.epsilons:
                line = by_epsilon.get(epsilon)
                is_best = line in ranked and line[measure] == best[epsilon]
                cells.append("" if line is None else _format_measures(task, line, bold=is_best))
            yield f"`{method}`", delta_in_words(delta), *cells


def _rows_without_privacy(
    task: Task, lines: Sequence[Line], num_columns: int
) -> Iterator[tuple[str, ...]]:
    """The rows of methods without a budget, whose measures stand in the first column."""
    for line in lines:
        if line["epsilon"] is None:
            cells = [_format_measures(task, line, bold=False), *[""] * (num_columns - 1)]
            yield f"`{line['method']}`", "no privacy", *cells


def _format_measures(task: Task, line: Line, *, bold: bool) -> str:
    """The means of the measures of a line; in `frontier` with their standard errors."""
    texts = []
    for column in task.columns:
        name, statistic = column.rsplit("_", 1)
        value = line[column]
        if statistic == "sd" or value is None:
            continue
        if task is FRONTIER:
            texts.append(f"{value:.{2 if name == 'log_loss' else 3}f}".removeprefix("0"))
            if error := standard_error(line, name):
                texts[-1] += f"±{error:.3f}".replace("0.", ".")
        else:
            texts.append(_format_share(value) if name in task.ranked else _format_error(value))
    return f"**{' '.join(texts)}**" if bold else " ".join(texts)


def _format_share(value: float) -> str:
    """Three digits after the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def _format_error(value: float) -> str:
    """Three digits at least, of an error in the units of the target."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_TABLES = {
    "settings": _setting_table,
    "ranks": _rank_tables,
    "datasets": _data_set_tables,
    "seconds": _seconds_table,
}
"""The tables of all tasks but tuning."""


# The frontier.


def _lines_by_cell(lines: Iterable[Line]) -> dict[Cell, Line]:
    return {Cell(**{name: line[name] for name in Cell._fields}): line for line in lines}


def _budget_heads(deltas: Sequence[float], epsilons: Sequence[float]) -> list[str]:
    return [f"{delta_in_words(delta)}, {epsilon:g}" for delta in deltas for epsilon in epsilons]


def _behind_table(lines: Sequence[Line]) -> str:
    """For each data set, at how many epsilons other private methods are clearly above `auto`.

    They are by more than .003 and two standard errors of the difference, by AUROC / by accuracy.
    The best of them are named.
    """
    lines = _lines_of_default_methods(FRONTIER, lines)
    deltas, epsilons = budgets_of(lines)
    totals = {delta: [0] * len(FRONTIER.ranked) for delta in deltas}
    rows = []
    for dataset in distinct(lines, "dataset"):
        cells = []
        for delta in deltas:
            ranked = ranks.lines_that_hold(results.where(lines, dataset=dataset), delta)
            winners = [_methods_above_auto(ranked, name) for name in FRONTIER.ranked]
            counts = [len(methods) for methods in winners]
            totals[delta] = [total + n for total, n in zip(totals[delta], counts, strict=True)]
            names = ", ".join(f"`{name}`" for name in dict.fromkeys(itertools.chain(*winners)))
            cells.append(f"{' / '.join(map(str, counts))} {names}".strip())
        rows.append((dataset, *cells))
    num_cells = len(rows) * len(epsilons)
    rows.append(
        (f"all, of {num_cells}", *(" / ".join(map(str, totals[delta])) for delta in deltas))
    )
    return table(("", *map(delta_in_words, deltas)), rows)


def _methods_above_auto(lines: Sequence[Line], name: str) -> list[str]:
    """For each epsilon at which others are clearly above `auto` by a measure, the best of them."""
    winners = []
    for auto in results.where(lines, method="auto"):
        above = [
            (line[f"{name}_mean"], line["method"])
            for line in results.where(lines, epsilon=auto["epsilon"])
            if is_clearly_above(line, auto, name)
        ]
        winners += [max(above)[1]] if above else []
    return winners


def _grid_gain_table(lines: Sequence[Line]) -> str:
    """What the best of a grid gains over its one setting, and where it is clearly above `auto`."""
    return _gain_table(_lines_of_best(lines), lines, lambda method: method.removesuffix("-best"))


def _unranked_table(lines: Sequence[Line]) -> str:
    """The same of methods that lack an epsilon, beside `auto`."""
    default_lines = _lines_of_default_methods(FRONTIER, lines)
    private = [line for line in default_lines if line["epsilon"] is not None]
    ranked = distinct(ranks.lines_at_every_epsilon(private), "method")
    unranked = [line for line in private if line["method"] not in ranked]
    return _gain_table(unranked, lines, lambda method: "auto")


def _gain_table(
    lines: Sequence[Line], all_lines: Sequence[Line], base_of: Callable[[str], str]
) -> str:
    """Mean differences to another method over data sets, and where lines are clearly above `auto`.

    Args:
        lines: those that are compared.
        all_lines: those of the other methods, too.
        base_of: from a method's name to that of the method that it is compared with.
    """
    by_cell = _lines_by_cell(all_lines)

    def same_cell(line: Line, method: str) -> Line:
        """The line of another method on the same data and at the same budget."""
        return by_cell[Cell(line["dataset"], method, line["epsilon"], line["delta"])]

    epsilons, rows = budgets_of(lines).epsilons, []
    for method in distinct(lines, "method"):
        cells = []
        for epsilon in epsilons:
            of_method = results.where(lines, method=method, epsilon=epsilon)
            bases = [same_cell(line, base_of(method)) for line in of_method]
            gains = [
                [
                    a[f"{name}_mean"] - b[f"{name}_mean"]
                    for a, b in zip(of_method, bases, strict=True)
                ]
                for name in FRONTIER.ranked
            ]
            num_above = [
                sum(
                    bool(_methods_above_auto([line, same_cell(line, "auto")], name))
                    for line in of_method
                )
                for name in FRONTIER.ranked
            ]
            means = " / ".join(f"{100 * statistics.fmean(gain):+.1f}" for gain in gains if gain)
            counts = f"({' / '.join(map(str, num_above))} of {len(of_method)})"
            cells.append(f"{means} {counts}" if of_method else "")
        rows.append((f"`{method}`", *cells))
    return table(("", *(f"{epsilon:g}" for epsilon in epsilons)), rows) if rows else NOTHING


def _price_table(lines: Sequence[Line]) -> str:
    """AUROC of boosting, of `auto` without noise, and what noise takes from it, in points."""
    deltas, all_epsilons = budgets_of(lines)
    epsilons = [epsilon for epsilon in PRICE_EPSILONS if epsilon in all_epsilons]
    auroc = {cell: line["auroc_mean"] for cell, line in _lines_by_cell(lines).items()}
    rows = []
    for name in distinct(lines, "dataset"):
        ceiling = auroc.get(Cell(name, "auto-without-noise", None, None))
        boosting = auroc.get(Cell(name, "boosting", None, None))
        cells = [
            _difference_in_points(auroc.get(Cell(name, "auto", epsilon, delta)), ceiling)
            for delta in deltas
            for epsilon in epsilons
        ]
        levels = ("" if value is None else f"{value:.3f}" for value in (boosting, ceiling))
        rows.append((name, *levels, _difference_in_points(ceiling, boosting), *cells))
    head = ("data", "boosting", "`auto`, no noise", "its difference")
    return table((*head, *_budget_heads(deltas, epsilons)), rows)


class Worth(NamedTuple):
    """What `auto` of a data set reaches at a budget.

    Attributes:
        dataset, epsilon, delta: as in the line.
        signal: n mu, or n epsilon without a delta.
        lost: by how much its AUROC is below that of boosting without privacy.
        rows: how many rows boosting without privacy needs for the same AUROC: the number of the
            least curve point if it is above already, and that of all rows if no point is above it.
        within: whether that is a crossing, and no end of the curve.
    """

    dataset: str
    epsilon: float
    delta: float
    signal: float
    lost: float
    rows: float
    within: bool


def worth_in_rows(lines: Sequence[Line]) -> list[Worth]:
    """What each epsilon of `auto` is worth in rows, where boosting of fewer rows was measured."""
    worths = []
    for name in distinct(lines, "dataset"):
        lines_of_set = results.where(lines, dataset=name)
        curve = {
            int(line["method"].partition("-")[2] or line["rows"]): line["auroc_mean"]
            for line in lines_of_set
            if line["method"].partition("-")[0] == "boosting"
        }
        counts, best = sorted(curve), -math.inf
        if len(counts) < 2:
            continue
        levels = [best := max(best, curve[count]) for count in counts]
        for line in results.where(lines_of_set, method="auto"):
            auroc, epsilon, delta = line["auroc_mean"], line["epsilon"], line["delta"]
            strength = float(gdp_mu(epsilon, delta)) if delta else epsilon
            worths.append(
                Worth(
                    dataset=name,
                    epsilon=epsilon,
                    delta=delta,
                    signal=line["rows"] * strength,
                    lost=curve[counts[-1]] - auroc,
                    rows=math.exp(float(np.interp(auroc, levels, np.log(counts)))),
                    within=levels[0] < auroc < levels[-1],
                )
            )
    return worths


def _worth_table(lines: Sequence[Line]) -> str:
    """The rows of which boosting without privacy ranks as well, by data set, delta and epsilon."""
    worths = {(w.dataset, w.delta, w.epsilon): w for w in worth_in_rows(lines)}
    deltas, all_epsilons = budgets_of(results.where(lines, method="auto"))
    epsilons = [epsilon for epsilon in PRICE_EPSILONS if epsilon in all_epsilons]
    rows = []
    for name in dict.fromkeys(dataset for dataset, _, _ in worths):
        count = results.where(lines, dataset=name)[0]["rows"]
        cells = [
            _format_worth(worths.get((name, delta, epsilon)))
            for delta, epsilon in itertools.product(deltas, epsilons)
        ]
        rows.append((name, f"{count:,}", *cells))
    return table(("data", "rows", *_budget_heads(deltas, epsilons)), rows)


def _format_worth(worth: Worth | None) -> str:
    """The number of rows in two digits, and whether it is an end of the curve."""
    if worth is None:
        return ""
    mark = "" if worth.within else "at most " if worth.lost > 0 else "all "
    return f"{mark}{float(f'{worth.rows:.2g}'):,.0f}"


def _difference_in_points(value: float | None, from_value: float | None) -> str:
    """A difference in points of a hundredth."""
    if value is None or from_value is None:
        return ""
    return f"{round(100 * (value - from_value), 1) + 0.0:+.1f}"  # + 0.0 turns -0.0 into 0.0


# Tuning.


def _lines_of_tuning(lines: Sequence[Line]) -> list[Line]:
    """The lines of auto and of the tuned methods, if any of these were measured."""
    tuned = [line for line in lines if line["method"] in ("auto", *TUNED)]
    return tuned if any(line["method"] in TUNED for line in tuned) else []


def _tuning_table(measure: str, lines: Sequence[Line]) -> str:
    """For each delta and data set: the measure of auto, and differences to it."""
    tuned = _lines_of_tuning(lines)
    if not tuned:
        return NOTHING
    factor, digits = MEASURES[measure]
    values = {cell: line[measure] for cell, line in _lines_by_cell(tuned).items()}
    deltas, epsilons = budgets_of(tuned)
    blocks = []
    for delta in deltas:
        rows = []
        for name in distinct(tuned, "dataset"):
            cells = []
            for epsilon in epsilons:
                auto = values.get(Cell(name, "auto", epsilon, delta))
                if auto is None:
                    cells.append("")
                    continue
                tuned_values = (values.get(Cell(name, way, epsilon, delta)) for way in TUNED)
                differences = [
                    "-" if value is None else f"{factor * (value - auto):+.{digits}f}"
                    for value in tuned_values
                ]
                cells.append(f"{auto:.3f}: {' / '.join(differences)}".removeprefix("0"))
            rows.append((name, *cells))
        head = (delta_in_words(delta), *(f"epsilon {epsilon:g}" for epsilon in epsilons))
        blocks.append(table(head, rows))
    return "\n\n".join(blocks)


def _tuning_summary_table(lines: Sequence[Line]) -> str:
    """Mean differences to `auto` over data sets, and on how many the tuned model is better."""
    tuned = _lines_of_tuning(lines)
    if not tuned:
        return NOTHING
    budgets = list(itertools.product(*budgets_of(tuned)))
    auto = {_cell_and_splits(line): line for line in results.where(tuned, method="auto")}
    rows = []
    for method in TUNED:
        of_method = results.where(tuned, method=method)
        for measure in MEASURES if of_method else ():
            cells = []
            for delta, epsilon in budgets:
                at_budget = results.where(of_method, delta=delta, epsilon=epsilon)
                differences = [
                    line[measure] - auto[_cell_and_splits(line)][measure]
                    for line in at_budget
                    if _cell_and_splits(line) in auto
                ]
                cells.append(_format_mean_difference(measure, differences))
            rows.append((f"`{method}`", measure.removesuffix("_mean").replace("_", " "), *cells))
    heads = [f"{f'{delta:g}' if delta else 'pure'}, {epsilon:g}" for delta, epsilon in budgets]
    return table(("", "", *heads), rows)


def _format_mean_difference(measure: str, differences: Sequence[float]) -> str:
    """The mean of differences, and how many are better than none."""
    if not differences:
        return ""
    factor, digits = MEASURES[measure]
    num_better = sum((value < 0) == (measure == "log_loss_mean") for value in differences if value)
    mean = statistics.fmean(factor * value for value in differences)
    return f"{mean:+.{digits}f} ({num_better}/{len(differences)})"


def _cell_and_splits(line: Line) -> tuple:
    return line["dataset"], line["epsilon"], line["delta"], line["splits"]
