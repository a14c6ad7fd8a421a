"""Mechanisms: sampler, density, divergence and price of every draw that leaves the private side.

`scale` is the noise: the Laplace or Gaussian scale, or the temperature of the exponential mechanism
(p proportional to exp(score / scale)). Scale 0 is the noise-free limit, which the non-private mode
uses. Its log probability is 0 for the limit's output and -inf for every other output.

With s = sensitivity / scale, one draw costs:

| Mechanism                       | Sensitivity   | epsilon  | rho (zCDP) |
|---------------------------------|---------------|----------|------------|
| `discrete_laplace`              | L1 norm       | s        | s^2 / 2    |
| `rounded_gaussian`              | L2 norm       | infinite | s^2 / 2    |
| `exponential`                   | range of the change of scores | s | s^2 / 8 |
| `noisy_max`                     | range of the change of scores | s | s^2 / 2 |
| `uniform`, `assignment`         | never read the rows | 0  | 0          |

Densities are exact formulas. Samplers draw from finitely many bits in double precision. Each
mechanism states how far its sampler can be from its law (`mechanism_prices.SamplerBound`), and the
ledger has a line for it. A mechanism of your own that states no such bound marks its ledgers FLOAT.
Real noise in float32 is an example: its reachable values depend on the private value (Mironov,
2012).
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Bool, Float32, Int32, UInt32

from dpbt.common.arithmetic import LN2
from dpbt.common.compilation import reuse_trace
from dpbt.privacy import mechanism_prices, variates
from dpbt.privacy.keys import random_words
from dpbt.privacy.mechanism_prices import MAX_DISCRETE_SCALE as MAX_DISCRETE_SCALE
from dpbt.privacy.mechanism_types import Mechanism, Numbers, WorstCaseLoss
from dpbt.privacy.variates import replace_zero_by_one
from dpbt.public_types import redacted_repr
from dpbt.types import UNSPLIT, Array

# Additive noise on integers.

SATURATION = 2**31 - 2**21
"""Integer noise returns integers in [-SATURATION, SATURATION]; sums beyond are clamped."""

_LOG2_STEPS_IN_SCALE = 11
"""From scale 2^12 on, the step of a rounded Gaussian is in scale / 2^12..scale / 2^11."""


def _noise_free_log_prob(output: Array, value: Array) -> Array:
    """The log density of an output without noise: 0 at the value, -inf elsewhere."""
    return jnp.where(output == value, 0.0, -jnp.inf)


def _distances_in_scales(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> Float32[Array, "..."]:
    """f32[...]: the distance |value - other value| / scale.

    It is infinite without noise or if the scales differ. Equal entries have a distance of 0,
    without noise, too.
    """
    distance = jnp.abs(jnp.asarray(value - other_value, jnp.float32))
    in_scales = jnp.where(scale > 0, distance / replace_zero_by_one(scale), jnp.inf)
    return jnp.where(scale == other_scale, jnp.where(distance > 0, in_scales, 0), jnp.inf)


def _laplace_loss(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> WorstCaseLoss:
    """The worst-case privacy loss of Laplace noise between two values.

    Its pure epsilon is the sum of |difference| / scale.
    """
    distances = _distances_in_scales(value, scale, other_value, other_scale)
    return WorstCaseLoss.from_pure_epsilon(jnp.sum(distances))


def _gaussian_loss(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> WorstCaseLoss:
    """The worst-case privacy loss of Gaussian noise between two values.

    Its rho is the sum of (difference / scale)^2 / 2. There is no pure epsilon unless the values are
    equal.
    """
    distances = _distances_in_scales(value, scale, other_value, other_scale)
    pure = jnp.where(jnp.all(distances == 0), 0.0, jnp.inf)
    return WorstCaseLoss(pure=pure, rho=jnp.sum(distances**2 / 2))


def _clamp_to_int32_unless_float64(noisy_value: Array, value: Array) -> Array:
    """Clamp a noisy value to +-SATURATION and cast it to int32, unless the value is float64."""
    if value.dtype == jnp.float64:
        return noisy_value
    if not jnp.issubdtype(value.dtype, jnp.integer):
        raise ValueError(
            f"integer noise takes whole numbers, an integer type or float64, got {value.dtype}"
        )
    limit = np.float64(SATURATION)
    return jnp.clip(noisy_value, -limit, limit).astype(jnp.int32)


@reuse_trace
def _sample_discrete_laplace(key: Array, value: Array, scale: Numbers) -> Array:
    words = random_words(key, variates.GEOMETRIC_WORDS, jnp.shape(value))
    with variates.double_precision():
        scale = jnp.broadcast_to(jnp.asarray(scale, jnp.float32), jnp.shape(value))
        magnitude = variates.two_sided_geometric_magnitudes(words, replace_zero_by_one(scale))
        noise = jnp.where(variates.fair_coins(words), -magnitude, magnitude)
        noisy = variates.to_float64(value) + jnp.where(scale > 0, noise, np.float64(0))
        return _clamp_to_int32_unless_float64(noisy, value)


def _discrete_laplace_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    positive_scale = replace_zero_by_one(scale)
    difference = (output - value).astype(jnp.uint32)  # modulo 2**32, where the true distance fits
    distance = jnp.where(output >= value, difference, -difference).astype(jnp.float32)
    distance = distance / positive_scale
    log_prob_of_integer = jnp.log(jnp.tanh(0.5 / positive_scale)) - distance
    log_prob_of_tail = -jnp.log1p(jnp.exp(-1 / positive_scale)) - distance
    is_saturated = jnp.abs(output) == SATURATION
    log_prob = jnp.where(is_saturated, log_prob_of_tail, log_prob_of_integer)
    return jnp.where(scale > 0, log_prob, _noise_free_log_prob(output, value))


discrete_laplace = Mechanism(
    "discrete laplace",
    _sample_discrete_laplace,
    _discrete_laplace_log_prob,
    _laplace_loss,
    mechanism_prices.DISCRETE_LAPLACE,
)
"""Integer value plus two-sided geometric noise, p(k) proportional to exp(-|k| / scale).

