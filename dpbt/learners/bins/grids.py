"""Means over a grid of hypotheses, by how likely each of them is; they round alike under vmap."""

import jax.numpy as jnp
from jaxtyping import Float32

from dpbt.common.arithmetic import (
    multiply_by_reciprocal,
    portable_exp,
    round_separately,
    sum_in_order,
)
from dpbt.types import Array


def sum_grid(grid: Float32[Array, "A B"]) -> Float32[Array, ""]:
    """f32[]: the sum of a grid, added up in one order in every program."""
    return sum_in_order(sum_in_order(grid))


def likelihood_shares(misfit: Float32[Array, "A B"]) -> Float32[Array, "A B"]:
    """f32[A, B]: the share of each hypothesis in exp(-misfit / 2), over all of the grid."""
    likelihood = round_separately(portable_exp((jnp.min(misfit) - misfit) / 2))
    return multiply_by_reciprocal(likelihood, sum_grid(likelihood))
