"""Which M of the step did the paper run? Fit readings of it on a part of the grid, and compare.

The step of Algorithm 1 is a = alpha / M^2 for trees with values in [-M, M]. The readings differ in
what M is, and in how beta_t is protected. `bdpe` has those that are protected, as `step_clip`, and
`second_option` the others. The grid is that of section 17 with beta_tree = 0.5, and T of 2 and 20.
`--doc` shows the depths and parts that have all domains.
"""

import argparse
import itertools
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses, recipes, sweeps
from dpbt.owners.cli.shared import of_input
from dpbt.types import Recipe
from experiments.common import commands, pages, results
from experiments.papers.nock_henecka_2020 import second_option, settings, step_tables
from experiments.papers.nock_henecka_2020.run import add_domains, fit_all, tasks

OUT = results.folder(settings.NAME) / "steps"
PARTS = ("published", "tight")
DEPTHS = (2, 4)
CLIP, ZETA = 10.0, 1e-4
EXACT = 9e5
"""The budget of splits that have hardly any noise."""


class Reading(NamedTuple):
    """One reading of the step.

    Attributes:
        option: "first", "second" or "tight"; "none" has no noise.
        m: "public", "tree" (of what is released, or exact) or "observed" (before the noise).
        more: "best splits" without noise, "not clamped" to M, or "".
    """

    option: str
    m: str
    more: str = ""


BEST, UNCLAMPED = "best splits", "not clamped"
PRIVATE = (
    Reading("first", "public"),
    Reading("first", "observed"),
    Reading("first", "observed", BEST),
    Reading("second", "public"),
    Reading("second", "tree"),
    Reading("second", "observed"),
    Reading("second", "public", BEST),
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
    own = not m.startswith("public")
    if option in ("second", "none"):
        alpha = 1.0 if isinstance(given["alpha"], str) else given["alpha"]
        widest = float(losses.m_alpha(alpha).link(1 - ZETA))
        clip = CLIP if option == "second" or m.endswith("10") else widest
        noise = second_option.Noise(
            splits=option == "second" and more != BEST,
            leaves=option == "second",
            each_leaf=True,
            before=True,
            unclamped=more == UNCLAMPED,
        )
        least = (clip / 10 if m == "observed" else clip / 100) if own else np.inf
        given |= {"clip": clip, "step_clip": least, "observed": m == "observed", "noise": noise}
        share = {"epsilon": epsilon, "beta_tree": beta_tree, "depth": depth}
        return second_option.recipe(**given, **share)
    splits = EXACT if more == BEST else np.asarray(beta_tree) * epsilon
    leaves = (1 - np.asarray(beta_tree)) * epsilon
    return recipes.bdpe(
        epsilon=splits + leaves,
        beta_tree=splits / (splits + leaves),
        depth=depth,
        clip=CLIP,
        step_clip=CLIP / 100 if own else np.inf,
        calibration="published" if option == "first" else "tight",
        **given,
    )


READINGS = {name(reading): reading for reading in (*PRIVATE, *NOISELESS)}


def sweep(part: str, depth: int, smoke: bool = False) -> sweeps.Sweep:
    """The part of section 17's grid for v_q = 10 and M = 10, under the readings of a part."""
    rounds = settings.SMOKE["rounds"] if smoke else step_tables.ROUNDS
    shared = {"depth": (depth,), "rounds": rounds, "alpha": settings.ALPHAS, "beta_tree": (0.5,)}
    readings = [one for one in READINGS.values() if (one.option == "tight") == (part == "tight")]
    blocks = [
        {**shared, "epsilon": epsilons, "reading": tuple(name(one) for one in own)}
        for epsilons, own in (
            (settings.EPSILONS, [one for one in readings if one.option != "none"]),
            ((1.0,), [one for one in readings if one.option == "none"]),
        )
        if own
    ]
    return sweeps.Sweep(
        f"nock_henecka_steps_{part}_{depth}", boosted, tuple(blocks), seed=settings.SEED
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_domains(parser)
    words = "parts of the readings (both)"
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help=words)
    words = "depths of the trees (2 and 4)"
    parser.add_argument("--depths", nargs="+", type=int, choices=DEPTHS, default=DEPTHS, help=words)
    about = "; a run resumes there"
    shared = {"data": True, "out": OUT, "about": about, "memory": True, "smoke": True, "doc": True}
    commands.add_shared(parser, **shared, json="show no progress")


def run(options: argparse.Namespace) -> None:
    """Fit what is missing; or write the page."""
    out, start = commands.out_folder(options), time.perf_counter()
    if options.doc is not None:
        folders = [out / f"{part}_{depth}" for part, depth in itertools.product(PARTS, DEPTHS)]
        with of_input():
            forests = Path(options.doc).with_name("nock_readings.csv")
            lines = step_tables.lines(folders, forests)
        if lines:
            results.write_columns(out / "steps.csv", lines)
        pages.write(step_tables.PAGES, Path(options.doc), out / "steps.csv")
        return
    for part, depth in itertools.product(options.parts, options.depths):
        options.out = str(out / f"{part}_{depth}")
        work = tasks(options.datasets, 10, options.data)
        report = fit_all(sweep(part, depth, options.smoke), work, options)
        words = f"{part}, depth {depth}: {report.fits} fits, {report.programs} programs"
        print(f"{words}, {time.perf_counter() - start:.0f} s")
