"""Specifications of the draws of a run in blocks, and its public randomness: from no row.

A program runs on one absent row, so neither a pass nor a private number is needed.
"""

import jax
import jax.numpy as jnp

from dpbt.base import Array, Recipe, Release, Table, View
from dpbt.data import targets
from dpbt.data.blocks import BlockTable
from dpbt.privacy import boundary, pricing
from dpbt.privacy.boundary import DrawSpec
from dpbt.training import step
from dpbt.training.step import Context


def row_of(table: BlockTable) -> Table:
    """One absent row of the kind of the table's."""
    room = table.room(1)
    target = table.target
    return Table(
        jnp.asarray(room.cells.T),
        jnp.asarray(room.target),
        jnp.asarray(room.present),
        jax.tree.map(jnp.asarray, table.questions),
        None if room.weight is None else jnp.asarray(room.weight),
        None if target is None else jnp.asarray(targets.fingerprint(target)),
    )


def check_public_key(recipe: Recipe, public_key: Array | None) -> Array | None:
    """The public key, if the recipe draws public structure; None if it draws none.

    Raises:
        ValueError: if it draws some and has no key for it.
    """
    for part in recipe.learner.parts:
        for draw in pricing.sites(recipe, part):
            if draw.mechanism.public and public_key is None:
                raise boundary.no_public_key(draw.site)
            if draw.mechanism.public:
                return public_key
    return None


def of_part(
    part: str, recipe: Recipe, dummy: Table, context: Context, release: Release
) -> dict[str, DrawSpec]:
    """What the draws of a part ask for, after the draws that `release` has; traceable."""
    view = _dummy_view(part, recipe, dummy, context)
    return boundary.describe(pricing.program_of(recipe.learner, part), view, release)


def _dummy_view(part: str, recipe: Recipe, dummy: Table, context: Context) -> View:
    """What a part of a run reads of one absent row."""
    rows = recipe.learner.hypotheses.prepare(dummy)
    axes = recipe.learner.hypotheses.response.axes
    scores = jnp.zeros((*axes, *rows.present.shape), jnp.float32)
    return step.view(part, recipe, rows, step.weigh(part, recipe, rows, scores, context), context)


def public_draws(part: str, recipe: Recipe, dummy: Table, context: Context, key: Array) -> Release:
    """The public randomness of a part."""
    view = _dummy_view(part, recipe, dummy, context)
    return boundary.public_draws(pricing.program_of(recipe.learner, part), key, view)
