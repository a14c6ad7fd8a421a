"""Black-box audits: they see the outputs of a learner, and nothing else of it.

The learner is run many times on a table and on a neighbour. A quarter of the runs trains several
distinguishers of the two tables, a quarter chooses the best of them and its threshold, and the
other half bounds its chances (`audit_bounds.epsilon_and_mu_lower_bounds`).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from dpbt.privacy.audit_bounds import (
    CONFIDENCE,
    Bound,
    RunScores,
    epsilon_and_mu_lower_bounds,
    one_run_epsilon_lower_bound,
)

Fit = Callable[[Any, int], Any]
"""(table, seed) -> the released output. Seeds of two runs differ."""

View = Callable[[Any], Any]
"""The released output -> a list of numbers, such as scores of some rows, leaves, or splits."""


def black_box_lower_bound(
    fit: Fit,
    table: Any,
    neighbour: Any,
    *,
    view: View = np.asarray,
    claim: tuple[float, float],
    num_runs: int = 4000,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Bound:
    """A lower bound on the epsilon and mu of a learner, from samples of its outputs.

    The bound cannot exceed about log(runs / 10), and an event that is rarer than 10 / runs has no
    part in it. So a bound far below the claim says little.

    Args:
        fit: (table, seed) -> the released output.
        table: in any form that `fit` reads.
        neighbour: likewise. The result of an audit of two private tables is itself private.
        view: the released output -> numbers.
        claim: (epsilon, delta) that the learner states.
        num_runs: how many, half of them on each of the two tables; fewer than 80 count as 80.
        seed: the seed of the first run.
        confidence: in (0, 1).
    """
    runs_on_each = max(num_runs // 2, 40)
    on_table = [_numbers_of_output(view(fit(table, seed + k))) for k in range(runs_on_each)]
    seed += runs_on_each
    on_neighbour = [_numbers_of_output(view(fit(neighbour, seed + k))) for k in range(runs_on_each)]
    width = max(map(len, (*on_table, *on_neighbour)))
    views = _Views(
        on_table=_stack_views(on_table, width), on_neighbour=_stack_views(on_neighbour, width)
    )

    quarter = runs_on_each // 4
    choosing_views = views.slice(quarter, 2 * quarter)

    def estimated_power(distinguisher: _Distinguisher) -> float:
        scores = distinguisher.scores_of(choosing_views)
        bounds = epsilon_and_mu_lower_bounds(scores, scores, delta=claim[1], confidence=0.5)
        return bounds.epsilon + 1e-3 * bounds.mu

    best = max(_make_distinguishers(views.slice(0, quarter)), key=estimated_power)
    lower = epsilon_and_mu_lower_bounds(
        best.scores_of(choosing_views),
        best.scores_of(views.slice(2 * quarter, None)),
        delta=claim[1],
        confidence=confidence,
    )
    return Bound(
        level="black box",
        claim=claim,
        epsilon=lower.epsilon,
        mu=lower.mu,
        confidence=confidence,
        runs=2 * runs_on_each,
        where=best.name,
        curve=lower.curve,
    )


def make_worst_table_pairs(
    low: ArrayLike, high: ArrayLike, num_rows: int = 20, seed: int = 0
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Make tables and neighbours on which wrong learners often break their claim.

    They are neighbours under add/remove. A table is f64[N, A + 1]: numbers in their ranges, and a
    label of 0 or 1. The row that one of them has and the other lacks is the last.

    Args:
        low: f64[A], the least value in the domain of each column.
        high: f64[A], the largest value.
        num_rows: N of the larger table.
        seed: the seed of the random rows.

    Returns:
        Name -> (table, neighbour): the only row, a row among its copies, a corner among copies of
        the other corner, a corner among random rows, a row beyond the domain, and one with a cell
        that is no number.
    """
    low, high = np.asarray(low, float), np.asarray(high, float)
    rng = np.random.default_rng(seed)
    low_corner = np.append(low, 0.0)
    high_corner = np.append(high, 1.0)
    random_rows = np.column_stack(
        [rng.uniform(low, high, (num_rows, len(low))), rng.random(num_rows) < 0.5]
    )
    beyond_domain = np.append(high + 100 * (high - low + 1), 1.0)
    with_nan = np.append(high, 1.0)
    with_nan[0] = np.nan
    tables = {
        "the only row": high_corner[None],
        "a row among its copies": np.tile(high_corner, (num_rows, 1)),
        "a corner among the other": np.vstack(
            [np.tile(low_corner, (num_rows - 1, 1)), high_corner]
        ),
        "a corner among random rows": np.vstack([random_rows[:-1], high_corner]),
        "a row beyond the domain": np.vstack([random_rows[:-1], beyond_domain]),
        "a cell that is no number": np.vstack([random_rows[:-1], with_nan]),
    }
    return {name: (table, table[:-1]) for name, table in tables.items()}


def _numbers_of_output(output: Any) -> Float64[np.ndarray, "D"]:
    """f64[D]: the numbers of a view, all of them finite.

    Infinite ones become large, and NaN very small.
    """
    return np.nan_to_num(np.ravel(np.asarray(output, float)), nan=-1e30, posinf=1e30, neginf=-1e30)


def _stack_views(views: Sequence[np.ndarray], width: int) -> Float64[np.ndarray, "R _"]:
    """f64[R, width + 1]: R views padded with zeros, and the length of each in the last column."""
    return np.stack([np.append(np.pad(view, (0, width - len(view))), len(view)) for view in views])


class _Views(NamedTuple):
    """Views of runs on two tables.

    Attributes:
        on_table: f64[R, D].
        on_neighbour: f64[S, D].
    """

    on_table: np.ndarray
    on_neighbour: np.ndarray

    def slice(self, start: int, stop: int | None) -> "_Views":
        """Take the views of some runs, from `start` up to `stop`."""
        return _Views(*(views[start:stop] for views in self))


