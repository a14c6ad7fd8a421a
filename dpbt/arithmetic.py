"""Arithmetic whose last bit does not depend on the program around it."""

import jax
import jax.numpy as jnp
import numpy as np

_LARGEST = np.finfo(np.float32).max


def rounded(product: jax.Array | np.ndarray) -> jax.Array:
    """f32[...]: a finite product, rounded by itself before it is added to anything.

    A compiler may join a product and the sum that it is added to into one operation, which rounds
    once. Whether it does so depends on the program around them. A fit in memory and a fit by chunks
    are different programs, and must agree on every bit.
    """
    return jnp.clip(product, -_LARGEST, _LARGEST)
