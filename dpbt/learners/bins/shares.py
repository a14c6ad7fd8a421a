"""The share of rows in each bin, as released histograms say; post-processing."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from dpbt import types
from dpbt.common.arithmetic import (
    array_namespace,
    multiply_by_reciprocal,
    round_separately,
    sum_in_order,
)
from dpbt.learners.bins.config import BinsConfig, noise_deviation_at_site
from dpbt.learners.bins.histograms import HISTOGRAM_SITE, class_histograms_sensitivity
from dpbt.learners.bins.prologue import estimate_num_rows_by_class, estimate_target_from_histogram
from dpbt.types import Array, Public

_EVEN_SHARE = 0.4
"""How much of the mass that thresholds follow is even over bins."""


class BinSharesAndNumRows(NamedTuple):
    """The estimated shares of rows in bins, and the estimated number of rows.

    Attributes:
        shares: f32[F, C], the share of the rows in each bin of each feature.
        num_rows: f32[], how many rows there seem to be.
    """

    shares: Array
    num_rows: Array


def estimate_bin_shares_and_num_rows(
    config: BinsConfig, params: types.Params, public: Public
) -> BinSharesAndNumRows:
    """Estimate the share of rows in each bin, and the number of rows, from what was released.

    This is post-processing. Without histograms the shares are uniform. With them nine tenths of a
    share are what stands above the noise, and a tenth is uniform.
    """
    is_bin = config.bin_mask
    is_number = config.response.is_number
    rows = public.estimated_rows
    if not config.draws_histograms:
        shares = jnp.asarray(is_bin / is_bin.sum(axis=1, keepdims=True), jnp.float32)
    else:
        histogram = public.prologue[HISTOGRAM_SITE]
        shares = estimate_bin_shares_of_noisy_histogram(config, params, histogram)
        if rows is None or is_number:
            rows = jnp.sum(estimate_num_rows_by_class(config, histogram))
    if rows is None:
        number_of_rows = (
            estimate_target_from_histogram(config, public.prologue, params).num_rows
            if is_number
            else public.max_rows
        )
        rows = jnp.asarray(number_of_rows, jnp.float32)
    return BinSharesAndNumRows(shares, rows)


def estimate_bin_shares_of_noisy_histogram(
    config: BinsConfig, params: types.Params, noisy_histogram: Any
) -> Float32[Any, "F C"]:
    """f32[F, C]: estimate the share of rows in each bin from noisy class histograms.

    The histograms are i32[F, C, K].

    It works on arrays of NumPy or of JAX alike.
    """
    xp = array_namespace(noisy_histogram)
    is_bin = config.bin_mask
    uniform = xp.asarray(is_bin / is_bin.sum(axis=1, keepdims=True), np.float32)
    deviation = noise_deviation_at_site(
        config,
        params,
        site=HISTOGRAM_SITE,
        site_sensitivity=class_histograms_sensitivity(config) * math.sqrt(noisy_histogram.shape[2]),
    )
    counts = xp.sum(noisy_histogram, axis=2).astype(np.float32)
    above = xp.where(xp.asarray(is_bin), xp.maximum(counts - deviation, 0), 0)
    total = sum_in_order(above.T)[:, None]
    measured = multiply_by_reciprocal(above, xp.where(total > 0, total, 1))
    measured = xp.where(total > 0, measured, uniform)
    return round_separately(0.9 * measured) + round_separately(0.1 * uniform)


def mix_bin_shares_with_even_shares(config: BinsConfig, bin_shares: Array) -> Float32[Array, "F C"]:
    """f32[F, C]: mix shares of rows in bins with even shares, by which columns are cut."""
    even_shares = config.bin_mask / config.bin_mask.sum(axis=1, keepdims=True)
    return round_separately((1 - _EVEN_SHARE) * bin_shares) + round_separately(
        _EVEN_SHARE * jnp.asarray(even_shares, jnp.float32)
    )
