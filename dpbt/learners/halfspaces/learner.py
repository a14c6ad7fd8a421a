"""Halfspaces: the noisy centre of the examples on the unit ball.

Bun, Carmosino & Sorrell (2020), section 5.2.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32

from dpbt import types
from dpbt.common.arithmetic import multiply_by_reciprocal, round_separately, sum_in_order
from dpbt.data import splits
from dpbt.learners.halfspaces import model
from dpbt.learners.halfspaces.model import Halfspace, project_to_unit_ball
from dpbt.learners.materialize import materialize_once
from dpbt.privacy import boundary, mechanisms, sensitivity, variates
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism_types import ROUNDING, Numbers, divide_rounding_up
from dpbt.public_types import redacted_repr
from dpbt.types import GRID, AnyArray, Array, Public, Table

PUBLISHED_L2 = 4
"""The L2 distance of Bun et al. (2020), Theorem 27 at slickness 1 / (kappa n).

`sensitivity.CENTER_L2` is 2.
"""


class BallRows(NamedTuple):
    """The rows of a table projected to the unit ball, as rounds of halfspaces read them.

    Attributes:
        columns: f32[d, N], rows in the unit ball.
        target, present, weight: as in `Table`.
    """

    columns: Array
    target: Array
    present: Array
    weight: Array | None = None

    __repr__ = redacted_repr


class HalfspaceParams(NamedTuple):
    """The traced numbers of noisy centres; each may have leading axes of settings.

    Attributes:
        noise: f32[], the noise multiplier of "center"; 0 in the non-private mode.
        step: f32[], a power of two: the public grid of the sums,
        `sensitivity.weighted_sum_rounding_step`.
    """

    noise: Mapping[str, AnyArray]
    step: AnyArray


@dataclasses.dataclass(frozen=True, kw_only=True)
class HalfspaceConfig:
    """The static configuration of a learner of noisy centres.

    Attributes:
        relation: the neighbouring relation of the ledger.
        calibration: "tight" or "published".
        normalized: state z / |z| instead of the released z.
        features: a public bound on the number of features.
    """

    relation: types.Relation
    calibration: str = "tight"
    normalized: bool = False
    features: int = 256

    @property
    def identity(self) -> str:
        """A text of all static settings, from which noise keys are derived."""
        under = types.as_relation(self.relation).value
        return f"{under}, {self.calibration}, {self.normalized}, {self.features}"


def check_splits_valid_and_all_allowed(table: Table) -> None:
    """Refuse a table whose bins or splits are invalid, or that forbids some of its splits.

    Raises:
        ValueError: as `splits.check_bins_and_splits`, or if the table allows only some of its
            splits.
    """
    splits.check_bins_and_splits(table)
    if table.splits is not None and table.splits.allowed is not None:
        raise ValueError("halfspaces read all attributes: splits.allowed must be None")


def project_rows_of_table_to_ball(table: Table) -> BallRows:
    """Project the rows of a table to the unit ball.

    Rows are numbers as the table has them, or the positions of bins.
    """
    rows = project_to_unit_ball(splits.attribute_positions(table))
    return BallRows(rows.T, table.target, table.present, table.weight)


def signed_row_sums_in_grid_steps(
    signed_weights: Int32[Array, "N"],
    row_columns: Float32[Array, "d N"],
    grid_step: Float32[AnyArray, ""],
) -> Int32[Array, "d"]:
    """i32[d]: the sum over rows of signed weight times row, in whole steps of a public grid.

    Rows are rounded towards 0 to units of 2^-14, and the sum is rounded down.

    Args:
        signed_weights: i32[N], quantized weights times labels, in -GRID..GRID; N at most
            `MAX_ROWS`.
        row_columns: f32[d, N], see `BallRows`.
        grid_step: f32[], a power of two, at least as large as
        `sensitivity.weighted_sum_rounding_step` of N.
    """
    products = signed_weights[None] * jnp.trunc(row_columns * 2.0**14).astype(jnp.int32)
    with variates.double_precision():
        sums = jnp.sum(products.astype(jnp.int64), axis=1)
        return jnp.floor(variates.to_float64(sums) / variates.to_float64(grid_step)).astype(
            jnp.int32
        )


def euclidean_length(vector: Float32[Array, "d"]) -> Float32[Array, ""]:
    """f32[]: the Euclidean length of a vector, rounded alike in every program.

    Squares are summed in one order.
    """
    return jnp.sqrt(sum_in_order(round_separately(vector**2)))


HALFSPACES = model.HALFSPACES.with_training(
    example_table=lambda: Table(
        jnp.zeros((1, 1), jnp.float32), jnp.zeros(1, bool), jnp.zeros(1, bool)
    ),
    check_table=check_splits_valid_and_all_allowed,
    prepare=project_rows_of_table_to_ball,
    prediction_input=lambda rows: rows.columns,
    bound=lambda halfspace: euclidean_length(halfspace.normal) * (1 + 2.0**-20),
)
"""Linear functions of rows in the unit ball, which hold exact numbers or positions of bins."""


_UNIT = 2.0**14 * GRID
"""The longest row, in units of 2^-14 grid units."""


def _row_sum_sensitivity_in_row_lengths(config: HalfspaceConfig, grid_step: Numbers) -> Numbers:
    """The L2 sensitivity of the sum that the ledger claims, in lengths of the longest row."""
    proved = sensitivity.rounded_vector_sum_sensitivity(grid_step, config.features)
    return proved if config.calibration == "tight" else proved.clip(min=PUBLISHED_L2)


def choose_sum_grid_for_noise_multiplier(
    config: HalfspaceConfig, noise: Mapping[str, Numbers], public: Public
) -> HalfspaceParams:
    """Choose the public grid of the sums for a noise multiplier, and return both as parameters.

    The sensitivity depends on the grid, and the grid on the noise.

    So the grid is chosen for the noise of a finer grid, which it hardly changes.
    """
    multiplier = np.asarray(noise["center"], np.float64)
    finite = np.where(np.isfinite(multiplier), multiplier, 0) * _UNIT
    step = sensitivity.weighted_sum_rounding_step(public.max_rows)
    for _ in range(2):
        step = np.maximum(
            step,
            sensitivity.weighted_sum_rounding_step(
                public.max_rows, finite * _row_sum_sensitivity_in_row_lengths(config, step)
            ),
        )
    return HalfspaceParams(dict(noise), step)


def noise_multiplier_and_sum_grid_for_sigma(
    config: HalfspaceConfig, sigma: Numbers, public: Public
) -> HalfspaceParams:
    """Choose the noise multiplier and the sum grid that give a centre noise of deviation sigma."""
    density = np.asarray(public.weight_params.density, np.float32).astype(np.float64)
    in_sum = np.asarray(sigma, np.float64) * np.asarray(public.max_rows, np.float64) * density
    step = sensitivity.weighted_sum_rounding_step(public.max_rows, in_sum * _UNIT)
    return HalfspaceParams(
        {
            "center": divide_rounding_up(
                in_sum * ROUNDING, _row_sum_sensitivity_in_row_lengths(config, step)
            )
        },
        step,
    )


def center_length_per_grid_step(
    params: HalfspaceParams, public: Public, weight_cap: Numbers = 1.0
) -> Float32[Array, ""]:
    """f32[]: the length, in the centre, of one step of the grid of sums.

    Multiplied by it, released sums become a centre.
    """
    mass = jnp.asarray(
        public.max_rows * public.weight_params.density
    )  # divides a sum to give a centre
    return multiply_by_reciprocal(weight_cap * params.step, mass * np.float32(_UNIT))


def draw_weighted_sum_of_signed_rows(
    draw: Draw,
    table: BallRows,
    weights: Array,
    params: HalfspaceParams,
    public: Public,
    *,
    config: HalfspaceConfig,
) -> None:
    """Draw the noisy weighted sum of signed rows, as one vector on a public grid.

    Raises:
        ValueError: for a table with more features than the recipe is for.
    """
    if len(table.columns) > config.features:
        raise ValueError(f"at most {config.features} features, got {len(table.columns)}")

    # The sum of weight times label times row over all present rows, and noise in steps of the grid.
    def signed_weights() -> Array:
        signed = jnp.where(table.target, weights, -weights)
        return jnp.where(table.present, signed, 0).astype(jnp.int32)

    is_tight = config.calibration == "tight"
    sums = signed_row_sums_in_grid_steps(
        materialize_once(signed_weights, round_index=public.round), table.columns, params.step
    )
    draw(
        "center",
        mechanisms.rounded_gaussian,
        sums,
        sensitivity=_row_sum_sensitivity_in_row_lengths(config, params.step)
        * (_UNIT / params.step),
        moved_outputs=config.features,
        theorem="dpbt theorem 10" if is_tight else "Bun et al. (2020), Thm 27",
        releases="centre of the weighted examples",
        unit="step of the sums' grid",
    )


def halfspace_of_release(
    config: HalfspaceConfig, release: types.Release, params: HalfspaceParams, public: Public
) -> Halfspace:
    """Build the halfspace whose normal is the released noisy centre, normalized if configured."""
    step_length = center_length_per_grid_step(params, public, public.cap)
    center = round_separately(release["center"].astype(jnp.float32) * step_length)
    if config.normalized:
        length = euclidean_length(center)
        center = multiply_by_reciprocal(center, jnp.where(length > 0, length, 1))
    return Halfspace(center)


@functools.cache
def halfspace(config: HalfspaceConfig) -> types.WeakLearner:
    """A weak learner whose hypothesis is a noisy centre, the mean of signed weighted rows.

    A round releases the vector sum of mu(j) y_j x_j / (kappa m) + N(0, sigma^2 I).

    Guarantee, under `relation`, with `weighting.lazy_bregman`, or with weights of at most u that
    depend on their own row alone. With noise of sigma on a centre, the release is rho-zCDP with
    rho = 2 / (kappa m sigma)^2 and what rounding adds, by
    `sensitivity.rounded_vector_sum_sensitivity`. Sigma is multiplied by the round's public weight
    cap u. The published calibration's ledger has 8 / (kappa n sigma)^2 (Bun et al. (2020), Theorem
    30's proof), which is true and four times what is needed. There is no pure guarantee.

    Rows are rounded towards 0 to multiples of 2^-14, and their sums are exact integers. Sums are
    rounded down to a public grid, which `sensitivity.rounded_vector_sum_sensitivity` allows for.
    The release is a rounded Gaussian on that grid. The centre is the release times a public factor.

    Normalising is post-processing. Over the rows' measure, h(x) = z . x has advantage |z|^2 / 2 for
    the centre z without noise. That is tau^2 / 2 if all rows are +-tau u, and not the tau / 4 of
    the paper's Theorem 26. But z / |z| has advantage |z| / 2. That is at least tau / 2 for rows of
    margin tau, as |z| >= z . u >= tau.

    Raises:
        ValueError: when the program reads a table with more features than
            `HalfspaceConfig.features`.
    """
    return boundary.weak_learner(
        name="halfspace",
        config=config,
        program=functools.partial(draw_weighted_sum_of_signed_rows, config=config),
        hypothesis=functools.partial(halfspace_of_release, config),
        kind=HALFSPACES,
        fractions={"center": 1.0},
        make_params=functools.partial(choose_sum_grid_for_noise_multiplier, config),
        relation=config.relation,
        coupled=True,
    )
