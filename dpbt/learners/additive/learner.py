"""Additive models: a round releases the signed weights of all bins of all columns as one vector.

Each column is cut into groups of its bins at several resolutions (`groups`). A row is in one group
of each column and each resolution. So a round has one draw, of one vector, and its noise is
that of one tree times the root of the number of these partitions.

The hypothesis adds a score to each bin. Momentum and a decaying step make the rounds one descent,
which is post-processing. What is drawn once, before and after the rounds, is that of
`oblivious_tree`.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import types
from dpbt.common.arithmetic import LN2, round_separately
from dpbt.learners.additive.config import AdditiveConfig, AdditiveParams
from dpbt.learners.additive.descent import NesterovDescent
from dpbt.learners.additive.groups import (
    SumByGroup,
    cell_index_terms_by_bin,
    sum_index_of_bins,
)
from dpbt.learners.additive.kind import (
    kind_of_curves_merged_from_column_trees,
    kind_of_curves_of_all_columns,
)
from dpbt.learners.additive.model import ShapeFunctions, cells_of_rows_in_pairs
from dpbt.learners.bins.config import noise_deviation_at_site
from dpbt.learners.bins.one_time import one_time_phases_with_fractions
from dpbt.learners.bins.residuals import (
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
from dpbt.learners.bins.target import score_change_per_spread
from dpbt.learners.oblivious.config import ObliviousConfig
from dpbt.learners.oblivious.learner import oblivious_tree
from dpbt.privacy import boundary
from dpbt.privacy.boundary import Draw, RowSum
from dpbt.privacy.mechanism_types import Sensitivity
from dpbt.types import Array, Public, Release

BINS_SITE = "bins"
"""The site of the sums of all groups of bins of a round."""


def bin_group_sums_sensitivity(config: AdditiveConfig) -> float:
    """The sensitivity of a round's sums of bin groups, in grid units, in the mechanism's norm.

    Proof. Given the released scores, a row adds y w, with |w| at most GRID, to one group of each
    column, or cell of each pair, and resolution: to S = Q (F + P) sums. Its cell follows from its
    own bins and from what is public. Under add/remove these move by at most GRID each: L1 =
    S GRID and L2 = sqrt(S) GRID. Under replace-one the removed row moves S sums and the row
    that comes in moves S sums. If these are the same and the labels differ, each moves by 2 GRID:
    L1 = 2 S GRID and L2 = 2 sqrt(S) GRID, which also bounds any two other rows by the triangle
    inequality. All other rows keep their weights.

    A number has a residual in -GRID..GRID in place of y w. With several classes a row adds its K
    residuals to K sums of each group. Their norm is at most GRID, as
    `oblivious.learner.leaf_sum_sensitivity` says, so the same bounds hold. It also bounds what the
    row of a quantile moves in each partition, which holds for the squares of the L2 norm, too. []
    """
    of_partition = sums_sensitivity_of_one_partition_in_grid_units(config.bins)
    num_partitions = config.num_groups_per_row
    return config.bins.noise.sensitivity_in_norm(
        Sensitivity(
            l1=of_partition.l1 * num_partitions,
            l2=of_partition.l2 * math.sqrt(num_partitions),
        )
    )


def draw_residual_sums_by_bin_group(
    draw: Draw,
    rows: BinnedRows,
    weights: Array,
    params: AdditiveParams,
    public: Public,
    *,
    config: AdditiveConfig,
) -> None:
    """Draw the noisy sums of residuals of all bin groups, as one vector.

    The sums are exact integers in grid units before the noise. The residual of two classes is y w.
    """
    bins_config = config.bins
    num_cells = config.bin_and_cell_mask.shape[1]
    sum_indices = sum_index_of_bins(config, params, public)
    cell = cells_of_rows_in_pairs(
        config.columns_of_pairs, cell_index_terms_by_bin(config, params, public), rows.bins
    )
    bins = jnp.minimum(jnp.concatenate([rows.bins, cell]).astype(jnp.int32), num_cells)
    residuals = signed_residuals_of_bounded_norm(bins_config, rows, weights)
    sums_by_column = jax.lax.map(
        lambda bin: sum_residuals_by_segment(residuals, bin, num_cells + 1), bins
    )
    bin_sums = jnp.moveaxis(sums_by_column, 0, -2)[..., :num_cells]
    draw(
        BINS_SITE,
        bins_config.noise,
        RowSum(
            bin_sums,
            SumByGroup(sum_indices.num_sums),
            public_inputs=(sum_indices.sum_index_of_bin,),
        ),
        sensitivity=bin_group_sums_sensitivity(config),
        theorem="dpbt theorem O4",
        moved_outputs=max_sums_changed_by_row(bins_config, config.num_groups_per_row),
        releases=ledger_text_of_residual_sums(bins_config, "all bins of all columns"),
    )


def shape_changes_before_momentum(
    config: AdditiveConfig, release: Release, params: AdditiveParams, public: Public
) -> ShapeFunctions:
    """Turn a round's noisy sums into a change of each bin's score, before momentum.

    Let S be the sum over resolutions of the released sums of a bin's groups, in rows, divided by
    the root of Q, so that its noise has the deviation sigma of one sum. A bin moves by
    step S / max(sigma, step m sqrt(Q) F / limit), with m the public bound on the rows: where noise
    dominates as far as its sum stands above the noise, and else by a gradient step of the log loss
    with the learning rate `limit`. `oblivious.learner.tree_of_release` says in which unit that is
    for several classes and for a number.
    """
    response = config.bins.response
    num_resolutions = len(config.resolutions)
    unit = rows_per_grid_unit(public)
    sum_index_of_bin = sum_index_of_bins(config, params, public).sum_index_of_bin
    no_padding_of_classes = ((0, 0),) * len(response.score_axes)
    padded = jnp.pad(release[BINS_SITE].astype(jnp.float32), (*no_padding_of_classes, (0, 1)))
    sums = round_separately(padded * unit)[..., sum_index_of_bin]
    sums_of_bins = functools.reduce(
        jnp.add, [sums[..., place, :, :] for place in range(num_resolutions)]
    )
    signal = round_separately(sums_of_bins * np.float32(1 / math.sqrt(num_resolutions)))
    noise = round_separately(
        noise_deviation_at_site(
            config.bins, params, site=BINS_SITE, site_sensitivity=bin_group_sums_sensitivity(config)
        )
        * unit
    )

    signal, noise = remove_noise_common_to_classes(response, signal, noise)

    # In bits, or in the unit of the number.
    if response.is_number:
        scale = score_change_per_spread(response, public)
    else:
        scale = np.float32(step_share_per_class(response)) * np.float32(1 / LN2)
    features = math.sqrt(num_resolutions) * len(config.bin_and_cell_mask)
    smooth = round_separately(jnp.asarray(public.max_rows, jnp.float32) * features)
    min_noise = round_separately(params.step * smooth) / params.max_learning_rate
    rate = round_separately(params.step / jnp.maximum(noise, min_noise))
    rate = round_separately(rate * scale)
    round_index = jnp.arange(config.max_rounds, dtype=jnp.int32)
    return ShapeFunctions(
        score=round_separately(signal * rate),
        noise=jnp.where(round_index == public.round, round_separately(noise * rate), 0.0),
        pairs=jnp.asarray(config.columns_of_pairs),
        parts=cell_index_terms_by_bin(config, params, public),
    )


@functools.cache
def additive_by_column(config: ObliviousConfig) -> types.WeakLearner:
    """An additive model whose rounds each release one column, as an `oblivious_tree` of it.

    Guarantee: as `oblivious_tree`. Where noise is priced by the L1 norm, rounds of one column at a
    time cost as much as rounds of all, and are many more.

    Args:
        config: the static parts of the trees, each of which asks one attribute.
    """
    return dataclasses.replace(
        oblivious_tree(config),
        name="curves of oblivious_tree",
        kind=kind_of_curves_merged_from_column_trees(config),
    )


@functools.cache
def additive(config: AdditiveConfig) -> types.WeakLearner:
    """An additive model whose rounds release all columns at once, with clipped weights.

    Guarantee, under `relation`, with weights of each row's own (`weighting.clipped_mirror`, or
    `weighting.residuals` where the response is not one of two classes): a round costs what the
    mechanism costs at `bin_group_sums_sensitivity`, and the one-time draws cost what
    `oblivious_tree` says. With rounded Gaussian noise, T rounds are exactly sqrt(T) shift-GDP.

    Args:
        config: the static parts, checked and hashable (`recipes.additive`).
    """
    bins = config.bins
    once = one_time_phases_with_fractions(bins, round_site=BINS_SITE)
    return boundary.weak_learner(
        name="additive",
        config=config,
        program=functools.partial(draw_residual_sums_by_bin_group, config=config),
        hypothesis=functools.partial(shape_changes_before_momentum, config),
        kind=kind_of_curves_of_all_columns(bins),
        response=bins.response,
        relation=bins.relation,
        fractions=once.fractions,
        prologue=once.prologue,
        epilogue=once.epilogue,
        make_params=lambda noise, public: AdditiveParams(dict(noise)),
        optimizer=functools.partial(NesterovDescent, config),
    )
