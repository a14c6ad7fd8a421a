"""Print Table 1 from the saved results, beside the paper's numbers."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from dpbt.models.scoring import VOTINGS
from experiments.common import commands, results, tables
from experiments.papers.bojarski_2014.settings import ALL_DATASETS, DATASETS, NAME

FIELDS = (
    *("dataset", "private", "voting", "trees", "height"),
    *("error", "interval", "paper_error"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "data sets (all that have been run)"
    names = {"nargs": "+", "choices": ALL_DATASETS, "metavar": "NAME"}
    parser.add_argument("--dataset", **names, help=words)
    commands.add_shared(
        parser, saved=results.results_folder(NAME), json="print a JSON list, without CART"
    )


def run_command(options: argparse.Namespace) -> None:
    """Print what was saved."""
    folder = Path(options.results)
    saved = [name for name in ALL_DATASETS if _read_lines(folder, name)]
    print_table_1(folder, options.dataset or saved or DATASETS[:1], as_json=options.json)


def print_table_1(folder: Path, names: Sequence[str], *, as_json: bool) -> None:
    """Print Table 1 of some data sets.

    Raises:
        InputError: if one of them has not been saved.
    """
    lines = []
    for name in names:
        path, command = folder / f"{name}_table.csv", f"{NAME} run --dataset {name}"
        lines += _read_lines(folder, name) or results.read_csv(path, command)
    if as_json:
        forests = [line for line in lines if line["voting"] in VOTINGS]
        print(json.dumps([{field: line[field] for field in FIELDS} for line in forests], indent=1))
        return
    print(format_table_1(lines))
    words = "errors in percent, +- half the width of the 95 % binomial interval"
    print(f"{words}; as printed: theta is uniform where a count is negative")


def _read_lines(folder: Path, name: str) -> list[results.Line]:
    """The lines of a data set that a run saved, or the aggregated ones; none without either."""
    path, aggregated = folder / f"{name}_table.csv", folder / "table_1.csv"
    if path.exists():
        return results.read_csv(path, f"{NAME} run")
    if not aggregated.exists():
        return []
    return results.where(results.read_csv(aggregated, f"{NAME} aggregate"), dataset=name)


COLUMNS = {
    "dataset": "{dataset}",
    "": "{kind}",
    "voting": "{voting}",
    "trees": "{trees}",
    "height": "{height}",
    "error": "{error:.2f} +- {interval:.2f}",
    "paper": "{paper_error:.2f} +- {paper_interval:.2f}",
    "lowest test error": "{lowest_test_error:.2f}",
    "at paper's k, h": "{papers_forest:.2f}",
    "as printed": "{as_printed:.2f}",
}


def format_table_1(lines: list[results.Line]) -> str:
    """Table 1 beside the paper's numbers, in percent."""
    named = ({**line, "kind": "private" if line["private"] else ""} for line in lines)
    return tables.format_table(named, COLUMNS)
