"""Aggregate saved accuracies, counts and margins into `reproduction/asadi_2022`."""

import argparse
from pathlib import Path

from dpbt.owners.cli.shared import InputError
from experiments.common import aggregated
from experiments.papers.asadi_2022 import claims, tables
from experiments.papers.asadi_2022.settings import NAME, SERIES

ACCURACY = (
    *("dataset", "epsilon", "delta", "calibration", "accuracy_mean", "accuracy_sd", "keys"),
    *("rounds", "density", "learning_rate"),
)
SPARSITY = (
    *("dataset", "epsilon", "rounds"),
    *("published", "doubled", "tight", "no_privacy"),
    *("published_sd", "doubled_sd", "tight_sd", "no_privacy_sd"),
)
KEPT = {
    **{name: (f"series {name}", ACCURACY) for name in SERIES},
    "sparsity": ("sparsity", SPARSITY),
    "baselines": (
        "baselines",
        ("dataset", "protocol", "method", "epsilon", "accuracy_mean", "accuracy_sd", "keys"),
    ),
    "selected": (
        "grid --learner top_down --printed --folds 2 --keys 3",
        (
            *("dataset", "epsilon", "calibration", "accuracy_mean", "accuracy_sd", "keys"),
            *("rounds", "learning_rate", "density", "splits", "selected_by", "of"),
        ),
    ),
    "rivals": ("rivals", tables.COUNTS["rivals"]),
    "advantages": ("margins", ("calibration", "round", "mean", "least", "most")),
    "histogram": ("margins", ("calibration", "low", "high", "share")),
    "bounds": (
        "margins",
        ("dataset", "calibration", "bound_mean", "bound_sd", "complexity", "keys"),
    ),
}
"""The saved file -> the program that saves it, and the columns that stay."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_options(parser, NAME)


def run(options: argparse.Namespace) -> None:
    """Write what was saved in short, and the claims in words by all results that are there.

    Raises:
        InputError: if nothing was saved.
    """
    aggregated_names = [
        name
        for name, (program, columns) in KEPT.items()
        if aggregated.take_saved_file(options, NAME, name, f"{NAME} {program}", columns)
    ]
    if not aggregated_names:
        raise InputError(f"{options.results} holds no results; run: python -m experiments {NAME}")
    out = Path(options.out)
    there = aggregated.result_names(NAME, out)
    results = {name: aggregated.read_result(NAME, name, out) for name in KEPT if name in there}
    origin = aggregated.read_origin(NAME, aggregated_names[-1], out)
    about = {name: origin[name] for name in (*aggregated.ORIGIN, "date")}
    about["command"] = f"python -m experiments {NAME} aggregate"
    results["datasets"] = claims.data_set_lines()
    tables = {"measures": claims.claim_lines(results), "datasets": results["datasets"]}
    tables["percents"] = claims.percent_lines(results.get("sparsity", []), results["datasets"])
    for name, lines in tables.items():
        if lines:
            aggregated.write_result(options, NAME, name, lines, about)
