"""The tables of the pages, from the saved lines; nothing of them is typed.

`experiments.common.pages` says where they stand.
"""

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from dpbt.privacy.conversions import gdp_mu
from experiments.common import pages, ranks, results
from experiments.common.pages import budgets, delta_words
from experiments.common.results import Line, distinct
from experiments.common.tables import markdown_table as table
from experiments.comparisons import challengers
from experiments.comparisons.task import FRESH, FRONTIER, TUNING, Task

WITHOUT_FIT = ("larger-class", "mean", "median")
"""Methods whose seconds say nothing."""

PRICE_EPSILONS = (0.1, 1.0, 5.0)
TUNED = ("tuned", "tuned-logarithmic", "hindsight")
"""The methods of the tables of tuning, in order."""

MEASURES = {"auroc_mean": (100, 1), "accuracy_mean": (100, 1), "log_loss_mean": (1, 3)}
"""Measure -> (factor, digits) in which its differences are shown."""

NOTHING = "Not measured yet."
Place = tuple[str, str, float | None, float | None]
"""(data set, method, epsilon, delta) of a line."""


def pages_of(task: Task) -> pages.Pages:
    """What the task's command writes."""
    page_tables: dict[str, pages.Table] = {"origin": pages.origin_table}
    if task is TUNING:
        page_tables["datasets"] = functools.partial(_tuned_by_dataset, "auroc_mean")
        page_tables["losses"] = functools.partial(_tuned_by_dataset, "log_loss_mean")
        page_tables["summary"] = _summary
    else:
        page_tables |= {name: functools.partial(make, task) for name, make in _TABLES.items()}
    if task is FRONTIER:
        of_fresh = {
            f"fresh-{name}": _only(True, page_tables[name]) for name in ("ranks", "datasets")
        }
        more = {"price": _price, "worth": _worth, "grids": _grids}
        page_tables = {name: _only(False, make) for name, make in (page_tables | more).items()}
        page_tables |= {
            **of_fresh,
            "origin": pages.origin_table,
            "behind": _behind,
            "unranked": _unranked,
        }
    made_by = ("splits", "bins", "rows", "library", "commit", "jax", "device")
    order = pages.sort_key(list(task.usual["dataset"]), list(task.methods))
    return pages.Pages(task.name, page_tables, (*task.keys, *made_by), f"{task.name}.csv", order)


def _only(fresh: bool, make: pages.Table) -> pages.Table:
    """The table of fresh data sets alone, or of the others."""
    return lambda lines: make([line for line in lines if (line["dataset"] in FRESH) == fresh])


def _plain(task: Task, lines: Sequence[Line]) -> list[Line]:
    """The lines of the methods that are measured by default."""
    return [line for line in lines if line["method"] in task.usual["methods"]]


def _settings(task: Task, lines: Sequence[Line]) -> str:
    """The settings of all methods, with the grids of those that have one."""
    return pages.setting_table([*_plain(task, lines), *_best(lines)])


def _best(lines: Sequence[Line]) -> list[Line]:
    """The lines of the best of a grid, chosen on test rows; no owner can choose so."""
    return [line for line in lines if line["method"] in challengers.BEST]


def _ranks(task: Task, lines: Sequence[Line]) -> str:
    more = [f"{name}_mean" for name in task.more]
    return pages.rank_tables(_plain(task, lines), task.usual["methods"], more)


def _seconds(task: Task, lines: Sequence[Line]) -> str:
    own_lines = _plain(task, lines)
    return pages.seconds_table([line for line in own_lines if line["method"] not in WITHOUT_FIT])


