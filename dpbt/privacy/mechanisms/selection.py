"""Selections: the exponential mechanism and return-noisy-max.

Scores are in nearly double precision, as pairs of float32 arrays. Float32 holds the score of a
candidate to 2^-24 of its size. Beyond some ten thousand rows that is a share of what one row moves.
A pair of float32 numbers holds 48 bits, and may leave the scope of `variates.double_precision`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.public import without_values
from dpbt.common.types import UNSPLIT, Array
from dpbt.privacy import variates
from dpbt.privacy.keys import words
from dpbt.privacy.mechanism import BOUNDED_RANGE, PURE, Mechanism, Numbers, Sampler, StepLoss
from dpbt.privacy.variates import positive

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

    __repr__ = without_values


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


def _doubles(scores: Array | Scores) -> Array:
    """f64[..., K]: the scores, for use within `variates.double_precision`."""
    if isinstance(scores, Scores):
        return variates.double(scores.high) + variates.double(scores.low)
    return variates.double(scores)


def _shape(scores: Array | Scores) -> tuple[int, ...]:
    """The shape [..., K] of the scores."""
    return scores.high.shape if isinstance(scores, Scores) else scores.shape


def _per_draw(scores: Array | Scores, scale: Numbers) -> Array:
    """The scale of each draw as f32[..., 1], from one scale for all or one for each."""
    return jnp.broadcast_to(jnp.asarray(scale, jnp.float32), _shape(scores)[:-1])[..., None]


def _behind(pair: Array | Scores, scale: Array) -> Array:
    """f64: (score - best score) / scale, at least -FLOOR; -inf for forbidden ones; 0 at scale inf.

    Differences are taken first, so that large scores keep the digits that tell them apart. Use it
    within `variates.double_precision`.
    """
    scores, scale = _doubles(pair), variates.double(scale)
    best = jnp.max(scores, axis=-1, keepdims=True)
    best = jnp.where(jnp.isneginf(best), jnp.zeros_like(best), best)
    ratio = jnp.where(jnp.isinf(scale), jnp.zeros_like(scores), (scores - best) / positive(scale))
    floored = jnp.maximum(ratio, np.asarray(-FLOOR, scores.dtype))
    return jnp.where(jnp.isneginf(scores), np.asarray(-np.inf, scores.dtype), floored)


def _check_candidates(scores: Array | Scores) -> None:
    if _shape(scores)[-1] > MAX_CANDIDATES:
        raise ValueError(
            f"a selection has at most {MAX_CANDIDATES} candidates, got {_shape(scores)[-1]}"
        )


def _groups(candidates: int) -> tuple[int, int]:
    """(groups, size): about sqrt(K) consecutive groups of about sqrt(K) candidates."""
    size = math.isqrt(candidates - 1) + 1
    return -(-candidates // size), size


def selection_noise(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The noise of `exponential` for scores [..., K] under this key: Exp(1) variables, in float64.

    They are for the groups and for the candidates of the winning group. Use it within
    `variates.double_precision`.
    """
    groups, size = _groups(shape[-1])
    bits = words(key, variates.EXPONENTIAL_WORDS, (*shape[:-1], groups + size))
    noise = variates.exponential(bits)
    return noise[..., :groups], noise[..., groups:]


def _first_best(values: Array) -> Array:
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
    _check_candidates(scores)
    scale = _per_draw(scores, scale)
    quiet = scale == 0
    groups, size = _groups(_shape(scores)[-1])
    padding = groups * size - _shape(scores)[-1]

    with variates.double_precision():
        # Logits, cut into consecutive groups.
        logits = _behind(scores, scale)
        pads = [(0, 0)] * (logits.ndim - 1) + [(0, padding)]
        filled = jnp.pad(logits, pads, constant_values=-np.inf)
        filled = filled.reshape(*logits.shape[:-1], groups, size)

        # The group: the first to arrive, or without noise that of the best candidate. (The best
        # logit is 0 only up to rounding, since compilers may compute a score twice.)
        best, mass = jnp.max(filled, axis=-1), jnp.sum(jnp.exp(filled), axis=-1)
        across, within = selection_noise(key, _shape(scores))
        group = _first_best(jnp.where(quiet, best, -across / mass))

        # The candidate within it.
        members = jnp.take_along_axis(filled, group[..., None, None], axis=-2)[..., 0, :]
        member = _first_best(jnp.where(quiet, members, -within / jnp.exp(members)))

        # No candidate is left if all are forbidden.
        none = jnp.all(jnp.isneginf(best), axis=-1)
    return jnp.where(none, UNSPLIT, group * size + member)


def _limits(scores: Array | Scores, scale: Numbers) -> tuple[Array, Array, Array]:
    """What densities read of scores, in float32.

    Returns:
        f32[..., K], `_behind`; bool[..., 1], whether no candidate is allowed; bool[..., K], the
        only candidate of the noise-free limit.
    """
    with variates.double_precision():
        logits = _behind(scores, _per_draw(scores, scale))
        index = jnp.arange(logits.shape[-1], dtype=jnp.int32)
        winner = index.reshape((1,) * (logits.ndim - 1) + (-1,)) == _first_best(logits)[..., None]
        none = jnp.all(jnp.isneginf(logits), axis=-1, keepdims=True)
        return logits.astype(jnp.float32), none, winner


def _exponential_pmf(scores: Array | Scores, scale: Numbers) -> Array:
    """Log probability of every candidate; all -inf where no candidate is allowed."""
    logits, none, winner = _limits(scores, scale)
    soft = jax.nn.log_softmax(jnp.where(none, 0, logits), axis=-1)
    hard = jnp.where(winner, 0.0, -jnp.inf)
    quiet = _per_draw(scores, scale) == 0
    return jnp.where(none, -jnp.inf, jnp.where(quiet, hard, soft))


