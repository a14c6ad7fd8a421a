"""The phases of a run, from its prologue to its epilogue, written once for all executors.

An executor holds the rows and their scores, and releases what the programs of the phases draw. It
is the `scan` over a table in memory, or the loop over `blocks`. All else is public.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jaxtyping import Int32

from dpbt.models.model import FittedParts
from dpbt.privacy.phase_views import PhaseContext
from dpbt.public_types import redacted_repr
from dpbt.training import steps
from dpbt.training.steps import RoundState
from dpbt.types import (
    Array,
    Hypotheses,
    Hypothesis,
    Phase,
    Public,
    Recipe,
    Release,
    ScoreLine,
    Site,
    Transcript,
)


class PublicSteps(NamedTuple):
    """The steps of a run that follow from releases alone, as an executor calls them.

    In memory they are traced into one program. Over blocks each is compiled by itself.

    Attributes:
        finish_prologue: `steps.finish_prologue`.
        begin_round: `steps.begin_round`.
        finish_round: `steps.finish_round`.
        score_line: `steps.score_line`.
        merge_and_scale_hypotheses: `steps.merge_and_scale_hypotheses`.
    """

    finish_prologue: Callable[..., steps.AfterPrologue] = steps.finish_prologue
    begin_round: Callable[..., PhaseContext] = steps.begin_round
    finish_round: Callable[..., steps.LearnedRound] = steps.finish_round
    score_line: Callable[..., ScoreLine] = steps.score_line
    merge_and_scale_hypotheses: Callable[..., Hypotheses] = steps.merge_and_scale_hypotheses


class RoundRelease(NamedTuple):
    """The release of a round, with what its executor needs after the round.

    Attributes:
        release: the release of the program of the round, with arrays of JAX or of NumPy.
        public: the public information of the round, with the cap of its weights.
        executor_data: what the executor that released needs once the round has its hypothesis.
            `round_step` returns it as it is.
    """

    release: dict[Site, Any]
    public: Public
    executor_data: Any


class RoundOutcome(NamedTuple):
    """The outcome of a round.

    Attributes:
        hypothesis: the hypothesis that is added to the scores.
        state: the state of the run after the round.
        executor_data: the `RoundRelease.executor_data` of the round.
    """

    hypothesis: Hypothesis
    state: RoundState
    executor_data: Any


class Executor(Protocol):
    """Holds rows and their scores, and runs the private programs of phases on them.

    Attributes:
        public_steps: the steps that follow from releases alone, plain or compiled one by one.
    """

    public_steps: PublicSteps

    def release_prologue_or_epilogue(self, phase: Phase, context: PhaseContext) -> Release:
        """Run the program of a prologue or of an epilogue on the rows, and return its release."""
        ...

    def set_initial_scores(self, initial_score: Array) -> None:
        """Set the score of every row to the initial one."""
        ...

    def run_rounds(self, public: Public, state: RoundState) -> tuple[RoundState, Hypotheses]:
        """Run all rounds by `round_step`, and add their hypotheses to the scores.

        Returns:
            The state after the last round, and the hypotheses with a leading axis for rounds.
        """
        ...


class LearnedModel(NamedTuple):
    """The hypotheses and the score line of a run, before they become a model.

    Attributes:
        hypotheses: the hypotheses of the model, after the epilogue, with a leading axis for rounds.
        line: it maps the scores of the rounds to those of the model, and has the model's intercept.
    """

    hypotheses: Hypotheses
    line: ScoreLine


class BegunRun(NamedTuple):
    """What a run knows before its first round.

    Attributes:
        prologue: the release of the prologue; empty without one.
        public: what is public in all rounds.
        state: the state of the run before the first round.
    """

    prologue: Release
    public: Public
    state: RoundState


def run_phases(recipe: Recipe, executor: Executor) -> LearnedModel:
    """Run the prologue, the rounds and the epilogue of a recipe on the rows of an executor.

    Args:
        recipe: of the run, without an axis of settings.
        executor: holds the rows.
    """
    begun = begin_run(recipe, executor)
    executor.set_initial_scores(begun.public.initial_score)
    state, hypotheses = executor.run_rounds(begun.public, begun.state)
    return finish_run(recipe, executor, begun=begun, state=state, hypotheses=hypotheses)


def begin_run(recipe: Recipe, executor: Executor) -> BegunRun:
    """Release the prologue of a recipe, and derive what is public in all rounds.

    Args:
        recipe: of the run, without an axis of settings.
        executor: holds the rows, which have no scores yet.
    """
    prologue: Release = {}
    if recipe.learner.prologue is not None:
        context = PhaseContext(recipe.public(), jnp.float32(0))
        prologue = executor.release_prologue_or_epilogue(recipe.learner.prologue, context)
    public, state = executor.public_steps.finish_prologue(recipe, prologue)
    return BegunRun(prologue, public, state)


def finish_run(
    recipe: Recipe,
    executor: Executor,
    *,
    begun: BegunRun,
    state: RoundState,
    hypotheses: Hypotheses,
) -> LearnedModel:
    """Release the epilogue of a recipe, and learn the model from the hypotheses of all rounds.

    Args:
        recipe: of the run, without an axis of settings.
        executor: holds the rows and their scores after all rounds.
        begun: what the run knew before its first round.
        state: the state of the run after the last round.
        hypotheses: those of the rounds, with a leading axis.
    """
    learner, public_steps, public = recipe.learner, executor.public_steps, begun.public
    epilogue: Release = {}
    if learner.epilogue is not None:
        after_all = public._replace(round=jnp.asarray(recipe.rounds, jnp.int32))
        epilogue = executor.release_prologue_or_epilogue(
            learner.epilogue, PhaseContext(after_all, state.bound)
        )
    line = public_steps.score_line(recipe, begun.prologue, epilogue)
    hypotheses = public_steps.merge_and_scale_hypotheses(recipe, public, hypotheses, line.slope)
    return LearnedModel(hypotheses, line)


def round_step(
    recipe: Recipe,
    *,
    public: Public,
    state: RoundState,
    round_index: Int32[Array, ""],
    release_round: Callable[[PhaseContext], RoundRelease],
    public_steps: PublicSteps,
    structure: Any = None,
) -> RoundOutcome:
    """Run one round: build its context, let the executor release, and learn the hypothesis.

    Args:
        recipe: of the run, without an axis of settings.
        public: what is public in all rounds.
        state: the state of the run before the round.
        round_index: i32[], the index of the round, from 0.
        release_round: the executor's function from the context to the release of the round.
        public_steps: the steps of the executor.
        structure: the structure of the round, if it is known already.
    """
    context = public_steps.begin_round(recipe, public, state.bound, round_index, structure)
    released = release_round(context)
    learned = public_steps.finish_round(recipe, released.release, released.public, state)
    return RoundOutcome(
        hypothesis=learned.hypothesis,
        state=learned.state,
        executor_data=released.executor_data,
    )


class PhaseValues(NamedTuple):
    """A value for each phase of a run, such as its keys or its recorded release.

    Attributes:
        prologue: the value of the prologue.
        rounds: the values of the rounds, with a leading axis.
        epilogue: the value of the epilogue.
    """

    prologue: Any
    rounds: Any
    epilogue: Any

    def of_phase(self, phase: Phase) -> Any:
        """The value that belongs to a phase, by its name."""
        return getattr(self, phase.name)

    __repr__ = redacted_repr


def fitted_parts_without_withheld_sites(
    recipe: Recipe, *, releases: PhaseValues, hypotheses: Hypotheses, intercept: Array
) -> FittedParts:
    """The parts of a model, whose transcript leaves out the sites that the learner withholds.

    Args:
        recipe: of the run.
        releases: the release of each phase, with all sites.
        hypotheses: the hypotheses of the model, with a leading axis for rounds.
        intercept: the intercept of the model, f32[], or f32[K] with several classes.
    """

    def without_withheld_sites(release: Release) -> Release:
        withheld = recipe.learner.withheld
        return {site: array for site, array in release.items() if site not in withheld}

    transcript = Transcript(
        prologue=without_withheld_sites(releases.prologue),
        rounds=without_withheld_sites(releases.rounds),
        epilogue=without_withheld_sites(releases.epilogue),
    )
    return FittedParts(transcript=transcript, hypotheses=hypotheses, intercept=intercept)
