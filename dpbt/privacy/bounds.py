"""Lower bounds on what a learner spends, from runs on a table and on a neighbour.

A run is given a score, and a test says "the table" where the score is above a threshold. Let p be
the chance of that on the table and q on the neighbour. A learner that is (epsilon, delta)-DP has
p <= e^epsilon q + delta, and one that is mu-GDP has Phi^-1(p) - Phi^-1(q) <= mu. So confidence
intervals of p and q bound epsilon and mu from below. The threshold is chosen on one half of the
runs, and the intervals are of the other half.

Where the score is the exact log ratio L of the likelihoods, q is the mean of e^-L over the runs on
the table whose score is above t. So q <= e^-t p, which tells rare events that no run shows. Epsilon
then needs no threshold: the mean of max(0, 1 - e^(epsilon - L)) is delta at most
(`epsilon_bound_by_bets`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dpbt.privacy.conversions import bisect_from_zero

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


def chance_bounds(
    successes: np.ndarray, runs: int, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) bounds on a chance, each with a confidence (Clopper and Pearson)."""
    k, miss = np.asarray(successes, float), 1 - confidence
    lower = np.where(k > 0, special.betaincinv(k, runs - k + 1, miss), 0.0)
    upper = np.where(k < runs, special.betaincinv(k + 1, runs - k, 1 - miss), 1.0)
    return lower, upper


