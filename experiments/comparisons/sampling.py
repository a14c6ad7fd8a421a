"""Compare rounds on a Poisson sample of the rows with rounds on all of them.

A sampled round reads each row with probability q, and its signal is q times that of all rows. At
equal rounds, epsilon and delta, the ratio of the two noises in units of the signal says what
sampling costs.  `--doc` measures nothing.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from dp_accounting.pld import privacy_loss_distribution
from scipy.optimize import brentq

from dpbt.privacy import conversions
from experiments.common import commands, pages, results, tables
from experiments.common.results import Line

DELTA = 1e-6
RATES, ROUNDS, EPSILONS = (0.01, 0.03, 0.1, 0.3), (64, 256, 1024, 4096), (0.1, 1.0, 5.0)
SMOKE = {"rates": (0.3,), "rounds": (64,), "epsilons": (1.0,)}
COLUMNS = ("rate", "rounds", "epsilon", "delta", "noise", "ratio", "commit", "device")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_shared(parser, out=results.results_folder("sampling"), doc=True, smoke=True)


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
                    "rate": rate,
                    "rounds": number,
                    "epsilon": epsilon,
                    "delta": DELTA,
                    "noise": full_noise(number, epsilon, DELTA),
                    "ratio": ratio(rate, number, epsilon, DELTA),
                }


def ratios(lines: Sequence[Line]) -> str:
    """The ratio by rounds and epsilon, with a column for each rate."""
    rates = results.distinct(lines, "rate")
    rows = []
    for number in results.distinct(lines, "rounds"):
        for epsilon in results.distinct(lines, "epsilon"):
            own_lines = [at for at in lines if (at["rounds"], at["epsilon"]) == (number, epsilon)]
            by_rate = {at["rate"]: f"{at['ratio']:.3f}" for at in own_lines}
            noise = f"{own_lines[0]['noise']:.4g}"
            rows.append((str(number), f"{epsilon:g}", noise, *(by_rate[rate] for rate in rates)))
    head = ("rounds", "epsilon", "full noise", *(f"q = {rate:g}" for rate in rates))
    return tables.markdown_table(head, rows)


PAGES = pages.Pages("sampling", {"ratios": ratios}, COLUMNS, "sampling.csv")


def run(options: argparse.Namespace) -> None:
    """Measure and print the lines; or write the page."""
    path = commands.out_folder(options) / "sampling.csv"
    if options.doc is not None:
        pages.write_page(PAGES, Path(options.doc), path)
        return

    usual = {"rates": RATES, "rounds": ROUNDS, "epsilons": EPSILONS}
    lines = list(noises(**(SMOKE if options.smoke else usual)))
    results.write_csv(path, lines, {})
    print(tables.align_lines(lines, ("rounds", "epsilon", "rate", "noise", "ratio"), ".5g"))
    print(f"wrote {path}")
