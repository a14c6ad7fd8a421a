"""Compare rounds on a Poisson sample of the rows with rounds on all of them.

A sampled round reads each row with probability q, and its signal is q times that of all rows. At
equal rounds, epsilon and delta, the ratio of the two noises in units of the signal says what
sampling costs. `--doc` measures nothing.
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_shared(parser, out=results.results_folder("sampling"), doc=True, smoke=True)


def sampled_epsilon(noise: float, *, rate: float, rounds: int, delta: float, step: float) -> float:
    """The epsilon of sampled rounds of Gaussian noise and sensitivity 1, under add/remove."""
    round_loss = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=step, use_connect_dots=True
    )
    return round_loss.self_compose(rounds).get_epsilon_for_delta(delta)


def full_noise(rounds: int, *, epsilon: float, delta: float) -> float:
    """The noise of rounds that read all rows, by GDP."""
    return math.sqrt(rounds) / float(conversions.gdp_mu(epsilon, delta))


def noise_ratio(rate: float, rounds: int, *, epsilon: float, delta: float) -> float:
    """The noise of sampled rounds over that of full ones, each in units of its signal."""
    equal_noise = rate * full_noise(rounds, epsilon=epsilon, delta=delta)

    def excess_epsilon(log_ratio: float) -> float:
        noise = equal_noise * math.exp(log_ratio)
        step = 3e-4 * min(epsilon, 1) if noise > 0.8 else 1e-3
        spent = sampled_epsilon(noise, rate=rate, rounds=rounds, delta=delta, step=step)
        return spent - epsilon

    # Little noise takes long to compose, so the bracket is found from above.
    high = math.log(max(1.02, 0.6 / equal_noise))
    while excess_epsilon(high) > 0:
        high += 0.3
    low = high - 0.3
    while excess_epsilon(low) < 0:
        high, low = low, low - 0.3
    return math.exp(brentq(excess_epsilon, low, high, xtol=2e-4))  # type: ignore[arg-type]


def measure_lines(
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
                    "noise": full_noise(number, epsilon=epsilon, delta=DELTA),
                    "ratio": noise_ratio(rate, number, epsilon=epsilon, delta=DELTA),
                }


def ratio_table(lines: Sequence[Line]) -> str:
    """The ratio by rounds and epsilon, with a column for each rate."""
    rates = results.distinct(lines, "rate")
    rows = []
    for number in results.distinct(lines, "rounds"):
        for epsilon in results.distinct(lines, "epsilon"):
            of_row = results.where(lines, rounds=number, epsilon=epsilon)
            by_rate = {line["rate"]: f"{line['ratio']:.3f}" for line in of_row}
            noise = f"{of_row[0]['noise']:.4g}"
            rows.append((str(number), f"{epsilon:g}", noise, *(by_rate[rate] for rate in rates)))
    head = ("rounds", "epsilon", "full noise", *(f"q = {rate:g}" for rate in rates))
    return tables.markdown_table(head, rows)


PAGES = pages.Pages("sampling", {"ratios": ratio_table}, COLUMNS, "sampling.csv")


def run_command(options: argparse.Namespace) -> None:
    """Measure and print the lines; or write the page."""
    path = commands.out_folder(options) / "sampling.csv"
    if options.doc is not None:
        pages.write_page(PAGES, Path(options.doc), path)
        return

    full = {"rates": RATES, "rounds": ROUNDS, "epsilons": EPSILONS}
    lines = list(measure_lines(**(SMOKE if options.smoke else full)))
    results.write_csv(path, lines, {})
    print(tables.align_lines(lines, ("rounds", "epsilon", "rate", "noise", "ratio"), ".5g"))
    print(f"wrote {path}")
