"""Lower bounds on the epsilon and mu of a learner, from runs on a table and on a neighbour.

Each run has a score, and a test says "the table" where the score is above a threshold. Let p be
the chance of that on the table and q on the neighbour. A learner that is (epsilon, delta)-DP has
p <= e^epsilon q + delta, and one that is mu-GDP has Phi^-1(p) - Phi^-1(q) <= mu. So confidence
intervals of p and q bound epsilon and mu from below. One half of the runs chooses the threshold,
and the intervals are of the other half.

Where the score is the exact log ratio L of the likelihoods, q is the mean of e^-L over the runs on
the table whose score is above t. So q <= e^-t p, which bounds the chance of rare events that no run
shows. Epsilon then needs no threshold: the mean of max(0, 1 - e^(epsilon - L)) is at most delta
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
"""The confidence of a bound by default."""

LARGE = 1e6
"""A larger log ratio of likelihoods belongs to an event that one of the tables cannot cause."""


class Bound(NamedTuple):
    """The result of an audit; a function of the tables that it ran on.

    Attributes:
        level: "exact", "grey box", "black box" or "one run".
        claim: (epsilon, delta) that the learner states.
        epsilon: a lower bound on its epsilon at the claim's delta; 0 if the runs refute nothing.
        mu: a lower bound on the mu of its Gaussian differential privacy.
        confidence: of each of the two bounds.
        runs: the number of runs of the learner, on both tables together.
        where: the place of the output that distinguished the tables.
        curve: f64[K, 2], points (q, p) of tests, with upper bounds on q and lower bounds on p, each
            with the confidence. Empty for one run.
        certain: whether epsilon is a certificate: the log ratio of the likelihoods of an output.
        uncompared: what the audit could not compare, in words, so that the bound does not cover it;
            empty if nothing.
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
        """The bound beside the claim, in a sentence."""
        certainty = (
            "for certain" if self.certain else f"with {100 * self.confidence:g} % confidence"
        )
        runs = "1 run" if self.runs == 1 else f"{self.runs:,} runs"
        verdict = "THE CLAIM IS FALSE" if self.broken else "nothing against the claim"
        return (
            f"{self.level}, {runs}: epsilon is at least {self.epsilon:.3g} {certainty}, where "
            f"{self.claim[0]:.6g} is claimed at delta = {self.claim[1]:g}: {verdict}."
            + (f" NOT COMPARED: {self.uncompared}." if self.uncompared else "")
        )

    def __str__(self) -> str:
        mu = f"mu is at least {self.mu:.3g} with {100 * self.confidence:g} % confidence"
        return f"{self.words}\n{mu}; found at {self.where}."


class ChanceBounds(NamedTuple):
    """Bounds on chances, each of which holds with the confidence.

    Attributes:
        lower: f64[...].
        upper: f64[...].
    """

    lower: np.ndarray
    upper: np.ndarray


def chance_bounds(successes: np.ndarray, *, runs: int, confidence: float) -> ChanceBounds:
    """Bounds on the chances of events (Clopper and Pearson).

    Args:
        successes: [...], in how many runs each event took place.
        runs: how many runs there were.
        confidence: of each of the two bounds, in (0, 1).
    """
    k, failure_probability = np.asarray(successes, float), 1 - confidence
    lower = special.betaincinv(k, runs - k + 1, failure_probability)
    upper = special.betaincinv(k + 1, runs - k, 1 - failure_probability)
    return ChanceBounds(lower=np.where(k > 0, lower, 0.0), upper=np.where(k < runs, upper, 1.0))


class ThresholdChances(NamedTuple):
    """Bounds on the chances with which tests say "the table".

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
    num_above_on_table = np.sum(scores.on_table[:, None] > thresholds, axis=0)
    num_above_on_neighbour = np.sum(scores.on_neighbour[:, None] > thresholds, axis=0)
    p = chance_bounds(num_above_on_table, runs=len(scores.on_table), confidence=confidence)
    q = chance_bounds(num_above_on_neighbour, runs=len(scores.on_neighbour), confidence=confidence)
    q_upper = q.upper
    if exact:
        ratio = np.exp(np.clip(-thresholds, -700, 0))  # beyond -700 the result would underflow
        ratio = np.where(thresholds < LARGE / 2, ratio, 0.0)
        q_upper = np.minimum(q_upper, ratio * p.upper)
    return ThresholdChances(q=q_upper, p=p.lower)


_STAKES = np.geomspace(1e-4, 0.999, 20)
"""Shares of one's wealth that a bet may cost."""


def epsilon_bound_by_bets(losses: np.ndarray, *, delta: float, failure_probability: float) -> float:
    """The largest epsilon that exact losses refute at this delta; infinite if they refute all.

    Let L be the log ratio of the likelihoods of a run on the table. If the learner is
    (epsilon, delta)-DP, x = max(0, 1 - e^(epsilon - L)) has a mean of delta at most: the mean is
    the hockey-stick divergence. So whoever stakes a share s ends with the product of
    1 + s (x / delta - 1) over the runs, whose mean is at most 1. The same holds for the mean over
    several s. It exceeds 1 / failure_probability with a chance of at most failure_probability
    (Markov), and then epsilon is refuted. As x falls in epsilon, an epsilon above the truth is
    refuted only if the truth is, so the search costs nothing. (Waudby-Smith & Ramdas, 2024, bound
    means of numbers in [0, 1] by such bets.)

    Args:
        losses: [R], floats, L of independent runs on the table.
        delta: of the claim, above 0.
        failure_probability: 1 minus the confidence.
    """

    def is_refuted(epsilon: float) -> bool:
        x = -np.expm1(epsilon - losses[losses > epsilon])
        log_wealth = np.sum(np.log1p(_STAKES[:, None] * (x / delta - 1)), axis=1)
        log_wealth += (len(losses) - len(x)) * np.log1p(-_STAKES)
        total_log_wealth: Any = special.logsumexp(log_wealth)
        return bool(total_log_wealth >= math.log(len(_STAKES) / failure_probability))

    return math.inf if is_refuted(LARGE / 2) else _largest_refuted(is_refuted, LARGE)


