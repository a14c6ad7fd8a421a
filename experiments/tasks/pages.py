"""The tables of the page, from the saved lines; nothing of them is typed.

`experiments.common.pages` says where they stand.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.common import pages, ranks, results
from experiments.common.pages import budgets, distinct, named, table
from experiments.tasks.task import Measure, Task

Line = results.Line

WITHOUT_FIT = ("larger-class", "mean", "median")
"""Methods whose seconds say nothing."""


def write(task: Task, page: Path, saved: Path) -> list[Path]:
    """Write a task's tables into a page, and its lines in short beside it; see `pages.write`."""
    return pages.write(of_task(task), page, saved, page.with_name(f"{task.name}.csv"))


def of_task(task: Task) -> pages.Pages:
    """What the task's command writes."""
    made: dict[str, Callable[[Sequence[Line]], str]] = {
        "origin": pages.origin,
        "settings": pages.settings,
        "ranks": lambda lines: pages.rank_tables(lines, list(task.methods), _by_rank(task)),
        "datasets": lambda lines: _by_dataset(task, lines),
        "seconds": lambda lines: pages.seconds(
            [line for line in lines if line["method"] not in WITHOUT_FIT]
        ),
    }
    summary = (
        *("dataset", "method", "epsilon", "delta", *task.columns, "seconds", "setting"),
        *("splits", "bins", "rows", "library", "commit", "jax", "device"),
    )
    order = pages.order_of(list(task.datasets), list(task.methods))
    return pages.Pages(task.name, made, summary, order)


def _by_rank(task: Task) -> tuple[str, ...]:
    """The columns of which more is better."""
    return tuple(f"{name}_mean" for name, measure in task.measures.items() if measure.more)


def _by_dataset(task: Task, lines: Sequence[Line]) -> str:
    """A table for each data set: the measures by method, delta and epsilon.

    The best private method of a column by the first measure is bold.
    """
    deltas, epsilons = budgets(lines)
    first = f"{next(iter(task.measures))}_mean"
    parts = []
    for name in distinct(lines, "dataset"):
        own = [line for line in lines if line["dataset"] == name]
        rows = []
        for delta in deltas:
            here = [line for line in own if line["delta"] == delta]
            rivals = ranks.taking_part(own, delta)
            best = {
                e: max((at[first] for at in rivals if at["epsilon"] == e), default=None)
                for e in epsilons
            }
            for method in distinct(here, "method"):
                cells = {line["epsilon"]: line for line in here if line["method"] == method}
                shown = [
                    _values(task, cells[e], cells[e][first] == best[e]) if e in cells else ""
                    for e in epsilons
                ]
                rows.append((f"`{method}`", named(delta), *shown))
        for line in own:
            if line["epsilon"] is None:
                shown = [_values(task, line, False), *[""] * (len(epsilons) - 1)]
                rows.append((f"`{line['method']}`", "no privacy", *shown))
        head = ("method", "", *(f"{epsilon:g}" for epsilon in epsilons))
        parts.append(f"### {name}\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def _values(task: Task, line: Line, best: bool) -> str:
    values = ((line[f"{name}_mean"], measure) for name, measure in task.measures.items())
    short = " ".join(_short(value, measure) for value, measure in values if value is not None)
    return f"**{short}**" if best else short


def _short(value: float, measure: Measure) -> str:
    """Three digits after the point of a share; three digits at least of a distance."""
    if measure.more:
        return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
