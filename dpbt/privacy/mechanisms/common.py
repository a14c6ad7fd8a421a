"""Parts that mechanisms share: safe scales, point masses, and a cost that follows from another."""

from collections.abc import Callable

import jax.numpy as jnp

from dpbt.base import Array
from dpbt.privacy.mechanism import Numbers, StepLoss

Divergence = Callable[[Array, Numbers, Array, Numbers], Array]
"""(value, scale, other value, its scale) -> f32[]: the largest absolute log ratio of densities."""


def no_tail(shift: float) -> float:
    """0, the tail of a sampler whose every outcome is within the gap of its probability."""
    del shift
    return 0.0


def positive(scale: Numbers) -> Array:
    """The scale, or 1 where it is 0, so that a quotient stays finite."""
    return jnp.where(scale > 0, scale, 1)


def exact(output: Array, value: Array) -> Array:
    """The log density of the noise-free limit: 0 at the value, -inf elsewhere."""
    return jnp.where(output == value, 0.0, -jnp.inf)


def pure(divergence: Divergence) -> Callable[..., StepLoss]:
    """The loss of a pure mechanism: rho is epsilon^2 / 2 (Bun & Steinke, 2016, Proposition 1.4)."""

    def loss(value: Array, scale: Numbers, other_value: Array, other_scale: Numbers) -> StepLoss:
        epsilon = divergence(value, scale, other_value, other_scale)
        return StepLoss(epsilon, epsilon**2 / 2)

    return loss
