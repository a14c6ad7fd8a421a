"""Runs on tables in memory: `lax.scan` over the rounds, whose carry has the scores of the rows.

The only state between rounds is what has been released. All functions are pure and traceable. A fit
and a replay are one function, `run_in_memory`, with two interpreters of the programs of a recipe.
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
    view_of_phase,
    weigh_rows,
)
from dpbt.public_types import redacted_repr
from dpbt.training.lanes import run_in_lanes_that_need_it
from dpbt.training.phases import (
    PhaseValues,
    PublicSteps,
    RoundRelease,
    round_step,
    run_phases,
)
from dpbt.training.row_scores import predict_rows
from dpbt.training.steps import RoundState
from dpbt.types import (
    Array,
    Hypotheses,
    Hypothesis,
    Phase,
    PreparedRows,
    Public,
    Recipe,
    Release,
    ScoreLine,
    View,
)


class InterpretedPhase(NamedTuple):
    """The release and the record that an interpreter makes of a phase.

    Attributes:
        release: the release of the program, which the rest of the run reads.
        record: what the run records of the phase, such as its release or its log densities.
    """

    release: Release
    record: Any


PhaseInterpreter = Callable[[Phase, Any, Sequence[View]], InterpretedPhase]
"""(phase, its input or that of the round, the view of each table) -> `InterpretedPhase`."""


class RunResult(NamedTuple):
    """The records, the model and the scores of a run in memory.

    Attributes:
        records: the record of each phase; those of the rounds have a leading axis.
        hypotheses: the hypotheses of the model, after the epilogue, with a leading axis for rounds.
        intercept: the intercept of the model, f32[], or f32[K] with several classes.
        scores: the scores of the rows of each table, after the epilogue; None where rounds ran side
            by side.
    """

    records: PhaseValues
    hypotheses: Hypotheses
    intercept: Array
    scores: list[Array] | None

    __repr__ = redacted_repr


def run_in_memory(
    recipe: Recipe,
    tables: Sequence[PreparedRows],
    *,
    interpret_phase: PhaseInterpreter,
    phase_inputs: PhaseValues,
    num_parallel_rounds: int | None = None,
) -> RunResult:
    """Run all phases of a recipe on tables in memory, from its prologue to its epilogue.

    It is traceable. Each round weighs the rows by their scores, lets the interpreter run the
    private program, and adds the hypothesis of its release. Every function of an author is traced
    apart, so what it keeps of the rows is dead when it returns, and what is public is computed from
    what is public alone (`privacy.isolation`).

    Args:
        recipe: of the run, without an axis of settings.
        tables: prepared rows. All tables share the releases, and each has scores of its own.
        interpret_phase: runs the program of a phase, for example to sample its draws or to compute
            the density of recorded ones.
        phase_inputs: what `interpret_phase` reads, such as keys or recorded releases; that of the
            rounds has a leading axis.
        num_parallel_rounds: how many rounds run side by side, if the recipe
            `has_independent_rounds`; None to run one after the other.
    """
    run_inputs = recipe, tables, phase_inputs
    recipe, tables, phase_inputs = vary_like(run_inputs, run_inputs)
    executor = ScanExecutor(
        recipe=recipe,
        tables=tables,
        interpret_phase=interpret_phase,
        phase_inputs=phase_inputs,
        num_parallel_rounds=num_parallel_rounds,
    )
    learned = run_phases(recipe, executor)
    scores = executor.scores
    # This operation stays where no epilogue reads it: an author's noise keys depend on the trace.
    start = executor.initial_score[..., None]
    if recipe.learner.epilogue is not None:
        assert scores is not None  # as `Recipe.has_independent_rounds` says
        scores = _map_scores_by_line(scores, start, learned.line)
    return RunResult(
        records=PhaseValues(**executor.records),
        hypotheses=learned.hypotheses,
        intercept=learned.line.intercept,
        scores=scores,
    )


def _map_scores_by_line(scores: list[Array], start: Array, line: ScoreLine) -> list[Array]:
    """The scores of the model, mapped from those of the rounds by the line of an epilogue.

    Args:
        scores: of the rows of each table, f32[N], or f32[K, N] with several classes.
        start: the score that every row started from, f32[1], or f32[K, 1].
        line: the slope, and the intercept that takes the place of the start.
    """
    intercept = line.intercept[..., None]
    return [intercept + round_separately(line.slope * (score - start)) for score in scores]


class _ScoredTables(NamedTuple):
    """Prepared tables, and the scores of the rows of each."""

    tables: Sequence[PreparedRows]
    scores: Sequence[Array]


def _views_of_tables(
    recipe: Recipe, phase: Phase, context: PhaseContext, scored_tables: _ScoredTables
) -> list[View]:
    """The view that the program of a phase has of each table.

    All views have one cap of weights.
    """
    recipe_phase = RecipePhase.of_recipe(recipe, phase)
    weighed_tables = [
        weigh_rows(recipe_phase, table, score, context)
        for table, score in zip(scored_tables.tables, scored_tables.scores, strict=True)
    ]
    cap = weighed_tables[0].cap  # it follows from what was released, so all tables have it
    return [
        view_of_phase(recipe_phase, table, weighed._replace(cap=cap), recipe.params, context.public)
        for table, weighed in zip(scored_tables.tables, weighed_tables, strict=True)
    ]


@dataclasses.dataclass
class ScanExecutor:
    """The executor of a run on tables in memory, by a scan over its rounds.

    It is a `phases.Executor`, and lives within one trace.

    It lives within one trace.

    Attributes:
        recipe: as `run_in_memory` takes it.
        tables: as `run_in_memory` takes them.
        interpret_phase: as `run_in_memory` takes it.
        phase_inputs: as `run_in_memory` takes them.
        num_parallel_rounds: as `run_in_memory` takes it.
        public_steps: the plain functions of `training.steps`, which the trace of the run holds.
        scores: the scores of the rows of each table so far; None before they are set, and after
            rounds that ran side by side.
        initial_score: the score that every row started from.
        records: name of a phase -> its record.
    """

    recipe: Recipe
    tables: Sequence[PreparedRows]
    interpret_phase: PhaseInterpreter
    phase_inputs: PhaseValues
    num_parallel_rounds: int | None
    public_steps: PublicSteps = PublicSteps()  # noqa: RUF009
    scores: list[Array] | None = None
    initial_score: Array = dataclasses.field(default_factory=lambda: jnp.float32(0))
    records: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"prologue": {}, "rounds": {}, "epilogue": {}}
    )

    def release_prologue_or_epilogue(self, phase: Phase, context: PhaseContext) -> Release:
        """Release a prologue, whose rows have no scores yet, or an epilogue."""
        scores = self.scores
        if scores is None:
            scores = [jnp.zeros(rows.present.shape, jnp.float32) for rows in self.tables]
        phase_input = self.phase_inputs.of_phase(phase)
        scored_tables = _ScoredTables(self.tables, scores)
        views = _views_of_tables(self.recipe, phase, context, scored_tables)
        release, self.records[phase.name] = self.interpret_phase(phase, phase_input, views)
        return release

    def set_initial_scores(self, initial_score: Array) -> None:
        """Set the score of every row of every table to the initial one."""
        self.initial_score = initial_score
        self.scores = [
            jnp.broadcast_to(initial_score[..., None], initial_score.shape + rows.present.shape)
            for rows in self.tables
        ]

    def run_rounds(self, public: Public, state: RoundState) -> tuple[RoundState, Hypotheses]:
        """Run all rounds, one after the other or side by side.

        Returns the state after the last round, and the hypotheses with a leading axis for rounds.
        """
        assert self.scores is not None
        is_parallel = self.num_parallel_rounds is not None
        runner = _RoundRunner(
            recipe=self.recipe,
            tables=self.tables,
            interpret_phase=self.interpret_phase,
            public_steps=self.public_steps,
            public=public,
            recurring=None if is_parallel else self._recurring_structures(public, state),
            updates_scores=not is_parallel,
        )
        carry = vary_like(_Carry(self.scores, state), self.tables)
        round_inputs = _RoundInput(
            round_index=jnp.arange(self.recipe.max_rounds, dtype=jnp.int32),
            phase_input=self.phase_inputs.rounds,
        )
        if self.num_parallel_rounds is None:
            (self.scores, state), results = runner.run_in_sequence(carry, round_inputs)
        else:
            self.scores = None
            batch_size = min(self.num_parallel_rounds, self.recipe.max_rounds)
            results = runner.run_in_parallel(carry, round_inputs, batch_size=batch_size)
        self.records["rounds"] = results.record
        return state, results.hypothesis

    def _recurring_structures(
        self, public: Public, state: RoundState
    ) -> "_StructureAndLeaves | None":
        """The structures that recur, and the leaves of all rows in them, with a leading axis.

        None if they are not to be cached.
        """
        num_rows = sum(rows.present.shape[0] for rows in self.tables)
        num_cached = num_recurring_structures_to_cache(self.recipe, num_rows)
        if not num_cached:
            return None
        round_indices = jnp.arange(num_cached, dtype=jnp.int32)
        structure_of_round = functools.partial(self._structure_and_leaves, public, state.bound)
        return jax.lax.map(structure_of_round, round_indices)

    def _structure_and_leaves(
        self, public: Public, bound: Array, round_index: Array
    ) -> "_StructureAndLeaves":
        """The structure of a round by its index, and the leaf of each row of each table in it."""
        context = self.public_steps.begin_round(self.recipe, public, bound, round_index)
        structure = context.public.structure
        learner = self.recipe.learner
        leaves = [assign_leaves(learner, structure, rows).leaf for rows in self.tables]
        return _StructureAndLeaves(structure, leaves)


MAX_CACHED_BYTES = 2**28
"""The most memory for the leaves of all rows in the structures that recur."""


def num_recurring_structures_to_cache(recipe: Recipe, num_rows: int) -> int:
    """How many structures, which recur in later rounds, are computed once and cached.

    It is 0 if none recurs, or if the leaves in them would take too much memory.
    """
    partition = recipe.learner.partition
    cycle = 0 if partition is None else partition.cycle
    return cycle if cycle < recipe.max_rounds and 2 * cycle * num_rows <= MAX_CACHED_BYTES else 0


class _StructureAndLeaves(NamedTuple):
    """The structure of a round, and the leaf of each row of each table in it.

    Structures that recur in later rounds have a leading axis, and so have the leaves in them.
    """

    structure: Any
    leaves: list[Array]

    def of_round(self, round_index: Array) -> "_StructureAndLeaves":
        """The structure and the leaves of one round, taken from those that recur."""
        structure_index = round_index % len(self.leaves[0])
        return jax.tree.map(lambda array: array[structure_index], self)


class _Carry(NamedTuple):
    """The carry of the scan over rounds: the scores of the rows of each table, and the state."""

    scores: list[Array]
    state: RoundState


class _RoundInput(NamedTuple):
    """The inputs of one round of the scan; for all rounds they have a leading axis.

    Attributes:
        round_index: i32[], the index of the round, from 0.
        phase_input: what the interpreter reads for the round.
    """

    round_index: Array
    phase_input: Any


class _RoundResult(NamedTuple):
    """The results of one round of the scan; for all rounds they have a leading axis.

    Attributes:
        record: the record of the interpreter.
        hypothesis: the hypothesis of the round.
    """

    record: Any
    hypothesis: Hypothesis


class _ViewsAndRecord(NamedTuple):
    """What the executor needs once a round has its hypothesis.

    Attributes:
        views: the view of each table that the round had; predictions read its rows.
        record: the record of the interpreter.
    """

    views: Sequence[View]
    record: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RoundRunner:
    """Runs the rounds of a run in memory.

    It lives within one trace. Of the `max_rounds` rounds only the first T run, and the others leave
    zeros.

    Attributes:
        recipe: of the run, without an axis of settings.
        tables: the prepared tables.
        interpret_phase: runs the program of a round.
        public_steps: the public steps of a round.
        public: what is public in all rounds.
        recurring: the structures that recur, with a leading axis; None to compute the structure of
            each round.
        updates_scores: whether hypotheses are added to the scores; they are not if no round reads
            them.
    """

    recipe: Recipe
    tables: Sequence[PreparedRows]
    interpret_phase: PhaseInterpreter
    public_steps: PublicSteps
    public: Public
    recurring: _StructureAndLeaves | None
    updates_scores: bool

    def run_in_parallel(
        self, carry: _Carry, round_inputs: _RoundInput, *, batch_size: int
    ) -> _RoundResult:
        """Run all rounds in batches side by side.

        Each starts from the carry before all rounds.
        """
        result_or_zeros = functools.partial(self._result_or_zeros, carry)
        return jax.lax.map(result_or_zeros, round_inputs, batch_size=batch_size)

    def run_in_sequence(
        self, carry: _Carry, round_inputs: _RoundInput
    ) -> tuple[_Carry, _RoundResult]:
        """Run all rounds one after the other by a scan.

        Returns the last carry and the results of all rounds. The rounds after T cost nothing where
        no lane of a vmap needs them.
        """
        return jax.lax.scan(self._run_or_skip_round, carry, round_inputs)

    def _result_or_zeros(self, carry: _Carry, round_input: _RoundInput) -> _RoundResult:
        """Run a round, and return its result, or zeros if it comes after the first T."""
        is_active = self._is_one_of_first_rounds(round_input)
        _, result = self._run_round(carry, round_input)
        return jax.tree.map(
            lambda array: jnp.where(is_active, array, jnp.zeros_like(array)), result
        )

    def _run_or_skip_round(
        self, carry: _Carry, round_input: _RoundInput
    ) -> tuple[_Carry, _RoundResult]:
        """Run a round where any lane of a vmap needs it, and take its outcome in these lanes.

        In the other lanes the carry stays as it is, and the result is zeros. Their shapes are those
        of the round that runs. They are noted when its branch is traced, which is first, because a
        second trace of a round would take about a twentieth of the time of a first fit.
        """
        result_shapes: list[Any] = []

        def skip_round(carry: _Carry, round_input: _RoundInput) -> tuple[_Carry, _RoundResult]:
            if not result_shapes:
                _, shapes = jax.eval_shape(self._run_round, carry, round_input)
                result_shapes.append(shapes)
            zeros = jax.tree.map(
                lambda array: jnp.zeros(array.shape, array.dtype), result_shapes[0]
            )
            return carry, vary_like(zeros, carry)

        def run_round(carry: _Carry, round_input: _RoundInput) -> tuple[_Carry, _RoundResult]:
            outcome = self._run_round(carry, round_input)
            result_shapes.append(jax.tree.map(_shape_of_array, outcome[1]))
            return vary_like(outcome, carry)

        return run_in_lanes_that_need_it(
            self._is_one_of_first_rounds(round_input), run_round, skip_round, carry, round_input
        )

    def _is_one_of_first_rounds(self, round_input: _RoundInput) -> Array:
        """bool[]: whether a round is one of the first T, which run."""
        return round_input.round_index < self.recipe.rounds

    def _run_round(self, carry: _Carry, round_input: _RoundInput) -> tuple[_Carry, _RoundResult]:
        """Run one round: weigh the rows, release, learn, and add the hypothesis to the scores."""
        structure, tables = self._structure_and_tables(round_input.round_index)
        scored_tables = _ScoredTables(tables, carry.scores)
        outcome = round_step(
            self.recipe,
            public=self.public,
            state=carry.state,
            round_index=round_input.round_index,
            release_round=functools.partial(
                self._release_round, scored_tables, round_input.phase_input
            ),
            public_steps=self.public_steps,
            structure=structure,
        )
        views_and_record: _ViewsAndRecord = outcome.executor_data
        scores = carry.scores
        if self.updates_scores:
            scores = [
                score + predict_rows(self.recipe, outcome.hypothesis, view.rows)
                for score, view in zip(scores, views_and_record.views, strict=True)
            ]
        result = _RoundResult(views_and_record.record, outcome.hypothesis)
        return _Carry(scores, outcome.state), result

    def _structure_and_tables(self, round_index: Array) -> tuple[Any, Sequence[PreparedRows]]:
        """The cached structure of a round, and the tables with the leaves of their rows in it.

        The structure is None, and the tables have no leaves yet, if no structures are cached.
        """
        if self.recurring is None:
            return None, self.tables
        structure, leaves = self.recurring.of_round(round_index)
        tables = [rows._replace(leaf=leaf) for rows, leaf in zip(self.tables, leaves, strict=True)]
        return structure, tables

    def _release_round(
        self, scored_tables: _ScoredTables, phase_input: Any, context: PhaseContext
    ) -> RoundRelease:
        """Let the interpreter of the run release a round from scored tables."""
        phase = self.recipe.learner.round
        views = _views_of_tables(self.recipe, phase, context, scored_tables)
        release, record = self.interpret_phase(phase, phase_input, views)
        return RoundRelease(
            release=release,
            public=views[0].public,
            executor_data=_ViewsAndRecord(views, record),
        )


def _shape_of_array(array: Array) -> jax.ShapeDtypeStruct:
    """The shape and the dtype of an array."""
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
