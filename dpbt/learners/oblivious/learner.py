"""Oblivious trees over public splits: one draw a tree, of signed sums of clipped weights.

All nodes of a level ask the same split, so a tree of depth D partitions the rows by D bits. The
splits are public: they follow from the domain, from a seed, and from what a prologue released.
The only statistic of a round is, for each leaf, the sum of y w over its rows. With several classes,
and for a number, it is the sum of the clipped residuals.

Oblivious trees draw two things once: histograms before the first round, and how many rows have
which score after the last.

Class histograms of all attributes say where rows are, and where scores start. The histogram of a
number's positions says where scores start, and in which unit residuals are measured. A declared
range may be far wider than the numbers in it. Residuals are clipped at a multiple of the spread
that this histogram shows, so a generous range costs little noise.

Scores of a private model hold noise, and models of few steps stop early. So their probabilities are
too sure on some data and too modest on other data. The epilogue makes them true by a line through
the final scores. It releases how many rows of each class have scores in each of ten public
intervals. Logistic regression of the class on the score (Platt scaling) follows from these counts
alone. It also moves the intercept, which decides the accuracy where one class is rare.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32, Shaped

from dpbt import types
from dpbt.common.arithmetic import LN2, round_separately, softmax, sum_in_order
from dpbt.learners.oblivious import splits
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.learners.oblivious.splits import (
    ObliviousConfig,
    ObliviousRows,
    assign_leaves,
    oblivious_kind,
    partition_by_leaf,
)
from dpbt.privacy import boundary, sensitivity
from dpbt.privacy.boundary import Draw, Total
from dpbt.privacy.mechanism import Numbers, Sensitivity
from dpbt.privacy.sensitivity import (
    num_changed_rows,
    round_to_whole_rows,
    weights_on_grid,
)
from dpbt.types import BINARY, GRID, AnyArray, Array, Public, Release


class ObliviousParams(NamedTuple):
    """The traced numbers of oblivious trees; each may have leading axes of settings.

    Attributes:
        noise: f32[], the noise multiplier of "sums", and of "histogram", "target" and "scores"
            where they are drawn.
        step: f32[], s: the step of a leaf whose sum is as large as its noise, in nats, or in
            spreads of a number. Or a tuple with that of each round.
        limit: f32[], v: no leaf moves a score by more, in nats or in spreads.
        curvature: f32[], h: how much a leaf's public share of the rows adds to its denominator.
        seed: f32[], a whole number below 2^24 from which the public splits follow.
    """

    noise: Mapping[str, AnyArray]
    step: types.Numbers = 0.2
    limit: types.Numbers = 0.6
    curvature: types.Numbers = 0.0
    seed: types.Numbers = 0.0


# Before the first round.


TARGET_SITE, SCORES_SITE = "target", "scores"


# The centres and the spreads (standard deviations) between which the counts decide, as positions.
_CENTERS = ((np.arange(128) + 0.5) / 128).astype(np.float32)
_SPREADS = np.geomspace(1 / 256, 0.5, 29).astype(np.float32)

# What is expected before anything is released.
_PRIOR_SPREAD, _PRIOR_LOG_SPREAD_DEVIATION = 0.15, 1.0
_PRIOR_CENTER, _PRIOR_CENTER_DEVIATION = 0.5, 0.3

_RELATIVE_MISFIT = 0.3
"""How far counts are from those of a logistic distribution, as a share of what is expected."""


def histogram_sensitivity(config: ObliviousConfig) -> float:
    """How far one row moves all class histograms together, in rows, in the mechanism's norm.

    Proof. A row is in one bin of each of F histograms, in the column of its class. It adds at most
    1 to that count, by its own weight, before counts are rounded to whole rows. Two numbers that
    differ by at most 1 are at most 1 apart once they are rounded. Under add/remove F counts move by
    at most 1: L1 = F and L2 = sqrt(F). Under replace-one at most 2 F counts move by 1: L1 = 2 F and
    L2 = sqrt(2 F).
    """
    return config.noise.sensitivity_in_norm(
        sensitivity.histograms_sensitivity(config.relation, len(config.attributes))
    )


def class_histograms(
    config: ObliviousConfig, bins: Array, target: Array, weights: Array
) -> Int32[Array, "F C K"]:
    """i32[F, C, K]: how many rows of each class have each bin, in 1 / GRID of a row.

    C is the most bins of a feature. For a number K is 1. A row counts by its weight. A bin that
    its feature does not have is beyond C, or has a count that nothing reads.
    """
    columns, widest = max(config.response.classes, 1), config.known.shape[1]
    row_weights = weights.astype(jnp.int32)
    label = jnp.zeros(row_weights.shape, jnp.int32)
    if not config.response.is_number:
        label = target.astype(jnp.int32)
        row_weights = jnp.where(label < columns, row_weights, 0)

    def of_feature(bin: Array) -> Array:
        place = columns * bin.astype(jnp.int32) + jnp.minimum(label, columns - 1)
        counts = jax.ops.segment_sum(row_weights, place, columns * widest)
        return counts.reshape(widest, columns)

    return jax.lax.map(of_feature, bins)


def _draw_histograms(
    config: ObliviousConfig, draw: Draw, rows: ObliviousRows, weights: Array, *_: Any
) -> None:
    """The class histograms of all attributes, and the histogram of a number."""
    number, changed_rows = config.response.is_number, num_changed_rows(config.relation)
    if config.marginals:
        counts = class_histograms(config, rows.bins, rows.target, weights)
        draw(
            "histogram",
            config.noise,
            Total(counts, round_to_whole_rows),
            sensitivity=histogram_sensitivity(config),
            moved_outputs=len(config.attributes) * changed_rows,
            theorem="dpbt theorem O1",
            releases=f"{'' if number else 'class '}histogram of every attribute",
        )
    if number:
        counts = target_histogram(rows.target, weights.astype(jnp.int32), config.target_bins)
        _draw_one_histogram(config, draw, TARGET_SITE, counts, "O1", "histogram of the target")


def _draw_one_histogram(
    config: ObliviousConfig, draw: Draw, site: str, counts: Array, theorem: str, releases: str
) -> None:
    """Draw one histogram, of which a row is in one bin."""
    draw(
        site,
        config.noise,
        Total(counts, round_to_whole_rows),
        sensitivity=sensitivity.histograms_sensitivity(config.relation),
        moved_outputs=num_changed_rows(config.relation),
        theorem=f"dpbt theorem {theorem}",
        releases=releases,
    )


class TargetEstimate(NamedTuple):
    """What a released histogram says of the numbers in a target.

    Attributes:
        center: f32[], the position of their centre.
        spread: f32[], their standard deviation, as a position.
        rows: f32[], how many rows there are.
    """

    center: Array
    spread: Array
    rows: Array


def estimate_target_from_histogram(
    config: ObliviousConfig, release: Release, params: ObliviousParams
) -> TargetEstimate:
    """The location, the scale and the rows of a number, as its released histogram says."""
    return estimate_location_and_scale(
        release[TARGET_SITE], noise_deviation(config, params, TARGET_SITE)
    )


def noise_deviation(
    config: ObliviousConfig, params: Any, site: str, site_sensitivity: Any = None
) -> Float32[Array, ""]:
    """f32[]: the standard deviation of the noise at a site, of a sensitivity or one histogram."""
    if site_sensitivity is None:
        site_sensitivity = config.noise.sensitivity_in_norm(
            sensitivity.histograms_sensitivity(config.relation)
        )
    unit_deviation = math.sqrt(2) if config.noise.price.norm == "l1" else 1.0
    return round_separately(np.float32(unit_deviation * site_sensitivity) * params.noise[site])


def estimate_class_rows(config: ObliviousConfig, histogram: Array) -> Float32[Array, "K"]:
    """f32[K]: the classes' numbers of rows, each the median over attributes; at least 10."""
    known = jnp.asarray(config.known)[..., None]
    totals = jnp.sum(jnp.where(known, histogram, 0), axis=1).astype(jnp.float32)
    return jnp.maximum(jnp.median(totals, axis=0), 10.0)