epsilon = L1 sensitivity / scale (Ghosh et al., 2009). Values are i32 within +-`SATURATION`. Sums
beyond it are clamped, which is post-processing that `log_prob` counts. Scales go up to
`MAX_DISCRETE_SCALE`.

The sampler, up to 44 scales, beyond which lies a mass below 2^-63. An exponential variable is
computed to within 2^-50 of itself (`variates`). In one digit the value that is floored is below 44
* 2^13. So its error is below 2^-31.5, and moves the probability of an outcome by less than 2^-30.5
of it. In two digits the higher one is below 44 * 2^13 as well. The lower one is below 2^20, is
computed by polynomials to within 9 roundings of 2^-53, and its error moves less than 2^-28.8. The
choice of 0 moves less than 2^-30.9: its lattice 2^-31, and a tanh that is within 2^-48 no more than
that. The lattice of the variable moves less than 2^-62. Together these are less than 2^-28.1.
"""


def rounded_gaussian_step(scale: Numbers) -> Float32[Array, "..."]:
    """f32[...]: the public step that `rounded_gaussian` rounds to at a scale.

    It is 1 below scale 2^12. From there on it is the largest power of two that is at most scale /
    2^11, so that rounding adds less than 10^-7 of the variance.
    """
    return variates.power_of_two_below(
        replace_zero_by_one(jnp.asarray(scale, jnp.float32)), _LOG2_STEPS_IN_SCALE
    )


@reuse_trace
def _sample_rounded_gaussian(key: Array, value: Array, scale: Numbers) -> Array:
    shape = jnp.shape(value)
    words = random_words(key, variates.NORMAL_WORDS, ((math.prod(shape) + 1) // 2,))
    with variates.double_precision():
        value_f64 = variates.to_float64(value)
        scale = jnp.broadcast_to(jnp.asarray(scale, jnp.float32), shape)
        step = variates.to_float64(rounded_gaussian_step(scale))
        steps_below = jnp.floor(value_f64 / step)
        remainder = value_f64 / step - steps_below
        noise = variates.to_float64(scale) / step * variates.normal_variables(words, shape)
        noisy_steps = steps_below + jnp.round(remainder + noise)
        noisy = jnp.where(scale > 0, step * noisy_steps, value_f64)
        return _clamp_to_int32_unless_float64(noisy, value)


def _rounded_gaussian_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    """The log probability of an output of rounded Gaussian noise.

    It is the log of Phi((o + step / 2 - v) / scale) - Phi((o - step / 2 - v) / scale), by lower
    tails.
    """
    with variates.double_precision():
        step = variates.to_float64(rounded_gaussian_step(scale))
        deviation = variates.to_float64(replace_zero_by_one(scale))
        output_f64 = variates.to_float64(output)
        distance = jnp.abs(output_f64 - variates.to_float64(value))
        log_tail_near = log_ndtr((step / 2 - distance) / deviation)
        log_tail_far = log_ndtr((-step / 2 - distance) / deviation)
        log_ratio = jnp.minimum(log_tail_far - log_tail_near, -np.float64(1e-300))
        log_prob_of_step = log_tail_near + jnp.log(-jnp.expm1(log_ratio))

        is_saturated = jnp.abs(output_f64) == np.float64(SATURATION)
        log_prob = jnp.where(is_saturated, log_tail_near, log_prob_of_step)
        is_on_grid = jnp.floor(output_f64 / step) * step == output_f64
        log_prob = jnp.where(is_on_grid, log_prob, -np.float64(np.inf)).astype(jnp.float32)
    return jnp.where(scale > 0, log_prob, _noise_free_log_prob(output, value))


rounded_gaussian = Mechanism(
    "rounded gaussian",
    _sample_rounded_gaussian,
    _rounded_gaussian_log_prob,
    _gaussian_loss,
    mechanism_prices.ROUNDED_GAUSSIAN,
)
"""round(value + N(0, scale^2)) of an integer value, to multiples of `rounded_gaussian_step(scale)`.

