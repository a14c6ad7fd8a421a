"""Mechanisms and their costs: the types that all private code is written in.

By its `Price`, a mechanism turns sensitivity / scale into the `Cost` of one draw. In the other
direction, it turns an `Allowance`, what a draw may cost, into the noise that the draw needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Float64

from dpbt.privacy.conversions import Cost, SamplerCost
from dpbt.types import Array, Numbers

Value = Any
"""The private input of a mechanism: an array, or `mechanisms.Scores`."""


class Sampler(NamedTuple):
    """A bound on the distance of a sampler of finitely many bits from the law of its mechanism.

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
        """The cost of finite bits in one draw that a row changes; the tail is f64[...].

        At most 4 outputs change by more than half of the change of all outputs together.

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


class Allowance(NamedTuple):
    """The largest cost of a draw: a pure epsilon or a zCDP rho, whichever allows less noise.

    Attributes:
        epsilon: f64[...], 0 where only rho counts.
        rho: f64[...], 0 where only epsilon counts.
    """

    epsilon: np.ndarray
    rho: np.ndarray

    def times(self, fraction: Numbers) -> Allowance:
        """A fraction of the allowance. Fractions of draws in sequence must add up to at most 1."""
        fraction = np.asarray(fraction, np.float64)
        return Allowance(epsilon=self.epsilon * fraction, rho=self.rho * fraction)


def gdp_mu_of_pure_epsilon(epsilon: Numbers) -> Numbers:
    """The least mu for which every epsilon-DP mechanism is mu-GDP: -2 Phi^-1(1 / (1 + e^epsilon)).

    The trade-off curve of epsilon-DP is two lines that meet at type I and type II errors of
    1 / (1 + e^epsilon) each. The Gaussian curve through that corner and the two ends is convex, so
    it lies below both lines. The ratio mu / epsilon falls with epsilon, from sqrt(pi / 2). That
    limit is used for tiny epsilon, where the difference from 1 / 2 would be lost.
    """
    epsilons = np.asarray(epsilon, np.float64)
    mus = [_gdp_mu_of_pure_number(value) for value in epsilons.ravel().tolist()]
    return np.reshape(np.asarray(mus, np.float64), epsilons.shape)[()]


_TINY_EPSILON = 1e-6


def _gdp_mu_of_pure_number(epsilon: float) -> float:
    """`gdp_mu_of_pure_epsilon` of one number."""
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
    sampler: Sampler | None = None

    @property
    def is_by_l1_sensitivity(self) -> bool:
        """Whether it prices noise by the L1 sensitivity, as of Laplace noise."""
        return self.norm == "l1"

    @property
    def is_by_l2_sensitivity(self) -> bool:
        """Whether it prices noise by the L2 sensitivity, as of Gaussian noise."""
        return self.norm == "l2"


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


class Sensitivity(NamedTuple):
    """The largest change of a statistic between neighbours.

    Attributes:
        l1: in L1 norm.
        l2: in L2 norm.
    """

    l1: Numbers
    l2: Numbers

    def times(self, factor: Numbers) -> Sensitivity:
        """The sensitivity of the statistic in a unit that is `factor` times smaller."""
        return Sensitivity(l1=self.l1 * factor, l2=self.l2 * factor)


class StepLoss(NamedTuple):
    """The privacy loss of one draw between two tables, in the worst case over its outputs.

    Attributes:
        pure: f32[]: the largest absolute log ratio of the two densities (the max-divergence, in
            both directions).
        rho: f32[]: the zCDP cost.
    """

    pure: Array
    rho: Array

    @classmethod
    def from_pure_epsilon(cls, epsilon: Array) -> StepLoss:
        """The loss of a pure epsilon: rho is epsilon^2 / 2 (Bun & Steinke, 2016, Prop. 1.4)."""
        return cls(pure=epsilon, rho=epsilon**2 / 2)


class Mechanism(NamedTuple):
    """A randomised map from a private value to an output that may be published, and its price.

    Attributes:
        name: its name in the ledger.
        sample: (key, value, scale) -> output. The integer noise of the library adds to i32 values,
            and gives i32 within +-`mechanisms.SATURATION`. To f64 whole numbers it adds the same
            noise, and gives f64 without a clamp.
        log_prob: (output, value, scale) -> the exact log density (or probability), one for each
            independent draw.
        divergence: (value, scale, other_value, other_scale) -> the largest loss over all outputs,
            between two values at their scales.
        price: the cost of a draw, from its sensitivity and its scale.
        public: whether the output is public randomness, drawn with the public key.
        sample_places: `sample` for consecutive places of a table; None if outputs are not for
            places. It is (key, value, scale, place) -> output. The u32[2] `place` is (high, low),
            and 2^32 high + low is the place of the first output. Place k has the output k of
            `sample`.
    """

    name: str
    sample: Callable[[Array, Value, Array], Array]
    log_prob: Callable[[Array, Value, Array], Array]
    divergence: Callable[[Value, Array, Value, Array], StepLoss]
    price: Price
    public: bool = False
    sample_places: Callable[[Array, Value, Array, Array], Array] | None = None

    @property
    def selects(self) -> bool:
        """Whether the output is the index of a candidate, drawn by scores."""
        return self.price.norm == "range"

    def cost(self, sensitivity: Numbers, scale: Numbers) -> Cost:
        """The cost of one draw, in epsilon, rho and mu.

        Args:
            sensitivity: at least 0, in the norm of the price.
            scale: the noise, at least 0; a private value without noise has an infinite cost.
        """
        sensitivity, scale = np.asarray(sensitivity, np.float64), np.asarray(scale, np.float64)
        quotient = np.divide(sensitivity, np.where(scale > 0, scale, 1.0))
        shift = np.where(sensitivity == 0, 0.0, np.where(scale > 0, quotient, np.inf))[()]
        rho = shift**2 / self.price.divisor
        if self.price.gaussian:
            return Cost(epsilon=np.where(shift > 0, np.inf, 0.0)[()], rho=rho, mu=shift)
        return Cost(epsilon=shift, rho=rho, mu=gdp_mu_of_pure_epsilon(shift))

    def sensitivity_in_norm(self, sensitivity: Sensitivity) -> Numbers:
        """The sensitivity in the norm that prices this mechanism.

        Raises:
            ValueError: for a mechanism that is priced by a range, which is not a norm.
        """
        if self.price.norm not in Sensitivity._fields:
            raise ValueError(
                f"{self.name} is priced by the {self.price.norm} of a change of scores, and not by "
                "a norm"
            )
        return getattr(sensitivity, self.price.norm)

    def noise_multiplier(self, allowance: Allowance) -> Float32[np.ndarray, "..."]:
        """f32[...]: the least noise for a sensitivity of 1 that costs no more than the allowance.

        It is 0 for an infinite allowance. It is larger by the factor `ROUNDING` than the quotient,
        so that its product with a sensitivity, in float32, is no smaller than the exact product.

        Args:
            allowance: of one draw.
        """
        pure_shift = allowance.epsilon
        if self.price.gaussian:
            pure_shift = np.where(np.isinf(pure_shift), np.inf, 0.0)
        shift = np.maximum(pure_shift, np.sqrt(self.price.divisor * allowance.rho))
        return divide_rounding_up(ROUNDING, shift)


ROUNDING = 1 + 2.0**-22
"""A factor that covers the rounding of the product of a sensitivity and a multiplier in float32.

A sensitivity is rounded to float32, and so is the product. Each rounding takes at most 2^-24, and
there is a third one where the sensitivity follows from a release.
"""


def divide_rounding_up(dividend: Numbers, divisor: Numbers) -> Float32[np.ndarray, "..."]:
    """f32[...]: the quotient rounded up, never below it; 0 for an infinite divisor."""
    with np.errstate(over="ignore", divide="ignore"):  # callers refuse infinite numbers by name
        quotient = np.asarray(dividend, np.float64) / np.asarray(divisor, np.float64)
        nearest = quotient.astype(np.float32)
    next_above = np.nextafter(nearest, np.float32(np.inf))
    return np.where(nearest < quotient, next_above, nearest).astype(np.float32)


def round_down_to_float32(value: Numbers) -> Float32[np.ndarray, "..."]:
    """f32[...]: a float64 number of at least 0 rounded down, never above it."""
    return np.asarray(-divide_rounding_up(-np.asarray(value, np.float64), 1.0))
