"""Which M of the step did the paper run? Fit readings of it on a part of the grid, and compare.

The step of Algorithm 1 is a = alpha / M^2 for trees with values in [-M, M]. The readings differ in
what M is, and in how beta_t is protected. `bdpe` has most of them as `step_clip`; `second_option`
has those that are not protected. Budgets are moved between splits and leaves where a reading says
so. The grid is that of section 17 with beta_tree = 0.5 and depths 2 and 4.
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbt import recipes, sweeps
from dpbt.cli.shared import of_input
from dpbt.common.types import Recipe
from experiments.common import commands, pages, results
from experiments.papers.nock_henecka_2020 import second_option, settings, step_tables
from experiments.papers.nock_henecka_2020.forests import FOLDER as FORESTS_FOLDER
from experiments.papers.nock_henecka_2020.run import add_domains, fit_all, tasks

OUT = results.folder(settings.NAME) / "steps"
OWN, EXACT = 0.1, 9e5
"""The least M where it is the tree's own, and the budget of splits that have hardly any noise."""


class Reading(NamedTuple):
    """One reading of the step.

    Attributes:
        option: "first", "second" or "tight"; "none" has no noise.
        m: "public", "tree" (of what is released) or "observed" (before the noise).
        more: "leaf budgets whole" or "best splits" in the private ones, else "".
    """

    option: str
    m: str
    more: str = ""


WHOLE, BEST, UNCLAMPED = "leaf budgets whole", "best splits", "not clamped"
PRIVATE = (
    Reading("first", "public"),
    Reading("first", "observed"),
    Reading("first", "observed", WHOLE),
    Reading("first", "observed", BEST),
    Reading("second", "public"),
    Reading("second", "tree"),
    Reading("second", "observed"),
    Reading("second", "public", BEST),
    Reading("second", "observed", BEST),
    Reading("tight", "public"),
    Reading("tight", "tree"),
)
NOISELESS = (
    Reading("none", "public: link"),
    Reading("none", "tree"),
    Reading("none", "public: 10"),
    Reading("none", "public: 10", UNCLAMPED),
)


def name(reading: Reading) -> str:
    """The reading in words."""
    return ", ".join(part for part in reading if part)


def boosted(
    *, reading: str, epsilon: ArrayLike, beta_tree: ArrayLike, depth: int, **given: Any
) -> Recipe:
    """The ensemble of a reading.

    Args:
        reading: its words.
        epsilon: what the paper claims.
        beta_tree: the share of epsilon for splits.
        depth: D.
        given: the other arguments of `recipes.bdpe`.
    """
    option, m, more = READINGS[reading]
    least = np.inf if m.startswith("public") else OWN
    if option == "second" or m == "public: 10":
        noise = second_option.Noise(
            splits=option == "second" and more != BEST,
            leaves=option == "second",
            each_leaf=more != WHOLE,
            before=True,
            unclamped=more == UNCLAMPED,
        )
        share = {"epsilon": epsilon, "beta_tree": beta_tree, "depth": depth}
        observed = {"observed": m == "observed", "step_clip": 1.0 if m == "observed" else least}
        return second_option.recipe(noise=noise, **observed, **share, **given)
    splits = EXACT if more == BEST else np.asarray(beta_tree) * epsilon
    leaves = (1 - np.asarray(beta_tree)) * epsilon * (2**depth if more == WHOLE else 1)
    return recipes.bdpe(
        epsilon=np.inf if option == "none" else splits + leaves,
        beta_tree=splits / (splits + leaves),
        depth=depth,
        calibration="published" if option == "first" else "tight",
        step_clip=least,
        **given,
    )


READINGS = {name(reading): reading for reading in (*PRIVATE, *NOISELESS)}


def sweep(smoke: bool = False) -> sweeps.Sweep:
    """The part of section 17's grid for v_q = 10 and M = 10, under all readings."""
    shared = settings.SMOKE if smoke else {**settings.GRID, "depth": (2, 4)}
    shared = {**shared, "beta_tree": (0.5,)}
    private = {**shared, "epsilon": settings.EPSILONS, "reading": tuple(map(name, PRIVATE))}
    without = {**shared, "epsilon": (1.0,), "reading": tuple(map(name, NOISELESS))}
    return sweeps.Sweep("nock_henecka_steps", boosted, (private, without), seed=settings.SEED)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_domains(parser)
    words = "the folder of the results of `forests` (%(default)s)"
    default = str(results.folder(FORESTS_FOLDER))
    parser.add_argument("--forests", metavar="FOLDER", default=default, help=words)
    about = "; a run resumes there"
    shared = {"data": True, "out": OUT, "about": about, "memory": True, "smoke": True, "doc": True}
    commands.add_shared(parser, **shared, json="show no progress")


def run(options: argparse.Namespace) -> None:
    """Fit what is missing; or write the page."""
    out = commands.out_folder(options)
    if options.doc is not None:
        with of_input():
            lines = step_tables.lines(out, Path(options.forests))
        if lines:
            results.write_columns(out / "steps.csv", lines)
        pages.write(step_tables.PAGES, Path(options.doc), out / "steps.csv")
        return
    start = time.perf_counter()
    report = fit_all(sweep(options.smoke), tasks(options.datasets, 10, options.data), options)
    print(f"{report.fits} fits, {report.programs} programs, {time.perf_counter() - start:.0f} s")
