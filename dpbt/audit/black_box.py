"""Black-box audits: all that is asked of a learner is what its models show.

The learner is run many times on a table and on a neighbour. A quarter of the runs teach several
distinguishers to tell the two apart, a quarter choose the best of them and its threshold, and the
other half bounds its chances (`bounds.lower_bounds`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbt.privacy.bounds import CONFIDENCE, Bound, RunScores, lower_bounds, one_run_epsilon_bound

Fit = Callable[[Any, int], Any]
"""(table, seed) -> what is released. Seeds of two runs differ."""

View = Callable[[Any], Any]
"""What is released -> numbers of one length, such as scores of some rows, leaves, or splits."""

Distinguisher = Callable[[np.ndarray], np.ndarray]
"""f64[R, D] -> f64[R], larger where the table is likelier."""


def black(
    fit: Fit,
    table: Any,
    neighbour: Any,
    *,
    view: View = np.asarray,
    claim: tuple[float, float],
    runs: int = 4000,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Bound:
    """A lower bound on what a learner spends, from samples of what it shows.

    It cannot show more than about log(runs / 10), and nothing of an event that is rarer than
    10 / runs: a bound far below the claim says little.

    Args:
        fit: (table, seed) -> what is released.
        table: in any form that `fit` reads.
        neighbour: likewise. What is found about two private tables is itself private.
        view: what is released -> numbers.
        claim: (epsilon, delta) that the learner states.
        runs: how many, at least 80; half of them on each table.
        seed: of the first run.
        confidence: in (0, 1).
    """
    half = max(runs // 2, 40)
    seen = [_as_numbers(view(fit(table, seed + k))) for k in range(half)]
    other = [_as_numbers(view(fit(neighbour, seed + half + k))) for k in range(half)]
    width = max(map(len, (*seen, *other)))
    here, there = (_rows(each, width) for each in (seen, other))

    quarter = half // 4
    best, chosen = 0.0, None
    for name, score in _distinguishers(here[:quarter], there[:quarter]):
        guess = RunScores(*(score(each[quarter : 2 * quarter]) for each in (here, there)))
        tried = lower_bounds(guess, guess, delta=claim[1], confidence=0.5)
        if chosen is None or tried.epsilon + 1e-3 * tried.mu > best:
            best, chosen = tried.epsilon + 1e-3 * tried.mu, (name, score, guess)
    assert chosen is not None
    name, score, guess = chosen
    tested = RunScores(*(score(each[2 * quarter :]) for each in (here, there)))
    lower = lower_bounds(guess, tested, delta=claim[1], confidence=confidence)
    return Bound(
        level="black box",
        claim=claim,
        epsilon=lower.epsilon,
        mu=lower.mu,
        confidence=confidence,
        runs=2 * half,
        where=name,
        curve=lower.curve,
    )


def worst_pairs(
    low: ArrayLike, high: ArrayLike, rows: int = 20, seed: int = 0
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pairs of a table and a neighbour that wrong learners often treat wrongly, under add/remove.

    A table is f64[N, A + 1]: numbers in their ranges, and a label of 0 or 1. The row that one of
    them has and the other lacks is the last.

    Args:
        low: f64[A], the least value of each column that is in its domain.
        high: f64[A], the largest.
        rows: N of the larger table.
        seed: of the random rows.

    Returns:
        Name -> (table, neighbour): the only row, a row among its copies, a corner among copies of
        the other corner, a corner among random rows, a row beyond the domain, and one with a cell
        that is no number.
    """
    low, high = np.asarray(low, float), np.asarray(high, float)
    rng = np.random.default_rng(seed)
    bottom, top = np.append(low, 0.0), np.append(high, 1.0)
    mixed = np.column_stack([rng.uniform(low, high, (rows, len(low))), rng.random(rows) < 0.5])
    beyond, odd = np.append(high + 100 * (high - low + 1), 1.0), np.append(high, 1.0)
    odd[0] = np.nan
    tables = {
        "the only row": top[None],
        "a row among its copies": np.tile(top, (rows, 1)),
        "a corner among the other": np.vstack([np.tile(bottom, (rows - 1, 1)), top]),
        "a corner among random rows": np.vstack([mixed[:-1], top]),
        "a row beyond the domain": np.vstack([mixed[:-1], beyond]),
        "a cell that is no number": np.vstack([mixed[:-1], odd]),
    }
    return {name: (table, table[:-1]) for name, table in tables.items()}


