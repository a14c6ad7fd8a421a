"""Oblivious trees over public splits: one draw a tree, of signed sums of clipped weights.

All nodes of a level ask the same split, so a tree of depth D partitions the rows by D bits. The
splits are public: they follow from the domain, from a seed, and from what a prologue released.
The only statistic of a round is, for each leaf, the sum of y w over its rows. With several classes,
and for a number, it is the sum of the clipped residuals.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common import types
from dpbt.common.arithmetic import rounded
from dpbt.common.types import BINARY, GRID, MAX_BINS, NUMBER, AnyArray, Array, Public, Release
from dpbt.learners import oblivious_once as once
from dpbt.learners import oblivious_splits
from dpbt.learners.hypotheses import ObliviousTree
from dpbt.learners.oblivious_once import SCORES_SITE, TARGET_SITE, deviation
from dpbt.learners.oblivious_splits import Config, Rows, hypothesis_class, leaves_in
from dpbt.privacy import boundary
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism import Sensitivity
from dpbt.privacy.sensitivity import moved_rows


class Params(NamedTuple):
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


def sum_sensitivity(config: Config) -> float:
    """How far one row moves the leaf sums of a tree, in grid units, in the mechanism's norm.

    Proof. Given the released scores and the public splits, a row is in one leaf and adds y w
    there, with |w| at most GRID. Under add/remove one sum moves by at most GRID: L1 = L2 = GRID.
    Under replace-one the removed row moves one sum by GRID and the row that comes in moves one by
    GRID. Both may move the same sum the same way, if their labels differ: L1 = L2 = 2 GRID. All
    other rows keep their weights, as each depends on the row itself and on released trees.

    A number is the same, with a residual in -GRID..GRID in place of y w. With several classes a row
    adds its K residuals to the K sums of its leaf. `_residuals` keeps their norm at most GRID: the
    L1 norm for noise that is priced by L1, else the L2 norm. So the same bounds hold for all K sums
    together.
    """
    moved = GRID * moved_rows(config.relation)
    return config.noise.bound(Sensitivity(moved, moved))


def _masses(config: Config, params: Params, public: Public) -> tuple[Array, Array]:
    """f32[F, C], the estimated share of rows in each bin, and f32[], how many rows there are.

    Uniform over the bins of a feature without histograms.
    """
    known = once.known_bins(config)
    uniform = jnp.asarray(known / known.sum(axis=1, keepdims=True), jnp.float32)
    if not config.marginals:
        rows = jnp.asarray(public.rows, jnp.float32)
        if public.seen is not None:
            rows = public.seen
        elif config.response == NUMBER:
            rows = once.fitted_target(config, public.prologue, params)[2]
        return uniform, rows

    # What stands above the noise, and a tenth of uniform.
    histogram = public.prologue["histogram"]
    moved = once.histogram_sensitivity(config) * math.sqrt(config.columns)
    noise = deviation(config, moved, params, "histogram")
    rows = jnp.sum(histogram, axis=2).astype(jnp.float32)
    above = jnp.where(jnp.asarray(known), jnp.maximum(rows - noise, 0), 0)
    total = jnp.sum(above, axis=1, keepdims=True)
    measured = jnp.where(total > 0, above / jnp.where(total > 0, total, 1), uniform)
    mass = rounded(0.9 * measured) + rounded(0.1 * uniform)
    if public.seen is None or config.response == NUMBER:
        return mass, jnp.sum(once.class_totals(config, histogram))
    return mass, public.seen


def structure(config: Config, params: Params, public: Public) -> tuple[ObliviousTree, Array]:
    """The round's tree, with leaves of 0, and f32[2^D]: the estimated rows of each leaf."""
    mass, rows = _masses(config, params, public)
    mass = jnp.pad(mass, ((0, 0), (0, MAX_BINS - config.widest)))
    seed = jnp.asarray(params.seed).astype(jnp.uint32)
    static = config.attributes, config.depth, config.attributes_per_tree
    asked = oblivious_splits.draw(*static, seed, jnp.asarray(public.round), mass)
    leaves = jnp.zeros((*config.response.axes, 2**config.depth), jnp.float32)
    return ObliviousTree(asked.feature, asked.right, leaves), rounded(rows * asked.share)


