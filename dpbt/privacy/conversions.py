"""Conversions: from the costs of many draws to one epsilon at a delta, and back.

The last part is on the best of a random number of runs: the law of that number, and what the best
one costs. A *run* is one release with a score, such as a model and its noisy log loss. K runs are
independent and of one law. The one of the largest score is released, and K is not. K has a
truncated negative binomial law (`RunCountLaw`). docs/privacy.md, T1 to T4, has the proofs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from jaxtyping import Float64
from msgspec import Meta
from numpy.typing import ArrayLike

from dpbt.common.storage import Count
from dpbt.common.validate import check_interval

NonNegative = Annotated[float, Meta(ge=0)]
"""A number of at least 0, which may be infinite; files then have the word "inf"."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of draws in three measures: epsilon, rho and mu.

    It is infinite in a measure that gives no guarantee.

    Attributes:
        epsilon: of pure differential privacy; a number or f64[...], as the others.
        rho: of zero-concentrated differential privacy.
        mu: of Gaussian differential privacy.
    """

    epsilon: Any
    rho: Any
    mu: Any


@dataclass(frozen=True, kw_only=True)
class SamplerCost:
    """The cost of the finite bits of samplers.

    Attributes:
        gap: half of what they add to epsilon.
        tail: what they add to delta; a number or f64[...].
    """

    gap: float
    tail: Any


# Searches.


class Bracket(NamedTuple):
    """Two numbers, or arrays of them, around the point where a condition becomes false.

    Attributes:
        low: where the condition holds.
        high: where it does not hold.
    """

    low: Any
    high: Any


def bisect_largest_true(
    condition: Callable[[Any], Any], low: Any, high: Any, num_halvings: int
) -> Bracket:
    """Bisect for the largest number at which a condition is true, and return the last bracket.

    Args:
        condition: the condition: true up to some number, and false beyond it.
        low: where the condition holds; a number or an array of numbers.
        high: where it does not hold.
        num_halvings: how often the bracket is halved.
    """
    for _ in range(num_halvings):
        middle = (low + high) / 2
        is_true_at_middle = condition(middle)
        low = np.where(is_true_at_middle, middle, low)
        high = np.where(is_true_at_middle, high, middle)
    return Bracket(low=low, high=high)


def bisect_largest_true_from_zero(
    condition: Callable[[float], Any], *, num_halvings: int, max_number: float = math.inf
) -> Bracket:
    """Bisect from 0 on for the largest number at which a condition is true.

    No upper bound need be known. The upper end of the bracket is doubled until the condition is
    false there.

    Args:
        condition: the condition, which must hold at 0.
        num_halvings: how often the bracket is halved.
        max_number: the search goes no further than the first power of two from here on.
    """
    low, high = 0.0, 1.0
    while condition(high) and high < max_number:
        low, high = high, 2 * high
    bracket = bisect_largest_true(condition, low, high, num_halvings)
    return Bracket(low=float(bracket.low), high=float(bracket.high))


T = TypeVar("T")

_COST_TOLERANCE = 1e-6
"""A cost within this share below the largest cost is close to it for `build_within_cost`."""


@dataclass(frozen=True, kw_only=True)
class BuildResult(Generic[T]):
    """The object that was built within a largest cost, and whether its cost is close to that.

    Attributes:
        built: what was built at the largest epsilon whose cost is at most the largest cost; None if
            everything that was tried costs more.
        is_close: whether its cost is within a millionth of the largest cost.
    """

    built: T | None
    is_close: bool


def build_within_cost(
    build: Callable[[float], T],
    cost_of: Callable[[T], float],
    *,
    max_cost: float,
    first_epsilon: float,
    cost_power: float,
    max_builds: int,
) -> BuildResult[T]:
    """Search the epsilon for which what is built costs nearly, and at most, the largest cost.

    Args:
        build: (epsilon) -> what is built.
        cost_of: (what is built) -> its cost, which grows with epsilon.
        max_cost: the largest cost that is allowed.
        first_epsilon: where the search begins.
        cost_power: p, where a cost is about proportional to epsilon^p.
        max_builds: the search ends after so many builds.
    """
    low, epsilon, high = 0.0, first_epsilon, math.inf
    best: T | None = None
    for _ in range(max_builds):
        built = build(epsilon)
        cost = cost_of(built)
        if cost <= max_cost:
            low = epsilon
            best = built
            if cost >= max_cost * (1 - _COST_TOLERANCE):
                return BuildResult(built=built, is_close=True)
        else:
            high = epsilon
        epsilon *= (max_cost * (1 - _COST_TOLERANCE / 4) / cost) ** (1 / cost_power)
        epsilon = epsilon if low < epsilon < high else (low + high) / 2
    return BuildResult(built=best, is_close=False)


# Compositions, and their epsilon at a delta.


class EqualDraws(NamedTuple):
    """Draws that all have one epsilon.

    Attributes:
        num_draws: how many draws there are.
        epsilon: the epsilon of each of them.
    """

    num_draws: int
    epsilon: float


def advanced_composition_epsilon(draws: Iterable[EqualDraws], delta: float) -> float:
    """The epsilon of many draws at a delta by advanced composition.

    It is sqrt(2 ln(1/delta) sum eps^2) + sum eps (e^eps - 1), with sums over all draws.

    For k equal draws this is Asadi et al. (2022), Theorem 2.8. The form for unequal draws is that
    of Dwork, Rothblum & Vadhan (2010), as stated by Kairouz, Oh & Viswanath (2015).

    Args:
        draws: draws of one epsilon each, with their number.
        delta: in (0, 1).
    """
    draws = list(draws)
    sum_of_squares = math.fsum(num_draws * epsilon**2 for num_draws, epsilon in draws)
    bias = math.fsum(
        num_draws * epsilon * math.expm1(min(epsilon, 700)) for num_draws, epsilon in draws
    )
    return math.sqrt(2 * math.log(1 / delta) * sum_of_squares) + bias


class DrawGroup(NamedTuple):
    """Draws that all have the same cost.

    Attributes:
        num_draws: how many draws there are.
        epsilon_multiple: each of them costs so many times the epsilon that is searched.
    """

    num_draws: int
    epsilon_multiple: float


@functools.cache
def max_epsilon_per_draw(
    *, total_epsilon: float, delta: float, groups: tuple[DrawGroup, ...]
) -> float:
    """The largest epsilon of one draw with which all draws cost at most the total epsilon.

    Draws compose by basic composition, or by advanced composition at delta (as
    `advanced_composition_epsilon`; Asadi et al. (2022), Theorem 2.8), whichever allows more. The
    result is cached, because a sweep builds recipes of few distinct settings many times.

    Args:
        total_epsilon: of all draws, above 0.
        delta: in (0, 1).
        groups: the draws, whose epsilons are multiples of the result.
    """
    if math.isinf(total_epsilon):
        return total_epsilon

    def is_within_total(epsilon: float) -> bool:
        draws = [
            EqualDraws(group.num_draws, group.epsilon_multiple * float(epsilon)) for group in groups
        ]
        return advanced_composition_epsilon(draws, delta) <= total_epsilon

    by_advanced = float(bisect_largest_true(is_within_total, 0.0, total_epsilon, 80).low)
    by_basic = total_epsilon / math.fsum(
        group.num_draws * group.epsilon_multiple for group in groups
    )
    return max(by_advanced, by_basic)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at a delta, by the best Renyi order.

    It is accurate to about 1e-12 relative. It minimises alpha rho + log(1 - 1/alpha) - (log delta +
    log alpha) / (alpha - 1) over alpha > 1 (Canonne, Kamath & Steinke, 2020, Proposition 12). It is
    0 for rho = 0, and infinite for an infinite rho.

    Args:
        rho: at least 0.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    check_interval("rho", rho, "[0, inf]")
    check_interval("delta", delta, "(0, 1)")
    if rho == 0 or math.isinf(rho):
        return rho

    log_inverse_delta = -math.log(delta)

    def is_order_too_low(x: Any) -> Any:
        return rho * np.exp(2 * x) + np.log1p(np.exp(x)) <= log_inverse_delta

    best_x = _log_of_best_order_minus_one(is_order_too_low)
    return max(
        float((1 + np.exp(best_x)) * rho + _epsilon_offset_of_order(best_x, log_inverse_delta)), 0.0
    )


def _log_of_best_order_minus_one(is_order_too_low: Callable[[Any], Any]) -> Any:
    """X = log(alpha - 1) of the Renyi order alpha that gives the best bound, by bisection.

    Args:
        is_order_too_low: (x) -> whether the best order is above 1 + e^x.
    """
    return bisect_largest_true(is_order_too_low, -25.0, 25.0, 80).low


def _epsilon_offset_of_order(x: Any, log_inverse_delta: Any) -> Any:
    """c(alpha), where alpha rho + c(alpha) is the epsilon of rho by the order alpha = 1 + e^x.

    Its slope over alpha is (log alpha - log(1 / delta)) / (alpha - 1)^2. So the order is best for
    rho = (log(1 / delta) - log alpha) / (alpha - 1)^2, and falls with rho.
    """
    log_alpha = np.log1p(np.exp(x))
    return x - log_alpha + (log_inverse_delta - log_alpha) * np.exp(-x)


def gdp_delta(epsilon: ArrayLike, mu: ArrayLike) -> Float64[np.ndarray, "..."]:
    """f64[...]: the delta of mu-GDP at epsilon.

    mu is above 0 (Dong, Roth & Su, 2022). It is Phi(-epsilon / mu + mu / 2) - e^epsilon
    Phi(-epsilon / mu - mu / 2), computed from the logarithms of the two terms, so that no small
    delta is lost in rounding. For mu below 0.01 the two terms have too many digits in common, and
    `_gdp_delta_of_small_mu` takes over.
    """
    from scipy.special import log_ndtr

    epsilon, mu = np.asarray(epsilon, np.float64), np.asarray(mu, np.float64)
    log_first = log_ndtr(-epsilon / mu + mu / 2)
    log_second = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    difference = np.exp(log_first) * -np.expm1(np.minimum(log_second - log_first, 0.0))
    return np.where(
        mu < _SMALL_MU, _gdp_delta_of_small_mu(epsilon, np.minimum(mu, _SMALL_MU)), difference
    )


_SMALL_MU = 0.01


def _gdp_delta_of_small_mu(epsilon: np.ndarray, mu: np.ndarray) -> Float64[np.ndarray, "..."]:
    """f64[...]: the delta of mu-GDP at epsilon for a small mu, by quadrature.

    mu is at most 0.01. The quadrature avoids the difference of two close numbers.

    Let R(x) = Phi(-x) / phi(x), a = epsilon / mu - mu / 2 and b = a + mu. As phi(a) =
    e^epsilon phi(b), the delta is phi(a) (R(a) - R(b)). R' = x R - 1, so it is phi(a) times the
    integral of 1 - x R(x) from a to b. Three nodes of Gauss-Legendre quadrature give it to 1e-13.
    """
    from scipy.special import erfcx

    middle = epsilon / mu
    node_distance = math.sqrt(0.6) * mu / 2

    def integrand(x: np.ndarray) -> np.ndarray:
        return 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))

    outer = 5 * integrand(middle - node_distance) + 8 * integrand(middle)
    mean = (outer + 5 * integrand(middle + node_distance)) / 18
    density = np.exp(-((middle - mu / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
    return density * mu * mean


_GDP_SLACK = 1e-9
"""The share of delta that `gdp_mu` and `gdp_epsilon` leave for rounding."""


def gdp_mu(epsilon: ArrayLike, delta: ArrayLike) -> Float64[np.ndarray, "..."]:
    """f64[...]: the largest mu for which mu-GDP satisfies (epsilon, delta)-DP.

    The search is for delta (1 - 1e-9). The 1e-9 is for rounding. mu is infinite where epsilon is.
    All settings are searched at once.

    Args:
        epsilon: above 0.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    check_interval("epsilon", epsilon, "(0, inf]")
    check_interval("delta", delta, "(0, 1)")
    epsilon, delta = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (epsilon, delta)))
    finite_epsilon = np.where(np.isfinite(epsilon), epsilon, 1.0)
    max_delta = delta * (1 - _GDP_SLACK)

    low, high = np.zeros(finite_epsilon.shape), np.ones(finite_epsilon.shape)
    while np.any(is_too_low := gdp_delta(finite_epsilon, high) < max_delta):
        high = np.where(is_too_low, 2 * high, high)
    max_mu = bisect_largest_true(
        lambda mu: gdp_delta(finite_epsilon, mu) <= max_delta, low, high, 80
    ).low
    return np.where(np.isfinite(epsilon), max_mu, epsilon)


