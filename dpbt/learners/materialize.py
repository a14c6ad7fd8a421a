"""A way to store an array where a compiler would work it out anew for each of its readers."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Int32

from dpbt import types
from dpbt.common.devices import vary_like
from dpbt.types import Array


def materialize_once(
    compute: Callable[[], Array], *, round_index: Int32[types.AnyArray, ""]
) -> Array:
    """Compute an array once in a round, and keep compilers from computing it anew for each reader.

    The array is computed in a branch on the index of the round, which compilers cannot know, so
    they cannot work it out anew wherever it is read. Without the branch every level of a tree would
    weigh all rows again for each of its nodes, and route them again through all levels above. An
    optimization barrier does not help, because XLA takes it away on CPUs before it fuses loops.

    Args:
        compute: returns the array.
        round_index: i32[], at least 0. If it is a constant, a compiler may compute the array
            several times all the same.
    """
    shape = jax.eval_shape(compute)

    def never() -> Array:
        return vary_like(jnp.zeros(shape.shape, shape.dtype), shape)

    return jax.lax.cond(jnp.asarray(round_index) >= 0, compute, never)