def _by_dataset(task: Task, lines: Sequence[Line]) -> str:
    """A table for each data set: the measures by method, delta and epsilon.

    The best private method of a column by the most telling measure is bold.
    """
    lines, grids = _plain(task, lines), _best(lines)
    deltas, epsilons = budgets(lines)
    first = f"{task.more[0]}_mean"
    parts = []
    for name in distinct(lines, "dataset"):
        own_lines = [line for line in lines if line["dataset"] == name]
        rows = []
        for delta in deltas:
            here = results.where([*own_lines, *results.where(grids, dataset=name)], delta=delta)
            rivals = ranks.methods_with_ranks(own_lines, delta)
            best = {
                e: max((at[first] for at in rivals if at["epsilon"] == e), default=None)
                for e in epsilons
            }
            for method in distinct(here, "method"):
                cells = {line["epsilon"]: line for line in here if line["method"] == method}
                shown = [
                    _values(task, cells[e], cells[e] in rivals and cells[e][first] == best[e])
                    if e in cells
                    else ""
                    for e in epsilons
                ]
                rows.append((f"`{method}`", delta_words(delta), *shown))
        for line in own_lines:
            if line["epsilon"] is None:
                shown = [_values(task, line, False), *[""] * (len(epsilons) - 1)]
                rows.append((f"`{line['method']}`", "no privacy", *shown))
        head = ("method", "", *(f"{epsilon:g}" for epsilon in epsilons))
        parts.append(f"### {name}\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def _values(task: Task, line: Line, best: bool) -> str:
    shown = []
    for column in task.columns:
        name, part = column.rsplit("_", 1)
        value = line[column]
        if part == "sd" or value is None:
            continue
        if task is FRONTIER:
            shown.append(f"{value:.{2 if name == 'log_loss' else 3}f}".removeprefix("0"))
            if error := _error(line, name):
                shown[-1] += f"±{error:.3f}".replace("0.", ".")
        else:
            shown.append(_share(value) if name in task.more else _distance(value))
    return f"**{' '.join(shown)}**" if best else " ".join(shown)


def _error(line: Line, name: str) -> float:
    """The standard error of the mean of a measure; 0 where there is none."""
    return (line.get(f"{name}_sd") or 0.0) / math.sqrt(line["splits"])


def _share(value: float) -> str:
    """Three digits after the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def _distance(value: float) -> str:
    """Three digits at least."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_TABLES = {
    "settings": _settings,
    "ranks": _ranks,
    "datasets": _by_dataset,
    "seconds": _seconds,
}
"""The tables of all tasks but tuning."""


# The frontier.


def _at(lines: Iterable[Line]) -> dict[Place, Line]:
    """Each line by its place."""
    places = ("dataset", "method", "epsilon", "delta")
    return {tuple(line[name] for name in places): line for line in lines}  # type: ignore[misc]


def _heads(deltas: Sequence[float], epsilons: Sequence[float]) -> list[str]:
    return [f"{delta_words(delta)}, {epsilon:g}" for delta in deltas for epsilon in epsilons]


def _behind(lines: Sequence[Line]) -> str:
    """For each data set, at how many epsilons other private methods are clearly above `auto`.

    They are by more than .003 and two standard errors of the difference, by AUROC / by accuracy.
    The best of them are named.
    """
    lines = _plain(FRONTIER, lines)
    deltas, rows = budgets(lines)[0], []
    totals = {delta: [0] * len(FRONTIER.more) for delta in deltas}
    for dataset in distinct(lines, "dataset"):
        shown = []
        for delta in deltas:
            here = ranks.methods_with_ranks(results.where(lines, dataset=dataset), delta)
            above = [_above(here, name) for name in FRONTIER.more]
            totals[delta] = [a + len(b) for a, b in zip(totals[delta], above, strict=True)]
            best = ", ".join(f"`{name}`" for name in dict.fromkeys(itertools.chain(*above)))
            shown.append(f"{' / '.join(str(len(each)) for each in above)} {best}".strip())
        rows.append((dataset, *shown))
    cells = len(distinct(lines, "dataset")) * len(budgets(lines)[1])
    rows.append((f"all, of {cells}", *(" / ".join(map(str, totals[delta])) for delta in deltas)))
    return table(("", *map(delta_words, deltas)), rows)


def _above(lines: Sequence[Line], name: str) -> list[str]:
    """For each epsilon at which others are clearly above `auto` by a measure, the best of them."""
    found = []
    for auto in results.where(lines, method="auto"):
        clear = [
            (line[f"{name}_mean"], line["method"])
            for line in results.where(lines, epsilon=auto["epsilon"])
            if line[f"{name}_mean"] - auto[f"{name}_mean"]
            > 0.003 + 2 * math.hypot(_error(line, name), _error(auto, name))
        ]
        found += [max(clear)[1]] if clear else []
    return found


def _grids(lines: Sequence[Line]) -> str:
    """What the best of a grid gains over its one setting, and where it is clearly above `auto`."""
    return _gains(_best(lines), lines, lambda method: method.removesuffix("-best"))


