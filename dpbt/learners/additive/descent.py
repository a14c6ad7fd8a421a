"""How rounds of curves add up: momentum, a decaying step and monotone curves; post-processing."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from dpbt.common.arithmetic import round_separately
from dpbt.learners.additive.config import AdditiveConfig, AdditiveParams
from dpbt.learners.additive.model import ShapeFunctions
from dpbt.learners.bins.config import BinsConfig
from dpbt.types import Array


def noise_growth_by_momentum(num_rounds: int, momentum: float) -> float:
    """The factor by which the noise of all rounds together exceeds that of one, with momentum.

    It is the root of the sum of squares, over rounds, of what is added in the end for each unit of
    the round's sums: noise of the rounds is independent.
    """
    taper = np.clip(2 - 2 * np.arange(num_rounds) / num_rounds, 0, 1)
    total = np.zeros(num_rounds)
    for age in range(num_rounds):
        power = momentum ** (age + 1) + (age == 0)
        total[: num_rounds - age] += power * taper[age:]
    return math.sqrt(np.sum(total**2))


class CurveChange(NamedTuple):
    """The change that a round adds to the curves.

    Attributes:
        score: f32[..., F + P, C], what is added to the score of each bin.
        noise: f32[T], the deviation of the noise in it, of each round that it is made of.
    """

    score: Array
    noise: Array


class DescentState(NamedTuple):
    """The state of the descent between rounds.

    Attributes:
        velocity: the sum of the steps so far, of which each counts `momentum` times the next.
        curves: f32[..., F + P, C], the sum of all changes.
        num_rounds: i32[], how many rounds there were.
    """

    velocity: CurveChange
    curves: Array
    num_rounds: Array


class NesterovDescent(NamedTuple):
    """A gradient transformation with Nesterov's momentum, a falling step and monotone curves.

    The step falls to 0 over the second half of the rounds.

    It has the two functions of an `optax.GradientTransformation`, and without a direction it is
    optax.chain(optax.trace(momentum, nesterov=True), optax.scale_by_schedule(...)), with products
    that are rounded alike in memory and in blocks.

    Attributes:
        config: the static parts of the model.
        params: its numbers.
    """

    config: AdditiveConfig
    params: AdditiveParams

    def init(self, shapes: ShapeFunctions) -> DescentState:
        """The state before the first round: zero velocity and zero curves of these shapes."""
        zeros = CurveChange(jnp.zeros_like(shapes.score), jnp.zeros_like(shapes.noise))
        return DescentState(zeros, zeros.score, jnp.int32(0))

    def update(
        self, step: ShapeFunctions, state: DescentState, params: Any = None
    ) -> tuple[ShapeFunctions, DescentState]:
        """Apply momentum, the decaying step and monotonicity to the step of a round.

        It returns what the curves change by, and the state after the round.

        Args:
            step: what the sums of the round say of each bin.
            state: the state before the round.
            params: not read; optax passes it.
        """
        decay = jnp.asarray(self.params.momentum, jnp.float32)
        taper = jnp.clip(2 - 2 * (state.num_rounds.astype(jnp.float32) / self.params.rounds), 0, 1)

        def with_momentum(step: Array, velocity: Array) -> Array:
            return step + round_separately(decay * velocity)

        def tapered_change(step: Array, velocity: Array) -> Array:
            return round_separately(taper * with_momentum(step, velocity))

        step_of_curves = CurveChange(step.score, step.noise)
        velocity = jax.tree.map(with_momentum, step_of_curves, state.velocity)
        change = jax.tree.map(tapered_change, step_of_curves, velocity)
        bins = self.config.bins
        if any(bins.monotone):
            num_columns, max_bins = bins.bin_mask.shape
            bins_of_columns = slice(0, num_columns), slice(0, max_bins)
            next_curves = state.curves + change.score
            monotone = nearest_monotone_curves(next_curves[bins_of_columns], bins)
            monotone_change = next_curves.at[bins_of_columns].set(monotone) - state.curves
            change = change._replace(score=monotone_change)
        next_state = DescentState(velocity, state.curves + change.score, state.num_rounds + 1)
        return step._replace(score=change.score, noise=change.noise), next_state


def nearest_monotone_curves(score: Array, bins: BinsConfig) -> Float32[Array, "F C"]:
    """f32[F, C]: project the curves of monotone columns to the nearest monotone ones.

    The nearest is that of the least squared error. Other columns keep their curves.

    The bins of a column in order are one chain, and the value at a bin of the nearest increasing
    curve is the largest over its beginnings of the smallest mean over its ends.
    """
    direction = jnp.asarray(bins.monotone, jnp.float32)[:, None]
    bin_mask = jnp.asarray(bins.bin_mask)
    signed = jnp.where(bin_mask, jnp.where(direction < 0, -score, score), jnp.inf)
    total = jnp.cumsum(jnp.where(bin_mask, signed, 0), axis=1)
    before = jnp.pad(total[:, :-1], ((0, 0), (1, 0)))
    place = jnp.arange(bins.bin_mask.shape[1], dtype=jnp.int32)
    length = (place[None, :] - place[:, None] + 1).astype(jnp.float32)  # of a beginning and an end
    mean = (total[:, None, :] - before[:, :, None]) / jnp.maximum(length, 1)[None]
    ends = (length > 0)[None] & bin_mask[:, None, :]
    smallest = jax.lax.cummin(jnp.where(ends, mean, jnp.inf), axis=2, reverse=True)
    largest = jax.lax.cummax(jnp.where((length > 0)[None], smallest, -jnp.inf), axis=1)
    nearest = jnp.diagonal(largest, axis1=1, axis2=2)
    nearest = jnp.where(direction < 0, -nearest, nearest)
    return jnp.where((direction != 0) & bin_mask, nearest, score)
