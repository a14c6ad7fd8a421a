"""Oblivious trees over public splits: one draw a tree, of signed sums of clipped weights.

All nodes of a level ask the same split, so a tree of depth D partitions the rows by D bits. The
splits are public: they follow from the domain, from a seed, and from what a prologue released.
The only statistic of a round is, for each leaf, the sum of y w over its rows. With several classes,
and for a number, it is the sum of the clipped residuals.

Two things may be drawn once (`bins.one_time`): histograms before the first round and, after the
last, how many rows of each class have which score, or for a number sums of final residuals.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32

from dpbt import types
from dpbt.common.arithmetic import LN2, fold, round_separately
from dpbt.learners.bins.config import noise_deviation_at_site
from dpbt.learners.bins.one_time import one_time_phases_with_fractions
from dpbt.learners.bins.residuals import (
    SignalAndNoise,
    ledger_text_of_residual_sums,
    max_sums_changed_by_row,
    remove_noise_common_to_classes,
    rows_per_grid_unit,
    signed_residuals_of_bounded_norm,
    step_share_per_class,
    sum_residuals_by_segment,
    sums_sensitivity_of_one_partition_in_grid_units,
)
from dpbt.learners.bins.rows import BinnedRows
from dpbt.learners.bins.shares import estimate_bin_shares_and_num_rows
from dpbt.learners.bins.target import score_change_per_spread
from dpbt.learners.oblivious import splits
from dpbt.learners.oblivious.config import ObliviousConfig, ObliviousParams
from dpbt.learners.oblivious.kind import kind_of_oblivious_trees
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.learners.oblivious.rows import assign_leaves_unless_known
from dpbt.privacy import boundary
from dpbt.privacy.boundary import Draw, RowSum
from dpbt.types import Array, Public, Release

SUMS_SITE = "sums"
"""The site of the leaf sums of a round."""

MIN_DENOMINATOR_ROWS = 10.0
"""The least denominator of a leaf, in rows: without noise, leaves of few rows would overfit."""

_DENOMINATOR_PER_CURVATURE = np.float32(1 / 3)
"""How much one row with a curvature of 1 adds to the denominator of its leaf, in rows."""


def leaf_sum_sensitivity(config: ObliviousConfig) -> float:
    """The sensitivity of a tree's leaf sums of residuals, in grid units, in the mechanism's norm.

    Proof. Given the released scores and the public splits, a row is in one leaf and adds y w
    there, with |w| at most GRID. Under add/remove one sum moves by at most GRID: L1 = L2 = GRID.
    Under replace-one the removed row moves one sum by GRID and the row that comes in moves one by
    GRID. Both may move the same sum the same way, if their labels differ: L1 = L2 = 2 GRID. All
    other rows keep their weights, as each depends on the row itself and on released trees.

    A number is the same, with a residual in -GRID..GRID in place of y w. Residuals of a quantile
    lie in [-b, a], the larger of which is GRID. So under replace-one a sum moves by at most a + b,
    or two sums by GRID each: L1 = 2 GRID, L2 = max(a + b, sqrt(2) GRID). With several classes a row
    adds its K residuals to the K sums of its leaf. `signed_residuals_of_bounded_norm` keeps their
    norm at most GRID: the L1 norm for noise that is priced by L1, else the L2 norm. So the same
    bounds hold for all K sums together.
    """
    return config.noise.sensitivity_in_norm(sums_sensitivity_of_one_partition_in_grid_units(config))


class PublicTreeAndLeafRows(NamedTuple):
    """The splits of a round's tree and the estimated rows of its leaves, public before its draw.

    Attributes:
        tree: its splits, with leaves of 0.
        leaf_rows: f32[2^D], the estimated rows of each leaf.
    """

    tree: ObliviousTree
    leaf_rows: Array


def public_tree_of_round(
    config: ObliviousConfig, params: ObliviousParams, public: Public
) -> PublicTreeAndLeafRows:
    """Derive the public splits of a round's tree, and estimate the number of rows of each leaf.

    A structure that the loop passes is used as it is.
    """
    if public.structure is not None:
        return public.structure

    bin_shares, num_rows = estimate_bin_shares_and_num_rows(config, params, public)
    tree, leaf_shares = splits.public_tree_from_seed(
        config,
        seed=jnp.asarray(params.seed).astype(jnp.uint32),
        tree_number=jnp.asarray(public.round),
        bin_shares=bin_shares,
    )
    return PublicTreeAndLeafRows(tree, round_separately(num_rows * leaf_shares))


def partition_by_leaf(config: ObliviousConfig) -> types.Partition:
    """The public partition of the rows by the leaf of the round's tree that they reach."""

    def leaf_of_rows(round_tree: PublicTreeAndLeafRows, rows: BinnedRows) -> Array:
        return assign_leaves_unless_known(config.attributes, round_tree.tree, rows)

    return types.Partition(
        structure=functools.partial(public_tree_of_round, config),
        assign_rows=leaf_of_rows,
        reads=lambda round_tree: round_tree.tree.feature,
        cycle=config.num_structures,
    )


