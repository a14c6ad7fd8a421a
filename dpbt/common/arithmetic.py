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
from jaxtyping import Float32, Int32

from dpbt.public_types import AnyArray

LN2 = math.log(2)
"""The natural logarithm of 2: nats in a bit."""

_MAX_FLOAT32 = np.finfo(np.float32).max


def array_namespace(*arrays: Any) -> ModuleType:
    """The module to compute with: `numpy` if all arrays are of NumPy, else `jax.numpy`.

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
    """Fold a step over items: `step(... step(start, first item) ..., last item)`.

    Args:
        step: (total, item) -> total.
        start: the total of no items.
        items: an array or a tuple of arrays, whose first axis has the items. With JAX a pytree.
        unroll: how many steps of the scan are unrolled.
    """
    if array_namespace(start, items) is not np:
        import jax

        from dpbt.common.devices import is_within_shard_map, vary_like

        if is_within_shard_map():
            start = vary_like(start, jax.eval_shape(lambda: step(start, _blank_item(items))))
        return jax.lax.scan(
            lambda total, item: (step(total, item), None), start, items, unroll=unroll
        )[0]

    if not isinstance(items, tuple):
        return functools.reduce(step, map(np.asarray, items), start)
    as_tuple = getattr(type(items), "_make", tuple)
    arrays = (as_tuple(map(np.asarray, item)) for item in zip(*items, strict=True))
    return functools.reduce(step, arrays, start)


def _blank_item(items: Any) -> Any:
    """Zeros of the shapes and types of one of some items of JAX.

    There may be no items.
    """
    import jax

    from dpbt.common.devices import vary_like

    return jax.tree.map(
        lambda array: vary_like(jax.numpy.zeros(array.shape[1:], array.dtype), array), items
    )


def map_over_first_axis(function: Callable[[Any], Any], arrays: Any) -> Any:
    """Apply a function to each item of the first axis in turn, and stack the results.

    Args:
        function: item -> array, where an item is a tuple with an entry of each array.
        arrays: a tuple of arrays, whose first axis has the items.
    """
    if array_namespace(arrays) is not np:
        import jax

        return jax.lax.map(function, arrays)
    return np.stack([function(item) for item in zip(*arrays, strict=True)])


def round_separately(product: AnyArray) -> Float32[AnyArray, "..."]:
    """f32[...]: round a finite product to float32 before it is added to anything.

    A compiler may join a product and the sum that it is added to into one operation, which rounds
    once. Whether it does so depends on the program around them. A fit in memory and a fit by blocks
    are different programs, and must agree on every bit.
    """
    return clamp(product, -_MAX_FLOAT32, _MAX_FLOAT32)


def clamp(x: AnyArray, lowest: Any, highest: Any) -> AnyArray:
    """[...]: limit numbers to a range.

    What lies outside is at the nearest end, and NaN stays NaN. With JAX it is one operation, which
    is traced and lowered in a fifth of the time of `jnp.clip`.
    """
    if array_namespace(x) is np:
        return np.clip(x, lowest, highest)
    import jax

    array = x if isinstance(x, jax.Array) else jax.numpy.asarray(x)
    return jax.lax.clamp(array.dtype.type(lowest), array, array.dtype.type(highest))


def sum_in_order(items: AnyArray) -> AnyArray:
    """[...]: the sum over the first axis, added one item after the other."""
    return _reduce_first_axis(array_namespace(items).add, items)


def mean_in_order(items: AnyArray) -> AnyArray:
    """[...]: the mean over the first axis, added one item after the other."""
    return round_separately(sum_in_order(items) * np.float32(1 / len(items)))


def softmax_in_bits(scores: AnyArray) -> Float32[AnyArray, "K ..."]:
    """f32[K, ...]: the share of each class in 2^score, for scores in bits.

    The first axis is that of the classes. Shares are in [0, 1] however numbers are rounded.
    Infinite scores count as the largest float32. A NaN among the scores of a row makes all its
    shares NaN.
    """
    xp, finite = array_namespace(scores), round_separately(scores)  # the clip makes them finite
    largest = _reduce_first_axis(xp.maximum, finite)
    powers = round_separately(portable_exp2(finite - largest[None]))
    return clamp(multiply_by_reciprocal(powers, sum_in_order(powers)[None]), 0, 1)


def _reduce_first_axis(operation: Callable[[Any, Any], Any], items: Any) -> Any:
    """[...]: reduce the first axis by an operation, in the order of its items.

    On CPUs, XLA's own reductions over a first axis are not vectorized and take ten times as long.
    Without a loop, the time to compile explodes with the number of items.
    """
    return fold(operation, items[0], items[1:], unroll=4)


# Powers and logarithms. Those of a compiler take another way for the last few entries of an array
# than for the others, and so round otherwise under vmap. These are sums and products, each of which
# is rounded by itself. They are within 4 2^-24 of exact, as a share of it.

_EXP2_COEFFICIENTS = (
    1.0,
    0.69314718,
    0.24022651,
    0.05550327,
    0.009618057,
    0.0013400428,
    0.00015461445,
)
"""The coefficients of a polynomial in r that is 2^r on [-1/2, 1/2].

