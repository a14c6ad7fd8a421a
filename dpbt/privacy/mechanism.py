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

from dpbt.types import Array, Numbers

Value = Any
"""What a mechanism reads: an array, or `mechanisms.Scores`; private."""


class Sampler(NamedTuple):
    """How far a sampler of finitely many bits can be from the law of its mechanism.

    For each draw that a row moves, neighbours whose laws satisfy epsilon have samplers that satisfy
    epsilon + 2 g, with t of delta (`accounting.Ledger`).

    Attributes:
        gap: g: each outcome near the value has a probability within a factor of e^(+-g) of the
            law's.
        tail: (shift) -> t, the mass of the other outcomes, which are far from one of two values
            that lie `shift` scales apart; 0 where there are none.
        most: the largest scale for which this holds.
    """

    gap: float
    tail: Callable[[float], float] = lambda shift: 0.0
    most: float = math.inf

    def bits(self, moved_by: Numbers, outputs: int) -> tuple[float, np.ndarray]:
        """(gap, tail f64[...]): what finite bits cost one draw that a row moves.

        At most 4 outputs move by more than half of what all outputs move together.

        Args:
            moved_by: f64[...], by how many scales the outputs move together, in L1 or L2 norm.
            outputs: how many outputs a row moves.
        """
        few = min(outputs, 4)
        distinct, inverse = np.unique(np.asarray(moved_by, np.float64), return_inverse=True)
        tails = np.array(
            [few * self.tail(x) + (outputs - few) * self.tail(x / 2) for x in distinct.tolist()]
        )
        return self.gap * outputs, tails[inverse].reshape(np.shape(moved_by))


class Cost(NamedTuple):
    """What one draw costs, in three measures; infinite where there is no such guarantee.

    Attributes:
        epsilon: of pure differential privacy.
        rho: of zero-concentrated differential privacy.
        mu: of Gaussian differential privacy.
    """

    epsilon: Numbers
    rho: Numbers
    mu: Numbers


class Allowance(NamedTuple):
    """What a draw may cost: a pure epsilon or a zCDP rho, whichever allows less noise.

    Attributes:
        epsilon: f64[...], 0 where only rho counts.
        rho: f64[...], 0 where only epsilon counts.
    """

    epsilon: np.ndarray
    rho: np.ndarray

    def part(self, share: Numbers) -> Allowance:
        """A share of the allowance. The shares of draws in sequence add up to 1."""
        share = np.asarray(share, np.float64)
        return Allowance(self.epsilon * share, self.rho * share)


def gdp_of_pure(epsilon: Numbers) -> Numbers:
    """The mu for which every epsilon-DP mechanism is mu-GDP: -2 Phi^-1(1 / (1 + e^epsilon)).

    The trade-off curve of epsilon-DP is two lines that meet at type I and type II errors of
    1 / (1 + e^epsilon) each. The Gaussian curve through that corner and the two ends is convex, so
    it lies below both lines. The ratio mu / epsilon falls with epsilon, from sqrt(pi / 2). That
    limit is used for tiny epsilon, where the difference from 1 / 2 would be lost.
    """
    values, each = np.asarray(epsilon, np.float64), list[float]()
    for value in values.ravel().tolist():
        below = math.exp(-value) / (1 + math.exp(-value))
        mu = -2 * NormalDist().inv_cdf(below) if below > 0 else math.inf
        each.append(value * math.sqrt(math.pi / 2) if value < _TINY else mu)
    return np.reshape(np.asarray(each, np.float64), values.shape)[()]


_TINY = 1e-6


class Price(NamedTuple):
    """What a mechanism costs, as a function of shift = sensitivity / scale.

    A price is pure, with epsilon = shift, or Gaussian, with mu = shift and no pure epsilon. In both
    rho is shift^2 over a divisor.

    Attributes:
        norm: the sensitivity that counts: "l1", "l2", or "range" for selections, the largest minus
            the smallest change of a score.
        divisor: of shift^2 in rho.
        gaussian: whether a draw is exactly mu-GDP, with the mu of its cost.
        reads_rows: False for draws that never read the private value, and cost nothing.
        sampler: how far samples can be from their law; None if no bound is proved, which marks a
            ledger FLOAT.
    """

    norm: str
    divisor: float = 2.0
    gaussian: bool = False
    reads_rows: bool = True
    sampler: Sampler | None = None


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
    """How far one row moves a statistic.

    Attributes:
        l1: in L1 norm.
        l2: in L2 norm.
    """

    l1: Numbers
    l2: Numbers

    def times(self, factor: Numbers) -> Sensitivity:
        """The sensitivity of the statistic in a unit that is `factor` times smaller."""
        return Sensitivity(self.l1 * factor, self.l2 * factor)