def zcdp_rho(epsilon: ArrayLike, delta: ArrayLike) -> Float64[np.ndarray, "..."]:
    """f64[...]: the largest rho for which rho-zCDP satisfies (epsilon, delta)-DP.

    Its `zcdp_epsilon(rho, delta)` is at most epsilon, to about 1e-11. All settings are searched at
    once.

    Args:
        epsilon: above 0; infinite where rho is to be infinite.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    return max_rho_and_order(epsilon, delta).rho


def published_zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at delta by the published formula: rho + 2 sqrt(rho log(1 / delta)).

    The formula has one Renyi order. It is Bun & Steinke (2016), Proposition 1.3, and Lemma 15 of
    Bun et al. (2020). `zcdp_epsilon` is never larger.

    Args:
        rho: at least 0.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    check_interval("rho", rho, "[0, inf]")
    check_interval("delta", delta, "(0, 1)")
    return float(rho + 2 * math.sqrt(-rho * math.log(delta)))


def published_zcdp_rho(epsilon: ArrayLike, delta: ArrayLike) -> Float64[np.ndarray, "..."]:
    """f64[...]: the largest rho that satisfies (epsilon, delta)-DP by the published formula.

    Its `published_zcdp_epsilon(rho, delta)` is at most epsilon. It is (sqrt(log(1 / delta) +
    epsilon) - sqrt(log(1 / delta)))^2, less a share of 1e-11 for rounding. `zcdp_rho` is larger:
    1.4 times at epsilon = 1 and delta = 1e-6.

    Args:
        epsilon: above 0; infinite where rho is to be infinite.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    checked_epsilon = check_interval("epsilon", epsilon, "(0, inf]")
    log_inverse_delta = -np.log(check_interval("delta", delta, "(0, 1)"))
    # The difference of the roots loses digits where epsilon is small; this quotient does not.
    roots = np.sqrt(log_inverse_delta + checked_epsilon) + np.sqrt(log_inverse_delta)
    is_finite = np.isfinite(checked_epsilon)
    quotient = np.where(is_finite, checked_epsilon, 1.0) / np.where(is_finite, roots, 1.0)
    return np.where(is_finite, quotient**2 * (1 - 1e-11), np.inf)


