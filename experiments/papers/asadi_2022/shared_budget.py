"""Measure when the advantage of 1-rules fails, by the number of rounds that share epsilon = 1.

The text of section 5 says that on Adult the advantage of 1/20 fails "after only 250 rounds", for a
total epsilon of 1, kappa = 1/2 and lambda = gamma / 4. It does not say how many rounds share the
budget, which sets the noise of each. Here the number is swept.

The advantage of one round is a random number, and so is its mean over ten keys. So there are two
readings of "fails": the first round whose mean is below gamma, and the first round from which on
the mean of 25 rounds is below gamma.
"""

import argparse
from collections.abc import Sequence

import jax
import numpy as np

from dpbt import recipes
from experiments.common import commands, results
from experiments.common.progress import progress
from experiments.papers.asadi_2022 import tables
from experiments.papers.asadi_2022.features import load_features, take_training_rows
from experiments.papers.asadi_2022.margins import measure_boosted_run
from experiments.papers.asadi_2022.settings import CALIBRATIONS, FIGURE_1, RELATION

ROUNDS = (125, 250, 500, 1000)
"""Numbers of rounds that share the budget; Theorem 3.1 has 4,437."""

WINDOW = 25
"""Rounds over which the second reading averages."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_count(parser, "--keys", 10, "number of repetitions")
    commands.add_seed(parser, "keys")
    commands.add_shared(
        parser,
        data=True,
        out=results.results_folder("asadi_2022"),
        smoke=True,
        json="print a JSON list",
    )


def run_command(options: argparse.Namespace) -> None:
    """Measure all numbers of rounds; write and print the lines."""
    lines = shared_budget_lines((20, 30) if options.smoke else ROUNDS, options)
    config = {**FIGURE_1, "window": WINDOW, "seed": options.seed}
    config.pop("rounds")
    out = commands.out_folder(options)
    results.write_csv(out / "shared_budget.csv", lines, config)
    tables.print_table(out, "shared_budget", as_json=options.json)


def shared_budget_lines(rounds: Sequence[int], options: argparse.Namespace) -> list[results.Line]:
    """A line for each calibration and number of rounds, and one without privacy.

    Args:
        rounds: the numbers of rounds that share the budget.
        options: `keys`, `seed`, `data` and `json` are read.
    """
    table, test, _ = load_features("adult", "intervals", options.data)
    table = take_training_rows(table, test)
    keys = jax.random.split(jax.random.key(options.seed), options.keys)
    settings = [
        ("no privacy", max(rounds), np.inf),
        *((name, count, FIGURE_1["epsilon"]) for name in CALIBRATIONS for count in rounds),
    ]
    lines = []
    with progress(len(settings), "setting", quiet=options.json) as progress_bar:
        for calibration, count, epsilon in settings:
            recipe = recipes.lazybb_rules(
                epsilon=epsilon,
                rows=len(table.target),
                rounds=count,
                density=FIGURE_1["density"],
                learning_rate=FIGURE_1["gamma"] / 4,
                calibration="tight" if calibration == "no privacy" else calibration,
                relation=RELATION,
            )
            curves = np.stack(
                [
                    np.asarray(measure_boosted_run(key, table, recipe).advantages)
                    for key in (keys[:1] if calibration == "no privacy" else keys)
                ]
            )
            lines.append({"calibration": calibration, "rounds": count, **failure_columns(curves)})
            progress_bar.update()
    return lines


def failure_columns(curves: np.ndarray, gamma: float = FIGURE_1["gamma"]) -> results.Line:
    """When advantages f[keys, T] fall below gamma.

    `first` is the first round whose mean over keys is below, and `lasting` the first from which on
    all means of WINDOW rounds are below. Both are empty if there is none. `least` and `most` are
    the first rounds of the earliest and the latest key, with T + 1 for a key
    of which no round is below. `last_mean` is the mean over the last WINDOW rounds.
    """
    mean, window = curves.mean(axis=0), min(WINDOW, curves.shape[1])
    of_windows = np.convolve(mean, np.full(window, 1 / window), "valid")
    above = np.flatnonzero(of_windows >= gamma)
    lasting = int(above[-1]) + 2 if len(above) else 1
    below = np.flatnonzero(mean < gamma)
    is_below = np.pad(curves < gamma, ((0, 0), (0, 1)), constant_values=True)
    first_of_keys = is_below.argmax(axis=1) + 1
    return {
        "first": int(below[0]) + 1 if len(below) else None,
        "lasting": lasting if lasting <= len(of_windows) else None,
        "earliest": int(first_of_keys.min()),
        "latest": int(first_of_keys.max()),
        "last_mean": float(of_windows[-1]),
        "keys": len(curves),
    }
