"""Random variates in double precision, from uniform 32-bit words, inside single-precision programs.

A mechanism promises a law, but a function of finitely many bits runs. The variates here are so
close to their laws that the distance has a small price in the ledger (`mechanism.Sampler`). There
are two reasons.

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

from dpbt.types import Array, Numbers

EXPONENTIAL_WORDS = 4
"""How many words one exponential variable takes."""

NORMAL_WORDS = 6
"""How many words two normal variables take."""

REACH = 44.0
"""Up to this value a lattice of 2^-127 moves less than 2^-63; the mass beyond is e^-44 < 2^-63."""

_HALF_WORD = np.float64(2.0**-32)


double_precision = functools.partial(jax.enable_x64, True)
"""() -> a scope in which arrays may be float64 under every global setting."""

double = jnp.float64
"""(array) -> the same numbers in float64; for use within `double_precision`."""


def positive(scale: Numbers) -> Array:
    """The scale, or 1 where it is 0, so that a quotient stays finite."""
    return jnp.where(scale > 0, scale, 1)


def log1p(x: Array, or_log: Array | bool = False) -> Array:
    """log(1 + x) of f64 x > -1, or where it is said log(-x); for use within `double_precision`.

    The former is x log(u) / (u - 1) with u = 1 + x, whose rounding cancels (Kahan). On CPUs
    `jnp.log1p` has a relative error of up to 2^-45. A logarithm takes longest, so there is one for
    both.
    """
    shifted = jax.lax.optimization_barrier(1 + x)  # compilers would simplify its rounding away
    log, moved = jnp.log(jnp.where(or_log, -x, shifted)), shifted - 1
    near = jnp.where(moved == 0, x, x * log / jnp.where(moved == 0, 1.0, moved))
    return jnp.where(or_log, log, near)


def small_expm1(x: Array) -> Array:
    """1 - exp(-x) of f64 x in 0..2^-12, by products and sums alone, whatever the compiler.

    What is left out is below 2^-54 of it. For use within `double_precision`.
    """
    return x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4)))


def small_log1p(x: Array) -> Array:
    """-log(1 - x) of f64 x in 0..2^-12, as `small_expm1`; what is left out is below 2^-62 of it."""
    return x * (1 + x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 5))))


def unit_interval(*bits: Array) -> Array:
    """f64 in (0, 1]: 0.w1 w2 ... to the base 2^32, plus half a unit in the last place.

    For use within `double_precision`. The result is rounded to 53 bits, however small it is.
    """
    below = jnp.float64(0.5)
    for word in reversed(bits):
        below = (double(word) + below) * _HALF_WORD
    return below


def exponential(bits: Array) -> Array:
    """f64[...]: Exp(1) variables from u32[4, ...]; for use within `double_precision`.

    The first bit chooses the half of (0, 1) that U lies in, and 126 bits its distance from 0 or
    from 1. The second bit is left for `sign_bit`.
    """
    distance = double(bits[0] & np.uint32(2**30 - 1))
    distance = (distance + unit_interval(bits[1], bits[2], bits[3])) * np.float64(2.0**-31)
    from_zero = bits[0] >> np.uint32(31) == 0
    return -log1p(-distance, from_zero)


def sign_bit(bits: Array) -> Array:
    """bool[...]: a fair coin from u32[4, ...], independent of `exponential` of the same bits."""
    return (bits[0] >> np.uint32(30)) & np.uint32(1) == 1


def normal(bits: Array) -> Array:
    """f64[2, ...]: independent standard normal variables (Box & Muller) from u32[6, ...].

    For use within `double_precision`. The absolute error is at most 2^-48 times the radius. The
    radius is at most sqrt(2 `REACH`) < 9.4, except with probability e^-44.
    """
    radius = jnp.sqrt(np.float64(2) * exponential(bits[:4]))
    angle = np.float64(2 * np.pi) * unit_interval(bits[4], bits[5])
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)])


def normals(bits: Array, shape: tuple[int, ...]) -> Array:
    """f64[*shape]: `normal` of u32[6, pairs], with the second of each pair in the second half."""
    pairs = normal(bits).reshape(-1)
    return pairs[: math.prod(shape)].reshape(shape)


def power_of_two(scale: Array, digits: int) -> Array:
    """f32[...]: the largest power of two that is at most scale / 2^digits, but at least 1.

    Args:
        scale: f32[...], above 0 and below 2^64.
        digits: in 0..31.
    """
    exponent = (jax.lax.bitcast_convert_type(scale, jnp.uint32) >> np.uint32(23)) & np.uint32(255)
    raised = jnp.maximum(exponent, np.uint32(127 + digits)) - np.uint32(digits)
    return jax.lax.bitcast_convert_type(raised << np.uint32(23), jnp.float32)


_DIGITS = 12
"""A geometric variable of scale 2^13 or more is drawn in two digits."""


def geometric(bits: Array, scale: Numbers) -> Array:
    """f64[...]: |k| for p(k) proportional to exp(-|k| / scale), from u32[8, ...].

    Below scale 2^13, |k| = floor(scale (E + c)) with E ~ Exp(1) and exp(c) = 2 / (1 + exp(-1 /
    scale)). Then P(|k| >= j) = exp(c - j / scale) for every j >= 1. From there on, |k| is 0 with
    probability tanh(1 / (2 scale)). Otherwise it is 1 plus a geometric variable, whose two digits
    to the base `step` are independent.
    """
    step = double(power_of_two(scale, _DIGITS))
    scale = double(scale)

    # One digit.
    shift = -log1p(np.float64(0.5) * jnp.expm1(-1 / scale))
    waited = exponential(bits[:4])
    direct = jnp.floor(scale * (waited + shift))

    # Two digits.
    high = jnp.floor(scale / step * waited)
    part = jnp.minimum(step / scale, np.float64(2.0**-_DIGITS))
    below = small_expm1(part) * unit_interval(bits[4], bits[5])
    low = jnp.minimum(jnp.floor(scale * small_log1p(below)), step - 1)
    zero = unit_interval(bits[6], bits[7]) < jnp.tanh(np.float64(0.5) / scale)
    digits = jnp.where(zero, np.float64(0), 1 + step * high + low)
    return jnp.where(step > 1, digits, direct)