def _largest_refuted(is_refuted: Callable[[float], bool], max_number: float) -> float:
    """The largest refuted number, where all numbers below it are refuted; 0 if none is."""
    if not is_refuted(0.0):
        return 0.0
    return bisect_from_zero(is_refuted, num_halvings=40, max_number=max_number).low


class RunScores(NamedTuple):
    """Scores of runs.

    Attributes:
        on_table: f64[R], of runs on the table. Infinite scores count as +-`LARGE`.
        on_neighbour: f64[S], of runs on the neighbour.
    """

    on_table: np.ndarray
    on_neighbour: np.ndarray

    def split_in_halves(self) -> tuple["RunScores", "RunScores"]:
        """The first half of the runs, and the rest."""
        on_table, on_neighbour = (np.split(scores, [len(scores) // 2]) for scores in self)
        first, rest = zip(on_table, on_neighbour, strict=True)
        return RunScores(*first), RunScores(*rest)

    def directed(self, sign: int) -> "RunScores":
        """The scores as they are for sign 1; for sign -1 the two tables exchange their roles.

        Scores are negated with the exchange, so that they are larger on the first of the tables.

        Raises:
            ValueError: for a score that is not a number.
        """
        if np.isnan(self.on_table).any() or np.isnan(self.on_neighbour).any():
            raise ValueError("a score is not a number")
        on_table, on_neighbour = (np.clip(sign * scores, -LARGE, LARGE) for scores in self)
        if sign > 0:
            return RunScores(on_table=on_table, on_neighbour=on_neighbour)
        return RunScores(on_table=on_neighbour, on_neighbour=on_table)


@dataclass(frozen=True, kw_only=True)
class LowerBounds:
    """Lower bounds on the epsilon and the mu of a learner.

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
    """Bounds on epsilon and mu, from the scores of runs on a table and on a neighbour.

    Both directions are tested. Each of the two bounds holds with the confidence: each direction
    gets half of the failure probability, and each of its two chances half of that. With exact
    scores and a delta above 0, epsilon is bounded by all runs (`epsilon_bound_by_bets`).

    Args:
        choosing: scores that choose thresholds.
        testing: scores of other runs, which bound the chances.
        delta: of the claim.
        confidence: in (0, 1).
        exact: whether scores are log ratios of the likelihoods, on the table over on the neighbour.
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
    """The bounds of one direction, each with half of the failure probability."""
    quantiles = np.quantile(choosing.on_table, np.linspace(0, 1, 201)[:-1], method="nearest")
    thresholds = np.unique(quantiles)
    thresholds = np.unique(np.concatenate([thresholds, np.nextafter(thresholds, -np.inf)]))
    options: dict[str, Any] = {"confidence": 1 - (1 - confidence) / 4, "exact": exact}
    chances_to_choose = _threshold_tests(choosing, thresholds, **options)
    chances = _threshold_tests(testing, thresholds, **options)
    if exact and delta > 0:
        losses = np.concatenate([choosing.on_table, testing.on_table])
        epsilon = epsilon_bound_by_bets(
            losses, delta=delta, failure_probability=(1 - confidence) / 2
        )
    else:
        best = np.argmax(chances_to_choose.min_epsilons(delta))
        epsilon = chances.min_epsilons(delta)[best]
    mu = chances.min_mus()[np.argmax(chances_to_choose.min_mus())]
    return LowerBounds(epsilon=float(epsilon), mu=float(mu), curve=np.stack(chances, axis=1))


def one_run_epsilon_bound(
    *, guesses: int, correct: int, canaries: int, delta: float, failure_probability: float
) -> float:
    """The largest epsilon refuted by the correct guesses (Steinke et al. 2023, Theorem 5.2).

    Each of m canaries was in the table by a fair coin. If the learner is (epsilon, delta)-DP, the
    number of correct guesses of r exceeds v with a chance of at most b + 2 m delta a. Here b is the
    chance that a binomial of r and e^epsilon / (1 + e^epsilon) is at least v, and a the largest
    chance over i that it is in v - i..v - 1, divided by i.

    Args:
        guesses: r, how many canaries were guessed.
        correct: v.
        canaries: m.
        delta: of the claim.
        failure_probability: 1 minus the confidence.
    """

    def is_refuted(epsilon: float) -> bool:
        success = 1 / (1 + math.exp(-epsilon))
        steps = np.arange(1, correct + 1)
        tail = special.bdtrc(correct - 1, guesses, success)
        longer_tails = special.bdtrc(correct - 1 - steps, guesses, success)
        slack = np.max((longer_tails - tail) / steps) if correct else 0.0
        return tail + 2 * canaries * delta * slack <= failure_probability

    return _largest_refuted(is_refuted, 64)