It interpolates 2^r at Chebyshev's nodes.
"""

_EXP_COEFFICIENTS = (1.0, 1.0, 0.5, 0.16666415, 0.04166635, 0.008375126, 0.0013941108)
"""The coefficients of a polynomial in r that is e^r on [-ln(2)/2, ln(2)/2]."""

_LN2_HIGH = np.float32(0.693359375)
"""The larger of two parts of ln(2). It has so few bits that its multiples are exact."""

_LN2_LOW = np.float32(-2.12194440e-4)
"""The smaller part of ln(2), which is what the larger one leaves."""

_MIN_EXPONENT = np.float32(-125.5)
"""The least exponent: smaller powers of two are not normal, and some processors take them for 0."""

_MAX_EXPONENT = np.float32(254)
"""The largest exponent that two exact products can reach."""

_EXPONENT_BIAS = 127
"""The number that a float32 adds to its exponent."""

_MANTISSA_BITS = 23
"""The number of bits of the mantissa of a float32."""

_SQRT_HALF_BITS = 0x3F3504F3
"""The bits of sqrt(1/2) as a float32."""


def portable_exp2(x: AnyArray) -> AnyArray:
    """2^x, rounded to float32 alike in every program.

    It is 0 below -126, and infinite from 128 on.
    """
    if _has_more_bits_than_float32(x):
        return array_namespace(x).exp2(x)
    xp = array_namespace(x)
    bounded = clamp(x, _MIN_EXPONENT, _MAX_EXPONENT)
    whole = xp.floor(bounded + np.float32(0.5))
    power = _times_power_of_two(_evaluate_polynomial(_EXP2_COEFFICIENTS, bounded - whole), whole)
    return xp.where(x < _MIN_EXPONENT, np.float32(0), power)


def portable_exp(x: AnyArray) -> AnyArray:
    """e^x, rounded to float32 alike in every program.

    It is 0 below -87, and infinite from 89 on.
    """
    if _has_more_bits_than_float32(x):
        return array_namespace(x).exp(x)
    xp = array_namespace(x)
    lowest, highest = np.float32(_MIN_EXPONENT * LN2), np.float32(_MAX_EXPONENT * LN2)
    bounded = clamp(round_separately(x), lowest, highest)
    whole = xp.floor(round_separately(bounded * np.float32(1 / LN2)) + np.float32(0.5))
    rest = bounded - whole * _LN2_HIGH  # exact, whether or not it is one operation
    rest = rest - round_separately(whole * _LN2_LOW)
    power = _times_power_of_two(_evaluate_polynomial(_EXP_COEFFICIENTS, rest), whole)
    return xp.where(x < lowest, np.float32(0), power)


def portable_log2(x: AnyArray) -> AnyArray:
    """log2(x), rounded to float32 alike in every program.

    x is a normal positive float32.
    """
    if _has_more_bits_than_float32(x):
        return array_namespace(x).log2(x)
    xp = array_namespace(x)

    # x = mantissa 2^exponent with a mantissa in [sqrt(1/2), sqrt(2)).
    exponent = (_int32_bits_of_float32(x) - np.int32(_SQRT_HALF_BITS)) >> np.int32(_MANTISSA_BITS)
    mantissa = _times_power_of_two(x, -exponent)

    # log(m) = 2 artanh(s) with s = (m - 1) / (m + 1), by its series.
    ratio = round_separately((mantissa - 1) / (mantissa + 1))
    series = tuple(2 / LN2 / (2 * k + 1) for k in range(5))
    of_mantissa = ratio * _evaluate_polynomial(series, round_separately(ratio * ratio))
    return exponent.astype(xp.float32) + round_separately(of_mantissa)


def portable_log(x: AnyArray) -> AnyArray:
    """ln(x), rounded to float32 alike in every program.

    x is a normal positive float32.
    """
    if _has_more_bits_than_float32(x):
        return array_namespace(x).log(x)
    return round_separately(portable_log2(x) * np.float32(LN2))


def portable_sigmoid(x: AnyArray) -> AnyArray:
    """1 / (1 + e^-x), rounded to float32 alike in every program."""
    return 1 / (1 + round_separately(portable_exp(-x)))


def _has_more_bits_than_float32(x: AnyArray) -> bool:
    """Whether numbers have more bits than float32.

    Numbers of Python and those of NumPy's default type do.
    """
    return getattr(x, "dtype", np.dtype(float)) == np.float64


def _evaluate_polynomial(coefficients: tuple[float, ...], x: AnyArray) -> AnyArray:
    """Evaluate the polynomial with these coefficients, by Horner's rule.

    The coefficient of the lowest power is the first.
    """
    total = np.float32(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = round_separately(total * x) + np.float32(coefficient)
    return total


def _times_power_of_two(mantissa: AnyArray, exponent: AnyArray) -> AnyArray:
    """Multiply by 2^exponent, by two exact products.

    Exponents are whole numbers in -128..254.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        whole = exponent.astype(np.int32)
        half = whole >> np.int32(1)
        return mantissa * _power_of_two(half) * _power_of_two(whole - half)


