"""Conversions: from the costs of many draws to one epsilon at a delta, and back."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpbt.privacy.accounting.events import Line
from dpbt.privacy.mechanism import Numbers
from dpbt.validate import one_of, positive

if TYPE_CHECKING:
    from dp_accounting.dp_event import ComposedDpEvent


def advanced_epsilon(lines: Sequence[Line], delta: float) -> float:
    """Advanced composition: sqrt(2 ln(1/delta) sum eps^2) + sum eps (e^eps - 1) over all draws.

    For k equal draws this is Asadi et al. (2022), Theorem 2.8. The form for unequal draws is that
    of Dwork, Rothblum & Vadhan (2010), as stated by Kairouz, Oh & Viswanath (2015).
    """
    return _advanced([(line.count, line.epsilon) for line in lines], delta)


def _advanced(draws: Iterable[tuple[int, float]], delta: float) -> float:
    """Advanced composition of draws as (how many, epsilon of each)."""
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
        return _advanced(((count, multiple * each) for count, multiple in parts), delta) <= epsilon

    low, high = 0.0, epsilon
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return max(low, epsilon / math.fsum(count * multiple for count, multiple in parts))


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
    _check_total("rho", rho, delta)
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


def gaussian_delta(epsilon: Numbers, mu: Numbers) -> np.ndarray:
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


def gdp_mu(epsilon: Numbers, delta: Numbers) -> np.ndarray:
    """f64[...]: the largest mu of which mu-GDP satisfies (epsilon, delta (1 - 1e-9)).

    The 1e-9 is for rounding. mu is infinite where epsilon is. All settings are searched at once.

    Args:
        epsilon: above 0.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    positive("epsilon", epsilon)
    positive("delta", delta, below=1)
    epsilon, delta = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (epsilon, delta)))
    finite, target = np.where(np.isfinite(epsilon), epsilon, 1.0), delta * (1 - _GDP_SLACK)

    high = np.ones(finite.shape)
    while np.any(below := gaussian_delta(finite, high) < target):
        high = np.where(below, 2 * high, high)
    low = np.zeros(finite.shape)
    for _ in range(80):
        middle = (low + high) / 2
        fits = gaussian_delta(finite, middle) <= target
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.where(np.isfinite(epsilon), low, epsilon)


def zcdp_rho(epsilon: Numbers, delta: Numbers) -> np.ndarray:
    """f64[...]: the largest rho with `zcdp_epsilon(rho, delta)` at most epsilon, to about 1e-11.

    epsilon(rho) is the least of alpha rho + c(alpha) over orders alpha > 1, so the largest rho is
    the largest of (epsilon - c(alpha)) / alpha. All settings are searched at once.

    Args:
        epsilon: above 0; infinite where rho is to be infinite.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    epsilon, delta = np.broadcast_arrays(
        positive("epsilon", epsilon), positive("delta", delta, below=1)
    )
    finite = np.where(np.isfinite(epsilon), epsilon, 1.0)[..., None]
    log_delta = np.log(delta)[..., None]

    def largest(log_excess: np.ndarray) -> np.ndarray:
        excess = np.exp(log_excess)
        alpha = 1 + excess
        offset = np.log1p(-1 / alpha) - (log_delta + np.log(alpha)) / excess
        return (finite - offset) / alpha

    low, high = np.full(finite.shape, -25.0), np.full(finite.shape, 25.0)
    for _ in range(12):
        grid = low + (high - low) * np.linspace(0.0, 1.0, 33)
        best = np.argmax(largest(grid), axis=-1)[..., None]
        low = np.take_along_axis(grid, np.maximum(best - 1, 0), -1)
        high = np.take_along_axis(grid, np.minimum(best + 1, 32), -1)
    rho = largest(low + (high - low) * np.linspace(0.0, 1.0, 33)).max(axis=-1)
    return np.where(np.isfinite(epsilon), np.maximum(rho, 0.0) * (1 - 1e-11), epsilon)


def _check_total(name: str, value: float, delta: float) -> None:
    """Refuse a total of rho or mu below 0, and a delta outside (0, 1), with a ValueError."""
    if not value >= 0:
        raise ValueError(f"{name} must be at least 0, got {value}")
    positive("delta", delta, below=1)


def gdp_epsilon(mu: float, delta: float) -> float:
    """The epsilon of mu-GDP at delta (1 - 5e-10), so never below that at delta.

    The 5e-10 is for rounding. The result is 0 for mu = 0 and infinite for infinite mu.

    Args:
        mu: at least 0.
        delta: in (0, 1).

    Raises:
        ValueError: naming the number that is out of its range.
    """
    _check_total("mu", mu, delta)
    if mu == 0 or math.isinf(mu):
        return mu
    target = delta * (1 - _GDP_SLACK / 2)
    if gaussian_delta(0.0, mu) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(high, mu) > target:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, mu) > target else (low, middle)
    return high


def rdp_epsilon(lines: Sequence[Line], delta: float) -> float:
    """The epsilon by dp_accounting's RDP accountant, from each line's `Mechanism.dp_event`."""
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    accountant.compose(dp_event_of(lines))
    return float(accountant.get_epsilon(delta))


def dp_event_of(lines: Sequence[Line], accountant: str = "rdp") -> ComposedDpEvent:
    """The draws of all lines as one event of dp_accounting.

    Args:
        lines: of a ledger.
        accountant: "rdp" or "pld", the accountant that is to read it.

    Raises:
        ValueError: for another accountant.
    """
    from dp_accounting.dp_event import ComposedDpEvent, SelfComposedDpEvent

    one_of("accountant", accountant, ("pld", "rdp"))
    return ComposedDpEvent(
        [
            SelfComposedDpEvent(
                line.mechanism.dp_event(line.sensitivity, line.scale, accountant), line.count
            )
            for line in lines
            if line.event.shift > 0
        ]
    )


def pld_epsilon(lines: Sequence[Line], delta: float) -> float:
    """The epsilon by dp_accounting's privacy loss distributions.

    An exponential mechanism counts as any pure mechanism of its epsilon.
    """
    from dp_accounting.pld import privacy_loss_distribution

    total = privacy_loss_distribution.identity()
    for line in lines:
        if line.event.shift > 0:
            loss = line.mechanism.price.loss_distribution(line.sensitivity, line.scale)
            total = total.compose(loss.self_compose(line.count))
    return float(total.get_epsilon_for_delta(delta))
