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
from dpbt.owners.cli.shared import InputError
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
        tables: the name of a mark -> what stands there.
        summary: the columns of the lines in short.
        file: where these stand, beside the page.
        order: the key by which lines are sorted.
    """

    command: str
    tables: Mapping[str, Table]
    summary: tuple[str, ...] = ()
    file: str = ""
    order: Callable[[Line], tuple] = lambda line: ()

    @property
    def end(self) -> str:
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
    read = results.read_csv(saved if saved.exists() else summary, pages.command)
    lines = sorted(read, key=pages.order)
    short = [{name: _round_number(line[name]) for name in pages.summary} for line in lines]
    text = fill_tables(pages, page.read_text(), short, str(page))
    results.write_columns(summary, short)
    write_atomically(page, lambda part: part.write_text(text))
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
    marked = re.compile(rf"{start}.*?(?={pages.end})", re.DOTALL)
    marks = [found.group(2) for found in marked.finditer(text)]
    if not marks or set(marks) - set(pages.tables):
        words = f"expected marks of {', '.join(pages.tables)}, each closed by {pages.end}"
        raise InputError(f"{name}: {words}; found {', '.join(marks) or 'none'}")
    return marked.sub(
        lambda at: at.group(1) + "\n" + pages.tables[at.group(2)](lines) + "\n\n", text
    )


def budgets(lines: Sequence[Line]) -> tuple[list[float], list[float]]:
    """(deltas, epsilons) that occur, increasing."""
    private = [line for line in lines if line["epsilon"] is not None]
    return sorted(distinct(private, "delta")), sorted(distinct(private, "epsilon"))


def delta_words(delta: float) -> str:
    """The words of a delta."""
    return f"delta = {delta:g}" if delta else "pure"


def sort_key(datasets: Sequence[str], methods: Sequence[str]) -> Callable[[Line], tuple]:
    """The key that sorts by data set, method, delta and epsilon, as they are declared."""

    def key(line: Line) -> tuple:
        known = line["dataset"] in datasets
        place = datasets.index(line["dataset"]) if known else len(datasets)
        method = methods.index(line["method"]) if line["method"] in methods else len(methods)
        return place, line["dataset"], method, line["delta"] or 0.0, line["epsilon"] or 0.0

    return key


def origin_table(lines: Sequence[Line]) -> str:
    """What made the lines."""
    names = {"splits": "splits", "commit": "commit", "jax": "JAX", "device": "device"}
    rows = [("lines", str(len(lines)))]
    for key, words in names.items():
        rows.append((words, "; ".join(sorted({str(line[key])[:60] for line in lines}))))
    return table(("of the saved results", ""), rows)


def setting_table(lines: Sequence[Line]) -> str:
    """The setting of each method that has one for all data."""
    rows = []
    for method in distinct(lines, "method"):
        words = distinct((line for line in lines if line["method"] == method), "setting")
        shown = words[0] if len(words) == 1 else "set by its rule from public quantities"
        libraries = distinct((line for line in lines if line["method"] == method), "library")
        rows.append((f"`{method}`", shown, ", ".join(at or "dpbt" for at in libraries)))
    return table(("method", "setting", "library"), rows)


def rank_tables(lines: Sequence[Line], methods: Sequence[str], measures: Sequence[str]) -> str:
    """A table for each delta: mean ranks over data sets, and on how many each method is best.

    Args:
        lines: of the methods themselves; one that lacks an epsilon is left out.
        methods: the order of the rows.
        measures: the columns to rank by, of which more is better.
    """
    lines = ranks.at_every_epsilon(lines)
    deltas, epsilons = budgets(lines)
    parts = []
    for delta in deltas:
        by = {
            measure: {e: ranks.mean_ranks(lines, e, delta, measure) for e in epsilons}
            for measure in measures
        }
        first = by[measures[0]]
        rows = []
        for method in methods:
            if not any(method in at.of for at in first.values()):
                continue
            cells = []
            for epsilon in epsilons:
                each = [by[measure][epsilon].of.get(method) for measure in measures]
                cells.append(" / ".join(f"{at.rank:.1f} ({at.wins})" for at in each if at))
            rows.append((f"`{method}`", *cells))
        most = max(first.values(), key=lambda at: len(at.of))
        apart = ranks.critical_difference(len(most.of), most.datasets)
        words = ", ".join(map(str, sorted({at.datasets for at in first.values()})))
        head = (
            f"{delta_words(delta)}, {words} data sets",
            *(f"{epsilon:g}" for epsilon in epsilons),
        )
        line = f"Mean ranks of {len(most.of)} methods over {most.datasets} data sets differ at the "
        line += f"level of 5 % (Nemenyi) where they are {apart:.1f} apart."
        parts += [table(head, rows), line]
    return "\n\n".join(parts)


def seconds_table(lines: Sequence[Line]) -> str:
    """Mean seconds of a fit over all budgets, by method and data set."""
    names = distinct(lines, "dataset")
    rows = []
    for method in distinct(lines, "method"):
        own = [line for line in lines if line["method"] == method]
        cells = []
        for name in names:
            found = [line["seconds"] for line in own if line["dataset"] == name]
            cells.append(f"{statistics.fmean(found):.2g}" if found else "")
        rows.append((f"`{method}`", *cells))
    return table(("method", *names), rows)
