"""Prices of mechanisms: pure, bounded range, Gaussian, and free."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dpbt.privacy.mechanism import Allowance, Cost, Numbers, Price

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

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


def _no_event(shift: float) -> DpEvent:
    from dp_accounting import dp_event

    return dp_event.NonPrivateDpEvent() if shift > 0 else dp_event.NoOpDpEvent()


# Pure differential privacy: epsilon = shift.


def _pure_cost(shift: Numbers) -> Cost:
    return Cost(shift, shift**2 / 2, gdp_of_pure(shift))


def _pure_shift(allowance: Allowance) -> np.ndarray:
    return np.maximum(allowance.epsilon, np.sqrt(2 * allowance.rho))


def _pure_event(shift: float) -> DpEvent:
    from dp_accounting import dp_event

    return dp_event.ZCDpEvent(shift**2 / 2)


def _pure_loss(sensitivity: float, scale: float) -> PrivacyLossDistribution:
    from dp_accounting.pld import common, privacy_loss_distribution

    parameters = common.DifferentialPrivacyParameters(sensitivity / scale)
    return privacy_loss_distribution.from_privacy_parameters(parameters)


PURE = Price("range", _pure_cost, _pure_shift, _pure_event, _pure_loss)
"""epsilon = shift, and rho = epsilon^2 / 2 (Bun & Steinke, 2016, Proposition 1.4)."""


def _laplace_event(shift: float) -> DpEvent:
    from dp_accounting import dp_event

    return dp_event.LaplaceDpEvent(1 / shift)


def _laplace_loss(sensitivity: float, scale: float) -> PrivacyLossDistribution:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_laplace_mechanism(scale / sensitivity)


LAPLACE = PURE._replace(norm="l1", dp_event=_laplace_event, loss_distribution=_laplace_loss)
"""`PURE` by the L1 sensitivity, with exact Renyi divergences and loss distributions."""


def _discrete_laplace_loss(sensitivity: float, scale: float) -> PrivacyLossDistribution:
    from dp_accounting.pld import privacy_loss_distribution

    most = math.ceil(sensitivity)
    return privacy_loss_distribution.from_discrete_laplace_mechanism(1 / scale, most)


def _discrete_laplace_event(sensitivity: float, scale: float) -> DpEvent:
    from dp_accounting import dp_event

    return dp_event.DiscreteLaplaceDpEvent(1 / scale, math.ceil(sensitivity))


DISCRETE_LAPLACE = PURE._replace(
    norm="l1", loss_distribution=_discrete_laplace_loss, loss_event=_discrete_laplace_event
)
"""`PURE` by the L1 sensitivity. The Renyi divergence of real Laplace noise is no bound here.

The loss distribution is that of one integer which moves by all of the sensitivity. It is the worst
case over all integers that move together by as much (docs/privacy.md, point 16).
"""


# Bounded range: the log ratio of two probabilities of one outcome has range shift over outcomes.


def _range_cost(shift: Numbers) -> Cost:
    return Cost(shift, shift**2 / 8, gdp_of_pure(shift))


def _range_shift(allowance: Allowance) -> np.ndarray:
    return np.maximum(allowance.epsilon, np.sqrt(8 * allowance.rho))


def _range_event(shift: float) -> DpEvent:
    from dp_accounting import dp_event

    return dp_event.ZCDpEvent(shift**2 / 8)


BOUNDED_RANGE = PURE._replace(cost=_range_cost, shift=_range_shift, dp_event=_range_event)
"""epsilon = shift, and rho = epsilon^2 / 8, where pure mechanisms in general have epsilon^2 / 2.

This is bounded range (Durfee & Rogers, 2019; Cesar & Rogers, 2021).
"""


# Gaussian differential privacy: mu = shift.


def _gaussian_cost(shift: Numbers) -> Cost:
    return Cost(np.where(shift > 0, np.inf, 0.0)[()], shift**2 / 2, shift)


def _gaussian_shift(allowance: Allowance) -> np.ndarray:
    pure = np.where(np.isinf(allowance.epsilon), np.inf, 0.0)
    return np.maximum(pure, np.sqrt(2 * allowance.rho))


def _gaussian_event(shift: float) -> DpEvent:
    from dp_accounting import dp_event

    return dp_event.GaussianDpEvent(1 / shift)


def _gaussian_loss(sensitivity: float, scale: float) -> PrivacyLossDistribution:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_gaussian_mechanism(scale / sensitivity)


GAUSSIAN = Price(
    "l2", _gaussian_cost, _gaussian_shift, _gaussian_event, _gaussian_loss, gaussian=True
)
"""mu = shift by the L2 sensitivity, and rho = mu^2 / 2; there is no pure epsilon."""


# Free: draws that never read the rows.


def _free_cost(shift: Numbers) -> Cost:
    if np.any(shift > 0):
        raise ValueError("sensitivity must be 0 for a draw that never reads the rows")
    return Cost(shift, shift, shift)


def _free_shift(allowance: Allowance) -> np.ndarray:
    raise ValueError("a draw that never reads the rows needs no allowance")


def _free_loss(sensitivity: float, scale: float) -> PrivacyLossDistribution:
    from dp_accounting.pld import privacy_loss_distribution

    del sensitivity, scale
    return privacy_loss_distribution.identity()


FREE = Price("l1", _free_cost, _free_shift, _no_event, _free_loss, reads_rows=False)
"""No cost, for a draw that never reads the private value."""