class ThresholdChances(NamedTuple):
    """Bounds on the chances of tests, each of which says "the table".

    Attributes:
        q: f64[K], upper bounds on the chance on the neighbour.
        p: f64[K], lower bounds on the chance on the table.
    """

    q: np.ndarray
    p: np.ndarray

    def min_epsilons(self, delta: float) -> np.ndarray:
        """The least epsilon, at least 0, of a learner with p <= e^epsilon q + delta."""
        beyond_delta = np.maximum(self.p - delta, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.log(beyond_delta) - np.log(self.q)
        epsilons = np.where(beyond_delta > 0, log_ratio, 0.0)
        return np.maximum(np.nan_to_num(epsilons, nan=0.0, posinf=np.inf), 0.0)

    def min_mus(self) -> np.ndarray:
        """The least mu, at least 0, of a learner with Phi^-1(p) - Phi^-1(q) <= mu."""
        with np.errstate(invalid="ignore"):
            mus = special.ndtri(self.p) - special.ndtri(self.q)
        return np.where(self.p > self.q, np.maximum(mus, 0.0), 0.0)


def _threshold_tests(
    scores: "RunScores", thresholds: np.ndarray, *, confidence: float, exact: bool
) -> ThresholdChances:
    """The chances of the tests "a score above t" for each of the thresholds."""
    above_here = np.sum(scores.here[:, None] > thresholds, axis=0)
    above_there = np.sum(scores.there[:, None] > thresholds, axis=0)
    p_lower, p_upper = chance_bounds(above_here, len(scores.here), confidence)
    _, q_upper = chance_bounds(above_there, len(scores.there), confidence)
    if exact:
        ratio = np.exp(np.clip(-thresholds, -700, 0))  # more would underflow
        ratio = np.where(thresholds < LARGE / 2, ratio, 0.0)
        q_upper = np.minimum(q_upper, ratio * p_upper)
    return ThresholdChances(q=q_upper, p=p_lower)


_STAKES = np.geomspace(1e-4, 0.999, 20)
"""Shares of one's wealth that a bet may cost."""


def epsilon_bound_by_bets(losses: np.ndarray, *, delta: float, miss: float) -> float:
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

    def is_refuted(epsilon: float) -> bool:
        x = -np.expm1(epsilon - losses[losses > epsilon])
        log_wealth = np.sum(np.log1p(_STAKES[:, None] * (x / delta - 1)), axis=1)
        log_wealth += (len(losses) - len(x)) * np.log1p(-_STAKES)
        total_log_wealth: Any = special.logsumexp(log_wealth)
        return bool(total_log_wealth >= math.log(len(_STAKES) / miss))

    return math.inf if is_refuted(LARGE / 2) else _largest_refuted(is_refuted, LARGE)


def _largest_refuted(is_refuted: Callable[[float], bool], max_number: float) -> float:
    """The largest number that is refuted, if all below it are; 0 if none is."""
    if not is_refuted(0.0):
        return 0.0
    return bisect_from_zero(is_refuted, num_halvings=40, max_number=max_number)[0]


class RunScores(NamedTuple):
    """Scores of runs.

    Attributes:
        here: f64[R], of runs on the table. Infinite ones are large.
        there: f64[S], of runs on the neighbour.
    """

    here: np.ndarray
    there: np.ndarray

    def halves(self) -> tuple["RunScores", "RunScores"]:
        """The first half of the runs, and the rest."""
        half_here, half_there = len(self.here) // 2, len(self.there) // 2
        first = RunScores(here=self.here[:half_here], there=self.there[:half_there])
        return first, RunScores(here=self.here[half_here:], there=self.there[half_there:])

    def directed(self, sign: int) -> "RunScores":
        """Scores for one of the two directions, in which either table is the first one.

        They are larger on the first of the tables. ValueError for a score that is not a number.
        """
        if np.isnan(self.here).any() or np.isnan(self.there).any():
            raise ValueError("a score is not a number")
        here, there = (np.clip(sign * scores, -LARGE, LARGE) for scores in self)
        if sign > 0:
            return RunScores(here=here, there=there)
        return RunScores(here=there, there=here)


@dataclass(frozen=True, kw_only=True)
class LowerBounds:
    """What `lower_bounds` returns.

    Attributes:
        epsilon: a lower bound on epsilon.
        mu: a lower bound on mu.
        curve: f64[K, 2], as that of `Bound`.
    """

    epsilon: float
    mu: float
    curve: np.ndarray


def lower_bounds(
    choosing: RunScores,
    testing: RunScores,
    *,
    delta: float,
    confidence: float,
    exact: bool = False,
) -> LowerBounds:
    """Bounds on what a learner spends, from the scores of runs on a table and on a neighbour.

    Both directions are tested. Each of the two bounds holds with the confidence: a direction has
    half of what may fail, and so has each of its two chances. Exact scores have an epsilon of all
    runs (`epsilon_bound_by_bets`), if delta is above 0.

    Args:
        choosing: scores that choose thresholds.
        testing: scores of other runs, which bound the chances.
        delta: of the claim.
        confidence: in (0, 1).
        exact: whether scores are log ratios of the likelihoods, here over there.
    """
    directions = [
        _directed_lower_bounds(
            choosing.directed(sign),
            testing.directed(sign),
            delta=delta,
            confidence=confidence,
            exact=exact,
        )
        for sign in (1, -1)
    ]
    return LowerBounds(
        epsilon=max(bounds.epsilon for bounds in directions),
        mu=max(bounds.mu for bounds in directions),
        curve=max(directions, key=lambda bounds: bounds.mu).curve,
    )


def _directed_lower_bounds(
    choosing: RunScores, testing: RunScores, *, delta: float, confidence: float, exact: bool
) -> LowerBounds:
    """The bounds of one direction, each with half of what may fail."""
    quantiles = np.quantile(choosing.here, np.linspace(0, 1, 201)[:-1], method="nearest")
    thresholds = np.unique(quantiles)
    thresholds = np.unique(np.concatenate([thresholds, np.nextafter(thresholds, -np.inf)]))
    options: dict[str, Any] = {"confidence": 1 - (1 - confidence) / 4, "exact": exact}
    chosen = _threshold_tests(choosing, thresholds, **options)
    tested = _threshold_tests(testing, thresholds, **options)
    if exact and delta > 0:
        losses = np.concatenate([choosing.here, testing.here])
        epsilon = epsilon_bound_by_bets(losses, delta=delta, miss=(1 - confidence) / 2)
    else:
        epsilon = tested.min_epsilons(delta)[np.argmax(chosen.min_epsilons(delta))]
    mu = tested.min_mus()[np.argmax(chosen.min_mus())]
    return LowerBounds(epsilon=float(epsilon), mu=float(mu), curve=np.stack(tested, axis=1))


def one_run_epsilon_bound(
    *, guesses: int, correct: int, canaries: int, delta: float, miss: float
) -> float:
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

    def is_refuted(epsilon: float) -> bool:
        right = 1 / (1 + math.exp(-epsilon))
        steps = np.arange(1, correct + 1)
        tail = special.bdtrc(correct - 1, guesses, right)
        more = special.bdtrc(correct - 1 - steps, guesses, right)
        slack = np.max((more - tail) / steps) if correct else 0.0
        return tail + 2 * canaries * delta * slack <= miss

    return _largest_refuted(is_refuted, 64)
