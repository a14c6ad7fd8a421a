"""What programs draw, described on a table with one absent row.

Such descriptions are the same for every table.
"""

import jax
import jax.numpy as jnp

from dpbt.data import column_types, domains
from dpbt.data.blocks import BlockTable
from dpbt.privacy import program_interpreters
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.draw_dependencies import priced_draws_of_phase
from dpbt.privacy.phase_views import PhaseContext, RecipePhase, view_of_absent_row
from dpbt.training.steps import (
    begin_round,
    finish_prologue,
    zero_release_of_phase,
)
from dpbt.types import Array, Phase, Recipe, Release, RowsPerUser, Site, Table


def absent_row_like(table: BlockTable) -> Table:
    """A table in memory with one absent row, of the form of a table in blocks."""
    row = table.new_absent_rows(1)
    declared = None if table.target is None else column_types.target_fingerprint(table.target)
    rows_per_user = table.rows_per_user
    return Table(
        bins=jnp.asarray(row.bins.T),
        target=jnp.asarray(row.target),
        present=jnp.asarray(row.present),
        splits=jax.tree.map(jnp.asarray, table.splits),
        weight=None if row.weight is None else jnp.asarray(row.weight),
        declared=None if declared is None else jnp.asarray(declared),
        rows_per_user=None if rows_per_user is None else RowsPerUser(rows_per_user),
        domain=domains.as_declared_domain(table.domain),
    )


def draw_specs_given_release(
    phase: Phase,
    recipe: Recipe,
    absent_row_table: Table,
    context: PhaseContext,
    earlier_release: Release,
) -> dict[Site, DrawSpec]:
    """The draw specs of a phase by site, given what was drawn before.

    It is traceable.
    """
    recipe_phase = RecipePhase.of_recipe(recipe, phase)
    view = view_of_absent_row(recipe_phase, absent_row_table, recipe.params, context)
    return program_interpreters.describe_draws(
        phase.program, view, earlier_release, priced_draws_of_phase(recipe, phase)
    )


def round_draw_specs_after_zero_prologue(
    recipe: Recipe, absent_row_table: Table
) -> dict[Site, DrawSpec]:
    """The draw specs of a round by site, after a prologue that released zeros.

    It is traceable.
    """
    prologue = recipe.learner.prologue
    zeros = {} if prologue is None else zero_release_of_phase(recipe, prologue)
    public = finish_prologue(recipe, zeros).public
    context = begin_round(recipe, public, jnp.float32(0), jnp.int32(0))
    return draw_specs_given_release(recipe.learner.round, recipe, absent_row_table, context, {})


def sample_public_draws(
    phase: Phase, recipe: Recipe, absent_row_table: Table, context: PhaseContext, public_key: Array
) -> Release:
    """Sample the public draws of a phase, which depend on no row.

    It is traceable.
    """
    recipe_phase = RecipePhase.of_recipe(recipe, phase)
    view = view_of_absent_row(recipe_phase, absent_row_table, recipe.params, context)
    return program_interpreters.sample_public_draws(phase.program, public_key, view)
