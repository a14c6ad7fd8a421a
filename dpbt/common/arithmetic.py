"""Arithmetic of NumPy and JAX arrays alike, whose last bit is the same in every program.

Functions look up the namespace of their arrays, so that code which is written once runs on both.
JAX is imported only for arrays of it.
"""

import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float32

from dpbt.public_types import AnyArray

LN2 = math.log(2)
"""The natural logarithm of 2: nats in a bit."""

_MAX_FLOAT32 = np.finfo(np.float32).max


def array_namespace(*arrays: Any) -> ModuleType:
    """`numpy`, if all arrays are of NumPy, and otherwise `jax.numpy`.

    Args:
        arrays: arrays, None, or tuples of these.
    """
    for array in arrays:
        is_numpy_tuple = isinstance(array, tuple) and array_namespace(*array) is np
        if not is_numpy_tuple and array is not None and not isinstance(array, np.ndarray):
            import jax.numpy

            return jax.numpy
    return np


def fold(step: Callable[[Any, Any], Any], start: Any, items: Any, unroll: int = 1) -> Any:
    """`step(... step(start, first item) ..., last item)`, by a loop or by a scan of JAX.

    Args:
        step: (total, item) -> total.
        start: the total of no items.
        items: an array or a tuple of arrays, whose first axis has the items. With JAX a pytree.
        unroll: how many steps of the scan are unrolled.
    """
    if array_namespace(start, items) is not np:
        import jax

        return jax.lax.scan(
            lambda total, item: (step(total, item), None), start, items, unroll=unroll
        )[0]

    if not isinstance(items, tuple):
        return functools.reduce(step, map(np.asarray, items), start)
    as_tuple = getattr(type(items), "_make", tuple)
    arrays = (as_tuple(map(np.asarray, item)) for item in zip(*items, strict=True))
    return functools.reduce(step, arrays, start)


def map_over_first_axis(function: Callable[[Any], Any], arrays: Any) -> Any:
    """`function` of each item, stacked, by a loop or by a map of JAX; one item at a time.

    Args:
        function: item -> array, where an item is a tuple with an entry of each array.
        arrays: a tuple of arrays, whose first axis has the items.
    """
    if array_namespace(arrays) is not np:
        import jax

        return jax.lax.map(function, arrays)
    return np.stack([function(item) for item in zip(*arrays, strict=True)])


def round_separately(product: AnyArray) -> Float32[AnyArray, "..."]:
    """f32[...]: a finite product, rounded by itself before it is added to anything.

    A compiler may join a product and the sum that it is added to into one operation, which rounds
    once. Whether it does so depends on the program around them. A fit in memory and a fit by blocks
    are different programs, and must agree on every bit.
    """
    return array_namespace(product).clip(product, -_MAX_FLOAT32, _MAX_FLOAT32)


def sum_in_order(items: AnyArray) -> AnyArray:
    """[...]: the sum over the first axis, one item after the other."""
    return _reduce_first_axis(array_namespace(items).add, items)


def softmax(scores: AnyArray) -> Float32[AnyArray, "K ..."]:
    """f32[K, ...]: the share of each class in 2^score, for scores in bits; the classes come first.

    Shares are in [0, 1] however numbers are rounded. Infinite scores count as the largest float32.
    A NaN among the scores of a row makes all its shares NaN.
    """
    xp, finite = array_namespace(scores), round_separately(scores)  # the clip makes them finite
    largest = _reduce_first_axis(xp.maximum, finite)
    powers = round_separately(xp.exp(round_separately((finite - largest[None]) * np.float32(LN2))))
    # XLA makes this product of a division, in the programs where it sees the broadcast.
    return xp.clip(powers * round_separately(1 / sum_in_order(powers))[None], 0, 1)


def _reduce_first_axis(operation: Callable[[Any, Any], Any], items: Any) -> Any:
    """[...]: the first axis reduced by an operation, in its order.

    On CPUs, XLA's own reductions over a first axis are not vectorized and take ten times as long.
    Without a loop, the time to compile explodes with the number of items.
    """
    return fold(operation, items[0], items[1:], unroll=4)


# The probability of a score, by loss.


def matsushita_probability(z: AnyArray) -> AnyArray:
    """(1 + z / sqrt(4 + z^2)) / 2, the inverse link of Matsushita's loss.

    Negative scores take a form without cancellation, so that small probabilities stay distinct.
    """
    xp = array_namespace(z)
    half = xp.abs(z) / 2
    norm = xp.hypot(xp.ones_like(half), half)
    below = 0.5 / norm / (norm + half)
    return xp.where(z < 0, below, 1 - below)


def log_probability(z: AnyArray) -> AnyArray:
    """1 / (1 + 2^-z), the inverse link of the log loss in bits."""
    with np.errstate(over="ignore"):
        return 1 / (1 + array_namespace(z).exp2(-z))


def square_probability(z: AnyArray) -> AnyArray:
    """(z + 4) / 8 in [0, 1], the inverse link of the square loss."""
    return array_namespace(z).clip((z + 4) / 8, 0, 1)
