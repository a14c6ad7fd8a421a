"""The location and the scale of a number, told by its noisy histogram; post-processing.

A declared range may be far wider than the numbers in it. Residuals are clipped at a multiple of the
spread that the histogram shows, so a generous range costs little noise.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Shaped

from dpbt import types
from dpbt.common.arithmetic import (
    multiply_by_reciprocal,
    portable_exp,
    portable_log,
    portable_sigmoid,
    round_separately,
    sum_in_order,
)
from dpbt.learners.bins.grids import normalized_likelihood_of_misfit, sum_grid_in_fixed_order
from dpbt.privacy.mechanism_types import Numbers
from dpbt.types import Array, Public

# The centres and the spreads (standard deviations) between which the counts decide, as positions.
_CENTERS = ((np.arange(128) + 0.5) / 128).astype(np.float32)
_SPREADS = np.geomspace(1 / 256, 0.5, 29).astype(np.float32)

# What is expected before anything is released.
_PRIOR_SPREAD, _PRIOR_LOG_SPREAD_DEVIATION = 0.15, 1.0
_PRIOR_CENTER, _PRIOR_CENTER_DEVIATION = 0.5, 0.3

_LOGISTIC_SCALE = math.sqrt(3) / math.pi
"""The scale of a logistic law whose spread is 1."""

_RELATIVE_MISFIT = 0.3
"""How far counts are from those of a logistic distribution, as a share of what is expected."""


class TargetEstimate(NamedTuple):
    """The location, the spread and the rows of a target, estimated from a released histogram.

    Attributes:
        center: f32[], the position of their centre.
        spread: f32[], their standard deviation, as a position.
        num_rows: f32[], how many rows there are.
    """

    center: Array
    spread: Array
    num_rows: Array


def estimate_location_and_scale(
    noisy_counts: Shaped[Array, "B"], noise_deviation: Float32[Numbers, ""]
) -> TargetEstimate:
    """Estimate the centre, the spread and the number of rows from a target's noisy histogram.

    This is post-processing.

    The counts are compared with those of logistic distributions of many centres and spreads. Each
    is as likely as its misfit says. Counts vary by their noise, as Poisson counts do, and by three
    tenths of what is expected, since no number follows a logistic law closely. The result is the
    mean over all of them, with a broad prior. So where noise hides the counts, the middle of the
    range and a spread of about a seventh of it remain.

    A number of few values, such as rounded years or counts that are mostly 0, has its rows in
    spikes, and a narrow law fits one of them best. Where most rows are in counts that stand clear
    of the noise, and their mean distance from their median is far above that of the law, this
    distance says the spread, and the median is the centre.

    Args:
        noisy_counts: i32[B], noisy `sum_row_weights_by_target_bin`, in rows.
        noise_deviation: f32[], the standard deviation of the noise, in rows.
    """
    fit = _fit_rows_of_logistic_laws(noisy_counts, noise_deviation)
    center, spread = jnp.asarray(_CENTERS)[:, None], jnp.asarray(_SPREADS)[None, :]

    # The mean over all laws, each as likely as its misfit and the prior say.
    off_spread = round_separately(
        (portable_log(spread / _PRIOR_SPREAD) / _PRIOR_LOG_SPREAD_DEVIATION) ** 2
    )
    prior = off_spread + round_separately(((center - _PRIOR_CENTER) / _PRIOR_CENTER_DEVIATION) ** 2)
    likely = normalized_likelihood_of_misfit(fit.misfit + prior)
    logs = round_separately(likely * portable_log(jnp.broadcast_to(spread, likely.shape)))
    mean_center = sum_grid_in_fixed_order(
        round_separately(likely * jnp.broadcast_to(center, likely.shape))
    )
    mean_spread = round_separately(
        portable_exp(sum_grid_in_fixed_order(logs))
    )  # else a / exp(b) may be a * exp(-b)
    num_rows = sum_grid_in_fixed_order(round_separately(likely * fit.num_rows))
    clear = _median_and_spread_of_clear_counts(noisy_counts, noise_deviation)
    is_spiky = (clear.num_rows > num_rows / 2) & (clear.spread > _SPIKY_RATIO * mean_spread)
    return TargetEstimate(
        center=jnp.where(is_spiky, clear.median, mean_center),
        spread=jnp.where(is_spiky, clear.spread, mean_spread),
        num_rows=num_rows,
    )


class _LogisticFits(NamedTuple):
    """How well logistic laws of a grid of centres and spreads fit noisy counts.

    Attributes:
        num_rows: f32[A, B], the number of rows with which each law fits best, at least 10.
        misfit: f32[A, B], the sum of squared errors of the counts over their variances.
    """

    num_rows: Array
    misfit: Array


def _fit_rows_of_logistic_laws(noisy_counts: Array, noise_deviation: Numbers) -> _LogisticFits:
    """Fit the number of rows of each logistic law of the grid to noisy counts."""
    center, spread = jnp.asarray(_CENTERS)[:, None], jnp.asarray(_SPREADS)[None, :]
    share = _logistic_probability_of_bins(center, spread, noisy_counts.shape[0])
    counts = noisy_counts.astype(jnp.float32)[None, None, :]
    of_counts = sum_in_order(jnp.moveaxis(round_separately(counts * share), 2, 0))
    of_shares = sum_in_order(jnp.moveaxis(round_separately(share**2), 2, 0))
    rows = multiply_by_reciprocal(of_counts, of_shares)
    rows = jnp.maximum(rows, 10.0)

    # How far the counts are from those of the law.
    expected = round_separately(rows[..., None] * share)
    squared = round_separately(jnp.asarray(noise_deviation, jnp.float32) ** 2)
    variance = (
        squared
        + round_separately(2 * expected)
        + round_separately((_RELATIVE_MISFIT * expected) ** 2)
        + 1
    )
    squares = round_separately((counts - expected) ** 2)
    misfit = sum_in_order(jnp.moveaxis(round_separately(squares / variance), 2, 0))
    return _LogisticFits(rows, misfit)


_CLEAR_DEVIATIONS = 4.0
"""From how many deviations of its noise on a count is taken as it is."""

CLEAR_DEVIATIONS_OF_MEAN, CLEAR_DEVIATIONS_OF_QUANTILE = 4.0, 2.0
"""From how many deviations of its noise on a count tells a share, for a mean or a quantile.

