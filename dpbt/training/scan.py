"""Runs on tables in memory: `lax.scan` over the rounds, whose carry has the scores of the rows.

The only state between rounds is what has been released. All is pure and traceable. A fit and a
replay are one function, `run_in_memory`, with two answers to what the programs of a recipe draw.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpbt.common.arithmetic import round_separately
from dpbt.privacy.phase_views import (
    PhaseContext,
    RecipePhase,
    assign_leaves,
    program_view,
    weigh_rows,
)
from dpbt.public_types import redacted_repr
from dpbt.training.phases import (
    LearnedModel,
    PhaseValues,
    PublicSteps,
    RoundRelease,
    round_step,
    run_phases,
)
from dpbt.training.row_scores import predict_rows
from dpbt.training.steps import RoundState
from dpbt.types import Array, Hypotheses, Phase, Prepared, Public, Recipe, Release, View


class Answer(NamedTuple):
    """The answer to the draws of a phase.

    Attributes:
        release: the release of the program of the phase.
        kept: what the run keeps of the phase, such as the release or its log densities.
    """

    release: Release
    kept: Any


AnswerDraws = Callable[[Phase, Any, Sequence[View]], Answer]
"""(phase, its entry or that of the round, the view of each table) -> `Answer`."""


class RunResult(NamedTuple):
    """What `run_in_memory` returns.

    Attributes:
        kept: the `Answer.kept` of each phase; that of the rounds has a leading axis for rounds.
        hypotheses: the hypotheses of the model, after the epilogue, with a leading axis for rounds.
        intercept: the intercept of the model, f32[], or f32[K] with several classes.
        scores: the scores of the rows of each table, after the epilogue; None where rounds ran side
            by side.
    """

    kept: PhaseValues
    hypotheses: Hypotheses
    intercept: Array
    scores: list[Array] | None

    __repr__ = redacted_repr


def run_in_memory(
    recipe: Recipe,
    tables: Sequence[Prepared],
    answer_draws: AnswerDraws,
    entries: PhaseValues,
    num_side_by_side: int = 0,
) -> RunResult:
    """Run a recipe from its prologue to its epilogue; traceable.

    Each round weighs the rows by their scores, asks for a release, and adds its hypothesis. Every
    function of an author is traced apart, so what it keeps of the rows is dead when it returns, and
    what is public is worked out from what is public alone (`privacy.isolation`).

    Args:
        recipe: of the run, without an axis of settings.
        tables: prepared rows. All tables share the releases, and each has scores of its own.
        answer_draws: makes a release, or judges a recorded one.
        entries: what `answer_draws` reads: an entry for each phase, and for rounds a leading axis.
        num_side_by_side: how many rounds run side by side, if the recipe
            `has_independent_rounds`; 0 to run one after the other.
    """
    executor = _ScanExecutor(
        recipe=recipe,
        tables=tables,
        answer_draws=answer_draws,
        entries=entries,
        num_side_by_side=num_side_by_side,
    )
    learned: LearnedModel = run_phases(recipe, executor)
    start, scores = executor.initial_score[..., None], executor.scores
    if recipe.learner.epilogue is not None:
        assert scores is not None  # as `Recipe.has_independent_rounds` says
        slope, intercept = learned.line
        scores = [
            intercept[..., None] + round_separately(slope * (score - start)) for score in scores
        ]
    return RunResult(
        kept=PhaseValues(**executor.kept),
        hypotheses=learned.hypotheses,
        intercept=learned.line.intercept,
        scores=scores,
    )


@dataclasses.dataclass
class _ScanExecutor:
    """The executor of a run in memory (`phases.Executor`); it lives within one trace.

    Attributes:
        recipe, tables, answer_draws, entries, num_side_by_side: as `run_in_memory` has them.
        public_steps: the plain functions of `training.steps`, which the trace of the run holds.
        scores: the scores of the rows of each table so far; None after rounds that
            ran side by side.
        initial_score: the score that every row started from.
        kept: name of a phase -> its `Answer.kept`.
    """

    recipe: Recipe
    tables: Sequence[Prepared]
    answer_draws: AnswerDraws
    entries: PhaseValues
    num_side_by_side: int
    public_steps: PublicSteps = PublicSteps()  # noqa: RUF009
    scores: list[Array] | None = None
    initial_score: Array = dataclasses.field(default_factory=lambda: jnp.float32(0))
    kept: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"prologue": {}, "rounds": {}, "epilogue": {}}
    )

    def release_once(self, phase: Phase, context: PhaseContext) -> Release:
        """The release of a prologue, whose rows have no scores yet, or of an epilogue."""
        scores = self.scores
        if scores is None:
            scores = [jnp.zeros(rows.present.shape, jnp.float32) for rows in self.tables]
        entry = self.entries.of_phase(phase)
        views = self._views(phase, context, self.tables, scores)
        answer = self.answer_draws(phase, entry, views)
        self.kept[phase.name] = answer.kept
        return answer.release

    def start_scores(self, initial_score: Array) -> None:
        """Let the score of every row of every table be the initial one."""
        self.initial_score, everyone = initial_score, initial_score[..., None]
        self.scores = [
            jnp.broadcast_to(everyone, initial_score.shape + rows.present.shape)
            for rows in self.tables
        ]

    def run_rounds(self, public: Public, state: RoundState) -> tuple[RoundState, Hypotheses]:
        """Run all rounds, one after the other or side by side."""
        recipe, scores = self.recipe, self.scores
        assert scores is not None
        cached = self._cached_structures(public, state)

        def one_round(
            carry: tuple[list[Array], RoundState], numbered: tuple[Array, Any]
        ) -> tuple[Any, Any]:
            """(carry after the round, (what was kept, hypothesis)) of one round."""
            (scores, state), (number, entry) = carry, numbered
            structure, tables = None, self.tables
            if cached is not None:
                structure, leaves = cached.of_round(number)
                tables = [
                    rows._replace(leaf=leaf) for rows, leaf in zip(tables, leaves, strict=True)
                ]

            def release_round(context: PhaseContext) -> RoundRelease:
                views = self._views(recipe.learner.round, context, tables, scores)
                answer = self.answer_draws(recipe.learner.round, entry, views)
                return RoundRelease(answer.release, views[0].public, kept=(views, answer.kept))

            outcome = round_step(
                recipe,
                public,
                state,
                number,
                release_round,
                public_steps=self.public_steps,
                structure=structure,
            )
            views, kept = outcome.kept
            if not self.num_side_by_side:  # else no round reads them
                scores = [
                    score + predict_rows(recipe, outcome.hypothesis, view.rows)
                    for score, view in zip(scores, views, strict=True)
                ]
            return (scores, outcome.state), (kept, outcome.hypothesis)

        numbered = jnp.arange(recipe.max_rounds, dtype=jnp.int32), self.entries.rounds
        if self.num_side_by_side:
            self.scores = None
            run_round = lambda entry: one_round((scores, state), entry)[1]  # noqa: E731
            self.kept["rounds"], hypotheses = _map_rounds(
                recipe, run_round, numbered, self.num_side_by_side
            )
            return state, hypotheses
        carry, kept = _scan_rounds(recipe, one_round, (scores, state), numbered)
        self.scores, state = carry
        self.kept["rounds"], hypotheses = kept
        return state, hypotheses

    def _views(
        self,
        phase: Phase,
        context: PhaseContext,
        tables: Sequence[Prepared],
        scores: Sequence[Array],
    ) -> list[View]:
        """What the program of a phase reads of each table."""
        recipe, recipe_phase = self.recipe, RecipePhase.of_recipe(self.recipe, phase)
        weighed_tables = [
            weigh_rows(recipe_phase, rows, score, context)
            for rows, score in zip(tables, scores, strict=True)
        ]
        cap = weighed_tables[0].cap  # it follows from what was released, so all tables have it
        return [
            program_view(
                recipe_phase, rows, weighed._replace(cap=cap), recipe.params, context.public
            )
            for rows, weighed in zip(tables, weighed_tables, strict=True)
        ]

    def _cached_structures(self, public: Public, state: RoundState) -> "_CachedStructures | None":
        """The structures that recur and the leaves in them; None where no cache is worth it."""
        recipe, num_rows = self.recipe, sum(rows.present.shape[0] for rows in self.tables)
        num_cached = 0 if self.num_side_by_side else num_cached_structures(recipe, num_rows)
        if not num_cached:
            return None

        def structure_and_leaves(number: Array) -> tuple[Any, list[Array]]:
            context = self.public_steps.begin_round(recipe, public, state.bound, number)
            structure = context.public.structure
            leaves = [assign_leaves(recipe.learner, structure, rows).leaf for rows in self.tables]
            return structure, leaves

        numbers = jnp.arange(num_cached, dtype=jnp.int32)
        structures, leaves = jax.lax.map(structure_and_leaves, numbers)
        return _CachedStructures(num_cached, structures, leaves)


MAX_CACHED_BYTES = 2**28
"""The most memory for the leaves of all rows in the structures that recur."""


def num_cached_structures(recipe: Recipe, num_rows: int) -> int:
    """How many structures recur in later rounds and are worked out once; 0 to cache none."""
    partition = recipe.learner.partition
    cycle = 0 if partition is None else partition.cycle
    return cycle if cycle < recipe.max_rounds and 2 * cycle * num_rows <= MAX_CACHED_BYTES else 0


class _CachedStructures(NamedTuple):
    """Structures that recur in later rounds, and the leaf of each row in them.

    Attributes:
        num_structures: how many there are.
        structures: with a leading axis for them.
        leaves: of each table, with a leading axis for structures.
    """

    num_structures: int
    structures: Any
    leaves: list[Array]

    def of_round(self, number: Array) -> tuple[Any, list[Array]]:
        """The structure of a round, and the leaves of each table in it."""
        place = number % self.num_structures
        return jax.tree.map(lambda array: array[place], (self.structures, self.leaves))


def _map_rounds(
    recipe: Recipe, run_round: Callable[[Any], Any], entries: Any, num_side_by_side: int
) -> tuple[Any, Hypotheses]:
    """The results of the first T of `max_rounds` rounds, a batch side by side; zeros for others."""

    def run_active(numbered: tuple[Array, Any]) -> Any:
        active, kept = numbered[0] < recipe.rounds, run_round(numbered)
        return jax.tree.map(lambda array: jnp.where(active, array, jnp.zeros_like(array)), kept)

    return jax.lax.map(run_active, entries, batch_size=min(num_side_by_side, recipe.max_rounds))


@jax.custom_batching.custom_vmap
def _any_lane(flag: Array) -> Array:
    """The flag; under vmap, whether any lane has it. So a cond on it stays a cond under vmap."""
    return flag


@_any_lane.def_vmap
def _any_lane_of_batch(
    axis_size: int, in_batched: Sequence[bool], flag: Array
) -> tuple[Array, bool]:
    return (_any_lane(jnp.any(flag, axis=0)) if in_batched[0] else flag), False


def _scan_rounds(
    recipe: Recipe, one_round: Callable[[Any, Any], tuple[Any, Any]], state: Any, entries: Any
) -> tuple[Any, Any]:
    """`lax.scan` of `one_round` over the first T of `max_rounds` entries; the others give zeros.

    The other entries cost nothing where no lane of a vmap needs them. (A cond on a batched flag
    would run both branches and copy the table for every lane.)
    """
    # What a round keeps. A jit of the round would know it too, but would hold the tables for good.
    shapes: list[Any] = []

    def skip(state: Any, entry: Any) -> tuple[Any, Any]:
        kept = shapes[-1] if shapes else jax.eval_shape(one_round, state, entry)[1]
        return state, jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), kept)

    def run_or_skip(state: Any, entry: Any) -> tuple[Any, Any]:
        is_active = entry[0] < recipe.rounds

        def run_round(state: Any, entry: Any) -> tuple[Any, Any]:
            state_and_kept = one_round(state, entry)
            shapes.append(
                jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), state_and_kept[1])
            )
            return jax.tree.map(
                lambda ran, skipped: jnp.where(is_active, ran, skipped),
                state_and_kept,
                skip(state, entry),
            )

        return jax.lax.cond(_any_lane(is_active), run_round, skip, state, entry)

    return jax.lax.scan(run_or_skip, state, entries)