def _initial_score(config: ObliviousConfig, release: Release, params: ObliviousParams) -> Array:
    """The score that rows start from.

    Of two classes it is f32[], the log ratio in bits, shrunk by noise. Of several classes it is
    f32[K], the logarithms of their shares, with mean 0. Of a number it is f32[], its centre, its
    quantile or the logarithm of its mean.
    """
    if config.response.is_number:
        center, spread, _ = estimate_target_from_histogram(config, release, params)
        if config.response.objective == "squared":
            return center
        noisy, noise = release[TARGET_SITE], noise_deviation(config, params, TARGET_SITE)
        return initial_score_of_number(
            config.response, estimate_target_shares(noisy, noise, center, spread)
        )
    totals = estimate_class_rows(config, release["histogram"])
    bins = float(config.known.sum(axis=1).mean())
    total_sensitivity = histogram_sensitivity(config) * math.sqrt(bins / len(config.attributes))
    shrunk = totals + round_separately(
        3 * noise_deviation(config, params, "histogram", total_sensitivity)
    )
    if config.response == BINARY:
        return jnp.log2(shrunk[1] / shrunk[0])
    logs = round_separately(jnp.log2(shrunk))
    return logs - round_separately(jnp.mean(logs))


def histogram_prologue(config: ObliviousConfig) -> types.Prologue:
    """The prologue of oblivious trees with class histograms, or of a number."""

    def unit_of_number(release: Release, params: ObliviousParams) -> Array:
        return estimate_target_from_histogram(config, release, params).spread

    def rows_of_number(release: Release, params: ObliviousParams) -> Array:
        return estimate_target_from_histogram(config, release, params).rows

    def rows_of_classes(release: Release, params: ObliviousParams) -> Array:
        return jnp.sum(estimate_class_rows(config, release["histogram"]))

    number = config.response.is_number
    return types.Prologue(
        program=functools.partial(_draw_histograms, config),
        initial_score=functools.partial(_initial_score, config),
        identity=f"histograms({config.identity})",
        unit=unit_of_number if number else None,
        estimated_rows=rows_of_number if number else rows_of_classes,
    )


