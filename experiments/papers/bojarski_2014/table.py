"""Print Table 1 from the saved results, beside the paper's numbers."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from dpbt.prediction import VOTINGS
from experiments.common import commands, results, tables
from experiments.papers.bojarski_2014.settings import DATASETS, EVERY_DATASET, NAME

FIELDS = (
    *("dataset", "private", "voting", "trees", "height"),
    *("error", "interval", "paper_error"),
)
MORE = {
    "lowest_test_error": "lowest test error",
    "papers_forest": "at paper's k, h",
    "as_printed": "as printed",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "data sets (all that have been run)"
    names = {"nargs": "+", "choices": EVERY_DATASET, "metavar": "NAME"}
    parser.add_argument("--dataset", **names, help=words)
    commands.add_results(parser, results.folder(NAME))
    commands.add_json(parser, "print a JSON list, without CART")


def run(options: argparse.Namespace) -> None:
    """Print what was saved."""
    folder = Path(options.results)
    there = [name for name in EVERY_DATASET if (folder / f"{name}_table.csv").exists()]
    show(folder, options.dataset or there or DATASETS[:1], options.json)


def show(folder: Path, names: Sequence[str], as_json: bool) -> None:
    """Print Table 1 of some data sets.

    Raises:
        InputError: if one of them has not been saved.
    """
    lines = []
    for name in names:
        path = folder / f"{name}_table.csv"
        lines += results.read_csv(path, f"{NAME} run --dataset {name}")
    if as_json:
        own = [line for line in lines if line["voting"] in VOTINGS]
        print(json.dumps([{field: line[field] for field in FIELDS} for line in own], indent=1))
        return
    print(as_text(lines))
    words = "errors in percent, +- half the width of the 95 % binomial interval"
    print(f"{words}; as printed: theta is uniform where a count is negative")


def as_text(lines: list[results.Line]) -> str:
    """Table 1 beside the paper's numbers, in percent."""
    head = ("dataset", "", "voting", "trees", "height", "error", "paper", *MORE.values())
    rows = [
        (
            line["dataset"],
            "private" if line["private"] else "",
            line["voting"],
            str(line["trees"] or ""),
            str(line["height"] or ""),
            _with_interval(line["error"], line["interval"]),
            _with_interval(line["paper_error"], line["paper_interval"]),
            *("" if line[name] is None else f"{line[name]:.2f}" for name in MORE),
        )
        for line in lines
    ]
    return tables.aligned(head, rows)


def _with_interval(error: float | None, half: float | None) -> str:
    return "" if error is None else f"{error:.2f} +- {half:.2f}"
