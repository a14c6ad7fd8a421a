"""Conversions: from the costs of many draws to one epsilon at a delta, and back.

The last part is on the best of a random number of runs: the law of that number, and what the best
one costs. A *run* is one release with a score, such as a model and its noisy log loss. K runs are
independent and of one law. The one of the largest score is released, and K is not. K has a
truncated negative binomial law (`RunCount`). docs/privacy.md, T1 to T4, has the proofs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from dpbt.common.storage import Count
from dpbt.common.validate import within

Cost = Annotated[float, Meta(ge=0)]
"""A number of at least 0, which may be infinite; files then have the word "inf"."""


def bisected(holds: Callable[[Any], Any], low: Any, high: Any, steps: int) -> tuple[Any, Any]:
    """(low, high) after so many halvings; `holds` stays true of low, and stays false of high."""
    for _ in range(steps):
        middle = (low + high) / 2
        good = holds(middle)
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return low, high


def advanced_epsilon(draws: Iterable[tuple[int, float]], delta: float) -> float:
    """Advanced composition: sqrt(2 ln(1/delta) sum eps^2) + sum eps (e^eps - 1) over all draws.

    For k equal draws this is Asadi et al. (2022), Theorem 2.8. The form for unequal draws is that
    of Dwork, Rothblum & Vadhan (2010), as stated by Kairouz, Oh & Viswanath (2015).

    Args:
        draws: how many, and the epsilon of each.
        delta: in (0, 1).
    """
    draws = list(draws)
    squares = math.fsum(count * epsilon**2 for count, epsilon in draws)
    bias = math.fsum(count * epsilon * math.expm1(min(epsilon, 700)) for count, epsilon in draws)
    return math.sqrt(2 * math.log(1 / delta) * squares) + bias


@functools.cache
def advanced_each(epsilon: float, delta: float, parts: tuple[tuple[int, float], ...]) -> float:
    """The largest x for which all draws of all parts together cost at most epsilon.

    A part is a pair (count, multiple): `count` draws that cost `multiple` times x each. Draws
    compose by basic composition, or by advanced composition at delta (as `advanced_epsilon`; Asadi
    et al. (2022), Theorem 2.8), whichever allows more. The result is cached, because a sweep asks
    for few distinct settings many times.
    """
    if math.isinf(epsilon):
        return epsilon

    def fits(each: float) -> bool:
        draws = [(count, multiple * float(each)) for count, multiple in parts]
        return advanced_epsilon(draws, delta) <= epsilon

    low, _ = bisected(fits, 0.0, epsilon, 80)
    return max(float(low), epsilon / math.fsum(count * multiple for count, multiple in parts))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at delta: the best Renyi order, to about 1e-12 relative.

    It minimises alpha rho + log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1) over alpha > 1
    (Canonne, Kamath & Steinke, 2020, Proposition 12). It is 0 for rho = 0, and infinite for an
    infinite rho.

    Args:
        rho: at least 0.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    within("rho", rho, "[0, inf]")
    within("delta", delta, "(0, 1)")
    if rho == 0 or math.isinf(rho):
        return rho

    below = -math.log(delta)
    best, _ = bisected(lambda x: rho * np.exp(2 * x) + np.log1p(np.exp(x)) <= below, *_ORDERS)
    return max(float((1 + np.exp(best)) * rho + _offset(best, below)), 0.0)


_ORDERS = -25.0, 25.0, 80
"""Where log(alpha - 1) of the best order is sought, and in how many steps."""


def _offset(x: Any, below: Any) -> Any:
    """c(alpha), where alpha rho + c(alpha) is the epsilon of rho by the order alpha = 1 + e^x.

    Its slope over alpha is (log alpha - below) / (alpha - 1)^2. So the order is best for
    rho = (below - log alpha) / (alpha - 1)^2, and falls with rho.

    Args:
        x: log(alpha - 1).
        below: -log(delta).
    """
    log_alpha = np.log1p(np.exp(x))
    return x - log_alpha + (below - log_alpha) * np.exp(-x)


def gaussian_delta(epsilon: ArrayLike, mu: ArrayLike) -> np.ndarray:
    """f64[...]: the delta of mu-GDP at epsilon (Dong, Roth & Su, 2022), for mu above 0.

    It is Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2), computed from the
    logarithms of the two terms, so that no small delta is lost in rounding. For mu below 0.01 the
    two terms have too many digits in common, and `_delta_of_small_mu` takes over.
    """
    from scipy.special import log_ndtr

    epsilon, mu = np.asarray(epsilon, np.float64), np.asarray(mu, np.float64)
    log_first = log_ndtr(-epsilon / mu + mu / 2)
    log_second = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    difference = np.exp(log_first) * -np.expm1(np.minimum(log_second - log_first, 0.0))
    return np.where(
        mu < _SMALL_MU, _delta_of_small_mu(epsilon, np.minimum(mu, _SMALL_MU)), difference
    )


_SMALL_MU = 0.01


def _delta_of_small_mu(epsilon: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """f64[...]: `gaussian_delta` for mu of at most 0.01, without a difference of close numbers.

    Let R(x) = Phi(-x) / phi(x), a = epsilon / mu - mu / 2 and b = a + mu. As phi(a) =
    e^epsilon phi(b), the delta is phi(a) (R(a) - R(b)). R' = x R - 1, so it is phi(a) times the
    integral of 1 - x R(x) from a to b. Three nodes of Gauss-Legendre quadrature give it to 1e-13.
    """
    from scipy.special import erfcx

    middle, reach = epsilon / mu, math.sqrt(0.6) * mu / 2

    def slope(x: np.ndarray) -> np.ndarray:
        return 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))

    mean = (5 * slope(middle - reach) + 8 * slope(middle) + 5 * slope(middle + reach)) / 18
    density = np.exp(-((middle - mu / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
    return density * mu * mean


_GDP_SLACK = 1e-9
"""What `gdp_mu` and `gdp_epsilon` leave of delta for rounding."""


def gdp_mu(epsilon: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """f64[...]: the largest mu of which mu-GDP satisfies (epsilon, delta (1 - 1e-9)).

    The 1e-9 is for rounding. mu is infinite where epsilon is. All settings are searched at once.

    Args:
        epsilon: above 0.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    within("epsilon", epsilon, "(0, inf]")
    within("delta", delta, "(0, 1)")
    epsilon, delta = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (epsilon, delta)))
    finite, target = np.where(np.isfinite(epsilon), epsilon, 1.0), delta * (1 - _GDP_SLACK)

    high = np.ones(finite.shape)
    while np.any(below := gaussian_delta(finite, high) < target):
        high = np.where(below, 2 * high, high)
    low, _ = bisected(
        lambda mu: gaussian_delta(finite, mu) <= target, np.zeros(finite.shape), high, 80
    )
    return np.where(np.isfinite(epsilon), low, epsilon)


