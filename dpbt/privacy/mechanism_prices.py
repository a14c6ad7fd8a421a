"""Prices: what a draw costs by its sensitivity and its scale. No JAX.

So the ledger of a saved model is priced again where no JAX is installed. `mechanism_types`
has the type of a mechanism, and `mechanisms` those of the library, whose prices are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from dpbt.privacy.conversions import Cost, SamplerCost
from dpbt.public_types import Numbers


class SamplerBound(NamedTuple):
    """A bound on the distance of a sampler of finitely many bits from its mechanism's law.

    For each draw that a row changes, neighbours whose laws satisfy epsilon have samplers that
    satisfy epsilon + 2 g, with t of delta (`accounting.Ledger`).

    Attributes:
        gap: g: each outcome near the value has a probability within a factor of e^(+-g) of the
            law's.
        tail: (shift) -> t, the mass of the other outcomes, which are far from at least one of two
            values at a distance of `shift` scales; 0 where there are none.
        max_scale: the largest scale for which this holds.
    """

    gap: float
    tail: Callable[[float], float] = lambda shift: 0.0
    max_scale: float = math.inf

    def cost_of_draw(
        self, *, total_shift: Float64[Numbers, "..."], num_outputs: int
    ) -> SamplerCost:
        """The cost of a sampler's finite bits in one draw that a row changes.

        The tail is f64[...]. At most 4 outputs change by more than half of the change of all
        outputs together.

        Args:
            total_shift: f64[...], the norm of the change of all outputs, L1 or L2, in scales.
            num_outputs: the number of outputs that a row changes.
        """
        num_far = min(num_outputs, 4)
        num_near = num_outputs - num_far
        shifts, inverse = np.unique(np.asarray(total_shift, np.float64), return_inverse=True)
        tails = np.array(
            [
                num_far * self.tail(shift) + num_near * self.tail(shift / 2)
                for shift in shifts.tolist()
            ]
        )
        return SamplerCost(
            gap=self.gap * num_outputs, tail=tails[inverse].reshape(np.shape(total_shift))
        )


def gdp_mu_of_pure_epsilon(epsilon: Numbers) -> Numbers:
    """The least mu for which every epsilon-DP mechanism is mu-GDP.

    It is -2 Phi^-1(1 / (1 + e^epsilon)). The trade-off curve of epsilon-DP is two lines that meet
    at type I and type II errors of 1 / (1 + e^epsilon) each. The Gaussian curve through that corner
    and the two ends is convex, so it lies below both lines. The ratio mu / epsilon falls with
    epsilon, from sqrt(pi / 2). That limit is used for tiny epsilon, where the difference from 1 / 2
    would be lost.
    """
    epsilons = np.asarray(epsilon, np.float64)
    mus = [_gdp_mu_of_one_pure_epsilon(value) for value in epsilons.ravel().tolist()]
    return np.reshape(np.asarray(mus, np.float64), epsilons.shape)[()]


_TINY_EPSILON = 1e-6


def _gdp_mu_of_one_pure_epsilon(epsilon: float) -> float:
    """The least mu for which every epsilon-DP mechanism is mu-GDP, for one number epsilon."""
    if epsilon < _TINY_EPSILON:
        return epsilon * math.sqrt(math.pi / 2)
    corner = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    return -2 * NormalDist().inv_cdf(corner) if corner > 0 else math.inf


class Price(NamedTuple):
    """The cost of a mechanism as a function of shift = sensitivity / scale.

    A price is pure, with epsilon = shift, or Gaussian, with mu = shift and no pure epsilon. In both
    rho is shift^2 over a divisor.

    Attributes:
        norm: the norm of the sensitivity: "l1", "l2", or "range" for selections, the largest minus
            the smallest change of a score.
        divisor: the divisor of shift^2 in rho.
        gaussian: whether a draw is exactly mu-GDP, with the mu of its cost.
        reads_rows: False for draws that never read the private value, and cost nothing.
        sampler: the bound on the distance of samples from their law; None if no bound is proved,
            which marks a ledger FLOAT.
    """

    norm: str
    divisor: float = 2.0
    gaussian: bool = False
    reads_rows: bool = True
    sampler: SamplerBound | None = None

    @property
    def uses_l1_sensitivity(self) -> bool:
        """Whether the price is by the L1 sensitivity, as for Laplace noise."""
        return self.norm == "l1"

    @property
    def uses_l2_sensitivity(self) -> bool:
        """Whether the price is by the L2 sensitivity, as for Gaussian noise."""
        return self.norm == "l2"

    def cost_of_draw(self, sensitivity: Numbers, scale: Numbers) -> Cost:
        """The cost of one draw, in epsilon, rho and mu.

        Args:
            sensitivity: at least 0, in the norm of the price.
            scale: the noise, at least 0; a private value without noise has an infinite cost.
        """
        sensitivity, scale = np.asarray(sensitivity, np.float64), np.asarray(scale, np.float64)
        quotient = np.divide(sensitivity, np.where(scale > 0, scale, 1.0))
        shift = np.where(sensitivity == 0, 0.0, np.where(scale > 0, quotient, np.inf))[()]
        rho = shift**2 / self.divisor
        if self.gaussian:
            return Cost(epsilon=np.where(shift > 0, np.inf, 0.0)[()], rho=rho, mu=shift)
        return Cost(epsilon=shift, rho=rho, mu=gdp_mu_of_pure_epsilon(shift))


PURE = Price("range")
"""epsilon = shift, and rho = epsilon^2 / 2 (Bun & Steinke, 2016, Proposition 1.4)."""

LAPLACE = Price("l1")
"""`PURE` by the L1 sensitivity."""

BOUNDED_RANGE = Price("range", divisor=8.0)
"""epsilon = shift, and rho = epsilon^2 / 8, where pure mechanisms in general have epsilon^2 / 2.

