"""Time one warm fit, and 1,000 fits in one program.

Compilation is timed separately. The fits are 50 settings with --keys keys each.
"""

import argparse
import tempfile
from pathlib import Path

import jax

import dpbt
from dpbt import recipes
from dpbt.data.tables import take
from experiments.common import commands, results, timing
from experiments.papers.asadi_2022 import table
from experiments.papers.asadi_2022.jobs import add_folds, add_options, fit_all, job
from experiments.papers.asadi_2022.settings import RELATION, SPEED, SPEED_KEYS, SPEED_ROUNDS

REPEATS = 7
"""The number of warm fits; their median counts."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ["adult"])
    parser.set_defaults(keys=SPEED_KEYS)
    add_folds(parser)


def run(options: argparse.Namespace) -> None:
    """Measure; write the lines, and print them."""
    lines = [_line(dataset, options) for dataset in options.dataset]
    results.write_csv(commands.out_folder(options) / "speed.csv", lines, {"seed": options.seed})
    table.show(commands.out_folder(options), "speed", options.json)


def _line(dataset: str, options: argparse.Namespace) -> results.Line:
    fixed = {"rounds": (SPEED_ROUNDS,), "learner": ("one_rule",), "calibration": ("tight",)}
    work = job(dataset, [{**SPEED, **fixed}], options)
    taught = take(work.task.table, work.task.train[0])

    recipe = recipes.lazybb_rules(epsilon=1.0, rows=len(taught.target), relation=RELATION)
    keys = jax.random.split(jax.random.key(options.seed), REPEATS + 1)
    one = timing.measure(lambda k: dpbt.fit(keys[k], taught, recipe).hypotheses, REPEATS)

    with tempfile.TemporaryDirectory() as folder:
        _, report = fit_all(work._replace(folder=Path(folder)), options.json)
    return {
        "dataset": dataset,
        "rows": work.task.arguments["rows"],
        "features": len(work.words),
        "rounds": SPEED_ROUNDS,
        "one_fit_seconds": one.median,
        "fits": report.fits,
        "programs": report.programs,
        "seconds_per_fit": report.run_seconds / report.fits,
        "compile_seconds": report.compile_seconds,
        "memory_mb": report.memory_mb,
    }