class _Distinguisher(NamedTuple):
    """A way to tell from a view which of two tables the run was on.

    Attributes:
        name: what it looks at, in words.
        score: f64[R, D] -> f64[R], larger where the table is likelier.
    """

    name: str
    score: Callable[[np.ndarray], np.ndarray]

    def scores_of(self, views: _Views) -> RunScores:
        """Score the views of all runs on both tables."""
        return RunScores(
            on_table=self.score(views.on_table), on_neighbour=self.score(views.on_neighbour)
        )


def _make_distinguishers(views: _Views) -> list[_Distinguisher]:
    """Make several distinguishers of two tables, some of them trained on these views."""
    pooled = np.concatenate(views)
    varying_places = np.flatnonzero(np.ptp(pooled, axis=0) > 0)
    if not len(varying_places):
        name = "nothing: all views are alike"
        return [_Distinguisher(name, lambda views: np.zeros(len(views)))]
    distinguishers = []
    for place in varying_places.tolist():
        distinguishers += [
            _Distinguisher(
                f"number {place}", functools.partial(_output_at_index, output_index=place)
            ),
            _Distinguisher(
                f"spread of number {place}",
                functools.partial(
                    _distance_of_output_from_center,
                    output_index=place,
                    center=float(np.median(pooled[:, place])),
                ),
            ),
            _train_distinguisher_by_exact_values(views, place),
        ]
    if len(varying_places) > 1:
        distinguishers.append(_train_linear_distinguisher(views, varying_places))
    return distinguishers


def _output_at_index(views: np.ndarray, *, output_index: int) -> Float64[np.ndarray, "R"]:
    """f64[R]: the output at one index of each view."""
    return views[:, output_index]


def _distance_of_output_from_center(
    views: np.ndarray, *, output_index: int, center: float
) -> Float64[np.ndarray, "R"]:
    """f64[R]: how far the output at one index of each view is from a center."""
    return np.abs(views[:, output_index] - center)


def _train_distinguisher_by_exact_values(views: _Views, place: int) -> _Distinguisher:
    """Train a distinguisher by how often each value of one number was seen on both tables.

    Its score is the log ratio of these counts.
    """
    pooled = np.concatenate([views.on_table[:, place], views.on_neighbour[:, place]])
    values, codes = np.unique(pooled, return_inverse=True)
    counts_on_table, counts_on_neighbour = (
        np.bincount(codes_of_table, minlength=len(values))
        for codes_of_table in np.split(codes, [len(views.on_table)])
    )
    log_ratio = np.log(counts_on_table + 0.5) - np.log(counts_on_neighbour + 0.5)

    def score(views: np.ndarray) -> np.ndarray:
        index = np.minimum(np.searchsorted(values, views[:, place]), len(values) - 1)
        return np.where(values[index] == views[:, place], log_ratio[index], 0.0)

    return _Distinguisher(f"values of number {place}", score)


def _train_linear_distinguisher(views: _Views, places: np.ndarray) -> _Distinguisher:
    """Train the linear discriminant of Fisher, with a ridge, on some numbers of the views."""
    scale = np.std(np.concatenate(views)[:, places], axis=0)
    on_table, on_neighbour = (views_of_table[:, places] / scale for views_of_table in views)
    covariance = np.cov(on_table.T) + np.cov(on_neighbour.T)
    ridge = 0.1 * np.trace(covariance) / len(places) * np.eye(len(places))
    difference = np.mean(on_table, axis=0) - np.mean(on_neighbour, axis=0)
    weights = np.linalg.solve(covariance + ridge, difference)
    return _Distinguisher(
        "a linear mean of all numbers", lambda views: views[:, places] / scale @ weights
    )


def one_run_lower_bound(
    fit: Callable[[np.ndarray, int], Any],
    num_canaries: int,
    *,
    claim: tuple[float, float],
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Bound:
    """A lower bound on epsilon from one run with many canaries (Steinke et al. 2023).

    A fair coin decides for each canary whether it is in the table. The audit guesses that the
    canaries of the largest scores are in the table, and those of the smallest are not.

    Args:
        fit: (bool[m] which canaries are in, seed) -> f64[m], a score of each canary that is larger
            if the model seems to have seen it, such as its margin.
        num_canaries: m, at least 8. They must be rows that do not depend on each other's coins.
        claim: (epsilon, delta) that the learner states.
        seed: the seed of the coins and of the run.
        confidence: in (0, 1); the numbers of guesses that are tried share it.
    """
    coins = np.random.default_rng([seed, 2]).random(num_canaries) < 0.5
    scores = np.asarray(fit(coins, seed), float)
    order = np.argsort(scores, kind="stable")
    best_epsilon = 0.0
    where = "nothing"
    guesses_of_each_side = sorted({num_canaries // 2, num_canaries // 8, num_canaries // 32} - {0})
    for guesses in guesses_of_each_side:
        correct = int(np.sum(coins[order[-guesses:]]) + np.sum(~coins[order[:guesses]]))
        epsilon = one_run_epsilon_lower_bound(
            num_guesses=2 * guesses,
            num_correct=correct,
            num_canaries=num_canaries,
            delta=claim[1],
            failure_probability=(1 - confidence) / len(guesses_of_each_side),
        )
        if epsilon > best_epsilon:
            best_epsilon = epsilon
            where = f"{correct} of {2 * guesses} guesses right"
    return Bound(
        level="one run",
        claim=claim,
        epsilon=best_epsilon,
        mu=0.0,
        confidence=confidence,
        runs=1,
        where=where,
    )