def target_histogram(
    target: Float32[Array, "N"], rows: Int32[Array, "N"], bins: int
) -> Int32[Array, "B"]:
    """i32[B]: how many rows have their number in each bin.

    A row adds at most 1, by its own weight, to the count of one bin before counts are rounded to
    whole rows. Two numbers that differ by at most 1 are at most 1 apart once they are rounded. So
    its sensitivity is that of one histogram (`sensitivity.histograms_sensitivity`).

    Args:
        target: f32[N], positions; what is outside of [0, 1] counts as the nearer end.
        rows: i32[N], the weight of each row, in 1 / GRID of a row.
        bins: B, how many bins of equal width the range is cut into.
    """
    place = jnp.clip(jnp.floor(jnp.nan_to_num(target) * bins), 0, bins - 1)
    return jax.ops.segment_sum(rows, place.astype(jnp.int32), bins)


def estimate_location_and_scale(
    noisy: Shaped[Array, "B"], deviation: Float32[Numbers, ""]
) -> TargetEstimate:
    """The centre, the spread and the rows of noisy counts; post-processing.

    The counts are compared with those of logistic distributions of many centres and spreads. Each
    is as likely as its misfit says. Counts vary by their noise, as Poisson counts do, and by three
    tenths of what is expected, since no number follows a logistic law closely. The result is the
    mean over all of them, with a broad prior. So where noise hides the counts, the middle of the
    range and a spread of about a seventh of it remain.

    Args:
        noisy: i32[B], noisy `target_histogram`, in rows.
        deviation: f32[], the standard deviation of the noise, in rows.
    """
    center = jnp.asarray(_CENTERS)[:, None]
    spread = jnp.asarray(_SPREADS)[None, :]

    share = _logistic_bin_shares(center, spread, noisy.shape[0])

    # How many rows fit best, and how far the counts then are from these shares.
    counts = noisy.astype(jnp.float32)[None, None, :]
    rows = jnp.sum(round_separately(counts * share), axis=2) / jnp.sum(
        round_separately(share**2), axis=2
    )
    rows = jnp.maximum(rows, 10.0)
    expected = round_separately(rows[..., None] * share)
    squared = round_separately(jnp.asarray(deviation, jnp.float32) ** 2)
    variance = (
        squared
        + round_separately(2 * expected)
        + round_separately((_RELATIVE_MISFIT * expected) ** 2)
        + 1
    )
    misfit = jnp.sum(round_separately((counts - expected) ** 2 / variance), axis=2)

    # The mean over all of them.
    off_spread = round_separately(
        (jnp.log(spread / _PRIOR_SPREAD) / _PRIOR_LOG_SPREAD_DEVIATION) ** 2
    )
    prior = off_spread + round_separately(((center - _PRIOR_CENTER) / _PRIOR_CENTER_DEVIATION) ** 2)
    likely = round_separately(jax.nn.softmax(-(misfit + prior) / 2, axis=(0, 1)))
    logs = round_separately(likely * jnp.log(jnp.broadcast_to(spread, likely.shape)))
    mean_center = jnp.sum(round_separately(likely * jnp.broadcast_to(center, likely.shape)))
    mean_spread = round_separately(jnp.exp(jnp.sum(logs)))  # else a / exp(b) may become a * exp(-b)
    return TargetEstimate(
        center=mean_center, spread=mean_spread, rows=jnp.sum(round_separately(likely * rows))
    )


def _logistic_bin_shares(center: Array, spread: Array, bins: int) -> Float32[Array, "... B"]:
    """f32[..., B]: the share of each bin; the ends of the range hold what lies beyond."""
    edges = jnp.arange(1, bins, dtype=jnp.float32).reshape(*[1] * center.ndim, -1) / bins
    scale = spread * np.float32(math.sqrt(3) / math.pi)
    below = jax.nn.sigmoid((edges - center[..., None]) / scale[..., None])
    ends = (*below.shape[:-1], 1)
    return jnp.diff(jnp.concatenate([jnp.zeros(ends), below, jnp.ones(ends)], axis=-1), axis=-1)


