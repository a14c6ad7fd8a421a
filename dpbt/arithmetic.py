"""Arithmetic whose last bit does not depend on the program around it."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

_LN2 = np.float32(math.log(2))
_LARGEST = np.finfo(np.float32).max


def rounded(product: jax.Array | np.ndarray) -> jax.Array:
    """f32[...]: a finite product, rounded by itself before it is added to anything.

    A compiler may join a product and the sum that it is added to into one operation, which rounds
    once. Whether it does so depends on the program around them. A fit in memory and a fit by chunks
    are different programs, and must agree on every bit.
    """
    return jnp.clip(product, -_LARGEST, _LARGEST)


def added(parts: jax.Array) -> jax.Array:
    """[...]: the sum over the first axis, one part after the other."""
    return _folded(jnp.add, parts)


def softmax(scores: jax.Array) -> jax.Array:
    """f32[K, ...]: the share of each class in 2^score, for scores in bits; the classes come first.

    Shares are in [0, 1] however numbers are rounded. Infinite scores count as the largest float32.
    A NaN among the scores of a row makes all its shares NaN.
    """
    finite = rounded(scores)
    largest = _folded(jnp.maximum, finite)
    powers = rounded(jnp.exp(rounded((finite - largest[None]) * _LN2)))
    # XLA makes this product of a division, in the programs where it sees the broadcast.
    return jnp.clip(powers * rounded(1 / added(powers))[None], 0, 1)


def _folded(operation: Callable[[jax.Array, jax.Array], jax.Array], parts: jax.Array) -> jax.Array:
    """[...]: an operation over the first axis, in its order.

    On CPUs, XLA's own reductions over a first axis are not vectorized and take ten times as long.
    Without a loop, the time to compile explodes with the number of parts.
    """

    def step(total: jax.Array, part: jax.Array) -> tuple[jax.Array, None]:
        return operation(total, part), None

    return jax.lax.scan(step, parts[0], parts[1:], unroll=4)[0]
