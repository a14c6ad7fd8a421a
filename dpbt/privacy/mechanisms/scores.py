"""Scores of selections in nearly double precision, as pairs of float32 arrays.

Float32 holds the score of a candidate to 2^-24 of its size. Beyond some ten thousand rows that is a
share of what one row moves. A pair of float32 numbers holds 48 bits, and may leave the scope of
`variates.double_precision`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import Array
from dpbt.privacy import variates
from dpbt.public import without_values


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


def doubles(scores: Array | Scores) -> Array:
    """f64[..., K]: the scores, for use within `variates.double_precision`."""
    if isinstance(scores, Scores):
        return variates.double(scores.high) + variates.double(scores.low)
    return variates.double(scores)


def shape(scores: Array | Scores) -> tuple[int, ...]:
    """The shape [..., K] of the scores."""
    return scores.high.shape if isinstance(scores, Scores) else scores.shape
