"""What rows add to the sums of a round: their residuals, and how far one row moves the sums."""

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
from dpbt.privacy.sensitivity import (
    num_changed_rows,
)
from dpbt.types import BINARY, GRID, Array, Public


def partition_sum_sensitivity(config: BinsConfig) -> Sensitivity:
    """How far one row moves the sums of one partition, as `leaf_sum_sensitivity` proves."""
    l1 = GRID * num_changed_rows(config.relation)
    l2 = float(l1)
    if config.response.objective == "quantile" and l1 > GRID:
        l2 = max(sum(config.response.on_grid), math.sqrt(2) * GRID)
    return Sensitivity(l1, l2)


def sum_residuals_by_place(residuals: Array, place_of_row: Array, num_places: int) -> Array:
    """i32[num_places], or i32[K, num_places]: the sum of the residuals of the rows in each place.

    Under vmap, processors add up one lane after the other. XLA's own batched sum takes twice the
    time there.

    Args:
        residuals: i32[N], or i32[K, N] with several classes.
        place_of_row: i32[N].
        num_places: how many places there are.
    """

    def add_up(values: Array, place: Array) -> Array:
        return jnp.zeros(num_places, jnp.int32).at[place].add(values, mode="promise_in_bounds")

    lane_by_lane = jax.custom_batching.sequential_vmap(add_up)
    add_up_on_platform = functools.partial(
        jax.lax.platform_dependent, cpu=lane_by_lane, default=add_up
    )
    if residuals.ndim == 1:
        return add_up_on_platform(residuals, place_of_row)
    # One class at a time: as one flat sum, XLA makes residuals many times.
    return jax.lax.map(lambda residual: add_up_on_platform(residual, place_of_row), residuals)


def max_sums_moved_by_row(config: BinsConfig, num_partitions: int) -> int:
    """The largest number of sums of these partitions that one row changes between neighbours."""
    max_norm = GRID if config.noise.price.uses_l1_sensitivity else GRID**2
    max_sums_of_row = min(config.response.classes, max_norm) if config.response.axes else 1
    return num_partitions * num_changed_rows(config.relation) * max_sums_of_row


def describe_residual_sums(config: BinsConfig, places: str) -> str:
    """The description of the sums of some places, for a ledger."""
    words = "signed weights" if config.response == BINARY else "residuals"
    return f"{words}, {places}"


def row_residuals(config: BinsConfig, rows: BinnedRows, weights: Array) -> Array:
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
    if config.noise.price.uses_l1_sensitivity:
        size, max_size = jnp.abs(residuals), GRID
    else:
        size, max_size = residuals**2, GRID**2
    return jnp.where(jnp.sum(size, axis=0)[None] <= max_size, residuals, 0)


def rows_of_grid_unit(public: Public) -> Float32[Array, ""]:
    """f32[]: how many rows a grid unit of a sum of weights stands for."""
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
    response: types.Response, signal: Array, noise: Array
) -> SignalAndNoise:
    """The sums without what noise adds to all classes alike; of one score they stay as they are.

    Residuals add up to 0 over several classes. So the mean over classes is noise alone, and without
    it the variance of the noise is (K - 1) / K of what it was.

    Args:
        response: what is predicted.
        signal: f32[...], or f32[K, ...] with several classes.
        noise: f32[], the standard deviation of the noise of one sum.
    """
    if not response.axes:
        return SignalAndNoise(signal, noise)
    centered = signal - mean_in_order(signal)[None]
    root = np.float32(math.sqrt(step_share_of_class(response)))
    return SignalAndNoise(centered, round_separately(noise * root))


def step_share_of_class(response: types.Response) -> float:
    """The share of a step that the score of each class moves by: (K - 1) / K, and 1 of one score.

    Scores of +H / 2 and -H / 2 of two classes differ by H, as one score of H does.
    """
    return (response.classes - 1) / response.classes if response.axes else 1.0
