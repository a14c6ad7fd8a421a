"""The groups that the bins of columns, and the cells of pairs, are joined to.

Each column is cut into groups of its bins at several resolutions, from halves to sixteenths of the
rows, so that a curve is smooth where it is noisy and bends where the rows say so.

A declared pair of columns is one more column. Its bins are the cells of a grid, which joins the
bins of both columns to groups, and they are joined at the coarser resolutions as bins are.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int32, UInt8

from dpbt import types
from dpbt.common.arithmetic import round_separately
from dpbt.learners.additive.config import MAX_PAIR_GROUPS, AdditiveConfig, AdditiveParams
from dpbt.learners.bins.shares import (
    estimate_bin_shares_and_num_rows,
    mix_bin_shares_with_even_shares,
)
from dpbt.types import Array, Public


def _group_index_of_bins(
    config: AdditiveConfig, params: AdditiveParams, public: Public, max_groups: Sequence[int]
) -> Int32[Array, "Q F C"]:
    """i32[Q, F, C]: the group of each bin of each column, at each of Q maximum numbers of groups.

    Bins are joined at the quantiles of the shares that thresholds follow, so a group is a run of
    bins.
    """
    bins = config.bins
    shares = mix_bin_shares_with_even_shares(
        bins, estimate_bin_shares_and_num_rows(bins, params, public).shares
    )
    middle = jnp.cumsum(shares, axis=1) - round_separately(shares / 2)
    count = jnp.asarray(max_groups, jnp.int32)[:, None, None]
    quantile = jnp.floor(middle[None] * count.astype(jnp.float32)).astype(jnp.int32)
    bin = jnp.arange(bins.bin_mask.shape[1], dtype=jnp.int32)[None, None]
    is_joined = (config.num_groups_of_columns(max_groups) < bins.bin_mask.sum(axis=1))[..., None]
    return jnp.where(is_joined, jnp.clip(quantile, 0, count - 1), bin)


def cell_index_terms_by_bin(
    config: AdditiveConfig, params: AdditiveParams, public: Public
) -> UInt8[Array, "P 2 MAX_BINS"]:
    """u8[P, 2, MAX_BINS]: what each bin of a pair's columns adds to the index of the pair's cell.

    A bin that a column does not have counts as its last one.
    """
    columns, max_groups = config.columns_of_pairs, min(max(config.resolutions), MAX_PAIR_GROUPS)
    last_bins = np.array([[attribute.n_bins - 1] for attribute in config.bins.attributes])
    bin = np.minimum(np.arange(types.MAX_BINS), last_bins)[columns]
    group = _group_index_of_bins(config, params, public, (max_groups,))[0][columns]
    stride = np.stack([config.pair_grid_shapes[:, 1], np.ones(len(columns))], axis=1).astype(
        np.int32
    )
    return (jnp.take_along_axis(group, bin, axis=2) * stride[..., None]).astype(jnp.uint8)


class SumIndexByBin(NamedTuple):
    """The place of each bin's group in the vector of a round's sums.

    Attributes:
        sum_index_of_bin: i32[Q, F + P, C], the place of each bin's group; `num_sums` for no bin.
        num_sums: how many sums the vector has.
    """

    sum_index_of_bin: Array
    num_sums: int


def sum_index_of_bins(
    config: AdditiveConfig, params: AdditiveParams, public: Public
) -> SumIndexByBin:
    """Number all sums of a round, and say which sum each bin, or cell of a pair, is part of.

    The cells of a pair are joined evenly at coarser resolutions.
    """
    width, grid = config.bin_and_cell_mask.shape[1], config.pair_grid_shapes
    groups_of_columns = _group_index_of_bins(config, params, public, config.resolutions)
    missing_bins = width - groups_of_columns.shape[2]
    groups_of_columns = jnp.pad(groups_of_columns, ((0, 0), (0, 0), (0, missing_bins)))

    # The groups of both columns that a cell is in, and the place of these two.
    sizes, cell = config.num_groups_of_columns(config.resolutions), np.arange(width)
    coarse = config.num_groups_of_columns([min(n, MAX_PAIR_GROUPS) for n in config.resolutions])
    coarse = coarse[:, config.columns_of_pairs]
    group_of_columns = np.stack([cell // grid[:, 1:], cell % grid[:, 1:]], axis=1)
    group_of_columns = group_of_columns * coarse[..., None] // grid[..., None]
    groups_of_pairs = group_of_columns[:, :, 0] * coarse[..., 1:] + group_of_columns[:, :, 1]

    sizes = np.concatenate([sizes, coarse.prod(axis=2)], axis=1)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).reshape(*sizes.shape, 1)
    groups = jnp.concatenate([groups_of_columns, jnp.asarray(groups_of_pairs, jnp.int32)], axis=1)
    num_sums = int(sizes.sum())
    sum_index_of_bin = jnp.where(
        config.bin_and_cell_mask, groups + jnp.asarray(first, jnp.int32), num_sums
    )
    return SumIndexByBin(sum_index_of_bin, num_sums)


@dataclasses.dataclass(frozen=True)
class SumByGroup:
    """A function that adds up the sums of bins to the sums of their groups.

    Attributes:
        num_sums: how many sums there are.
    """

    num_sums: int

    def __call__(self, sums: Array, sum_index_of_bin: Array) -> Array:
        """[..., num_sums]: add up sums of bins [..., F, C] by `SumIndexByBin.sum_index_of_bin`."""
        leading_axes = sums.shape[:-2]
        sums_by_resolution = jnp.broadcast_to(
            sums[..., None, :, :], (*leading_axes, *sum_index_of_bin.shape)
        )
        return (
            jnp.zeros((*leading_axes, self.num_sums), sums.dtype)
            .at[..., sum_index_of_bin]
            .add(sums_by_resolution, mode="drop")
        )