def estimate_target_shares(
    noisy: Array, noise: Array, center: Array, spread: Array
) -> Float32[Array, "B"]:
    """f32[B]: the share of the numbers in each bin; post-processing of noisy `target_histogram`.

    Counts of two deviations of their noise are taken as they are. The others are told by a logistic
    distribution, which counts for a fifth of a deviation in each bin.
    """
    bins, counts = noisy.shape[0], noisy.astype(jnp.float32)
    counts_above_noise = jnp.where(counts > 2 * noise, counts, 0)
    expected_counts = round_separately(
        _logistic_bin_shares(center, spread, bins) * (round_separately(bins * noise) / 5 + 1)
    )
    total = counts_above_noise + expected_counts
    return round_separately(total / jnp.sum(total))


def initial_score_of_number(response: types.Response, share: Array) -> Float32[Array, ""]:
    """f32[]: the quantile, or the logarithm of the mean, of shares f32[B] of bins."""
    bins = share.shape[0]
    if response.objective == "quantile":
        up_to = jnp.cumsum(share)
        bin = jnp.minimum(jnp.sum(up_to < response.level, dtype=jnp.int32), bins - 1)
        inside = (response.level - (up_to[bin] - share[bin])) / jnp.maximum(share[bin], 1e-9)
        return round_separately(
            (bin.astype(jnp.float32) + jnp.clip(round_separately(inside), 0, 1)) / bins
        )
    middles = jnp.asarray((np.arange(bins) + 0.5) / bins, jnp.float32)
    return round_separately(jnp.log(jnp.sum(round_separately(share * middles))))


def score_unit(response: types.Response, public: Public) -> Float32[Array, ""]:
    """f32[]: by how much the score of a number moves where its prediction moves by a spread.

    The prediction of a count is exp(score), so there it depends on where scores start.
    """
    if response.objective == "poisson":
        return round_separately(public.unit / round_separately(jnp.exp(public.initial_score)))
    return public.unit


# Scores by class, after the last round.


SCORE_INTERVAL_EDGES = np.array([-4, -2.5, -1.5, -0.75, 0, 0.75, 1.5, 2.5, 4], np.float32)
"""f32[9]: the public intervals of the scores, in nats."""

_MIDDLES = np.array([-5, -3.2, -2, -1.1, -0.375, 0.375, 1.1, 2, 3.2, 5], np.float32)
"""f32[10]: the score that stands for each interval, in nats."""

# What is expected before anything is released.
_PRIOR_SLOPE, _PRIOR_LOG_SLOPE_DEVIATION, _PRIOR_SHIFT_DEVIATION = 0.5, 0.7, 0.3

# The slopes and the shifts (in nats) between which the counts decide.
_SLOPES = np.exp(np.linspace(math.log(0.05), math.log(4), 45)).astype(np.float32)
_SHIFTS = np.linspace(-1.5, 1.5, 61).astype(np.float32)


def score_histogram(rows: types.Prepared, scores: Array) -> Int32[Array, "10 2"]:
    """i32[10, 2]: the present rows of each class with scores (in bits) in each interval.

    With scores f32[K, N] of several classes, the score is the log odds of the largest class, and
    the class says whether the row is of it. A row counts by its weight, in 1 / GRID of a row.
    """
    nats, target = scores * np.float32(LN2), rows.target
    if scores.ndim == 2:
        nats, target = _log_odds_of_largest_class(scores, target)
    interval = jnp.searchsorted(
        jnp.asarray(SCORE_INTERVAL_EDGES), nats, side="right", method="compare_all"
    )
    place = 2 * interval.astype(jnp.int32) + target.astype(jnp.int32)
    full_weight = jnp.full(nats.shape, float(GRID), jnp.float32)
    weights = weights_on_grid(full_weight, rows).astype(jnp.int32)
    counts = jax.ops.segment_sum(weights, place, 2 * len(_MIDDLES))
    return counts.reshape(len(_MIDDLES), 2)


def _log_odds_of_largest_class(scores: Array, target: Array) -> tuple[Array, Array]:
    """(f32[N], bool[N]): the log odds of the largest class in nats, and whether rows are of it."""
    shares, largest = softmax(scores), jnp.argmax(scores, axis=0)
    of_largest = jnp.arange(scores.shape[0], dtype=jnp.int32)[:, None] == largest[None, :]
    odds = round_separately(
        jnp.max(shares, axis=0) / sum_in_order(jnp.where(of_largest, 0, shares))
    )
    return jnp.log(odds), target == largest.astype(target.dtype)


