"""The tables of the page, from the saved lines; nothing of them is typed.

A table stands between `<!-- frontier: NAME -->` and `<!-- frontier: end -->`. Writing a page keeps
everything outside of these marks.
"""

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dpbt.commands.errors import InputError
from dpbt.sweeps.storage import write_whole
from experiments.common import ranks, results, tables
from experiments.frontier import tuned_tables
from experiments.frontier.ablation import CHANGES
from experiments.frontier.methods import EVERY, METHODS
from experiments.frontier.settings import DATASETS

Line = results.Line
END = "<!-- frontier: end -->"
_MARKED = re.compile(
    r"(<!-- frontier: (?!end )([\w-]+) -->\n).*?(?=<!-- frontier: end -->)", re.DOTALL
)

SUMMARY = (
    *("dataset", "method", "epsilon", "delta", "accuracy_mean", "accuracy_sd"),
    *("auroc_mean", "auroc_sd", "log_loss_mean", "seconds", "setting"),
    *("splits", "bins", "rows", "library", "commit", "jax", "device"),
)
"""The columns of the summary."""

PRICE_EPSILONS = (0.1, 1.0, 5.0)


def write(page: Path, saved: Path, command: str = "frontier") -> list[Path]:
    """Write the tables into a page, and the lines in short beside it as CSV.

    Args:
        page: a Markdown file with marks.
        saved: the file of results. If it does not exist, the CSV beside the page is read.
        command: the arguments of `python -m experiments` that write it.

    Returns:
        The files that were written.

    Raises:
        InputError: if there is no page, if it has no marks or unknown ones, or if nothing has been
            saved.
    """
    if not page.exists():
        raise InputError(f"{page} does not exist")
    summary = page.with_suffix(".csv")
    lines = sorted(results.read_csv(saved if saved.exists() else summary, command), key=_order)
    short = [{name: _short(line[name]) for name in SUMMARY} for line in lines]
    text = filled(page.read_text(), short, str(page))
    results.write_columns(summary, short)
    write_whole(page, lambda part: part.write_text(text))
    return [page, summary]