A range of counts is mostly empty, and its far bins weigh most in a mean. With two deviations the
mean of counts that are mostly 0 was two to five times too high at the start.
"""

_SPIKY_RATIO = 1.5
"""How far the spread of clear counts must be above that of a law to stand in its place."""

_SPREAD_OF_MEAN_DISTANCE = math.sqrt(math.pi / 2)
"""The spread of a normal law whose mean distance from its median is 1."""


class _ClearCounts(NamedTuple):
    """The median and the spread of the bins whose counts are clearly above their noise.

    Attributes:
        median: f32[], the middle of the bin of their median, as a position.
        spread: f32[], that of a normal law with their mean distance from the median, as a position.
        num_rows: f32[], how many rows they count.
    """

    median: Array
    spread: Array
    num_rows: Array


def _median_and_spread_of_clear_counts(
    noisy_counts: Array, noise_deviation: Numbers
) -> _ClearCounts:
    """The median and the spread of the rows in bins whose counts are far above the noise."""
    counts, num_bins = noisy_counts.astype(jnp.float32), noisy_counts.shape[0]
    clear = jnp.where(
        counts > _CLEAR_DEVIATIONS * jnp.asarray(noise_deviation, jnp.float32), counts, 0
    )
    middles = jnp.asarray((np.arange(num_bins) + 0.5) / num_bins, jnp.float32)
    up_to = jnp.cumsum(clear)
    num_rows = up_to[-1]
    bin = jnp.sum(up_to < round_separately(num_rows / 2), dtype=jnp.int32)
    median = middles[jnp.minimum(bin, num_bins - 1)]
    distances = sum_in_order(round_separately(clear * jnp.abs(middles - median)))
    mean_distance = round_separately(distances / jnp.maximum(num_rows, 1))
    return _ClearCounts(
        median, round_separately(np.float32(_SPREAD_OF_MEAN_DISTANCE) * mean_distance), num_rows
    )


def _logistic_probability_of_bins(
    center: Array, spread: Array, num_bins: int
) -> Float32[Array, "... B"]:
    """f32[..., B]: the probability of each bin by a logistic law; the end bins hold its tails."""
    edges = jnp.arange(1, num_bins, dtype=jnp.float32).reshape(*[1] * center.ndim, -1) / num_bins
    scale = spread * np.float32(_LOGISTIC_SCALE)
    below = portable_sigmoid(multiply_by_reciprocal(edges - center[..., None], scale[..., None]))
    ends = (*below.shape[:-1], 1)
    return jnp.diff(jnp.concatenate([jnp.zeros(ends), below, jnp.ones(ends)], axis=-1), axis=-1)


def estimate_target_bin_shares(
    noisy_counts: Array,
    *,
    noise_deviation: Array,
    center: Array,
    spread: Array,
    clear_deviations: float,
) -> Float32[Array, "B"]:
    """f32[B]: estimate the share of rows in each target bin from a noisy histogram.

    This is post-processing.

    Counts of a few deviations of their noise are taken as they are. The others are told by a
    logistic distribution, which counts for a fifth of a deviation in each bin.

    Args:
        noisy_counts: i32[B], the noisy histogram of the target, in rows.
        noise_deviation: f32[], the standard deviation of the noise, in rows.
        center: f32[], the position of the centre of the numbers.
        spread: f32[], their standard deviation, as a position.
        clear_deviations: how many deviations are a few.
    """
    bins, counts = noisy_counts.shape[0], noisy_counts.astype(jnp.float32)
    counts_above_noise = jnp.where(counts > clear_deviations * noise_deviation, counts, 0)
    expected_counts = round_separately(
        _logistic_probability_of_bins(center, spread, bins)
        * (round_separately(bins * noise_deviation * np.float32(0.2)) + 1)
    )
    total = counts_above_noise + expected_counts
    return multiply_by_reciprocal(total, sum_in_order(total))


def initial_score_of_target_shares(
    response: types.Response, bin_shares: Array
) -> Float32[Array, ""]:
    """f32[]: the quantile of a target, or the logarithm of its mean, by its bins' shares.

    The shares are f32[B].
    """
    bins = bin_shares.shape[0]
    if response.objective == "quantile":
        up_to = jnp.cumsum(bin_shares)
        bin = jnp.minimum(jnp.sum(up_to < response.level, dtype=jnp.int32), bins - 1)
        inside = (response.level - (up_to[bin] - bin_shares[bin])) / jnp.maximum(
            bin_shares[bin], 1e-9
        )
        return round_separately(
            (bin.astype(jnp.float32) + jnp.clip(round_separately(inside), 0, 1))
            * np.float32(1 / bins)
        )
    middles = jnp.asarray((np.arange(bins) + 0.5) / bins, jnp.float32)
    return round_separately(portable_log(sum_in_order(round_separately(bin_shares * middles))))


def score_change_per_spread(response: types.Response, public: Public) -> Float32[Array, ""]:
    """f32[]: how far a score moves where the predicted number moves by one spread.

    The prediction of a count is exp(score), so there it depends on where scores start.
    """
    if response.objective == "poisson":
        return round_separately(public.unit / round_separately(portable_exp(public.initial_score)))
    return public.unit