The log ratio of two probabilities of one outcome has range shift over outcomes. This is bounded
range (Durfee & Rogers, 2019; Cesar & Rogers, 2021).
"""

GAUSSIAN = Price("l2", gaussian=True)
"""mu = shift by the L2 sensitivity, and rho = mu^2 / 2; there is no pure epsilon."""

FREE = Price("l1", reads_rows=False)
"""No cost, for a draw that never reads the private value."""


# The prices of the mechanisms of the library.

MAX_DISCRETE_SCALE = 2.0**32
"""The largest scale for which the samplers of integer noise keep their bound."""


def _laplace_tail_mass(shift: float) -> float:
    """The tail mass of discrete Laplace noise that the bound of a sampler leaves out.

    It is that of outcomes beyond 44 scales of one of two values that lie `shift` scales apart.
    """
    return min(1.0, 2.0**-62 * math.exp(min(shift, 700.0)))


def _gaussian_tail_mass(shift: float) -> float:
    """The tail mass of Gaussian noise that the bound of a sampler leaves out.

    It is that of pairs of outcomes whose radius around one of two values, `shift` scales apart, is
    beyond 9.3 scales.
    """
    return math.exp(-(max(9.3 - shift, 0.0) ** 2) / 2)


DISCRETE_LAPLACE = LAPLACE._replace(
    sampler=SamplerBound(gap=2.0**-28, tail=_laplace_tail_mass, max_scale=MAX_DISCRETE_SCALE)
)
ROUNDED_GAUSSIAN = GAUSSIAN._replace(
    sampler=SamplerBound(gap=2.0**-29, tail=_gaussian_tail_mass, max_scale=MAX_DISCRETE_SCALE)
)
EXPONENTIAL = BOUNDED_RANGE._replace(sampler=SamplerBound(gap=2.0**-28))
NOISY_MAX = PURE._replace(sampler=SamplerBound(gap=2.0**-28))
UNIFORM = FREE._replace(sampler=SamplerBound(gap=0.0))

PRICE_BY_MECHANISM_NAME = {
    "discrete laplace": DISCRETE_LAPLACE,
    "rounded gaussian": ROUNDED_GAUSSIAN,
    "exponential": EXPONENTIAL,
    "noisy max": NOISY_MAX,
    "uniform": UNIFORM,
    "assignment": UNIFORM,
}
"""The price of every mechanism of the library, by its name in ledgers; `mechanisms` proves them."""