def fit_score_line(
    noisy: Shaped[Array, "10 2"], deviation: Float32[Numbers, ""], start: Array
) -> tuple[Array, Array]:
    """(f32[] slope, intercept in bits, as `start`), from noisy counts; post-processing.

    The log odds of a row with score h are start + shift + slope (h - start). If p is the
    probability of an interval with c1 and c0 rows, then c1 (1 - p) - c0 p has mean 0. Its variance
    is that of the noise plus that of the labels. So the counts say how likely each slope and shift
    is. The result is their mean over a grid, with a normal prior on the shift and on the logarithm
    of the slope. Where noise hides the counts, the prior remains.

    With several classes all scores are multiplied by one slope. Where scores are nearly equal, this
    multiplies how far the log odds of the largest class are above those of a guess, -log(K - 1). So
    the slope is fitted to these, without a shift.

    Args:
        noisy: i32[10, 2], or f32 of a large table: noisy `score_histogram` in whole rows.
        deviation: f32[], the standard deviation of the noise, in rows.
        start: f32[], or f32[K] with several classes, where scores started, in bits.
    """
    begin, shifts = round_separately(start * np.float32(LN2)), _SHIFTS
    if start.ndim:
        begin, shifts = jnp.float32(-math.log(start.shape[0] - 1)), np.zeros(1, np.float32)
    shift, slope = jnp.asarray(shifts)[:, None], jnp.asarray(_SLOPES)[None, :]
    noise = round_separately(jnp.asarray(deviation, jnp.float32) ** 2)

    # How far the counts of each interval are from what a line says. In a loop over intervals the
    # counts are read from memory. Unrolled, every interval would draw its noise anew. Without
    # shifts it is unrolled all the same: a compiler then knows what lines say, and its divisions
    # by what it knows round otherwise.
    def add(misfit: Array, interval: tuple[Array, Array]) -> tuple[Array, None]:
        (zeros, ones), middle = interval
        positive = jax.nn.sigmoid(begin + shift + round_separately(slope * (middle - begin)))
        negative = 1 - positive
        squares = round_separately(positive**2) + round_separately(negative**2)
        rows = (round_separately(ones * positive) + round_separately(zeros * negative)) / squares
        label_variance = round_separately(jnp.maximum(rows, 0) * positive * negative)
        variance = round_separately(noise * squares) + label_variance + 1
        excess = round_separately(ones * negative) - round_separately(zeros * positive)
        return misfit + round_separately(excess**2 / variance), None

    none = jnp.zeros((len(shifts), len(_SLOPES)), jnp.float32)
    intervals = noisy.astype(jnp.float32), jnp.asarray(_MIDDLES)
    misfit, _ = jax.lax.scan(add, none, intervals, unroll=len(shifts) == 1)

    # The mean over all lines.
    log_slope = jnp.log(slope)
    prior = round_separately(
        ((log_slope - math.log(_PRIOR_SLOPE)) / _PRIOR_LOG_SLOPE_DEVIATION) ** 2
    )
    prior = prior + round_separately((shift / _PRIOR_SHIFT_DEVIATION) ** 2)
    likely = round_separately(jax.nn.softmax(-(misfit + prior) / 2, axis=(0, 1)))
    slope = jnp.exp(jnp.sum(round_separately(likely * log_slope)))
    mean_shift = round_separately(jnp.sum(round_separately(likely * shift)) / np.float32(LN2))
    return slope, slope * start if start.ndim else start + mean_shift


def score_line_epilogue(config: ObliviousConfig) -> types.Epilogue:
    """The epilogue; one draw, "scores", of the sensitivity of one histogram.

    Proof. Given all earlier releases, the score of a row is a function of that row alone. So a row
    is in one interval, in the column of its class. It adds at most 1 to that count before counts
    are rounded, which moves no two of them further apart than 1. []
    """
    response = config.response

    def program(draw: Draw, rows: types.Prepared, scores: Array, *_: Any) -> None:
        counts = score_histogram(rows, scores)
        _draw_one_histogram(config, draw, SCORES_SITE, counts, "O3", "rows by score and class")

    def line_of_release(
        release: Release, params: ObliviousParams, start: Array
    ) -> tuple[Array, Array]:
        return fit_score_line(
            release[SCORES_SITE], noise_deviation(config, params, SCORES_SITE), start
        )

    response_words = f", {response.words}" if response.axes else ""
    under = types.as_relation(config.relation).value
    return types.Epilogue(
        program=program,
        score_line=line_of_release,
        identity=f"score_line({under}, {config.noise.name}{response_words})",
    )


# Rounds.


MIN_DENOMINATOR_ROWS = 10.0
"""The least denominator of a leaf, in rows: without noise, leaves of few rows would overfit."""