@dataclass(frozen=True, kw_only=True)
class RhoAndOrder:
    """The largest rho for a guarantee, and the Renyi order that proves it.

    Attributes:
        rho: f64[...].
        order: f64[...], the Renyi order alpha whose bound gives rho.
    """

    rho: np.ndarray
    order: np.ndarray


def max_rho_and_order(epsilon: ArrayLike, delta: ArrayLike) -> RhoAndOrder:
    """The largest rho for which rho-zCDP satisfies (epsilon, delta)-DP, and its Renyi order.

    The rho is that of `zcdp_rho`. Every order proves a bound, rho = (epsilon - c(alpha)) / alpha,
    so the search need not be exact, and the last factor is for rounding alone.
    """
    epsilon, delta = np.broadcast_arrays(
        check_interval("epsilon", epsilon, "(0, inf]"), check_interval("delta", delta, "(0, 1)")
    )
    finite_epsilon = np.where(np.isfinite(epsilon), epsilon, 1.0)
    log_inverse_delta = -np.log(delta)

    def is_order_too_low(x: np.ndarray) -> np.ndarray:
        """Whether the rho that an order is best for costs more than epsilon."""
        rho = (log_inverse_delta - np.log1p(np.exp(x))) * np.exp(-2 * x)
        return (1 + np.exp(x)) * rho + _epsilon_offset_of_order(
            x, log_inverse_delta
        ) > finite_epsilon

    best_x = _log_of_best_order_minus_one(is_order_too_low)
    alpha = 1 + np.exp(best_x)
    offset = _epsilon_offset_of_order(best_x, log_inverse_delta)
    rho = np.maximum((finite_epsilon - offset) / alpha, 0.0) * (1 - 1e-11)
    return RhoAndOrder(rho=np.where(np.isfinite(epsilon), rho, epsilon), order=alpha)