def zcdp_rho(epsilon: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """f64[...]: the largest rho with `zcdp_epsilon(rho, delta)` at most epsilon, to about 1e-11.

    All settings are searched at once.

    Args:
        epsilon: above 0; infinite where rho is to be infinite.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    return best_order(epsilon, delta)[0]


def best_order(epsilon: ArrayLike, delta: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """(rho f64[...], alpha f64[...]): as `zcdp_rho`, and the Renyi order whose bound it is.

    Every order gives a bound that holds, rho = (epsilon - c(alpha)) / alpha, so the search need not
    be exact, and the last factor is for rounding alone.
    """
    epsilon, delta = np.broadcast_arrays(
        within("epsilon", epsilon, "(0, inf]"), within("delta", delta, "(0, 1)")
    )
    finite, below = np.where(np.isfinite(epsilon), epsilon, 1.0), -np.log(delta)

    def dear(x: np.ndarray) -> np.ndarray:
        """Whether the rho that an order is best for costs more than epsilon."""
        rho = (below - np.log1p(np.exp(x))) * np.exp(-2 * x)
        return (1 + np.exp(x)) * rho + _offset(x, below) > finite

    best, _ = bisected(dear, *_ORDERS)
    alpha, offset = 1 + np.exp(best), _offset(best, below)
    rho = np.maximum((finite - offset) / alpha, 0.0) * (1 - 1e-11)
    return np.where(np.isfinite(epsilon), rho, epsilon), alpha


def gdp_epsilon(mu: float, delta: float) -> float:
    """The epsilon of mu-GDP at delta (1 - 5e-10), so never below that at delta.

    The 5e-10 is for rounding. The result is 0 for mu = 0 and infinite for infinite mu.

    Args:
        mu: at least 0.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    within("mu", mu, "[0, inf]")
    within("delta", delta, "(0, 1)")
    if mu == 0 or math.isinf(mu):
        return mu
    target = delta * (1 - _GDP_SLACK / 2)
    if gaussian_delta(0.0, mu) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(high, mu) > target:
        low, high = high, 2 * high
    _, high = bisected(lambda epsilon: gaussian_delta(epsilon, mu) > target, low, high, 60)
    return float(high)


# The best of a random number of runs.

MIN_GAMMA = 1e-4
"""The smallest gamma: K is above 30 / gamma with probability below 1e-12."""


class RunCount(NamedTuple):
    """The law of K: P(K = k) is proportional to (1 - gamma)^k times (l + eta) / (l + 1), l < k.

    K is at least 1. eta = 0 is the logarithmic law and eta = 1 the geometric one. The derivative of
    its generating function is E[K] times (gamma / (gamma + (1 - gamma) s))^(1 + eta) at 1 - s.

    Attributes:
        gamma: in (0, 1]; 1 stands for K = 1.
        eta: above -1.
    """

    gamma: float
    eta: float

    @property
    def mean(self) -> float:
        """E[K]."""
        gamma, eta = self.gamma, self.eta
        if gamma == 1:
            return 1.0
        if eta == 0:
            return (1 / gamma - 1) / -math.log(gamma)
        return eta * (1 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))


