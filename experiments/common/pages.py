"""Pages whose tables are made of saved lines; nothing of them is typed.

A table stands between `<!-- COMMAND: NAME -->` and `<!-- COMMAND: end -->`. Writing a page keeps
everything outside of these marks.
"""

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dpbt.common.storage import write_atomically
from dpbt.owners.cli.parsing import InputError
from experiments.common import ranks, results
from experiments.common.results import distinct
from experiments.common.tables import markdown_table as table

Line = results.Line
Table = Callable[[Sequence[Line]], str]
"""From the lines to Markdown."""


class Pages(NamedTuple):
    """What a command writes into pages.

    Attributes:
        command: its name, which starts the marks.
        tables: the name of a mark -> the table between the marks of this name.
        summary: the columns of the lines in short.
        file: the name of the CSV file of these columns, beside the page.
        order: the key by which lines are sorted.
    """

    command: str
    tables: Mapping[str, Table]
    summary: tuple[str, ...] = ()
    file: str = ""
    order: Callable[[Line], tuple] = lambda line: ()

    @property
    def end_mark(self) -> str:
        """The mark that ends a table."""
        return f"<!-- {self.command}: end -->"


def write_page(pages: Pages, page: Path, saved: Path) -> None:
    """Write the tables into a page, and the lines in short as CSV beside it; print both names.

    Args:
        pages: what the command writes.
        page: a Markdown file with marks.
        saved: the file of results. If it does not exist, the lines in short are read.

    Raises:
        InputError: if there is no page, if it has no marks or unknown ones, or if nothing has been
            saved.
    """
    if not page.exists():
        raise InputError(f"{page} does not exist")
    summary = page.with_name(pages.file)
    unsorted_lines = results.read_csv(saved if saved.exists() else summary, pages.command)
    lines = sorted(unsorted_lines, key=pages.order)
    short = [{name: _round_number(line[name]) for name in pages.summary} for line in lines]
    text = fill_tables(pages, page.read_text(), short, str(page))
    results.write_columns(summary, short)
    write_atomically(page, lambda path: path.write_text(text))
    print(f"wrote {page}\nwrote {summary}")


