"""How much longer do fits take with v_q = 50 than with 10?

Times are of the processor, for 20 trees of depth 4 with the published noise. Programs are compiled
before, and their overhead cancels: a time is that of many budgets less that of one.
"""

import argparse
import datetime
import tempfile
import time

import numpy as np

from dpbt import recipes, sweeps
from experiments.common import aggregated, commands
from experiments.common.estimates import mean_with_error
from experiments.papers.nock_henecka_2020.run import cross_validation_tasks
from experiments.papers.nock_henecka_2020.settings import FOLDS, NAME, PAPER_BINS

DOMAINS = ("banknote", "qsar")
REPEATS = 3
BUDGETS = 33


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_out(parser)
    commands.add_shared(parser, data=True)
    parser.set_defaults(reduced=None)


def run_command(options: argparse.Namespace) -> None:
    """Write the seconds more for 1,000 fits by domain, and their standard error."""
    lines = []
    for name in DOMAINS:
        tasks = {bins: cross_validation_tasks([name], bins, options.data) for bins in PAPER_BINS}
        for bins in PAPER_BINS:
            for budgets in (1, BUDGETS):
                _processor_seconds(tasks[bins], budgets)
        more_seconds = []
        for _ in range(REPEATS):
            few, many = (
                _processor_seconds(tasks[bins], BUDGETS) - _processor_seconds(tasks[bins], 1)
                for bins in PAPER_BINS
            )
            more_seconds.append(1000 * (many - few) / ((BUDGETS - 1) * FOLDS))
            print(f"{name}: {few:.2f} s, {many:.2f} s", flush=True)
        seconds, error = mean_with_error(more_seconds)
        lines.append({"domain": name, "seconds": seconds, "error": error})
    origin = {**sweeps.provenance(), "command": f"python -m experiments {NAME} times"}
    origin["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    aggregated.write_result(options, NAME, "times", lines=lines, origin=origin)


def _processor_seconds(tasks: list[sweeps.Task], budgets: int) -> float:
    """Processor time of the ten folds of so many budgets."""
    axes = {
        "epsilon": tuple(np.geomspace(1.0, 25.0, budgets).tolist()),
        **{"beta_tree": (0.5,), "alpha": (1.0,), "rounds": (20,), "depth": (4,), "clip": (10.0,)},
        "calibration": ("published",),
    }
    sweep = sweeps.Sweep("nock_henecka_times", recipes.bdpe, (axes,), seed=0)
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        sweeps.run(sweep, tasks, folder)
    return time.process_time() - start
