"""Estimates of the centre and the spread of a number from its noisy histogram; post-processing.

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
from dpbt.learners.bins.config import MIN_ESTIMATED_ROWS
from dpbt.learners.bins.grids import normalized_likelihood_of_misfit, sum_grid_in_fixed_order
from dpbt.learners.bins.histograms import middles_of_equal_bins
from dpbt.privacy.mechanism_types import Numbers
from dpbt.types import Array, Public

# The centres and the spreads (standard deviations) between which the counts decide, as positions.
_CENTERS = ((np.arange(128) + 0.5) / 128).astype(np.float32)
_SPREADS = np.geomspace(1 / 256, 0.5, 29).astype(np.float32)

_PRIOR_SPREAD = 0.15
"""The spread that is expected before anything is released, as a share of the declared range."""

_PRIOR_LOG_SPREAD_DEVIATION = 1.0
"""The standard deviation of the logarithm of the spread around what is expected."""

_PRIOR_CENTER = 0.5
"""The centre that is expected before anything is released, as a position in the range."""

_PRIOR_CENTER_DEVIATION = 0.3
"""The standard deviation of the centre around what is expected, as a position."""

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
    logistic = _posterior_mean_of_logistic_laws(fit)
    clear = _median_and_spread_of_clear_counts(noisy_counts, noise_deviation)
    has_most_rows = clear.num_rows > logistic.num_rows / 2
    is_spiky = has_most_rows & (clear.spread > _SPIKY_RATIO * logistic.spread)
    return TargetEstimate(
        center=jnp.where(is_spiky, clear.median, logistic.center),
        spread=jnp.where(is_spiky, clear.spread, logistic.spread),
        num_rows=logistic.num_rows,
    )


class _LogisticFits(NamedTuple):
    """How well logistic laws of a grid of centres and spreads fit noisy counts.

    Attributes:
        num_rows: f32[A, B], the number of rows with which each law fits best.
        misfit: f32[A, B], the sum of squared errors of the counts over their variances.
    """

    num_rows: Array
    misfit: Array


def _posterior_mean_of_logistic_laws(fits: _LogisticFits) -> TargetEstimate:
    """The mean centre, spread and rows over all laws, each as likely as its misfit and the prior.

    The mean of the spread is that of its logarithm.
    """
    center = jnp.asarray(_CENTERS)[:, None]
    spread = jnp.asarray(_SPREADS)[None, :]
    prior_misfit_of_spread = round_separately(
        (portable_log(spread / _PRIOR_SPREAD) / _PRIOR_LOG_SPREAD_DEVIATION) ** 2
    )
    prior_misfit = prior_misfit_of_spread + round_separately(
        ((center - _PRIOR_CENTER) / _PRIOR_CENTER_DEVIATION) ** 2
    )
    probability = normalized_likelihood_of_misfit(fits.misfit + prior_misfit)
    log_spreads = round_separately(
        probability * portable_log(jnp.broadcast_to(spread, probability.shape))
    )
    centers = round_separately(probability * jnp.broadcast_to(center, probability.shape))
    return TargetEstimate(
        center=sum_grid_in_fixed_order(centers),
        # Rounded, since a compiler may turn a later a / exp(b) into a * exp(-b).
        spread=round_separately(portable_exp(sum_grid_in_fixed_order(log_spreads))),
        num_rows=sum_grid_in_fixed_order(round_separately(probability * fits.num_rows)),
    )


def _fit_rows_of_logistic_laws(noisy_counts: Array, noise_deviation: Numbers) -> _LogisticFits:
    """Fit the number of rows of each logistic law of the grid to noisy counts."""
    center = jnp.asarray(_CENTERS)[:, None]
    spread = jnp.asarray(_SPREADS)[None, :]
    share = _logistic_probability_of_bins(center, spread, noisy_counts.shape[0])
    counts = noisy_counts.astype(jnp.float32)[None, None, :]
    counts_times_shares = sum_in_order(jnp.moveaxis(round_separately(counts * share), 2, 0))
    squared_shares = sum_in_order(jnp.moveaxis(round_separately(share**2), 2, 0))
    rows = multiply_by_reciprocal(counts_times_shares, squared_shares)
    rows = jnp.maximum(rows, MIN_ESTIMATED_ROWS)

    # How far the counts are from those of the law.
    expected = round_separately(rows[..., None] * share)
    noise_variance = round_separately(jnp.asarray(noise_deviation, jnp.float32) ** 2)
    variance = (
        noise_variance
        + round_separately(2 * expected)
        + round_separately((_RELATIVE_MISFIT * expected) ** 2)
        + 1
    )
    squared_error = round_separately((counts - expected) ** 2)
    misfit = sum_in_order(jnp.moveaxis(round_separately(squared_error / variance), 2, 0))
    return _LogisticFits(rows, misfit)


_CLEAR_DEVIATIONS = 4.0
"""A count of at least so many deviations of its noise is clear, and is taken as it is."""

CLEAR_DEVIATIONS_OF_MEAN = 4.0
"""The deviations of its noise from which on a count tells a share of the rows, for a mean.