def _short(value: object) -> object:
    """A number with four digits."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _order(line: Line) -> tuple:
    """By data set, method, delta and epsilon, in the order in which they are declared."""
    known, methods = list(DATASETS), list(EVERY)
    place = known.index(line["dataset"]) if line["dataset"] in known else len(known)
    method = methods.index(line["method"]) if line["method"] in EVERY else len(methods)
    return place, line["dataset"], method, line["delta"] or 0.0, line["epsilon"] or 0.0


def filled(text: str, lines: Sequence[Line], name: str) -> str:
    """The text of a page with its tables made of lines.

    Raises:
        InputError: for a page without marks, and for a mark that names no table.
    """
    marks = [found.group(2) for found in _MARKED.finditer(text)]
    if not marks or set(marks) - set(TABLES):
        words = f"expected marks of {', '.join(TABLES)}, each closed by {END}"
        raise InputError(f"{name}: {words}; found {', '.join(marks) or 'none'}")
    return _MARKED.sub(lambda at: at.group(1) + "\n" + TABLES[at.group(2)](lines) + "\n\n", text)


def _distinct(lines: Iterable[Line], key: str) -> list:
    return list(dict.fromkeys(line[key] for line in lines))


def _budgets(lines: Sequence[Line]) -> tuple[list[float], list[float]]:
    """(deltas, epsilons) that occur, increasing."""
    found = [line for line in lines if line["epsilon"] is not None]
    return sorted(_distinct(found, "delta")), sorted(_distinct(found, "epsilon"))


def _named(delta: float) -> str:
    return f"delta = {delta:g}" if delta else "pure"


def _plain(lines: Sequence[Line]) -> list[Line]:
    """The lines of the methods themselves, without the ablation."""
    return [line for line in lines if line["method"] in METHODS]


def _origin(lines: Sequence[Line]) -> str:
    """What made the lines."""
    names = {"splits": "splits", "commit": "commit", "jax": "JAX", "device": "device"}
    rows = [("lines", str(len(lines)))]
    for key, words in names.items():
        rows.append((words, "; ".join(sorted({str(line[key])[:60] for line in lines}))))
    return tables.markdown(("of the saved results", ""), rows)


def _settings(lines: Sequence[Line]) -> str:
    """The setting of each method that has one for all data; `auto` as an example."""
    rows = []
    for method in _distinct(_plain(lines), "method"):
        words = _distinct((line for line in lines if line["method"] == method), "setting")
        shown = words[0] if len(words) == 1 else "set by its rule from public quantities"
        libraries = _distinct((line for line in lines if line["method"] == method), "library")
        rows.append((f"`{method}`", shown, ", ".join(at or "dpbt" for at in libraries)))
    return tables.markdown(("method", "setting", "library"), rows)


def _values(line: Line, best: bool) -> str:
    numbers = [f"{line['accuracy_mean']:.3f}", f"{line['auroc_mean']:.3f}"]
    if line["log_loss_mean"] is not None:
        numbers.append(f"{line['log_loss_mean']:.2f}")
    short = " ".join(number.removeprefix("0") for number in numbers)
    return f"**{short}**" if best else short


def _by_dataset(lines: Sequence[Line]) -> str:
    """A table for each data set: accuracy, AUROC and log loss by method, delta and epsilon."""
    lines = _plain(lines)
    deltas, epsilons = _budgets(lines)
    parts = []
    for name in _distinct(lines, "dataset"):
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
            for method in _distinct(here, "method"):
                cells = {line["epsilon"]: line for line in here if line["method"] == method}
                shown = [
                    _values(cells[e], cells[e]["auroc_mean"] == best[e]) if e in cells else ""
                    for e in epsilons
                ]
                rows.append((f"`{method}`", _named(delta), *shown))
        for line in own:
            if line["epsilon"] is None:
                shown = [_values(line, False), *[""] * (len(epsilons) - 1)]
                rows.append((f"`{line['method']}`", "no privacy", *shown))
        head = ("method", "", *(f"{epsilon:g}" for epsilon in epsilons))
        parts.append(f"### {name}\n\n{tables.markdown(head, rows)}")
    return "\n\n".join(parts)


def _ranks(lines: Sequence[Line]) -> str:
    """Mean ranks over data sets by AUROC, and on how many each method is best."""
    lines = _plain(lines)
    deltas, epsilons = _budgets(lines)
    parts = []
    for delta in deltas:
        by = {
            measure: {e: ranks.mean_ranks(lines, e, delta, measure) for e in epsilons}
            for measure in ("auroc_mean", "accuracy_mean")
        }
        methods = [m for m in METHODS if any(m in at.of for at in by["auroc_mean"].values())]
        rows = []
        for method in methods:
            cells = []
            for epsilon in epsilons:
                both = [by[measure][epsilon].of.get(method) for measure in by]
                cells.append(" / ".join(f"{at.rank:.1f} ({at.wins})" for at in both if at))
            rows.append((f"`{method}`", *cells))
        counts = sorted({at.datasets for at in by["auroc_mean"].values()})
        words = ", ".join(map(str, counts))
        head = (f"{_named(delta)}, {words} data sets", *(f"{epsilon:g}" for epsilon in epsilons))
        parts.append(tables.markdown(head, rows))
    return "\n\n".join(parts)


def _price(lines: Sequence[Line]) -> str:
    """AUROC of boosting, of `auto` without noise, and what noise takes from it, in points."""
    deltas, epsilons = _budgets(lines)
    chosen = [epsilon for epsilon in PRICE_EPSILONS if epsilon in epsilons]
    rows = []
    for name in _distinct(lines, "dataset"):
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
    budgets = [f"{_named(delta)}, {epsilon:g}" for delta in deltas for epsilon in chosen]
    return tables.markdown(
        ("data", "boosting", "`auto`, no noise", "its difference", *budgets), rows
    )


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _points(value: float | None, from_value: float | None) -> str:
    """A difference in points of a hundredth."""
    if value is None or from_value is None:
        return ""
    return f"{round(100 * (value - from_value), 1) + 0.0:+.1f}"  # + 0.0 turns -0.0 into 0.0


def _seconds(lines: Sequence[Line]) -> str:
    """Mean seconds of a fit over all budgets, by method and data set."""
    lines = _plain(lines)
    names = _distinct(lines, "dataset")
    rows = []
    for method in _distinct(lines, "method"):
        if method == "larger-class":
            continue
        own = [line for line in lines if line["method"] == method]
        cells = []
        for name in names:
            found = [line["seconds"] for line in own if line["dataset"] == name]
            cells.append(f"{statistics.fmean(found):.2g}" if found else "")
        rows.append((f"`{method}`", *cells))
    return tables.markdown(("method", *names), rows)


def _ablation(lines: Sequence[Line]) -> str:
    """Differences to `auto`, in points of AUROC and of accuracy, means over data sets."""
    changed = [line for line in lines if line["method"].startswith("auto:")]
    if not changed:
        return "Not measured yet."
    deltas, epsilons = _budgets(changed)
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
    budgets = [f"{_named(delta)}, {epsilon:g}" for delta in deltas for epsilon in epsilons]
    return tables.markdown(("changed", *budgets), rows)


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
    "origin": _origin,
    "settings": _settings,
    "ranks": _ranks,
    "datasets": _by_dataset,
    "price": _price,
    "seconds": _seconds,
    "ablation": _ablation,
    "tuned": tuned_tables.by_dataset,
    "tuned-losses": tuned_tables.losses_by_dataset,
    "tuned-summary": tuned_tables.summary,
}
"""The name of a mark -> what stands there."""
