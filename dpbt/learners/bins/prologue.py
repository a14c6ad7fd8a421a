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
from dpbt.learners.bins.config import MIN_ESTIMATED_ROWS, BinsConfig, noise_deviation_at_site
from dpbt.learners.bins.histograms import (
    HISTOGRAM_SITE,
    TARGET_SITE,
    class_histograms_sensitivity,
    draw_histogram_with_one_bin_per_row,
    histogram_noise_deviation,
    sum_row_weights_by_bin_and_class,
    sum_row_weights_by_target_bin,
)
from dpbt.learners.bins.rows import BinnedRows
from dpbt.learners.bins.target import (
    CLEAR_DEVIATIONS_OF_MEAN,
    CLEAR_DEVIATIONS_OF_QUANTILE,
    TargetEstimate,
    estimate_location_and_scale,
    estimate_target_bin_shares,
    initial_score_of_target_shares,
)
from dpbt.privacy.boundary import Draw, RowSum
from dpbt.privacy.sensitivity import num_changed_rows, round_grid_units_to_rows
from dpbt.types import BINARY, Array, Release


def _draw_class_and_target_histograms(
    draw: Draw, rows: BinnedRows, weights: Array, *_: Any, config: BinsConfig
) -> None:
    """Draw the noisy histograms of a prologue: by class for all attributes, and of a target number.

    Each is drawn if the config asks for it.
    """
    is_number = config.response.is_number
    if config.draws_histograms:
        counts = sum_row_weights_by_bin_and_class(config, rows.bins, rows.target, weights)
        draw(
            HISTOGRAM_SITE,
            config.noise,
            RowSum(counts, round_grid_units_to_rows),
            sensitivity=class_histograms_sensitivity(config),
            moved_outputs=len(config.attributes) * num_changed_rows(config.relation),
            theorem="dpbt theorem O1",
            releases=f"{'' if is_number else 'class '}histogram of every attribute",
        )
    if is_number:
        counts = sum_row_weights_by_target_bin(
            rows.target, weights.astype(jnp.int32), config.target_bins
        )
        draw_histogram_with_one_bin_per_row(
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
    """Estimate the centre, spread and number of rows of a target from its noisy histogram."""
    return estimate_location_and_scale(
        release[TARGET_SITE], histogram_noise_deviation(config, params, TARGET_SITE)
    )


def estimate_num_rows_by_class(config: BinsConfig, histogram: Array) -> Float32[Array, "K"]:
    """f32[K]: estimate each class's number of rows from noisy class histograms of all attributes.

    It is the median over attributes of their totals, and at least `MIN_ESTIMATED_ROWS`.
    """
    is_bin = jnp.asarray(config.bin_mask)[..., None]
    totals = jnp.sum(jnp.where(is_bin, histogram, 0), axis=1).astype(jnp.float32)
    return jnp.maximum(jnp.median(totals, axis=0), MIN_ESTIMATED_ROWS)


def _initial_score_of_release(config: BinsConfig, release: Release, params: types.Params) -> Array:
    """Estimate the score that all rows start from, from the released histograms.

    For two classes it is f32[], the log ratio of their rows in bits, shrunk by noise. For several
    classes it is f32[K], the logarithms of their shares, with mean 0. For a number it is f32[], its
    centre, its quantile or the logarithm of its mean.
    """
    if config.response.is_number:
        return _initial_score_of_number(config, release, params)
    return _initial_score_of_classes(config, release, params)


def _initial_score_of_number(config: BinsConfig, release: Release, params: types.Params) -> Array:
    """f32[]: estimate the score that all rows of a number start from.

    It is a centre, a quantile or the logarithm of a mean, by the objective.
    """
    target = estimate_target_from_histogram(config, release, params)
    if config.response.objective == "squared":
        return target.center
    is_quantile = config.response.objective == "quantile"
    shares = estimate_target_bin_shares(
        release[TARGET_SITE],
        noise_deviation=histogram_noise_deviation(config, params, TARGET_SITE),
        center=target.center,
        spread=target.spread,
        clear_deviations=CLEAR_DEVIATIONS_OF_QUANTILE if is_quantile else CLEAR_DEVIATIONS_OF_MEAN,
    )
    return initial_score_of_target_shares(config.response, shares)


def _initial_score_of_classes(config: BinsConfig, release: Release, params: types.Params) -> Array:
    """f32[] or f32[K]: estimate the score of each class that all rows start from.

    It follows from the logarithms of the classes' noisy rows.
    """
    totals = estimate_num_rows_by_class(config, release[HISTOGRAM_SITE])
    mean_bins = float(config.bin_mask.sum(axis=1).mean())
    deviation_of_total = noise_deviation_at_site(
        config,
        params,
        site=HISTOGRAM_SITE,
        site_sensitivity=class_histograms_sensitivity(config)
        * math.sqrt(mean_bins / len(config.attributes)),
    )
    shrunk = totals + round_separately(3 * deviation_of_total)
    if config.response == BINARY:
        return portable_log2(shrunk[1] / shrunk[0])
    logs = round_separately(portable_log2(shrunk))
    return logs - mean_in_order(logs)


def histogram_prologue(config: BinsConfig) -> types.Prologue:
    """Make the prologue that draws the class histograms, and the histogram of a target number."""

    def unit_of_number(release: Release, params: types.Params) -> Array:
        return estimate_target_from_histogram(config, release, params).spread

    def rows_of_number(release: Release, params: types.Params) -> Array:
        return estimate_target_from_histogram(config, release, params).num_rows

    def rows_of_classes(release: Release, params: types.Params) -> Array:
        return jnp.sum(estimate_num_rows_by_class(config, release[HISTOGRAM_SITE]))

    is_number = config.response.is_number
    return types.Prologue(
        program=functools.partial(_draw_class_and_target_histograms, config=config),
        initial_score=functools.partial(_initial_score_of_release, config),
        identity=f"histograms({config.identity})",
        unit=unit_of_number if is_number else None,
        estimated_rows=rows_of_number if is_number else rows_of_classes,
    )