def draw_residual_sums_by_leaf(
    draw: Draw,
    rows: BinnedRows,
    weights: Array,
    params: ObliviousParams,
    public: Public,
    *,
    config: ObliviousConfig,
) -> None:
    """Draw the noisy sum of the residuals of each leaf's rows, in whole grid units.

    The residual of two classes is y w.
    """
    tree = public_tree_of_round(config, params, public).tree
    leaf = assign_leaves_unless_known(config.attributes, tree, rows).astype(jnp.int32)
    residuals = signed_residuals_of_bounded_norm(config, rows, weights)
    draw(
        SUMS_SITE,
        config.noise,
        RowSum(sum_residuals_by_segment(residuals, leaf, 2**config.depth)),
        sensitivity=leaf_sum_sensitivity(config),
        theorem="dpbt theorem O2",
        moved_outputs=max_sums_changed_by_row(config, num_partitions=1),
        releases=ledger_text_of_residual_sums(config, "all leaves"),
    )


def tree_of_release(
    config: ObliviousConfig, release: Release, params: ObliviousParams, public: Public
) -> ObliviousTree:
    """Build the tree of a round from its noisy leaf sums.

    Each leaf moves the score by a step times its noisy sum over its noise.

    Let G be the released sum in rows, sigma the standard deviation of its noise, and m the public
    estimate of the leaf's rows. A leaf is clip(s G / max(sigma + m h / 3, 10), -v, v). G, sigma and
    m add up other leaves too, with the weights of `ObliviousConfig.smoothing`.

    - Two classes: the step is turned from nats into bits.
    - Several classes: what noise adds to all classes alike is taken off
      (`remove_noise_common_to_classes`), and sigma becomes sqrt((K - 1) / K) of what it was. The
      step of each class is (K - 1) / K of that above (`step_share_per_class`).
    - A number: the step is in spreads, which `score_change_per_spread` turns into scores.

    The noise of a leaf is the deviation s sigma / max(sigma + m h / 3, 10) of what is clipped, in
    the same units; where the clip is at work it is 0. What makes leaves monotone takes a mean of
    leaves, and is left out.

    Args:
        config: the static parts.
        release: its sums are i32[2^D] or i32[K, 2^D], in grid units.
        params: s, v and h are its step, limit and curvature.
        public: of the round.
    """
    round_tree = public_tree_of_round(config, params, public)
    signal, noise = _smoothed_sums_and_noise(config, release, params, public)

    # What noise and curvature leave of the step.
    denominator_per_row = round_separately(params.curvature * _DENOMINATOR_PER_CURVATURE)
    denominator_of_rows = round_separately(
        add_weighted_neighbour_leaves(config, round_tree.leaf_rows) * denominator_per_row
    )
    # XLA turns a division by a broadcast array into a product, and which arrays are broadcast
    # depends on the lanes. A choice by the signal, which has the shape of all lanes, is none.
    denominator = jnp.where(
        jnp.isnan(signal), signal, jnp.maximum(noise + denominator_of_rows, MIN_DENOMINATOR_ROWS)
    )
    step = _step_of_round(params, public)
    unclipped = round_separately(step * signal / denominator)
    change = jnp.clip(unclipped, -params.limit, params.limit)
    change_of_noise = jnp.where(jnp.abs(unclipped) < params.limit, step * noise / denominator, 0)

    # In bits, or in the unit of the number.
    scale = _score_change_per_step_unit(config.response, public)
    leaf = round_separately((change * scale).astype(jnp.float32))
    noise_of_leaf = round_separately((change_of_noise * scale).astype(jnp.float32))
    tree = round_tree.tree
    if any(config.monotone):
        leaf = make_leaves_monotone(leaf, jnp.asarray(config.monotone, jnp.int32)[tree.feature])
    return tree._replace(leaf=leaf, noise=noise_of_leaf)


