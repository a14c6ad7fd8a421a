"""Random variates in double precision, from uniform 32-bit words, inside single-precision programs.

A mechanism promises a law, but a function of finitely many bits runs. The variates here are so
close to their laws that the distance has a small price in the ledger
(`mechanism_prices.SamplerBound`). There are two reasons.

Bits. An exponential variable is -log(U), with U on a lattice of 2^-127 at *both* ends of (0, 1). So
neither large values nor small ones are coarse. At E = x the lattice moves the probability of an
outcome by at most 2^-127 e^x of it. An angle has 64 bits.

Arithmetic. Everything is computed in float64, by elementary functions with a relative error of at
most 2^-50, and expm1 and tanh of at most 2^-48. Compilers choose how they are computed, and
`tests/test_variates.py` measures them against wider numbers. A value computed here is within a
stated distance of an exact variable. So an integer that it is rounded to has a probability between
those of a slightly smaller and a slightly larger interval.

JAX keeps its default of 32 bits. `double_precision` opens a scope, and no 64-bit array leaves it.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32, Float64

from dpbt.types import Array, Numbers

EXPONENTIAL_WORDS = 4
"""How many words one exponential variable takes."""

NORMAL_WORDS = 6
"""How many words two normal variables take."""

GEOMETRIC_WORDS = 8
"""How many words one geometric magnitude takes."""

EXPONENTIAL_REACH = 44.0
"""Up to this value a lattice of 2^-127 moves less than 2^-63; the mass beyond is e^-44 < 2^-63."""

_WORD_UNIT = np.float64(2.0**-32)

double_precision = functools.partial(jax.enable_x64, True)
"""() -> a scope in which arrays may be float64 under every global setting."""

to_float64 = jnp.float64
"""(array) -> the same numbers in float64; for use within `double_precision`."""


def replace_zero_by_one(scale: Numbers) -> Array:
    """Replace a scale of 0 by 1, so that a quotient by it stays finite."""
    return jnp.where(scale > 0, scale, 1)


def log1p_or_log_of_negated(x: Array, *, is_log_of_negated: Array | bool = False) -> Array:
    """log(1 + x), or log(-x) where `is_log_of_negated` holds.

    x is f64, and above -1 in the former. For use within `double_precision`. The former is x log(u)
    / (u - 1) with u = 1 + x, whose rounding cancels (Kahan). On CPUs `jnp.log1p` has a relative
    error of up to 2^-45. A logarithm takes longest, so one is shared by both.
    """
    shifted = jax.lax.optimization_barrier(1 + x)  # compilers would simplify its rounding away
    log = jnp.log(jnp.where(is_log_of_negated, -x, shifted))
    rounded_x = shifted - 1
    ratio = x * log / jnp.where(rounded_x == 0, 1.0, rounded_x)
    log1p_of_x = jnp.where(rounded_x == 0, x, ratio)
    return jnp.where(is_log_of_negated, log, log1p_of_x)


def one_minus_exp_of_small(x: Array) -> Array:
    """1 - exp(-x) of f64 x in 0..2^-12.

    It is computed by products and sums alone, whatever the compiler. The terms that are left out
    are below 2^-54 of it. For use within `double_precision`.
    """
    return x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4)))


def minus_log_one_minus_small(x: Array) -> Array:
    """-log(1 - x) of f64 x in 0..2^-12.

    It is computed by products and sums alone, whatever the compiler. The terms that are left out
    are below 2^-62 of it.
    """
    return x * (1 + x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 5))))


def uniform_variables(*words: Array) -> Array:
    """f64[...]: uniform variables in (0, 1] from 32-bit random words.

    Each is of one or more words. They are 0.w1 w2 ... to the base 2^32, plus half a unit in the
    last place.

    For use within `double_precision`. The result is rounded to 53 bits, however small it is.
    """
    fraction = jnp.float64(0.5)
    for word in reversed(words):
        fraction = (to_float64(word) + fraction) * _WORD_UNIT
    return fraction


def exponential_variables(words: Array) -> Float64[Array, "..."]:
    """f64[...]: Exp(1) variables from random words u32[4, ...].

    For use within `double_precision`. The first bit chooses the half of (0, 1) that U lies in, and
    126 bits its distance from 0 or from 1. The second bit is left for `fair_coins`.
    """
    distance = to_float64(words[0] & np.uint32(2**30 - 1))
    distance = (distance + uniform_variables(words[1], words[2], words[3])) * np.float64(2.0**-31)
    is_from_zero = words[0] >> np.uint32(31) == 0
    return -log1p_or_log_of_negated(-distance, is_log_of_negated=is_from_zero)


def fair_coins(words: Array) -> Bool[Array, "..."]:
    """bool[...]: fair coins from random words u32[4, ...].

    They are independent of the `exponential_variables` of these words.
    """
    return (words[0] >> np.uint32(30)) & np.uint32(1) == 1


def normal_pairs(words: Array) -> Float64[Array, "2 ..."]:
    """f64[2, ...]: pairs of independent standard normal variables from words u32[6, ...].

    They are by the method of Box & Muller. For use within `double_precision`. The absolute error is
    at most 2^-48 times the radius. The radius is at most sqrt(2 `EXPONENTIAL_REACH`) < 9.4, except
    with probability e^-44.
    """
    radius = jnp.sqrt(np.float64(2) * exponential_variables(words[:EXPONENTIAL_WORDS]))
    angle = np.float64(2 * np.pi) * uniform_variables(words[4], words[5])
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)])


def normal_variables(words: Array, shape: tuple[int, ...]) -> Array:
    """f64[*shape]: independent standard normal variables from words u32[6, pairs].

    They are those of `normal_pairs`. The second of each pair is in the second half.
    """
    pairs = normal_pairs(words).reshape(-1)
    return pairs[: math.prod(shape)].reshape(shape)


def power_of_two_below(scale: Float32[Array, "..."], num_halvings: int) -> Float32[Array, "..."]:
    """f32[...]: the largest power of two that is at most scale / 2^num_halvings.

    It is at least 1.

    Args:
        scale: f32[...], above 0 and below 2^64.
        num_halvings: in 0..31.
    """
    exponent = (jax.lax.bitcast_convert_type(scale, jnp.uint32) >> np.uint32(23)) & np.uint32(255)
    lowered = jnp.maximum(exponent, np.uint32(127 + num_halvings)) - np.uint32(num_halvings)
    return jax.lax.bitcast_convert_type(lowered << np.uint32(23), jnp.float32)


_TWO_DIGIT_BITS = 12
"""A geometric variable of scale 2^13 or more is drawn in two digits."""


def two_sided_geometric_magnitudes(words: Array, scale: Numbers) -> Float64[Array, "..."]:
    """f64[...]: magnitudes |k| of discrete Laplace noise of a scale, from words u32[8, ...].

    The law is p(k) proportional to exp(-|k| / scale).

    Below scale 2^13, |k| = floor(scale (E + c)) with E ~ Exp(1) and exp(c) = 2 / (1 + exp(-1 /
    scale)). Then P(|k| >= j) = exp(c - j / scale) for every j >= 1. From there on, |k| is 0 with
    probability tanh(1 / (2 scale)). Otherwise it is 1 plus a geometric variable, whose two digits
    to the base `step` are independent.
    """
    step = to_float64(power_of_two_below(scale, _TWO_DIGIT_BITS))
    scale = to_float64(scale)

    # In one digit.
    shift = -log1p_or_log_of_negated(np.float64(0.5) * jnp.expm1(-1 / scale))
    variable = exponential_variables(words[:EXPONENTIAL_WORDS])
    magnitude_in_one_digit = jnp.floor(scale * (variable + shift))

    # In two digits.
    high_digit = jnp.floor(scale / step * variable)
    rate = jnp.minimum(step / scale, np.float64(2.0**-_TWO_DIGIT_BITS))
    level = one_minus_exp_of_small(rate) * uniform_variables(words[4], words[5])
    low_digit = jnp.minimum(jnp.floor(scale * minus_log_one_minus_small(level)), step - 1)
    is_zero = uniform_variables(words[6], words[7]) < jnp.tanh(np.float64(0.5) / scale)
    magnitude_in_two_digits = jnp.where(is_zero, np.float64(0), 1 + step * high_digit + low_digit)
    return jnp.where(step > 1, magnitude_in_two_digits, magnitude_in_one_digit)