class StepLoss(NamedTuple):
    """What one draw costs between two tables, in the worst case over its outputs.

    Attributes:
        pure: f32[]: the largest absolute log ratio of the two densities (the max-divergence, in
            both directions).
        rho: f32[]: the zCDP cost.
    """

    pure: Array
    rho: Array

    @classmethod
    def of_pure(cls, epsilon: Array) -> StepLoss:
        """Of a pure epsilon: rho is epsilon^2 / 2 (Bun & Steinke, 2016, Proposition 1.4)."""
        return cls(epsilon, epsilon**2 / 2)


class Mechanism(NamedTuple):
    """A randomised map from a private value to an output that may be published, and its price.

    Attributes:
        name: its name in the ledger.
        sample: (key, value, scale) -> output. The integer noise of the library adds to i32 values,
            and gives i32 within +-`mechanisms.SATURATION`. To f64 whole numbers it adds the same
            noise, and gives f64 without a clamp.
        log_prob: (output, value, scale) -> the exact log density (or probability), one for each
            independent draw.
        divergence: (value, scale, other_value, other_scale) -> what it costs at most to tell the
            two values apart, over all outputs.
        price: the cost of a draw, from its sensitivity and its scale.
        public: whether the output is public randomness, drawn with the public key.
        at: `sample` for a part of the places of a table; None if outputs are not for places. It is
            (key, value, scale, place) -> output. The u32[2] `place` is (high, low), and 2^32 high +
            low is the place of the first output. Place k has the output k of `sample`.
    """

    name: str
    sample: Callable[[Array, Value, Array], Array]
    log_prob: Callable[[Array, Value, Array], Array]
    divergence: Callable[[Value, Array, Value, Array], StepLoss]
    price: Price
    public: bool = False
    at: Callable[[Array, Value, Array, Array], Array] | None = None

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
        noisy = np.divide(sensitivity, np.where(scale > 0, scale, 1.0))
        shift = np.where(sensitivity == 0, 0.0, np.where(scale > 0, noisy, np.inf))[()]
        rho = shift**2 / self.price.divisor
        if self.price.gaussian:
            return Cost(np.where(shift > 0, np.inf, 0.0)[()], rho, shift)
        return Cost(shift, rho, gdp_of_pure(shift))

    def bound(self, sensitivity: Sensitivity) -> Numbers:
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

    def multiplier(self, allowance: Allowance) -> np.ndarray:
        """f32[...]: the least noise for a sensitivity of 1 that costs no more than the allowance.

        It is 0 for an infinite allowance. It is larger by `ROUNDING` than the quotient, so that its
        product with a sensitivity, in float32, is no smaller than it should be.

        Args:
            allowance: of one draw.
        """
        pure = allowance.epsilon
        if self.price.gaussian:
            pure = np.where(np.isinf(pure), np.inf, 0.0)
        shift = np.maximum(pure, np.sqrt(self.price.divisor * allowance.rho))
        return quotient_up(ROUNDING, shift)


ROUNDING = 1 + 2.0**-22
"""More than float32 takes from the product of a sensitivity and a multiplier.

A sensitivity is rounded to float32, and so is the product: that is at most 2^-24 each, and one more
where the sensitivity follows from what was released.
"""


def quotient_up(bound: Numbers, divisor: Numbers) -> np.ndarray:
    """f32[...], never below bound / divisor; 0 for an infinite divisor."""
    with np.errstate(over="ignore", divide="ignore"):  # infinite numbers are refused by name
        value = np.asarray(bound, np.float64) / np.asarray(divisor, np.float64)
        rounded = value.astype(np.float32)
    further = np.nextafter(rounded, np.float32(np.inf))
    return np.where(rounded < value, further, rounded).astype(np.float32)


def rounded_down(value: Numbers) -> np.ndarray:
    """f32[...], never above the float64 value, which is at least 0."""
    return np.asarray(-quotient_up(-np.asarray(value, np.float64), 1.0))
