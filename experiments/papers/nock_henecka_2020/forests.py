"""Run RF-L and RF-E of section 17.2 on the 19 domains, in the same folds as the grid.

Forests have 21 trees of depth 2, 4 or 6, as in Table 4. A negative noisy count is read as 0.
"""

import argparse

from dpbt import recipes, sweeps
from dpbt.owners.cli.parsing import as_input_error
from dpbt.types import Recipe
from experiments.papers.nock_henecka_2020.run import (
    add_bins_option,
    add_fit_options,
    fit_and_report,
)
from experiments.papers.nock_henecka_2020.settings import (
    CALIBRATIONS,
    EPSILONS,
    FOREST_DEPTHS,
    FOREST_TREES,
    FORESTS,
    NAME,
    SEED,
)

FOLDER = f"{NAME}_forests"


def forest(*, kind: str, **settings) -> Recipe:
    """One of the kinds of FORESTS, so that the kind can be an axis of a sweep.

    Args:
        kind: "rf_l" or "rf_e".
        settings: the arguments of its recipe.
    """
    if kind == "rf_l":
        return recipes.rf_l(negative="zero", **settings)
    return recipes.rf_e(**settings)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_bins_option(parser)
    add_fit_options(parser, FOLDER, "show no progress")


def sweep(smoke: bool = False) -> sweeps.Sweep:
    """The forests of Table 4 in both calibrations."""
    axes = {
        "kind": tuple(FORESTS.values()),
        "epsilon": EPSILONS[2:3] if smoke else EPSILONS,
        "rounds": (3,) if smoke else (FOREST_TREES,),
        "depth": FOREST_DEPTHS[:1] if smoke else FOREST_DEPTHS,
        "calibration": CALIBRATIONS,
    }
    return sweeps.Sweep("nock_henecka_forests", forest, (axes,), seed=SEED)


def run_command(options: argparse.Namespace) -> None:
    """Fit the forests that are missing."""
    with as_input_error():
        fit_and_report(sweep(options.smoke), options.bins, options)