def _known(config: Config, params: Params, public: Public) -> tuple[ObliviousTree, Array]:
    """The round's `structure`, as the loop gives it, or worked out here outside of rounds."""
    if public.structure is not None:
        return public.structure
    return structure(config, params, public)


@functools.cache
def _leaf_sums(leaves: int) -> Callable[[Array, Array], Array]:
    """(i32[N] values, i32[N] leaves) -> i32[leaves]: the sum of the values in each leaf.

    Under vmap the leaves of all lanes are numbered through, so that it stays one sum over a flat
    array. XLA's own batched sum takes twice the time.
    """

    @jax.custom_batching.custom_vmap
    def sums(values: Array, leaf: Array) -> Array:
        return jnp.zeros(leaves, jnp.int32).at[leaf].add(values, mode="promise_in_bounds")

    @sums.def_vmap
    def of_lanes(
        lanes: int, in_batched: Sequence[bool], values: Array, leaf: Array
    ) -> tuple[Array, bool]:
        values, leaf = (
            array if batched else jnp.broadcast_to(array, (lanes, *array.shape))
            for array, batched in zip((values, leaf), in_batched, strict=True)
        )
        first = leaves * jnp.arange(lanes, dtype=jnp.int32)
        flat = _leaf_sums(lanes * leaves)(values.reshape(-1), (leaf + first[:, None]).reshape(-1))
        return flat.reshape(lanes, leaves), True

    return sums


def program(
    config: Config, draw: Draw, rows: Rows, weights: Array, params: Params, public: Public
) -> None:
    """One draw: for each leaf the sums of residuals over its rows, in grid units, exact integers.

    The residual of two classes is y w.
    """
    tree, _ = _known(config, params, public)
    leaf = leaves_in(config.attributes, tree, rows).astype(jnp.int32)
    residuals, sums = _residuals(config, rows, weights), _leaf_sums(2**config.depth)
    if config.response.axes:  # one class at a time: as one flat sum, XLA makes residuals many times
        total = jax.lax.map(lambda residual: sums(residual, leaf), residuals)
    else:
        total = sums(residuals, leaf)
    what = "signed weights" if config.response == BINARY else "residuals"
    draw(
        "sums",
        config.noise,
        boundary.Total(total),
        sensitivity=sum_sensitivity(config),
        moves=moved_rows(config.relation) * _sums_of_a_row(config),
        theorem="docs/privacy.md O2",
        releases=f"{what}, all leaves",
    )


def _residuals(config: Config, rows: Rows, weights: Array) -> Array:
    """i32[N], or i32[K, N] with several classes: what each row adds to the sums of its leaf.

    The norm of a row's residuals is at most GRID, whatever the weights are. A row beyond it, which
    no weight update of the library gives, adds nothing.
    """
    whole = jnp.clip(weights, -GRID, GRID).astype(jnp.int32)
    if config.response == BINARY:
        return jnp.where(rows.target, whole, -whole)
    if config.response == NUMBER:
        return whole
    if config.noise.price.norm == "l1":
        within = jnp.sum(jnp.abs(whole), axis=0) <= GRID
    else:
        within = jnp.sum(whole**2, axis=0) <= GRID**2
    return jnp.where(within[None], whole, 0)


@functools.cache
def _neighbour_weights(depth: int, smoothing: float) -> np.ndarray:
    """f32[2^D, 2^D]: the weight of one leaf in another, by the number of bits they differ in."""
    leaves = np.arange(2**depth)
    bits = np.bitwise_count(leaves[:, None] ^ leaves[None, :])
    return (float(smoothing) ** bits).astype(np.float32)


