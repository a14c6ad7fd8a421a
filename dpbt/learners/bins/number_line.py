"""The correction of a predicted number by a line, from sums that are drawn after the last round.

Residuals are clipped, so rounds learn what lies between the mean and the median of a row's number.
On skewed numbers such as incomes and counts, predictions are then too low: by a tenth to a fifth of
a spread on tables about people. The epilogue takes this off. It releases the sum of the final
residuals, clipped where the released histogram of the number says that few of them lie, and the
line of the epilogue adds their mean to every prediction. What lies beyond the clip is added as the
same histogram tells it.

With a delta three more sums tell by how much predictions should be stretched: those of the
deviations of predictions from the start, of their squares, and of their products with residuals.
Under a pure guarantee each of these sums would cost as much as the first one, so it is drawn alone.
So it is where the model is a constant: its predictions do not deviate, and one sum needs half of
the noise of four.

Predictions and numbers are positions in the declared range, in 0..1, and spreads are those of
`Public.unit`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32

from dpbt import types
from dpbt.common import compilation
from dpbt.common.arithmetic import (
    multiply_by_reciprocal,
    portable_exp,
    portable_log,
    round_separately,
    sum_in_order,
)
from dpbt.learners.bins.config import MIN_ESTIMATED_ROWS, BinsConfig, noise_deviation_at_site
from dpbt.learners.bins.histograms import (
    SCORES_SITE,
    TARGET_SITE,
    histogram_noise_deviation,
    middles_of_equal_bins,
)
from dpbt.privacy.boundary import Draw, RowSum
from dpbt.privacy.mechanism_types import Sensitivity
from dpbt.privacy.sensitivity import clip_and_round_weights_to_grid, num_changed_rows
from dpbt.types import GRID, Array, Public, Release, ScoreLine

RESIDUAL_CLIPS = np.array([1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32], np.float32)
"""f32[11]: the clips of residuals, in spreads, of which the histogram and the noise choose one."""

DEVIATION_CLIP = 1.0
"""How far from the start the predictions count as deviating at most, in spreads."""

_EXPECTED_EXCESS = np.asarray(0.1 / np.sqrt(RESIDUAL_CLIPS), np.float32)
"""f32[11]: by how much residuals exceed each clip on average where the longer side of the range is.

As much is how far this may be off. They fit counts of visits, incomes and loans: a logistic law
would have shorter tails.
"""

_EXCESS_MISFIT = np.asarray(0.2 / RESIDUAL_CLIPS, np.float32)
"""f32[11]: how far the excess of very skewed numbers is from what is expected, for each clip.

Numbers differ most in how much of them lies just beyond a spread: beyond a clip of 1, visits and
loans have up to four times what is expected, and beyond 3 at most twice.
"""

_MIN_SHARE_OF_SPIKE = 0.75
"""The share of all rows from which on those in one bin of the histogram are a spike.

