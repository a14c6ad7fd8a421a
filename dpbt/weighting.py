"""Weight updates: maps from the released score of a row to its weight in the next round."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float32, Int32

from dpbt import types
from dpbt.common.arithmetic import (
    multiply_by_reciprocal,
    portable_exp,
    round_separately,
    softmax_in_bits,
    sum_in_order,
)
from dpbt.common.devices import vary_like
from dpbt.losses import check_links_of_family, loss_family_of_loss_or_name, unique_family_name
from dpbt.types import GRID, AnyArray, Array, PreparedRows, WeightsAndCap, WeightUpdate
from dpbt.types import uniform as uniform
from dpbt.types.weight_update import mark_as_library_weight_update


class MirrorNumbers(NamedTuple):
    """The traced numbers of `mirror`; each may have leading axes of settings.

    Attributes:
        link_alpha: f32[], alpha of the family of losses.
        clip: f32[], c in (0, 1] of `clipped_mirror`: no weight is larger. None for `mirror`.
    """

    link_alpha: AnyArray
    clip: AnyArray | None = None


class ResidualNumbers(NamedTuple):
    """The traced numbers of `residuals`; each may have leading axes of settings.

    Attributes:
        clip: f32[], c: no row's residuals have a larger norm.
    """

    clip: AnyArray


class LazyNumbers(NamedTuple):
    """The traced numbers of `lazy_bregman`; each may have leading axes of settings.

    Attributes:
        density: f32[], kappa in (0, 1).
        learning_rate: f32[], lambda on margins.
    """

    density: AnyArray
    learning_rate: AnyArray


def on_grid(weight: Array, cap: Array) -> WeightsAndCap:
    """Round weights in [0, cap] to grid integers 1..GRID.

    No weight becomes 0, so no row is lost. The map is fixed and of each row's own weight, so every
    bound for weights in [0, cap] holds for its results.
    """
    quantized = jnp.clip(jnp.round(multiply_by_reciprocal(weight, cap) * GRID), 1, GRID)
    return WeightsAndCap(quantized, jnp.asarray(cap, jnp.float32))


def mirror(loss: types.ProperLoss | types.LossFamily | str, bounded: bool = True) -> WeightUpdate:
    """The mirror update of weights, W = inverse_link(-y H).

    It is equation (13) of Nock & Henecka (2020). H is the row's score so far, and the first weights
    are inverse_link(0) = 1/2. The paper's step form applies the link to the weight and adds -y beta
    h. Where the link is one-to-one, both forms are the same. On the flat part of M-alpha's inverse
    link (alpha < 1) the step form forgets scores. Their proof uses the cumulative form, which is
    the form here (equations 128-129).

    Args:
        loss: a loss, a family of them whose alpha is that of `MirrorNumbers`, or a name in
            `losses.NAMED`.
        bounded: measure weights in units of a public bound on the weight of any row, instead of in
            units of 1. The bound is inverse_link(sum over trees of the largest |leaf value|).
            Perspectives, class weights and errors are homogeneous in the weights, so their
            sensitivities shrink by the same factor: by 1/2 in the first round.

    Raises:
        ValueError: as `losses.loss_family_of_loss_or_name` and `losses.check_links_of_family`.
    """
    weight_bound = "bounded" if bounded else "at most 1"
    return _mirror_update_of_family(
        loss_family_of_loss_or_name(loss), f"mirror({{}}, {weight_bound})", bounded
    )


def clipped_mirror(loss: types.ProperLoss | types.LossFamily | str) -> WeightUpdate:
    """The mirror update with weights clipped at c: W = min(inverse_link(-y H), c).

    Weights are measured in units of the smaller of c and the public bound of `mirror`, so a
    sensitivity is at most c. Clipping at c < 1/2 divides the noise by 1 / c. A clipped row still
    counts, with weight c.

    Raises:
        ValueError: as `mirror`.
    """
    return _mirror_update_of_family(
        loss_family_of_loss_or_name(loss), "clipped_mirror({})", bounded=True
    )


@functools.cache
def _mirror_update_of_family(
    family: types.LossFamily, identity_format: str, bounded: bool
) -> WeightUpdate:
    """The mirror update of weights for a loss family; `bounded` is as `mirror` takes it."""
    check_links_of_family(family)

    def weigh(
        score: Array, bound: Array, table: PreparedRows, public: types.Public
    ) -> WeightsAndCap:
        inverse_link = family(public.weight_params.link_alpha).inverse_link
        weight = inverse_link(jnp.where(table.target, -score, score))
        cap = inverse_link(bound) if bounded else jnp.float32(1)
        if public.weight_params.clip is not None:
            cap = jnp.minimum(cap, public.weight_params.clip)
            weight = jnp.minimum(weight, cap)
        return on_grid(weight, cap)

    return mark_as_library_weight_update(
        WeightUpdate(
            identity=identity_format.format(unique_family_name(family)),
            coupled=False,
            weigh=weigh,
            params_type=MirrorNumbers,
            loss=family,
        )
    )


@functools.cache
def residuals(response: types.Response, norm: str) -> WeightUpdate:
    """The update whose weights are clipped residuals of several classes or of a number.

    Each depends on its row alone.

    - Several classes: (y = k) - p_k for each class k, with p the softmax of the row's K scores. All
      K are shrunk by one factor so that their norm is at most c. They are rounded towards 0 on the
      grid, so that the norm stays at most c.
    - A number: (y - H) / unit, clipped to [-c, c], with the unit of `Public.unit`.
    - A count: (y - exp(H)) / unit with H at most 0, clipped alike.
    - A quantile at level q: q - 1[y < H], which counts as c where it is largest. The smaller of q
      and 1 - q is rounded to the grid of the larger one, which moves a level by 0.003 at most.

    These are the negative gradients of the log loss, of half the squared error, of the Poisson
    deviance and of the pinball loss. Clipped, the second is that of the Huber loss. Reads
    `ResidualNumbers`.

    Args:
        response: the kind of answer that the learner predicts; not two classes.
        norm: "l1" or "l2", of the residuals of a row over classes.
    """

    def weigh(
        score: Array, bound: Array, table: PreparedRows, public: types.Public
    ) -> WeightsAndCap:
        cap = jnp.asarray(public.weight_params.clip, jnp.float32)
        if response.objective == "quantile":
            above, below = response.quantile_residual_on_grid
            grid_units = jnp.where(table.target < score, float(-below), float(above))
            return WeightsAndCap(jnp.where(jnp.isnan(table.target), jnp.nan, grid_units), cap)
        if not response.score_axes:
            if response.objective == "poisson":
                score = round_separately(portable_exp(jnp.minimum(score, 0)))
            unit = jnp.asarray(public.unit, jnp.float32)
            residual = jnp.clip(multiply_by_reciprocal(table.target - score, unit), -cap, cap)
            return WeightsAndCap(jnp.round(multiply_by_reciprocal(residual, cap) * GRID), cap)
        classes = jnp.arange(response.num_classes, dtype=jnp.uint8)[:, None]
        residual = (table.target[None, :] == classes).astype(jnp.float32) - softmax_in_bits(score)
        if norm == "l1":
            length = sum_in_order(jnp.abs(residual))
        else:
            length = jnp.sqrt(sum_in_order(round_separately(residual**2)))
        factor = jnp.minimum(1 / jnp.maximum(length, 1e-30), 1 / cap)
        return WeightsAndCap(jnp.trunc(round_separately(residual * factor[None]) * GRID), cap)

    return mark_as_library_weight_update(
        WeightUpdate(
            identity=f"residuals({response.description}, {norm})",
            coupled=False,
            weigh=weigh,
            params_type=ResidualNumbers,
            response=response,
        )
    )


_SCORE_LIMIT = 80.0
"""Up to this score, exp(+-score) and its products with the cap are normal float32 numbers."""

_MANTISSA = 12
"""Bits of the common factor: in relative steps of 2^-12, each moves a weight by at most 1."""


def scale_and_cap_weights_to_total(
    weight: Float32[Array, "N"], total: Int32[Array, ""]
) -> Int32[Array, "N"]:
    """i32[N]: scale weights by one factor and cap them at GRID, so that their sum is `total`.

    They are the integers min(GRID, round(c weight)) with the factor c that has this sum.

    This is the Bregman projection of a measure onto those of a density (Bun et al. (2020), Lemma 9,
    for any c > 0), on a grid. The factor c is found by bisection on a fixed, data-independent scale
    of 2^-12 relative steps. The rest of the total goes, one unit each, to rows whose weight changes
    on that step, in order. So the total is exact, and the pair (step, how many rows took it) orders
    all outcomes. Hence between two data sets that differ in one row, every other row's weight moves
    the same way. `sensitivity` assumes nothing else.

    How close the weights are: c differs from the c of the exact projection by what rounding changes
    in the total. So a weight is within 1 + GRID |c / c_exact - 1| of exact. On data that is 1 to 2
    units (`tests/test_weighting.py`). It can be more if most rows weigh less than half a unit.

    Args:
        weight: f32[N], at least 0, finite; 0 for absent rows.
        total: i32[], at least 0. If it exceeds GRID times the number of positive weights, they all
            get GRID.

    Returns:
        i32[N] in 0..GRID.
    """

    def quantized(code: Array) -> Array:
        factor = jax.lax.bitcast_convert_type(code << (23 - _MANTISSA), jnp.float32)
        return jnp.minimum(factor * weight + 0.5, GRID).astype(jnp.int32)

    def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = (low + high) // 2
        fits = jnp.sum(quantized(middle)) <= total
        return jnp.where(fits, middle, low), jnp.where(fits, high, middle)

    # The largest code whose weights fit the total, and the next one.
    ends = jnp.int32(1 << _MANTISSA), jnp.int32(254 << _MANTISSA)  # all normal powers of two
    ends = vary_like(ends, (weight, total))
    low, high = jax.lax.fori_loop(0, 8 + _MANTISSA, halve, ends)

    # The rest of the total goes to the first rows that change on the step between them.
    base = quantized(low)
    step = quantized(high) - base
    remainder = total - jnp.sum(base)
    return base + jnp.clip(remainder - (jnp.cumsum(step) - step), 0, step)


@functools.cache
def lazy_bregman(bounded: bool = True) -> WeightUpdate:
    """The multiplicative update exp(-learning_rate y H), scaled and capped to a fixed density.

    Weights are scaled and capped to the density kappa (`scale_and_cap_weights_to_total`). The
    update reads `LazyNumbers` and the public number of rows.

    Guarantee, under add/remove and under replace-one, for any table of at most `rows` rows whose
    other rows keep their order:

    - Between neighbours the weights differ as `sensitivity` says.
    - The total is kappa rows, exactly on the grid. If a table is too small for that, every row has
      the cap.
    - No weight exceeds `cap`.

    Every weight depends on all rows. So it must not be used with learners whose sensitivities
    assume that each weight depends on its own row alone (`greedy_tree`).

    This is LazyBB's measure (Asadi et al. (2022), Algorithm 1), with H the sum of hypotheses and
    kappa n the total. The unprojected measure exceeds 1 for rows with negative margins, and its
    density can exceed kappa. There the paper's projection (c >= 1) would leave it alone and lose
    slickness. Here the density is always kappa, as its Theorem 3.1 needs.

    Bun et al.'s (2020) Algorithm 4 is the same with half the learning rate. Its losses are
    1 - |h - y| / 2 = (1 + y h) / 2 for h in [-1, 1], and exp(-lambda sum (1 + y h) / 2) =
    exp(-(lambda / 2) y H) times a constant, which the projection removes. As a fixed map of the
    row's own score, |learning_rate y H| is clamped to 80.

    Args:
        bounded: also cap weights at the public u = min(1, kappa exp(2 lambda bound)), where |H| <=
            bound for every possible row. This changes weights only for tables of fewer than `rows`
            rows. With all `rows` rows present, the largest projected weight is at most
            exp(2 lambda bound) times any other, unless that is the cap too. Their mean is kappa, so
            none exceeds u. Sensitivities shrink by u, to kappa in the first round.
    """

    def weigh(
        score: Array, bound: Array, table: PreparedRows, public: types.Public
    ) -> WeightsAndCap:
        density, rate = public.weight_params
        signed = rate * jnp.where(table.target, score, -score)
        weight = portable_exp(-jnp.clip(signed, -_SCORE_LIMIT, _SCORE_LIMIT))

        growth = portable_exp(jnp.minimum(2 * rate * bound, _SCORE_LIMIT))
        cap = jnp.asarray(jnp.minimum(1, density * growth) if bounded else 1.0, jnp.float32)
        total = jnp.round(public.max_rows * (density / cap) * GRID).astype(jnp.int32)
        quantized = scale_and_cap_weights_to_total(jnp.where(table.present, weight, 0), total)
        return WeightsAndCap(quantized.astype(jnp.float32), cap)

    weight_cap = "bounded" if bounded else "at most 1"
    return mark_as_library_weight_update(
        WeightUpdate(
            identity=f"lazy_bregman({weight_cap})",
            coupled=True,
            weigh=weigh,
            params_type=LazyNumbers,
        )
    )
