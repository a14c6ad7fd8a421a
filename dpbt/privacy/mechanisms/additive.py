"""Additive noise on integers: discrete Laplace, and rounded Gaussian."""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from dpbt.common.types import Array
from dpbt.privacy import variates
from dpbt.privacy.keys import words
from dpbt.privacy.mechanism import GAUSSIAN, LAPLACE, Mechanism, Numbers, Sampler, StepLoss
from dpbt.privacy.variates import positive

MAX_DISCRETE_SCALE = 2.0**32
"""The largest scale for which the samplers of integer noise keep their bound."""

SATURATION = 2**31 - 2**21
"""Integer noise returns integers in [-SATURATION, SATURATION]; sums beyond are clamped."""

_LAPLACE_DIGITS = 12
"""A discrete Laplace variable of scale 2^13 or more is drawn in two digits; see `_magnitude`."""

_GAUSSIAN_DIGITS = 11
"""A rounded Gaussian of scale 2^12 or more is rounded to a step of at least scale / 2^12."""


def _laplace_tail(shift: float) -> float:
    return min(1.0, 2.0**-62 * math.exp(min(shift, 700.0)))


def _gaussian_tail(shift: float) -> float:
    """The mass of the pairs whose radius around one of the two values is beyond 9.3 scales."""
    return math.exp(-(max(9.3 - shift, 0.0) ** 2) / 2)


def _at_value(output: Array, value: Array) -> Array:
    """The log density of the noise-free limit: 0 at the value, -inf elsewhere."""
    return jnp.where(output == value, 0.0, -jnp.inf)


