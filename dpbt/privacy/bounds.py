"""Lower bounds on what a learner spends, from runs on a table and on a neighbour.

A run is given a score, and a test says "the table" where the score is above a threshold. Let p be
the chance of that on the table and q on the neighbour. A learner that is (epsilon, delta)-DP has
p <= e^epsilon q + delta, and one that is mu-GDP has Phi^-1(p) - Phi^-1(q) <= mu. So confidence
intervals of p and q bound epsilon and mu from below. The threshold is chosen on one half of the
runs, and the intervals are of the other half.

Where the score is the exact log ratio L of the likelihoods, q is the mean of e^-L over the runs on
the table whose score is above t. So q <= e^-t p, which tells rare events that no run shows. Epsilon
then needs no threshold: the mean of max(0, 1 - e^(epsilon - L)) is delta at most (`bet_epsilon`).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dpbt.privacy.conversions import bisected

CONFIDENCE = 0.95
"""With which a bound holds by default."""

LARGE = 1e6
"""A log ratio of likelihoods beyond it is that of an event that one of the tables cannot cause."""


class Bound(NamedTuple):
    """What an audit found; a function of the tables it ran on.

    Attributes:
        level: "exact", "grey box", "black box" or "one run".
        claim: (epsilon, delta) that the learner states.
        epsilon: a lower bound on its epsilon at the claim's delta; 0 if nothing was found.
        mu: a lower bound on the mu of its Gaussian differential privacy.
        confidence: with which each of the two holds.
        runs: how many runs of the learner it is from, on both tables together.
        where: what told the tables apart.
        curve: f64[K, 2], points (q, p) of tests, with q from above and p from below, each with the
            confidence. Empty for one run.
        certain: whether epsilon is a certificate: the log ratio of the likelihoods of an output.
        uncompared: what the audit could not compare, and so says nothing about; empty if nothing.
    """

    level: str
    claim: tuple[float, float]
    epsilon: float
    mu: float
    confidence: float
    runs: int
    where: str
    curve: np.ndarray = np.zeros((0, 2))
    certain: bool = False
    uncompared: str = ""

    @property
    def broken(self) -> bool:
        """Whether the claim is false, with the confidence."""
        return self.epsilon > self.claim[0] * (1 + 1e-6)

    @property
    def words(self) -> str:
        """What was found beside the claim, in a sentence."""
        sure = "for certain" if self.certain else f"with {100 * self.confidence:g} % confidence"
        runs = "1 run" if self.runs == 1 else f"{self.runs:,} runs"
        verdict = "THE CLAIM IS FALSE" if self.broken else "nothing against the claim"
        return (
            f"{self.level}, {runs}: epsilon is at least {self.epsilon:.3g} {sure}, where "
            f"{self.claim[0]:.6g} is claimed at delta = {self.claim[1]:g}: {verdict}."
            + (f" NOT COMPARED: {self.uncompared}." if self.uncompared else "")
        )

    def __str__(self) -> str:
        mu = f"mu is at least {self.mu:.3g} with {100 * self.confidence:g} % confidence"
        return f"{self.words}\n{mu}; found at {self.where}."


def chances(successes: np.ndarray, runs: int, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) bounds on a chance, each with a confidence (Clopper and Pearson)."""
    k, miss = np.asarray(successes, float), 1 - confidence
    lower = np.where(k > 0, special.betaincinv(k, runs - k + 1, miss), 0.0)
    upper = np.where(k < runs, special.betaincinv(k + 1, runs - k, 1 - miss), 1.0)
    return lower, upper