def _power_of_two(exponent: AnyArray) -> AnyArray:
    """2^exponent as float32, for i32 exponents in -126..127."""
    return _float32_of_int32_bits((exponent + np.int32(_EXPONENT_BIAS)) << np.int32(_MANTISSA_BITS))


def _int32_bits_of_float32(x: AnyArray) -> Int32[AnyArray, "..."]:
    """i32[...]: the bits of each float32 as an integer."""
    if array_namespace(x) is np:
        return np.asarray(x, np.float32).view(np.int32)
    import jax

    return jax.lax.bitcast_convert_type(x, np.int32)


def _float32_of_int32_bits(bits: AnyArray) -> Float32[AnyArray, "..."]:
    """f32[...]: the float32 that has the bits of each i32 number."""
    if array_namespace(bits) is np:
        return np.asarray(bits, np.int32).view(np.float32)
    import jax

    return jax.lax.bitcast_convert_type(bits, np.float32)


def multiply_by_reciprocal(items: AnyArray, divisor: AnyArray) -> AnyArray:
    """Divide items by a divisor of fewer axes, as a product with its reciprocal.

    The result is the quotient up to rounding, for finite items. A compiler makes this product of
    such a division in the programs in which it sees that the divisor is the same for many items,
    under vmap for example. Here it is one in all of them.
    """
    return round_separately(items * round_separately(1 / divisor))


# The probability of a score, by loss.


def matsushita_loss_probability(z: AnyArray) -> AnyArray:
    """(1 + z / sqrt(4 + z^2)) / 2, the inverse link of Matsushita's loss.

    Negative scores take a form without cancellation, so that small probabilities stay distinct.
    """
    xp = array_namespace(z)
    half = xp.abs(z) / 2
    norm = xp.hypot(xp.ones_like(half), half)
    below = 0.5 / norm / (norm + half)
    return xp.where(z < 0, below, 1 - below)


def log_loss_probability(z: AnyArray) -> AnyArray:
    """1 / (1 + 2^-z), the inverse link of the log loss in bits."""
    with np.errstate(over="ignore"):
        return 1 / (1 + portable_exp2(-z))


def square_loss_probability(z: AnyArray) -> AnyArray:
    """(z + 4) / 8 in [0, 1], the inverse link of the square loss."""
    return clamp((z + 4) / 8, 0, 1)
