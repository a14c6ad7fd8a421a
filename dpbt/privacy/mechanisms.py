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
mechanism states how far its sampler can be from its law (`mechanism.Sampler`), and the ledger has a
line for it. A mechanism of your own that states no such bound marks its ledgers FLOAT. Real noise
in float32 is such a one: its reachable values depend on the private value (Mironov, 2012).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from dpbt.common.arithmetic import LN2
from dpbt.privacy import variates
from dpbt.privacy.keys import key_words
from dpbt.privacy.mechanism import (
    BOUNDED_RANGE,
    FREE,
    GAUSSIAN,
    LAPLACE,
    PURE,
    Mechanism,
    Numbers,
    Sampler,
    StepLoss,
)
from dpbt.privacy.variates import positive
from dpbt.public_types import redacted_repr
from dpbt.types import UNSPLIT, Array

# Additive noise on integers.

MAX_DISCRETE_SCALE = 2.0**32
"""The largest scale for which the samplers of integer noise keep their bound."""

SATURATION = 2**31 - 2**21
"""Integer noise returns integers in [-SATURATION, SATURATION]; sums beyond are clamped."""

_GAUSSIAN_DIGITS = 11
"""A rounded Gaussian of scale 2^12 or more is rounded to a step of at least scale / 2^12."""


def _laplace_tail(shift: float) -> float:
    return min(1.0, 2.0**-62 * math.exp(min(shift, 700.0)))


def _gaussian_tail(shift: float) -> float:
    """The mass of the pairs whose radius around one of the two values is beyond 9.3 scales."""
    return math.exp(-(max(9.3 - shift, 0.0) ** 2) / 2)


def _noise_free_log_prob(output: Array, value: Array) -> Array:
    """The log density of the noise-free limit: 0 at the value, -inf elsewhere."""
    return jnp.where(output == value, 0.0, -jnp.inf)


