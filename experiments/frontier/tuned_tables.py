"""Tables of `python -m experiments tuning`: differences of tuned models to `auto`."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.common import pages
from experiments.common.pages import named, table
from experiments.common.results import Line
from experiments.frontier.methods import EVERY as METHODS
from experiments.frontier.pages import SUMMARY
from experiments.frontier.settings import DATASETS

TUNED = ("tuned", "tuned-logarithmic", "hindsight")
"""The methods of the tables by data set, in order."""

EVERY = (*TUNED[:2], "guess-wide", "tuned-wide", "tuned-wide-logarithmic", "hindsight")
"""The methods of the summary, in order."""

MEASURES = {"auroc_mean": (100, 1), "accuracy_mean": (100, 1), "log_loss_mean": (1, 3)}
"""Measure -> (factor, digits) in which differences are shown."""

NOTHING = "Not measured yet."


def by_dataset(lines: Sequence[Line]) -> str:
    """For each delta and data set: the AUROC of auto, and differences to it in points."""
    return _of_measure(lines, "auroc_mean")


def losses_by_dataset(lines: Sequence[Line]) -> str:
    """For each delta and data set: the log loss of auto, and differences to it."""
    return _of_measure(lines, "log_loss_mean")


def _of_measure(lines: Sequence[Line], measure: str) -> str:
    found = _measured(lines)
    if not found:
        return NOTHING
    factor, digits = MEASURES[measure]
    parts = []
    for delta in _distinct(found, "delta"):
        epsilons = _distinct(found, "epsilon")
        rows = []
        for name in dict.fromkeys(line["dataset"] for line in found):
            cells = []
            for epsilon in epsilons:
                own = {
                    line["method"]: line[measure]
                    for line in found
                    if (line["dataset"], line["epsilon"], line["delta"]) == (name, epsilon, delta)
                }
                if "auto" not in own:
                    cells.append("")
                    continue
                apart = [
                    f"{factor * (own[method] - own['auto']):+.{digits}f}" if method in own else "-"
                    for method in TUNED
                ]
                cells.append(f"{own['auto']:.3f}: {' / '.join(apart)}".removeprefix("0"))
            rows.append((name, *cells))
        parts.append(table((named(delta), *(f"epsilon {e:g}" for e in epsilons)), rows))
    return "\n\n".join(parts)


def summary(lines: Sequence[Line]) -> str:
    """Mean differences to `auto` over data sets, and on how many the tuned model is better."""
    found = _measured(lines)
    if not found:
        return NOTHING
    deltas, epsilons = _distinct(found, "delta"), _distinct(found, "epsilon")
    auto = {_cell(line): line for line in found if line["method"] == "auto"}
    rows = []
    for method in EVERY:
        if all(line["method"] != method for line in found):
            continue
        for measure, (factor, digits) in MEASURES.items():
            cells = []
            for delta in deltas:
                for epsilon in epsilons:
                    apart = [
                        factor * (line[measure] - auto[_cell(line)][measure])
                        for line in found
                        if (line["method"], line["epsilon"], line["delta"])
                        == (method, epsilon, delta)
                        and _cell(line) in auto
                    ]
                    better = sum(
                        (each < 0) == (measure == "log_loss_mean") for each in apart if each
                    )
                    cells.append(
                        f"{statistics.fmean(apart):+.{digits}f} ({better}/{len(apart)})"
                        if apart
                        else ""
                    )
            rows.append((f"`{method}`", measure.removesuffix("_mean").replace("_", " "), *cells))
    budgets = [f"{f'{d:g}' if d else 'pure'}, {e:g}" for d in deltas for e in epsilons]
    return table(("", "", *budgets), rows)


def _cell(line: Line) -> tuple:
    return line["dataset"], line["epsilon"], line["delta"], line["splits"]


def _measured(lines: Sequence[Line]) -> list[Line]:
    """The lines of auto and of the tuned methods, if any of these were measured."""
    found = [line for line in lines if line["method"] in ("auto", *EVERY)]
    return found if any(line["method"] in EVERY for line in found) else []


def _distinct(lines: Sequence[Line], key: str) -> list[float]:
    return sorted(dict.fromkeys(line[key] for line in lines))


TABLES: dict[str, Callable[[Sequence[Line]], str]] = {
    "origin": pages.origin,
    "datasets": by_dataset,
    "losses": losses_by_dataset,
    "summary": summary,
}
"""The name of a mark -> what stands there."""

PAGES = pages.Pages("tuning", TABLES, SUMMARY, pages.order_of(list(DATASETS), list(METHODS)))


def write(page: Path, saved: Path) -> list[Path]:
    """Write the tables into a page, and the lines in short beside it as CSV; see `pages.write`."""
    return pages.write(PAGES, page, saved, page.with_suffix(".csv"))
