"""Halfspaces: the noisy centre of the examples on the unit ball (Bun, Carmosino & Sorrell, 2020, section 5.2)."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpbt import accounting, boundary, mechanisms, slickness
from dpbt.base import GRID, MAX_ROWS, AnyArray, Array, HypothesisClass, Relation, Table, WeakLearner

PUBLISHED_L2 = 4
"""Bun et al. (2020), Theorem 27 at slickness 1 / (kappa n), where `slickness.center_l2` has 2."""

_INSIDE = 1 - 2.0**-20
"""Rows are projected to a ball this much smaller, so that float32 leaves none outside the unit ball."""

_LARGEST = 1e18


class Halfspace(NamedTuple):
    """h(x) = normal . x, on the unit ball.

    Attributes:
        normal: f32[d].
    """

    normal: Array


class Balls(NamedTuple):
    """A table laid out for halfspaces: rows f32[N, d] in the unit ball, label bool[N] and present bool[N]."""

    rows: Array
    label: Array
    present: Array


class CenterBudget(NamedTuple):
    """The traced numbers of boosted halfspaces; each may have leading axes of settings.

    Attributes:
        noise: f32[], sigma: the standard deviation of each coordinate's noise, when the weight cap is 1 (it is
            multiplied by the round's public cap in the tight calibration); 0 in the non-private mode.
        density: f32[], kappa: see `reweighting.lazy_bregman`.
        learning_rate: f32[], lambda on margins, half of that on Bun et al.'s losses.
        rows: f32[], m: the public bound on the number of rows (add/remove) or their number (replace-one).
    """

    noise: AnyArray
    density: AnyArray
    learning_rate: AnyArray
    rows: AnyArray


def to_ball(rows: Array) -> Array:
    """f32[N, d]: each row x as x / max(1, |x|), up to 1e-6.

    A fixed map of a row: nothing is rejected and nothing is learned from other rows. Entries that are no finite number
    count as 0, entries beyond +-1e18 as that: float32 reciprocals of larger ones are flushed to 0.
    """
    rows = jnp.clip(jnp.where(jnp.isfinite(rows), rows, 0), -_LARGEST, _LARGEST)
    largest = jnp.maximum(jnp.max(jnp.abs(rows), axis=1, keepdims=True), 1)
    norm = largest * jnp.sqrt(jnp.sum((rows / largest) ** 2, axis=1, keepdims=True))
    return jnp.where(norm > _INSIDE, rows / largest * (_INSIDE * largest / norm), rows)


def check(table: Table) -> None:
    """Refuse a table that halfspaces cannot read.

    Raises:
        ValueError: unless splits is float32[N, d] with N in 1..MAX_ROWS and d of at least 1.
    """
    rows = table.splits
    if rows.dtype != jnp.float32 or rows.ndim != 2:
        raise ValueError(f"halfspaces read float32 features of rank 2, got {rows.dtype}{list(rows.shape)}")
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(f"a table needs a row and a feature, got features of shape {list(rows.shape)}")
    if rows.shape[0] > MAX_ROWS:
        raise ValueError(f"a table has at most {MAX_ROWS} rows, got {rows.shape[0]}")
    if table.offered is not None:
        raise ValueError("halfspaces read features, not splits: table.offered must be None")


HALFSPACES = HypothesisClass(
    example=lambda: Table(jnp.zeros((1, 1), jnp.float32), jnp.zeros(1, bool), jnp.zeros(1, bool)),
    check=check,
    prepare=lambda table: Balls(to_ball(table.splits), table.label, table.present),
    predict=lambda hypothesis, table: jnp.matmul(table.rows, hypothesis.normal, precision=jax.lax.Precision.HIGHEST),
    bound=lambda hypothesis: jnp.sqrt(jnp.sum(hypothesis.normal**2)) * (1 + 2.0**-20),
)
"""Linear functions of float32 features f32[N, d] (in the place of `Table.splits`), projected to the unit ball."""


@functools.cache
def halfspace(relation: Relation, calibration: str = "tight") -> WeakLearner:
    """The noisy centre: a release of one vector, sum of mu(j) y_j x_j / (kappa m) plus N(0, sigma^2 I).

    Guarantee, under `relation`, with `reweighting.lazy_bregman` (or with weights of each row's own, of at most u):
    rho-zCDP with rho = 2 / (kappa m sigma)^2, by `slickness.center_l2`; sigma is multiplied by the round's public
    weight cap u. The published calibration's ledger has 8 / (kappa n sigma)^2 (Bun et al. (2020), Theorem 30's proof),
    true and four times what is needed. There is no pure guarantee.

    Up to floating point: the sum is taken in float32 without an allowance. On tables made to show it, neighbours were
    up to 1.0001 times the claimed distance apart at 20,000 rows, 1.008 at 730,000; it may grow with N.

    Args:
        relation: the neighbouring relation the ledger speaks of.
        calibration: "tight" or "published".
    """
    tight = calibration == "tight"
    moved = slickness.center_l2(relation) if tight else PUBLISHED_L2

    def program(draw, table, weights, budget):
        signed = jnp.where(table.present, jnp.where(table.label, weights.level, -weights.level), 0)
        mass = budget.rows * budget.density
        total = jnp.matmul(signed, table.rows, precision=jax.lax.Precision.HIGHEST)
        center = total * (weights.unit / GRID / mass)
        draw("center", mechanisms.gaussian, center, budget.noise * weights.unit)

    def hypothesis(release, budget, unit):
        del budget, unit
        return Halfspace(release["center"])

    def events(budget):
        bound = moved / (float(budget.rows) * float(budget.density))
        theorem = "docs/privacy.md 10" if tight else "Bun et al., Thm 27"
        words, sigma = "centre of the weighted examples", float(budget.noise)
        return [accounting.noise("center", "gaussian", words, l1=bound, l2=bound, scale=sigma, theorem=theorem)]

    return boundary.weak_learner(program, hypothesis, events, HALFSPACES, relation, slick=True)