def sum_sensitivity(config: ObliviousConfig) -> float:
    """How far one row moves the leaf sums of a tree, in grid units, in the mechanism's norm.

    Proof. Given the released scores and the public splits, a row is in one leaf and adds y w
    there, with |w| at most GRID. Under add/remove one sum moves by at most GRID: L1 = L2 = GRID.
    Under replace-one the removed row moves one sum by GRID and the row that comes in moves one by
    GRID. Both may move the same sum the same way, if their labels differ: L1 = L2 = 2 GRID. All
    other rows keep their weights, as each depends on the row itself and on released trees.

    A number is the same, with a residual in -GRID..GRID in place of y w. Residuals of a quantile
    lie in [-b, a], the larger of which is GRID. So under replace-one a sum moves by at most a + b,
    or two sums by GRID each: L1 = 2 GRID, L2 = max(a + b, sqrt(2) GRID). With several classes a row
    adds its K residuals to the K sums of its leaf. `residuals` keeps their norm at most GRID: the
    L1 norm for noise that is priced by L1, else the L2 norm. So the same bounds hold for all K sums
    together.
    """
    return config.noise.sensitivity_in_norm(sensitivity_of_a_partition(config))


def sensitivity_of_a_partition(config: ObliviousConfig) -> Sensitivity:
    """How far one row moves the sums of one partition, as `sum_sensitivity` proves."""
    l1 = GRID * num_changed_rows(config.relation)
    l2 = float(l1)
    if config.response.objective == "quantile" and l1 > GRID:
        l2 = max(sum(config.response.on_grid), math.sqrt(2) * GRID)
    return Sensitivity(l1, l2)


class RowsByBin(NamedTuple):
    """What the histograms say of where the rows are.

    Attributes:
        shares: f32[F, C], the share of the rows in each bin of each feature.
        rows: f32[], how many rows there seem to be.
    """

    shares: Array
    rows: Array


def estimate_rows_by_bin(config: ObliviousConfig, params: Any, public: Public) -> RowsByBin:
    """The shares of the rows in bins and their number, from what was released; post-processing.

    The share is uniform without histograms, and else what stands above the noise, and a tenth of
    uniform.
    """
    known, number, rows = config.known, config.response.is_number, public.estimated_rows
    uniform = mass = jnp.asarray(known / known.sum(axis=1, keepdims=True), jnp.float32)
    if config.marginals:
        histogram = public.prologue["histogram"]
        total_sensitivity = histogram_sensitivity(config) * math.sqrt(histogram.shape[2])
        noise = noise_deviation(config, params, "histogram", total_sensitivity)
        counts = jnp.sum(histogram, axis=2).astype(jnp.float32)
        above = jnp.where(jnp.asarray(known), jnp.maximum(counts - noise, 0), 0)
        total = jnp.sum(above, axis=1, keepdims=True)
        measured = jnp.where(total > 0, above / jnp.where(total > 0, total, 1), uniform)
        mass = round_separately(0.9 * measured) + round_separately(0.1 * uniform)
        if rows is None or number:
            rows = jnp.sum(estimate_class_rows(config, histogram))
    elif rows is None:
        number_of_rows = (
            estimate_target_from_histogram(config, public.prologue, params).rows
            if number
            else public.rows
        )
        rows = jnp.asarray(number_of_rows, jnp.float32)
    return RowsByBin(mass, rows)


def round_structure(
    config: ObliviousConfig, params: ObliviousParams, public: Public
) -> tuple[ObliviousTree, Array]:
    """The round's tree, with leaves of 0, and f32[2^D]: the estimated rows of each leaf.

    It is as the loop gives it, or worked out.
    """
    if public.structure is not None:
        return public.structure

    shares, rows = estimate_rows_by_bin(config, params, public)
    seed = jnp.asarray(params.seed).astype(jnp.uint32)
    tree, share = splits.tree_structure(config, seed, jnp.asarray(public.round), shares)
    return tree, round_separately(rows * share)


def draw_leaf_sums(
    config: ObliviousConfig,
    draw: Draw,
    rows: ObliviousRows,
    weights: Array,
    params: ObliviousParams,
    public: Public,
) -> None:
    """One draw: for each leaf the sums of residuals over its rows, in grid units, exact integers.

    The residual of two classes is y w.
    """
    tree, _ = round_structure(config, params, public)
    leaf = assign_leaves(config.attributes, tree, rows).astype(jnp.int32)
    draw(
        "sums",
        config.noise,
        Total(sums_by_place(row_residuals(config, rows, weights), leaf, 2**config.depth)),
        sensitivity=sum_sensitivity(config),
        theorem="dpbt theorem O2",
        **residual_draw_fields(config, 1, "all leaves"),
    )


