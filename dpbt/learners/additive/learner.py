"""Additive models: a round releases the signed weights of all bins of all columns as one vector.

Each column is cut into groups of its bins at several resolutions, from halves to sixteenths of the
rows, so that a curve is smooth where it is noisy and bends where the rows say so. A row is in one
group of each column and each resolution. So a round has one draw, of one vector, and its noise is
that of one tree times the root of the number of these partitions.

A declared pair of columns is one more column. Its bins are the cells of a grid, which joins the
bins of both columns to groups, and they are joined at the coarser resolutions as bins are.

The hypothesis adds a score to each bin. Momentum and a decaying step make the rounds one descent,
which is post-processing. What is drawn once, before and after the rounds, is that of
`oblivious_tree`.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64, UInt8

from dpbt import types
from dpbt.common.arithmetic import LN2, fold, round_separately, sum_in_order
from dpbt.learners.additive.model import SHAPES, ShapeFunctions, pair_cells
from dpbt.learners.oblivious import learner as oblivious
from dpbt.learners.oblivious import splits
from dpbt.learners.oblivious.config import ObliviousConfig, noise_deviation
from dpbt.learners.oblivious.kind import oblivious_kind
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.learners.oblivious.one_time import one_time_phases
from dpbt.learners.oblivious.prologue import estimate_rows_by_bin
from dpbt.learners.oblivious.residuals import (
    describe_residual_sums,
    max_moved_sums,
    partition_sum_sensitivity,
    row_residuals,
    sum_residuals_by_place,
)
from dpbt.learners.oblivious.rows import ObliviousRows
from dpbt.learners.oblivious.target import score_unit
from dpbt.privacy import boundary
from dpbt.privacy.boundary import Draw, Total
from dpbt.privacy.mechanism import Sensitivity
from dpbt.types import GRID, AnyArray, Array, Public, Release

MAX_PAIR_GROUPS = 8
"""The most groups that the bins of a column in order are joined to in a pair."""


class AdditiveParams(NamedTuple):
    """The traced numbers of an additive model; each may have leading axes of settings.

    Attributes:
        noise: site -> f32[], the noise multiplier of "bins", and of the one-time draws.
        step: f32[], how far a round moves a bin whose sum is as large as its noise, in nats, or in
            spreads of a number. It falls to 0 over the second half of the rounds.
        limit: f32[], the largest learning rate, for the mean gradient of features of length 1.
        momentum: f32[], in [0, 1), of Nesterov's kind.
        rounds: f32[], T.
    """

    noise: dict[str, AnyArray]
    step: types.Numbers = 0.02
    limit: types.Numbers = 12.0
    momentum: types.Numbers = 0.9
    rounds: types.Numbers = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdditiveConfig:
    """What is static in an additive model.

    Attributes:
        base: the columns, the one-time draws, the relation, the noise, the response and the
            directions of monotone columns. Its choices about trees are not used.
        resolutions: the numbers of groups that the bins of a column in order are joined to. A
            column of fewer bins, or without an order, has a group for each bin.
        capacity: the most rounds.
        pairs: the numbers of the two columns of each pair, which has cells of its own.
    """

    base: ObliviousConfig
    resolutions: tuple[int, ...]
    capacity: int
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def identity(self) -> str:
        """Every static part as text, which enters keys."""
        return f"{self.resolutions}, {self.capacity}, {self.pairs}, {self.base.identity}"

    @property
    def partitions(self) -> int:
        """Q (F + P): how many groups a row is in."""
        return len(self.resolutions) * (len(self.base.attributes) + len(self.pairs))

    def sizes(self, counts: Sequence[int]) -> Int64[np.ndarray, "Q F"]:
        """i64[Q, F]: how many groups each column has where bins are joined to so many."""
        bins = np.array([each.n_bins for each in self.base.attributes])
        ordered = np.array([each.ordered for each in self.base.attributes])
        return np.where(ordered, np.minimum(bins, np.array(counts)[:, None]), bins)

    @property
    def columns(self) -> Int32[np.ndarray, "P 2"]:
        """i32[P, 2]: the columns of each pair."""
        return np.array(self.pairs, np.int32).reshape(-1, 2)

    @property
    def grid(self) -> Int64[np.ndarray, "P 2"]:
        """i64[P, 2]: how many groups of each column make the cells of a pair."""
        return self.sizes((min(max(self.resolutions), MAX_PAIR_GROUPS),))[0][self.columns]

    @property
    def known(self) -> Bool[np.ndarray, "_ C"]:
        """bool[F + P, C]: the bins of each column and the cells of each pair."""
        bins = [each.n_bins for each in self.base.attributes] + self.grid.prod(axis=1).tolist()
        return np.arange(max(bins)) < np.array(bins)[:, None]


def bin_sum_sensitivity(config: AdditiveConfig) -> float:
    """How far one row moves the sums of all groups, in grid units, in the mechanism's norm.

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
    one, count = partition_sum_sensitivity(config.base), config.partitions
    return config.base.noise.sensitivity_in_norm(
        Sensitivity(one.l1 * count, one.l2 * math.sqrt(count))
    )


