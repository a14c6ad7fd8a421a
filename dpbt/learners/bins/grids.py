"""Posterior means over a grid of hypotheses, with arithmetic that rounds alike in every program."""

import jax.numpy as jnp
from jaxtyping import Float32

from dpbt.common.arithmetic import (
    multiply_by_reciprocal,
    portable_exp,
    round_separately,
    sum_in_order,
)
from dpbt.types import Array


def sum_grid_in_fixed_order(grid: Float32[Array, "A B"]) -> Float32[Array, ""]:
    """f32[]: the sum of all entries of a grid, rounded alike in every program.

    They are added up in one fixed order.
    """
    return sum_in_order(sum_in_order(grid))


def normalized_likelihood_of_misfit(misfit: Float32[Array, "A B"]) -> Float32[Array, "A B"]:
    """f32[A, B]: the likelihood exp(-misfit / 2) of each hypothesis of a grid, with a sum of 1."""
    likelihood = round_separately(portable_exp((jnp.min(misfit) - misfit) / 2))
    return multiply_by_reciprocal(likelihood, sum_grid_in_fixed_order(likelihood))
