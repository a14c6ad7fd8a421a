"""Private classifiers that boost no trees, each with one setting for all data.

All hold under add/remove, by the sensitivity that each function states: with a delta by GDP, and
else by the Laplace mechanism. Their noise is of floating point and of keys that are no secret, so
they are for comparisons alone. Names with `-best` are the best of a small grid, chosen on the test
rows, which no owner can do.
"""

import functools
import itertools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dpbt.data.domains import Numeric
from dpbt.models.measures import auroc
from dpbt.privacy import conversions
from experiments.comparisons.methods import Fit, Found, Method, approximate, words
from experiments.comparisons.study import Study

GROUPS, ROUNDS, UNITS, BOOSTS = 16, 128, 32, 10


class Features(NamedTuple):
    """Rows by their public domain, N of them.

    Attributes:
        bins: f32[N, B], the indicators of all bins, of which a row has at most one a column. Those
            of numbers are joined.
        column: f32[B, F], whether a bin is of a column.
        wide: f32[N, A], the same beside numbers in [-1, 1] and a constant, of length at most 1.
        narrow: f32[N, D], numbers in [-1, 1], indicators of other columns, and a constant.
        positive: f32[N], 1 for the positive class, else 0.
    """

    bins: jax.Array
    column: jax.Array
    wide: jax.Array
    narrow: jax.Array
    positive: jax.Array


