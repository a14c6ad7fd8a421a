"""A noisy histogram of a number's positions: where scores start, and the unit of residuals.

A declared range may be far wider than the numbers in it. Residuals are clipped at a multiple of the
spread that this histogram shows, so a generous range costs little noise.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.arithmetic import rounded
from dpbt.base import Array
from dpbt.privacy.mechanism import Numbers

SITE = "target"

MAX_BINS = 256
"""Most bins of equal width that the range is cut into."""

# The centres and the spreads (standard deviations) between which the counts decide, as positions.
_CENTERS = ((np.arange(128) + 0.5) / 128).astype(np.float32)
_SPREADS = np.geomspace(1 / 256, 0.5, 29).astype(np.float32)

# What is expected before anything is released.
_SPREAD, _LOG_SPREAD = 0.15, 1.0
_CENTER, _OFF_CENTER = 0.5, 0.3

_UNLIKE = 0.3
"""How far counts are from those of a logistic distribution, as a share of what is expected."""


def counts(target: Array, rows: Array, bins: int) -> Array:
    """i32[B]: how many rows have their number in each bin.

    A row adds at most 1, by its own weight, to the count of one bin before counts are rounded to
    whole rows. Two numbers that differ by at most 1 are at most 1 apart once they are rounded. So
    its sensitivity is that of one histogram (`sensitivity.histograms`).

    Args:
        target: f32[N], positions; what is outside of [0, 1] counts as the nearer end.
        rows: i32[N], the weight of each row, in 1 / GRID of a row.
        bins: B, how many bins of equal width the range is cut into.
    """
    place = jnp.clip(jnp.floor(jnp.nan_to_num(target) * bins), 0, bins - 1)
    return jax.ops.segment_sum(rows, place.astype(jnp.int32), bins)


def fitted(noisy: Array, deviation: Numbers) -> tuple[Array, Array, Array]:
    """(f32[] centre, f32[] spread, f32[] rows) of noisy counts; post-processing.

    The counts are compared with those of logistic distributions of many centres and spreads. Each
    is as likely as its misfit says. Counts vary by their noise, as Poisson counts do, and by three
    tenths of what is expected, since no number follows a logistic law closely. The result is the
    mean over all of them, with a broad prior. So where noise hides the counts, the middle of the
    range and a spread of about a seventh of it remain.

    Args:
        noisy: i32[B], noisy `counts`, in rows.
        deviation: f32[], the standard deviation of the noise, in rows.
    """
    center = jnp.asarray(_CENTERS)[:, None]
    spread = jnp.asarray(_SPREADS)[None, :]

    # The share of each bin; the ends of the range hold what lies beyond.
    bins = noisy.shape[0]
    edges = jnp.arange(1, bins, dtype=jnp.float32) / bins
    scale = spread * np.float32(math.sqrt(3) / math.pi)
    below = jax.nn.sigmoid((edges[None, None, :] - center[..., None]) / scale[..., None])
    ends = (*below.shape[:2], 1)
    share = jnp.diff(jnp.concatenate([jnp.zeros(ends), below, jnp.ones(ends)], axis=2), axis=2)

    # How many rows fit best, and how far the counts then are from these shares.
    found = noisy.astype(jnp.float32)[None, None, :]
    rows = jnp.sum(rounded(found * share), axis=2) / jnp.sum(rounded(share**2), axis=2)
    rows = jnp.maximum(rows, 10.0)
    expected = rounded(rows[..., None] * share)
    squared = rounded(jnp.asarray(deviation, jnp.float32) ** 2)
    variance = squared + rounded(2 * expected) + rounded((_UNLIKE * expected) ** 2) + 1
    misfit = jnp.sum(rounded((found - expected) ** 2 / variance), axis=2)

    # The mean over all of them.
    off_spread = rounded((jnp.log(spread / _SPREAD) / _LOG_SPREAD) ** 2)
    prior = off_spread + rounded(((center - _CENTER) / _OFF_CENTER) ** 2)
    likely = rounded(jax.nn.softmax(-(misfit + prior) / 2, axis=(0, 1)))
    logs = rounded(likely * jnp.log(jnp.broadcast_to(spread, likely.shape)))
    mean_center = jnp.sum(rounded(likely * jnp.broadcast_to(center, likely.shape)))
    mean_spread = rounded(jnp.exp(jnp.sum(logs)))  # else a / exp(b) may become a * exp(-b)
    return mean_center, mean_spread, jnp.sum(rounded(likely * rows))