The spread is then that of a law which fits within one bin. It does not tell how far the other rows
lie, so no number of spreads bounds their excess.
"""

_PRIOR_SHIFT_DEVIATION = 0.3
"""The standard deviation of the shift before anything is released, in spreads; its mean is 0."""

_PRIOR_SLOPE_DEVIATION = 0.3
"""The standard deviation of the slope before anything is released; its mean is 1."""

_MIN_SLOPE = 0.0
"""The least slope of the line."""

_MAX_SLOPE = 2.0
"""The largest slope of the line."""


def releases_slope_sums(config: BinsConfig) -> bool:
    """Whether the epilogue also releases the sums of a slope.

    It does where noise is priced by L2, unless the model is a constant.
    """
    return config.draws_slope and config.noise.price.uses_l2_sensitivity


def residual_and_deviation_sums_sensitivity(config: BinsConfig) -> float:
    """The sensitivity of the sums of residuals and deviations, in grid units.

    Proof. Given all earlier releases, the residual a and the deviation b of a row are functions of
    that row alone, clipped to [-1, 1], and its weight w is in [0, 1]. It adds w (a, b, b^2, a b),
    in grid units and rounded, to four sums, or w a to one of them. Under add/remove each sum moves
    by at most GRID, rounded or not: one sum by L1 = L2 = GRID, and four by L1 = 4 GRID and
    L2 = 2 GRID.

    Under replace-one (a, b) becomes (a', b'). A norm of the change is convex in w and in w', so it
    is largest at weights of 0 or 1; with one of 0 it is as under add/remove. It is also convex in
    a and in a', so these are -1 or 1. One sum moves by 2 GRID. Of four, let d = b - b' and
    s = b + b', so that |d| + |s| <= 2. If a = a', the changes are 0, d, s d and d: their L1 norm is
    at most 4 |d| - d^2 <= 4, and their squared L2 norm 2 d^2 + s^2 d^2 <= 8. If a = -a', they are
    2, d, s d and s: L1 is (1 + |s|)(1 + |d|) + 1 <= 5, and the squared L2 norm is
    3 + (1 + s^2)(1 + d^2) <= 8. Rounding moves each of the two rows by at most half a unit in each
    sum, so each change by at most one. []
    """
    count = 4 if releases_slope_sums(config) else 1
    if num_changed_rows(config.relation) == 1:
        bounds = Sensitivity(l1=count * GRID, l2=math.sqrt(count) * GRID)
    elif count == 1:
        bounds = Sensitivity(l1=2 * GRID, l2=2 * GRID)
    else:
        bounds = Sensitivity(l1=5 * GRID + 4, l2=math.sqrt(8) * GRID + 2)
    return config.noise.sensitivity_in_norm(bounds)


def _predictions_of_scores(response: types.Response, scores: Array) -> Array:
    """Convert scores to predicted positions: the scores themselves, or their exponentials."""
    if response.objective == "poisson":
        return round_separately(portable_exp(jnp.minimum(scores, 0)))
    return scores


class ResidualClip(NamedTuple):
    """The clip of residuals, and the estimates from the histogram that it was chosen by.

    Attributes:
        clip: f32[], the clip in spreads, one of `RESIDUAL_CLIPS`.
        excess: f32[], the mean over all rows of what residuals exceed the clip by, in spreads.
        excess_error: f32[], about how far the excess is from the truth, in spreads.
        rows: the estimated number of rows.
        noise_of_mean: f32[], the standard deviation of the noise in a mean over rows of values in
            -1..1.
    """

    clip: Array
    excess: Array
    excess_error: Array
    rows: "RowsEstimate"
    noise_of_mean: Array


class _ExcessByClip(NamedTuple):
    """The mean over all rows of what residuals exceed each clip by, as a histogram tells it.

    Attributes:
        mean: f32[11], in spreads, without bias.
        variance: f32[11], of the noise in it.
    """

    mean: Array
    variance: Array


def _excess_of_histogram(
    residual_of_bin: Array, bin_shares: Array, share_deviation: Array
) -> _ExcessByClip:
    """Estimate what residuals exceed each of `RESIDUAL_CLIPS` by, from a noisy histogram alone.

    Args:
        residual_of_bin: f32[B], the residual of a row in the middle of each bin, in spreads.
        bin_shares: f32[B], the noisy share of the rows in each bin.
        share_deviation: f32[], the standard deviation of the noise of a share.
    """
    clips = jnp.asarray(RESIDUAL_CLIPS)[:, None]
    excess_of_bin = residual_of_bin[None] - jnp.clip(residual_of_bin[None], -clips, clips)
    mean = sum_in_order(round_separately(bin_shares[None] * excess_of_bin).T)
    variance = round_separately(share_deviation**2)
    variance = variance * sum_in_order(round_separately(excess_of_bin**2).T)
    return _ExcessByClip(mean=mean, variance=variance)


def _squared_error_of_histogram(of_histogram: _ExcessByClip, excess: Array) -> Array:
    """f32[11]: how far an estimate of the excess may be from the truth, squared, by a histogram.

    It is the variance of the histogram's noise or, where that is larger, the squared distance of
    the estimate from what the histogram tells.
    """
    return jnp.maximum(of_histogram.variance, round_separately((of_histogram.mean - excess) ** 2))


def choose_residual_clip(config: BinsConfig, params: types.Params, public: Public) -> ResidualClip:
    """Choose the clip of residuals whose error is smallest, from what was released before.

    This is post-processing. The error of a clip is the noise of the mean residual, which grows with
    it, and the uncertainty about residuals beyond it, which falls with it. The histogram estimates
    their mean without bias, but in a wide range its noise is far larger than this mean. So the
    estimate is shrunk, by as much as its noise asks for, towards what skewed numbers have on the
    side where the range is longer.

    What skewed numbers have says little of a number that is mostly one value, such as a count that
    is mostly 0. There the stated error of the excess is at least what the histogram leaves open.
    """
    center = _predictions_of_scores(config.response, public.initial_score)
    rows = estimate_num_rows_of_target_histogram(config, params, public)
    noise_of_sum = noise_deviation_at_site(
        config,
        params,
        site=SCORES_SITE,
        site_sensitivity=residual_and_deviation_sums_sensitivity(config) / GRID,
    )
    noise_of_mean = round_separately(noise_of_sum / rows.num_rows)

    # What residuals exceed each clip by: as the histogram says, and as skewed numbers have it.
    counts = public.prologue[TARGET_SITE].astype(jnp.float32)
    middles = middles_of_equal_bins(counts.shape[0])
    of_histogram = _excess_of_histogram(
        residual_of_bin=multiply_by_reciprocal(middles - center, public.unit),
        bin_shares=multiply_by_reciprocal(counts, rows.num_rows),
        share_deviation=histogram_noise_deviation(config, params, TARGET_SITE) / rows.num_rows,
    )
    expected = round_separately(jnp.asarray(_EXPECTED_EXCESS) * (1 - 2 * jnp.clip(center, 0, 1)))
    expected_variance = jnp.asarray(_EXPECTED_EXCESS**2)
    weight_of_histogram = round_separately(
        expected_variance / (expected_variance + of_histogram.variance)
    )
    excess = expected + round_separately((of_histogram.mean - expected) * weight_of_histogram)
    excess_variance = round_separately(of_histogram.variance * weight_of_histogram)

    # The best clip, and how far its excess may be from the truth.
    noise_by_clip = round_separately(jnp.asarray(RESIDUAL_CLIPS) * noise_of_mean)
    best = jnp.argmin(excess_variance + round_separately(noise_by_clip**2))
    misfit = round_separately((1 - weight_of_histogram) * jnp.asarray(_EXCESS_MISFIT))
    excess_squared_error = excess_variance + round_separately(misfit**2)
    excess_squared_error = jnp.where(
        jnp.max(counts) > np.float32(_MIN_SHARE_OF_SPIKE) * rows.num_rows,
        jnp.maximum(excess_squared_error, _squared_error_of_histogram(of_histogram, excess)),
        excess_squared_error,
    )
    return ResidualClip(
        clip=jnp.asarray(RESIDUAL_CLIPS)[best],
        excess=excess[best],
        excess_error=round_separately(jnp.sqrt(excess_squared_error[best])),
        rows=rows,
        noise_of_mean=noise_of_mean,
    )


_ROWS_MISFIT = 0.15
"""How far the rows of the best-fitting logistic law are from the truth, as a share of them."""


class RowsEstimate(NamedTuple):
    """How many rows a histogram counts.

    Attributes:
        num_rows: f32[], at least `MIN_ESTIMATED_ROWS`.
        error: f32[], about how far it is from the truth, as a share of it.
    """

    num_rows: Array
    error: Array


def estimate_num_rows_of_target_histogram(
    config: BinsConfig, params: types.Params, public: Public
) -> RowsEstimate:
    """Estimate the number of rows that a noisy histogram of a target counts; post-processing.

    The total of its counts has the noise of all bins, and the rows of the law that fits it best
    (`Public.estimated_rows`) are off by its misfit. The result is their mean, weighted by how sure
    each of them is.
    """
    assert public.estimated_rows is not None  # as the prologue of a number says
    counts = public.prologue[TARGET_SITE].astype(jnp.float32)
    deviation = histogram_noise_deviation(config, params, TARGET_SITE)
    fitted = jnp.maximum(public.estimated_rows, MIN_ESTIMATED_ROWS)
    ratio = deviation * math.sqrt(counts.shape[0]) / round_separately(_ROWS_MISFIT * fitted)
    weight = 1 / (1 + round_separately(ratio**2))
    total = round_separately(weight * sum_in_order(counts))
    mean = total + round_separately((1 - weight) * fitted)
    num_rows = jnp.maximum(mean, MIN_ESTIMATED_ROWS)
    return RowsEstimate(num_rows, round_separately(_ROWS_MISFIT * jnp.sqrt(1 - weight)))


def residual_and_deviation_sums(
    config: BinsConfig, rows: Any, scores: Array, *, residual_clip: Array, public: Public
) -> Int32[Array, "S"]:
    """Sum up the residuals of predictions and, for a slope, three sums of their deviations.

    The result is i32[4], or i32[1] without a slope: exact integers in 1 / GRID of a row. They are
    sums over rows of the residual in clips, of the deviation from the start in `DEVIATION_CLIP`, of
    its square, and of the product of both. A row counts by its weight.
    """
    unit = public.unit
    prediction = _predictions_of_scores(config.response, scores)
    start = _predictions_of_scores(config.response, public.initial_score)
    target = jnp.clip(jnp.nan_to_num(rows.target), 0, 1)

    def in_units(difference: Array, clip: Array | float) -> Array:
        """f32[N], in [-1, 1]: a difference in clips."""
        return jnp.clip(multiply_by_reciprocal(difference, round_separately(clip * unit)), -1, 1)

    residual = in_units(target - prediction, residual_clip)
    deviation = in_units(prediction - start, DEVIATION_CLIP)
    values = residual[None]
    if releases_slope_sums(config):
        product = round_separately(residual * deviation)
        values = jnp.stack([residual, deviation, round_separately(deviation**2), product])
    weights = clip_and_round_weights_to_grid(jnp.full(scores.shape, float(GRID), jnp.float32), rows)
    added = jnp.round(round_separately(values * weights[None]))
    return jnp.sum(added.astype(jnp.int32), axis=1)


class LineOfPredictions(NamedTuple):
    """The line that corrects predictions: p becomes start + shift + slope (p - start).

    Attributes:
        shift: f32[], what is added to all, in spreads.
        slope: f32[], by how much deviations from the start are multiplied.
        deviation: f32[], the mean deviation of predictions from the start, in spreads.
        mean_error: f32[], about how far the mean prediction is then from the mean of the rows, in
            spreads: a standard deviation.
    """

    shift: Array
    slope: Array
    deviation: Array
    mean_error: Array


def estimate_shift_and_slope(
    config: BinsConfig, sums: Float32[Array, "S"], params: types.Params, public: Public
) -> LineOfPredictions:
    """Estimate the shift and the slope of predictions from the noisy sums; post-processing.

    The residual of a row is shift + (slope - 1) deviation on average, so the mean of residuals and
    that of their products with deviations are two linear equations. Both are as likely off as
    their noise says, and the solution is the mean under normal priors. Where noise hides the sums,
    the priors remain: no shift, and a slope of 1.

    Args:
        config: of the bins.
        sums: noisy `residual_and_deviation_sums`.
        params: the learner's numbers, whose noise is read.
        public: with the release of the prologue and what follows from it.
    """
    residual_clip = choose_residual_clip(config, params, public)
    clip = residual_clip.clip
    noise = residual_clip.noise_of_mean
    rows = residual_clip.rows.num_rows
    means = round_separately(sums / (GRID * rows))
    residual = round_separately(means[0] * clip) + residual_clip.excess
    residual_precision = 1 / (round_separately((noise * clip) ** 2) + 1 / rows)
    prior_precision = 1 / _PRIOR_SHIFT_DEVIATION**2
    zero = jnp.float32(0)
    one = jnp.float32(1)
    if not releases_slope_sums(config):
        shift = round_separately(residual_precision * residual) / (
            residual_precision + prior_precision
        )
        error = _estimate_mean_error_in_spreads(residual_clip, residual=residual, slope_change=zero)
        return LineOfPredictions(shift=shift, slope=one, deviation=zero, mean_error=error)

    deviation = round_separately(means[1] * DEVIATION_CLIP)
    square = round_separately(jnp.maximum(means[2], 0) * DEVIATION_CLIP**2)
    product = round_separately(means[3] * (clip * DEVIATION_CLIP))
    product = product + round_separately(residual_clip.excess * deviation)
    noise_of_product = round_separately((noise * clip * DEVIATION_CLIP) ** 2)
    product_precision = 1 / (noise_of_product + (square + 0.01) / rows)
    equations = [
        _Equation(of_shift=one, of_slope=deviation, right=residual, precision=residual_precision),
        _Equation(of_shift=deviation, of_slope=square, right=product, precision=product_precision),
        _Equation(of_shift=one, of_slope=zero, right=zero, precision=jnp.float32(prior_precision)),
        _Equation(
            of_shift=zero,
            of_slope=one,
            right=zero,
            precision=jnp.float32(1 / _PRIOR_SLOPE_DEVIATION**2),
        ),
    ]
    solution = _solve_least_squares(equations)
    slope = jnp.clip(1 + solution.slope_change, _MIN_SLOPE, _MAX_SLOPE)
    error = _estimate_mean_error_in_spreads(
        residual_clip, residual=residual, slope_change=slope - 1
    )
    return LineOfPredictions(
        shift=solution.shift, slope=slope, deviation=deviation, mean_error=error
    )


def _estimate_mean_error_in_spreads(
    residual_clip: ResidualClip, *, residual: Array, slope_change: Array
) -> Float32[Array, ""]:
    """f32[]: estimate the error of the mean of corrected predictions, in spreads.

    This error has four parts: the noise of the mean residual, and of the mean deviation where the
    slope changes; the uncertainty about residuals beyond the clip; the uncertainty about the number
    of rows; and what the prior of the shift takes off the shift.

    Args:
        residual_clip: how residuals were clipped.
        residual: f32[], the mean residual that the sums say, in spreads.
        slope_change: f32[], what was added to the slope.
    """
    noise = residual_clip.noise_of_mean
    variance = (
        round_separately((noise * residual_clip.clip) ** 2)
        + round_separately((noise * DEVIATION_CLIP * slope_change) ** 2)
        + round_separately(residual_clip.excess_error**2)
        + round_separately((residual_clip.rows.error * residual) ** 2)
        + 1 / residual_clip.rows.num_rows
    )
    held_back = round_separately(residual * variance / (variance + _PRIOR_SHIFT_DEVIATION**2))
    return jnp.sqrt(variance + round_separately(held_back**2))


class _Equation(NamedTuple):
    """A linear equation in the shift and in the change of the slope, which holds up to an error.

    Attributes:
        of_shift: f32[], the coefficient of the shift.
        of_slope: f32[], the coefficient of the change of the slope.
        right: f32[], the right side.
        precision: f32[], 1 over the variance of the error.
    """

    of_shift: Array
    of_slope: Array
    right: Array
    precision: Array


class _ShiftAndSlopeChange(NamedTuple):
    """The solution of the equations.

    Attributes:
        shift: f32[], what is added to all predictions.
        slope_change: f32[], what is added to the slope.
    """

    shift: Array
    slope_change: Array


def _solve_least_squares(equations: Sequence[_Equation]) -> _ShiftAndSlopeChange:
    """Solve equations for the shift and the slope's change by least squares over variances."""

    def weighted_sum(product_of: Callable[[_Equation], Array]) -> Array:
        terms = [
            round_separately(equation.precision * product_of(equation)) for equation in equations
        ]
        return functools.reduce(jnp.add, terms)

    squared_shifts = weighted_sum(lambda equation: round_separately(equation.of_shift**2))
    squared_slopes = weighted_sum(lambda equation: round_separately(equation.of_slope**2))
    mixed = weighted_sum(lambda equation: round_separately(equation.of_shift * equation.of_slope))
    right_of_shift = weighted_sum(
        lambda equation: round_separately(equation.of_shift * equation.right)
    )
    right_of_slope = weighted_sum(
        lambda equation: round_separately(equation.of_slope * equation.right)
    )
    determinant = round_separately(squared_shifts * squared_slopes) - round_separately(mixed**2)
    shift = round_separately(squared_slopes * right_of_shift) - round_separately(
        mixed * right_of_slope
    )
    slope = round_separately(squared_shifts * right_of_slope) - round_separately(
        mixed * right_of_shift
    )
    return _ShiftAndSlopeChange(shift=shift / determinant, slope_change=slope / determinant)


