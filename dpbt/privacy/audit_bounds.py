"""Lower bounds on the epsilon and mu of a learner, from runs on a table and on a neighbour.

Each run has a score, and a test says "the table" where the score is above a threshold. Let p be
the chance of that on the table and q on the neighbour. A learner that is (epsilon, delta)-DP has
p <= e^epsilon q + delta, and one that is mu-GDP has Phi^-1(p) - Phi^-1(q) <= mu. So confidence
intervals of p and q bound epsilon and mu from below. One half of the runs chooses the threshold,
and the intervals are of the other half.

Where the score is the exact log ratio L of the likelihoods, q is the mean of e^-L over the runs on
the table whose score is above t. So q <= e^-t p, which bounds the chance of rare events that no run
shows. Epsilon then needs no threshold: the mean of max(0, 1 - e^(epsilon - L)) is at most delta
(`epsilon_lower_bound_by_betting`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dpbt.privacy.conversions import bisect_largest_true_from_zero

CONFIDENCE = 0.95
"""The confidence of a bound by default."""

IMPOSSIBLE_EVENT_LOG_RATIO = 1e6
"""A larger log ratio of likelihoods belongs to an event that one of the tables cannot cause."""


class Bound(NamedTuple):
    """The lower bound that an audit found, and the claim that it is compared with.

    It is a function of the tables that the audit ran on.

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
        """Whether the lower bound is above the claimed epsilon.

        Then the claim is false.
        """
        return self.epsilon > self.claim[0] * (1 + 1e-6)

    @property
    def words(self) -> str:
        """A sentence on the bound and the claim, to print."""
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


class ProbabilityBounds(NamedTuple):
    """A lower and an upper bound on each of several probabilities.

    Each of the two holds with the confidence.

    Attributes:
        lower: f64[...].
        upper: f64[...].
    """

    lower: np.ndarray
    upper: np.ndarray


def clopper_pearson_bounds(
    successes: np.ndarray, *, num_runs: int, confidence: float
) -> ProbabilityBounds:
    """The Clopper-Pearson bounds on the probabilities of events, from their counts in runs.

    Args:
        successes: [...], in how many runs each event took place.
        num_runs: how many runs there were.
        confidence: of each of the two bounds, in (0, 1).
    """
    k = np.asarray(successes, float)
    failure_probability = 1 - confidence
    lower = special.betaincinv(k, num_runs - k + 1, failure_probability)
    upper = special.betaincinv(k + 1, num_runs - k, 1 - failure_probability)
    return ProbabilityBounds(
        lower=np.where(k > 0, lower, 0.0), upper=np.where(k < num_runs, upper, 1.0)
    )