def leaf_values(config: Config, sums: Array, rows: Array, params: Params, public: Public) -> Array:
    """f32[2^D], or f32[K, 2^D] with several classes: what each leaf adds to the score.

    Let G be the released sum in rows, sigma the standard deviation of its noise, and m the public
    estimate of the leaf's rows. A leaf is clip(s G / max(sigma + m h / 3, 1), -v, v). G, sigma and
    m add up other leaves too, with the weights of `Config.smoothing`.

    - Two classes: the step is turned from nats into bits.
    - Several classes: residuals add up to 0 over classes, so what noise adds to all classes alike
      is taken off, and sigma becomes sqrt((K - 1) / K) of what it was. The step of each class is
      (K - 1) / K of that above, as for two classes scores of +H / 2 and -H / 2 differ by H.
    - A number: the step is in units of residuals (`Public.unit`).

    Args:
        config: the static parts.
        sums: i32[2^D] or i32[K, 2^D], released, in grid units.
        rows: f32[2^D], m.
        params: s, v and h are its step, limit and curvature.
        public: of the round.
    """
    unit = jnp.asarray(public.cap, jnp.float32) / GRID
    near = jnp.asarray(_neighbour_weights(config.depth, config.smoothing))
    spread = jnp.sqrt(jnp.sum(near**2, axis=1))

    signal = (near @ (sums.astype(jnp.float32) * unit).T).T
    of_sum = deviation(config, sum_sensitivity(config), params, "sums")
    noise = rounded(rounded(of_sum * unit) * spread)
    share, response = 1.0, config.response
    if response.axes:
        share = (response.classes - 1) / response.classes
        signal = signal - rounded(jnp.mean(signal, axis=0, keepdims=True))
        noise = rounded(noise * np.float32(math.sqrt(share)))

    expected = rounded((near @ rows) * params.curvature / 3)
    denominator = jnp.broadcast_to(jnp.maximum(noise + expected, 1.0), signal.shape)
    step = params.step
    if isinstance(step, tuple):
        step = jnp.stack([jnp.asarray(each) for each in step])[public.round]
    found = jnp.clip(step * signal / denominator, -params.limit, params.limit)
    if response == NUMBER:
        return rounded((found * public.unit).astype(jnp.float32))
    return rounded((found / math.log(2.0) * np.float32(share)).astype(jnp.float32))


def monotone(leaf: Array, direction: Array) -> Array:
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
        highest = _running(highest.reshape(shape), direction[level], jnp.maximum).reshape(-1)
        lowest = _running(lowest.reshape(shape), -direction[level], jnp.minimum).reshape(-1)
    return (highest + lowest) / 2


def _running(sides: Array, direction: Array, best: "np.ufunc | object") -> Array:
    """f32[A, 2, B]: the best of a side and of the one before it in the direction."""
    left, right = sides[:, 0], sides[:, 1]
    both = best(left, right)  # type: ignore[operator]
    new_left = jnp.where(direction < 0, both, left)
    new_right = jnp.where(direction > 0, both, right)
    return jnp.stack([new_left, new_right], axis=1)


def hypothesis(config: Config, release: Release, params: Params, public: Public) -> ObliviousTree:
    """The tree: each leaf moves as far as its sum stands above the noise."""
    tree, rows = _known(config, params, public)
    leaf = leaf_values(config, release["sums"], rows, params, public)
    if any(config.monotone):
        leaf = monotone(leaf, jnp.asarray(config.monotone, jnp.int32)[tree.feature])
    return tree._replace(leaf=leaf)


def _sums_of_a_row(config: Config) -> int:
    """How many sums a row may add to: one for each residual that is not 0."""
    if not config.response.axes:
        return 1
    most = GRID if config.noise.price.norm == "l1" else GRID**2
    return min(config.response.classes, most)


def default_fractions(config: Config) -> dict[str, float]:
    """A tenth of the budget for each of what is drawn once, and the rest for the trees."""
    is_drawn = config.marginals, config.response == NUMBER, config.scores
    sites = zip(("histogram", TARGET_SITE, SCORES_SITE), is_drawn, strict=True)
    drawn = [site for site, drawn in sites if drawn]
    return {"sums": 1 - 0.1 * len(drawn), **dict.fromkeys(drawn, 0.1)}


@functools.cache
def oblivious_tree(config: Config) -> types.WeakLearner:
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
    of_round = functools.partial(structure, config)
    opening = config.marginals or config.response == NUMBER
    return boundary.weak_learner(
        functools.partial(program, config),
        functools.partial(hypothesis, config),
        default_fractions(config),
        hypothesis_class(config.attributes, of_round, config.response),
        config.relation,
        prologue=once.prologue(config) if opening else None,
        epilogue=once.epilogue(config) if config.scores else None,
        params=lambda noise, public: Params(dict(noise)),
        tag=f"oblivious_tree({config.tag})",
    )