Rounding to a public step is post-processing of the Gaussian mechanism. So it is exactly
(L2 sensitivity / scale)-GDP and (L2 sensitivity)^2 / (2 scale^2)-zCDP (Dong, Roth & Su, 2022). A
discrete Gaussian has only the latter. Values, clamping and scales are those of `discrete_laplace`.

The sampler, up to a radius of 9.3 for each pair that is drawn together; the rest is the tail. A
normal variable is within 2^-48 * 9.3 of an exact one. So a noisy value in units of the step, at
most 9.3 * 2^12, is within 2^-32 of an exact one. That moves the probability of each of a pair by
less than 2^-31 of it, and the pair's by 2^-30. The lattices of radius and angle move less than
2^-40.
"""


# Selections.

MAX_SCALES_BEHIND = 32.0
"""An allowed candidate counts as at most so many scales behind the best one.

A candidate so far behind would be drawn with probability e^-32. Raising it there keeps every
outcome reachable, which a sampler of finitely many bits could not promise otherwise.

It costs no privacy. If a row moves all scores by something in [a, b], it moves the best of them by
something in [a, b]. So it also moves the larger of a score and (best - 32 scales) by something in
[a, b].
"""

MAX_CANDIDATES = 2**20
"""The largest number of candidates of one draw for which the samplers' bound holds."""


class Scores(NamedTuple):
    """Scores as pairs of float32, high + low.

    A forbidden candidate has a high of -inf and a low of 0.

    Attributes:
        high: f32[..., K], the scores rounded to float32.
        low: f32[..., K], the scores minus `high`.
    """

    high: Array
    low: Array

    __repr__ = redacted_repr


def behind_best(values: Array, allowed: Bool[Array, "... K"] | None = None) -> Scores:
    """Subtract the best allowed score of its draw from each score, as pairs of float32.

    Selections read differences alone, so the law is the same. The pair is off by at most 2^-48 of
    the difference.

    Subtracting the best score costs no privacy. If a row moves all scores by something in [a, b],
    it moves the best of them by something in [a, b] too. So all differences move by something in
    [a - c, b - c] for one c, which is a range of the same length.

    Args:
        values: i32[..., K], or f64[..., K] within `variates.double_precision`; finite.
        allowed: bool[..., K], which candidates may be drawn; None for all.
    """
    with variates.double_precision():
        scores = variates.to_float64(values)
        if allowed is not None:
            scores = jnp.where(allowed, scores, np.float64(-np.inf))
        best = jnp.max(scores, axis=-1, keepdims=True)
        relative = scores - jnp.where(jnp.isneginf(best), np.float64(0), best)

        # An explicit rounding, which no compiler may leave out, and its error.
        rounded = jax.lax.reduce_precision(relative, exponent_bits=8, mantissa_bits=23)
        rest = jnp.where(jnp.isneginf(relative), np.float64(0), relative - rounded)
        return Scores(high=rounded.astype(jnp.float32), low=rest.astype(jnp.float32))


