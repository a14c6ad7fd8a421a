"""What a run on a table in chunks draws, as far as it follows from no row.

A program runs on one absent row, and gives its public randomness, or what it draws from sums and
how. So neither a pass nor a private number is needed for it. Each is compiled once for a recipe.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpbt.base import Array, Recipe, Release, Table, View
from dpbt.data import targets
from dpbt.data.blocks import BlockTable
from dpbt.privacy import boundary, pricing
from dpbt.privacy.boundary import DrawSpec
from dpbt.reweighting import counted_weights
from dpbt.rounds import after_rounds, before_rounds, placed_by


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


class Told(NamedTuple):
    """What a part of a run on a table in parts follows from, besides the recipe.

    A prologue reads none of it, an epilogue the last, and a round the others.

    Attributes:
        opening: what is public in all rounds.
        bound: f32[], an upper bound on the scores of all rows.
        number: i32[], of the round.
        structure: of the round; None where the learner has none.
        prologue: what the prologue released.
    """

    opening: Any = None
    bound: Any = None
    number: Any = None
    structure: Any = None
    prologue: Any = None


@functools.partial(jax.jit, static_argnames="part")
def public_draws(key: Array, nobody: Table, recipe: Recipe, part: str, told: Told) -> Release:
    """The public randomness of a part of a run."""
    view = _view(nobody, recipe, part, told)
    return boundary.public_draws(pricing.program_of(recipe.learner, part), key, view)


@functools.partial(jax.jit, static_argnames="part")
def specs(
    release: Release, nobody: Table, recipe: Recipe, part: str, told: Told
) -> Mapping[str, DrawSpec]:
    """What the draws of a part of a run ask for, after the draws that `release` has."""
    view = _view(nobody, recipe, part, told)
    return boundary.describe(pricing.program_of(recipe.learner, part), view, release)


def _view(nobody: Table, recipe: Recipe, part: str, told: Told) -> View:
    """What a part of a run reads of one absent row."""
    learner = recipe.learner
    rows = learner.hypotheses.prepare(nobody)
    if part == "prologue":
        return before_rounds(rows, recipe)
    scores = jnp.zeros((*learner.hypotheses.response.axes, *rows.present.shape), jnp.float32)
    if part == "epilogue":
        return after_rounds(rows, scores, recipe, told.prologue)
    weighted = recipe.reweighter.weigh(scores, told.bound, rows, told.opening)
    weights = counted_weights(weighted.weight, rows, learner.hypotheses.response)
    public = told.opening._replace(cap=weighted.cap, round=told.number, structure=told.structure)
    return View(placed_by(learner, public, rows), weights, recipe.budget, public)