def joined(study: Study, groups: int = GROUPS) -> tuple[np.ndarray, list[int]]:
    """(i[N, F] bins, their numbers), with the bins of a number joined to so many groups."""
    encoded, sizes = np.asarray(study.data.table.bins).astype(int), []  # type: ignore[union-attr]
    for place, column in enumerate(study.data.domain.values()):
        sizes.append(column.n_bins)
        if isinstance(column, Numeric) and column.bins > groups:
            bins, missing = encoded[:, place], encoded[:, place] >= column.bins
            encoded[:, place] = np.where(missing, groups, bins * groups // column.bins)
            sizes[-1] = groups + int(column.missing)
    return encoded, sizes


@functools.lru_cache(maxsize=2)
def features(study: Study, groups: int = GROUPS) -> Features:
    """The rows of a study, with the bins of a number joined to so many groups."""
    encoded, sizes = joined(study, groups)
    blocks = [
        np.equal(encoded[:, [at]], np.arange(n)).astype(np.float32) for at, n in enumerate(sizes)
    ]
    rows = study.numbers
    low, high = rows.bounds[~rows.nominal].T
    numbers = (2 * (rows.numbers[:, ~rows.nominal] - low) / (high - low) - 1).astype(np.float32)
    one = np.ones((len(numbers), 1), np.float32)
    wide = np.hstack([*blocks, numbers, one]) / np.sqrt(len(blocks) + numbers.shape[1] + 1)
    others = [block for block, nominal in zip(blocks, rows.nominal, strict=True) if nominal]
    column = np.eye(len(blocks))[np.repeat(np.arange(len(blocks)), [b.shape[1] for b in blocks])]
    narrow = np.hstack([numbers, *others, one])
    built = np.hstack(blocks), column, wide, narrow, study.target
    return Features(*(jnp.asarray(each, jnp.float32) for each in built))


def histograms(rows: Features, present: jax.Array) -> jax.Array:
    """f32[2, B]: how many rows of each class are in each bin; a row moves F of them by 1."""
    return jnp.stack([1 - rows.positive, rows.positive]) * present[None] @ rows.bins


@jax.jit
def naive_bayes(key: Any, rows: Features, present: Any, budget: Any) -> Any:
    """Scores and probabilities of naive Bayes; its prior is one deviation of the noise a bin."""
    epsilon, mu, _ = budget
    counts, columns = histograms(rows, present), rows.column.shape[1]
    laplace = columns / epsilon * jax.random.laplace(key, counts.shape)
    normal = np.sqrt(columns) / mu * jax.random.normal(key, counts.shape)
    deviation = jnp.where(mu > 0, np.sqrt(columns) / mu, np.sqrt(2) * columns / epsilon)
    counts = jnp.maximum(counts + jnp.where(mu > 0, normal, laplace), 0) + deviation
    total = counts @ rows.column  # of each class and column
    share = jnp.log(counts) - jnp.log(total @ rows.column.T)
    prior = jnp.log(jnp.sum(total, axis=1))
    score = rows.bins @ (share[1] - share[0]) + prior[1] - prior[0]
    return score, jax.nn.sigmoid(score)


def ascend(
    key: Any, gradient: Callable[[Any], Any], start: Any, noise: Any, rate: Any, rounds: Any
) -> Any:
    """The mean of the last half of the iterates of Nesterov's ascent on noisy gradients."""
    flat, shaped = ravel_pytree(start)

    def move(number: jax.Array, state: Any) -> Any:
        weights, velocity, total = state
        drawn = noise * jax.random.normal(jax.random.fold_in(key, number), flat.shape)
        noisy_gradient = ravel_pytree(gradient(shaped(weights)))[0] + drawn
        velocity = 0.9 * velocity + noisy_gradient
        weights = weights + rate * (noisy_gradient + 0.9 * velocity)
        return weights, velocity, total + jnp.where(2 * number < rounds, 0, weights)

    *_, total = jax.lax.fori_loop(0, rounds, move, (flat, 0 * flat, 0 * flat))
    return shaped(total / (rounds // 2))


def logistic_gradient(rows: Features, present: jax.Array, weights: jax.Array) -> jax.Array:
    """f32[A]: a sum over rows, of which each has a length of at most 1/2."""
    error = rows.positive - jax.nn.sigmoid(rows.wide @ weights)
    return (present * jnp.clip(error, -0.5, 0.5)) @ rows.wide


@jax.jit
def logistic(
    key: Any, rows: Features, present: Any, budget: Any, rounds: Any = ROUNDS, pace: Any = 1.0
) -> Any:
    """Scores and probabilities of logistic regression; the pace multiplies its step."""
    _, mu, bound = budget
    gradient = functools.partial(logistic_gradient, rows, present)
    rate = pace * jnp.minimum(12, bound * mu / (3 * rounds)) / bound
    noise, start = 0.5 * rounds**0.5 / mu, jnp.zeros(rows.wide.shape[1])
    weights = ascend(key, gradient, start, noise, rate, rounds)
    score = rows.wide @ weights
    return score, jax.nn.sigmoid(score)


def _through(rows: Features, net: Any) -> tuple[jax.Array, jax.Array]:
    inner, outer, constant = net
    units = jnp.tanh(rows.narrow @ inner)
    return units, units @ outer + constant


def net_gradient(rows: Features, present: jax.Array, net: Any, clip: Any = 1.0) -> Any:
    """The sum over rows of their gradients of the log likelihood, each clipped to a length.

    It is in units of that length.
    """
    units, score = _through(rows, net)
    error, slopes = rows.positive - jax.nn.sigmoid(score), net[1][None] * (1 - units**2)
    within = jnp.sum(rows.narrow**2, axis=1) * jnp.sum(slopes**2, axis=1)
    length = jnp.abs(error) * jnp.sqrt(within + jnp.sum(units**2, axis=1) + 1)
    scaled = present * error / jnp.maximum(length, clip)
    return rows.narrow.T @ (scaled[:, None] * slopes), scaled @ units, jnp.sum(scaled)


@functools.partial(jax.jit, static_argnames=("units",))
def net(
    key: Any,
    rows: Features,
    present: Any,
    budget: Any,
    rounds: Any = ROUNDS,
    units: int = UNITS,
    clip: Any = 1.0,
) -> Any:
    """Scores and probabilities of a net with one layer of units."""
    _, mu, bound = budget
    width = rows.narrow.shape[1]
    inner = jax.random.normal(jax.random.fold_in(key, rounds), (width, units)) / width**0.5
    gradient = functools.partial(net_gradient, rows, present, clip=clip)
    rate = jnp.minimum(1, bound * mu / (3 * rounds)) / bound
    start = inner, jnp.full(units, units**-0.5), jnp.float32(0)
    score = _through(rows, ascend(key, gradient, start, rounds**0.5 / mu, rate, rounds))[1]
    return score, jax.nn.sigmoid(score)


def residual_sum(rows: Features, present: jax.Array, weights: jax.Array) -> jax.Array:
    """f32[A]: a sum over rows, of which each has a length of at most 1."""
    return (present * jnp.clip(2 * rows.positive - 1 - rows.wide @ weights, -1, 1)) @ rows.wide


@functools.partial(jax.jit, static_argnames=("rounds",))
def adassp(key: Any, rows: Features, present: Any, budget: Any, rounds: int = BOOSTS) -> Any:
    """Scores and probabilities of ridge regressions on the residuals of those before.

    One row moves the second moments, with their noise on and above the diagonal, by at most 1. They
    have half of mu^2, and the rounds the other half. The least eigenvalue is 0, as the indicators
    of a column add up to the constant, and the penalty is as large as the noise can be.
    """
    _, mu, _ = budget
    first, *keys = jax.random.split(key, 1 + rounds)
    width, noise = rows.wide.shape[1], 2**0.5 / mu
    drawn = jnp.triu(jax.random.normal(first, (width, width)))
    moments = (rows.wide * present[:, None]).T @ rows.wide
    moments = moments + noise * (drawn + jnp.triu(drawn, 1).T)
    penalty = noise * np.sqrt(width * np.log(2 * width**2 / 0.05))
    solve = jax.scipy.linalg.lu_factor(moments + penalty * jnp.eye(width))

    def add(weights: jax.Array, each: jax.Array) -> tuple[jax.Array, None]:
        found = residual_sum(rows, present, weights)
        found = found + rounds**0.5 * noise * jax.random.normal(each, found.shape)
        return weights + jax.scipy.linalg.lu_solve(solve, found), None

    weights, _ = jax.lax.scan(add, jnp.zeros(width), jnp.stack(keys))
    score = rows.wide @ weights
    return score, jnp.clip((score + 1) / 2, 0, 1)


def _fit(learn: Callable[..., Any], groups: int = GROUPS, **options: Any) -> Fit:
    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        test, rows = study.tests[split], features(study, groups)
        mu = float(conversions.gdp_mu(epsilon, delta)) if delta else 0.0
        budget = tuple(map(jnp.float32, (epsilon, mu, study.rows)))
        start = time.perf_counter()
        found = learn(jax.random.key(split), rows, jnp.float32(~test), budget, **options)
        score, probability = (np.asarray(each)[..., test] for each in found)
        return Found(score, probability, time.perf_counter() - start)

    return fit


def _best(
    learn: Callable[..., Any], shapes: Mapping[str, Sequence], numbers: Mapping[str, Sequence]
) -> Fit:
    """The fits of the setting that has the largest mean AUROC over all splits of a budget.

    Args:
        learn: the learner.
        shapes: the options by which programs differ, and their values.
        numbers: the others, all of whose settings are one program.
    """
    columns = zip(*itertools.product(*numbers.values()), strict=True)
    settings = dict(zip(numbers, map(jnp.asarray, columns), strict=True))

    def every(*given: Any, **at: Any) -> Any:
        each = jax.vmap(lambda setting: learn(*given, **at, **setting), axis_size=count)
        return each(settings)

    count = math.prod(map(len, numbers.values()))
    chosen = itertools.product(*shapes.values())
    fits = [_fit(every, **dict(zip(shapes, at, strict=True))) for at in chosen]

    @functools.lru_cache(maxsize=1)
    def best(study: Study, epsilon: float, delta: float) -> list[Found]:
        def mean(splits: Sequence[Found]) -> float:
            pairs = zip(splits, study.tests, strict=True)
            return sum(auroc(each.predicted, study.target[test]) for each, test in pairs)

        def of(at: int, each: Found) -> Found:
            return Found(each.predicted[at], np.asarray(each.probability)[at], each.seconds / count)

        found = []
        for fit in fits:
            splits = [fit(study, split, epsilon, delta) for split in range(len(study.tests))]
            found += [[of(at, each) for each in splits] for at in range(count)]
        return max(found, key=mean)

    return lambda study, split, epsilon, delta: best(study, epsilon, delta)[split]


METHODS = {
    "dp-logistic": Method(
        _fit(logistic), approximate(f"bins joined to {GROUPS}, {ROUNDS} rounds of all rows")
    ),
    "naive-bayes": Method(_fit(naive_bayes), words(f"class histograms of {GROUPS} joined bins")),
    "adassp": Method(_fit(adassp), approximate(f"BoostedAdaSSP: {BOOSTS} rounds")),
    "dp-net": Method(
        _fit(net), approximate(f"{UNITS} units, gradients of length 1, {ROUNDS} rounds of all rows")
    ),
}
"""Name -> method, in the order of tables."""

GRIDS: dict[str, tuple[Callable[..., Any], dict[str, tuple], dict[str, tuple]]] = {
    "dp-logistic": (logistic, {"groups": (16, 32)}, {"rounds": (32, 128), "pace": (0.3, 1.0, 3.0)}),
    "naive-bayes": (naive_bayes, {"groups": (4, 8, 16, 32, 64)}, {}),
    "adassp": (adassp, {"groups": (8, 16, 32), "rounds": (1, 10)}, {}),
    "dp-net": (net, {"units": (8, 32)}, {"rounds": (32, 128), "clip": (0.3, 1.0)}),
}
"""Challenger -> how it learns, and the values of its options that are tried, as `_best` has them.
"""

BEST = {
    f"{name}-best": Method(
        _best(learn, *grid),
        (words if name == "naive-bayes" else approximate)(json.dumps(grid[0] | grid[1])),
    )
    for name, (learn, *grid) in GRIDS.items()
}
"""Name -> the best of the grid by test rows, which is not private."""