class _Logits(NamedTuple):
    """The scores of a selection in units of the scale, behind the best one.

    Attributes:
        values: f64[..., K], (score - best score) / scale, and at least -`MAX_SCALES_BEHIND`. It is
            -inf for forbidden candidates, and 0 at an infinite scale.
        is_noise_free: bool[..., 1], whether the scale is 0.
    """

    values: Array
    is_noise_free: Array


def _logits_of_scores(scores_or_pair: Array | Scores, scale: Numbers) -> _Logits:
    """The logits of a selection: (score - best score) / scale, at least -`MAX_SCALES_BEHIND`.

    For use within `variates.double_precision`.

    Differences are taken first, so that large scores keep the digits that tell them apart.
    """
    is_pair = isinstance(scores_or_pair, Scores)
    high, low = scores_or_pair if is_pair else (scores_or_pair, 0)
    scores = variates.to_float64(high) + variates.to_float64(low)
    if scores.shape[-1] > MAX_CANDIDATES:
        raise ValueError(
            f"a selection has at most {MAX_CANDIDATES} candidates, got {scores.shape[-1]}"
        )
    scale_f32 = jnp.broadcast_to(jnp.asarray(scale, jnp.float32), scores.shape[:-1])[..., None]
    scale = variates.to_float64(scale_f32)
    best = jnp.max(scores, axis=-1, keepdims=True)
    best = jnp.where(jnp.isneginf(best), jnp.zeros_like(best), best)
    is_forbidden = jnp.isneginf(scores)
    difference = jnp.where(is_forbidden, np.float64(0), scores - best)  # finite for derivatives
    ratio = jnp.where(
        jnp.isinf(scale), jnp.zeros_like(scores), difference / replace_zero_by_one(scale)
    )
    floored = jnp.maximum(ratio, np.float64(-MAX_SCALES_BEHIND))
    values = jnp.where(is_forbidden, np.float64(-np.inf), floored)
    return _Logits(values=values, is_noise_free=scale_f32 == 0)


class _Grouping(NamedTuple):
    """The number and the size of consecutive groups of candidates.

    The last group may be filled up with forbidden ones.

    Attributes:
        num_groups: about sqrt(K) of K candidates.
        group_size: about sqrt(K).
    """

    num_groups: int
    group_size: int