def _smoothed_sums_and_noise(
    config: ObliviousConfig, release: Release, params: ObliviousParams, public: Public
) -> SignalAndNoise:
    """Smooth the released leaf sums over neighbour leaves, and state the noise of what results.

    What all classes share is noise alone, and is taken off.

    Returns:
        The sums of leaves and the standard deviation of their noise, in rows.
    """
    rows_per_unit = rows_per_grid_unit(public)
    sums = round_separately(release[SUMS_SITE].astype(jnp.float32) * rows_per_unit)
    return remove_noise_common_to_classes(
        config.response,
        add_weighted_neighbour_leaves(config, sums),
        _noise_deviation_of_smoothed_sums(config, params, rows_per_unit),
    )


def _score_change_per_step_unit(response: types.Response, public: Public) -> types.Numbers:
    """How far a score moves for a step of one nat, or of one spread of a number.

    It is in bits, or in the unit of the number's score.
    """
    if response.is_number:
        return score_change_per_spread(response, public)
    return np.float32(step_share_per_class(response) / LN2)


def add_weighted_neighbour_leaves(
    config: ObliviousConfig, leaf_sums: Float32[Array, "... L"]
) -> Float32[Array, "... L"]:
    """f32[..., 2^D]: add to each leaf all others, weighted by the number of bits they differ in.

    The weight is smoothing^b of leaves whose numbers differ in b bits.

    A leaf that differs in b bits has the weight of each of these bits. So the weights are a product
    over bits, and each bit adds to all leaves those on its other side. These are additions of one
    number to one other, which round alike in every program and under vmap; a product of matrices
    would not. They are a loop, since a compiler joins the steps of unrolled code into one, which
    works out each leaf of a step, and the noise in it, once for each leaf that follows from it.
    """
    weight = np.float32(config.smoothing)
    depth = config.depth
    leaf_numbers = jnp.arange(2**depth, dtype=jnp.int32)

    def add_other_sides(leaves: Array, bit: Array) -> Array:
        other_sides = leaves.at[..., leaf_numbers ^ bit].get(mode="promise_in_bounds")
        return leaves + round_separately(weight * other_sides)

    bits = jnp.asarray([2**level for level in reversed(range(depth))], jnp.int32)
    return fold(add_other_sides, leaf_sums, bits)


def _noise_deviation_of_smoothed_sums(
    config: ObliviousConfig, params: ObliviousParams, rows_per_unit: Array
) -> Float32[Array, ""]:
    """f32[]: the standard deviation of the noise in a leaf's smoothed sum, in rows.

    Args:
        config: the static parts.
        params: with the noise multiplier of the sums.
        rows_per_unit: f32[], the rows of a grid unit.
    """
    sum_deviation = noise_deviation_at_site(
        config, params, site=SUMS_SITE, site_sensitivity=leaf_sum_sensitivity(config)
    )
    growth = np.float32((1 + config.smoothing**2) ** (config.depth / 2))
    return round_separately(round_separately(sum_deviation * rows_per_unit) * growth)


