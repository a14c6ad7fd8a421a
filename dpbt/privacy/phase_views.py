"""The view of a phase's program, built by the same steps when it is priced and when it runs.

The ledger describes the view of one absent row (`draw_specs`), and a run builds the view of its
rows (`training.scan`, `training.blocks.passes`). Both use the steps in this module: public
information after the prologue and in a round, the weights of the rows, their leaves, and the view.

Public information is computed from public information alone, and every function of an author is
traced by itself (`isolation`).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.privacy import dataflow, isolation
from dpbt.privacy.sensitivity import clip_and_round_weights_to_grid
from dpbt.types import (
    Array,
    Epilogue,
    LearnerRows,
    Numbers,
    Params,
    Phase,
    PreparedRows,
    Prologue,
    Public,
    Recipe,
    Release,
    Round,
    Table,
    View,
    WeakLearner,
    WeightsAndCap,
    WeightUpdate,
    uniform,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipePhase:
    """A phase of a recipe, with its learner and its weight update.

    It is the static key by which draws are traced once.

    Attributes:
        phase: a phase of the learner.
        learner: the weak learner.
        weight_update: the weight update of the recipe.
    """

    phase: Phase
    learner: WeakLearner
    weight_update: WeightUpdate

    @classmethod
    def of_recipe(cls, recipe: Recipe, phase: Phase) -> "RecipePhase":
        """Make the phase of a recipe, without the numbers of the recipe."""
        return cls(phase=phase, learner=recipe.learner, weight_update=recipe.weight_update)

    @property
    def weight_update_of_phase(self) -> WeightUpdate:
        """The weight update that weighs rows in this phase.

        In a prologue it is `uniform`.
        """
        return uniform if isinstance(self.phase, Prologue) else self.weight_update


class PhaseContext(NamedTuple):
    """The public information at the beginning of a phase or a round.

    Attributes:
        public: the public information, with a cap of 1; for a prologue without a release.
        bound: f32[], an upper bound on |score| for every possible row.
    """

    public: Public
    bound: Any


class WeighedRows(NamedTuple):
    """The weights of rows that a program reads, and their cap.

    Attributes:
        weights: f32[N] weights or f32[K, N] residuals, in units of cap / GRID; for an epilogue the
            scores.
        cap: f32[], the public bound on them; without meaning for an epilogue.
    """

    weights: Array
    cap: Array


def public_after_prologue(learner: WeakLearner, params: Params, public: Public) -> Public:
    """The public information of all rounds, given the release of the prologue.

    It adds the unit, the estimated number of rows and the initial score, which are computed from
    the release of the prologue.

    Args:
        learner: the weak learner.
        params: its numbers.
        public: the public information, with the release of the prologue if there is one.
    """
    prologue = learner.prologue
    if prologue is None:
        zeros = jnp.zeros(learner.response.score_axes, jnp.float32)
        return public._replace(initial_score=zeros)

    def number_of_release(name: str, of_release: Callable[[Release, Params], Array]) -> Array:
        noun = f"the {name} of a prologue"
        number = isolation.evaluate_public_function(noun, of_release, public.prologue, params)
        return jnp.asarray(number, jnp.float32)

    changes = {}
    if prologue.unit is not None:
        changes["unit"] = number_of_release("unit", prologue.unit)
    if prologue.estimated_rows is not None:
        rows = number_of_release("estimated number of rows", prologue.estimated_rows)
        changes["estimated_rows"] = rows
    score = number_of_release("initial score", prologue.initial_score)
    return public._replace(**changes, initial_score=score)


def public_structure_of_round(learner: WeakLearner, params: Params, public: Public) -> Any:
    """The public structure of a round, such as the splits of its tree.

    It is None for a learner without partition.
    """
    partition = learner.partition
    if partition is None:
        return None
    return isolation.evaluate_public_function(
        "the structure of a round", partition.structure, params, public
    )


def assign_leaves(learner: WeakLearner, structure: Any, rows: LearnerRows) -> LearnerRows:
    """Assign each row its leaf by the structure of a round.

    Rows stay as they are if the learner has no partition.
    """
    partition = learner.partition
    if partition is None or rows.leaf is not None:
        return rows
    return rows._replace(
        leaf=isolation.evaluate_in_isolated_trace(partition.assign_rows, structure, rows)
    )


def weigh_rows(
    recipe_phase: RecipePhase, rows: PreparedRows, scores: Array, context: PhaseContext
) -> WeighedRows:
    """Compute the weights that the program of a phase reads, from the scores of the rows.

    A weight update does not know the round, because rounds that share a pass are weighed once.

    Raises:
        ValueError: if the cap depends on rows or scores, or if the weight update reads a traced
            array that is not among its arguments.
    """
    if isinstance(recipe_phase.phase, Epilogue):
        return WeighedRows(scores, context.public.cap)
    weight_update = recipe_phase.weight_update_of_phase
    public = context.public._replace(round=np.int32(0), structure=None)
    weighted = _weigh_and_check_cap_is_public(weight_update, scores, context.bound, rows, public)
    weights = clip_and_round_weights_to_grid(weighted.weight, rows, weight_update.response)
    return WeighedRows(weights, weighted.cap)


def _weigh_and_check_cap_is_public(
    weight_update: WeightUpdate, scores: Array, max_abs_score: Numbers, rows: Any, public: Public
) -> WeightsAndCap:
    """Weigh rows by a weight update, and refuse a cap that depends on rows.

    The weight update runs in a trace of its own.
    """

    def weigh(private: tuple[Array, Any], max_abs_score: Numbers, public: Public) -> WeightsAndCap:
        scores, rows = private
        return weight_update.weigh(scores, max_abs_score, rows, public)

    private = scores, rows
    traced = isolation.trace_public_function(
        weight_update.identity, weigh, private, max_abs_score, public
    )
    jaxpr = traced.closed_jaxpr.jaxpr
    num_private = len(jax.tree.leaves(private))
    num_inputs = len(jaxpr.invars)
    sources = [{"rows"}] * num_private + [set()] * (num_inputs - num_private)
    sources_of_cap = dataflow.sources_of_outputs(jaxpr, sources)[-1]  # the cap is the last field
    if sources_of_cap:
        raise ValueError(
            f"the cap of {weight_update.identity} follows from private rows or their scores; it is "
            "public, and may follow from the bound on scores"
        )
    return isolation.evaluate_closed_jaxpr(
        traced.closed_jaxpr, traced.result_shapes, (private, max_abs_score, public)
    )


def view_of_phase(
    recipe_phase: RecipePhase,
    rows: PreparedRows,
    weighed: WeighedRows,
    params: Params,
    public: Public,
) -> View:
    """Build the view that the program of a phase reads.

    In a round its rows have their leaves.
    """
    if isinstance(recipe_phase.phase, Round):
        rows = assign_leaves(recipe_phase.learner, public.structure, rows)
    return View(rows, weighed.weights, params, public._replace(cap=weighed.cap))


def view_of_absent_row(
    recipe_phase: RecipePhase, absent_row: Table, params: Params, context: PhaseContext
) -> View:
    """Build the view of the program of a phase on one absent row.

    The score of the row is 0.

    Args:
        recipe_phase: the phase.
        absent_row: a table of one absent row.
        params: the learner's numbers.
        context: the public information when the phase begins, with the structure of a round.
    """
    rows = recipe_phase.learner.training.prepare(absent_row)
    scores = jnp.zeros(
        (*recipe_phase.weight_update_of_phase.response.score_axes, *rows.present.shape), jnp.float32
    )
    weighed = weigh_rows(recipe_phase, rows, scores, context)
    return view_of_phase(recipe_phase, rows, weighed, params, context.public)