def _as_numbers(shown: Any) -> np.ndarray:
    """f64[D]: the numbers that a view shows; what is no number is very small."""
    return np.nan_to_num(np.ravel(np.asarray(shown, float)), nan=-1e30, posinf=1e30, neginf=-1e30)


def _rows(seen: Sequence[np.ndarray], width: int) -> np.ndarray:
    """f64[R, width + 1]: views, filled up with zeros, and how long each was."""
    return np.stack([np.append(np.pad(each, (0, width - len(each))), len(each)) for each in seen])


def _distinguishers(here: np.ndarray, there: np.ndarray) -> list[tuple[str, Distinguisher]]:
    """Ways to tell two tables apart, of which some were learned from these views."""
    found: list[tuple[str, Distinguisher]] = []
    both = np.concatenate([here, there])
    moves = np.flatnonzero(np.ptp(both, axis=0) > 0)
    if not len(moves):
        return [("nothing: all views are alike", lambda views: np.zeros(len(views)))]
    for place in moves.tolist():
        middle = float(np.median(both[:, place]))
        found += [
            (f"number {place}", lambda views, k=place: views[:, k]),
            (f"spread of number {place}", lambda v, k=place, m=middle: np.abs(v[:, k] - m)),
            (
                f"values of number {place}",
                _value_distinguisher(here[:, place], there[:, place], place),
            ),
        ]
    if len(moves) > 1:
        found.append(("a linear mean of all numbers", _linear_distinguisher(here, there, moves)))
    return found


def _value_distinguisher(here: np.ndarray, there: np.ndarray, place: int) -> Distinguisher:
    """The log ratio of how often each value was seen on both tables."""
    values, codes = np.unique(np.concatenate([here, there]), return_inverse=True)
    counts = [np.bincount(each, minlength=len(values)) for each in np.split(codes, [len(here)])]
    ratio = np.log(counts[0] + 0.5) - np.log(counts[1] + 0.5)

    def score(views: np.ndarray) -> np.ndarray:
        at = np.minimum(np.searchsorted(values, views[:, place]), len(values) - 1)
        return np.where(values[at] == views[:, place], ratio[at], 0.0)

    return score


def _linear_distinguisher(here: np.ndarray, there: np.ndarray, moves: np.ndarray) -> Distinguisher:
    """The linear discriminant of Fisher, with a ridge."""
    scale = np.std(np.concatenate([here, there])[:, moves], axis=0)
    ours, theirs = (each[:, moves] / scale for each in (here, there))
    spread = np.cov(ours.T) + np.cov(theirs.T)
    ridge = 0.1 * np.trace(spread) / len(moves) * np.eye(len(moves))
    weights = np.linalg.solve(spread + ridge, np.mean(ours, axis=0) - np.mean(theirs, axis=0))
    return lambda views: views[:, moves] / scale @ weights


def one_run(
    fit: Callable[[np.ndarray, int], Any],
    canaries: int,
    *,
    claim: tuple[float, float],
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Bound:
    """A lower bound on epsilon from one run with many canaries (Steinke et al. 2023).

    A fair coin says for each canary whether it is in the table. The canaries that the model seems
    to know best are guessed to be in, and those that it knows least to be out.

    Args:
        fit: (bool[m] which canaries are in, seed) -> f64[m], larger where the model seems to know
            a canary, such as its margin.
        canaries: m, at least 8. They must be rows that do not depend on each other's coins.
        claim: (epsilon, delta) that the learner states.
        seed: of the coins and of the run.
        confidence: in (0, 1); shared by the numbers of guesses that are tried.
    """
    coins = np.random.default_rng([seed, 2]).random(canaries) < 0.5
    known = np.asarray(fit(coins, seed), float)
    order = np.argsort(known, kind="stable")
    best, where = 0.0, "nothing"
    tries = sorted({canaries // 2, canaries // 8, canaries // 32} - {0})
    for each in tries:
        correct = int(np.sum(coins[order[-each:]]) + np.sum(~coins[order[:each]]))
        miss = (1 - confidence) / len(tries)
        epsilon = one_run_epsilon_bound(
            guesses=2 * each, correct=correct, canaries=canaries, delta=claim[1], miss=miss
        )
        if epsilon > best:
            best, where = epsilon, f"{correct} of {2 * each} guesses right"
    return Bound(
        level="one run",
        claim=claim,
        epsilon=best,
        mu=0.0,
        confidence=confidence,
        runs=1,
        where=where,
    )