def _group_candidates(num_candidates: int) -> _Grouping:
    """Cut K candidates into about sqrt(K) consecutive groups of about sqrt(K) each."""
    group_size = math.isqrt(num_candidates - 1) + 1
    return _Grouping(num_groups=-(-num_candidates // group_size), group_size=group_size)


class RaceNoise(NamedTuple):
    """Exp(1) variables of the two stages of a race (`exponential`).

    Attributes:
        of_groups: f64[..., G], one for each group of candidates.
        of_members: f64[..., S], one for each candidate of the group that wins.
    """

    of_groups: Array
    of_members: Array


def selection_noise(key: Array, shape: tuple[int, ...]) -> RaceNoise:
    """Draw the exponential variables of the race by which `exponential` selects.

    They are for scores [..., K]. Use it within `variates.double_precision`.
    """
    grouping = _group_candidates(shape[-1])
    words = random_words(key, variates.EXPONENTIAL_WORDS, (*shape[:-1], sum(grouping)))
    noise = variates.exponential_variables(words)
    return RaceNoise(
        of_groups=noise[..., : grouping.num_groups], of_members=noise[..., grouping.num_groups :]
    )


def _first_argmax(values: Array) -> Int32[Array, "..."]:
    """i32[...]: the first index of the largest entry along the last axis."""
    best = jnp.max(values, axis=-1, keepdims=True)
    length = values.shape[-1]
    index = jnp.arange(length, dtype=jnp.int32).reshape((1,) * (values.ndim - 1) + (-1,))
    return jnp.min(jnp.where(values == best, index, np.int32(length)), axis=-1)


@reuse_trace
def _sample_exponential(key: Array, scores: Array | Scores, scale: Numbers) -> Array:
    """Sample the exponential mechanism by a race of groups and of the winner's candidates.

    A candidate arrives after an exponential time at the rate of its mass, and the first one wins.
    The first of a group arrives at the rate of the group's mass. So about 2 sqrt(K) random numbers
    are enough, not K.
    """
    with variates.double_precision():
        # Logits, cut into consecutive groups.
        logits, is_noise_free = _logits_of_scores(scores, scale)
        num_groups, group_size = _group_candidates(logits.shape[-1])
        num_fillers = num_groups * group_size - logits.shape[-1]
        pads = [(0, 0)] * (logits.ndim - 1) + [(0, num_fillers)]
        grouped = jnp.pad(logits, pads, constant_values=-np.inf)
        grouped = grouped.reshape(*logits.shape[:-1], num_groups, group_size)

        # The group: the first to arrive, or without noise that of the best candidate. (The best
        # logit is 0 only up to rounding, since compilers may compute a score twice.)
        best = jnp.max(grouped, axis=-1)
        mass = jnp.sum(jnp.exp(grouped), axis=-1)
        noise = selection_noise(key, logits.shape)
        group = _first_argmax(jnp.where(is_noise_free, best, -noise.of_groups / mass))

        # The candidate within the group.
        members = jnp.take_along_axis(grouped, group[..., None, None], axis=-2)[..., 0, :]
        arrivals = noise.of_members / jnp.exp(members)
        member = _first_argmax(jnp.where(is_noise_free, members, -arrivals))

        # No candidate is left if all are forbidden.
        is_none_allowed = jnp.all(jnp.isneginf(best), axis=-1)
    return jnp.where(is_none_allowed, UNSPLIT, group * group_size + member)


class _LogitsAndNoiseFreeLaw(NamedTuple):
    """The logits of a selection in float32, and its law without noise.

    Attributes:
        logits: f32[..., K], those of `_Logits`.
        is_noise_free: bool[..., 1], whether the scale is 0.
        noise_free_log_pmf: f32[..., K], the log probabilities at scale 0.
    """

    logits: Array
    is_noise_free: Array
    noise_free_log_pmf: Array


def _logits_and_noise_free_law(scores: Array | Scores, scale: Numbers) -> _LogitsAndNoiseFreeLaw:
    """The float32 logits of a selection, and its log probabilities if there is no noise."""
    with variates.double_precision():
        logits, is_noise_free = _logits_of_scores(scores, scale)
        is_winner = jax.nn.one_hot(_first_argmax(logits), logits.shape[-1], dtype=bool)
        return _LogitsAndNoiseFreeLaw(
            logits=logits.astype(jnp.float32),
            is_noise_free=is_noise_free,
            noise_free_log_pmf=jnp.where(is_winner, 0.0, -jnp.inf),
        )


def _exponential_log_pmf(scores: Array | Scores, scale: Numbers) -> Float32[Array, "... K"]:
    """f32[..., K]: the log probability of each candidate under the exponential mechanism.

    All are -inf where no candidate is allowed.
    """
    law = _logits_and_noise_free_law(scores, scale)
    is_none_allowed = jnp.all(jnp.isneginf(law.logits), axis=-1, keepdims=True)
    noisy_log_pmf = jax.nn.log_softmax(jnp.where(is_none_allowed, 0, law.logits), axis=-1)
    log_pmf = jnp.where(law.is_noise_free, law.noise_free_log_pmf, noisy_log_pmf)
    return jnp.where(is_none_allowed, -jnp.inf, log_pmf)


def _log_prob_from_pmf(log_pmf: Callable[..., Array]) -> Callable[..., Array]:
    """Build the `log_prob` of a selection from the log probabilities of its candidates.

    It is the function (output, scores, scale) -> log probability of the output.

    Args:
        log_pmf: (scores, scale) -> f32[..., K], the log probability of each candidate.
    """

    def log_prob(output: Array, scores: Array | Scores, scale: Numbers) -> Array:
        log_probs = log_pmf(scores, scale)
        index = jnp.maximum(output, 0)[..., None]
        log_prob_of_candidate = jnp.take_along_axis(log_probs, index, axis=-1)[..., 0]
        is_none_allowed = jnp.all(jnp.isneginf(log_probs), axis=-1)
        log_prob_of_unsplit = jnp.where(is_none_allowed, 0.0, -jnp.inf)
        return jnp.where(output == UNSPLIT, log_prob_of_unsplit, log_prob_of_candidate)

    return log_prob


def _max_divergence_of_log_pmfs(
    log_p: Float32[Array, "... K"], log_q: Float32[Array, "... K"]
) -> Array:
    """The max-divergence between two laws of independent selections, in the worse direction.

    Args:
        log_p: f32[..., K], log probabilities.
        log_q: f32[..., K], log probabilities.
    """
    log_ratio = jnp.where(jnp.isneginf(log_p) & jnp.isneginf(log_q), 0.0, log_p - log_q)
    return jnp.maximum(jnp.sum(jnp.max(log_ratio, axis=-1)), jnp.sum(jnp.max(-log_ratio, axis=-1)))


def _exponential_loss(
    scores: Array | Scores, scale: Numbers, other_scores: Array | Scores, other_scale: Numbers
) -> WorstCaseLoss:
    """The worst-case privacy loss of the exponential mechanism between two arrays of scores.

    By bounded range, rho is (range of the log ratio)^2 / 8 a draw (Cesar & Rogers, 2021).
    """
    p, q = _exponential_log_pmf(scores, scale), _exponential_log_pmf(other_scores, other_scale)
    none_in_p, none_in_q = (jnp.all(jnp.isneginf(log_pmf), axis=-1) for log_pmf in (p, q))
    pure = jnp.where(jnp.any(none_in_p != none_in_q), jnp.inf, _max_divergence_of_log_pmfs(p, q))
    log_ratio = jnp.where(jnp.isneginf(p) & jnp.isneginf(q), jnp.nan, p - q)
    spread = jnp.nanmax(log_ratio, axis=-1) - jnp.nanmin(log_ratio, axis=-1)
    rho = jnp.sum(jnp.where(none_in_p & none_in_q, 0.0, spread**2 / 8))
    return WorstCaseLoss(pure=pure, rho=rho)


exponential = Mechanism(
    "exponential",
    _sample_exponential,
    _log_prob_from_pmf(_exponential_log_pmf),
    _exponential_loss,
    mechanism_prices.EXPONENTIAL,
)
"""Candidate k of [..., K] with probability proportional to exp(score / scale).

Scores are `Scores`, which hold 48 bits, or an array of float32.

This is the mechanism of McSherry & Talwar (2007), drawn as a race of exponential times (see
`selection_noise`). In logs it is the argmax under Gumbel noise.

- Scores more than `MAX_SCALES_BEHIND` scales behind the best count as that many scales behind it.
- A score of -inf forbids its candidate. The mask must be public, or the mode non-private. With no
  candidate left the output is `UNSPLIT`.
- Scale 0 is the argmax, lowest index first. An infinite scale draws uniformly.

Its sensitivity is the range of the change of scores, the largest change minus the smallest. That is
d if the scores of neighbours differ by something in [0, d], or all by something in [-d, 0]. It is
2 d in general, with |difference| <= d. The mechanism is range / scale-DP and
(range / scale)^2 / 8-zCDP.

The sampler. Logits, and the logs of masses and of exponential variables, none beyond 100, are
within 2^-43 of exact ones. That moves probabilities by factors of at most e^(2^-41). A stage
chooses among K' candidates, none of probability below p, on lattices of 2^-127. That moves no
probability by more than K' 2^-127 / p of it. In each stage K' is at most 2^10 and p at least
e^-32 / 2^20, so it is at most 2^-50.
"""


@reuse_trace
def _sample_noisy_max(key: Array, scores: Array | Scores, scale: Numbers) -> Array:
    """Sample the argmax of scores with Laplace noise on each.

    Scores are in units of the scale, and the noise is of scale 1.
    """
    with variates.double_precision():
        logits, is_noise_free = _logits_of_scores(scores, scale)
        words = random_words(key, variates.EXPONENTIAL_WORDS, logits.shape)
        magnitude = variates.exponential_variables(words)
        noise = jnp.where(variates.fair_coins(words), -magnitude, magnitude)
        return _first_argmax(logits + jnp.where(is_noise_free, np.float64(0), noise))


class _Quadrature(NamedTuple):
    """The nodes and the weights of a quadrature on [-1, 1]."""

    nodes: np.ndarray
    weights: np.ndarray


@functools.cache
def _gauss_legendre_quadrature() -> _Quadrature:
    """The Gauss-Legendre quadrature of 8 nodes.

    It is made when first used, as its import is slow.
    """
    return _Quadrature(*np.polynomial.legendre.leggauss(8))


_PANEL_EDGES = np.linspace(-40.0, 40.0, 161)


def _noisy_max_log_pmf(scores: Array | Scores, scale: Numbers) -> Float32[Array, "... K"]:
    """f32[..., K]: the log probability of each candidate under the noisy maximum.

    The scale is one number.
    """
    law = _logits_and_noise_free_law(scores, scale)
    draws = law.logits.reshape(-1, law.logits.shape[-1])
    noisy_log_pmf = jax.vmap(_log_noisy_max_probabilities)(draws).reshape(law.logits.shape)
    return jnp.where(law.is_noise_free, law.noise_free_log_pmf, noisy_log_pmf)


def _log_noisy_max_probabilities(scores_in_scales: Float32[Array, "K"]) -> Float32[Array, "K"]:
    """f32[K]: the log probability that each score is the largest after Laplace noise.

    It is computed by Gauss quadrature between the kinks of the densities.

    P(k wins) is the integral of the density lap(x - s_k) times the product over j != k of the
    distribution functions Lap(x - s_j). The integrand is smooth between logits, so panels break at
    every logit. Logits are clipped to 40 around the best one, as less than exp(-40) lies beyond.

    Args:
        scores_in_scales: f32[K], logits, so that noise has scale 1.
    """
    # The quadrature nodes of all panels.
    edges = jnp.sort(
        jnp.concatenate(
            [jnp.asarray(_PANEL_EDGES, jnp.float32), jnp.clip(scores_in_scales, -40, 40)]
        )
    )
    half_width = (edges[1:] - edges[:-1])[:, None] / 2
    middle = (edges[1:] + edges[:-1])[:, None] / 2
    quadrature = _gauss_legendre_quadrature()
    x = middle + half_width * jnp.asarray(quadrature.nodes, jnp.float32)[None, :]

    # The log of the integrand at every node.
    deviation = x[..., None] - scores_in_scales[None, None, :]
    log_two = np.float32(LN2)
    log_cdf_above = jnp.log1p(-0.5 * jnp.exp(-jnp.maximum(deviation, 0)))
    log_cdf = jnp.where(deviation < 0, deviation - log_two, log_cdf_above)
    log_pdf = -jnp.abs(deviation) - log_two
    log_integrand = jnp.sum(log_cdf, axis=-1, keepdims=True) - log_cdf + log_pdf

    # The weighted sum over nodes, in logs.
    weight = half_width * jnp.asarray(quadrature.weights, jnp.float32)[None, :]
    log_weight = jnp.where(weight > 0, jnp.log(jnp.where(weight > 0, weight, 1)), -jnp.inf)
    return jax.nn.logsumexp(log_integrand + log_weight[..., None], axis=(0, 1))


def _noisy_max_loss(
    scores: Array | Scores, scale: Numbers, other_scores: Array | Scores, other_scale: Numbers
) -> WorstCaseLoss:
    p, q = _noisy_max_log_pmf(scores, scale), _noisy_max_log_pmf(other_scores, other_scale)
    return WorstCaseLoss.from_pure_epsilon(_max_divergence_of_log_pmfs(p, q))


noisy_max = Mechanism(
    "noisy max",
    _sample_noisy_max,
    _log_prob_from_pmf(_noisy_max_log_pmf),
    _noisy_max_loss,
    mechanism_prices.NOISY_MAX,
)
"""Index of the largest of [..., K] finite scores after independent Laplace(scale) noise on each.

Scores are as for `exponential`.

Its sensitivity is the range of the change of scores, as for `exponential`, and it is
range / scale-DP. The reason is that a change that all scores share changes nothing, so no score
moves by more than half of the range (Dwork & Roth, 2014, Claim 3.9).

Scores more than `MAX_SCALES_BEHIND` scales behind the best count as that many scales behind it.
`log_prob` integrates numerically, to about 1e-5 relative. `scale` is a scalar.

The sampler is as far from its law as that of `exponential`, by the same argument in one stage.
There K' is at most 2^20, and lattices move less than 2^-39.
"""


# Randomness that never reads the rows.


def _remainder_of_64_bit_number(high: Array, low: Array, scale: Numbers) -> UInt32[Array, "..."]:
    """u32[...]: the 64-bit number 2^32 high + low modulo the scale.

    Above a scale of 2^16 it is low modulo the scale.
    """
    modulus = jnp.asarray(scale).astype(jnp.uint32)
    radix = 2**16 % modulus
    return ((high % modulus) * (radix * radix % modulus) + low % modulus) % modulus


def _sample_uniform(key: Array, value: Array, scale: Numbers) -> Array:
    if jnp.issubdtype(value.dtype, jnp.integer):
        high, low = random_words(key, 2, value.shape)
        return _remainder_of_64_bit_number(high, low, scale).astype(value.dtype)
    return jax.random.uniform(key, value.shape, value.dtype) * scale


_ROWS_PER_BATCH = 2**14
"""How many rows of a block are drawn side by side, so that their keys take little memory."""


def _key_for_row_indices(key: Array, high_word: Array) -> Array:
    """The key of the 2^32 row indices that share the high word of their 64 bits.

    Those with a high word of 0 have `key` itself. The other keys are children of a child by split,
    and the keys of the first rows are children by fold_in. Under a release key these never meet
    (`keys`).
    """
    key_beyond = jax.random.fold_in(jax.random.split(key)[1], high_word)
    return jnp.where(high_word == 0, key, key_beyond)


def _sample_uniform_integers_at_row_indices(
    key: Array, value: Array, scale: Numbers, first_row_index: Array
) -> Array:
    """Sample uniform integers below the scale for consecutive rows, each from its row index.

    Each row index has a key, so the integer of a row is the same whatever rows follow. The u32[2]
    `first_row_index` is (high, low) of a 64-bit index.
    """
    first_high, first_low = first_row_index
    root, next_root = (_key_for_row_indices(key, first_high + np.uint32(k)) for k in (0, 1))

    def words_of_row(low: Array) -> Array:
        has_wrapped = low < first_low  # the low word began anew at 0
        key_of_row = jax.random.fold_in(jnp.where(has_wrapped, next_root, root), low)
        return jax.random.bits(key_of_row, (2,), jnp.uint32)

    lows = first_low + jnp.arange(value.size, dtype=jnp.uint32)
    words = jax.lax.map(words_of_row, lows, batch_size=min(_ROWS_PER_BATCH, value.size))
    outputs = _remainder_of_64_bit_number(words[:, 0], words[:, 1], scale)
    return outputs.astype(value.dtype).reshape(value.shape)


def _sample_assignment(key: Array, value: Array, scale: Numbers) -> Array:
    return _sample_uniform_integers_at_row_indices(key, value, scale, jnp.zeros(2, jnp.uint32))


def _uniform_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    is_inside = (output >= 0) & (output < scale)
    return jnp.where(is_inside, -jnp.log(jnp.asarray(scale, jnp.float32)), -jnp.inf)


def _uniform_loss(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> WorstCaseLoss:
    loss = jnp.where(scale == other_scale, 0.0, jnp.inf)
    return WorstCaseLoss(pure=loss, rho=loss)


uniform = Mechanism(
    "uniform",
    _sample_uniform,
    _uniform_log_prob,
    _uniform_loss,
    mechanism_prices.UNIFORM,
    public=True,
)
"""Public randomness: reals in [0, scale), or integers 0..scale - 1 where the value holds integers.

It is 0-DP. It reads only the shape and the dtype of the value, which are public, and never what the
value holds. `scale` must be public too. It draws with the public key, because its output is
published, and published output must tell nothing about the key of the noise.

Integers are 64 random bits modulo scale, so they are uniform to within scale 2^-64. If scale is
above 2^16, they are 32 random bits modulo scale. Reals are multiples of 2^-23 times scale.
"""

assignment = uniform._replace(
    name="assignment",
    sample=_sample_assignment,
    public=False,
    sample_at_row_indices=_sample_uniform_integers_at_row_indices,
)
"""`uniform` integers from the key of the noise, for draws that are withheld from the model.

It is 0-DP as `uniform`. An example is the part of a table that each row belongs to. The first
outputs do not depend on how many follow. So a table that is read in blocks has the outputs of the
same table in memory, if the index of each block's first row is passed. There are 2^64 row indices.
"""

BY_NAME = {
    mechanism.name: mechanism
    for mechanism in (
        discrete_laplace,
        rounded_gaussian,
        exponential,
        noisy_max,
        uniform,
        assignment,
    )
}
"""Every mechanism of the library, by its name in ledgers."""
