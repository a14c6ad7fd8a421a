"""The best of a random number of runs: the law of that number, and what the best one costs.

A *run* is one release with a score, such as a model and its noisy accuracy. K runs are independent
and of one law. The one of the largest score is released, and K is not. K has a truncated negative
binomial law (`RunCount`). docs/privacy.md, T1 to T4, has the proofs.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from dpbt.privacy.accounting.conversions import gdp_epsilon, zcdp_epsilon
from dpbt.validate import positive, shown

MIN_GAMMA = 1e-4
"""The smallest gamma: K is above 30 / gamma with probability below 1e-12."""

_MIN_ETA = -0.9
_MAX_ETA = 100.0


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

    def slope(self, above: np.ndarray) -> np.ndarray:
        """f64[...]: the derivative of E[x^K] at x = 1 - above."""
        share = self.gamma / (self.gamma + (1 - self.gamma) * np.asarray(above, np.float64))
        return self.mean * share ** (1 + self.eta)


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
    mean = float(positive("mean", mean, finite=True))
    if mean < 1:
        raise ValueError(f"mean must be at least 1, got {mean:g}")
    if not isinstance(eta, int | float) or not _MIN_ETA <= eta <= _MAX_ETA:
        raise ValueError(f"eta must be in {_MIN_ETA:g}..{_MAX_ETA:g}, got {shown(eta)}")
    if mean == 1:
        return RunCount(1.0, float(eta))
    if RunCount(MIN_GAMMA, eta).mean < mean:
        most = RunCount(MIN_GAMMA, eta).mean
        raise ValueError(
            f"mean must be at most {most:g} for eta = {eta:g}, beyond which the number of runs has "
            f"no practical bound, got {mean:g}"
        )
    low, high = math.log(MIN_GAMMA), 0.0
    for _ in range(80):
        middle = (low + high) / 2
        fewer = RunCount(math.exp(middle), eta).mean < mean
        low, high = (low, middle) if fewer else (middle, high)
    return RunCount(math.exp(high), float(eta))


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
