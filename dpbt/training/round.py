"""The steps of a run, each written once: weigh rows, assign leaves, draw, learn, add.

What is public is worked out from what is public alone, and every function of an author is traced
apart from the others (`privacy.apart`). `run` puts the steps together; executors hold the rows.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32

from dpbt import types
from dpbt.privacy import pricing
from dpbt.privacy.apart import trace_apart, trace_of_public
from dpbt.privacy.sensitivity import weights_on_grid
from dpbt.training.checks import check_bound, check_predictions
from dpbt.types import (
    Array,
    Epilogue,
    Phase,
    Prepared,
    Prologue,
    Public,
    Recipe,
    Release,
    Round,
    View,
)


class Context(NamedTuple):
    """What is public when a phase or a round begins.

    Attributes:
        public: what is public in it, with a cap of 1; of a prologue without a release.
        bound: f32[], an upper bound on |score| for every possible row.
    """

    public: Public
    bound: Any


class RoundState(NamedTuple):
    """What is public and changes from round to round.

    Attributes:
        bound: f32[], an upper bound on |score| for every possible row.
        optimizer: a list with the state of the optimizer; None without one.
    """

    bound: Array
    optimizer: Any


class AfterPrologue(NamedTuple):
    """What the rounds begin with.

    Attributes:
        public: what is public in all rounds.
        state: before the first round.
    """

    public: Public
    state: RoundState


def after_prologue(recipe: Recipe, prologue: Release) -> AfterPrologue:
    """What is public in all rounds after the release of the prologue, and the first state.

    `public.initial_score`, the score that every row starts from, is f32[], or f32[K] with several
    classes.
    """
    learner, params = recipe.learner, recipe.params
    public = pricing.after_prologue(learner, params, recipe.public(prologue))
    bound = jnp.max(jnp.abs(public.initial_score))
    if learner.optimizer is None:
        return AfterPrologue(public, RoundState(bound, None))

    # The optimizer begins with a hypothesis of zeros.
    like = hypothesis_shapes(recipe, public)

    def init(params: types.Params, like: types.Hypothesis) -> Any:
        assert learner.optimizer is not None
        return jax.tree.map(jnp.asarray, learner.optimizer(params).init(like))

    state = trace_of_public("the optimizer", init, params, jax.tree.map(jnp.zeros_like, like))
    return AfterPrologue(public, RoundState(bound, [state]))


def zeros_of_phase(recipe: Recipe, phase: Phase) -> Release:
    """Zeros in place of the release of a phase."""
    specs = pricing.draw_specs_of_phase(recipe, phase)
    return {spec.site: jnp.zeros_like(spec.output) for spec in specs}


def hypothesis_shapes(recipe: Recipe, public: Public) -> types.Hypothesis:
    """The shapes and dtypes of the hypothesis of a round.

    Args:
        recipe: one setting.
        public: what is public in all rounds.
    """
    zeros = zeros_of_phase(recipe, recipe.learner.round)
    first = begin_round(recipe, public, jnp.float32(0), public.round).public
    return jax.eval_shape(
        lambda: _hypothesis_of_release(recipe.learner, zeros, recipe.params, first)
    )


def _hypothesis_of_release(
    learner: types.WeakLearner, release: Release, params: types.Params, public: Public
) -> types.Hypothesis:
    """The hypothesis of a release, from what is public alone."""
    return trace_of_public("the hypothesis", learner.round.hypothesis, release, params, public)


def begin_round(
    recipe: Recipe,
    public: Public,
    bound: Float32[Array, ""],
    number: Int32[Array, ""],
    structure: Any = None,
) -> Context:
    """What is public when a round begins.

    Args:
        recipe: one setting.
        public: what is public in all rounds.
        bound: f32[], an upper bound on |score| for every possible row.
        number: i32[], of the round.
        structure: of the round, which follows from no row; None to work it out.
    """
    public = public._replace(round=number)
    if structure is None:
        structure = pricing.round_structure(recipe.learner, recipe.params, public)
    return Context(public._replace(structure=structure), bound)


def assign_leaves(recipe: Recipe, structure: Any, rows: Prepared) -> Prepared:
    """The rows with what the structure of a round says of each, if the learner parts them."""
    partition = recipe.learner.partition
    if partition is None or rows.leaf is not None:
        return rows
    return rows._replace(leaf=trace_apart(partition.place, structure, rows))


def predict_rows(recipe: Recipe, hypothesis: types.Hypothesis, rows: Prepared) -> Array:
    """What a hypothesis adds to the score of each row; of the rows nothing is kept."""
    predictions = trace_apart(recipe.learner.kind.predict_prepared, hypothesis, rows)
    return check_predictions(predictions, recipe, rows)


MAX_CACHED_BYTES = 2**28
"""The most memory for what all structures that come again say of the rows."""


def num_cached_structures(recipe: Recipe, rows: int) -> int:
    """How many structures come again in later rounds and are worked out once; 0 for none."""
    partition = recipe.learner.partition
    count = 0 if partition is None else partition.cycle
    return count if count < recipe.capacity and 2 * count * rows <= MAX_CACHED_BYTES else 0


class WeighedRows(NamedTuple):
    """What a program reads of the rows besides their content.

    Attributes:
        weights: f32[N] weights or f32[K, N] residuals, in units of cap / GRID; of an epilogue the
            scores.
        cap: f32[], the public bound on them; of an epilogue it does not count.
    """

    weights: Array
    cap: Array


def weigh_rows(
    phase: Phase, recipe: Recipe, rows: Prepared, scores: Array, context: Context
) -> WeighedRows:
    """The weights that the program of a phase reads, from the scores of the rows.

    A weight update does not know the round, because rounds that share a pass are weighed once.
    """
    if isinstance(phase, Epilogue):
        return WeighedRows(scores, context.public.cap)
    update = types.uniform if isinstance(phase, Prologue) else recipe.weight_update
    public = context.public._replace(round=np.int32(0), structure=None)
    weighted = pricing.weigh_rows(update, scores, context.bound, rows, public)
    weights = weights_on_grid(weighted.weight, rows, update.response)
    return WeighedRows(weights, weighted.cap)


def program_view(
    phase: Phase, recipe: Recipe, rows: Prepared, weighed: WeighedRows, context: Context
) -> View:
    """What the program of a phase reads, with what the structure of a round says of each row."""
    if isinstance(phase, Round):
        rows = assign_leaves(recipe, context.public.structure, rows)
    public = context.public._replace(cap=weighed.cap)
    return View(rows, weighed.weights, recipe.params, public)


class LearnedRound(NamedTuple):
    """What follows from the release of a round.

    Attributes:
        hypothesis: that is added to the scores.
        state: after the round.
    """

    hypothesis: types.Hypothesis
    state: RoundState


def finish_round(
    recipe: Recipe, release: Release, public: Public, state: RoundState
) -> LearnedRound:
    """The hypothesis of a round and the state after it, from what is public alone.

    Args:
        recipe: one setting.
        release: of the round.
        public: what is public in the round, with the cap of its weights.
        state: before the round. With an optimizer the hypothesis is what it makes of that of the
            release.
    """
    learner = recipe.learner
    hypothesis = _hypothesis_of_release(learner, release, recipe.params, public)
    optimizer = state.optimizer
    if optimizer is not None:

        def update(params: types.Params, hypothesis: types.Hypothesis, *optimizer: Any) -> Any:
            assert learner.optimizer is not None  # as `after_prologue` says
            return learner.optimizer(params).update(hypothesis, *optimizer)

        hypothesis, *optimizer = trace_of_public(
            "the optimizer", update, recipe.params, hypothesis, *optimizer
        )
    added = trace_of_public("the bound of hypotheses", learner.training.bound, hypothesis)
    return LearnedRound(hypothesis, RoundState(state.bound + check_bound(added), optimizer))


def model_hypotheses(
    recipe: Recipe, public: Public, hypotheses: types.Hypotheses, slope: Array
) -> types.Hypotheses:
    """The hypotheses of the model, from those of all rounds."""
    training = recipe.learner.training
    if training.merge is not None:
        after_all = public._replace(round=jnp.asarray(recipe.rounds, jnp.int32))
        hypotheses = trace_of_public(
            "the merger of hypotheses", training.merge, hypotheses, recipe.params, after_all
        )
    if recipe.learner.epilogue is not None:
        assert training.scale is not None  # as `WeakLearner` says
        hypotheses = trace_of_public("the scaling of hypotheses", training.scale, hypotheses, slope)
    return hypotheses


class ScoreLine(NamedTuple):
    """The line that maps scores after the last round to intercept + slope (score - start).

    Attributes:
        slope: f32[].
        intercept: f32[], or f32[K] with several classes.
    """

    slope: Array
    intercept: Array


def score_line(recipe: Recipe, prologue: Release, epilogue: Release) -> ScoreLine:
    """The line that scores are mapped by in the end, from what was released once.

    Without an epilogue it leaves scores as they are. It is worked out from the releases in one
    program, with where scores start, so that it rounds alike in memory and over blocks.
    """
    initial_score = after_prologue(recipe, prologue).public.initial_score
    if recipe.learner.epilogue is None:
        return ScoreLine(jnp.float32(1), initial_score)
    slope, intercept = trace_of_public(
        "the line of an epilogue",
        recipe.learner.epilogue.score_line,
        epilogue,
        recipe.params,
        initial_score,
    )
    return ScoreLine(jnp.asarray(slope, jnp.float32), jnp.asarray(intercept, jnp.float32))
