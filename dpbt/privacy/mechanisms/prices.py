"""Prices of mechanisms: pure, bounded range, Gaussian, and free."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from dpbt.privacy.mechanism import Allowance, Cost, Numbers, Price

_TINY = 1e-6


def gdp_of_pure(epsilon: Numbers) -> Numbers:
    """The mu for which every epsilon-DP mechanism is mu-GDP: -2 Phi^-1(1 / (1 + e^epsilon)).

    The trade-off curve of epsilon-DP is two lines that meet at type I and type II errors of
    1 / (1 + e^epsilon) each. The Gaussian curve through that corner and the two ends is convex, so
    it lies below both lines. The ratio mu / epsilon falls with epsilon, from sqrt(pi / 2). That
    limit is used for tiny epsilon, where the difference from 1 / 2 would be lost.
    """

    def mu_of(value: float) -> float:
        if value < _TINY or math.isinf(value):
            return value * math.sqrt(math.pi / 2)
        below = math.exp(-value) / (1 + math.exp(-value))
        return -2 * NormalDist().inv_cdf(below) if below > 0 else math.inf

    return np.vectorize(mu_of, otypes=[float])(np.asarray(epsilon, np.float64))[()]


# Pure differential privacy: epsilon = shift.


def _pure_cost(shift: Numbers) -> Cost:
    return Cost(shift, shift**2 / 2, gdp_of_pure(shift))


def _pure_shift(allowance: Allowance) -> np.ndarray:
    return np.maximum(allowance.epsilon, np.sqrt(2 * allowance.rho))


PURE = Price("range", _pure_cost, _pure_shift)
"""epsilon = shift, and rho = epsilon^2 / 2 (Bun & Steinke, 2016, Proposition 1.4)."""


LAPLACE = PURE._replace(norm="l1")
"""`PURE` by the L1 sensitivity."""


DISCRETE_LAPLACE = PURE._replace(norm="l1")
"""`PURE` by the L1 sensitivity."""


# Bounded range: the log ratio of two probabilities of one outcome has range shift over outcomes.


def _range_cost(shift: Numbers) -> Cost:
    return Cost(shift, shift**2 / 8, gdp_of_pure(shift))


def _range_shift(allowance: Allowance) -> np.ndarray:
    return np.maximum(allowance.epsilon, np.sqrt(8 * allowance.rho))


BOUNDED_RANGE = PURE._replace(cost=_range_cost, shift=_range_shift)
"""epsilon = shift, and rho = epsilon^2 / 8, where pure mechanisms in general have epsilon^2 / 2.

This is bounded range (Durfee & Rogers, 2019; Cesar & Rogers, 2021).
"""


# Gaussian differential privacy: mu = shift.


def _gaussian_cost(shift: Numbers) -> Cost:
    return Cost(np.where(shift > 0, np.inf, 0.0)[()], shift**2 / 2, shift)


def _gaussian_shift(allowance: Allowance) -> np.ndarray:
    pure = np.where(np.isinf(allowance.epsilon), np.inf, 0.0)
    return np.maximum(pure, np.sqrt(2 * allowance.rho))


GAUSSIAN = Price("l2", _gaussian_cost, _gaussian_shift, gaussian=True)
"""mu = shift by the L2 sensitivity, and rho = mu^2 / 2; there is no pure epsilon."""


# Free: draws that never read the rows.


def _free_cost(shift: Numbers) -> Cost:
    if np.any(shift > 0):
        raise ValueError("sensitivity must be 0 for a draw that never reads the rows")
    return Cost(shift, shift, shift)


def _free_shift(allowance: Allowance) -> np.ndarray:
    raise ValueError("a draw that never reads the rows needs no allowance")


FREE = Price("l1", _free_cost, _free_shift, reads_rows=False)
"""No cost, for a draw that never reads the private value."""