def _unranked(lines: Sequence[Line]) -> str:
    """The same of methods that lack an epsilon, beside `auto`."""
    plain = [line for line in _plain(FRONTIER, lines) if line["epsilon"] is not None]
    ranked = distinct(ranks.at_every_epsilon(plain), "method")
    unranked = [line for line in plain if line["method"] not in ranked]
    return _gains(unranked, lines, lambda method: "auto")


def _gains(own: Sequence[Line], lines: Sequence[Line], base: Callable[[str], str]) -> str:
    """Mean differences to another method over data sets, and where lines are clearly above `auto`.

    Args:
        own: the lines.
        lines: all lines.
        base: from a method's name to that of the other.
    """
    known, epsilons, rows = _at(lines), budgets(own)[1], []

    def beside(line: Line, method: str) -> Line:
        return known[line["dataset"], method, line["epsilon"], line["delta"]]

    for method in distinct(own, "method"):
        cells = []
        for epsilon in epsilons:
            here = results.where(own, method=method, epsilon=epsilon)
            pairs = [(line, beside(line, base(method))) for line in here]
            gains = [
                [a[f"{name}_mean"] - b[f"{name}_mean"] for a, b in pairs] for name in FRONTIER.more
            ]
            above = [
                sum(bool(_above([line, beside(line, "auto")], name)) for line in here)
                for name in FRONTIER.more
            ]
            shown = " / ".join(f"{100 * statistics.fmean(each):+.1f}" for each in gains if each)
            cells.append(f"{shown} ({' / '.join(map(str, above))} of {len(here)})" if here else "")
        rows.append((f"`{method}`", *cells))
    return table(("", *(f"{epsilon:g}" for epsilon in epsilons)), rows) if rows else NOTHING


def _price(lines: Sequence[Line]) -> str:
    """AUROC of boosting, of `auto` without noise, and what noise takes from it, in points."""
    deltas, epsilons = budgets(lines)
    chosen = [epsilon for epsilon in PRICE_EPSILONS if epsilon in epsilons]
    auroc = {place: line["auroc_mean"] for place, line in _at(lines).items()}
    rows = []
    for name in distinct(lines, "dataset"):
        ceiling = auroc.get((name, "auto-without-noise", None, None))
        boosting = auroc.get((name, "boosting", None, None))
        cells = [
            _points(auroc.get((name, "auto", epsilon, delta)), ceiling)
            for delta in deltas
            for epsilon in chosen
        ]
        levels = ("" if value is None else f"{value:.3f}" for value in (boosting, ceiling))
        rows.append((name, *levels, _points(ceiling, boosting), *cells))
    head = ("data", "boosting", "`auto`, no noise", "its difference", *_heads(deltas, chosen))
    return table(head, rows)


class Worth(NamedTuple):
    """What `auto` of a data set reaches at a budget.

    Attributes:
        dataset, epsilon, delta: as in the line.
        signal: n mu, or n epsilon without a delta.
        lost: by how much its AUROC is below that of boosting without privacy.
        rows: of how many rows boosting without privacy has the same AUROC: the number of the least
            curve point if it is above already, and that of all rows if no point is above it.
        within: whether that is a crossing, and no end of the curve.
    """

    dataset: str
    epsilon: float
    delta: float
    signal: float
    lost: float
    rows: float
    within: bool


def worth(lines: Sequence[Line]) -> list[Worth]:
    """What each epsilon of `auto` is worth in rows, where boosting of fewer rows was measured."""
    found = []
    for name in distinct(lines, "dataset"):
        own = [line for line in lines if line["dataset"] == name]
        curve = {
            int(line["method"].partition("-")[2] or line["rows"]): line["auroc_mean"]
            for line in own
            if line["method"].partition("-")[0] == "boosting"
        }
        counts, best = sorted(curve), -math.inf
        if len(counts) < 2:
            continue
        levels = [best := max(best, curve[count]) for count in counts]
        for line in own:
            if line["method"] != "auto":
                continue
            reached, epsilon, delta = line["auroc_mean"], line["epsilon"], line["delta"]
            strength = float(gdp_mu(epsilon, delta)) if delta else epsilon
            rows = math.exp(float(np.interp(reached, levels, np.log(counts))))
            within = levels[0] < reached < levels[-1]
            lost = curve[counts[-1]] - reached
            found.append(Worth(name, epsilon, delta, line["rows"] * strength, lost, rows, within))
    return found


