"""Weights as private programs read them: integers on a grid, within their bounds."""

import jax.numpy as jnp

from dpbt.base import BINARY, GRID, Array, Prepared, Response


def counted_weights(weight: Array, table: Prepared, response: Response = BINARY) -> Array:
    """The weights as integers on the grid, whatever a weight update gives; 0 for absent rows.

    It maps each row's own weight, and changes no weight that a weight update of the library gives
    to a present row of a table without weights of its own. The weight of a row in its table
    multiplies the weight update's.

    Args:
        weight: f32[N], as `Weighted` has it; f32[K, N] with several classes.
        table: prepared rows.
        response: what is predicted. Residuals are in -GRID..GRID, and are rounded towards 0, so
            that the norm of a row's residuals over classes does not grow. Weights of two classes
            are in 0..GRID.
    """
    present = jnp.broadcast_to(table.present, weight.shape)
    counts = weight > 0 if response == BINARY else ~jnp.isnan(weight)  # a NaN is not above 0
    own = row_weights(table)
    if own is None:
        number = jnp.where(counts & present, weight, 0)
    else:
        # Infinity times 0 is a NaN, so rows of weight 0 are left out before.
        own = jnp.broadcast_to(own, weight.shape)
        number = jnp.where(counts & present & (own > 0), weight, 0) * own
    if response == BINARY:
        return jnp.round(jnp.minimum(number, GRID))
    return jnp.trunc(jnp.clip(number, -GRID, GRID))


def whole_rows(counts: Array) -> Array:
    """i32[...]: counts in 1 / GRID of a row, rounded to whole rows.

    Counts that differ by at most one row differ by at most one once they are rounded.
    """
    return (counts + GRID // 2) // GRID


def row_weights(table: Prepared) -> Array | None:
    """f32[N]: the weights of rows of a table in [0, 1]; None if all weigh the same."""
    own = getattr(table, "weight", None)
    if own is None:
        return None
    return jnp.clip(jnp.where(jnp.isnan(own), 0, own), 0, 1)
