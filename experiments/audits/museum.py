"""The museum: known kinds of mistakes of private learners, each re-created in a few lines.

An exhibit is a learner (rows, hooks, wrong) -> its release, with the mistake or without it.
The grey box replays it by its hooks. For the black box the same code is a fit under `Hooks(seed)`.
Exhibits are re-created from descriptions; no line of the named libraries is run here.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpbt.audit.grey_box import Hooks
from dpbt.privacy.audit_bounds import IMPOSSIBLE_EVENT_LOG_RATIO
from dpbt.privacy.conversions import gdp_mu, zcdp_epsilon


class Exhibit(NamedTuple):
    """A kind of mistake.

    Attributes:
        name: what is wrong.
        source: where it was seen.
        learn: (rows, hooks, wrong) -> its release, with the mistake if `wrong`.
        table: the rows.
        neighbour: the rows of a neighbour.
        claim: (epsilon, delta).
        why: what a level misses, and why.
        runs: the number of runs of the grey box.
    """

    name: str
    source: str
    learn: Callable[[Any, Hooks, bool], Any]
    table: Any
    neighbour: Any
    claim: tuple[float, float]
    why: str
    runs: int


EXHIBITS: dict[str, Exhibit] = {}
"""Name of a learner -> its exhibit."""

DELTA = 1e-6
MU = float(gdp_mu(1.0, DELTA))
"""Of Gaussian noise of deviation 1 / MU on a sum of sensitivity 1, at epsilon 1."""


def add_exhibit(
    name: str,
    source: str,
    table: Any,
    neighbour: Any,
    *,
    claim: tuple[float, float] = (1.0, 0.0),
    why: str = "",
    runs: int = 200,
) -> Callable[[Callable], Callable]:
    """A decorator that puts a learner into the museum; the arguments are those of `Exhibit`."""

    def add(learn: Callable) -> Callable:
        EXHIBITS[learn.__name__] = Exhibit(
            name=name,
            source=source,
            learn=learn,
            table=np.asarray(table),
            neighbour=np.asarray(neighbour),
            claim=claim,
            why=why,
            runs=runs,
        )
        return learn

    return add


# Noise and sensitivity.


@add_exhibit(
    "deviation mu in place of 1 / mu, and the releases of all rounds not composed",
    "amazon-science/boostedadassp f644481",
    [1] * 5,
    [1] * 4,
    claim=(1.0, DELTA),
)
def inverse_mu(rows, noise, wrong):
    """Five sums."""
    scale = MU if wrong else math.sqrt(5) / MU
    return [noise.gaussian(np.sum(rows), 1.0, scale) for _ in range(5)]


@add_exhibit(
    "the sensitivity of a sum of squares from the lower bound twice",
    "diffprivlib 105",
    [2.0, 3.0, 10.0],
    [2.0, 3.0],
)
def lower_bound_twice(rows, noise, wrong):
    """A sum of squares of numbers in 1..10."""
    low, high = 1.0, 10.0
    sensitivity = low * low if wrong else high * high
    return noise.laplace(np.sum(np.clip(rows, low, high) ** 2), sensitivity, sensitivity)


@add_exhibit(
    "the width of the target's range as the sensitivity of its sum",
    "interpret 523, disputed there",
    [90.0, 95.0, 100.0],
    [90.0, 95.0],
)
def width_of_range(rows, noise, wrong):
    """A sum of targets in 90..100, of which a row may come or go."""
    sensitivity = 100.0 - 90.0 if wrong else 100.0
    return noise.laplace(np.sum(rows), sensitivity, sensitivity)


@add_exhibit(
    "a clip of each layer, counted as one clip of all",
    "arXiv 2202.12219 has another wrong factor of a clip",
    np.ones((3, 16)),
    np.ones((2, 16)),
    claim=(1.0, DELTA),
)
def clip_by_layer(rows, noise, wrong):
    """A sum of gradients of 16 layers, each clipped to length 1."""
    sensitivity = 1.0 if wrong else math.sqrt(16)
    return noise.gaussian(np.sum(np.clip(rows, -1, 1), axis=0), sensitivity, sensitivity / MU)


@add_exhibit(
    "a sign of the analytic Gaussian",
    "smartnoise-core 316",
    [1] * 5,
    [1] * 4,
    claim=(1.0, DELTA),
)
def sign_of_analytic_gaussian(rows, noise, wrong):
    """A count. The deviation is alpha / sqrt(2 epsilon), alpha = sqrt(1 + v / 2) +- sqrt(v / 2)."""
    alpha = math.sqrt(2) / MU
    alpha = 1 / alpha if wrong else alpha  # as the product of both signs is 1
    return noise.gaussian(np.sum(rows), 1.0, alpha / math.sqrt(2))


@add_exhibit(
    "noise n times too small: the scale of shares, on counts",
    "PrivBayes in DataSynthesizer 34",
    [0, 0, 1, 1, 1, 2],
    [0, 0, 1, 1, 1],
)
def noise_of_shares(rows, noise, wrong):
    """A histogram; 6 rows are public."""
    return noise.laplace(np.bincount(rows, minlength=3), 1.0, 1 / 6 if wrong else 1.0)


@add_exhibit(
    "a mean divided by the exact number of rows, with noise of that scale",
    "smartnoise-core 356",
    [1.0, 1.0],
    [1.0],
)
def mean_by_exact_number(rows, noise, wrong):
    """A mean of numbers in 0..1."""
    if wrong:
        return noise.laplace(np.mean(rows), 1 / len(rows), 1 / len(rows))
    return noise.laplace(np.sum(rows), 1.0, 2.0) / max(noise.laplace(len(rows), 1.0, 2.0), 1)


@add_exhibit(
    "rows go to trees by their position, so a removal moves others",
    "forests of disjoint rows",
    [[k, k in (0, 6)] for k in range(15)],
    [[k, k in (0, 6)] for k in range(1, 15)],
)
def trees_by_position(rows, noise, wrong):
    """A count for each of four trees, by parallel composition."""
    places = np.arange(len(rows)) // (len(rows) // 4) if wrong else rows[:, 0] % 4
    counts = np.bincount(np.minimum(places, 3), weights=rows[:, 1], minlength=4)
    return noise.laplace(counts, 1.0, 1.0)


# Selections.


@add_exhibit(
    "labels may flip, and a choice by them is taken as monotonic",
    "labels of leaves, under replace-one",
    [0] * 6 + [1] * 6,
    [0] * 5 + [1] * 7,
)
def flipped_labels(rows, noise, wrong):
    """The label of a leaf, by the exponential mechanism."""
    sensitivity = 0.5 if wrong else 1.0  # a monotonic choice has twice the exponent
    return noise.choose(np.bincount(rows, minlength=2), sensitivity, 1.0)


@add_exhibit(
    "a noisy maximum that costs four times the charged rho",
    "opendp 2911",
    [0] * 6 + [1] * 6,
    [0] * 5 + [1] * 7,
    claim=(zcdp_epsilon(0.5, 1e-3), 1e-3),
    why="a black box sees no event that is as rare as this loss",
    runs=4000,
)
def price_of_noisy_maximum(rows, noise, wrong):
    """A hundred choices of two labels by permute-and-flip, charged epsilon^2 / 8: rho is 0.5."""
    epsilon = 0.2 if wrong else 0.1
    counts = np.bincount(rows, minlength=2)
    lower = 0.5 * math.exp(-epsilon * abs(counts[1] - counts[0]) / 2)
    chance = lower if counts[1] < counts[0] else 1 - lower
    density = lambda votes: float(np.sum(np.log(np.where(votes, chance, 1 - chance))))  # noqa: E731
    return np.sum(noise.custom(counts, lambda rng: rng.random(100) < chance, density))


@add_exhibit(
    "randomized response whose lie may be the truth",
    "opendp 480",
    [1],
    [0],
)
def lie_may_be_true(rows, noise, wrong):
    """One of two answers."""
    keep = math.e / (math.e + 1)
    true = keep + (1 - keep) / 2 if wrong else keep
    bit, chance = int(rows[0]), lambda out: math.log(true if out == rows[0] else 1 - true)
    return noise.custom(bit, lambda rng: bit if rng.random() < true else 1 - bit, chance)


# What is released beside the noise.


@add_exhibit(
    "the exact number of rows in the model",
    "DP-EBM's `bag_weights_`, [below](#other-libraries)",
    [1] * 5,
    [1] * 4,
)
def exact_number(rows, noise, wrong):
    """A sum, and the number of rows."""
    total = noise.laplace(np.sum(rows), 1.0, 1.0)
    return [total, len(rows)] if wrong else [total]


@add_exhibit(
    "a sum divided by the private size of its batch",
    "Opacus 571",
    [1.0, 1.0],
    [1.0],
    claim=(1.0, DELTA),
)
def private_batch_size(rows, noise, wrong):
    """A mean gradient; batches of 2 are public."""
    return noise.gaussian(np.sum(rows), 1.0, 1 / MU) / (len(rows) if wrong else 2)


@add_exhibit(
    "weights of rounds from exact errors (beta_t, error counts)",
    "[papers of boosting](errata.md)",
    [0, 0, 0, 0, 1],
    [0, 0, 0, 0],
)
def exact_errors(rows, noise, wrong):
    """A rule, and its weight."""
    rule = noise.choose(np.bincount(rows, minlength=2), 1.0, 0.5)
    errors = np.sum(rows != rule)
    errors = noise.exactly(errors, "errors") if wrong else noise.laplace(errors, 1.0, 2.0)
    share = np.clip(errors / 5, 0.01, 0.99)
    return [rule, np.log(share / (1 - share))]


@add_exhibit(
    "clips, then uses the raw rows",
    "smartnoise-sdk 622",
    [0.5, 0.5, 8.0],
    [0.5, 0.5],
)
def raw_rows(rows, noise, wrong):
    """A sum of numbers in 0..1."""
    clipped = np.clip(rows, 0, 1)
    return noise.laplace(np.sum(rows if wrong else clipped), 1.0, 1.0)


@add_exhibit(
    "a truncation that survives the redefinition of its groups",
    "opendp 2949",
    [[user, group] for user in (0, 1) for group in range(100)],
    [[1, group] for group in range(100)],
    claim=(1.0, DELTA),
)
def redefined_groups(rows, noise, wrong):
    """Counts of groups; a user has one row in each of at most 100, so the L2 norm is 10."""
    groups = np.zeros(len(rows), int) if wrong else rows[:, 1]
    return noise.gaussian(np.bincount(groups, minlength=100), 10.0, 10 / MU)


@add_exhibit(
    "a domain from the private maximum",
    "dpmm 18",
    [0, 1, 1, 2, 9],
    [0, 1, 1, 2],
)
def private_maximum(rows, noise, wrong):
    """A histogram of numbers in 0..9."""
    bins = int(np.max(rows)) + 1 if wrong else 10
    return noise.laplace(np.bincount(rows, minlength=bins), 1.0, 1.0)


@add_exhibit(
    "a cell that is no number makes the sum no number",
    "diffprivlib 80",
    [1.0, 1.0, math.nan],
    [1.0, 1.0],
)
def no_number(rows, noise, wrong):
    """A sum of numbers in 0..1."""
    return noise.laplace(np.sum(rows if wrong else np.nan_to_num(rows)), 1.0, 1.0)


@add_exhibit(
    "the type of a column decides a cell",
    "readers that guess types",
    ["7"] * 9 + ["n/a"],
    ["7"] * 9,
)
def type_of_column(rows, noise, wrong):
    """How many cells are above 5; one cell that is text makes a column of text."""
    numbers = np.array([cell.isdigit() for cell in rows])
    numbers = np.full(len(rows), numbers.all()) if wrong else numbers
    return noise.laplace(sum(int(cell) > 5 for cell in rows[numbers]), 1.0, 1.0)


# Sampling, accounts and budgets.


@add_exhibit(
    "a sampler that takes more rows than its rate says",
    "Opacus 819 has the kind",
    [1],
    [],
    claim=(math.log(1 + 0.1 * (math.e**2 - 1)), 0.0),
)
def sampling_rate(rows, noise, wrong):
    """A count of a sample, at epsilon 2 before it; the rate of the claim is a tenth."""
    rate = 0.5 if wrong else 0.1
    density = lambda out: math.log(  # noqa: E731
        sum(
            share * math.exp(-2 * abs(out - count))
            for share, count in ((1 - rate, 0), (rate, len(rows)))
        )
    )
    draw = lambda rng: rng.binomial(len(rows), rate) + rng.laplace(0, 0.5)  # noqa: E731
    return noise.custom(len(rows), draw, density)


@add_exhibit(
    "a cost that the odometer forgets",
    "choices of splits, where leaves alone are charged",
    [0] * 3 + [1] * 5,
    [0] * 3 + [1] * 4,
)
def forgotten_cost(rows, noise, wrong):
    """Two rounds of a choice and a leaf."""
    counts, releases = np.bincount(rows, minlength=2), []
    for _ in range(2):
        split = noise.choose(counts, 1.0, 2.0 if wrong else 0.25)
        releases += [split, noise.laplace(counts[split], 1.0, 2.0 if wrong else 4.0)]
    return releases


@add_exhibit(
    "a logarithm that is missing in the odometer",
    "smartnoise-sdk 621",
    [1] * 5,
    [1] * 4,
    claim=(0.1 * math.sqrt(2 * 20 / DELTA), DELTA),
    why="its claim is too large, so it is no leak, as its thread says",
)
def missing_logarithm(rows, noise, wrong):
    """Twenty counts at epsilon .1; the claim is that of the formula without its logarithm."""
    return [noise.laplace(np.sum(rows), 1.0, 10.0) for _ in range(20)]


# Randomness.


@add_exhibit(
    "Laplace noise in floating point, whose values tell the sum",
    "Mironov 2012",
    [1],
    [],
    why="the uniform number has 10 bits here; of 53 bits a black box sees no value twice",
)
def bits_of_noise(rows, noise, wrong):
    """A count, with noise of the logarithm of a uniform number."""
    count, steps = len(rows), 2**10
    if not wrong:
        return noise.integer_laplace(count * steps, steps, steps) / steps

    def density(out):
        uniform = steps * math.exp(-abs(float(out) - count))
        possible = abs(uniform - round(uniform)) < 1e-6
        return -math.log(2 * steps) if possible else -IMPOSSIBLE_EVENT_LOG_RATIO

    def draw(rng):
        return count + rng.choice([-1, 1]) * math.log(rng.integers(1, steps + 1) / steps)

    return noise.custom(count, draw, density)


@add_exhibit(
    "sums in floating point move by more than a row",
    "arXiv 2207.10635",
    [2.0] * 1025 + [-0.51] * 1000,
    [2.0] * 1024 + [-0.51] * 1000,
    why="half precision, as double precision needs 2^53 rows",
)
def sums_in_floats(rows, noise, wrong):
    """A sum of numbers in -2..2."""
    if wrong:
        total = np.add.accumulate(rows.astype(np.float16), dtype=np.float16)[-1]
    else:
        total = np.sum(np.rint(rows * 2**10)) / 2**10  # of whole numbers, exactly
    return noise.laplace(float(total), 2.0, 2.0)


@add_exhibit(
    "one key on two recipes",
    "[keys](guarantees.md#keys)",
    [1] * 5,
    [1] * 4,
    claim=(1.5, 0.0),
)
def one_key(rows, noise, wrong):
    """Two sums at epsilon 1 and 1/2."""
    total = np.sum(rows)
    first = noise.laplace(total, 1.0, 1.0)
    if not wrong:
        return [first, noise.laplace(total, 1.0, 2.0)]
    second = total + 2.0 * (first - total)
    density = lambda out: 0.0 if abs(out - second) < 1e-9 else -IMPOSSIBLE_EVENT_LOG_RATIO  # noqa: E731
    return [first, noise.custom(total, lambda rng: second, density)]


@add_exhibit(
    "a seed of 32 bits",
    "[research keys](guarantees.md#keys)",
    [1] * 5,
    [1] * 4,
    why="it takes 2^32 trials on one release, and no level tries seeds",
)
def short_seed(rows, noise, wrong):
    """A sum."""
    if not wrong:
        return noise.laplace(np.sum(rows), 1.0, 1.0)

    def draw(rng):
        return np.sum(rows) + np.random.default_rng(rng.integers(2**32)).laplace()

    density = lambda out: -abs(out - np.sum(rows)) - math.log(2)  # noqa: E731
    return noise.custom(np.sum(rows), draw, density)