def _no_candidate(scores: Array | Scores) -> Array:
    """bool[...]: whether all candidates of a draw are forbidden."""
    high = scores.high if isinstance(scores, Scores) else scores
    return jnp.all(jnp.isneginf(high), axis=-1)


def _log_prob_of(pmf: Callable[..., Array]) -> Callable[..., Array]:
    """The log probability of an outcome, from those of all candidates."""

    def log_prob(output: Array, scores: Array | Scores, scale: Numbers) -> Array:
        chosen = jnp.maximum(output, 0)[..., None]
        found = jnp.take_along_axis(pmf(scores, scale), chosen, axis=-1)[..., 0]
        none = jnp.where(_no_candidate(scores), 0.0, -jnp.inf)
        return jnp.where(output == UNSPLIT, none, found)

    return log_prob


def _pmf_divergence(p: Array, q: Array) -> Array:
    """The max-divergence of independent draws, in the worse direction.

    Args:
        p: f32[..., K], log probabilities.
        q: f32[..., K], log probabilities.
    """
    ratio = jnp.where(jnp.isneginf(p) & jnp.isneginf(q), 0.0, p - q)
    return jnp.maximum(jnp.sum(jnp.max(ratio, axis=-1)), jnp.sum(jnp.max(-ratio, axis=-1)))


def _exponential_loss(
    scores: Array | Scores, scale: Numbers, other_scores: Array | Scores, other_scale: Numbers
) -> StepLoss:
    """Bounded range: rho is (range of the log ratio)^2 / 8 a draw (Cesar & Rogers, 2021)."""
    p, q = _exponential_pmf(scores, scale), _exponential_pmf(other_scores, other_scale)
    none, other_none = _no_candidate(scores), _no_candidate(other_scores)
    largest = jnp.where(jnp.any(none != other_none), jnp.inf, _pmf_divergence(p, q))
    ratio = jnp.where(jnp.isneginf(p) & jnp.isneginf(q), jnp.nan, p - q)
    spread = jnp.nanmax(ratio, axis=-1) - jnp.nanmin(ratio, axis=-1)
    return StepLoss(largest, jnp.sum(jnp.where(none & other_none, 0.0, spread**2 / 8)))


exponential = Mechanism(
    "exponential",
    _exponential_sample,
    _log_prob_of(_exponential_pmf),
    _exponential_loss,
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
    _check_candidates(scores)
    bits = words(key, variates.EXPONENTIAL_WORDS, _shape(scores))
    scale = _per_draw(scores, scale)
    with variates.double_precision():
        size = variates.exponential(bits)
        noise = jnp.where(variates.sign_bit(bits), -size, size)
        noise = jnp.where(scale > 0, noise, np.float64(0))
        noisy = _behind(scores, scale) + noise
        return _first_best(noisy)


_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
_REACH = np.linspace(-40.0, 40.0, 161)


def _noisy_max_pmf(scores: Array | Scores, scale: Numbers) -> Array:
    """Log probability of every candidate, for one scale."""
    behind, _, winner = _limits(scores, scale)
    rows = jax.vmap(_winning_mass)(behind.reshape(-1, behind.shape[-1]))
    hard = jnp.where(winner, 0.0, -jnp.inf)
    return jnp.where(jnp.asarray(scale) > 0, rows.reshape(behind.shape), hard)


def _winning_mass(s: Array) -> Array:
    """f32[K]: log probabilities by Gauss quadrature between the kinks of the densities.

    s is `_behind`. In units of the scale, P(k wins) is the integral of the density lap(x - s_k)
    times the product over j != k of the distribution functions Lap(x - s_j). The integrand is
    smooth between scores, so panels break at every score. Scores are clipped to 40 scales around
    the best one, because less than exp(-40) is left beyond.
    """
    # The quadrature nodes of all panels.
    edges = jnp.sort(jnp.concatenate([jnp.asarray(_REACH, jnp.float32), jnp.clip(s, -40, 40)]))
    half = (edges[1:] - edges[:-1]) / 2
    middle = (edges[1:] + edges[:-1]) / 2
    x = middle[:, None] + half[:, None] * jnp.asarray(_NODES, jnp.float32)[None, :]

    # The log of the integrand at every node.
    gap = x[..., None] - s[None, None, :]
    log_two = np.float32(np.log(2))
    above = jnp.log1p(-0.5 * jnp.exp(-jnp.maximum(gap, 0)))
    log_cdf = jnp.where(gap < 0, gap - log_two, above)
    log_pdf = -jnp.abs(gap) - log_two
    log_all = jnp.sum(log_cdf, axis=-1, keepdims=True) - log_cdf + log_pdf

    # The weighted sum over nodes, in logs.
    weight = half[:, None] * jnp.asarray(_NODE_WEIGHTS, jnp.float32)[None, :]
    log_weight = jnp.where(weight > 0, jnp.log(jnp.where(weight > 0, weight, 1)), -jnp.inf)
    return jax.nn.logsumexp(log_all + log_weight[..., None], axis=(0, 1))


def _noisy_max_loss(
    scores: Array | Scores, scale: Numbers, other_scores: Array | Scores, other_scale: Numbers
) -> StepLoss:
    p, q = _noisy_max_pmf(scores, scale), _noisy_max_pmf(other_scores, other_scale)
    return StepLoss.of_pure(_pmf_divergence(p, q))


noisy_max = Mechanism(
    "noisy max",
    _noisy_max_sample,
    _log_prob_of(_noisy_max_pmf),
    _noisy_max_loss,
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
