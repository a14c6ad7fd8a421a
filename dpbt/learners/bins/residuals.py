"""The residuals of rows, their sums in a round, and how far one row moves these sums."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from dpbt import types
from dpbt.common.arithmetic import mean_in_order, round_separately
from dpbt.learners.bins.config import BinsConfig
from dpbt.learners.bins.rows import BinnedRows
from dpbt.privacy.mechanism_types import Sensitivity
from dpbt.privacy.sensitivity import num_changed_rows
from dpbt.types import BINARY, GRID, Array, Public


def sums_sensitivity_of_one_partition_in_grid_units(config: BinsConfig) -> Sensitivity:
    """The sensitivity of the sums of residuals over one partition of the rows, in grid units.

    `oblivious.learner.leaf_sum_sensitivity` proves it.
    """
    l1 = GRID * num_changed_rows(config.relation)
    l2 = float(l1)
    if config.response.objective == "quantile" and l1 > GRID:
        l2 = max(sum(config.response.quantile_residual_on_grid), math.sqrt(2) * GRID)
    return Sensitivity(l1, l2)


def sum_residuals_by_segment(residuals: Array, segment_of_row: Array, num_segments: int) -> Array:
    """i32[num_segments], or i32[K, num_segments]: sum up the residuals of the rows of each segment.

    Under vmap, processors add up one lane after the other. XLA's own batched sum takes twice the
    time there.

    Args:
        residuals: i32[N], or i32[K, N] with several classes.
        segment_of_row: i32[N].
        num_segments: how many segments there are.
    """

    def add_up(values: Array, segment: Array) -> Array:
        return jnp.zeros(num_segments, jnp.int32).at[segment].add(values, mode="promise_in_bounds")

    lane_by_lane = jax.custom_batching.sequential_vmap(add_up)
    add_up_on_platform = functools.partial(
        jax.lax.platform_dependent, cpu=lane_by_lane, default=add_up
    )
    if residuals.ndim == 1:
        return add_up_on_platform(residuals, segment_of_row)
    # One class at a time: as one flat sum, XLA makes residuals many times.
    return jax.lax.map(lambda residual: add_up_on_platform(residual, segment_of_row), residuals)


def max_sums_changed_by_row(config: BinsConfig, num_partitions: int) -> int:
    """The largest number of residual sums that one row changes between neighbouring tables.

    Each of the partitions has the sums of its parts, of which a row is in one.
    """
    # Residuals of a row are whole, and their L1 norm, or their squared L2 norm, bounds how many of
    # them are not 0.
    max_nonzero_residuals = GRID if config.noise.price.uses_l1_sensitivity else GRID**2
    max_sums_of_row = (
        min(config.response.num_classes, max_nonzero_residuals) if config.response.score_axes else 1
    )
    return num_partitions * num_changed_rows(config.relation) * max_sums_of_row


def ledger_text_of_residual_sums(config: BinsConfig, scope_text: str) -> str:
    """The text by which a ledger describes the release of sums of residuals.

    Args:
        config: the static configuration.
        scope_text: what the sums are over, such as "all leaves".
    """
    summands = "signed weights" if config.response == BINARY else "residuals"
    return f"{summands}, {scope_text}"


def signed_residuals_of_bounded_norm(config: BinsConfig, rows: BinnedRows, weights: Array) -> Array:
    """i32[N], or i32[K, N]: turn weights into signed residuals whose norm in a row is at most GRID.

    The bound holds whatever the weights are. A row of several classes beyond it, which no weight
    update of the library gives, adds nothing.
    """
    residuals = jnp.clip(weights, -GRID, GRID).astype(jnp.int32)
    if config.response == BINARY:
        return jnp.where(rows.target, residuals, -residuals)
    if config.response.objective == "quantile":
        above, below = config.response.quantile_residual_on_grid
        return jnp.clip(residuals, -below, above)
    if config.response.is_number:
        return residuals
    if config.noise.price.uses_l1_sensitivity:
        size = jnp.abs(residuals)
        max_size = GRID
    else:
        size = residuals**2
        max_size = GRID**2
    return jnp.where(jnp.sum(size, axis=0)[None] <= max_size, residuals, 0)


def rows_per_grid_unit(public: Public) -> Float32[Array, ""]:
    """f32[]: how many rows one grid unit of a sum of weights stands for."""
    return round_separately(jnp.asarray(public.cap, jnp.float32) * np.float32(1 / GRID))


class SignalAndNoise(NamedTuple):
    """The released sums of a round, and how large their noise is.

    Attributes:
        signal: f32[...], or f32[K, ...] with several classes: the sums, in rows.
        noise: f32[], the standard deviation of the noise of one sum, in rows.
    """

    signal: Array
    noise: Array


def remove_noise_common_to_classes(
    response: types.Response, sums: Array, noise_deviation: Array
) -> SignalAndNoise:
    """Subtract from the noisy sums of several classes their mean, and state the noise that is left.

    The sums of one score stay as they are.

    Residuals add up to 0 over several classes. So the mean over classes is noise alone, and without
    it the variance of the noise is (K - 1) / K of what it was.

    Args:
        response: what is predicted.
        sums: f32[...], or f32[K, ...] with several classes.
        noise_deviation: f32[], the standard deviation of the noise of one sum.
    """
    if not response.score_axes:
        return SignalAndNoise(sums, noise_deviation)
    centered = sums - mean_in_order(sums)[None]
    root = np.float32(math.sqrt(step_share_per_class(response)))
    return SignalAndNoise(centered, round_separately(noise_deviation * root))


def step_share_per_class(response: types.Response) -> float:
    """The fraction of a step that each class's score moves by: (K - 1) / K, or 1 for one score.

    Scores of +H / 2 and -H / 2 of two classes differ by H, as one score of H does.
    """
    return (response.num_classes - 1) / response.num_classes if response.score_axes else 1.0