def _groups_of_bins(
    config: AdditiveConfig, params: AdditiveParams, public: Public, counts: Sequence[int]
) -> Int32[Array, "Q F C"]:
    """i32[Q, F, C]: the group of each bin, where bins in order are joined to so many groups.

    They are joined at the quantiles of the mass that thresholds follow, so a group is a run of
    bins.
    """
    base = config.base
    mass = splits.cut_point_shares(base, estimate_rows_by_bin(base, params, public).shares)
    middle = jnp.cumsum(mass, axis=1) - round_separately(mass / 2)
    count = jnp.asarray(counts, jnp.int32)[:, None, None]
    quantile = jnp.floor(middle[None] * count.astype(jnp.float32)).astype(jnp.int32)
    bin = jnp.arange(base.known.shape[1], dtype=jnp.int32)[None, None]
    is_joined = (config.sizes(counts) < base.known.sum(axis=1))[..., None]
    return jnp.where(is_joined, jnp.clip(quantile, 0, count - 1), bin)


def pair_cell_parts(
    config: AdditiveConfig, params: AdditiveParams, public: Public
) -> UInt8[Array, "P 2 MAX_BINS"]:
    """u8[P, 2, MAX_BINS]: what the bins of both columns of a pair add to the number of a cell.

    A bin that a column does not have counts as its last one.
    """
    columns, max_groups = config.columns, min(max(config.resolutions), MAX_PAIR_GROUPS)
    last = np.array([[each.n_bins - 1] for each in config.base.attributes])
    bin = np.minimum(np.arange(types.MAX_BINS), last)[columns]
    group = _groups_of_bins(config, params, public, (max_groups,))[0][columns]
    stride = np.stack([config.grid[:, 1], np.ones(len(columns))], axis=1).astype(np.int32)
    return (jnp.take_along_axis(group, bin, axis=2) * stride[..., None]).astype(jnp.uint8)