def _step_of_round(params: ObliviousParams, public: Public) -> types.Numbers:
    """f32[]: the step of a round, from a schedule or the same for all rounds."""
    if isinstance(params.step, tuple):
        return jnp.stack([jnp.asarray(step) for step in params.step])[public.round]
    return params.step


def make_leaves_monotone(
    leaf_values: Float32[Array, "_"], direction: Int32[Array, "D"]
) -> Float32[Array, "_"]:
    """f32[2^D]: make the leaf values of a tree monotone in each level that has a direction.

    A leaf is at most another if they differ only in levels with a direction, and the other is on
    the side of larger values at each of them. A leaf becomes the mean of two numbers: the largest
    leaf that is at most it, and the smallest that is at least it. Both are monotone, and so is
    their mean. Leaves that are monotone already stay as they are.

    Args:
        leaf_values: f32[2^D].
        direction: i32[D]: 1 where the right side must not be lower, -1 where it must not be higher,
            and 0 for a level without a constraint.
    """
    depth = direction.shape[0]
    highest = lowest = leaf_values
    for level in range(depth):
        shape = (2**level, 2, 2 ** (depth - level - 1))
        up = direction[level]
        highest = _propagate_extreme_in_direction(highest.reshape(shape), up, jnp.maximum)
        highest = highest.reshape(-1)
        lowest = _propagate_extreme_in_direction(lowest.reshape(shape), -up, jnp.minimum)
        lowest = lowest.reshape(-1)
    return (highest + lowest) / 2


def _propagate_extreme_in_direction(
    left_and_right: Array, direction: Array, max_or_min: Callable[[Array, Array], Array]
) -> Float32[Array, "A 2 B"]:
    """f32[A, 2, B]: set the side of a level that the direction points to, to the extreme of both.

    Args:
        left_and_right: f32[A, 2, B], the leaves on both sides of a level.
        direction: i32[]: 1 points to the right side, -1 to the left one, and 0 to none.
        max_or_min: the extreme of two arrays.
    """
    extreme = max_or_min(left_and_right[:, 0], left_and_right[:, 1])
    new_left = jnp.where(direction < 0, extreme, left_and_right[:, 0])
    new_right = jnp.where(direction > 0, extreme, left_and_right[:, 1])
    return jnp.stack([new_left, new_right], axis=1)


@functools.cache
def oblivious_tree(config: ObliviousConfig) -> types.WeakLearner:
    """A weak learner of oblivious trees over public splits, with a noisy sum for each leaf.

    It is for boosting with clipped weights.

    Guarantee, under `config.relation`, with weights that each depend on their own row alone
    (`weighting.clipped_mirror`, or `weighting.residuals` where the response is not one of two
    classes): a round costs what the
    mechanism costs at `leaf_sum_sensitivity`. The prologue costs what it costs at
    `class_histograms_sensitivity`, and for a number at that of one histogram. All statistics are
    exact integers. The splits cost nothing: they follow from the domain, the seed, the number of
    the round and the released histograms. With rounded Gaussian noise, T rounds are exactly sqrt(T)
    shift-GDP.

    Args:
        config: the static parts, checked and hashable (`recipes.oblivious_boost`).
    """
    once = one_time_phases_with_fractions(config, round_site=SUMS_SITE)
    return boundary.weak_learner(
        name="oblivious_tree",
        config=config,
        program=functools.partial(draw_residual_sums_by_leaf, config=config),
        hypothesis=functools.partial(tree_of_release, config),
        kind=kind_of_oblivious_trees(config),
        response=config.response,
        partition=partition_by_leaf(config),
        relation=config.relation,
        make_params=lambda noise, public: ObliviousParams(dict(noise)),
        fractions=once.fractions,
        prologue=once.prologue,
        epilogue=once.epilogue,
    )