def sums_by_place(residuals: Array, place: Array, places: int) -> Array:
    """i32[places], or i32[K, places]: the residuals of the rows in each place, of i32[N] places.

    Under vmap, processors add up one lane after the other. XLA's own batched sum takes twice the
    time there.
    """

    def sums(values: Array, place: Array) -> Array:
        return jnp.zeros(places, jnp.int32).at[place].add(values, mode="promise_in_bounds")

    alone = jax.custom_batching.sequential_vmap(sums)
    of_platform = functools.partial(jax.lax.platform_dependent, cpu=alone, default=sums)
    if residuals.ndim == 1:
        return of_platform(residuals, place)
    # One class at a time: as one flat sum, XLA makes residuals many times.
    return jax.lax.map(lambda residual: of_platform(residual, place), residuals)


def residual_draw_fields(config: ObliviousConfig, partitions: int, places: str) -> dict[str, Any]:
    """How many sums of some partitions move at most when a row does, and what they are."""
    max_norm = GRID if config.noise.price.norm == "l1" else GRID**2
    max_sums_of_row = min(config.response.classes, max_norm) if config.response.axes else 1
    words = "signed weights" if config.response == BINARY else "residuals"
    moves = partitions * num_changed_rows(config.relation) * max_sums_of_row
    return {"moved_outputs": moves, "releases": f"{words}, {places}"}


def row_residuals(config: ObliviousConfig, rows: ObliviousRows, weights: Array) -> Array:
    """i32[N], or i32[K, N] with several classes: what each row adds to the sums of its leaf.

    The norm of a row's residuals is at most GRID, whatever the weights are. A row beyond it, which
    no weight update of the library gives, adds nothing.
    """
    residuals = jnp.clip(weights, -GRID, GRID).astype(jnp.int32)
    if config.response == BINARY:
        return jnp.where(rows.target, residuals, -residuals)
    if config.response.objective == "quantile":
        above, below = config.response.on_grid
        return jnp.clip(residuals, -below, above)
    if config.response.is_number:
        return residuals
    l1 = config.noise.price.norm == "l1"
    size, max_size = (jnp.abs(residuals), GRID) if l1 else (residuals**2, GRID**2)
    return jnp.where(jnp.sum(size, axis=0)[None] <= max_size, residuals, 0)


