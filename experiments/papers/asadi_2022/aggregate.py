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
    aggregated.arguments(parser, NAME)


def run(options: argparse.Namespace) -> None:
    """Write what was saved in short, and the claims in words by all results that are there.

    Raises:
        InputError: if nothing was saved.
    """
    took = [
        name
        for name, (program, kept) in KEPT.items()
        if aggregated.take(options, NAME, name, f"{NAME} {program}", kept)
    ]
    if not took:
        raise InputError(f"{options.results} holds no results; run: python -m experiments {NAME}")
    out = Path(options.out)
    there = aggregated.names(NAME, out)
    found = {name: aggregated.read(NAME, name, out) for name in KEPT if name in there}
    origin = aggregated.origin(NAME, took[-1], out)
    about = {name: origin[name] for name in (*aggregated.ORIGIN, "date")}
    about["command"] = f"python -m experiments {NAME} aggregate"
    found["datasets"] = claims.data_set_lines()
    made = {"measures": claims.claim_lines(found), "datasets": found["datasets"]}
    made["percents"] = claims.percent_lines(found.get("sparsity", []), found["datasets"])
    for name, lines in made.items():
        if lines:
            aggregated.write(options, NAME, name, lines, about)
