"""The tables of numbers and counts about people."""

import statistics
from collections.abc import Iterator, Sequence

from experiments.common import pages, results
from experiments.common.data import people
from experiments.common.pages import budgets_of, delta_in_words
from experiments.common.results import Line, distinct, standard_error
from experiments.common.tables import markdown_table

GROUPS = {"settled": people.SETTLED_NUMBERS, "judges": people.JUDGE_NUMBERS}
"""What columns are for -> the columns."""


def summary_table(lines: Sequence[Line]) -> str:
    """R^2, the size of the bias and the deviance, as means over columns.

    The standard error of a mean of R^2 is over columns.
    """
    private = [line for line in lines if line["epsilon"] is not None]
    methods = distinct(private, "method")
    deltas, epsilons = budgets_of(private)
    rows = []
    for group, predictions in GROUPS.items():
        for is_count, words in ((False, "numbers"), (True, "counts")):
            names = [each.name for each in predictions if each.is_count == is_count]
            of_group = [line for line in private if line["dataset"] in names]
            for delta in deltas:
                for epsilon in epsilons:
                    of_budget = results.where(of_group, delta=delta, epsilon=epsilon)
                    cells = [
                        _format_means(results.where(of_budget, method=method), len(names))
                        for method in methods
                    ]
                    kind = f"{words}, {group} ({len(names)})"
                    rows.append((kind, delta_in_words(delta), f"{epsilon:g}", *cells))
    head = ("columns", "", "epsilon", *(f"`{method}`" for method in methods))
    return markdown_table(head, rows)


def _format_means(lines: Sequence[Line], num_columns: int) -> str:
    """Means over columns; nothing unless all columns were measured."""
    if len(lines) < num_columns:
        return ""
    r2 = [line["r2_mean"] for line in lines]
    text = _format_with_error(
        statistics.fmean(r2), statistics.stdev(r2) / len(r2) ** 0.5 if len(r2) > 1 else None
    )
    text += f", {statistics.fmean(abs(line['bias_mean']) for line in lines):.3f}"
    deviances = [line["deviance_mean"] for line in lines if line["deviance_mean"] is not None]
    return f"{text}, {statistics.fmean(deviances):.3f}" if deviances else text


def columns_table(lines: Sequence[Line]) -> str:
    """R^2, bias and deviance of every method on every column, with errors over splits."""
    epsilons = budgets_of(lines).epsilons
    head = ("column", "", "method", *(f"{epsilon:g}" for epsilon in epsilons))
    return markdown_table(head, list(_rows_of_columns(lines, epsilons)))


def _rows_of_columns(lines: Sequence[Line], epsilons: Sequence[float]) -> Iterator[tuple[str, ...]]:
    for name in distinct(lines, "dataset"):
        of_column = results.where(lines, dataset=name)
        for delta in budgets_of(of_column).deltas:
            at_delta = results.where(of_column, delta=delta)
            for method in distinct(at_delta, "method"):
                by_epsilon = {
                    line["epsilon"]: line for line in results.where(at_delta, method=method)
                }
                cells = [
                    _format_line(by_epsilon[epsilon]) if epsilon in by_epsilon else ""
                    for epsilon in epsilons
                ]
                yield name, delta_in_words(delta), f"`{method}`", *cells
        for line in of_column:
            if line["epsilon"] is None:
                cells = [_format_line(line), *[""] * (len(epsilons) - 1)]
                yield name, "no privacy", f"`{line['method']}`", *cells


def _format_line(line: Line) -> str:
    """The measures of a line, each with its standard error."""
    return ", ".join(
        _format_with_error(line[f"{name}_mean"], standard_error(line, name))
        for name in ("r2", "bias", "deviance")
        if line[f"{name}_mean"] is not None
    )


def _format_with_error(value: float, error: float | None) -> str:
    """Three digits after the point, without a leading 0."""
    text = f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"
    return text if error is None else f"{text}±{error:.3f}".replace("±0.", "±.")


TABLES: dict[str, pages.Table] = {"summary": summary_table, "columns": columns_table}
"""The name of a mark -> its table."""
