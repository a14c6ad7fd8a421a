"""Runs on tables in memory: `lax.scan` over the rounds, whose carry has the scores of the rows.

The only state between rounds is what has been released. All is pure and traceable. A fit and a
replay are one function, `run_in_memory`, with two answers to what the programs of a recipe draw.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpbt.common.arithmetic import round_separately
from dpbt.common.devices import vary_like
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
from dpbt.types import Array, Hypotheses, Hypothesis, Phase, Prepared, Public, Recipe, Release, View


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
    run_inputs = recipe, tables, entries
    recipe, tables, entries = vary_like(run_inputs, run_inputs)
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
        views = self.views_of_phase(phase, context, _ScoredTables(self.tables, scores))
        answer = self.answer_draws(phase, entry, views)
        self.kept[phase.name] = answer.kept
        return answer.release

    def set_initial_scores(self, initial_score: Array) -> None:
        """Let the score of every row of every table be the initial one."""
        self.initial_score, everyone = initial_score, initial_score[..., None]
        self.scores = [
            jnp.broadcast_to(everyone, initial_score.shape + rows.present.shape)
            for rows in self.tables
        ]

    def run_rounds(self, public: Public, state: RoundState) -> tuple[RoundState, Hypotheses]:
        """Run all rounds, one after the other or side by side."""
        assert self.scores is not None
        rounds = _RoundsOfRun(
            executor=self, public=public, cached=self._cached_structures(public, state)
        )
        before_rounds = vary_like(_ScoresAndState(self.scores, state), self.tables)
        numbers = jnp.arange(self.recipe.max_rounds, dtype=jnp.int32)
        entries = _NumberedEntry(numbers, self.entries.rounds)
        if self.num_side_by_side:
            self.scores = None
            results = rounds.run_side_by_side(before_rounds, entries)
        else:
            (self.scores, state), results = rounds.run_in_turn(before_rounds, entries)
        self.kept["rounds"] = results.kept
        return state, results.hypothesis

    def views_of_phase(
        self, phase: Phase, context: PhaseContext, rows: "_ScoredTables"
    ) -> list[View]:
        """What the program of a phase reads of each table."""
        recipe, recipe_phase = self.recipe, RecipePhase.of_recipe(self.recipe, phase)
        weighed_tables = [
            weigh_rows(recipe_phase, table, score, context)
            for table, score in zip(rows.tables, rows.scores, strict=True)
        ]
        cap = weighed_tables[0].cap  # it follows from what was released, so all tables have it
        return [
            program_view(
                recipe_phase, table, weighed._replace(cap=cap), recipe.params, context.public
            )
            for table, weighed in zip(rows.tables, weighed_tables, strict=True)
        ]

    def _cached_structures(self, public: Public, state: RoundState) -> "_CachedStructures | None":
        """The structures that recur and the leaves in them; None where no cache is worth it."""
        recipe, num_rows = self.recipe, sum(rows.present.shape[0] for rows in self.tables)
        num_cached = 0 if self.num_side_by_side else num_cached_structures(recipe, num_rows)
        if not num_cached:
            return None
        numbers = jnp.arange(num_cached, dtype=jnp.int32)
        structures, leaves = jax.lax.map(
            functools.partial(self._structure_and_leaves, public, state.bound), numbers
        )
        return _CachedStructures(num_cached, structures, leaves)

    def _structure_and_leaves(
        self, public: Public, bound: Array, round_number: Array
    ) -> "_StructureAndLeaves":
        """The structure of a round by its number, and the leaf of each row of each table in it."""
        context = self.public_steps.begin_round(self.recipe, public, bound, round_number)
        structure = context.public.structure
        learner = self.recipe.learner
        leaves = [assign_leaves(learner, structure, rows).leaf for rows in self.tables]
        return _StructureAndLeaves(structure, leaves)


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

    def structure_and_leaves_of_round(self, round_number: Array) -> "_StructureAndLeaves":
        """The structure of a round, and the leaves of each table in it."""
        place = round_number % self.num_structures
        return jax.tree.map(
            lambda array: array[place], _StructureAndLeaves(self.structures, self.leaves)
        )


class _StructureAndLeaves(NamedTuple):
    """The structure of a round, and the leaf of each row of each table in it."""

    structure: Any
    leaves: list[Array]


class _ScoredTables(NamedTuple):
    """Prepared tables, and the scores of the rows of each."""

    tables: Sequence[Prepared]
    scores: Sequence[Array]


class _ScoresAndState(NamedTuple):
    """The carry of the loop over rounds: the scores of the rows of each table, and the state."""

    scores: list[Array]
    state: RoundState


class _NumberedEntry(NamedTuple):
    """The number of a round and its entry; of all rounds, both with a leading axis."""

    number: Array
    entry: Any


class _RoundResult(NamedTuple):
    """The hypothesis and the kept values of a round; for all rounds both have a leading axis.

    Attributes:
        kept: its `Answer.kept`.
        hypothesis: its hypothesis.
    """

    kept: Any
    hypothesis: Hypothesis


class _ViewsAndKept(NamedTuple):
    """The views that a round drew on, and its `Answer.kept`."""

    views: Sequence[View]
    kept: Any


@dataclasses.dataclass(kw_only=True)
class _RoundsOfRun:
    """The rounds of a run in memory; like their executor they live within one trace.

    Of the `max_rounds` rounds only the first T run, and the others leave zeros.

    Attributes:
        executor: the executor of the run.
        public: what is public in all rounds.
        cached: the structures that recur; None where no cache is worth it.
        result_shapes: the shapes of a `_RoundResult`, once a round was traced. A jit of the round
            would know them too, but would hold the tables for good.
    """

    executor: _ScanExecutor
    public: Public
    cached: _CachedStructures | None
    result_shapes: _RoundResult | None = None

    def run_side_by_side(self, before: _ScoresAndState, entries: _NumberedEntry) -> _RoundResult:
        """Run all rounds in batches side by side; each starts from the carry before all rounds."""
        batch_size = min(self.executor.num_side_by_side, self.executor.recipe.max_rounds)
        return jax.lax.map(
            functools.partial(self._result_or_zeros, before), entries, batch_size=batch_size
        )

    def run_in_turn(
        self, before: _ScoresAndState, entries: _NumberedEntry
    ) -> tuple[_ScoresAndState, _RoundResult]:
        """Run all rounds one after the other; return the last carry and the results of all rounds.

        The rounds after T cost nothing where no lane of a vmap needs them. (A cond on a batched
        flag would run both branches and copy the table for every lane.)
        """
        return jax.lax.scan(self._run_or_skip, before, entries)

    def _result_or_zeros(self, before: _ScoresAndState, entry: _NumberedEntry) -> _RoundResult:
        """The result of a round; zeros after T."""
        is_active = self._is_active(entry)
        _, result = self._run_round(before, entry)
        return jax.tree.map(
            lambda array: jnp.where(is_active, array, jnp.zeros_like(array)), result
        )

    def _run_or_skip(
        self, before: _ScoresAndState, entry: _NumberedEntry
    ) -> tuple[_ScoresAndState, _RoundResult]:
        """Run a round where any lane of a vmap needs it."""
        is_active = self._is_active(entry)
        run = functools.partial(self._run_where_active, is_active)
        return jax.lax.cond(any_lane(is_active), run, self._skip_round, before, entry)

    def _run_where_active(
        self, is_active: Array, before: _ScoresAndState, entry: _NumberedEntry
    ) -> tuple[_ScoresAndState, _RoundResult]:
        """Run a round, and take its outcome in the lanes that need it."""
        outcome = self._run_round(before, entry)
        self.result_shapes = jax.tree.map(
            lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), outcome[1]
        )
        outcome = jax.tree.map(
            lambda ran, skipped: jnp.where(is_active, ran, skipped),
            outcome,
            self._skip_round(before, entry),
        )
        return vary_like(outcome, before)

    def _skip_round(
        self, before: _ScoresAndState, entry: _NumberedEntry
    ) -> tuple[_ScoresAndState, _RoundResult]:
        """Return the carry unchanged, with zeros as the result of the round."""
        shapes = self.result_shapes
        if shapes is None:
            _, shapes = jax.eval_shape(self._run_round, before, entry)
        zeros = jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), shapes)
        return before, vary_like(zeros, before)

    def _is_active(self, entry: _NumberedEntry) -> Array:
        """bool[], whether a round is one of the first T."""
        return entry.number < self.executor.recipe.rounds

    def _run_round(
        self, before: _ScoresAndState, entry: _NumberedEntry
    ) -> tuple[_ScoresAndState, _RoundResult]:
        """Run one round: weigh the rows, release, learn, and add the hypothesis to the scores."""
        executor = self.executor
        structure, rows = self._structure_and_rows(entry.number, before.scores)
        outcome = round_step(
            executor.recipe,
            self.public,
            before.state,
            entry.number,
            functools.partial(self._release_round, rows, entry.entry),
            public_steps=executor.public_steps,
            structure=structure,
        )
        views, kept = outcome.kept
        scores = before.scores
        if not executor.num_side_by_side:  # else no round reads them
            scores = [
                score + predict_rows(executor.recipe, outcome.hypothesis, view.rows)
                for score, view in zip(scores, views, strict=True)
            ]
        return _ScoresAndState(scores, outcome.state), _RoundResult(kept, outcome.hypothesis)

    def _structure_and_rows(self, number: Array, scores: list[Array]) -> tuple[Any, _ScoredTables]:
        """The structure of a round where it is cached, and the rows with their leaves in it."""
        tables = self.executor.tables
        if self.cached is None:
            return None, _ScoredTables(tables, scores)
        structure, leaves = self.cached.structure_and_leaves_of_round(number)
        tables = [rows._replace(leaf=leaf) for rows, leaf in zip(tables, leaves, strict=True)]
        return structure, _ScoredTables(tables, scores)

    def _release_round(
        self, rows: _ScoredTables, entry: Any, context: PhaseContext
    ) -> RoundRelease:
        """The release of a round on some rows, as the answers of the run have it."""
        phase = self.executor.recipe.learner.round
        views = self.executor.views_of_phase(phase, context, rows)
        answer = self.executor.answer_draws(phase, entry, views)
        return RoundRelease(answer.release, views[0].public, kept=_ViewsAndKept(views, answer.kept))


@jax.custom_batching.custom_vmap
def any_lane(flag: Array) -> Array:
    """The flag; under vmap, whether any lane has it. So a cond on it stays a cond under vmap."""
    return flag


@any_lane.def_vmap
def _batch_any_lane(axis_size: int, in_batched: Sequence[bool], flag: Array) -> tuple[Array, bool]:
    return (any_lane(jnp.any(flag, axis=0)) if in_batched[0] else flag), False