def _laplace_loss(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> StepLoss:
    """Sum of |difference| / scale, the max-divergence of Laplace noise; inf if scales differ."""
    moved = jnp.abs(jnp.asarray(value - other_value, jnp.float32))
    noisy = jnp.where(moved > 0, moved / positive(scale), 0)
    without = jnp.where(moved > 0, jnp.inf, 0)
    each = jnp.where(scale == other_scale, jnp.where(scale > 0, noisy, without), jnp.inf)
    return StepLoss.of_pure(jnp.sum(each))


def _gaussian_loss(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> StepLoss:
    same = jnp.all((value == other_value) & (scale == other_scale))
    moved = jnp.abs(jnp.asarray(value - other_value, jnp.float32))
    private = jnp.where(scale > 0, (moved / positive(scale)) ** 2 / 2, jnp.inf)
    rho = jnp.sum(jnp.where(moved > 0, private, 0))
    rho = rho + jnp.where(scale == other_scale, 0.0, jnp.inf)
    return StepLoss(jnp.where(same, 0.0, jnp.inf), rho)


def _released(total: Array, value: Array) -> Array:
    """Of a sum with noise, f64 of a value in f64; else i32 clamped to +-SATURATION."""
    if value.dtype == jnp.float64:
        return total
    return jnp.clip(total, -np.float64(SATURATION), np.float64(SATURATION)).astype(jnp.int32)


def _magnitude(bits: Array, scale: Numbers) -> Array:
    """f64[...]: |k| for p(k) proportional to exp(-|k| / scale), from u32[8, ...].

    Below scale 2^13, |k| = floor(scale (E + c)) with E ~ Exp(1) and exp(c) = 2 / (1 + exp(-1 /
    scale)). Then P(|k| >= j) = exp(c - j / scale) for every j >= 1. From there on, |k| is 0 with
    probability tanh(1 / (2 scale)). Otherwise it is 1 plus a geometric variable, whose two digits
    to the base `step` are independent.
    """
    step = variates.double(variates.power_of_two(scale, _LAPLACE_DIGITS))
    scale = variates.double(scale)

    # One digit.
    shift = -variates.log1p(np.float64(0.5) * jnp.expm1(-1 / scale))
    waited = variates.exponential(bits[:4])
    direct = jnp.floor(scale * (waited + shift))

    # Two digits.
    high = jnp.floor(scale / step * waited)
    part = jnp.minimum(step / scale, np.float64(2.0**-_LAPLACE_DIGITS))
    below = variates.small_expm1(part) * variates.unit_interval(bits[4], bits[5])
    low = jnp.minimum(jnp.floor(scale * variates.small_log1p(below)), step - 1)
    zero = variates.unit_interval(bits[6], bits[7]) < jnp.tanh(np.float64(0.5) / scale)
    digits = jnp.where(zero, np.float64(0), 1 + step * high + low)
    return jnp.where(step > 1, digits, direct)


def _discrete_laplace_sample(key: Array, value: Array, scale: Numbers) -> Array:
    bits = words(key, 8, jnp.shape(value))
    with variates.double_precision():
        scale = jnp.broadcast_to(jnp.asarray(scale, jnp.float32), jnp.shape(value))
        size = _magnitude(bits, positive(scale))
        noise = jnp.where(variates.sign_bit(bits), -size, size)
        noisy = variates.double(value) + jnp.where(scale > 0, noise, np.float64(0))
        return _released(noisy, value)


def _discrete_laplace_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    safe = positive(scale)
    above = (output - value).astype(jnp.uint32)  # modulo 2**32, where the true distance fits
    distance = jnp.where(output >= value, above, -above).astype(jnp.float32) / safe
    inside = jnp.log(jnp.tanh(0.5 / safe)) - distance
    tail = -jnp.log1p(jnp.exp(-1 / safe)) - distance
    density = jnp.where(jnp.abs(output) == SATURATION, tail, inside)
    return jnp.where(scale > 0, density, _at_value(output, value))


discrete_laplace = Mechanism(
    "discrete laplace",
    _discrete_laplace_sample,
    _discrete_laplace_log_prob,
    _laplace_loss,
    LAPLACE._replace(sampler=Sampler(gap=2.0**-28, tail=_laplace_tail, most=MAX_DISCRETE_SCALE)),
)
"""Integer value plus two-sided geometric noise, p(k) proportional to exp(-|k| / scale).

epsilon = L1 sensitivity / scale (Ghosh et al., 2009). Values are i32 within +-`SATURATION`. Sums
beyond it are clamped, which is post-processing that `log_prob` counts. Scales go up to
`MAX_DISCRETE_SCALE`.

The sampler, up to 44 scales; beyond lies a mass below 2^-63. An exponential variable is computed to
within 2^-50 of itself (`variates`). In one digit the value that is floored is below 44 * 2^13. So
its error is below 2^-31.5, and moves the probability of an outcome by less than 2^-30.5 of it. In
two digits the higher one is below 44 * 2^13 as well. The lower one is below 2^20, is computed by
polynomials to within 9 roundings of 2^-53, and its error moves less than 2^-28.8. The choice of 0
moves less than 2^-30.9: its lattice 2^-31, and a tanh that is within 2^-48 no more than that. The
lattice of the variable moves less than 2^-62. Together these are less than 2^-28.1.
"""


def rounding_step(scale: Numbers) -> Array:
    """f32[...]: the public step that `rounded_gaussian` rounds to: 1 below scale 2^12.

    From there on it is the largest power of two that is at most scale / 2^11, so that rounding adds
    less than 10^-7 of the variance.
    """
    return variates.power_of_two(positive(jnp.asarray(scale, jnp.float32)), _GAUSSIAN_DIGITS)


def _rounded_gaussian_sample(key: Array, value: Array, scale: Numbers) -> Array:
    shape = jnp.shape(value)
    bits = words(key, variates.NORMAL_WORDS, ((math.prod(shape) + 1) // 2,))
    with variates.double_precision():
        exactly = variates.double(value)
        scale = jnp.broadcast_to(jnp.asarray(scale, jnp.float32), shape)
        step = variates.double(rounding_step(scale))
        whole = jnp.floor(exactly / step)
        rest = exactly / step - whole
        noise = variates.double(scale) / step * variates.normals(bits, shape)
        noisy = jnp.where(scale > 0, step * (whole + jnp.round(rest + noise)), exactly)
        return _released(noisy, value)


def _rounded_gaussian_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    """Log of Phi((o + step / 2 - v) / scale) - Phi((o - step / 2 - v) / scale), by lower tails."""
    with variates.double_precision():
        step = variates.double(rounding_step(scale))
        width, distance = variates.double(positive(scale)), variates.double(output)
        distance = jnp.abs(distance - variates.double(value))
        near = log_ndtr((step / 2 - distance) / width)
        far = log_ndtr((-step / 2 - distance) / width)
        bin = near + jnp.log(-jnp.expm1(jnp.minimum(far - near, -np.float64(1e-300))))

        saturated = np.float64(SATURATION)
        ends = jnp.abs(variates.double(output)) == saturated
        density = jnp.where(ends, near, bin)
        on_grid = jnp.floor(variates.double(output) / step) * step == variates.double(output)
        density = jnp.where(on_grid, density, -np.float64(np.inf)).astype(jnp.float32)
    return jnp.where(scale > 0, density, _at_value(output, value))


rounded_gaussian = Mechanism(
    "rounded gaussian",
    _rounded_gaussian_sample,
    _rounded_gaussian_log_prob,
    _gaussian_loss,
    GAUSSIAN._replace(sampler=Sampler(gap=2.0**-29, tail=_gaussian_tail, most=MAX_DISCRETE_SCALE)),
)
"""round(value + N(0, scale^2)) of an integer value, to multiples of `rounding_step(scale)`.

Rounding to a public step is post-processing of the Gaussian mechanism. So it is exactly
(L2 sensitivity / scale)-GDP and (L2 sensitivity)^2 / (2 scale^2)-zCDP (Dong, Roth & Su, 2022). A
discrete Gaussian has only the latter. Values, clamping and scales are those of `discrete_laplace`.

The sampler, up to a radius of 9.3 for each pair that is made together; the rest is the tail. A
normal variable is within 2^-48 * 9.3 of an exact one. So a noisy value in units of the step, at
most 9.3 * 2^12, is within 2^-32 of an exact one. That moves the probability of each of a pair by
less than 2^-31 of it, and the pair's by 2^-30. The lattices of radius and angle move less than
2^-40.
"""
