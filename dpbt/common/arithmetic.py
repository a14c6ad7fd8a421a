"""Arithmetic of NumPy and JAX arrays alike, whose last bit does not depend on what is around it.

Functions find the namespace of their arrays, so what is written once runs on both. JAX is never
imported here, but for arrays of it.
"""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

Array = Any
"""An array of NumPy or of JAX."""

LN2 = math.log(2)
"""The natural logarithm of 2: nats in a bit."""

_LARGEST = np.finfo(np.float32).max


def array_namespace(*arrays: Any) -> ModuleType:
    """`numpy`, if all arrays are of NumPy, and otherwise `jax.numpy`.

    Args:
        arrays: arrays, None, or tuples of these.
    """
    for array in arrays:
        several = isinstance(array, tuple) and array_namespace(*array) is np
        if not several and array is not None and not isinstance(array, np.ndarray):
            import jax.numpy

            return jax.numpy
    return np


def fold(step: Callable[[Any, Any], Any], start: Any, parts: Any, unroll: int = 1) -> Any:
    """`step(... step(start, first part) ..., last part)`; a loop, or a scan of JAX.

    Args:
        step: (total, part) -> total.
        start: the total of no parts.
        parts: an array or a tuple of arrays, cut along their first axis. With JAX a pytree.
        unroll: of the scan.
    """
    if array_namespace(start, parts) is not np:
        import jax

        return jax.lax.scan(lambda *now: (step(*now), None), start, parts, unroll=unroll)[0]

    several = isinstance(parts, tuple)
    rebuilt = getattr(type(parts), "_make", tuple)
    for part in zip(*parts, strict=True) if several else parts:
        start = step(start, rebuilt(map(np.asarray, part)) if several else np.asarray(part))
    return start


def map_over_parts(function: Callable[[Any], Any], parts: Any) -> Any:
    """`function` of each part, stacked; a loop, or a map of JAX, one part at a time.

    Args:
        function: part -> array.
        parts: a tuple of arrays, cut along their first axis.
    """
    if array_namespace(parts) is not np:
        import jax

        return jax.lax.map(function, parts)
    return np.stack([function(part) for part in zip(*parts, strict=True)])


def round_separately(product: Array) -> Array:
    """f32[...]: a finite product, rounded by itself before it is added to anything.

    A compiler may join a product and the sum that it is added to into one operation, which rounds
    once. Whether it does so depends on the program around them. A fit in memory and a fit by blocks
    are different programs, and must agree on every bit.
    """
    return array_namespace(product).clip(product, -_LARGEST, _LARGEST)


def sum_in_order(parts: Array) -> Array:
    """[...]: the sum over the first axis, one part after the other."""
    return _reduce_first_axis(array_namespace(parts).add, parts)


def softmax(scores: Array) -> Array:
    """f32[K, ...]: the share of each class in 2^score, for scores in bits; the classes come first.

    Shares are in [0, 1] however numbers are rounded. Infinite scores count as the largest float32.
    A NaN among the scores of a row makes all its shares NaN.
    """
    xp, finite = array_namespace(scores), round_separately(scores)
    largest = _reduce_first_axis(xp.maximum, finite)
    powers = round_separately(xp.exp(round_separately((finite - largest[None]) * np.float32(LN2))))
    # XLA makes this product of a division, in the programs where it sees the broadcast.
    return xp.clip(powers * round_separately(1 / sum_in_order(powers))[None], 0, 1)


def _reduce_first_axis(operation: Callable[[Any, Any], Any], parts: Any) -> Any:
    """[...]: an operation over the first axis, in its order.

    On CPUs, XLA's own reductions over a first axis are not vectorized and take ten times as long.
    Without a loop, the time to compile explodes with the number of parts.
    """
    return fold(operation, parts[0], parts[1:], unroll=4)


# What losses say that the probability of a score is.


def matsushita_probability(z: Array) -> Array:
    """(1 + z / sqrt(4 + z^2)) / 2, the inverse link of Matsushita's loss.

    Negative scores take a form without cancellation, so that small probabilities stay distinct.
    """
    xp = array_namespace(z)
    half = xp.abs(z) / 2
    norm = xp.hypot(xp.ones_like(half), half)
    below = 0.5 / norm / (norm + half)
    return xp.where(z < 0, below, 1 - below)


def log_probability(z: Array) -> Array:
    """1 / (1 + 2^-z), the inverse link of the log loss in bits."""
    with np.errstate(over="ignore"):
        return 1 / (1 + array_namespace(z).exp2(-z))


def square_probability(z: Array) -> Array:
    """(z + 4) / 8 in [0, 1], the inverse link of the square loss."""
    return array_namespace(z).clip((z + 4) / 8, 0, 1)
