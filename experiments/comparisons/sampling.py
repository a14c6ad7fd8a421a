"""Compare rounds on a Poisson sample of the rows with rounds on all of them.

A sampled round reads each row with probability q, and its signal is q times that of all rows. At
equal rounds, epsilon and delta, the ratio of the two noises in units of the signal says what
sampling costs. `--time` measures what sampling could save. `--doc` measures nothing.
"""

import argparse
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from scipy.optimize import brentq

import dpbt
from dpbt import recipes
from dpbt.privacy import conversions
from dpbt.training import fit as training_fit
from experiments.common import commands, data, pages, results, tables, timing
from experiments.common.results import Line
from experiments.comparisons.study import BINS

DELTA = 1e-6
RATES, ROUNDS, EPSILONS = (0.01, 0.03, 0.1, 0.3), (64, 256, 1024, 4096), (0.1, 1.0, 5.0)
SMOKE = {"rates": (0.3,), "rounds": (64,), "epsilons": (1.0,)}
DATASET, EPSILON, REPEATS = "adult", 1.0, 5
OWN = (
    *("part", "rate", "rounds", "epsilon", "delta", "noise", "ratio"),
    *("what", "rows", "nanoseconds"),
)
COLUMNS = (*OWN, "commit", "device")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--time", action="store_true", help=f"also measure times on {DATASET}")
    commands.add_shared(parser, data=True, out=results.folder("sampling"), doc=True, smoke=True)


def sampled_epsilon(noise: float, rate: float, rounds: int, delta: float, step: float) -> float:
    """The epsilon of sampled rounds of Gaussian noise and sensitivity 1, under add/remove."""
    one = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=step, use_connect_dots=True
    )
    return one.self_compose(rounds).get_epsilon_for_delta(delta)


def full_noise(rounds: int, epsilon: float, delta: float) -> float:
    """The noise of rounds that read all rows, by GDP."""
    return math.sqrt(rounds) / float(conversions.gdp_mu(epsilon, delta))


def ratio(rate: float, rounds: int, epsilon: float, delta: float) -> float:
    """The noise of sampled rounds over that of full ones, each in units of its signal."""
    equal = rate * full_noise(rounds, epsilon, delta)

    def beyond(log_ratio: float) -> float:
        noise = equal * math.exp(log_ratio)
        step = 3e-4 * min(epsilon, 1) if noise > 0.8 else 1e-3
        return sampled_epsilon(noise, rate, rounds, delta, step) - epsilon

    # Little noise takes long to compose, so the bracket is found from above.
    high = math.log(max(1.02, 0.6 / equal))
    while beyond(high) > 0:
        high += 0.3
    low = high - 0.3
    while beyond(low) < 0:
        high, low = low, low - 0.3
    return math.exp(brentq(beyond, low, high, xtol=2e-4))  # type: ignore[arg-type]


def noises(
    rates: Sequence[float], rounds: Sequence[int], epsilons: Sequence[float]
) -> Iterator[Line]:
    """A line for each rate, number of rounds and epsilon."""
    for number in rounds:
        for epsilon in epsilons:
            for rate in rates:
                yield {
                    "part": "noise",
                    "rate": rate,
                    "rounds": number,
                    "epsilon": epsilon,
                    "delta": DELTA,
                    "noise": full_noise(number, epsilon, DELTA),
                    "ratio": ratio(rate, number, epsilon, DELTA),
                }


def times(folder: str | Path | None) -> list[Line]:
    """Nanoseconds of all cores for each row and round: of a fit, of its scores alone, and of coins.

    Scores of all rows follow every tree, whatever rows the tree was learned from.
    """
    dataset = data.load(DATASET, bins=BINS, folder=folder)
    table, key = dataset.table, dpbt.fresh_key()
    rows = table.bins.shape[0]
    recipe = recipes.auto(epsilon=EPSILON, delta=DELTA, rows=rows, domain=dataset.domain)
    recipe = dataclasses.replace(recipe, rounds=np.int32(64), capacity=64)
    model = training_fit.learn(key, table, recipe)
    round_keys = jax.random.split(key, 64)

    @jax.jit
    def coins(keys: jax.Array) -> jax.Array:
        return jax.lax.map(lambda key: jax.random.bits(key, (rows,), np.uint8).sum(), keys)

    each: dict[str, Callable[[int], Any]] = {
        "a fit": lambda _: training_fit.learn(key, table, recipe).hypotheses,
        "its scores": lambda _: dpbt.decision_function(model, table),
        "a coin of 8 bits": lambda _: coins(round_keys),
    }
    lines = []
    for what, run in each.items():
        seconds = timing.measure(run, REPEATS, time.process_time).fastest
        spent = {"nanoseconds": 1e9 * seconds / rows / 64, "rounds": 64, "rows": rows}
        lines.append({"part": "time", "what": what, **spent})
    return lines


def ratios(lines: Sequence[Line]) -> str:
    """The ratio by rounds and epsilon, with a column for each rate."""
    found = [line for line in lines if line["part"] == "noise"]
    rates = results.distinct(found, "rate")
    rows = []
    for number in results.distinct(found, "rounds"):
        for epsilon in results.distinct(found, "epsilon"):
            own = [at for at in found if (at["rounds"], at["epsilon"]) == (number, epsilon)]
            by_rate = {at["rate"]: f"{at['ratio']:.3f}" for at in own}
            noise = f"{own[0]['noise']:.4g}"
            rows.append((str(number), f"{epsilon:g}", noise, *(by_rate[rate] for rate in rates)))
    head = ("rounds", "epsilon", "full noise", *(f"q = {rate:g}" for rate in rates))
    return tables.markdown(head, rows)


def seconds(lines: Sequence[Line]) -> str:
    """What was timed."""
    found = [line for line in lines if line["part"] == "time"]
    if not found:
        return "Not measured yet."
    rows = [(at["what"], f"{at['nanoseconds']:.2g}") for at in found]
    return tables.markdown(
        (f"{found[0]['rows']} rows of {DATASET}", "ns of all cores a row and round"), rows
    )


PAGES = pages.Pages("sampling", {"ratios": ratios, "times": seconds}, COLUMNS, "sampling.csv")


def run(options: argparse.Namespace) -> None:
    """Measure and print the lines; or write the page."""
    path = commands.out_folder(options) / "sampling.csv"
    if options.doc is not None:
        pages.write(PAGES, Path(options.doc), path)
        return

    usual = {"rates": RATES, "rounds": ROUNDS, "epsilons": EPSILONS}
    lines = list(noises(**(SMOKE if options.smoke else usual)))
    if options.time:
        lines += times(options.data)
    results.write_csv(path, [dict.fromkeys(OWN) | line for line in lines], {})
    noise = [line for line in lines if line["part"] == "noise"]
    print(tables.of_lines(noise, ("rounds", "epsilon", "rate", "noise", "ratio"), ".5g"))
    for line in lines:
        if line["part"] == "time":
            print(f"{line['what']}: {line['nanoseconds']:.3g} ns a row and round")
    print(f"wrote {path}")