def run_count(mean: float, eta: float = 0.0) -> RunCount:
    """The law of K of a mean and a shape.

    Args:
        mean: E[K], at least 1.
        eta: the shape, in -0.9..100. A smaller one costs less, and has more runs that are few and
            more that are many.

    Raises:
        ValueError: for numbers outside these ranges. Also if gamma would be below `MIN_GAMMA`, as
            K could then be too many.
    """
    mean, eta = float(within("mean", mean, "[1, inf)")), float(within("eta", eta, "[-0.9, 100]"))
    if mean == 1:
        return RunCount(1.0, eta)
    if RunCount(MIN_GAMMA, eta).mean < mean:
        most = RunCount(MIN_GAMMA, eta).mean
        raise ValueError(
            f"mean must be at most {most:g} for eta = {eta:g}, beyond which the number of runs has "
            f"no practical bound, got {mean:g}"
        )
    _, high = bisected(
        lambda log: RunCount(math.exp(log), eta).mean >= mean, math.log(MIN_GAMMA), 0.0, 80
    )
    return RunCount(math.exp(high), eta)


def best_pure_epsilon(epsilon: float, count: RunCount) -> float:
    """(2 + eta) epsilon: the best of K runs of epsilon-DP (T1); epsilon itself if K = 1."""
    return epsilon if count.gamma == 1 else (2 + count.eta) * epsilon


def best_zcdp_epsilon(rho: float, delta: float, count: RunCount) -> float:
    """The epsilon at delta of the best of K runs of rho-zCDP (T2).

    Papernot & Steinke (2022), Theorem 2, adds two terms to the Renyi divergence of order a of one
    run. One is log E[K] / (a - 1), and the other does not depend on a. So the epsilon is that of
    one run at delta / E[K], plus the other term.

    Args:
        rho: at least 0.
        delta: in (0, 1).
        count: the law of K.
    """
    if rho == 0 or math.isinf(rho):
        return rho
    log_inverse = -math.log(count.gamma)
    order = max(1.0, math.sqrt(log_inverse / rho))
    constant = (1 + count.eta) * (rho * (order - 1) + log_inverse / order)
    return zcdp_epsilon(rho, delta / count.mean) + constant