A range of counts is mostly empty, and its far bins weigh most in a mean. With two deviations the
mean of counts that are mostly 0 was two to five times too high at the start.
"""

CLEAR_DEVIATIONS_OF_QUANTILE = 2.0
"""The deviations of its noise from which on a count tells a share of the rows, for a quantile."""

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
    """Compute the median and the spread of the rows in bins with counts far above the noise."""
    counts = noisy_counts.astype(jnp.float32)
    num_bins = noisy_counts.shape[0]
    clear = jnp.where(
        counts > _CLEAR_DEVIATIONS * jnp.asarray(noise_deviation, jnp.float32), counts, 0
    )
    middles = middles_of_equal_bins(num_bins)
    cumulative_counts = jnp.cumsum(clear)
    num_rows = cumulative_counts[-1]
    bin = jnp.sum(cumulative_counts < round_separately(num_rows / 2), dtype=jnp.int32)
    median = middles[jnp.minimum(bin, num_bins - 1)]
    distances = sum_in_order(round_separately(clear * jnp.abs(middles - median)))
    mean_distance = round_separately(distances / jnp.maximum(num_rows, 1))
    return _ClearCounts(
        median=median,
        spread=round_separately(np.float32(_SPREAD_OF_MEAN_DISTANCE) * mean_distance),
        num_rows=num_rows,
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
    num_bins = noisy_counts.shape[0]
    counts = noisy_counts.astype(jnp.float32)
    counts_above_noise = jnp.where(counts > clear_deviations * noise_deviation, counts, 0)
    expected_counts = round_separately(
        _logistic_probability_of_bins(center, spread, num_bins)
        * (round_separately(num_bins * noise_deviation * np.float32(0.2)) + 1)
    )
    total = counts_above_noise + expected_counts
    return multiply_by_reciprocal(total, sum_in_order(total))


def initial_score_of_target_shares(
    response: types.Response, bin_shares: Array
) -> Float32[Array, ""]:
    """f32[]: where scores start: the quantile of a target, or the logarithm of its mean.

    Args:
        response: what is predicted.
        bin_shares: f32[B], the estimated share of the rows in each bin of the target.
    """
    num_bins = bin_shares.shape[0]
    if response.objective == "quantile":
        cumulative_shares = jnp.cumsum(bin_shares)
        num_bins_below = jnp.sum(cumulative_shares < response.level, dtype=jnp.int32)
        bin = jnp.minimum(num_bins_below, num_bins - 1)
        share_of_bin = bin_shares[bin]
        position_in_bin = (response.level - (cumulative_shares[bin] - share_of_bin)) / jnp.maximum(
            share_of_bin, 1e-9
        )
        return round_separately(
            (bin.astype(jnp.float32) + jnp.clip(round_separately(position_in_bin), 0, 1))
            * np.float32(1 / num_bins)
        )
    mean = sum_in_order(round_separately(bin_shares * middles_of_equal_bins(num_bins)))
    return round_separately(portable_log(mean))


def score_change_per_spread(response: types.Response, public: Public) -> Float32[Array, ""]:
    """f32[]: how far a score moves where the predicted number moves by one spread.

    The prediction of a count is exp(score), so there it depends on where scores start.
    """
    if response.objective == "poisson":
        return round_separately(public.unit / round_separately(portable_exp(public.initial_score)))
    return public.unit
