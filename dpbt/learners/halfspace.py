"""Halfspaces: the noisy centre of the examples on the unit ball (Bun, Carmosino & Sorrell, 2020, section 5.2)."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import accounting, boundary, mechanisms, questions, slickness, variates
from dpbt.base import (
    GRID,
    AnyArray,
    Array,
    HypothesisClass,
    Relation,
    Table,
    WeakLearner,
    relation_name,
)

PUBLISHED_L2 = 4
"""Bun et al. (2020), Theorem 27 at slickness 1 / (kappa n), where `slickness.center_l2` has 2."""

_INSIDE = 1 - 2.0**-20
"""Rows are projected to a ball this much smaller, so that float32 leaves none outside the unit ball."""

_LARGEST = 1e18

_CHUNK = 2**17
"""int32 holds the sum of GRID times a digit, of at most 128, over so many rows."""


class Halfspace(NamedTuple):
    """h(x) = normal . x, on the unit ball.

    Attributes:
        normal: f32[d].
    """

    normal: Array


class Balls(NamedTuple):
    """A table laid out for halfspaces.

    Attributes:
        rows: f32[N, d] in the unit ball, for predictions.
        digits: i8[N, 2 d], for sums: the rows in units of 2^-14, rounded towards 0, as 128 times the first d plus the
            last d.
        target, present: as in `Table`.
    """

    rows: Array
    digits: Array
    target: Array
    present: Array


class CenterBudget(NamedTuple):
    """The traced numbers of boosted halfspaces; each may have leading axes of settings.

    Attributes:
        noise: f32[], sigma: the standard deviation of each coordinate's noise, when the weight cap is 1 (it is
            multiplied by the round's public cap in the tight calibration); 0 in the non-private mode.
        density: f32[], kappa: see `reweighting.lazy_bregman`.
        learning_rate: f32[], lambda on margins, half of that on Bun et al.'s losses.
        rows: f32[], m: the public bound on the number of rows (add/remove) or their number (replace-one).
        step: f32[], a power of two: the public grid of the sums, `slickness.sum_step`.
    """

    noise: AnyArray
    step: AnyArray
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
        ValueError: as `questions.check`, or if the table allows some of its splits only.
    """
    questions.check(table)
    if table.questions is not None and table.questions.allowed is not None:
        raise ValueError("halfspaces read all attributes: questions.allowed must be None")


def prepare(table: Table) -> Balls:
    """The table's rows in the unit ball: exact numbers, or the positions of cells."""
    rows = to_ball(questions.positions_of(table))
    whole = jnp.trunc(rows * 2.0**14).astype(jnp.int32)
    digits = jnp.concatenate([whole >> 7, whole & 127], axis=1).astype(jnp.int8)
    return Balls(rows, digits, table.target, table.present)