def best_gdp_epsilon(mu: float, delta: float, count: RunCount) -> float:
    """The epsilon at delta of the best of K runs of mu-GDP (T3).

    It is that of one run at delta / E[K], plus (1 + eta) times `log_ratio`.

    Args:
        mu: at least 0.
        delta: in (0, 1).
        count: the law of K.
    """
    if mu == 0 or math.isinf(mu):
        return mu
    if count.gamma == 1:
        return gdp_epsilon(mu, delta)
    return gdp_epsilon(mu, delta / count.mean) + (1 + count.eta) * log_ratio(mu, count.gamma)


@functools.lru_cache(maxsize=4096)
def log_ratio(mu: float, gamma: float) -> float:
    """An upper bound on log((gamma + (1 - gamma) t) / (gamma + (1 - gamma) s)) over events.

    s and t are the probabilities of one event on two neighbours, under mu-GDP: t is at most
    Phi(Phi^-1(s) + mu). On an interval of z = Phi^-1(s) the numerator is at most that of its right
    end, and the denominator at least that of its left end. Intervals are cut until this bound is
    within 1e-6 of a value that is attained.
    """
    from scipy.special import ndtr

    def log_mass(z: np.ndarray) -> np.ndarray:
        return np.log(gamma + (1 - gamma) * ndtr(z))

    edges = np.concatenate([[-np.inf], np.linspace(-40.0 - mu, 40.0, 4001), [np.inf]])
    low, high = edges[:-1], edges[1:]
    bound, attained = math.inf, 0.0
    for _ in range(40):
        bounds = log_mass(high + mu) - log_mass(low)
        attained = max(attained, float(np.max(log_mass(low + mu) - log_mass(low))))
        bound = float(np.max(bounds))
        if bound - attained < 1e-6:
            break
        kept = (bounds > attained) & np.isfinite(low) & np.isfinite(high)
        outer = np.where(np.isfinite(low) & np.isfinite(high), -np.inf, bounds)
        middle = (low[kept] + high[kept]) / 2
        if not np.any(kept) or np.max(outer) > attained:
            break
        low, high = np.concatenate([low[kept], middle]), np.concatenate([middle, high[kept]])
    return bound + 1e-12


class Choice(msgspec.Struct, frozen=True):
    """What is public about the best of several runs (`dpbt.tune`).

    A run learns a model and draws its score. All candidates are priced as the dearest one.

    Attributes:
        gamma: of the law of the number of runs.
        eta: of the same law.
        candidates: from how many a run takes one.
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
    epsilon: Cost
    rho: Cost
    mu: Cost
    gap: Cost
    tail: Cost
    score: str
    exact: bool
    count: ClassVar[int] = 1

    @property
    def law(self) -> RunCount:
        """The law of the number of runs."""
        return RunCount(self.gamma, self.eta)


def choice_of(
    books: Sequence[Any], count: RunCount, score: str, candidates: int, *, disjoint: bool
) -> Choice:
    """The choice among candidates whose fits have these ledgers.

    Args:
        books: one `accounting.Ledger` for each distinct candidate.
        count: the law of the number of runs.
        score: the name of the score.
        candidates: how many there are.
        disjoint: as in `Choice`.
    """
    return Choice(
        *count,
        candidates,
        disjoint,
        all(book.gaussian for book in books),
        max(book.pure_epsilon for book in books),
        max(book.rho for book in books),
        max(book.mu for book in books),
        max(book.sampler_epsilon for book in books) / 2,
        max(book.sampler_delta for book in books),
        score,
        all(book.exact for book in books),
    )
