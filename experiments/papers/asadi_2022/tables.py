"""Print saved results: accuracies, series, settings or features."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from experiments.common import commands, results, tables
from experiments.papers.asadi_2022.settings import NAME, SERIES, searched_axes

SAVED_BY = {
    "accuracy": "run",
    **{name: f"series {name}" for name in SERIES},
    "selected": "grid",
    "sparsity": "sparsity",
    "baselines": "baselines",
    "rivals": "rivals",
    "bounds": "margins",
    "shared_budget": "shared_budget",
}
"""Name of the saved results -> the program that saves them."""

ACCURACY_COLUMNS = (
    *("dataset", "epsilon", "calibration", "learner"),
    *("accuracy_mean", "accuracy_sd", "keys", "paper"),
)
OTHER_COLUMNS = {
    "sparsity": (
        *("dataset", "epsilon", "rounds", "paper"),
        *("published", "doubled", "tight", "no_privacy"),
    ),
    "baselines": (
        *("dataset", "protocol", "method", "epsilon"),
        *("accuracy_mean", "accuracy_sd", "keys"),
    ),
    "rivals": ("dataset", "method", "epsilon", "accuracy_mean", "accuracy_sd", "keys", "chosen"),
    "bounds": ("dataset", "calibration", "bound_mean", "bound_sd", "complexity", "keys"),
    "shared_budget": (
        *("calibration", "rounds", "first", "lasting", "earliest", "latest"),
        *("last_mean", "keys"),
    ),
}
"""The columns of results that are not accuracies."""

ORIGIN_COLUMNS = (
    *("features", "folds", "seed", "dpbt", "commit", "jax", "device"),
    *("command", "date", "reduced"),
)
"""Columns of accuracies that describe how the lines were made."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "the results to print (%(default)s)"
    parser.add_argument("saved", nargs="?", choices=SAVED_BY, default="accuracy", help=words)
    commands.add_shared(parser, saved=results.results_folder(NAME), json="print a JSON list")


def run_command(options: argparse.Namespace) -> None:
    """Print what was saved."""
    print_table(Path(options.results), options.saved, as_json=options.json)


def print_table(folder: Path, saved: str, *, as_json: bool) -> None:
    """Print the lines of one file; columns that aggregated results lack are left out.

    Args:
        folder: folder of the results of a run, or of those that were aggregated.
        saved: one of SAVED_BY.
        as_json: print a JSON list, without the settings of accuracies and series.

    Raises:
        InputError: if the results have not been saved.
    """
    command = f"{NAME} {SAVED_BY[saved]}"
    lines = results.read_with_constants(folder / f"{saved}.csv", command)
    if as_json:
        all_columns = [name for name in lines[0] if name not in ORIGIN_COLUMNS]
        fields = all_columns if saved == "selected" else OTHER_COLUMNS.get(saved, ACCURACY_COLUMNS)
        fields = [name for name in fields if name in lines[0]]
        print(json.dumps([{name: line[name] for name in fields} for line in lines], indent=1))
        return
    columns = OTHER_COLUMNS.get(saved) or _accuracy_columns(lines, saved)
    print(tables.align_lines(lines, [name for name in columns if name in lines[0]], ".4f"))


def _accuracy_columns(lines: Sequence[results.Line], saved: str) -> list[str]:
    """The columns of a table of accuracies, with the settings, and with delta if it is not 0."""
    names = [*ACCURACY_COLUMNS, *searched_axes(lines[0]["learner"], "tight")]
    if saved == "selected":
        names += ["selected_by", "of"]
    elif max(line["delta"] for line in lines) > 0:
        names.append("delta")
    return names
