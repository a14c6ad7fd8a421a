"""Run the tight grid with alpha = 0.1 in the splits' criterion alone, in the same folds.

A number for alpha sets the criterion and the link. A schedule sets the criterion, and the link is
that of alpha = 1. So these fits tell which of the two has an effect.
"""

import argparse

import optax

from dpbt import recipes, sweeps
from dpbt.owners.cli.parsing import as_input_error
from dpbt.types import Recipe
from experiments.papers.nock_henecka_2020.run import (
    BINS,
    CLIP,
    add_fit_options,
    fit_and_report,
)
from experiments.papers.nock_henecka_2020.settings import GRID, NAME, PRIVATE, SEED, SMOKE

FOLDER = f"{NAME}_criterion"
ALPHA = 0.1


def boosted(**settings) -> Recipe:
    """Trees whose criterion alone has ALPHA.

    Args:
        **settings: the arguments of the recipe but alpha and calibration.
    """
    return recipes.bdpe(alpha=optax.constant_schedule(ALPHA), calibration="tight", **settings)


def sweep(smoke: bool = False) -> sweeps.Sweep:
    """The private part of the grid for one v_q, M and calibration."""
    sizes = {axis: values for axis, values in (SMOKE if smoke else GRID).items() if axis != "alpha"}
    axes = {**sizes, **PRIVATE, "clip": (CLIP,)}
    return sweeps.Sweep("nock_henecka_criterion", boosted, (axes,), seed=SEED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_fit_options(parser, FOLDER, "show no progress")


def run_command(options: argparse.Namespace) -> None:
    """Fit what is missing."""
    with as_input_error():
        fit_and_report(sweep(options.smoke), BINS, options)
