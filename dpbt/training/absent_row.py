"""What is the same for every table: what programs draw, read from a run on one absent row."""

import jax
import jax.numpy as jnp

from dpbt.data import column_types, domains
from dpbt.data.blocks import BlockTable
from dpbt.privacy import answers
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.dependencies import priced_draws
from dpbt.privacy.phase_views import PhaseContext, RecipePhase, view_of_absent_row
from dpbt.training.steps import (
    after_prologue,
    begin_round,
    hypothesis_shapes,
    zero_release_of_phase,
)
from dpbt.types import Array, Hypothesis, Phase, Recipe, Release, RowsPerUser, Site, Table


def absent_row_like(table: BlockTable) -> Table:
    """A table in memory with one absent row, of the form of a table in blocks."""
    room = table.new_absent_rows(1)
    return Table(
        jnp.asarray(room.bins.T),
        jnp.asarray(room.target),
        jnp.asarray(room.present),
        jax.tree.map(jnp.asarray, table.splits),
        None if room.weight is None else jnp.asarray(room.weight),
        None
        if table.target is None
        else jnp.asarray(column_types.target_fingerprint(table.target)),
        None if table.rows_per_user is None else RowsPerUser(table.rows_per_user),
        domains.as_declared_domain(table.domain),
    )


def draw_specs_given_release(
    phase: Phase,
    recipe: Recipe,
    absent_row_table: Table,
    context: PhaseContext,
    earlier_release: Release,
) -> dict[Site, DrawSpec]:
    """The draw specs of a phase by site, given the draws in `earlier_release`; traceable."""
    recipe_phase = RecipePhase.of_recipe(recipe, phase)
    view = view_of_absent_row(recipe_phase, absent_row_table, recipe.params, context)
    return answers.describe(phase.program, view, earlier_release, priced_draws(recipe, phase))


def first_round_draw_specs(recipe: Recipe, absent_row_table: Table) -> dict[Site, DrawSpec]:
    """The draw specs of a round by site, after a prologue that released zeros; traceable."""
    prologue = recipe.learner.prologue
    zeros = {} if prologue is None else zero_release_of_phase(recipe, prologue)
    public = after_prologue(recipe, zeros).public
    context = begin_round(recipe, public, jnp.float32(0), jnp.int32(0))
    return draw_specs_given_release(recipe.learner.round, recipe, absent_row_table, context, {})


def first_hypothesis_shapes(recipe: Recipe) -> Hypothesis:
    """The shapes and dtypes of the hypothesis of a round, after a prologue that released zeros."""
    prologue = recipe.learner.prologue
    zeros = {} if prologue is None else zero_release_of_phase(recipe, prologue)
    return hypothesis_shapes(recipe, after_prologue(recipe, zeros).public)


def public_draws(
    phase: Phase, recipe: Recipe, absent_row_table: Table, context: PhaseContext, key: Array
) -> Release:
    """The public randomness of a phase; traceable."""
    recipe_phase = RecipePhase.of_recipe(recipe, phase)
    view = view_of_absent_row(recipe_phase, absent_row_table, recipe.params, context)
    return answers.public_draws(phase.program, key, view)