def _round_number(value: object) -> object:
    """A number with four digits."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def fill_tables(pages: Pages, text: str, lines: Sequence[Line], name: str) -> str:
    """The text of a page with its tables made of lines.

    Raises:
        InputError: for a page without marks, and for a mark that names no table.
    """
    start = rf"(<!-- {pages.command}: (?!end )([\w-]+) -->\n)"
    marked = re.compile(rf"{start}.*?(?={pages.end_mark})", re.DOTALL)
    marks = [mark.group(2) for mark in marked.finditer(text)]
    if not marks or set(marks) - set(pages.tables):
        words = f"expected marks of {', '.join(pages.tables)}, each closed by {pages.end_mark}"
        raise InputError(f"{name}: {words}; found {', '.join(marks) or 'none'}")
    return marked.sub(
        lambda mark: mark.group(1) + "\n" + pages.tables[mark.group(2)](lines) + "\n\n", text
    )


class Budgets(NamedTuple):
    """The deltas and the epsilons of private lines, increasing."""

    deltas: list[float]
    epsilons: list[float]


def budgets_of(lines: Sequence[Line]) -> Budgets:
    """The budgets that occur."""
    private = [line for line in lines if line["epsilon"] is not None]
    return Budgets(sorted(distinct(private, "delta")), sorted(distinct(private, "epsilon")))


def delta_in_words(delta: float) -> str:
    """A delta in words; "pure" without one."""
    return f"delta = {delta:g}" if delta else "pure"


def sort_key(datasets: Sequence[str], methods: Sequence[str]) -> Callable[[Line], tuple]:
    """The key that sorts by data set, method, delta and epsilon, as they are declared."""

    def key(line: Line) -> tuple:
        is_declared = line["dataset"] in datasets
        place = datasets.index(line["dataset"]) if is_declared else len(datasets)
        method = methods.index(line["method"]) if line["method"] in methods else len(methods)
        return place, line["dataset"], method, line["delta"] or 0.0, line["epsilon"] or 0.0

    return key


def origin_table(lines: Sequence[Line]) -> str:
    """The splits, commits, versions and devices of the saved lines."""
    names = {"splits": "splits", "commit": "commit", "jax": "JAX", "device": "device"}
    rows = [("lines", str(len(lines)))]
    for key, name in names.items():
        values = sorted({str(line[key])[:_MAX_ORIGIN_CHARACTERS] for line in lines})
        is_long = len(values) > _MAX_ORIGIN_VALUES
        rows.append((name, f"{len(values)} different ones" if is_long else "; ".join(values)))
    return table(("of the saved results", ""), rows)


_MAX_ORIGIN_CHARACTERS = 60
"""The length of a value in a table of origins, such as that of a commit."""

_MAX_ORIGIN_VALUES = 6
"""A table of origins lists up to so many values, and counts more of them."""


def setting_table(lines: Sequence[Line]) -> str:
    """The setting of each method that has one for all data."""
    rows = []
    for method in distinct(lines, "method"):
        words = distinct((line for line in lines if line["method"] == method), "setting")
        setting = words[0] if len(words) == 1 else "set by its rule from public quantities"
        libraries = distinct((line for line in lines if line["method"] == method), "library")
        rows.append((f"`{method}`", setting, ", ".join(name or "dpbt" for name in libraries)))
    return table(("method", "setting", "library"), rows)


def rank_tables(lines: Sequence[Line], methods: Sequence[str], measures: Sequence[str]) -> str:
    """A table for each delta: mean ranks over data sets, and on how many each method is best.

    Args:
        lines: the lines of the methods themselves; one that lacks an epsilon is left out.
        methods: the order of the rows.
        measures: the columns to rank by, of which more is better.
    """
    lines = ranks.lines_at_every_epsilon(lines)
    deltas, epsilons = budgets_of(lines)
    blocks = []
    for delta in deltas:
        standings = {
            (measure, epsilon): ranks.mean_ranks(
                lines, epsilon=epsilon, delta=delta, measure=measure
            )
            for measure in measures
            for epsilon in epsilons
        }
        by_first_measure = [standings[measures[0], epsilon] for epsilon in epsilons]
        rows = []
        for method in methods:
            if not any(method in at_epsilon.by_method for at_epsilon in by_first_measure):
                continue
            cells = []
            for epsilon in epsilons:
                of_method = [standings[name, epsilon].by_method.get(method) for name in measures]
                cells.append(" / ".join(f"{one.rank:.1f} ({one.wins})" for one in of_method if one))
            rows.append((f"`{method}`", *cells))
        largest = max(by_first_measure, key=lambda at_epsilon: len(at_epsilon.by_method))
        count, datasets = len(largest.by_method), largest.datasets
        difference = ranks.critical_difference(count, datasets)
        counts = ", ".join(map(str, sorted({one.datasets for one in by_first_measure})))
        head = (
            f"{delta_in_words(delta)}, {counts} data sets",
            *(f"{epsilon:g}" for epsilon in epsilons),
        )
        note = f"Mean ranks of {count} methods over {datasets} data sets differ at the "
        note += f"level of 5 % (Nemenyi) where they are {difference:.1f} apart."
        blocks += [table(head, rows), note]
    return "\n\n".join(blocks)


def seconds_table(lines: Sequence[Line]) -> str:
    """Mean seconds of a fit over all budgets, by method and data set."""
    names = distinct(lines, "dataset")
    rows = []
    for method in distinct(lines, "method"):
        lines_of_method = [line for line in lines if line["method"] == method]
        cells = []
        for name in names:
            seconds = [line["seconds"] for line in lines_of_method if line["dataset"] == name]
            cells.append(f"{statistics.fmean(seconds):.2g}" if seconds else "")
        rows.append((f"`{method}`", *cells))
    return table(("method", *names), rows)