def tree_of_release(
    config: ObliviousConfig, release: Release, params: ObliviousParams, public: Public
) -> ObliviousTree:
    """The tree: each leaf moves as far as its sum stands above the noise.

    Let G be the released sum in rows, sigma the standard deviation of its noise, and m the public
    estimate of the leaf's rows. A leaf is clip(s G / max(sigma + m h / 3, 10), -v, v). G, sigma and
    m add up other leaves too, with the weights of `ObliviousConfig.smoothing`.

    - Two classes: the step is turned from nats into bits.
    - Several classes: residuals add up to 0 over classes, so what noise adds to all classes alike
      is taken off, and sigma becomes sqrt((K - 1) / K) of what it was. The step of each class is
      (K - 1) / K of that above, as for two classes scores of +H / 2 and -H / 2 differ by H.
    - A number: the step is in spreads, which `score_unit` turns into scores.

    Args:
        config: the static parts.
        release: its sums are i32[2^D] or i32[K, 2^D], in grid units.
        params: s, v and h are its step, limit and curvature.
        public: of the round.
    """
    tree, rows = round_structure(config, params, public)
    unit = jnp.asarray(public.cap, jnp.float32) / GRID
    signal = round_separately(release["sums"].astype(jnp.float32) * unit)

    # Each leaf with its neighbours. A leaf that differs in b bits has the weight of each of these
    # bits, so the first half of the bits and the second half are two small products.
    halves = 2 ** (config.depth // 2), 2 ** (config.depth - config.depth // 2)
    different_bits = [
        np.bitwise_count(np.arange(size)[:, None] ^ np.arange(size)) for size in halves
    ]
    weights = [(float(config.smoothing) ** bits).astype(np.float32) for bits in different_bits]
    first, second = map(jnp.asarray, weights)
    # It names its precision, since a flag of JAX would choose another one.
    product = functools.partial(jnp.matmul, precision=jax.lax.Precision.DEFAULT)
    signal, rows = (
        product(first, product(leaves.reshape(*leaves.shape[:-1], *halves), second)).reshape(
            leaves.shape
        )
        for leaves in (signal, rows)
    )

    # What noise and curvature leave of the step.
    sum_deviation = noise_deviation(config, params, "sums", sum_sensitivity(config))
    noise = round_separately(sum_deviation * unit) * np.float32(
        (1 + config.smoothing**2) ** (config.depth / 2)
    )
    share, response = 1.0, config.response
    if response.axes:
        share = (response.classes - 1) / response.classes
        signal = signal - round_separately(jnp.mean(signal, axis=0, keepdims=True))
        noise = round_separately(noise * np.float32(math.sqrt(share)))

    expected = round_separately(rows * params.curvature / 3)
    denominator = jnp.broadcast_to(
        jnp.maximum(noise + expected, MIN_DENOMINATOR_ROWS), signal.shape
    )
    step = params.step
    if isinstance(step, tuple):
        step = jnp.stack([jnp.asarray(each) for each in step])[public.round]
    change = jnp.clip(step * signal / denominator, -params.limit, params.limit)
    if not response.is_number:
        change = change / LN2
    scale = score_unit(response, public) if response.is_number else np.float32(share)
    leaf = round_separately((change * scale).astype(jnp.float32))
    if any(config.monotone):
        leaf = monotone_leaves(leaf, jnp.asarray(config.monotone, jnp.int32)[tree.feature])
    return tree._replace(leaf=leaf)


def monotone_leaves(leaf: Float32[Array, "_"], direction: Int32[Array, "D"]) -> Float32[Array, "_"]:
    """f32[2^D]: the leaves, made monotone in the levels that have a direction.

    A leaf is at most another if they differ only in levels with a direction, and the other is on
    the side of larger values at each of them. A leaf becomes the mean of two numbers: the largest
    leaf that is at most it, and the smallest that is at least it. Both are monotone, and so is
    their mean. Leaves that are monotone already stay as they are.

    Args:
        leaf: f32[2^D].
        direction: i32[D]: 1 where the right side must not be lower, -1 where it must not be higher,
            and 0 for a level without a constraint.
    """
    depth = direction.shape[0]
    highest = lowest = leaf
    for level in range(depth):
        shape = (2**level, 2, 2 ** (depth - level - 1))
        up = direction[level]
        highest = _better_of_two_sides(highest.reshape(shape), up, jnp.maximum).reshape(-1)
        lowest = _better_of_two_sides(lowest.reshape(shape), -up, jnp.minimum).reshape(-1)
    return (highest + lowest) / 2


def _better_of_two_sides(sides: Array, direction: Array, best: Any) -> Float32[Array, "A 2 B"]:
    """f32[A, 2, B]: the best of a side and of the one before it in the direction."""
    both = best(sides[:, 0], sides[:, 1])
    new_left = jnp.where(direction < 0, both, sides[:, 0])
    new_right = jnp.where(direction > 0, both, sides[:, 1])
    return jnp.stack([new_left, new_right], axis=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneTimePhases:
    """What a learner of oblivious trees or of curves draws once, and how its budget is shared.

    Attributes:
        fractions: site -> fraction of the budget.
        prologue: with the histograms that it draws, if any.
        epilogue: with the histogram of scores, if it is drawn.
    """

    fractions: Mapping[str, float]
    prologue: types.Prologue | None
    epilogue: types.Epilogue | None


def one_time_phases(config: ObliviousConfig, site: str) -> OneTimePhases:
    """The prologue, the epilogue and the fractions of a learner whose rounds draw at a site.

    By default a tenth of the budget is for each of what is drawn once, and the rest for the rounds.
    """
    number = config.response.is_number
    is_drawn = {"histogram": config.marginals, TARGET_SITE: number, SCORES_SITE: config.scores}
    once = dict.fromkeys([site for site, drawn in is_drawn.items() if drawn], 0.1)
    return OneTimePhases(
        fractions={site: 1 - 0.1 * len(once), **once},
        prologue=histogram_prologue(config) if config.marginals or number else None,
        epilogue=score_line_epilogue(config) if config.scores else None,
    )


@functools.cache
def oblivious_tree(config: ObliviousConfig) -> types.WeakLearner:
    """Oblivious trees over public splits, for boosting with clipped weights.

    Guarantee, under `relation`, with weights of each row's own (`weighting.clipped_mirror`, or
    `weighting.residuals` where the response is not one of two classes): a round costs what the
    mechanism costs at `sum_sensitivity`. The prologue costs what it costs at
    `histogram_sensitivity`, and for a number at that of one histogram. All
    statistics are exact integers. The splits cost nothing: they follow from the domain, the
    seed, the number of the round and the released histograms. With rounded Gaussian noise, T rounds
    are exactly sqrt(T) shift-GDP.

    Args:
        config: the static parts, checked and hashable (`recipes.oblivious_boost`).
    """
    once = one_time_phases(config, "sums")
    return boundary.weak_learner(
        name="oblivious_tree",
        config=config,
        program=functools.partial(draw_leaf_sums, config),
        hypothesis=functools.partial(tree_of_release, config),
        kind=oblivious_kind(config),
        response=config.response,
        partition=partition_by_leaf(config, functools.partial(round_structure, config)),
        relation=config.relation,
        make_params=lambda noise, public: ObliviousParams(dict(noise)),
        fractions=once.fractions,
        prologue=once.prologue,
        epilogue=once.epilogue,
    )
