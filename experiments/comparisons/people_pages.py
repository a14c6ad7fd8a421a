"""The tables of the page on `auto` beside others that are about tables about people."""

import math
import statistics
from collections.abc import Iterator, Sequence

from experiments.common import pages, results
from experiments.common.data import people
from experiments.common.pages import delta_in_words
from experiments.common.results import Line, distinct, is_clearly_above, standard_error
from experiments.common.tables import markdown_table

GROUPS = {"settled": people.SETTLED, "judges": people.JUDGES}
"""What tables are for -> their names."""

EPSILON_OF_TABLES = 1.0
"""The epsilon at which every table is shown on its own."""


def lines_about_people(lines: Sequence[Line]) -> list[Line]:
    """The lines of tables about people."""
    return [line for line in lines if line["dataset"] in people.NAMES]


def lines_about_others(lines: Sequence[Line]) -> list[Line]:
    """The lines of all other data sets."""
    return [line for line in lines if line["dataset"] not in people.NAMES]


def summary_table(lines: Sequence[Line]) -> str:
    """By how much `auto` is ahead of each method in AUROC, in hundredths, and in log loss.

    A cell is the mean over tables with its standard error over them; in brackets on how many tables
    the method is clearly above `auto`: by more than .003 and two standard errors over splits.
    """
    lines = [line for line in lines_about_people(lines) if line["epsilon"] is not None]
    methods = [method for method in distinct(lines, "method") if method != "auto"]
    rows = []
    for group, names in GROUPS.items():
        of_group = [line for line in lines if line["dataset"] in names]
        for delta in sorted(distinct(of_group, "delta")):
            for epsilon in sorted(distinct(of_group, "epsilon")):
                of_budget = results.where(of_group, delta=delta, epsilon=epsilon)
                cells = [_lead_over_method(of_budget, method) for method in methods]
                count = len(results.where(of_budget, method="auto"))
                rows.append((f"{group} ({count})", delta_in_words(delta), f"{epsilon:g}", *cells))
    return markdown_table(("tables", "", "epsilon", *(f"`{name}`" for name in methods)), rows)


def _lead_over_method(lines: Sequence[Line], method: str) -> str:
    """What a cell of `summary_table` says of a method; nothing where it was not measured."""
    pairs = list(_pairs_with_auto(lines, method))
    if len(pairs) < 2:
        return ""
    leads = [100 * (auto["auroc_mean"] - other["auroc_mean"]) for auto, other in pairs]
    error = statistics.stdev(leads) / math.sqrt(len(leads))
    behind = sum(is_clearly_above(other, auto, "auroc") for auto, other in pairs)
    loss = statistics.fmean(auto["log_loss_mean"] - other["log_loss_mean"] for auto, other in pairs)
    return f"{statistics.fmean(leads):+.2f} ± {error:.2f} ({behind}), {loss:+.3f}"


def _pairs_with_auto(lines: Sequence[Line], method: str) -> Iterator[tuple[Line, Line]]:
    """The line of `auto` and that of the method, of each table that has both."""
    of_method = {line["dataset"]: line for line in results.where(lines, method=method)}
    for auto in results.where(lines, method="auto"):
        if auto["dataset"] in of_method:
            yield auto, of_method[auto["dataset"]]


def behind_table(lines: Sequence[Line]) -> str:
    """Where a method is clearly above `auto` in AUROC, by how many hundredths, with its error.

    It is by more than .003 and two standard errors over splits. Tables where no method is are left
    out.
    """
    lines = [line for line in lines_about_people(lines) if line["epsilon"] is not None]
    deltas, epsilons = pages.budgets_of(lines)
    rows = []
    for name in people.NAMES:
        for delta in deltas:
            of_table = results.where(lines, dataset=name, delta=delta)
            cells = [
                _methods_above_auto(results.where(of_table, epsilon=epsilon))
                for epsilon in epsilons
            ]
            if any(cells):
                group = "judges" if name in people.JUDGES else "settled"
                rows.append((name, group, delta_in_words(delta), *cells))
    head = ("table", "", "", *(f"{epsilon:g}" for epsilon in epsilons))
    return markdown_table(head, rows)


def _methods_above_auto(lines: Sequence[Line]) -> str:
    """The methods that are clearly above `auto` at a budget, each with its lead."""
    leads = []
    for auto in results.where(lines, method="auto"):
        for line in lines:
            if is_clearly_above(line, auto, "auroc"):
                lead = 100 * (line["auroc_mean"] - auto["auroc_mean"])
                error = 100 * math.hypot(
                    standard_error(line, "auroc"), standard_error(auto, "auroc")
                )
                leads.append(f"`{line['method']}` {lead:.1f} ± {error:.1f}")
    return ", ".join(leads)


def data_sets_table(lines: Sequence[Line]) -> str:
    """AUROC of every method on every table at one epsilon, in hundredths, with and without a delta.

    The best private method of a table and a guarantee is bold.
    """
    lines = lines_about_people(lines)
    methods = distinct(lines, "method")
    rows = []
    for name in people.NAMES:
        of_table = results.where(lines, dataset=name)
        for delta in sorted(delta for delta in distinct(of_table, "delta") if delta is not None):
            budgets = ((None, None), (EPSILON_OF_TABLES, delta))
            cells = {
                line["method"]: 100 * line["auroc_mean"]
                for line in of_table
                if (line["epsilon"], line["delta"]) in budgets
            }
            private = [
                method
                for method in cells
                if results.where(of_table, method=method)[0]["epsilon"] is not None
            ]
            best = max(cells[method] for method in private)
            shown = [
                _bold_if_best(cells.get(method), method in private, best) for method in methods
            ]
            group = "judges" if name in people.JUDGES else "settled"
            rows.append((name, group, delta_in_words(delta), *shown))
    return markdown_table(("table", "", "", *(f"`{name}`" for name in methods)), rows)


def _bold_if_best(value: float | None, is_private: bool, best: float) -> str:
    if value is None:
        return ""
    text = f"{value:.1f}"
    return f"**{text}**" if is_private and value == best else text