@compilation.jit_with_bounded_cache(
    static_argnames=("config", "prologue"),
    compiler_options=compilation.OLDER_EMITTER_UNOPTIMIZED,
)
def estimate_mean_error(
    config: BinsConfig,
    prologue: types.Prologue,
    *,
    params: types.Params,
    released: Release,
    sums: Array,
) -> Float32[Array, ""]:
    """f32[]: estimate how far the mean prediction of a model is from the mean of its rows.

    The estimate is a standard deviation, and post-processing of what was released.

    Args:
        config: of the bins.
        prologue: of the learner, which draws the histogram of the number.
        params: the learner's numbers.
        released: the release of the prologue.
        sums: noisy `residual_and_deviation_sums`.

    Returns:
        The error as a position, where the declared range is 0..1.
    """
    assert prologue.unit is not None  # as the prologue of a number says
    assert prologue.estimated_rows is not None
    public = Public(
        max_rows=np.float32(0),
        cap=np.float32(1),
        weight_params=None,
        prologue=released,
        initial_score=prologue.initial_score(released, params),
        unit=prologue.unit(released, params),
        estimated_rows=prologue.estimated_rows(released, params),
    )
    line = estimate_shift_and_slope(config, sums.astype(jnp.float32), params, public)
    return line.mean_error * public.unit


