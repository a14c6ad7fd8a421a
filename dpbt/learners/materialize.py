"""An array that is stored, where a compiler would work it out anew for each of its readers."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Int32

from dpbt import types
from dpbt.common.devices import vary_like
from dpbt.types import Array


def materialize(round_number: Int32[types.AnyArray, ""], compute: Callable[[], Array]) -> Array:
    """Compute an array once per round and keep it in memory, instead of once for each reader.

    It is a branch on a number that compilers cannot know, so they cannot work the array out anew
    wherever it is read. Without it every level of a tree would weigh all rows again for each of its
    nodes, and route them again through all levels above. An optimization barrier does not help,
    because XLA takes it away on CPUs before it fuses loops.

    Args:
        round_number: i32[], at least 0. Nothing is stored where it is a constant.
        compute: gives one array.
    """
    shape = jax.eval_shape(compute)

    def never() -> Array:
        return vary_like(jnp.zeros(shape.shape, shape.dtype), shape)

    return jax.lax.cond(jnp.asarray(round_number) >= 0, compute, never)
