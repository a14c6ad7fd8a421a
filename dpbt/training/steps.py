"""The public steps of a run: begin a round, learn a hypothesis from a release, finish a model.

No step reads a row. Every function of an author is traced apart from the others
(`privacy.isolation`). `privacy.phase_views` builds what a program reads of the rows. `phases` puts
the steps together, and executors hold the rows.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float32, Int32

from dpbt import types
from dpbt.privacy import phase_views
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.draw_dependencies import draw_specs_of_phase
from dpbt.privacy.isolation import evaluate_public_function
from dpbt.privacy.phase_views import PhaseContext
from dpbt.training.checks import check_bound_is_one_number
from dpbt.types import Array, Phase, Public, Recipe, Release, ScoreLine


class RoundState(NamedTuple):
    """The public state that changes from round to round.

    Attributes:
        bound: f32[], an upper bound on |score| for every possible row.
        optimizer_state: the state of the learner's optimizer; None without an optimizer.
    """

    bound: Array
    optimizer_state: Any


class AfterPrologue(NamedTuple):
    """The public information and the state after the prologue.

    Attributes:
        public: what is public in all rounds.
        state: the state of the run before the first round.
    """

    public: Public
    state: RoundState


def finish_prologue(recipe: Recipe, prologue: Release) -> AfterPrologue:
    """Derive what is public in all rounds, and the first state, from a prologue's release.

    `public.initial_score`, the score that every row starts from, is f32[], or f32[K] with several
    classes.
    """
    learner = recipe.learner
    params = recipe.params
    public = phase_views.public_after_prologue(learner, params, recipe.public(prologue))
    bound = jnp.max(jnp.abs(public.initial_score))
    if learner.optimizer is None:
        return AfterPrologue(public, RoundState(bound, None))

    # The optimizer begins with a hypothesis of zeros.
    def init_optimizer(params: types.Params, hypothesis: types.Hypothesis) -> Any:
        assert learner.optimizer is not None
        return jax.tree.map(jnp.asarray, learner.optimizer(params).init(hypothesis))

    zeros = jax.tree.map(jnp.zeros_like, shapes_of_hypothesis(recipe, public))
    state = evaluate_public_function("the optimizer", init_optimizer, params, zeros)
    return AfterPrologue(public, RoundState(bound, state))


def zero_release_of_phase(recipe: Recipe, phase: Phase, *, has_small_sums: bool = True) -> Release:
    """A release of zeros for a phase, in the dtypes that post-processing reads.

    Args:
        recipe: of the run, without an axis of settings.
        phase: a phase of its learner.
        has_small_sums: whether sums over rows have 32 bits; larger ones are read as float32.
    """

    def zeros_of_draw(spec: DrawSpec) -> Array:
        is_sum = spec.mechanism.price.reads_rows and not spec.mechanism.is_selection
        is_float32 = is_sum and not has_small_sums
        return jnp.zeros_like(spec.output, dtype=jnp.float32 if is_float32 else None)

    return {spec.site: zeros_of_draw(spec) for spec in draw_specs_of_phase(recipe, phase)}


def shapes_of_hypothesis(recipe: Recipe, public: Public) -> types.Hypothesis:
    """The shapes and dtypes of the hypothesis of a round, from what is public in all rounds."""
    zeros = zero_release_of_phase(recipe, recipe.learner.round)
    first = begin_round(recipe, public, jnp.float32(0), public.round).public
    return jax.eval_shape(
        lambda: _hypothesis_of_release(recipe.learner, zeros, recipe.params, first)
    )


def hypothesis_shapes_after_zero_prologue(recipe: Recipe) -> types.Hypothesis:
    """The shapes and dtypes of the hypothesis of a round, after a prologue that released zeros."""
    prologue = recipe.learner.prologue
    zeros = {} if prologue is None else zero_release_of_phase(recipe, prologue)
    return shapes_of_hypothesis(recipe, finish_prologue(recipe, zeros).public)


def _hypothesis_of_release(
    learner: types.WeakLearner, release: Release, params: types.Params, public: Public
) -> types.Hypothesis:
    """The hypothesis of a release, from what is public alone."""
    return evaluate_public_function(
        "the hypothesis", learner.round.hypothesis, release, params, public
    )


def begin_round(
    recipe: Recipe,
    public: Public,
    bound: Float32[Array, ""],
    round_index: Int32[Array, ""],
    structure: Any = None,
) -> PhaseContext:
    """Build the public context in which a round begins.

    Args:
        recipe: of the run, without an axis of settings.
        public: what is public in all rounds.
        bound: f32[], an upper bound on |score| for every possible row.
        round_index: i32[], the index of the round, from 0.
        structure: the structure of the round, which follows from no row; None to compute it.
    """
    public = public._replace(round=round_index)
    if structure is None:
        structure = phase_views.public_structure_of_round(recipe.learner, recipe.params, public)
    return PhaseContext(public._replace(structure=structure), bound)


class LearnedRound(NamedTuple):
    """The hypothesis that a round learned, and the state after it.

    Attributes:
        hypothesis: the hypothesis that is added to the scores.
        state: the state of the run after the round.
    """

    hypothesis: types.Hypothesis
    state: RoundState


def finish_round(
    recipe: Recipe, release: Release, public: Public, state: RoundState
) -> LearnedRound:
    """Learn the hypothesis of a round, and the state after it, from what is public alone.

    Args:
        recipe: of the run, without an axis of settings.
        release: the release of the round.
        public: what is public in the round, with the cap of its weights.
        state: before the round. An optimizer of the learner maps the hypothesis of the release to
            the hypothesis of the round.
    """
    learner = recipe.learner
    hypothesis = _hypothesis_of_release(learner, release, recipe.params, public)
    optimizer_state = state.optimizer_state
    make_optimizer = learner.optimizer
    if make_optimizer is not None:

        def update_optimizer(
            params: types.Params, hypothesis: types.Hypothesis, optimizer_state: Any
        ) -> Any:
            return make_optimizer(params).update(hypothesis, optimizer_state)

        hypothesis, optimizer_state = evaluate_public_function(
            "the optimizer", update_optimizer, recipe.params, hypothesis, optimizer_state
        )
    bound = evaluate_public_function("the bound of hypotheses", learner.training.bound, hypothesis)
    new_state = RoundState(state.bound + check_bound_is_one_number(bound), optimizer_state)
    return LearnedRound(hypothesis, new_state)


def merge_and_scale_hypotheses(
    recipe: Recipe, public: Public, hypotheses: types.Hypotheses, slope: Array
) -> types.Hypotheses:
    """Merge and scale the hypotheses of all rounds to those of the model.

    Args:
        recipe: of the run, without an axis of settings.
        public: what is public in all rounds.
        hypotheses: those of the rounds, with a leading axis.
        slope: f32[], by which an epilogue scales the scores.
    """
    training = recipe.learner.training
    if training.merge is not None:
        after_all = public._replace(round=jnp.asarray(recipe.rounds, jnp.int32))
        hypotheses = evaluate_public_function(
            "the merger of hypotheses", training.merge, hypotheses, recipe.params, after_all
        )
    if recipe.learner.epilogue is not None:
        assert training.scale is not None  # as `WeakLearner` says
        hypotheses = evaluate_public_function(
            "the scaling of hypotheses", training.scale, hypotheses, slope
        )
    return hypotheses


def score_line(recipe: Recipe, prologue: Release, epilogue: Release) -> ScoreLine:
    """The line that maps the scores of the rounds to those of the model.

    Without an epilogue it leaves scores as they are. One program computes it from the releases,
    together with the initial score, so that it rounds alike in memory and over blocks.
    """
    public = finish_prologue(recipe, prologue).public
    if recipe.learner.epilogue is None:
        return ScoreLine(jnp.float32(1), public.initial_score)
    slope, intercept = evaluate_public_function(
        "the line of an epilogue",
        recipe.learner.epilogue.score_line,
        epilogue,
        recipe.params,
        public,
    )
    return ScoreLine(jnp.asarray(slope, jnp.float32), jnp.asarray(intercept, jnp.float32))
