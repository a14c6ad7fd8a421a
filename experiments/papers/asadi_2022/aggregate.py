"""Aggregate saved accuracies, counts and margins into `reproduction/asadi_2022`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dpbt.owners.cli.parsing import InputError
from experiments.common import aggregated
from experiments.papers.asadi_2022 import claims, tables
from experiments.papers.asadi_2022.settings import NAME, SERIES

ACCURACY_COLUMNS = (
    *("dataset", "epsilon", "delta", "calibration", "accuracy_mean", "accuracy_sd", "keys"),
    *("rounds", "density", "learning_rate"),
)
SPARSITY_COLUMNS = (
    *("dataset", "epsilon", "rounds"),
    *("published", "doubled", "tight", "no_privacy"),
    *("published_sd", "doubled_sd", "tight_sd", "no_privacy_sd"),
)


class SavedFile(NamedTuple):
    """A file that is aggregated.

    Attributes:
        program: the program that saves it, with its options.
        columns: the columns that stay.
    """

    program: str
    columns: Sequence[str]


SAVED_FILES = {
    **{name: SavedFile(f"series {name}", ACCURACY_COLUMNS) for name in SERIES},
    "sparsity": SavedFile("sparsity", SPARSITY_COLUMNS),
    "baselines": SavedFile(
        "baselines",
        ("dataset", "protocol", "method", "epsilon", "accuracy_mean", "accuracy_sd", "keys"),
    ),
    "selected": SavedFile(
        "grid --learner top_down --printed --folds 2 --keys 3",
        (
            *("dataset", "epsilon", "calibration", "accuracy_mean", "accuracy_sd", "keys"),
            *("rounds", "learning_rate", "density", "splits", "selected_by", "of"),
        ),
    ),
    "rivals": SavedFile("rivals", tables.OTHER_COLUMNS["rivals"]),
    "advantages": SavedFile("margins", ("calibration", "round", "mean", "least", "most")),
    "histogram": SavedFile("margins", ("calibration", "low", "high", "share")),
    "shared_budget": SavedFile("shared_budget", tables.OTHER_COLUMNS["shared_budget"]),
    "bounds": SavedFile(
        "margins",
        ("dataset", "calibration", "bound_mean", "bound_sd", "complexity", "keys"),
    ),
}
"""Name of a saved file -> how it is aggregated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_options(parser, NAME)


def run_command(options: argparse.Namespace) -> None:
    """Write the results that were saved, in short, and the claims in words by all results.

    Raises:
        InputError: if nothing was saved.
    """
    aggregated_names = [
        name
        for name, file in SAVED_FILES.items()
        if aggregated.aggregate_saved_file(
            options, NAME, name, command=f"{NAME} {file.program}", keep=file.columns
        )
    ]
    if not aggregated_names:
        raise InputError(f"{options.results} holds no results; run: python -m experiments {NAME}")
    out = Path(options.out)
    names = [name for name in SAVED_FILES if name in aggregated.result_names(NAME, out)]
    results = {name: aggregated.read_result(NAME, name, out) for name in names}
    last_origin = aggregated.read_origin(NAME, aggregated_names[-1], out)
    origin = {name: last_origin[name] for name in (*aggregated.ORIGIN_COLUMNS, "date")}
    origin["command"] = f"python -m experiments {NAME} aggregate"
    results["datasets"] = claims.data_set_lines()
    tables = {"measures": claims.claim_lines(results), "datasets": results["datasets"]}
    tables["percents"] = claims.percent_lines(results.get("sparsity", []), results["datasets"])
    for name, lines in tables.items():
        if lines:
            aggregated.write_result(options, NAME, name, lines=lines, origin=origin)
