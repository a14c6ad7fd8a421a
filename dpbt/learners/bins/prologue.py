"""What learners of bins draw before the first round: histograms of classes, or that of a number.

Class histograms of all attributes say where rows are, and where scores start. The histogram of a
number's positions says where scores start, and in which unit residuals are measured.
"""

import functools
import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Float32

from dpbt import types
from dpbt.common.arithmetic import mean_in_order, portable_log2, round_separately
from dpbt.learners.bins.config import BinsConfig, noise_deviation
from dpbt.learners.bins.histograms import (
    HISTOGRAM_SITE,
    TARGET_SITE,
    class_histograms,
    deviation_of_one_histogram,
    draw_histogram,
    histogram_sensitivity,
    target_histogram,
)
from dpbt.learners.bins.rows import BinnedRows
from dpbt.learners.bins.target import (
    CLEAR_DEVIATIONS_OF_MEAN,
    CLEAR_DEVIATIONS_OF_QUANTILE,
    TargetEstimate,
    estimate_location_and_scale,
    estimate_target_shares,
    initial_score_of_number,
)
from dpbt.privacy.boundary import Draw, Total
from dpbt.privacy.sensitivity import (
    num_changed_rows,
    round_grid_to_rows,
)
from dpbt.types import BINARY, Array, Release


def _draw_histograms(
    config: BinsConfig, draw: Draw, rows: BinnedRows, weights: Array, *_: Any
) -> None:
    """Draw the class histograms of all attributes, and the histogram of a number."""
    is_number, changed_rows = config.response.is_number, num_changed_rows(config.relation)
    if config.draws_histograms:
        counts = class_histograms(config, rows.bins, rows.target, weights)
        draw(
            HISTOGRAM_SITE,
            config.noise,
            Total(counts, round_grid_to_rows),
            sensitivity=histogram_sensitivity(config),
            moved_outputs=len(config.attributes) * changed_rows,
            theorem="dpbt theorem O1",
            releases=f"{'' if is_number else 'class '}histogram of every attribute",
        )
    if is_number:
        counts = target_histogram(rows.target, weights.astype(jnp.int32), config.target_bins)
        draw_histogram(
            config,
            draw,
            counts,
            site=TARGET_SITE,
            theorem="dpbt theorem O1",
            releases="histogram of the target",
        )


def estimate_target_from_histogram(
    config: BinsConfig, release: Release, params: types.Params
) -> TargetEstimate:
    """The location, the scale and the rows of a number, as its released histogram says."""
    return estimate_location_and_scale(
        release[TARGET_SITE], deviation_of_one_histogram(config, params, TARGET_SITE)
    )


def estimate_class_rows(config: BinsConfig, histogram: Array) -> Float32[Array, "K"]:
    """f32[K]: the classes' numbers of rows, each the median over attributes; at least 10."""
    is_bin = jnp.asarray(config.bin_mask)[..., None]
    totals = jnp.sum(jnp.where(is_bin, histogram, 0), axis=1).astype(jnp.float32)
    return jnp.maximum(jnp.median(totals, axis=0), 10.0)


def _initial_score(config: BinsConfig, release: Release, params: types.Params) -> Array:
    """The score that rows start from.

    Of two classes it is f32[], the log ratio in bits, shrunk by noise. Of several classes it is
    f32[K], the logarithms of their shares, with mean 0. Of a number it is f32[], its centre, its
    quantile or the logarithm of its mean.
    """
    if config.response.is_number:
        center, spread, _ = estimate_target_from_histogram(config, release, params)
        if config.response.objective == "squared":
            return center
        is_quantile = config.response.objective == "quantile"
        shares = estimate_target_shares(
            release[TARGET_SITE],
            deviation=deviation_of_one_histogram(config, params, TARGET_SITE),
            center=center,
            spread=spread,
            clear_deviations=(
                CLEAR_DEVIATIONS_OF_QUANTILE if is_quantile else CLEAR_DEVIATIONS_OF_MEAN
            ),
        )
        return initial_score_of_number(config.response, shares)
    totals = estimate_class_rows(config, release[HISTOGRAM_SITE])
    mean_bins = float(config.bin_mask.sum(axis=1).mean())
    deviation_of_total = noise_deviation(
        config,
        params,
        site=HISTOGRAM_SITE,
        site_sensitivity=histogram_sensitivity(config)
        * math.sqrt(mean_bins / len(config.attributes)),
    )
    shrunk = totals + round_separately(3 * deviation_of_total)
    if config.response == BINARY:
        return portable_log2(shrunk[1] / shrunk[0])
    logs = round_separately(portable_log2(shrunk))
    return logs - mean_in_order(logs)


def histogram_prologue(config: BinsConfig) -> types.Prologue:
    """The prologue of learners of bins: class histograms, or the histogram of a number."""

    def unit_of_number(release: Release, params: types.Params) -> Array:
        return estimate_target_from_histogram(config, release, params).spread

    def rows_of_number(release: Release, params: types.Params) -> Array:
        return estimate_target_from_histogram(config, release, params).num_rows

    def rows_of_classes(release: Release, params: types.Params) -> Array:
        return jnp.sum(estimate_class_rows(config, release[HISTOGRAM_SITE]))

    is_number = config.response.is_number
    return types.Prologue(
        program=functools.partial(_draw_histograms, config),
        initial_score=functools.partial(_initial_score, config),
        identity=f"histograms({config.identity})",
        unit=unit_of_number if is_number else None,
        estimated_rows=rows_of_number if is_number else rows_of_classes,
    )
