"""What oblivious trees draw before the first round: class histograms, or the histogram of a number.

Class histograms of all attributes say where rows are, and where scores start. The histogram of a
number's positions says where scores start, and in which unit residuals are measured.
"""

import functools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Float32

from dpbt import types
from dpbt.common.arithmetic import round_separately
from dpbt.learners.bins.histograms import (
    HISTOGRAM_SITE,
    TARGET_SITE,
    class_histograms,
    deviation_of_one_histogram,
    draw_histogram,
    histogram_sensitivity,
    target_histogram,
)
from dpbt.learners.bins.target import (
    TargetEstimate,
    estimate_location_and_scale,
    estimate_target_shares,
    initial_score_of_number,
)
from dpbt.learners.oblivious.config import ObliviousConfig, noise_deviation
from dpbt.learners.oblivious.rows import ObliviousRows
from dpbt.privacy.boundary import Draw, Total
from dpbt.privacy.sensitivity import (
    num_changed_rows,
    round_to_whole_rows,
)
from dpbt.types import BINARY, Array, Public, Release


def _draw_histograms(
    config: ObliviousConfig, draw: Draw, rows: ObliviousRows, weights: Array, *_: Any
) -> None:
    """Draw the class histograms of all attributes, and the histogram of a number."""
    is_number, changed_rows = config.response.is_number, num_changed_rows(config.relation)
    if config.marginals:
        counts = class_histograms(config, rows.bins, rows.target, weights)
        draw(
            HISTOGRAM_SITE,
            config.noise,
            Total(counts, round_to_whole_rows),
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
    config: ObliviousConfig, release: Release, params: types.Params
) -> TargetEstimate:
    """The location, the scale and the rows of a number, as its released histogram says."""
    return estimate_location_and_scale(
        release[TARGET_SITE], deviation_of_one_histogram(config, params, TARGET_SITE)
    )


def estimate_class_rows(config: ObliviousConfig, histogram: Array) -> Float32[Array, "K"]:
    """f32[K]: the classes' numbers of rows, each the median over attributes; at least 10."""
    known = jnp.asarray(config.known)[..., None]
    totals = jnp.sum(jnp.where(known, histogram, 0), axis=1).astype(jnp.float32)
    return jnp.maximum(jnp.median(totals, axis=0), 10.0)


def _initial_score(config: ObliviousConfig, release: Release, params: types.Params) -> Array:
    """The score that rows start from.

    Of two classes it is f32[], the log ratio in bits, shrunk by noise. Of several classes it is
    f32[K], the logarithms of their shares, with mean 0. Of a number it is f32[], its centre, its
    quantile or the logarithm of its mean.
    """
    if config.response.is_number:
        center, spread, _ = estimate_target_from_histogram(config, release, params)
        if config.response.objective == "squared":
            return center
        shares = estimate_target_shares(
            release[TARGET_SITE],
            deviation=deviation_of_one_histogram(config, params, TARGET_SITE),
            center=center,
            spread=spread,
        )
        return initial_score_of_number(config.response, shares)
    totals = estimate_class_rows(config, release[HISTOGRAM_SITE])
    mean_bins = float(config.known.sum(axis=1).mean())
    deviation_of_total = noise_deviation(
        config,
        params,
        site=HISTOGRAM_SITE,
        site_sensitivity=histogram_sensitivity(config)
        * math.sqrt(mean_bins / len(config.attributes)),
    )
    shrunk = totals + round_separately(3 * deviation_of_total)
    if config.response == BINARY:
        return jnp.log2(shrunk[1] / shrunk[0])
    logs = round_separately(jnp.log2(shrunk))
    return logs - round_separately(jnp.mean(logs))


def histogram_prologue(config: ObliviousConfig) -> types.Prologue:
    """The prologue of oblivious trees with class histograms, or of a number."""

    def unit_of_number(release: Release, params: types.Params) -> Array:
        return estimate_target_from_histogram(config, release, params).spread

    def rows_of_number(release: Release, params: types.Params) -> Array:
        return estimate_target_from_histogram(config, release, params).rows

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


class RowsByBin(NamedTuple):
    """What the histograms say of where the rows are.

    Attributes:
        shares: f32[F, C], the share of the rows in each bin of each feature.
        rows: f32[], how many rows there seem to be.
    """

    shares: Array
    rows: Array


def estimate_rows_by_bin(
    config: ObliviousConfig, params: types.Params, public: Public
) -> RowsByBin:
    """The shares of the rows in bins and their number, from what was released; post-processing.

    The share is uniform without histograms, and else what stands above the noise, and a tenth of
    uniform.
    """
    known, is_number, rows = config.known, config.response.is_number, public.estimated_rows
    uniform = shares = jnp.asarray(known / known.sum(axis=1, keepdims=True), jnp.float32)
    if config.marginals:
        histogram = public.prologue[HISTOGRAM_SITE]
        deviation = noise_deviation(
            config,
            params,
            site=HISTOGRAM_SITE,
            site_sensitivity=histogram_sensitivity(config) * math.sqrt(histogram.shape[2]),
        )
        counts = jnp.sum(histogram, axis=2).astype(jnp.float32)
        above = jnp.where(jnp.asarray(known), jnp.maximum(counts - deviation, 0), 0)
        total = jnp.sum(above, axis=1, keepdims=True)
        measured = jnp.where(total > 0, above / jnp.where(total > 0, total, 1), uniform)
        shares = round_separately(0.9 * measured) + round_separately(0.1 * uniform)
        if rows is None or is_number:
            rows = jnp.sum(estimate_class_rows(config, histogram))
    elif rows is None:
        number_of_rows = (
            estimate_target_from_histogram(config, public.prologue, params).rows
            if is_number
            else public.rows
        )
        rows = jnp.asarray(number_of_rows, jnp.float32)
    return RowsByBin(shares, rows)