def places_of_groups(
    config: AdditiveConfig, params: AdditiveParams, public: Public
) -> tuple[Array, int]:
    """(i32[Q, F + P, C], how many sums there are): the place of each bin's group among all sums.

    It is beyond them for no bin. The cells of a pair are joined evenly at coarser resolutions.
    """
    width, grid = config.known.shape[1], config.grid
    groups_of_columns = _groups_of_bins(config, params, public, config.resolutions)
    missing_bins = width - groups_of_columns.shape[2]
    groups_of_columns = jnp.pad(groups_of_columns, ((0, 0), (0, 0), (0, missing_bins)))

    # The groups of both columns that a cell is in, and the place of these two.
    sizes, cell = config.sizes(config.resolutions), np.arange(width)
    coarse = config.sizes([min(n, MAX_PAIR_GROUPS) for n in config.resolutions])[:, config.columns]
    both = np.stack([cell // grid[:, 1:], cell % grid[:, 1:]], axis=1)
    both = both * coarse[..., None] // grid[..., None]
    groups_of_pairs = both[:, :, 0] * coarse[..., 1:] + both[:, :, 1]

    sizes = np.concatenate([sizes, coarse.prod(axis=2)], axis=1)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).reshape(*sizes.shape, 1)
    groups = jnp.concatenate([groups_of_columns, jnp.asarray(groups_of_pairs, jnp.int32)], axis=1)
    total = int(sizes.sum())
    return jnp.where(config.known, groups + jnp.asarray(first, jnp.int32), total), total


@functools.cache
def _sum_by_group(size: int) -> Any:
    """(sums of bins [..., F, C], groups i32[Q, F, C]) -> [..., size]: the sums of the groups."""

    def sum_by_group(sums: Array, group: Array) -> Array:
        leading_axes = sums.shape[:-2]
        sums_by_resolution = jnp.broadcast_to(sums[..., None, :, :], (*leading_axes, *group.shape))
        return (
            jnp.zeros((*leading_axes, size), sums.dtype)
            .at[..., group]
            .add(sums_by_resolution, mode="drop")
        )

    return sum_by_group


def draw_bin_sums(
    config: AdditiveConfig,
    draw: Draw,
    rows: ObliviousRows,
    weights: Array,
    params: AdditiveParams,
    public: Public,
) -> None:
    """One draw: for each group the sum of residuals over its rows, in grid units, exact integers.

    The residual of two classes is y w.
    """
    base, last = config.base, config.known.shape[1]
    place, total = places_of_groups(config, params, public)
    cell = pair_cells(config.columns, pair_cell_parts(config, params, public), rows.bins)
    bins = jnp.minimum(jnp.concatenate([rows.bins, cell]).astype(jnp.int32), last)
    residuals = row_residuals(base, rows, weights)
    sums_by_column = jax.lax.map(lambda bin: sum_residuals_by_place(residuals, bin, last + 1), bins)
    bin_sums = jnp.moveaxis(sums_by_column, 0, -2)[..., :last]
    draw(
        "bins",
        base.noise,
        Total(bin_sums, _sum_by_group(total), public=(place,)),
        sensitivity=bin_sum_sensitivity(config),
        theorem="dpbt theorem O4",
        moves=max_moved_sums(base, config.partitions),
        releases=describe_residual_sums(base, "all bins of all columns"),
    )


def shape_step_of_round(
    config: AdditiveConfig, release: Release, params: AdditiveParams, public: Public
) -> ShapeFunctions:
    """What a round's sums say of each bin, before momentum.

    Let S be the sum over resolutions of the released sums of a bin's groups, in rows, divided by
    the root of Q, so that its noise has the deviation sigma of one sum. A bin moves by
    step S / max(sigma, step m sqrt(Q) F / limit), with m the public bound on the rows: where noise
    dominates as far as its sum stands above the noise, and else by a gradient step of the log loss
    with the learning rate `limit`. `oblivious.learner.tree_of_release` says in which unit that is
    for several classes and for a number.
    """
    base, response, count = config.base, config.base.response, len(config.resolutions)
    unit = jnp.asarray(public.cap, jnp.float32) / GRID
    none = ((0, 0),) * (len(response.axes) + 1)
    padded = jnp.pad(release["bins"].astype(jnp.float32), (*none[1:], (0, 1)))
    sums = round_separately(padded * unit)[..., places_of_groups(config, params, public)[0]]
    signal = round_separately(jnp.sum(sums, axis=-3) / np.float32(math.sqrt(count)))
    noise = round_separately(
        noise_deviation(base, params, site="bins", site_sensitivity=bin_sum_sensitivity(config))
        * unit
    )

    # In bits, or in the unit of the number.
    scale, share = score_unit(response, public), 1.0
    if not response.is_number:
        scale = np.float32(1 / LN2)
    if response.axes:
        share = (response.classes - 1) / response.classes
        signal = signal - round_separately(jnp.mean(signal, axis=0, keepdims=True))
        scale, noise = (
            np.float32(share) * scale,
            round_separately(noise * np.float32(math.sqrt(share))),
        )
    features = math.sqrt(count) * len(config.known)
    smooth = round_separately(jnp.asarray(public.rows, jnp.float32) * features)
    rate = round_separately(
        params.step / jnp.maximum(noise, round_separately(params.step * smooth) / params.limit)
    )
    rate = round_separately(rate * scale)
    number = jnp.arange(config.capacity, dtype=jnp.int32)
    return ShapeFunctions(
        round_separately(signal * rate),
        jnp.where(number == public.round, round_separately(noise * rate), 0.0),
        jnp.asarray(config.columns),
        pair_cell_parts(config, params, public),
    )


# How rounds add up; all of it is post-processing.


def noise_growth(rounds: int, momentum: float) -> float:
    """By what the noise of one round is multiplied in the sum of all of them.

    The root of the sum of squares, over rounds, of what is added in the end for each unit of the
    round's sums: noise of the rounds is independent.
    """
    taper = np.clip(2 - 2 * np.arange(rounds) / rounds, 0, 1)
    total = np.zeros(rounds)
    for age in range(rounds):
        power = momentum ** (age + 1) + (age == 0)
        total[: rounds - age] += power * taper[age:]
    return math.sqrt(np.sum(total**2))


class NesterovDescent(NamedTuple):
    """Nesterov's momentum, a step that falls to 0 over the second half, and monotone curves.

    It has the two functions of an `optax.GradientTransformation`, and without a direction it is
    optax.chain(optax.trace(momentum, nesterov=True), optax.scale_by_schedule(...)), with products
    that are rounded alike in memory and in blocks.
    """

    config: AdditiveConfig
    params: AdditiveParams

    def init(self, like: ShapeFunctions) -> tuple[Any, Array, Array]:
        """(velocity, curves, rounds so far)."""
        zeros = jax.tree.map(jnp.zeros_like, like[:2])
        return zeros, zeros[0], jnp.int32(0)

    def update(
        self, step: ShapeFunctions, state: Any, params: Any = None
    ) -> tuple[ShapeFunctions, Any]:
        """What the round adds, and the next state."""
        velocity, curves, number = state
        decay = jnp.asarray(self.params.momentum, jnp.float32)
        taper = jnp.clip(2 - 2 * (number.astype(jnp.float32) / self.params.rounds), 0, 1)

        def with_momentum(step: Array, velocity: Array) -> Array:
            return step + round_separately(decay * velocity)

        velocity = jax.tree.map(with_momentum, step[:2], velocity)
        change = jax.tree.map(
            lambda a, b: round_separately(taper * with_momentum(a, b)), step[:2], velocity
        )
        if any((base := self.config.base).monotone):
            bins_of_columns = slice(0, len(base.known)), slice(0, base.known.shape[1])
            next_curves = curves + change[0]
            monotone = monotone_curves(next_curves[bins_of_columns], base)
            change = next_curves.at[bins_of_columns].set(monotone) - curves, change[1]
        state = velocity, curves + change[0], number + 1
        return step._replace(score=change[0], noise=change[1]), state


def monotone_curves(score: Array, base: ObliviousConfig) -> Float32[Array, "F C"]:
    """f32[F, C]: the nearest curves, in squared error, that are monotone where they must be.

    The bins of a column in order are one chain, and the value at a bin of the nearest increasing
    curve is the largest over its beginnings of the smallest mean over its ends.
    """
    direction = jnp.asarray(base.monotone, jnp.float32)[:, None]
    known = jnp.asarray(base.known)
    signed = jnp.where(known, jnp.where(direction < 0, -score, score), jnp.inf)
    total = jnp.cumsum(jnp.where(known, signed, 0), axis=1)
    before = jnp.pad(total[:, :-1], ((0, 0), (1, 0)))
    place = jnp.arange(base.known.shape[1], dtype=jnp.int32)
    length = (place[None, :] - place[:, None] + 1).astype(jnp.float32)  # of a beginning and an end
    mean = (total[:, None, :] - before[:, :, None]) / jnp.maximum(length, 1)[None]
    ends = (length > 0)[None] & known[:, None, :]
    smallest = jax.lax.cummin(jnp.where(ends, mean, jnp.inf), axis=2, reverse=True)
    largest = jax.lax.cummax(jnp.where((length > 0)[None], smallest, -jnp.inf), axis=1)
    nearest = jnp.diagonal(largest, axis1=1, axis2=2)
    return jnp.where((direction != 0) & known, jnp.where(direction < 0, -nearest, nearest), score)


def _scale_shapes(shapes: ShapeFunctions, slope: Array) -> ShapeFunctions:
    return shapes._replace(score=shapes.score * slope, noise=shapes.noise * jnp.abs(slope))


def _merge_rounds(shapes: ShapeFunctions, *_: object) -> ShapeFunctions:
    """One hypothesis in place of those of all rounds: the sum of their curves."""
    noise = jnp.sqrt(jnp.sum(round_separately(sum_in_order(shapes.noise) ** 2)))
    return ShapeFunctions(
        sum_in_order(shapes.score)[None], noise[None], shapes.pairs[:1], shapes.parts[:1]
    )


def _shapes_of_trees(
    base: ObliviousConfig, trees: ObliviousTree, params: Any, public: Public
) -> ShapeFunctions:
    """The curves that trees of one attribute add up to, where noise moves a leaf by a step.

    The last bin is one that a column does not have, as trees read it.
    """
    bits = 2 ** np.arange(base.depth, dtype=np.int32)[::-1]
    leaf = jnp.sum(jnp.where(trees.right, bits[None, :, None], 0), axis=1)  # of each bin
    axes = (1,) * len(base.response.axes)
    added_to = jnp.take_along_axis(trees.leaf, leaf.reshape(len(leaf), *axes, -1), axis=-1)

    def add_tree(curves: Array, tree: tuple[Array, Array]) -> Array:
        feature, values = tree
        return curves.at[..., feature, :].add(values)

    zeros = jnp.zeros((*base.response.axes, len(base.attributes), types.MAX_BINS), jnp.float32)
    curves = fold(add_tree, zeros, (trees.feature[:, 0], added_to))
    moves = jnp.sqrt(public.round.astype(jnp.float32) / len(base.attributes))
    unit, classes = score_unit(base.response, public), base.response.classes
    if not base.response.is_number:
        share = (classes - 1) / classes if base.response.axes else 1.0
        unit = np.float32(share / LN2)
    noise = round_separately(params.step * moves) * unit
    return ShapeFunctions(curves[None, ..., : base.known.shape[1] + 1], noise[None])


@functools.cache
def additive_by_column(base: ObliviousConfig) -> types.WeakLearner:
    """An additive model of which a round releases one column: `oblivious_tree` of one attribute.

    Guarantee: as `oblivious_tree`. Where noise is priced by the L1 norm, rounds of one column at a
    time cost as much as rounds of all, and are many more.

    Args:
        base: the static parts, of one attribute a tree.
    """
    trees = oblivious.oblivious_tree(base)
    training = dataclasses.replace(
        trees.training, scale=_scale_shapes, merge=functools.partial(_shapes_of_trees, base)
    )
    kind = dataclasses.replace(SHAPES, training=training)
    return dataclasses.replace(trees, name="curves of oblivious_tree", kind=kind)


@functools.cache
def additive(config: AdditiveConfig) -> types.WeakLearner:
    """An additive model over the bins of all columns, for boosting with clipped weights.

    Guarantee, under `relation`, with weights of each row's own (`weighting.clipped_mirror`, or
    `weighting.residuals` where the response is not one of two classes): a round costs what the
    mechanism costs at `bin_sum_sensitivity`, and the one-time draws cost what `oblivious_tree`
    says. With rounded Gaussian noise, T rounds are exactly sqrt(T) shift-GDP.

    Args:
        config: the static parts, checked and hashable (`recipes.additive`).
    """
    base = config.base
    trees = oblivious_kind(base).training
    assert trees is not None
    shapes = SHAPES.with_training(
        example_table=trees.example_table,
        check_table=trees.check_table,
        prepare=trees.prepare,
        prediction_input=lambda rows: rows.bins,
        bound=lambda shapes: jnp.max(jnp.sum(jnp.max(jnp.abs(shapes.score), axis=-1), axis=-1)),
        scale=_scale_shapes,
        merge=_merge_rounds,
    )
    once = one_time_phases(base, round_site="bins")
    return boundary.weak_learner(
        name="additive",
        config=config,
        program=functools.partial(draw_bin_sums, config),
        hypothesis=functools.partial(shape_step_of_round, config),
        kind=shapes,
        response=base.response,
        relation=base.relation,
        fractions=once.fractions,
        prologue=once.prologue,
        epilogue=once.epilogue,
        make_params=lambda noise, public: AdditiveParams(dict(noise)),
        optimizer=functools.partial(NesterovDescent, config),
    )
