"""The line through final scores that makes probabilities true, from counts after the last round.

Scores of a private model hold noise, and models of few steps stop early. So their probabilities are
too sure on some data and too modest on other data. The epilogue makes them true by a line through
the final scores. It releases how many rows of each class have scores in each of ten public
intervals. Logistic regression of the class on the score (Platt scaling) follows from these counts
alone. It also moves the intercept, which decides the accuracy where one class is rare.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32, Shaped

from dpbt import types
from dpbt.common.arithmetic import (
    LN2,
    multiply_by_reciprocal,
    portable_exp,
    portable_log,
    portable_sigmoid,
    round_separately,
    softmax_in_bits,
    sum_in_order,
)
from dpbt.common.devices import vary_like
from dpbt.learners.bins.config import BinsConfig
from dpbt.learners.bins.grids import normalized_likelihood_of_misfit, sum_grid_in_fixed_order
from dpbt.learners.bins.histograms import (
    SCORES_SITE,
    draw_histogram_with_one_bin_per_row,
    histogram_noise_deviation,
)
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism_types import Numbers
from dpbt.privacy.sensitivity import clip_and_round_weights_to_grid
from dpbt.types import GRID, Array, Public, Release, ScoreLine

SCORE_INTERVAL_EDGES = np.array([-4, -2.5, -1.5, -0.75, 0, 0.75, 1.5, 2.5, 4], np.float32)
"""f32[9]: the public intervals of the scores, in nats."""

_MIDDLES = np.array([-5, -3.2, -2, -1.1, -0.375, 0.375, 1.1, 2, 3.2, 5], np.float32)
"""f32[10]: the score that stands for each interval, in nats."""

_PRIOR_SLOPE = 0.5
"""The slope that is expected before anything is released."""

_PRIOR_LOG_SLOPE_DEVIATION = 0.7
"""The standard deviation of the logarithm of the slope around what is expected."""

_PRIOR_SHIFT_DEVIATION = 0.3
"""The standard deviation of the shift before anything is released, in nats; its mean is 0."""

_SLOPES = np.exp(np.linspace(math.log(0.05), math.log(4), 45)).astype(np.float32)
"""f32[45]: the slopes among which the counts decide."""

_SHIFTS = np.linspace(-1.5, 1.5, 61).astype(np.float32)
"""f32[61]: the shifts among which the counts decide, in nats."""


def class_counts_by_score_interval(rows: types.PreparedRows, scores: Array) -> Int32[Array, "10 2"]:
    """i32[10, 2]: sum up the weights of present rows, by interval of their score and by class.

    The sums are in 1 / GRID of a row. With scores f32[K, N] of several classes, the score is the
    log odds of the largest class, and the class says whether the row is of it.

    Args:
        rows: the rows, with their classes.
        scores: f32[N], in bits, or f32[K, N].
    """
    if scores.ndim == 2:
        largest = _log_odds_and_correctness_of_largest_class(scores, rows.target)
        nats = largest.log_odds
        is_positive = largest.is_target
    else:
        nats = scores * np.float32(LN2)
        is_positive = rows.target
    interval = jnp.searchsorted(
        jnp.asarray(SCORE_INTERVAL_EDGES), nats, side="right", method="compare_all"
    )
    segment = 2 * interval.astype(jnp.int32) + is_positive.astype(jnp.int32)
    full_weight = jnp.full(nats.shape, float(GRID), jnp.float32)
    weights = clip_and_round_weights_to_grid(full_weight, rows).astype(jnp.int32)
    counts = jax.ops.segment_sum(weights, segment, 2 * len(_MIDDLES))
    return counts.reshape(len(_MIDDLES), 2)


class _LargestClassOfRows(NamedTuple):
    """The class of the highest score of each row.

    Attributes:
        log_odds: f32[N], its log odds in nats.
        is_target: bool[N], whether the row is of it.
    """

    log_odds: Array
    is_target: Array


def _log_odds_and_correctness_of_largest_class(scores: Array, target: Array) -> _LargestClassOfRows:
    """The log odds of each row's highest-scored class, and whether it is the row's true class."""
    shares = softmax_in_bits(scores)
    largest = jnp.argmax(scores, axis=0)
    is_largest = jnp.arange(scores.shape[0], dtype=jnp.int32)[:, None] == largest[None, :]
    odds = round_separately(
        jnp.max(shares, axis=0) / sum_in_order(jnp.where(is_largest, 0, shares))
    )
    return _LargestClassOfRows(portable_log(odds), target == largest.astype(target.dtype))


def fit_score_line(
    noisy_counts: Shaped[Array, "10 2"], noise_deviation: Float32[Numbers, ""], initial_score: Array
) -> ScoreLine:
    """Fit a line that maps scores to true log odds, from noisy class counts by score interval.

    The line is the posterior mean over slopes and shifts.

    This is post-processing. The intercept is in bits, as `initial_score`.

    The log odds of a row with score h are start + shift + slope (h - start). If p is the
    probability of an interval with c1 and c0 rows, then c1 (1 - p) - c0 p has mean 0. Its variance
    is that of the noise plus that of the labels. So the counts say how likely each slope and shift
    is. The result is their mean over a grid, with a normal prior on the shift and on the logarithm
    of the slope. Where noise hides the counts, the prior remains.

    With several classes all scores are multiplied by one slope. Where scores are nearly equal, this
    multiplies how far the log odds of the largest class are above those of a guess, -log(K - 1). So
    the slope is fitted to these, without a shift.

    Args:
        noisy_counts: i32[10, 2], or f32 of a large table: the noisy counts of
            `class_counts_by_score_interval`, in whole rows.
        noise_deviation: f32[], the standard deviation of the noise, in rows.
        initial_score: f32[], or f32[K] with several classes, where scores started, in bits.
    """
    has_several_classes = bool(initial_score.ndim)
    if has_several_classes:
        start = jnp.float32(-math.log(initial_score.shape[0] - 1))
        shifts = np.zeros(1, np.float32)
    else:
        start = round_separately(initial_score * np.float32(LN2))
        shifts = _SHIFTS
    lines = _LinesThroughScores(
        start=start,
        shift=jnp.asarray(shifts)[:, None],
        slope=jnp.asarray(_SLOPES)[None, :],
    )
    noise_variance = round_separately(jnp.asarray(noise_deviation, jnp.float32) ** 2)

    # In a loop over intervals the counts are read from memory. Unrolled, every interval would draw
    # its noise anew.
    def add_misfit(misfit: Array, interval: tuple[Array, Array]) -> tuple[Array, None]:
        counts, middle = interval
        misfit_of_interval = _misfit_in_interval(
            lines, counts, middle=middle, noise_variance=noise_variance
        )
        return misfit + misfit_of_interval, None

    no_misfit = jnp.zeros((len(shifts), len(_SLOPES)), jnp.float32)
    intervals = noisy_counts.astype(jnp.float32), jnp.asarray(_MIDDLES)
    no_misfit = vary_like(no_misfit, intervals)
    misfit, _ = jax.lax.scan(add_misfit, no_misfit, intervals)

    # The mean over all lines.
    log_slope = portable_log(lines.slope)
    prior_misfit = round_separately(
        ((log_slope - math.log(_PRIOR_SLOPE)) / _PRIOR_LOG_SLOPE_DEVIATION) ** 2
    )
    prior_misfit = prior_misfit + round_separately((lines.shift / _PRIOR_SHIFT_DEVIATION) ** 2)
    probability = normalized_likelihood_of_misfit(misfit + prior_misfit)
    mean_slope = portable_exp(sum_grid_in_fixed_order(round_separately(probability * log_slope)))
    mean_shift = round_separately(
        sum_grid_in_fixed_order(round_separately(probability * lines.shift)) * np.float32(1 / LN2)
    )
    if not has_several_classes:
        return ScoreLine(mean_slope, initial_score + mean_shift)
    # Rounded, since a program that adds the intercept to scores may fuse the product with the sum.
    return ScoreLine(mean_slope, round_separately(mean_slope * initial_score))


class _LinesThroughScores(NamedTuple):
    """A grid of lines, which say that a score h has the log odds start + shift + slope (h - start).

    Attributes:
        start: f32[], the score that all rows started from, in nats.
        shift: f32[A, 1], in nats.
        slope: f32[1, B].
    """

    start: Array
    shift: Array
    slope: Array


def _misfit_in_interval(
    lines: _LinesThroughScores, noisy_counts: Array, *, middle: Array, noise_variance: Array
) -> Float32[Array, "A B"]:
    """f32[A, B]: how far the counts of one score interval are from what each line of a grid says.

    Args:
        lines: the grid of lines.
        noisy_counts: f32[2], the rows of the negative and of the positive class in the interval.
        middle: f32[], the score that stands for the interval, in nats.
        noise_variance: f32[], the variance of the noise of a count.

    Returns:
        The squared error over its variance.
    """
    zeros, ones = noisy_counts
    start = lines.start
    positive = portable_sigmoid(
        start + lines.shift + round_separately(lines.slope * (middle - start))
    )
    negative = 1 - positive
    squares = round_separately(positive**2) + round_separately(negative**2)
    counts_times_shares = round_separately(ones * positive) + round_separately(zeros * negative)
    rows = multiply_by_reciprocal(counts_times_shares, squares)
    variance_of_label = round_separately(positive * negative)
    label_variance = round_separately(jnp.maximum(rows, 0) * variance_of_label)
    variance = round_separately(noise_variance * squares) + label_variance + 1
    excess = round_separately(ones * negative) - round_separately(zeros * positive)
    return round_separately(round_separately(excess**2) / variance)


def score_line_epilogue(config: BinsConfig) -> types.Epilogue:
    """Make the epilogue that draws class counts by score, and fits a line that calibrates scores.

    It has one draw, "scores", of the sensitivity of one histogram.

    Proof. Given all earlier releases, the score of a row is a function of that row alone. So a row
    is in one interval, in the column of its class. It adds at most 1 to that count before counts
    are rounded, which moves no two of them further apart than 1. []
    """
    response = config.response

    def program(draw: Draw, rows: types.PreparedRows, scores: Array, *_: Any) -> None:
        counts = class_counts_by_score_interval(rows, scores)
        draw_histogram_with_one_bin_per_row(
            config,
            draw,
            counts,
            site=SCORES_SITE,
            theorem="dpbt theorem O3",
            releases="rows by score and class",
        )

    def line_of_release(release: Release, params: types.Params, public: Public) -> ScoreLine:
        deviation = histogram_noise_deviation(config, params, SCORES_SITE)
        return fit_score_line(release[SCORES_SITE], deviation, public.initial_score)

    response_words = f", {response.description}" if response.score_axes else ""
    under = types.as_relation(config.relation).value
    return types.Epilogue(
        program=program,
        score_line=line_of_release,
        identity=f"score_line({under}, {config.noise.name}{response_words})",
    )