def _worth(lines: Sequence[Line]) -> str:
    """The rows of which boosting without privacy ranks as well, by data set, delta and epsilon."""
    cells = {each[:3]: each for each in worth(lines)}
    deltas, epsilons = budgets([line for line in lines if line["method"] == "auto"])
    chosen = [epsilon for epsilon in PRICE_EPSILONS if epsilon in epsilons]
    rows = []
    for name in dict.fromkeys(each.dataset for each in cells.values()):
        count = next(line["rows"] for line in lines if line["dataset"] == name)
        shown = []
        for delta, epsilon in itertools.product(deltas, chosen):
            each = cells.get((name, epsilon, delta))
            mark = "" if each is None or each.within else "at most " if each.lost > 0 else "all "
            shown.append("" if each is None else f"{mark}{float(f'{each.rows:.2g}'):,.0f}")
        rows.append((name, f"{count:,}", *shown))
    return table(("data", "rows", *_heads(deltas, chosen)), rows)


def _points(value: float | None, from_value: float | None) -> str:
    """A difference in points of a hundredth."""
    if value is None or from_value is None:
        return ""
    return f"{round(100 * (value - from_value), 1) + 0.0:+.1f}"  # + 0.0 turns -0.0 into 0.0


# Tuning.


def _tuned_lines(lines: Sequence[Line]) -> list[Line]:
    """The lines of auto and of the tuned methods, if any of these were measured."""
    tuned = [line for line in lines if line["method"] in ("auto", *TUNED)]
    return tuned if any(line["method"] in TUNED for line in tuned) else []


def _tuned_by_dataset(measure: str, lines: Sequence[Line]) -> str:
    """For each delta and data set: the measure of auto, and differences to it."""
    tuned = _tuned_lines(lines)
    if not tuned:
        return NOTHING
    factor, digits = MEASURES[measure]
    value, parts = {place: line[measure] for place, line in _at(tuned).items()}, []
    deltas, epsilons = budgets(tuned)
    for delta in deltas:
        rows = []
        for name in distinct(tuned, "dataset"):
            cells = []
            for epsilon in epsilons:
                auto = value.get((name, "auto", epsilon, delta))
                if auto is None:
                    cells.append("")
                    continue
                apart = [
                    "-" if own is None else f"{factor * (own - auto):+.{digits}f}"
                    for own in (value.get((name, method, epsilon, delta)) for method in TUNED)
                ]
                cells.append(f"{auto:.3f}: {' / '.join(apart)}".removeprefix("0"))
            rows.append((name, *cells))
        parts.append(table((delta_words(delta), *(f"epsilon {e:g}" for e in epsilons)), rows))
    return "\n\n".join(parts)


def _summary(lines: Sequence[Line]) -> str:
    """Mean differences to `auto` over data sets, and on how many the tuned model is better."""
    tuned = _tuned_lines(lines)
    if not tuned:
        return NOTHING
    deltas, epsilons = budgets(tuned)
    auto = {_cell(line): line for line in tuned if line["method"] == "auto"}
    rows = []
    for method in TUNED:
        own_lines = [line for line in tuned if line["method"] == method]
        for measure in MEASURES if own_lines else ():
            cells = []
            for delta in deltas:
                for epsilon in epsilons:
                    here = [
                        line
                        for line in own_lines
                        if (line["epsilon"], line["delta"]) == (epsilon, delta)
                    ]
                    pairs = [(line, auto[_cell(line)]) for line in here if _cell(line) in auto]
                    cells.append(_apart(measure, [a[measure] - b[measure] for a, b in pairs]))
            rows.append((f"`{method}`", measure.removesuffix("_mean").replace("_", " "), *cells))
    budget = [f"{f'{d:g}' if d else 'pure'}, {e:g}" for d in deltas for e in epsilons]
    return table(("", "", *budget), rows)


def _apart(measure: str, differences: Sequence[float]) -> str:
    """The mean of differences, and how many are better than none."""
    if not differences:
        return ""
    factor, digits = MEASURES[measure]
    better = sum((each < 0) == (measure == "log_loss_mean") for each in differences if each)
    mean = statistics.fmean(factor * each for each in differences)
    return f"{mean:+.{digits}f} ({better}/{len(differences)})"


def _cell(line: Line) -> tuple:
    return line["dataset"], line["epsilon"], line["delta"], line["splits"]