def gdp_epsilon(mu: float, delta: float) -> float:
    """The epsilon of mu-GDP at a delta.

    It is that at delta (1 - 5e-10), so never below the one at delta. The 5e-10 is for rounding. The
    result is 0 for mu = 0 and infinite for infinite mu.

    Args:
        mu: at least 0.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    check_interval("mu", mu, "[0, inf]")
    check_interval("delta", delta, "(0, 1)")
    if mu == 0 or math.isinf(mu):
        return mu
    max_delta = delta * (1 - _GDP_SLACK / 2)
    if gdp_delta(0.0, mu) <= max_delta:
        return 0.0
    return bisect_largest_true_from_zero(
        lambda epsilon: gdp_delta(epsilon, mu) > max_delta, num_halvings=60
    ).high


# The best of a random number of runs.

MIN_GAMMA = 1e-4
"""The smallest gamma: K is above 30 / gamma with probability below 1e-12."""


class RunCountLaw(NamedTuple):
    """The law of the number K of runs of a choice.

    P(K = k) is proportional to (1 - gamma)^k times the product of (l + eta) / (l + 1) over l < k. K
    is at least 1. eta = 0 is the logarithmic law and eta = 1 the geometric one. The derivative of
    its generating function is E[K] times (gamma / (gamma + (1 - gamma) s))^(1 + eta) at 1 - s.

    Attributes:
        gamma: in (0, 1]; 1 stands for K = 1.
        eta: above -1.
    """

    gamma: float
    eta: float

    @property
    def mean(self) -> float:
        """The expected number of runs E[K]."""
        gamma, eta = self.gamma, self.eta
        if gamma == 1:
            return 1.0
        if eta == 0:
            return (1 / gamma - 1) / -math.log(gamma)
        return eta * (1 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))


def run_count_law_of_mean(mean: float, eta: float = 0.0) -> RunCountLaw:
    """The law of the number of runs K that has a given mean and shape eta.

    Args:
        mean: E[K], at least 1.
        eta: the shape, in -0.9..100. A smaller eta costs less, and makes both few runs and many
            runs likelier.

    Raises:
        ValueError: for numbers outside these ranges. Also if gamma would be below `MIN_GAMMA`, as
            K could then be too many.
    """
    mean = float(check_interval("mean", mean, "[1, inf)"))
    eta = float(check_interval("eta", eta, "[-0.9, 100]"))
    if mean == 1:
        return RunCountLaw(gamma=1.0, eta=eta)
    max_mean = RunCountLaw(gamma=MIN_GAMMA, eta=eta).mean
    if max_mean < mean:
        raise ValueError(
            f"mean must be at most {max_mean:g} for eta = {eta:g}, beyond which the number of runs "
            f"has no practical bound, got {mean:g}"
        )

    def is_mean_reached(log_gamma: float) -> bool:
        return RunCountLaw(gamma=math.exp(log_gamma), eta=eta).mean >= mean

    log_gamma = bisect_largest_true(is_mean_reached, math.log(MIN_GAMMA), 0.0, 80).high
    return RunCountLaw(gamma=math.exp(log_gamma), eta=eta)


def best_run_pure_epsilon(epsilon: float, run_count_law: RunCountLaw) -> float:
    """The pure epsilon of choosing the best of K runs of epsilon-DP.

    It is (2 + eta) epsilon, or epsilon if K = 1. docs/privacy.md, T1, has the proof.
    """
    return epsilon if run_count_law.gamma == 1 else (2 + run_count_law.eta) * epsilon


def best_run_zcdp_epsilon(rho: float, delta: float, run_count_law: RunCountLaw) -> float:
    """The epsilon at a delta of choosing the best of K runs of rho-zCDP (T2).

    Papernot & Steinke (2022), Theorem 2, adds two terms to the Renyi divergence of order a of one
    run. One is log E[K] / (a - 1), and the other does not depend on a. So the epsilon is that of
    one run at delta / E[K], plus the other term.

    Args:
        rho: at least 0.
        delta: in (0, 1).
        run_count_law: the law of K.
    """
    if rho == 0 or math.isinf(rho):
        return rho
    log_inverse = -math.log(run_count_law.gamma)
    order = max(1.0, math.sqrt(log_inverse / rho))
    constant = (1 + run_count_law.eta) * (rho * (order - 1) + log_inverse / order)
    return zcdp_epsilon(rho, delta / run_count_law.mean) + constant


def best_run_gdp_epsilon(mu: float, delta: float, run_count_law: RunCountLaw) -> float:
    """The epsilon at a delta of choosing the best of K runs of mu-GDP (T3).

    It is that of one run at delta / E[K], plus (1 + eta) times
    `log_ratio_bound_of_mixed_probabilities`.

    Args:
        mu: at least 0.
        delta: in (0, 1).
        run_count_law: the law of K.
    """
    if mu == 0 or math.isinf(mu):
        return mu
    if run_count_law.gamma == 1:
        return gdp_epsilon(mu, delta)
    log_ratio = log_ratio_bound_of_mixed_probabilities(mu, gamma=run_count_law.gamma)
    return gdp_epsilon(mu, delta / run_count_law.mean) + (1 + run_count_law.eta) * log_ratio


@functools.lru_cache(maxsize=4096)
def log_ratio_bound_of_mixed_probabilities(mu: float, *, gamma: float) -> float:
    """An upper bound on log((gamma + (1 - gamma) t) / (gamma + (1 - gamma) s)) over all events.

    Probabilities of events are mixed with 1, at the weight gamma. s and t are the probabilities of
    one event on two neighbours, under mu-GDP: t is at most Phi(Phi^-1(s) + mu). On an interval of z
    = Phi^-1(s) the numerator is at most that of its right end, and the denominator at least that of
    its left end. Intervals are cut until this bound is within 1e-6 of a value that is attained.

    Args:
        mu: at least 0.
        gamma: the weight of probability 1 in the mixtures, in (0, 1].
    """
    from scipy.special import ndtr

    def log_mixed_probability(z: np.ndarray) -> np.ndarray:
        return np.log(gamma + (1 - gamma) * ndtr(z))

    edges = np.concatenate([[-np.inf], np.linspace(-40.0 - mu, 40.0, 4001), [np.inf]])
    low, high = edges[:-1], edges[1:]
    upper_bound = math.inf
    max_attained = 0.0
    for _ in range(40):
        bounds = log_mixed_probability(high + mu) - log_mixed_probability(low)
        attained = log_mixed_probability(low + mu) - log_mixed_probability(low)
        max_attained = max(max_attained, float(np.max(attained)))
        upper_bound = float(np.max(bounds))
        if upper_bound - max_attained < 1e-6:
            break
        is_bounded = np.isfinite(low) & np.isfinite(high)
        is_cut = (bounds > max_attained) & is_bounded
        bounds_of_ends = np.where(is_bounded, -np.inf, bounds)
        if not np.any(is_cut) or np.max(bounds_of_ends) > max_attained:
            break
        middle = (low[is_cut] + high[is_cut]) / 2
        low, high = np.concatenate([low[is_cut], middle]), np.concatenate([middle, high[is_cut]])
    return upper_bound + 1e-12


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The public facts about a choice of the best of several runs (`dpbt.tune`).

    A run learns a model and draws its score. All candidates are priced as the dearest one.

    Attributes:
        gamma: of the law of the number of runs.
        eta: of the same law.
        candidates: the number of candidates, of which each run takes one.
        disjoint: whether one row is read by the fit or by the score of a run, and never by both.
        gaussian: whether every draw of every candidate is Gaussian.
        epsilon: of the dearest candidate's fit, without finite bits.
        rho: of the dearest candidate's fit.
        mu: of the dearest candidate's fit.
        gap: G of the fit that has the largest.
        tail: t of the fit that has the largest.
        score: the name of the score.
        exact: whether every sampler of every candidate states how far it is from its law.
    """

    gamma: Annotated[float, Meta(ge=1e-5, le=1)]
    eta: Annotated[float, Meta(ge=-0.99, le=1000)]
    candidates: Count
    disjoint: bool
    gaussian: bool
    epsilon: NonNegative
    rho: NonNegative
    mu: NonNegative
    gap: NonNegative
    tail: NonNegative
    score: str
    exact: bool
    count: ClassVar[int] = 1

    @property
    def run_count_law(self) -> RunCountLaw:
        """The law of the number of runs."""
        return RunCountLaw(gamma=self.gamma, eta=self.eta)


def choice_among_fits(
    fit_ledgers: Sequence[Any],
    run_count_law: RunCountLaw,
    *,
    score: str,
    num_candidates: int,
    disjoint: bool,
) -> Choice:
    """The record of a choice of the best run, priced by the dearest of its fits.

    All of it is public.

    Args:
        fit_ledgers: one `accounting.Ledger` for each distinct candidate.
        run_count_law: the law of the number of runs.
        score: the name of the score.
        num_candidates: how many candidates there are.
        disjoint: as in `Choice`.
    """
    return Choice(
        gamma=run_count_law.gamma,
        eta=run_count_law.eta,
        candidates=num_candidates,
        disjoint=disjoint,
        gaussian=all(ledger.gaussian for ledger in fit_ledgers),
        epsilon=max(ledger.pure_epsilon for ledger in fit_ledgers),
        rho=max(ledger.rho for ledger in fit_ledgers),
        mu=max(ledger.mu for ledger in fit_ledgers),
        gap=max(ledger.sampler_epsilon for ledger in fit_ledgers) / 2,
        tail=max(ledger.sampler_delta for ledger in fit_ledgers),
        score=score,
        exact=all(ledger.has_bounded_samplers for ledger in fit_ledgers),
    )
