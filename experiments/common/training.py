"""Training of a model whose scores alone are evaluated."""

import jax

import dpbt
from dpbt.types import Array, Recipe, Table


@jax.jit
def boosted_scores(key: Array, table: Table, recipe: Recipe) -> Array:
    """f32[N]: the scores of all rows, absent ones too, of a model of the present ones."""
    return dpbt.boost(key, table, recipe).scores