def signed_sums(signed: Array, digits: Array, step: Array) -> Array:
    """i32[d]: the sum over rows of signed times row, in units of 2^-14, over `step`, rounded down; exact.

    Args:
        signed: i8[N], levels times labels, in -GRID..GRID; N at most `MAX_ROWS`.
        digits: i8[N, 2 d], see `Balls`.
        step: f32[], a power of two, at least as large as `slickness.sum_step` of N.
    """
    rows, width = digits.shape
    chunk = min(rows, _CHUNK)
    chunks = -(-rows // chunk)
    spare = chunks * chunk - rows
    signed = jnp.pad(signed, (0, spare)).reshape(chunks, chunk)
    digits = jnp.pad(digits, ((0, spare), (0, 0))).reshape(chunks, chunk, width)
    sums = jnp.einsum("cn,cnd->cd", signed, digits, preferred_element_type=jnp.int32)
    coarse, fine = jnp.sum(sums >> 16, axis=0), jnp.sum(sums & 0xFFFF, axis=0)  # a sum is 2^16 coarse + fine
    half = width // 2
    fine = 128 * fine[:half] + fine[half:]
    coarse = 128 * coarse[:half] + coarse[half:] + (fine >> 16)
    with variates.double_precision():
        whole = variates.double(coarse) * np.float64(2.0**16) + variates.double(fine & 0xFFFF)
        return jnp.floor(whole / variates.double(step)).astype(jnp.int32)


HALFSPACES = HypothesisClass(
    example=lambda: Table(jnp.zeros((1, 1), jnp.float32), jnp.zeros(1, bool), jnp.zeros(1, bool)),
    check=check,
    prepare=prepare,
    predict=lambda hypothesis, table: jnp.matmul(table.rows, hypothesis.normal, precision=jax.lax.Precision.HIGHEST),
    bound=lambda hypothesis: jnp.sqrt(jnp.sum(hypothesis.normal**2)) * (1 + 2.0**-20),
)
"""Linear functions of rows in the unit ball: of exact numbers, or of the positions of cells."""


def moved(step, relation: Relation, tight: bool, features: int):
    """The L2 sensitivity of the centre times kappa m, as the calibration has it: published, 4 or what is proved."""
    proved = slickness.center_step(step, relation, features)
    return proved if tight else np.maximum(proved, PUBLISHED_L2)


def steps_to_center(budget: CenterBudget, unit) -> Array:
    """f32[]: what one step of the sums' grid is of a centre, for weights in units of the cap `unit`."""
    mass = jnp.asarray(budget.rows) * budget.density
    return unit * budget.step / (mass * np.float32(GRID * 2**14))


@functools.cache
def halfspace(
    relation: Relation, calibration: str = "tight", normalized: bool = False, features: int = 256
) -> WeakLearner:
    """The noisy centre: a release of one vector, sum of mu(j) y_j x_j / (kappa m) plus N(0, sigma^2 I).

    Guarantee, under `relation`, with `reweighting.lazy_bregman` (or with weights of each row's own, of at most u):
    rho-zCDP with rho = 2 / (kappa m sigma)^2 and what rounding adds, by `slickness.center_step`; sigma is multiplied by
    the round's public weight cap u. The published calibration's ledger has 8 / (kappa n sigma)^2 (Bun et al. (2020),
    Theorem 30's proof), true and four times what is needed. There is no pure guarantee.

    Sums are exact integers of rows rounded towards 0 to multiples of 2^-14; they are rounded down to
    a public grid, which `slickness.center_step` allows for, and the release is a rounded Gaussian on
    it. The centre is the release times a public factor.

    Args:
        relation: the neighbouring relation the ledger speaks of.
        calibration: "tight" or "published".
        normalized: state z / |z| for the released z: post-processing. Over the rows' measure, h(x) = z . x has
            advantage |z|^2 / 2 for the centre z without noise, which is tau^2 / 2 where all rows are +-tau u, and
            not the tau / 4 of the paper's Theorem 26; z / |z| has |z| / 2, at least tau / 2 for rows of margin tau,
            as |z| >= z . u >= tau.
        features: a public bound on d.

    Raises:
        ValueError: when the program reads a table with more features.
    """
    tight = calibration == "tight"

    def program(draw, table, weights, budget):
        if table.rows.shape[1] > features:
            raise ValueError(f"the recipe is for at most {features} features, got {table.rows.shape[1]}")
        signed = jnp.where(table.target, weights.level, -weights.level)
        signed = jnp.where(table.present, signed, 0).astype(jnp.int8)
        sums = signed_sums(signed, table.digits, budget.step)
        steps = 1 / steps_to_center(budget, jnp.float32(1))
        draw("center", mechanisms.rounded_gaussian, sums, budget.noise * steps, steps)

    def hypothesis(release, budget, unit):
        center = release["center"].astype(jnp.float32) * steps_to_center(budget, unit)
        if normalized:
            length = jnp.sqrt(jnp.sum(center**2))
            center = center / jnp.where(length > 0, length, 1)
        return Halfspace(center)

    def events(budget):
        bound = float(moved(budget.step, relation, tight, features))
        bound /= float(budget.rows) * float(budget.density)
        theorem = "docs/privacy.md 10" if tight else "Bun et al., Thm 27"
        words, sigma = "centre of the weighted examples", float(budget.noise)
        return [
            accounting.noise(
                "center",
                "rounded gaussian",
                words,
                l1=bound,
                l2=bound,
                scale=sigma,
                theorem=theorem,
                moved=features,
            )
        ]

    tag = f"halfspace({relation_name(relation)}, {calibration}, {normalized}, {features})"
    return boundary.weak_learner(program, hypothesis, events, HALFSPACES, relation, slick=True, tag=tag)
