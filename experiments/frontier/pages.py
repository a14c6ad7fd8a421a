"""The tables of the page, from the saved lines; nothing of them is typed.

`experiments.common.pages` says where they stand.
"""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.common import pages, ranks, results
from experiments.common.pages import budgets, distinct, named, table
from experiments.frontier.ablation import CHANGES
from experiments.frontier.methods import EVERY, METHODS
from experiments.frontier.settings import DATASETS

Line = results.Line

SUMMARY = (
    *("dataset", "method", "epsilon", "delta", "accuracy_mean", "accuracy_sd"),
    *("auroc_mean", "auroc_sd", "log_loss_mean", "seconds", "setting"),
    *("splits", "bins", "rows", "library", "commit", "jax", "device"),
)
"""The columns of the summary."""

PRICE_EPSILONS = (0.1, 1.0, 5.0)


def write(page: Path, saved: Path) -> list[Path]:
    """Write the tables into a page, and the lines in short beside it as CSV; see `pages.write`."""
    return pages.write(PAGES, page, saved, page.with_suffix(".csv"))


def filled(text: str, lines: Sequence[Line], name: str) -> str:
    """The text of a page with its tables made of lines; see `pages.filled`."""
    return pages.filled(PAGES, text, lines, name)


def _plain(lines: Sequence[Line]) -> list[Line]:
    """The lines of the methods themselves, without the ablation."""
    return [line for line in lines if line["method"] in METHODS]


def _values(line: Line, best: bool) -> str:
    numbers = [f"{line['accuracy_mean']:.3f}", f"{line['auroc_mean']:.3f}"]
    if line["log_loss_mean"] is not None:
        numbers.append(f"{line['log_loss_mean']:.2f}")
    short = " ".join(number.removeprefix("0") for number in numbers)
    return f"**{short}**" if best else short


def _by_dataset(lines: Sequence[Line]) -> str:
    """A table for each data set: accuracy, AUROC and log loss by method, delta and epsilon."""
    lines = _plain(lines)
    deltas, epsilons = budgets(lines)
    parts = []
    for name in distinct(lines, "dataset"):
        own = [line for line in lines if line["dataset"] == name]
        rows = []
        for delta in deltas:
            here = [line for line in own if line["delta"] == delta]
            rivals = ranks.taking_part(own, delta)
            best = {
                epsilon: max(
                    (at["auroc_mean"] for at in rivals if at["epsilon"] == epsilon), default=0
                )
                for epsilon in epsilons
            }
            for method in distinct(here, "method"):
                cells = {line["epsilon"]: line for line in here if line["method"] == method}
                shown = [
                    _values(cells[e], cells[e]["auroc_mean"] == best[e]) if e in cells else ""
                    for e in epsilons
                ]
                rows.append((f"`{method}`", named(delta), *shown))
        for line in own:
            if line["epsilon"] is None:
                shown = [_values(line, False), *[""] * (len(epsilons) - 1)]
                rows.append((f"`{line['method']}`", "no privacy", *shown))
        head = ("method", "", *(f"{epsilon:g}" for epsilon in epsilons))
        parts.append(f"### {name}\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def _ranks(lines: Sequence[Line]) -> str:
    return pages.rank_tables(_plain(lines), list(METHODS), ("auroc_mean", "accuracy_mean"))


def _price(lines: Sequence[Line]) -> str:
    """AUROC of boosting, of `auto` without noise, and what noise takes from it, in points."""
    deltas, epsilons = budgets(lines)
    chosen = [epsilon for epsilon in PRICE_EPSILONS if epsilon in epsilons]
    rows = []
    for name in distinct(lines, "dataset"):
        own = {
            (line["method"], line["epsilon"], line["delta"]): line["auroc_mean"]
            for line in lines
            if line["dataset"] == name
        }
        ceiling = own.get(("auto-without-noise", None, None))
        boosting = own.get(("boosting", None, None))
        cells = []
        for delta in deltas:
            for epsilon in chosen:
                auto = own.get(("auto", epsilon, delta))
                cells.append(_points(auto, ceiling))
        rows.append((name, _share(boosting), _share(ceiling), _points(ceiling, boosting), *cells))
    shown = [f"{named(delta)}, {epsilon:g}" for delta in deltas for epsilon in chosen]
    return table(("data", "boosting", "`auto`, no noise", "its difference", *shown), rows)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _points(value: float | None, from_value: float | None) -> str:
    """A difference in points of a hundredth."""
    if value is None or from_value is None:
        return ""
    return f"{round(100 * (value - from_value), 1) + 0.0:+.1f}"  # + 0.0 turns -0.0 into 0.0


def _settings(lines: Sequence[Line]) -> str:
    return pages.settings(_plain(lines))


def _seconds(lines: Sequence[Line]) -> str:
    return pages.seconds([line for line in _plain(lines) if line["method"] != "larger-class"])


def _ablation(lines: Sequence[Line]) -> str:
    """Differences to `auto`, in points of AUROC and of accuracy, means over data sets."""
    changed = [line for line in lines if line["method"].startswith("auto:")]
    if not changed:
        return "Not measured yet."
    deltas, epsilons = budgets(changed)
    own = {
        (line["dataset"], line["epsilon"], line["delta"]): line
        for line in lines
        if line["method"] == "auto"
    }
    rows = []
    for part in CHANGES:
        cells = []
        for delta in deltas:
            for epsilon in epsilons:
                pairs = [
                    (line, own.get((line["dataset"], epsilon, delta)))
                    for line in changed
                    if line["method"] == f"auto:{part}"
                    and (line["epsilon"], line["delta"]) == (epsilon, delta)
                ]
                cells.append(_mean_differences(pairs))
        rows.append((part.replace("-", " "), *cells))
    shown = [f"{named(delta)}, {epsilon:g}" for delta in deltas for epsilon in epsilons]
    return table(("changed", *shown), rows)


def _mean_differences(pairs: list[tuple[Line, Line | None]]) -> str:
    """Of lines to those of `auto` with as many splits, and the number of data sets."""
    fair = [(a, b) for a, b in pairs if b is not None and a["splits"] == b["splits"]]
    if not fair:
        return ""
    means = [
        statistics.fmean(100 * (a[measure] - b[measure]) for a, b in fair)
        for measure in ("auroc_mean", "accuracy_mean")
    ]
    return f"{means[0]:+.1f} / {means[1]:+.1f} ({len(fair)})"


TABLES: dict[str, Callable[[Sequence[Line]], str]] = {
    "origin": pages.origin,
    "settings": _settings,
    "ranks": _ranks,
    "datasets": _by_dataset,
    "price": _price,
    "seconds": _seconds,
    "ablation": _ablation,
}
"""The name of a mark -> what stands there."""

PAGES = pages.Pages("frontier", TABLES, SUMMARY, pages.order_of(list(DATASETS), list(EVERY)))
END = PAGES.end