def _moves_in_scales(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> Array:
    """f32[...]: by how many scales each entry moves; infinite without noise or if scales differ."""
    distance = jnp.abs(jnp.asarray(value - other_value, jnp.float32))
    in_scales = jnp.where(scale > 0, distance / positive(scale), jnp.inf)
    return jnp.where(scale == other_scale, jnp.where(distance > 0, in_scales, 0), jnp.inf)


def _laplace_privacy_loss(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> StepLoss:
    """Sum of |difference| / scale, the max-divergence of Laplace noise."""
    moves = _moves_in_scales(value, scale, other_value, other_scale)
    return StepLoss.from_pure_epsilon(jnp.sum(moves))


def _gaussian_privacy_loss(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> StepLoss:
    """The sum of (difference / scale)^2 / 2 in rho; no pure epsilon unless nothing moves."""
    moves = _moves_in_scales(value, scale, other_value, other_scale)
    pure = jnp.where(jnp.all(moves == 0), 0.0, jnp.inf)
    return StepLoss(pure=pure, rho=jnp.sum(moves**2 / 2))


def _as_released_type(noisy_value: Array, value: Array) -> Array:
    """The noisy value, in f64 if the value is f64, and else as i32 clamped to +-SATURATION."""
    if value.dtype == jnp.float64:
        return noisy_value
    if not jnp.issubdtype(value.dtype, jnp.integer):
        raise ValueError(
            f"integer noise takes whole numbers, an integer type or float64, got {value.dtype}"
        )
    limit = np.float64(SATURATION)
    return jnp.clip(noisy_value, -limit, limit).astype(jnp.int32)


def _discrete_laplace_sample(key: Array, value: Array, scale: Numbers) -> Array:
    bits = key_words(key, 8, jnp.shape(value))
    with variates.double_precision():
        scale = jnp.broadcast_to(jnp.asarray(scale, jnp.float32), jnp.shape(value))
        size = variates.geometric(bits, positive(scale))
        noise = jnp.where(variates.sign_bit(bits), -size, size)
        noisy = variates.double(value) + jnp.where(scale > 0, noise, np.float64(0))
        return _as_released_type(noisy, value)


def _discrete_laplace_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    positive_scale = positive(scale)
    above = (output - value).astype(jnp.uint32)  # modulo 2**32, where the true distance fits
    distance = jnp.where(output >= value, above, -above).astype(jnp.float32) / positive_scale
    of_one_integer = jnp.log(jnp.tanh(0.5 / positive_scale)) - distance
    of_tail = -jnp.log1p(jnp.exp(-1 / positive_scale)) - distance
    log_prob = jnp.where(jnp.abs(output) == SATURATION, of_tail, of_one_integer)
    return jnp.where(scale > 0, log_prob, _noise_free_log_prob(output, value))


discrete_laplace = Mechanism(
    "discrete laplace",
    _discrete_laplace_sample,
    _discrete_laplace_log_prob,
    _laplace_privacy_loss,
    LAPLACE._replace(
        sampler=Sampler(gap=2.0**-28, tail=_laplace_tail, max_scale=MAX_DISCRETE_SCALE)
    ),
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
    bits = key_words(key, variates.NORMAL_WORDS, ((math.prod(shape) + 1) // 2,))
    with variates.double_precision():
        value_f64 = variates.double(value)
        scale = jnp.broadcast_to(jnp.asarray(scale, jnp.float32), shape)
        step = variates.double(rounding_step(scale))
        whole = jnp.floor(value_f64 / step)
        rest = value_f64 / step - whole
        noise = variates.double(scale) / step * variates.normals(bits, shape)
        noisy = jnp.where(scale > 0, step * (whole + jnp.round(rest + noise)), value_f64)
        return _as_released_type(noisy, value)


def _rounded_gaussian_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    """Log of Phi((o + step / 2 - v) / scale) - Phi((o - step / 2 - v) / scale), by lower tails."""
    with variates.double_precision():
        step = variates.double(rounding_step(scale))
        width, distance = variates.double(positive(scale)), variates.double(output)
        distance = jnp.abs(distance - variates.double(value))
        near = log_ndtr((step / 2 - distance) / width)
        far = log_ndtr((-step / 2 - distance) / width)
        of_bin = near + jnp.log(-jnp.expm1(jnp.minimum(far - near, -np.float64(1e-300))))

        is_saturated = jnp.abs(variates.double(output)) == np.float64(SATURATION)
        log_prob = jnp.where(is_saturated, near, of_bin)
        on_grid = jnp.floor(variates.double(output) / step) * step == variates.double(output)
        log_prob = jnp.where(on_grid, log_prob, -np.float64(np.inf)).astype(jnp.float32)
    return jnp.where(scale > 0, log_prob, _noise_free_log_prob(output, value))


rounded_gaussian = Mechanism(
    "rounded gaussian",
    _rounded_gaussian_sample,
    _rounded_gaussian_log_prob,
    _gaussian_privacy_loss,
    GAUSSIAN._replace(
        sampler=Sampler(gap=2.0**-29, tail=_gaussian_tail, max_scale=MAX_DISCRETE_SCALE)
    ),
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


# Selections.

FLOOR = 32.0
"""No allowed candidate counts as more than this many scales behind the best one.

A candidate so far behind would be drawn with probability e^-32. Raising it there keeps every
outcome reachable, which a sampler of finitely many bits could not promise otherwise.

It costs no privacy. If a row moves all scores by something in [a, b], it moves the best of them by
something in [a, b]. So it also moves the larger of a score and (best - 32 scales) by something in
[a, b].
"""

MAX_CANDIDATES = 2**20
"""Most candidates of one draw for which the samplers' bound holds."""


class Scores(NamedTuple):
    """Scores high + low; a forbidden candidate has a high of -inf and a low of 0.

    Attributes:
        high: f32[..., K], the scores rounded to float32.
        low: f32[..., K], what rounding left.
    """

    high: Array
    low: Array

    __repr__ = redacted_repr


def behind_best(values: Array, allowed: Array | None = None) -> Scores:
    """Each score minus the best allowed score of its draw, as a pair.

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
        scores = variates.double(values)
        if allowed is not None:
            scores = jnp.where(allowed, scores, np.float64(-np.inf))
        best = jnp.max(scores, axis=-1, keepdims=True)
        relative = scores - jnp.where(jnp.isneginf(best), np.float64(0), best)

        # An explicit rounding, which no compiler may leave out, and what it left.
        rounded = jax.lax.reduce_precision(relative, exponent_bits=8, mantissa_bits=23)
        rest = jnp.where(jnp.isneginf(relative), np.float64(0), relative - rounded)
        return Scores(rounded.astype(jnp.float32), rest.astype(jnp.float32))


def _scores_behind_best(pair: Array | Scores, scale: Numbers) -> tuple[Array, Array]:
    """(f64[..., K], bool[..., 1]): (score - best score) / scale, and whether there is no noise.

    It is at least -FLOOR; -inf for forbidden candidates; 0 at scale inf. Differences are taken
    first, so that large scores keep the digits that tell them apart. Use it within
    `variates.double_precision`.
    """
    high, low = pair if isinstance(pair, Scores) else (pair, 0)
    scores = variates.double(high) + variates.double(low)
    if scores.shape[-1] > MAX_CANDIDATES:
        raise ValueError(
            f"a selection has at most {MAX_CANDIDATES} candidates, got {scores.shape[-1]}"
        )
    single = jnp.broadcast_to(jnp.asarray(scale, jnp.float32), scores.shape[:-1])[..., None]
    scale = variates.double(single)
    best = jnp.max(scores, axis=-1, keepdims=True)
    best = jnp.where(jnp.isneginf(best), jnp.zeros_like(best), best)
    ratio = jnp.where(jnp.isinf(scale), jnp.zeros_like(scores), (scores - best) / positive(scale))
    floored = jnp.maximum(ratio, np.float64(-FLOOR))
    return jnp.where(jnp.isneginf(scores), np.float64(-np.inf), floored), single == 0


def _group_shape(candidates: int) -> tuple[int, int]:
    """(groups, size): about sqrt(K) consecutive groups of about sqrt(K) candidates."""
    size = math.isqrt(candidates - 1) + 1
    return -(-candidates // size), size


def selection_noise(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The noise of `exponential` for scores [..., K] under this key: Exp(1) variables, in float64.

    They are for the groups and for the candidates of the winning group. Use it within
    `variates.double_precision`.
    """
    groups, size = _group_shape(shape[-1])
    bits = key_words(key, variates.EXPONENTIAL_WORDS, (*shape[:-1], groups + size))
    noise = variates.exponential(bits)
    return noise[..., :groups], noise[..., groups:]


def _first_argmax(values: Array) -> Array:
    """i32[...]: the lowest index of the largest entry along the last axis, by two reductions."""
    best = jnp.max(values, axis=-1, keepdims=True)
    count = values.shape[-1]
    index = jnp.arange(count, dtype=jnp.int32).reshape((1,) * (values.ndim - 1) + (-1,))
    return jnp.min(jnp.where(values == best, index, np.int32(count)), axis=-1)


def _exponential_sample(key: Array, scores: Array | Scores, scale: Numbers) -> Array:
    """A race in two stages: of groups, and then of the candidates of the winning group.

    A candidate arrives after an exponential time at the rate of its mass, and the first one wins.
    The first of a group arrives at the rate of the group's mass. So about 2 sqrt(K) random numbers
    are enough, not K.
    """
    with variates.double_precision():
        # Logits, cut into consecutive groups.
        logits, quiet = _scores_behind_best(scores, scale)
        groups, size = _group_shape(logits.shape[-1])
        pads = [(0, 0)] * (logits.ndim - 1) + [(0, groups * size - logits.shape[-1])]
        filled = jnp.pad(logits, pads, constant_values=-np.inf)
        filled = filled.reshape(*logits.shape[:-1], groups, size)

        # The group: the first to arrive, or without noise that of the best candidate. (The best
        # logit is 0 only up to rounding, since compilers may compute a score twice.)
        best, mass = jnp.max(filled, axis=-1), jnp.sum(jnp.exp(filled), axis=-1)
        across, within = selection_noise(key, logits.shape)
        group = _first_argmax(jnp.where(quiet, best, -across / mass))

        # The candidate within it.
        members = jnp.take_along_axis(filled, group[..., None, None], axis=-2)[..., 0, :]
        member = _first_argmax(jnp.where(quiet, members, -within / jnp.exp(members)))

        # No candidate is left if all are forbidden.
        is_none_allowed = jnp.all(jnp.isneginf(best), axis=-1)
    return jnp.where(is_none_allowed, UNSPLIT, group * size + member)


def _logits_and_limits(scores: Array | Scores, scale: Numbers) -> tuple[Array, Array, Array]:
    """What densities read of scores, in float32.

    Returns:
        f32[..., K], `_scores_behind_best`; bool[..., 1], whether there is no noise; f32[..., K],
        the log probabilities without it.
    """
    with variates.double_precision():
        logits, quiet = _scores_behind_best(scores, scale)
        winner = jax.nn.one_hot(_first_argmax(logits), logits.shape[-1], dtype=bool)
        return logits.astype(jnp.float32), quiet, jnp.where(winner, 0.0, -jnp.inf)


def _exponential_log_pmf(scores: Array | Scores, scale: Numbers) -> Array:
    """Log probability of every candidate; all -inf where no candidate is allowed."""
    logits, quiet, hard = _logits_and_limits(scores, scale)
    none = jnp.all(jnp.isneginf(logits), axis=-1, keepdims=True)
    soft = jax.nn.log_softmax(jnp.where(none, 0, logits), axis=-1)
    return jnp.where(none, -jnp.inf, jnp.where(quiet, hard, soft))


def _log_prob_from_pmf(log_pmf: Callable[..., Array]) -> Callable[..., Array]:
    """(output, scores, scale) -> the log probability of the output, by those of all candidates."""

    def log_prob(output: Array, scores: Array | Scores, scale: Numbers) -> Array:
        log_probs = log_pmf(scores, scale)
        index = jnp.maximum(output, 0)[..., None]
        of_output = jnp.take_along_axis(log_probs, index, axis=-1)[..., 0]
        is_none_allowed = jnp.all(jnp.isneginf(log_probs), axis=-1)
        of_unsplit = jnp.where(is_none_allowed, 0.0, -jnp.inf)
        return jnp.where(output == UNSPLIT, of_unsplit, of_output)

    return log_prob


def _pmf_divergence(p: Array, q: Array) -> Array:
    """The max-divergence of independent draws, in the worse direction.

    Args:
        p: f32[..., K], log probabilities.
        q: f32[..., K], log probabilities.
    """
    ratio = jnp.where(jnp.isneginf(p) & jnp.isneginf(q), 0.0, p - q)
    return jnp.maximum(jnp.sum(jnp.max(ratio, axis=-1)), jnp.sum(jnp.max(-ratio, axis=-1)))


def _exponential_privacy_loss(
    scores: Array | Scores, scale: Numbers, other_scores: Array | Scores, other_scale: Numbers
) -> StepLoss:
    """Bounded range: rho is (range of the log ratio)^2 / 8 a draw (Cesar & Rogers, 2021)."""
    p, q = _exponential_log_pmf(scores, scale), _exponential_log_pmf(other_scores, other_scale)
    none, other_none = (jnp.all(jnp.isneginf(log_probs), axis=-1) for log_probs in (p, q))
    largest = jnp.where(jnp.any(none != other_none), jnp.inf, _pmf_divergence(p, q))
    ratio = jnp.where(jnp.isneginf(p) & jnp.isneginf(q), jnp.nan, p - q)
    spread = jnp.nanmax(ratio, axis=-1) - jnp.nanmin(ratio, axis=-1)
    rho = jnp.sum(jnp.where(none & other_none, 0.0, spread**2 / 8))
    return StepLoss(pure=largest, rho=rho)


exponential = Mechanism(
    "exponential",
    _exponential_sample,
    _log_prob_from_pmf(_exponential_log_pmf),
    _exponential_privacy_loss,
    BOUNDED_RANGE._replace(sampler=Sampler(gap=2.0**-28)),
)
"""Candidate k of [..., K] with probability proportional to exp(score / scale).

Scores are `Scores`, which hold 48 bits, or an array of float32.

This is the mechanism of McSherry & Talwar (2007), drawn as a race of exponential times (see
`selection_noise`). In logs it is the argmax under Gumbel noise.

- Scores more than `FLOOR` scales behind the best count as `FLOOR` scales behind it.
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


def _noisy_max_sample(key: Array, scores: Array | Scores, scale: Numbers) -> Array:
    """The argmax of scores in units of the scale, plus Laplace noise of scale 1 on each."""
    with variates.double_precision():
        behind, quiet = _scores_behind_best(scores, scale)
        bits = key_words(key, variates.EXPONENTIAL_WORDS, behind.shape)
        size = variates.exponential(bits)
        noise = jnp.where(variates.sign_bit(bits), -size, size)
        return _first_argmax(behind + jnp.where(quiet, np.float64(0), noise))


_QUADRATURE_NODES, _QUADRATURE_WEIGHTS = np.polynomial.legendre.leggauss(8)
_PANEL_EDGES = np.linspace(-40.0, 40.0, 161)


def _noisy_max_log_pmf(scores: Array | Scores, scale: Numbers) -> Array:
    """Log probability of every candidate, for one scale."""
    behind, quiet, hard = _logits_and_limits(scores, scale)
    rows = jax.vmap(_log_chances_of_winning)(behind.reshape(-1, behind.shape[-1]))
    return jnp.where(quiet, hard, rows.reshape(behind.shape))


def _log_chances_of_winning(s: Array) -> Array:
    """f32[K]: log probabilities by Gauss quadrature between the kinks of the densities.

    s is `_scores_behind_best`. In units of the scale, P(k wins) is the integral of the density
    lap(x - s_k) times the product over j != k of the distribution functions Lap(x - s_j). The
    integrand is smooth between scores, so panels break at every score. Scores are clipped to 40
    scales around the best one, because less than exp(-40) is left beyond.
    """
    # The quadrature nodes of all panels.
    edges = jnp.sort(
        jnp.concatenate([jnp.asarray(_PANEL_EDGES, jnp.float32), jnp.clip(s, -40, 40)])
    )
    half = (edges[1:] - edges[:-1]) / 2
    middle = (edges[1:] + edges[:-1]) / 2
    x = middle[:, None] + half[:, None] * jnp.asarray(_QUADRATURE_NODES, jnp.float32)[None, :]

    # The log of the integrand at every node.
    gap = x[..., None] - s[None, None, :]
    log_two = np.float32(LN2)
    above = jnp.log1p(-0.5 * jnp.exp(-jnp.maximum(gap, 0)))
    log_cdf = jnp.where(gap < 0, gap - log_two, above)
    log_pdf = -jnp.abs(gap) - log_two
    log_all = jnp.sum(log_cdf, axis=-1, keepdims=True) - log_cdf + log_pdf

    # The weighted sum over nodes, in logs.
    weight = half[:, None] * jnp.asarray(_QUADRATURE_WEIGHTS, jnp.float32)[None, :]
    log_weight = jnp.where(weight > 0, jnp.log(jnp.where(weight > 0, weight, 1)), -jnp.inf)
    return jax.nn.logsumexp(log_all + log_weight[..., None], axis=(0, 1))


def _noisy_max_privacy_loss(
    scores: Array | Scores, scale: Numbers, other_scores: Array | Scores, other_scale: Numbers
) -> StepLoss:
    p, q = _noisy_max_log_pmf(scores, scale), _noisy_max_log_pmf(other_scores, other_scale)
    return StepLoss.from_pure_epsilon(_pmf_divergence(p, q))


noisy_max = Mechanism(
    "noisy max",
    _noisy_max_sample,
    _log_prob_from_pmf(_noisy_max_log_pmf),
    _noisy_max_privacy_loss,
    PURE._replace(sampler=Sampler(gap=2.0**-28)),
)
"""Index of the largest of [..., K] finite scores after independent Laplace(scale) noise on each.

Scores are as for `exponential`.

Its sensitivity is the range of the change of scores, as for `exponential`, and it is
range / scale-DP. The reason is that a change that all scores share changes nothing, so no score
moves by more than half of the range (Dwork & Roth, 2014, Claim 3.9).

Scores more than `FLOOR` scales behind the best count as `FLOOR` scales behind it. `log_prob`
integrates numerically, to about 1e-5 relative. `scale` is a scalar.

The sampler is as far from its law as that of `exponential`, by the same argument in one stage.
There K' is at most 2^20, and lattices move less than 2^-39.
"""


# Randomness that never reads the rows.


def _remainder(high: Array, low: Array, scale: Numbers) -> Array:
    """u32[...]: 2^32 high + low modulo scale; low modulo scale if scale is above 2^16."""
    count = jnp.asarray(scale).astype(jnp.uint32)
    radix = 2**16 % count
    return ((high % count) * (radix * radix % count) + low % count) % count


def _uniform_sample(key: Array, value: Array, scale: Numbers) -> Array:
    if jnp.issubdtype(value.dtype, jnp.integer):
        high, low = key_words(key, 2, value.shape)
        return _remainder(high, low, scale).astype(value.dtype)
    return jax.random.uniform(key, value.shape, value.dtype) * scale


_PLACES_AT_ONCE = 2**14
"""How many places of a block are drawn at once, so that their keys take little memory."""


def _key_of_places(key: Array, high: Array) -> Array:
    """The key of 2^32 places that begin at 2^32 high; the first are those of `key` itself.

    The others hang on a child by split, and the first places on children by fold_in. Of a release
    key these never meet (`keys`).
    """
    key_beyond = jax.random.fold_in(jax.random.split(key)[1], high)
    return jnp.where(high == 0, key, key_beyond)


def _assignment_at(key: Array, value: Array, scale: Numbers, place: Array) -> Array:
    """The parts of some places of a table; each place has its own key, whatever places follow."""
    high, first = place
    here, beyond = (_key_of_places(key, high + np.uint32(k)) for k in (0, 1))

    def bits_of(low: Array) -> Array:
        root = jnp.where(low < first, beyond, here)  # where the low word began anew
        return jax.random.bits(jax.random.fold_in(root, low), (2,), jnp.uint32)

    lows = first + jnp.arange(value.size, dtype=jnp.uint32)
    bits = jax.lax.map(bits_of, lows, batch_size=min(_PLACES_AT_ONCE, value.size))
    return _remainder(bits[:, 0], bits[:, 1], scale).astype(value.dtype).reshape(value.shape)


def _assignment_sample(key: Array, value: Array, scale: Numbers) -> Array:
    return _assignment_at(key, value, scale, jnp.zeros(2, jnp.uint32))


def _uniform_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    inside = (output >= 0) & (output < scale)
    return jnp.where(inside, -jnp.log(jnp.asarray(scale, jnp.float32)), -jnp.inf)


def _uniform_privacy_loss(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> StepLoss:
    loss = jnp.where(scale == other_scale, 0.0, jnp.inf)
    return StepLoss(pure=loss, rho=loss)


uniform = Mechanism(
    "uniform",
    _uniform_sample,
    _uniform_log_prob,
    _uniform_privacy_loss,
    FREE._replace(sampler=Sampler(gap=0.0)),
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
    name="assignment", sample=_assignment_sample, public=False, at=_assignment_at
)
"""`uniform` integers from the key of the noise, for draws that are withheld from the model.

It is 0-DP as `uniform`. The first outputs do not depend on how many follow. An example is the part
of a table that each place belongs to. So a table that is read in parts has the outputs of the whole
one, if each part knows its first place. There are 2^64 places.
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