class ThresholdTestBounds(NamedTuple):
    """Bounds on the probabilities with which each threshold test says "the table".

    Attributes:
        q: f64[K], upper bounds on the probability on the neighbour: the false positive rate.
        p: f64[K], lower bounds on the probability on the table: the true positive rate.
    """

    q: np.ndarray
    p: np.ndarray

    def epsilon_lower_bounds(self, delta: float) -> np.ndarray:
        """f64[K]: the lower bound on epsilon at a delta that each test proves, at least 0.

        It is the least epsilon with p <= e^epsilon q + delta.
        """
        beyond_delta = np.maximum(self.p - delta, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.log(beyond_delta) - np.log(self.q)
        epsilons = np.where(beyond_delta > 0, log_ratio, 0.0)
        return np.maximum(np.nan_to_num(epsilons, nan=0.0, posinf=np.inf), 0.0)

    def mu_lower_bounds(self) -> np.ndarray:
        """f64[K]: the lower bound on the mu of Gaussian DP that each test proves, at least 0.

        It is the least mu with Phi^-1(p) - Phi^-1(q) <= mu.
        """
        with np.errstate(invalid="ignore"):
            mus = special.ndtri(self.p) - special.ndtri(self.q)
        return np.where(self.p > self.q, np.maximum(mus, 0.0), 0.0)


def _bound_threshold_tests(
    scores: "RunScores",
    thresholds: np.ndarray,
    *,
    confidence: float,
    are_log_likelihood_ratios: bool,
) -> ThresholdTestBounds:
    """Bound the error rates of the test "the score is above t" for each threshold t.

    Where scores are log likelihood ratios, q is also at most e^-t times p.
    """
    num_above_on_table = np.sum(scores.on_table[:, None] > thresholds, axis=0)
    num_above_on_neighbour = np.sum(scores.on_neighbour[:, None] > thresholds, axis=0)
    p = clopper_pearson_bounds(
        num_above_on_table, num_runs=len(scores.on_table), confidence=confidence
    )
    q = clopper_pearson_bounds(
        num_above_on_neighbour, num_runs=len(scores.on_neighbour), confidence=confidence
    )
    q_upper = q.upper
    if are_log_likelihood_ratios:
        ratio = np.exp(np.clip(-thresholds, -700, 0))  # beyond -700 the result would underflow
        ratio = np.where(thresholds < IMPOSSIBLE_EVENT_LOG_RATIO / 2, ratio, 0.0)
        q_upper = np.minimum(q_upper, ratio * p.upper)
    return ThresholdTestBounds(q=q_upper, p=p.lower)


_STAKES = np.geomspace(1e-4, 0.999, 20)
"""Shares of one's wealth that a bet may cost."""


def epsilon_lower_bound_by_betting(
    log_likelihood_ratios: np.ndarray, *, delta: float, failure_probability: float
) -> float:
    """A lower bound on epsilon at a delta, from bets on log likelihood ratios.

    It is the largest epsilon that the bets refute, and infinite if they refute all.

    Let L be the log ratio of the likelihoods of a run on the table. If the learner is
    (epsilon, delta)-DP, x = max(0, 1 - e^(epsilon - L)) has a mean of delta at most: the mean is
    the hockey-stick divergence. So whoever stakes a share s ends with the product of
    1 + s (x / delta - 1) over the runs, whose mean is at most 1. The same holds for the mean over
    several s. It exceeds 1 / failure_probability with a chance of at most failure_probability
    (Markov), and then epsilon is refuted. As x falls in epsilon, an epsilon above the truth is
    refuted only if the truth is, so the search costs nothing. (Waudby-Smith & Ramdas, 2024, bound
    means of numbers in [0, 1] by such bets.)

    Args:
        log_likelihood_ratios: [R], floats, L of independent runs on the table.
        delta: of the claim, above 0.
        failure_probability: 1 minus the confidence.
    """

    def is_refuted(epsilon: float) -> bool:
        x = -np.expm1(epsilon - log_likelihood_ratios[log_likelihood_ratios > epsilon])
        log_wealth = np.sum(np.log1p(_STAKES[:, None] * (x / delta - 1)), axis=1)
        log_wealth += (len(log_likelihood_ratios) - len(x)) * np.log1p(-_STAKES)
        total_log_wealth: Any = special.logsumexp(log_wealth)
        return bool(total_log_wealth >= math.log(len(_STAKES) / failure_probability))

    return (
        math.inf
        if is_refuted(IMPOSSIBLE_EVENT_LOG_RATIO / 2)
        else _largest_refuted_epsilon(is_refuted, IMPOSSIBLE_EVENT_LOG_RATIO)
    )


def _largest_refuted_epsilon(is_refuted: Callable[[float], bool], max_epsilon: float) -> float:
    """Find the largest refuted epsilon by bisection.

    It is 0 if none is refuted. All epsilons below a refuted one must be refuted too.
    """
    if not is_refuted(0.0):
        return 0.0
    return bisect_largest_true_from_zero(is_refuted, num_halvings=40, max_number=max_epsilon).low


class RunScores(NamedTuple):
    """The scores of an audit's runs on both tables.

    Attributes:
        on_table: f64[R], of runs on the table. Infinite scores count as
            +-`IMPOSSIBLE_EVENT_LOG_RATIO`.
        on_neighbour: f64[S], of runs on the neighbour.
    """

    on_table: np.ndarray
    on_neighbour: np.ndarray

    def split_in_halves(self) -> tuple["RunScores", "RunScores"]:
        """Split the runs into the first half and the rest."""
        on_table, on_neighbour = (np.split(scores, [len(scores) // 2]) for scores in self)
        first, rest = zip(on_table, on_neighbour, strict=True)
        return RunScores(*first), RunScores(*rest)

    def exchange_tables_if_negative(self, sign: int) -> "RunScores":
        """Exchange the two tables and negate the scores if the sign is -1.

        For sign 1 the scores stay as they are. Scores are negated with the exchange, so that they
        are larger on the first of the tables.

        Raises:
            ValueError: for a score that is not a number.
        """
        if np.isnan(self.on_table).any() or np.isnan(self.on_neighbour).any():
            raise ValueError("a score is not a number")
        on_table, on_neighbour = (
            np.clip(sign * scores, -IMPOSSIBLE_EVENT_LOG_RATIO, IMPOSSIBLE_EVENT_LOG_RATIO)
            for scores in self
        )
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


def epsilon_and_mu_lower_bounds(
    scores_to_choose_thresholds: RunScores,
    scores_to_test: RunScores,
    *,
    delta: float,
    confidence: float,
    are_log_likelihood_ratios: bool = False,
) -> LowerBounds:
    """Lower bounds on epsilon and mu, from the scores of runs on a table and on a neighbour.

    Both directions are tested. Each of the two bounds holds with the confidence: each direction
    gets half of the failure probability, and each of its two chances half of that. With exact
    scores and a delta above 0, epsilon is bounded by all runs (`epsilon_lower_bound_by_betting`).

    Args:
        scores_to_choose_thresholds: scores that choose thresholds.
        scores_to_test: scores of other runs, which bound the chances.
        delta: of the claim.
        confidence: in (0, 1).
        are_log_likelihood_ratios: whether scores are log ratios of the likelihoods, on the table
        over on the neighbour.
    """
    directions = [
        _lower_bounds_in_one_direction(
            scores_to_choose_thresholds.exchange_tables_if_negative(sign),
            scores_to_test.exchange_tables_if_negative(sign),
            delta=delta,
            confidence=confidence,
            are_log_likelihood_ratios=are_log_likelihood_ratios,
        )
        for sign in (1, -1)
    ]
    return LowerBounds(
        epsilon=max(bounds.epsilon for bounds in directions),
        mu=max(bounds.mu for bounds in directions),
        curve=max(directions, key=lambda bounds: bounds.mu).curve,
    )


def _lower_bounds_in_one_direction(
    scores_to_choose_thresholds: RunScores,
    scores_to_test: RunScores,
    *,
    delta: float,
    confidence: float,
    are_log_likelihood_ratios: bool,
) -> LowerBounds:
    """The lower bounds on epsilon and mu by tests that say "the table" above a threshold.

    Each of the two bounds has half of the failure probability.
    """
    quantiles = np.quantile(
        scores_to_choose_thresholds.on_table, np.linspace(0, 1, 201)[:-1], method="nearest"
    )
    thresholds = np.unique(quantiles)
    thresholds = np.unique(np.concatenate([thresholds, np.nextafter(thresholds, -np.inf)]))
    test_options: dict[str, Any] = {
        "confidence": 1 - (1 - confidence) / 4,
        "are_log_likelihood_ratios": are_log_likelihood_ratios,
    }
    bounds_to_choose = _bound_threshold_tests(
        scores_to_choose_thresholds, thresholds, **test_options
    )
    bounds = _bound_threshold_tests(scores_to_test, thresholds, **test_options)
    if are_log_likelihood_ratios and delta > 0:
        log_likelihood_ratios = np.concatenate(
            [scores_to_choose_thresholds.on_table, scores_to_test.on_table]
        )
        epsilon = epsilon_lower_bound_by_betting(
            log_likelihood_ratios, delta=delta, failure_probability=(1 - confidence) / 2
        )
    else:
        best = np.argmax(bounds_to_choose.epsilon_lower_bounds(delta))
        epsilon = bounds.epsilon_lower_bounds(delta)[best]
    mu = bounds.mu_lower_bounds()[np.argmax(bounds_to_choose.mu_lower_bounds())]
    return LowerBounds(epsilon=float(epsilon), mu=float(mu), curve=np.stack(bounds, axis=1))


def one_run_epsilon_lower_bound(
    *,
    num_guesses: int,
    num_correct: int,
    num_canaries: int,
    delta: float,
    failure_probability: float,
) -> float:
    """A lower bound on epsilon from the correct guesses of an audit by one run.

    It is the largest epsilon that Theorem 5.2 of Steinke et al. (2023) refutes.

    Each of m canaries was in the table by a fair coin. If the learner is (epsilon, delta)-DP, the
    number of correct guesses of r exceeds v with a chance of at most b + 2 m delta a. Here b is the
    chance that a binomial of r and e^epsilon / (1 + e^epsilon) is at least v, and a the largest
    chance over i that it is in v - i..v - 1, divided by i.

    Args:
        num_guesses: r, how many canaries were guessed.
        num_correct: v.
        num_canaries: m.
        delta: of the claim.
        failure_probability: 1 minus the confidence.
    """

    def is_refuted(epsilon: float) -> bool:
        success = 1 / (1 + math.exp(-epsilon))
        steps = np.arange(1, num_correct + 1)
        tail = special.bdtrc(num_correct - 1, num_guesses, success)
        longer_tails = special.bdtrc(num_correct - 1 - steps, num_guesses, success)
        slack = np.max((longer_tails - tail) / steps) if num_correct else 0.0
        return tail + 2 * num_canaries * delta * slack <= failure_probability

    return _largest_refuted_epsilon(is_refuted, 64)
