"""What a run on a table in chunks draws, as far as it follows from no row.

A program runs on one absent row, and gives its public randomness, or what it draws from sums and
how. So neither a pass nor a private number is needed for it. Each is compiled once for a recipe.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from dpbt.base import Array, Budget, Prepared, PrivateProgram, Public, Recipe, Release, Table
from dpbt.data import targets
from dpbt.data.chunks import ChunkedTable
from dpbt.privacy.parts import Asked
from dpbt.reweighting import counted_weights
from dpbt.rounds import after_rounds, before_rounds, placed_by


def row_of(table: ChunkedTable) -> Table:
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


@jax.jit
def sites_before(key: Array, nobody: Table, recipe: Recipe) -> Release:
    """The public randomness of the prologue."""
    program, read = _before(nobody, recipe)
    return program.unread(key, *read)


@jax.jit
def asked_before(nobody: Table, recipe: Recipe) -> Mapping[str, Asked]:
    """What the prologue draws from sums."""
    program, read = _before(nobody, recipe)
    return program.asks({}, *read)


@jax.jit
def sites_after(key: Array, nobody: Table, recipe: Recipe, prologue: Release) -> Release:
    """The public randomness of the epilogue."""
    program, read = _after(nobody, recipe, prologue)
    return program.unread(key, *read)


@jax.jit
def asked_after(nobody: Table, recipe: Recipe, prologue: Release) -> Mapping[str, Asked]:
    """What the epilogue draws from sums."""
    program, read = _after(nobody, recipe, prologue)
    return program.asks({}, *read)


@jax.jit
def sites_of_round(
    key: Array, nobody: Table, recipe: Recipe, opening: Public, told: tuple[Array, Array, Any]
) -> Release:
    """The public randomness of a round; told its bound on scores, its number and its structure."""
    return recipe.learner.program.unread(key, *_round(nobody, recipe, opening, told))


@jax.jit
def asked_of_round(
    release: Release,
    nobody: Table,
    recipe: Recipe,
    opening: Public,
    told: tuple[Array, Array, Any],
) -> Mapping[str, Asked]:
    """What a round draws from sums, after the draws that `release` has; told the same."""
    return recipe.learner.program.asks(release, *_round(nobody, recipe, opening, told))


def _before(nobody: Table, recipe: Recipe) -> tuple[PrivateProgram, Any]:
    """The program of the prologue, and what it reads of one absent row."""
    assert recipe.learner.prologue is not None
    rows = recipe.learner.hypotheses.prepare(nobody)
    return recipe.learner.prologue.program, before_rounds(rows, recipe)


def _after(nobody: Table, recipe: Recipe, prologue: Release) -> tuple[PrivateProgram, Any]:
    """The program of the epilogue, and what it reads of one absent row."""
    assert recipe.learner.epilogue is not None
    rows = recipe.learner.hypotheses.prepare(nobody)
    scores = _no_scores(rows, recipe)
    return recipe.learner.epilogue.program, after_rounds(rows, scores, recipe, prologue)


def _round(
    nobody: Table, recipe: Recipe, opening: Public, told: tuple[Array, Array, Any]
) -> tuple[Prepared, Array, Budget, Public]:
    """What the program of a round reads of one absent row."""
    learner, (bound, number, structure) = recipe.learner, told
    rows = learner.hypotheses.prepare(nobody)
    weighted = recipe.reweighter.weigh(_no_scores(rows, recipe), bound, rows, opening)
    weights = counted_weights(weighted.weight, rows, learner.hypotheses.response)
    public = opening._replace(cap=weighted.cap, round=number, structure=structure)
    return placed_by(learner, public, rows), weights, recipe.budget, public


def _no_scores(rows: Prepared, recipe: Recipe) -> Array:
    axes = recipe.learner.hypotheses.response.axes
    return jnp.zeros((*axes, *rows.present.shape), jnp.float32)
