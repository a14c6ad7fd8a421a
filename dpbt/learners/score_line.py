"""An epilogue that makes probabilities true: a line through the final scores, from one noisy draw.

Scores of a private model hold noise, and models of few steps stop early. So their probabilities are
too sure on some data and too modest on other data. This epilogue releases how many rows of each
class have scores in each of ten public intervals. Logistic regression of the class on the score
(Platt scaling) follows from these counts alone. It also moves the intercept, which decides the
accuracy where one class is rare.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.arithmetic import added, rounded, softmax
from dpbt.common.types import (
    BINARY,
    GRID,
    Array,
    Epilogue,
    Params,
    Prepared,
    Public,
    Relation,
    Release,
    Response,
    relation_name,
)
from dpbt.privacy import boundary, sensitivity
from dpbt.privacy.mechanism import Mechanism, Numbers
from dpbt.privacy.sensitivity import counted_weights, whole_rows

SITE = "scores"

EDGES = np.array([-4, -2.5, -1.5, -0.75, 0, 0.75, 1.5, 2.5, 4], np.float32)
"""f32[9]: the public intervals of the scores, in nats."""

_MIDDLES = np.array([-5, -3.2, -2, -1.1, -0.375, 0.375, 1.1, 2, 3.2, 5], np.float32)
"""f32[10]: the score that stands for each interval, in nats."""

# What is expected before anything is released.
_SLOPE, _SLOPE_SPREAD, _SHIFT_SPREAD = 0.5, 0.7, 0.3

# The slopes and the shifts (in nats) between which the counts decide.
_SLOPES = np.exp(np.linspace(math.log(0.05), math.log(4), 45)).astype(np.float32)
_SHIFTS = np.linspace(-1.5, 1.5, 61).astype(np.float32)

_LN2 = math.log(2.0)


def deviation_of(noise: Mechanism) -> float:
    """The standard deviation of noise of scale 1: that of Laplace noise, or of Gaussian noise."""
    return math.sqrt(2) if noise.price.norm == "l1" else 1.0


def parts(rows: Prepared, scores: Array) -> Array:
    """i32[10, 2]: the present rows of each class with scores (in bits) in each interval.

    With scores f32[K, N] of several classes, the score is the log odds of the largest class, and
    the class says whether the row is of it. A row counts by its weight, in 1 / GRID of a row.
    """
    nats, target = scores * np.float32(_LN2), rows.target
    if scores.ndim == 2:
        nats, target = _of_largest(scores, target)
    interval = jnp.searchsorted(jnp.asarray(EDGES), nats, side="right", method="compare_all")
    place = 2 * interval.astype(jnp.int32) + target.astype(jnp.int32)
    full = jnp.full(nats.shape, float(GRID), jnp.float32)
    part = counted_weights(full, rows).astype(jnp.int32)
    found = jax.ops.segment_sum(part, place, 2 * len(_MIDDLES))
    return found.reshape(len(_MIDDLES), 2)


def _of_largest(scores: Array, target: Array) -> tuple[Array, Array]:
    """(f32[N], bool[N]): the log odds of the largest class in nats, and whether rows are of it."""
    shares, largest = softmax(scores), jnp.argmax(scores, axis=0)
    of_largest = jnp.arange(scores.shape[0], dtype=jnp.int32)[:, None] == largest[None, :]
    odds = rounded(jnp.max(shares, axis=0) / added(jnp.where(of_largest, 0, shares)))
    return jnp.log(odds), target == largest.astype(target.dtype)


def line(noisy: Array, deviation: Numbers, start: Array) -> tuple[Array, Array]:
    """(f32[] slope, f32[] intercept in bits), from noisy counts; post-processing.

    The log odds of a row with score h are start + shift + slope (h - start). `_fitted` says how
    slope and shift follow from the counts.

    Args:
        noisy: i32[10, 2], noisy `parts` in whole rows.
        deviation: f32[], the standard deviation of the noise, in rows.
        start: f32[], where scores started, in bits.
    """
    slope, shift = _fitted(noisy, deviation, rounded(start * np.float32(_LN2)), _SHIFTS)
    return slope, start + rounded(shift / np.float32(_LN2))


def temperature(noisy: Array, deviation: Numbers, start: Array) -> tuple[Array, Array]:
    """(f32[] slope, f32[K] intercept in bits) of several classes; post-processing.

    All scores are multiplied by one slope. Where scores are nearly equal, this multiplies how far
    the log odds of the largest class are above those of a guess, -log(K - 1). So the slope is
    fitted to these, without a shift.

    Args:
        noisy: i32[10, 2], noisy `parts` in whole rows.
        deviation: f32[], the standard deviation of the noise, in rows.
        start: f32[K], where scores started, in bits.
    """
    guess = jnp.float32(-math.log(start.shape[0] - 1))
    slope, _ = _fitted(noisy, deviation, guess, np.zeros(1, np.float32))
    return slope, slope * start


def _fitted(
    noisy: Array, deviation: Numbers, begin: Array, shifts: np.ndarray
) -> tuple[Array, Array]:
    """(f32[] slope, f32[] shift in nats) of log odds begin + shift + slope (h - begin).

    If p is the probability of an interval with c1 and c0 rows, then c1 (1 - p) - c0 p has mean 0.
    Its variance is that of the noise plus that of the labels. So the counts say how likely each
    slope and shift is. The result is their mean over a grid, with a normal prior on the shift and
    on the logarithm of the slope. Where noise hides the counts, the prior remains.
    """
    shift, slope = jnp.asarray(shifts)[:, None], jnp.asarray(_SLOPES)[None, :]
    noise = rounded(jnp.asarray(deviation, jnp.float32) ** 2)

    # How far the counts of each interval are from what a line says. In a loop over intervals the
    # counts are read from memory. Unrolled, every interval would draw its noise anew. Without
    # shifts it is unrolled all the same: a compiler then knows what lines say, and its divisions
    # by what it knows round otherwise.
    def add(misfit: Array, interval: tuple[Array, Array]) -> tuple[Array, None]:
        (zeros, ones), middle = interval
        positive = jax.nn.sigmoid(begin + shift + rounded(slope * (middle - begin)))
        negative = 1 - positive
        squares = rounded(positive**2) + rounded(negative**2)
        rows = (rounded(ones * positive) + rounded(zeros * negative)) / squares
        of_labels = rounded(jnp.maximum(rows, 0) * positive * negative)
        variance = rounded(noise * squares) + of_labels + 1
        apart = rounded(ones * negative) - rounded(zeros * positive)
        return misfit + rounded(apart**2 / variance), None

    none = jnp.zeros((len(shifts), len(_SLOPES)), jnp.float32)
    intervals = noisy.astype(jnp.float32), jnp.asarray(_MIDDLES)
    misfit, _ = jax.lax.scan(add, none, intervals, unroll=len(shifts) == 1)

    # The mean over all lines.
    log_slope = jnp.log(slope)
    prior = rounded(((log_slope - math.log(_SLOPE)) / _SLOPE_SPREAD) ** 2)
    prior = prior + rounded((shift / _SHIFT_SPREAD) ** 2)
    likely = rounded(jax.nn.softmax(-(misfit + prior) / 2, axis=(0, 1)))
    slope = jnp.exp(jnp.sum(rounded(likely * log_slope)))
    return slope, jnp.sum(rounded(likely * shift))


def epilogue(relation: Relation, noise: Mechanism, response: Response = BINARY) -> Epilogue:
    """The epilogue; one draw, "scores", of the sensitivity of one histogram.

    Proof. Given all earlier releases, the score of a row is a function of that row alone. So a row
    is in one interval, in the column of its class. It adds at most 1 to that count before counts
    are rounded, which moves no two of them further apart than 1. []

    Args:
        relation: the neighbouring relation of its draw.
        noise: a mechanism on integers, such as `mechanisms.rounded_gaussian`.
        response: one of two classes, or of several.
    """
    bound = sensitivity.histograms(relation)

    def program(
        draw: boundary.Draw, rows: Prepared, scores: Array, params: Params, public: Public
    ) -> None:
        del params, public
        draw(
            SITE,
            noise,
            boundary.Total(parts(rows, scores), whole_rows),
            sensitivity=bound,
            moves=sensitivity.moved_rows(relation),
            theorem="docs/privacy.md O3",
            releases="rows by score and class",
        )

    def of_release(release: Release, params: Params, start: Array) -> tuple[Array, Array]:
        found = temperature if response.axes else line
        factor = np.float32(deviation_of(noise) * noise.bound(bound))
        return found(release[SITE], rounded(factor * params.noise[SITE]), start)

    more = f", {response.words}" if response.axes else ""
    tag = f"score_line({relation_name(relation)}, {noise.name}{more})"
    return Epilogue(program, of_release, tag)
