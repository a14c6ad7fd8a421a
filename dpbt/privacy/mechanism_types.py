"""Mechanisms and their costs: the types that all private code is written in.

By its price (`mechanism_prices`), a mechanism turns sensitivity / scale into the `Cost` of one
draw. In the other direction, it turns an `Allowance`, what a draw may cost, into the noise that the
draw needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from dpbt.privacy.conversions import Cost
from dpbt.privacy.mechanism_prices import Price
from dpbt.types import Array, Numbers

Value = Any
"""The private input of a mechanism: an array, or `mechanisms.Scores`."""


class Allowance(NamedTuple):
    """The largest cost that a draw may have: a pure epsilon or a zCDP rho.

    Of the two, the one counts that needs less noise.

    Attributes:
        epsilon: f64[...], 0 where only rho counts.
        rho: f64[...], 0 where only epsilon counts.
    """

    epsilon: np.ndarray
    rho: np.ndarray

    def times(self, fraction: Numbers) -> Allowance:
        """Multiply the allowance by a fraction.

        Fractions of draws in sequence must add up to at most 1.
        """
        fraction = np.asarray(fraction, np.float64)
        return Allowance(epsilon=self.epsilon * fraction, rho=self.rho * fraction)


class Sensitivity(NamedTuple):
    """The largest change of a statistic between neighbours, in L1 and in L2 norm.

    Attributes:
        l1: in L1 norm.
        l2: in L2 norm.
    """

    l1: Numbers
    l2: Numbers

    def times(self, factor: Numbers) -> Sensitivity:
        """Multiply the sensitivity by a factor.

        The result is that of the statistic in a unit that is `factor` times smaller.
        """
        return Sensitivity(l1=self.l1 * factor, l2=self.l2 * factor)


class WorstCaseLoss(NamedTuple):
    """The privacy loss of one draw between two tables, in the worst case over its outputs.

    Attributes:
        pure: f32[]: the largest absolute log ratio of the two densities (the max-divergence, in
            both directions).
        rho: f32[]: the zCDP cost.
    """

    pure: Array
    rho: Array

    @classmethod
    def from_pure_epsilon(cls, epsilon: Array) -> WorstCaseLoss:
        """The worst-case loss of a draw that is epsilon-DP.

        Its rho is epsilon^2 / 2 (Bun & Steinke, 2016, Prop. 1.4).
        """
        return cls(pure=epsilon, rho=epsilon**2 / 2)


class Mechanism(NamedTuple):
    """A randomised map from a private value to an output that may be published.

    Its price says what a draw costs.

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
        sample_at_row_indices: `sample` for consecutive rows of a table; None if outputs are not
            for rows. It is (key, value, scale, first_row_index) -> output. The u32[2]
            `first_row_index` is (high, low), and 2^32 high + low is the index of the first row. The
            row of index k has the output k of `sample`.
    """

    name: str
    sample: Callable[[Array, Value, Array], Array]
    log_prob: Callable[[Array, Value, Array], Array]
    divergence: Callable[[Value, Array, Value, Array], WorstCaseLoss]
    price: Price
    public: bool = False
    sample_at_row_indices: Callable[[Array, Value, Array, Array], Array] | None = None

    @property
    def is_selection(self) -> bool:
        """Whether the mechanism draws the index of a candidate by scores."""
        return self.price.norm == "range"

    def cost_of_draw(self, sensitivity: Numbers, scale: Numbers) -> Cost:
        """The cost of one draw, in epsilon, rho and mu.

        Args:
            sensitivity: at least 0, in the norm of the price.
            scale: the noise, at least 0; a private value without noise has an infinite cost.
        """
        return self.price.cost_of_draw(sensitivity, scale)

    def sensitivity_in_norm(self, sensitivity: Sensitivity) -> Numbers:
        """The sensitivity in the norm that prices this mechanism, L1 or L2.

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
        """f32[...]: the least noise scale within the allowance, for a sensitivity of 1.

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
    """f32[...]: the quotient rounded up to float32.

    It is never below the quotient, and 0 for an infinite divisor.
    """
    with np.errstate(over="ignore", divide="ignore"):  # callers refuse infinite numbers by name
        quotient = np.asarray(dividend, np.float64) / np.asarray(divisor, np.float64)
        nearest = quotient.astype(np.float32)
    next_above = np.nextafter(nearest, np.float32(np.inf))
    return np.where(nearest < quotient, next_above, nearest).astype(np.float32)


def round_down_to_float32(value: Numbers) -> Float32[np.ndarray, "..."]:
    """f32[...]: a float64 number of at least 0 rounded down to float32.

    It is never above the number.
    """
    return np.asarray(-divide_rounding_up(-np.asarray(value, np.float64), 1.0))
