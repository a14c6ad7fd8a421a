"""Conversions: from the costs of many draws to one epsilon at a delta, and back."""

import functools
import math
from collections.abc import Sequence

import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import common, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant

from dpbt.accounting.events import Event


def advanced_epsilon(events: Sequence[Event], delta: float) -> float:
    """Advanced composition: sqrt(2 ln(1/delta) sum eps^2) + sum eps (e^eps - 1) over all draws.

    For k equal draws this is Asadi et al. (2022), Theorem 2.8; the form for unequal ones is that of Dwork, Rothblum
    & Vadhan (2010) as stated by Kairouz, Oh & Viswanath (2015).
    """
    squares = math.fsum(e.count * e.epsilon**2 for e in events)
    bias = math.fsum(e.count * e.epsilon * math.expm1(min(e.epsilon, 700)) for e in events)
    return math.sqrt(2 * math.log(1 / delta) * squares) + bias


@functools.cache
def advanced_each(epsilon: float, delta: float, parts: tuple[tuple[int, float], ...]) -> float:
    """The largest x for which draws of cost `multiple` x, `count` times for each (count, multiple), compose to epsilon.

    By basic composition, or by advanced composition at delta (as `advanced_epsilon`; Asadi et al. (2022), Theorem
    2.8), whichever allows more. Cached: a sweep asks for few distinct settings, many times.
    """
    if math.isinf(epsilon):
        return epsilon

    def advanced(each: float) -> float:
        squares = math.fsum(count * (multiple * each) ** 2 for count, multiple in parts)
        bias = math.fsum(count * multiple * each * math.expm1(min(multiple * each, 700)) for count, multiple in parts)
        return math.sqrt(2 * math.log(1 / delta) * squares) + bias

    low, high = 0.0, epsilon
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if advanced(middle) <= epsilon else (low, middle)
    return max(low, epsilon / math.fsum(count * multiple for count, multiple in parts))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at delta: the best Renyi order, to about 1e-12 relative.

    Minimises alpha rho + log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1) over alpha > 1 (Canonne, Kamath &
    Steinke, 2020, Proposition 12). 0 for rho = 0, infinite for infinite rho.
    """
    if rho == 0 or math.isinf(rho):
        return rho

    def bound(log_excess: np.ndarray) -> np.ndarray:
        excess = np.exp(log_excess)
        alpha = 1 + excess
        return alpha * rho + np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / excess

    low, high = -25.0, 25.0
    for _ in range(12):
        grid = np.linspace(low, high, 101)
        best = int(np.argmin(bound(grid)))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 100)]
    return max(float(np.min(bound(np.linspace(low, high, 101)))), 0.0)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of mu-GDP at epsilon: Phi(-e/mu + mu/2) - e^e Phi(-e/mu - mu/2) (Dong, Roth & Su, 2022)."""

    def phi(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    other = phi(-epsilon / mu - mu / 2)
    weighed = math.exp(min(epsilon + math.log(other), 0.0)) if other > 0 else 0.0
    return phi(-epsilon / mu + mu / 2) - weighed


@functools.cache
def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu of which mu-GDP satisfies (epsilon, delta), to about 1e-9 relative; infinite for epsilon.

    Cached: a sweep asks for few distinct pairs, many times.

    Args:
        epsilon: above 0.
        delta: in (0, 1).
    """
    if math.isinf(epsilon):
        return epsilon
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon, high) < delta:
        low, high = high, 2 * high
    for _ in range(32):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return low


@functools.cache
def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho with `zcdp_epsilon(rho, delta)` at most epsilon, to about 1e-12 relative.

    Cached: a sweep asks for few distinct pairs, many times.
    """
    if math.isinf(epsilon):
        return epsilon
    low, high = 0.0, epsilon
    while zcdp_epsilon(high, delta) < epsilon:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_epsilon(middle, delta) <= epsilon else (low, middle)
    return low


def rdp_epsilon(events: Sequence[Event], delta: float) -> float:
    """Through dp_accounting's RDP accountant; multipliers are scale / sensitivity, so the relation is in them."""
    accountant = RdpAccountant()
    for event in events:
        match event.mechanism:
            case "uniform" | "assignment":
                one = dp_event.NoOpDpEvent()
            case "exponential" | "noisy max":
                one = dp_event.ZCDpEvent(event.rho)
            case "discrete laplace":
                one = dp_event.ZCDpEvent(event.rho)  # the continuous law is no bound for the discrete one
            case "laplace":
                one = dp_event.LaplaceDpEvent(event.scale / event.sensitivity)
            case "gaussian" | "rounded gaussian":
                one = dp_event.GaussianDpEvent(event.scale / event.sensitivity)
            case _:
                raise ValueError(f"no Renyi divergence is known for {event.mechanism!r}")
        accountant.compose(one, event.count)
    return float(accountant.get_epsilon(delta))


def pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """Through dp_accounting's privacy loss distributions, an exponential mechanism as any epsilon-DP one."""
    total = privacy_loss_distribution.identity()
    for event in events:
        match event.mechanism:
            case "uniform" | "assignment":
                one = privacy_loss_distribution.identity()
            case "exponential" | "noisy max":
                one = privacy_loss_distribution.from_privacy_parameters(
                    common.DifferentialPrivacyParameters(event.epsilon)
                )
            case "discrete laplace":
                one = privacy_loss_distribution.from_discrete_laplace_mechanism(
                    1 / event.scale, math.ceil(event.sensitivity)
                )
            case "laplace":
                one = privacy_loss_distribution.from_laplace_mechanism(event.scale / event.sensitivity)
            case "gaussian" | "rounded gaussian":
                one = privacy_loss_distribution.from_gaussian_mechanism(event.scale / event.sensitivity)
            case _:
                raise ValueError(f"no privacy loss distribution is known for {event.mechanism!r}")
        total = total.compose(one.self_compose(event.count))
    return float(total.get_epsilon_for_delta(delta))