def _tests(
    scores: "Scores", at: np.ndarray, confidence: float, exact: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(q from above, p from below) of the tests "a score above t" for each of the thresholds."""
    own, other = (np.sum(each[:, None] > at, axis=0) for each in scores)
    low, high = chances(own, len(scores.here), confidence)
    _, above = chances(other, len(scores.there), confidence)
    if exact:
        rare = np.exp(np.clip(-at, -700, 0))  # more would underflow
        above = np.minimum(above, np.where(at < LARGE / 2, rare, 0.0) * high)
    return above, low


def epsilon_of(q: np.ndarray, p: np.ndarray, delta: float) -> np.ndarray:
    """The least epsilon, at least 0, of a learner with p <= e^epsilon q + delta."""
    above = np.maximum(p - delta, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(above > 0, np.log(above) - np.log(q), 0.0)
    return np.maximum(np.nan_to_num(found, nan=0.0, posinf=np.inf), 0.0)


def mu_of(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The least mu, at least 0, of a learner with Phi^-1(p) - Phi^-1(q) <= mu."""
    with np.errstate(invalid="ignore"):
        found = special.ndtri(p) - special.ndtri(q)
    return np.where(p > q, np.maximum(found, 0.0), 0.0)


_STAKES = np.geomspace(1e-4, 0.999, 20)
"""Shares of one's wealth that a bet may cost."""


def bet_epsilon(losses: np.ndarray, delta: float, miss: float) -> float:
    """The largest epsilon that exact losses refute at this delta; infinite if all are.

    Let L be the log ratio of the likelihoods of a run on the table. If the learner is
    (epsilon, delta)-DP, x = max(0, 1 - e^(epsilon - L)) has a mean of delta at most: the mean is
    the hockey-stick divergence. So who stakes a share s has the product of 1 + s (x / delta - 1)
    over the runs, whose mean is at most 1. The same holds for the mean over several s. It exceeds
    1 / miss with a chance of at most miss (Markov), and then epsilon is refuted. As x falls in
    epsilon, one above the truth is refuted only if the truth is, so the search costs nothing.
    (Waudby-Smith & Ramdas, 2024, bound means of numbers in [0, 1] by such bets.)

    Args:
        losses: f64[R], L of independent runs on the table.
        delta: of the claim, above 0.
        miss: one less the confidence.
    """

    def refuted(epsilon: float) -> bool:
        x = -np.expm1(epsilon - losses[losses > epsilon])
        grown = np.sum(np.log1p(_STAKES[:, None] * (x / delta - 1)), axis=1)
        grown += (len(losses) - len(x)) * np.log1p(-_STAKES)
        wealth: Any = special.logsumexp(grown)
        return bool(wealth >= math.log(len(_STAKES) / miss))

    return math.inf if refuted(LARGE / 2) else _largest(refuted, LARGE)


def _largest(refuted: Callable[[float], bool], most: float) -> float:
    """The largest number, of at least 0, that is refuted; of a range whose beginning is."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high) and high < most:
        low, high = high, 2 * high
    return float(bisected(refuted, low, high, 40)[0])


class Scores(NamedTuple):
    """Scores of runs.

    Attributes:
        here: f64[R], of runs on the table. Infinite ones are large.
        there: f64[S], of runs on the neighbour.
    """

    here: np.ndarray
    there: np.ndarray

    def halves(self) -> tuple["Scores", "Scores"]:
        """The first half of the runs, and the rest."""
        here, there = len(self.here) // 2, len(self.there) // 2
        first = Scores(self.here[:here], self.there[:there])
        return first, Scores(self.here[here:], self.there[there:])


def bounds_of(
    chosen: Scores, tested: Scores, delta: float, confidence: float, exact: bool = False
) -> tuple[float, float, np.ndarray]:
    """(epsilon, mu, curve) from the scores of runs on a table and on a neighbour.

    Both directions are tested. Each of the two bounds holds with the confidence: a direction has
    half of what may fail, and so has each of its two chances. Exact scores have an epsilon of all
    runs (`bet_epsilon`), if delta is above 0.

    Args:
        chosen: scores that choose thresholds.
        tested: scores of other runs, which bound the chances.
        delta: of the claim.
        confidence: in (0, 1).
        exact: whether scores are log ratios of the likelihoods, here over there.
    """
    each = 1 - (1 - confidence) / 4
    epsilons, mus, curves = [], [], []
    for sign in (1, -1):
        first, rest = (_directed(scores, sign) for scores in (chosen, tested))
        at = np.unique(np.quantile(first.here, np.linspace(0, 1, 201)[:-1], method="nearest"))
        at = np.unique(np.concatenate([at, np.nextafter(at, -np.inf)]))
        guessed, found = _tests(first, at, each, exact), _tests(rest, at, each, exact)
        if exact and delta > 0:
            every = np.concatenate([first.here, rest.here])
            epsilons.append(bet_epsilon(every, delta, (1 - confidence) / 2))
        else:
            epsilons.append(epsilon_of(*found, delta)[np.argmax(epsilon_of(*guessed, delta))])
        mus.append(mu_of(*found)[np.argmax(mu_of(*guessed))])
        curves.append(np.stack(found, axis=1))
    return float(max(epsilons)), float(max(mus)), curves[int(np.argmax(mus))]


def _directed(scores: Scores, sign: int) -> Scores:
    """Scores that are larger on the first of their two tables, as `sign` has it."""
    if any(np.isnan(each).any() for each in scores):
        raise ValueError("a score is not a number")
    here, there = (np.clip(sign * each, -LARGE, LARGE) for each in scores)
    return Scores(here, there) if sign > 0 else Scores(there, here)


def one_run_epsilon(guesses: int, correct: int, canaries: int, delta: float, miss: float) -> float:
    """The largest epsilon that so many correct guesses refute (Steinke et al. 2023, Theorem 5.2).

    Each of m canaries was in the table by a fair coin. If the learner is (epsilon, delta)-DP, the
    number of correct guesses of r exceeds v with a chance of at most b + 2 m delta a. Here b is the
    chance that a binomial of r and e^epsilon / (1 + e^epsilon) is at least v, and a the largest
    chance over i that it is in v - i..v - 1, divided by i.

    Args:
        guesses: r, how many canaries were guessed.
        correct: v.
        canaries: m.
        delta: of the claim.
        miss: one less the confidence.
    """

    def refuted(epsilon: float) -> bool:
        right = 1 / (1 + math.exp(-epsilon))
        steps = np.arange(1, correct + 1)
        tail = special.bdtrc(correct - 1, guesses, right)
        more = special.bdtrc(correct - 1 - steps, guesses, right)
        slack = np.max((more - tail) / steps) if correct else 0.0
        return tail + 2 * canaries * delta * slack <= miss

    return _largest(refuted, 64)
