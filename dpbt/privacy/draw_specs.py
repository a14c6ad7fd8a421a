"""Descriptions of the draws of a phase, from one absent row of the learner's example table.

They depend on the numbers of a recipe alone, and on no table.
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from dpbt.common import compilation
from dpbt.privacy import program_interpreters
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.phase_views import (
    PhaseContext,
    RecipePhase,
    public_after_prologue,
    public_structure_of_round,
    view_of_absent_row,
)
from dpbt.privacy.price_comparison import PricedDraws
from dpbt.types import Array, Numbers, Params, Prologue, Public, Round, Site, View


@compilation.jit_with_bounded_cache(static_argnames=("recipe_phase", "priced_draws"))
def describe_draws_of_phase(
    recipe_phase: RecipePhase,
    params: Params,
    public: Public,
    max_abs_score: Numbers,
    priced_draws: PricedDraws | None = None,
) -> Mapping[Site, DrawSpec]:
    """Describe the draws of a phase of a run by site, without private values.

    The program that does so is compiled once.

    Args:
        recipe_phase: the phase.
        params: the learner's numbers, of one setting.
        public: the public information before the prologue.
        max_abs_score: an upper bound on |score|.
        priced_draws: the draws of the ledger, to compare with those described; None to compare
        nothing.

    Raises:
        ValueError: as `price_comparison.trace_then_check_prices_then_run`.
    """
    view = view_of_absent_example_row(recipe_phase, params, public, max_abs_score)
    return program_interpreters.describe_draws(
        recipe_phase.phase.program, view, priced_draws=priced_draws
    )


def view_of_absent_example_row(
    recipe_phase: RecipePhase,
    params: Params,
    public: Public,
    max_abs_score: Numbers,
    row_fields: Mapping[str, Array] | None = None,
) -> View:
    """Build the view of a phase of a run on one absent row.

    The row is that of the learner's example table. Its public fields have the structure and the
    dtypes of a run. Zeros stand for the release of the prologue.

    Args:
        recipe_phase: the phase.
        params: the learner's numbers, of one setting.
        public: the public information before the prologue.
        max_abs_score: an upper bound on |score|.
        row_fields: name of a field of the example table -> the array that replaces it.
    """
    learner = recipe_phase.learner
    phase = recipe_phase.phase
    if not isinstance(phase, Prologue):
        public = _public_after_zero_prologue(recipe_phase, params, public)
        public = public._replace(round=jnp.asarray(public.round, jnp.int32))
    if isinstance(phase, Round):
        public = public._replace(structure=public_structure_of_round(learner, params, public))
    absent_row = learner.training.example_table()._replace(**(row_fields or {}))
    return view_of_absent_row(recipe_phase, absent_row, params, PhaseContext(public, max_abs_score))


def _public_after_zero_prologue(
    recipe_phase: RecipePhase, params: Params, public: Public
) -> Public:
    """The public information of all rounds if the prologue releases zeros.

    The learner may have no prologue.
    """
    learner = recipe_phase.learner
    if learner.prologue is not None:
        prologue = RecipePhase(
            phase=learner.prologue, learner=learner, weight_update=recipe_phase.weight_update
        )
        specs = describe_draws_of_phase(prologue, params, public, np.float32(0))
        zeros = {site: jnp.zeros_like(spec.output) for site, spec in specs.items()}
        public = public._replace(prologue=zeros)
    return public_after_prologue(learner, params, public)