def _line_of_logarithms(
    response: types.Response, line: LineOfPredictions, public: Public
) -> ScoreLine:
    """Convert a line of predicted counts to a line of scores, which are their logarithms.

    It has the same value and the same slope at the mean prediction.
    """
    shift = round_separately(line.shift * public.unit)
    start = public.initial_score
    start_prediction = _predictions_of_scores(response, start)
    mean = jnp.maximum(
        start_prediction + round_separately(line.deviation * public.unit), start_prediction / 4
    )
    corrected = start_prediction + shift + round_separately(line.slope * (mean - start_prediction))
    corrected = jnp.clip(corrected, mean / 4, 4 * mean)
    slope = jnp.clip(line.slope * round_separately(mean / corrected), _MIN_SLOPE, _MAX_SLOPE)
    change_at_mean = round_separately(slope * (portable_log(mean) - start))
    return ScoreLine(slope, portable_log(corrected) - change_at_mean)


def number_correction_epilogue(config: BinsConfig) -> types.Epilogue:
    """Make the epilogue that corrects a predicted number by a line.

    It has one draw, "scores", of sums of residuals.

    A prediction p becomes start + shift + slope (p - start). Of a count this is the line of the
    logarithm that has the same value and the same slope at the mean prediction.
    """

    def program(draw: Draw, rows: Any, scores: Array, params: types.Params, public: Public) -> None:
        clip = choose_residual_clip(config, params, public).clip
        sums = residual_and_deviation_sums(config, rows, scores, residual_clip=clip, public=public)
        draw(
            SCORES_SITE,
            config.noise,
            RowSum(sums),
            sensitivity=residual_and_deviation_sums_sensitivity(config),
            moved_outputs=sums.shape[0],
            theorem="dpbt theorem O5",
            releases="sums of final residuals",
        )

    def line_of_release(release: Release, params: types.Params, public: Public) -> ScoreLine:
        sums = release[SCORES_SITE].astype(jnp.float32)
        line = estimate_shift_and_slope(config, sums, params, public)
        if config.response.objective == "poisson":
            return _line_of_logarithms(config.response, line, public)
        shift = round_separately(line.shift * public.unit)
        return ScoreLine(line.slope, public.initial_score + shift)

    under = types.as_relation(config.relation).value
    return types.Epilogue(
        program=program,
        score_line=line_of_release,
        identity=f"number_line({under}, {config.noise.name}, {config.response.description})",
    )
