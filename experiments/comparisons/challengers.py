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
from experiments.comparisons.methods import (
    Fit,
    Method,
    Predictions,
    Trial,
    setting_with_any_delta,
    setting_with_delta,
)
from experiments.comparisons.study import Study

GROUPS = 16
"""To how many groups the bins of a number are joined."""

ROUNDS, UNITS, BOOSTS = 128, 32, 10
"""Rounds of the gradient methods, units of the net, and rounds of BoostedAdaSSP."""


class Budget(NamedTuple):
    """What the noise of a challenger follows from.

    Attributes:
        epsilon: the epsilon of the Laplace mechanism.
        mu: the mu of GDP; 0 without a delta, where the Laplace mechanism is used.
        rows: the public bound on training rows.
    """

    epsilon: Any
    mu: Any
    rows: Any


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


class Codes(NamedTuple):
    """Cells as codes.

    Attributes:
        codes: i[N, F], the code of each cell.
        sizes: the number of codes of each column.
    """

    codes: np.ndarray
    sizes: list[int]


def join_bins(study: Study, groups: int = GROUPS) -> Codes:
    """The bins of all cells, where the bins of a number are joined to so many groups."""
    codes, sizes = np.asarray(study.data.table.bins).astype(int), []  # type: ignore[union-attr]
    for place, column in enumerate(study.data.domain.values()):
        sizes.append(column.n_bins)
        if isinstance(column, Numeric) and column.bins > groups:
            bins, missing = codes[:, place], codes[:, place] >= column.bins
            codes[:, place] = np.where(missing, groups, bins * groups // column.bins)
            sizes[-1] = groups + int(column.missing)
    return Codes(codes, sizes)


@functools.lru_cache(maxsize=2)
def encode_features(study: Study, groups: int = GROUPS) -> Features:
    """The rows of a study, with the bins of a number joined to so many groups."""
    codes, sizes = join_bins(study, groups)
    blocks = [
        np.equal(codes[:, [place]], np.arange(size)).astype(np.float32)
        for place, size in enumerate(sizes)
    ]
    rows = study.peer_rows
    low, high = rows.bounds[~rows.nominal].T
    numbers = (2 * (rows.numbers[:, ~rows.nominal] - low) / (high - low) - 1).astype(np.float32)
    constant = np.ones((len(numbers), 1), np.float32)
    wide = np.hstack([*blocks, numbers, constant]) / np.sqrt(len(blocks) + numbers.shape[1] + 1)
    nominal_blocks = [block for block, nominal in zip(blocks, rows.nominal, strict=True) if nominal]
    column = np.eye(len(blocks))[np.repeat(np.arange(len(blocks)), [b.shape[1] for b in blocks])]
    return Features(
        bins=jnp.asarray(np.hstack(blocks), jnp.float32),
        column=jnp.asarray(column, jnp.float32),
        wide=jnp.asarray(wide, jnp.float32),
        narrow=jnp.asarray(np.hstack([numbers, *nominal_blocks, constant]), jnp.float32),
        positive=jnp.asarray(study.target, jnp.float32),
    )


def class_histograms(rows: Features, present: jax.Array) -> jax.Array:
    """f32[2, B]: how many rows of each class are in each bin; a row moves F of them by 1."""
    return jnp.stack([1 - rows.positive, rows.positive]) * present[None] @ rows.bins


@jax.jit
def naive_bayes(key: Any, rows: Features, present: Any, budget: Budget) -> Any:
    """Scores and probabilities of naive Bayes; its prior is one deviation of the noise a bin."""
    epsilon, mu = budget.epsilon, budget.mu
    counts, columns = class_histograms(rows, present), rows.column.shape[1]
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
    key: Any, gradient: Callable[[Any], Any], start: Any, *, noise: Any, rate: Any, rounds: Any
) -> Any:
    """The mean of the last half of the iterates of Nesterov's ascent on noisy gradients.

    Args:
        key: the key of the noise.
        gradient: the gradient of what is maximized, at weights of the form of `start`.
        start: the first weights.
        noise: the deviation of the noise of each entry of a gradient.
        rate: the length of a step in units of the gradient.
        rounds: how many steps are made.
    """
    flat, unravel = ravel_pytree(start)

    def move(number: jax.Array, state: Any) -> Any:
        weights, velocity, total = state
        gradient_noise = noise * jax.random.normal(jax.random.fold_in(key, number), flat.shape)
        noisy_gradient = ravel_pytree(gradient(unravel(weights)))[0] + gradient_noise
        velocity = 0.9 * velocity + noisy_gradient
        weights = weights + rate * (noisy_gradient + 0.9 * velocity)
        return weights, velocity, total + jnp.where(2 * number < rounds, 0, weights)

    *_, total = jax.lax.fori_loop(0, rounds, move, (flat, 0 * flat, 0 * flat))
    return unravel(total / (rounds // 2))


def logistic_gradient(rows: Features, present: jax.Array, weights: jax.Array) -> jax.Array:
    """f32[A]: a sum over rows, of which each has a length of at most 1/2."""
    error = rows.positive - jax.nn.sigmoid(rows.wide @ weights)
    return (present * jnp.clip(error, -0.5, 0.5)) @ rows.wide


@jax.jit
def logistic(
    key: Any, rows: Features, present: Any, budget: Budget, rounds: Any = ROUNDS, pace: Any = 1.0
) -> Any:
    """Scores and probabilities of logistic regression; the pace multiplies its step."""
    mu, bound = budget.mu, budget.rows
    gradient = functools.partial(logistic_gradient, rows, present)
    rate = pace * jnp.minimum(12, bound * mu / (3 * rounds)) / bound
    noise, start = 0.5 * rounds**0.5 / mu, jnp.zeros(rows.wide.shape[1])
    weights = ascend(key, gradient, start, noise=noise, rate=rate, rounds=rounds)
    score = rows.wide @ weights
    return score, jax.nn.sigmoid(score)


def _net_units_and_scores(rows: Features, net: Any) -> tuple[jax.Array, jax.Array]:
    """f32[N, units], what the units of a net say of each row; and f32[N], the scores."""
    inner, outer, constant = net
    units = jnp.tanh(rows.narrow @ inner)
    return units, units @ outer + constant


def net_gradient(rows: Features, present: jax.Array, net: Any, clip: Any = 1.0) -> Any:
    """The sum over rows of their gradients of the log likelihood, each clipped to a length.

    It is in units of that length.
    """
    units, score = _net_units_and_scores(rows, net)
    error, slopes = rows.positive - jax.nn.sigmoid(score), net[1][None] * (1 - units**2)
    inner_square = jnp.sum(rows.narrow**2, axis=1) * jnp.sum(slopes**2, axis=1)
    length = jnp.abs(error) * jnp.sqrt(inner_square + jnp.sum(units**2, axis=1) + 1)
    scaled = present * error / jnp.maximum(length, clip)
    return rows.narrow.T @ (scaled[:, None] * slopes), scaled @ units, jnp.sum(scaled)


@functools.partial(jax.jit, static_argnames=("units",))
def net(
    key: Any,
    rows: Features,
    present: Any,
    budget: Budget,
    rounds: Any = ROUNDS,
    units: int = UNITS,
    clip: Any = 1.0,
) -> Any:
    """Scores and probabilities of a net with one layer of units."""
    mu, bound = budget.mu, budget.rows
    width = rows.narrow.shape[1]
    inner = jax.random.normal(jax.random.fold_in(key, rounds), (width, units)) / width**0.5
    gradient = functools.partial(net_gradient, rows, present, clip=clip)
    rate = jnp.minimum(1, bound * mu / (3 * rounds)) / bound
    start = inner, jnp.full(units, units**-0.5), jnp.float32(0)
    noise = rounds**0.5 / mu
    trained = ascend(key, gradient, start, noise=noise, rate=rate, rounds=rounds)
    _, score = _net_units_and_scores(rows, trained)
    return score, jax.nn.sigmoid(score)


def residual_sum(rows: Features, present: jax.Array, weights: jax.Array) -> jax.Array:
    """f32[A]: a sum over rows, of which each has a length of at most 1."""
    return (present * jnp.clip(2 * rows.positive - 1 - rows.wide @ weights, -1, 1)) @ rows.wide


@functools.partial(jax.jit, static_argnames=("rounds",))
def adassp(key: Any, rows: Features, present: Any, budget: Budget, rounds: int = BOOSTS) -> Any:
    """Scores and probabilities of ridge regressions on the residuals of those before.

    One row moves the second moments, with their noise on and above the diagonal, by at most 1. They
    have half of mu^2, and the rounds the other half. The least eigenvalue is 0, as the indicators
    of a column add up to the constant, and the penalty is as large as the noise can be.
    """
    moments_key, *keys = jax.random.split(key, 1 + rounds)
    width, noise = rows.wide.shape[1], 2**0.5 / budget.mu
    upper_noise = jnp.triu(jax.random.normal(moments_key, (width, width)))
    moments = (rows.wide * present[:, None]).T @ rows.wide
    moments = moments + noise * (upper_noise + jnp.triu(upper_noise, 1).T)
    penalty = noise * np.sqrt(width * np.log(2 * width**2 / 0.05))
    solve = jax.scipy.linalg.lu_factor(moments + penalty * jnp.eye(width))

    def add_regression(weights: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        target = residual_sum(rows, present, weights)
        target = target + rounds**0.5 * noise * jax.random.normal(key, target.shape)
        return weights + jax.scipy.linalg.lu_solve(solve, target), None

    weights, _ = jax.lax.scan(add_regression, jnp.zeros(width), jnp.stack(keys))
    score = rows.wide @ weights
    return score, jnp.clip((score + 1) / 2, 0, 1)


def _fit_of(learn: Callable[..., Any], groups: int = GROUPS, **options: Any) -> Fit:
    """The fit of a challenger.

    Args:
        learn: (key, rows, present, budget, **options) -> scores and probabilities of all rows.
        groups: to how many the bins of a number are joined.
        options: those of the challenger.
    """

    def fit(trial: Trial) -> Predictions:
        rows = encode_features(trial.study, groups)
        mu = float(conversions.gdp_mu(trial.epsilon, trial.delta)) if trial.delta else 0.0
        budget = Budget(*map(jnp.float32, (trial.epsilon, mu, trial.study.rows)))
        start = time.perf_counter()
        key, present = jax.random.key(trial.split), jnp.float32(~trial.test)
        score, probability = learn(key, rows, present, budget, **options)
        return Predictions(
            np.asarray(score)[..., trial.test],
            np.asarray(probability)[..., trial.test],
            time.perf_counter() - start,
        )

    return fit


class Grid(NamedTuple):
    """The settings of a challenger that are tried.

    Attributes:
        learn: as `_fit_of` gets it.
        shapes: the options by which programs differ, and their values.
        numbers: the other options, all of whose settings are one program.
    """

    learn: Callable[..., Any]
    shapes: Mapping[str, Sequence[Any]]
    numbers: Mapping[str, Sequence[Any]]


def _total_auroc(study: Study, predictions: Sequence[Predictions]) -> float:
    """The sum over the splits of a study of the AUROC."""
    pairs = zip(predictions, study.tests, strict=True)
    return sum(auroc(split.predicted, study.target[test]) for split, test in pairs)


def _fit_best_of(grid: Grid) -> Fit:
    """The fits of the setting that has the largest mean AUROC over all splits of a budget."""
    columns = zip(*itertools.product(*grid.numbers.values()), strict=True)
    settings = dict(zip(grid.numbers, map(jnp.asarray, columns), strict=True))
    count = math.prod(map(len, grid.numbers.values()))

    def learn_all(*rows: Any, **shape: Any) -> Any:
        learn = lambda setting: grid.learn(*rows, **shape, **setting)  # noqa: E731
        return jax.vmap(learn, axis_size=count)(settings)

    shapes = itertools.product(*grid.shapes.values())
    fits = [_fit_of(learn_all, **dict(zip(grid.shapes, shape, strict=True))) for shape in shapes]

    def select_setting(predictions: Predictions, place: int) -> Predictions:
        """The predictions of one setting, of the predictions of all settings of a program."""
        probability = np.asarray(predictions.probability)[place]
        return Predictions(predictions.predicted[place], probability, predictions.seconds / count)

    @functools.lru_cache(maxsize=1)
    def best_by_split(study: Study, epsilon: float, delta: float) -> list[Predictions]:
        by_setting = []
        for fit in fits:
            splits = [
                fit(Trial(study=study, split=split, epsilon=epsilon, delta=delta))
                for split in range(len(study.tests))
            ]
            by_setting += [
                [select_setting(predictions, place) for predictions in splits]
                for place in range(count)
            ]
        return max(by_setting, key=functools.partial(_total_auroc, study))

    return lambda trial: best_by_split(trial.study, trial.epsilon, trial.delta)[trial.split]


METHODS = {
    "dp-logistic": Method(
        _fit_of(logistic),
        setting_with_delta(f"bins joined to {GROUPS}, {ROUNDS} rounds of all rows"),
    ),
    "naive-bayes": Method(
        _fit_of(naive_bayes), setting_with_any_delta(f"class histograms of {GROUPS} joined bins")
    ),
    "adassp": Method(_fit_of(adassp), setting_with_delta(f"BoostedAdaSSP: {BOOSTS} rounds")),
    "dp-net": Method(
        _fit_of(net),
        setting_with_delta(f"{UNITS} units, gradients of length 1, {ROUNDS} rounds of all rows"),
    ),
}
"""Name -> method, in the order of tables."""

GRIDS = {
    "dp-logistic": Grid(
        logistic, {"groups": (16, 32)}, {"rounds": (32, 128), "pace": (0.3, 1.0, 3.0)}
    ),
    "naive-bayes": Grid(naive_bayes, {"groups": (4, 8, 16, 32, 64)}, {}),
    "adassp": Grid(adassp, {"groups": (8, 16, 32), "rounds": (1, 10)}, {}),
    "dp-net": Grid(net, {"units": (8, 32)}, {"rounds": (32, 128), "clip": (0.3, 1.0)}),
}
"""Challenger -> the settings that are tried."""


def _best_method(name: str, grid: Grid) -> Method:
    setting = setting_with_any_delta if name == "naive-bayes" else setting_with_delta
    return Method(_fit_best_of(grid), setting(json.dumps({**grid.shapes, **grid.numbers})))


BEST = {f"{name}-best": _best_method(name, grid) for name, grid in GRIDS.items()}
"""Name -> the best of the grid by test rows, which is not private."""
