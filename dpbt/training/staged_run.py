"""A run in memory in three programs: before its rounds, its rounds, and after them.

It gives the bits of one program that does it all (`boost.run_in_memory_with_fresh_draws`). What
happens once in a run has as much code as a round, and so takes as long to compile. As programs of
their own, the two parts outside of the rounds are compiled without optimizations.
"""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from dpbt.common import compilation
from dpbt.models.model import FittedParts
from dpbt.public_types import redacted_repr
from dpbt.training import phases
from dpbt.training.boost import interpreter_with_fresh_draws, keys_of_all_phases
from dpbt.training.phases import (
    BegunRun,
    LearnedModel,
    PhaseValues,
    fitted_parts_without_withheld_sites,
)
from dpbt.training.scan import ScanExecutor
from dpbt.training.steps import RoundState
from dpbt.training.table_preparation import prepare_table
from dpbt.types import Array, Hypotheses, PreparedRows, Recipe, Release, Table


class RunOnRows(NamedTuple):
    """A run in memory before its rounds, with all that its later programs read.

    Attributes:
        rows: the prepared rows.
        phase_keys: the keys of each phase (`boost.keys_of_all_phases`).
        begun: what the run knows before its first round.
    """

    rows: PreparedRows
    phase_keys: PhaseValues
    begun: BegunRun

    __repr__ = redacted_repr


class DoneRounds(NamedTuple):
    """The rounds of a run in memory.

    Attributes:
        state: the state of the run after the last round.
        hypotheses: those of the rounds, with a leading axis.
        releases: those of the rounds, with a leading axis.
        scores: of the rows, f32[N], or f32[K, N] with several classes; None after rounds side by
            side.
    """

    state: RoundState
    hypotheses: Hypotheses
    releases: Release
    scores: Array | None

    __repr__ = redacted_repr


class FinishedRun(NamedTuple):
    """The end of a run in memory.

    Attributes:
        epilogue: the release of the epilogue; empty without one.
        learned: the model.
    """

    epilogue: Release
    learned: LearnedModel


def begin(key: Array, table: Table, recipe: Recipe, public_key: Array | None) -> RunOnRows:
    """Prepare a table, and run what comes before the rounds of a recipe; traceable.

    Args:
        key: of the noise.
        table: in memory.
        recipe: of the run, without an axis of settings.
        public_key: of the public structure, if the recipe draws any.
    """
    rows = prepare_table(table, recipe)
    phase_keys = keys_of_all_phases(key, recipe, public_key)
    executor = _executor_of_run(recipe, rows, phase_keys)
    return RunOnRows(rows, phase_keys, phases.begin_run(recipe, executor))


def run_rounds(
    run: RunOnRows,
    recipe: Recipe,
    reporter_id: Array | None,
    num_parallel_rounds: int | None,
) -> DoneRounds:
    """Run all rounds of a run that has begun, and return their releases; traceable.

    Args:
        run: what `begin` returned.
        recipe: of the run, without an axis of settings.
        reporter_id: as `boost.run_in_memory_with_fresh_draws` takes it.
        num_parallel_rounds: as `scan.run_in_memory` takes it; static.
    """
    executor = _executor_of_run(
        recipe,
        run.rows,
        run.phase_keys,
        reporter_id=reporter_id,
        num_parallel_rounds=num_parallel_rounds,
    )
    executor.set_initial_scores(run.begun.public.initial_score)
    state, hypotheses = executor.run_rounds(run.begun.public, run.begun.state)
    return DoneRounds(
        state=state,
        hypotheses=hypotheses,
        releases=executor.records["rounds"],
        scores=None if executor.scores is None else executor.scores[0],
    )


def finish(run: RunOnRows, done: DoneRounds, recipe: Recipe) -> FinishedRun:
    """Run what comes after the rounds of a recipe, and return its model; traceable.

    Args:
        run: what `begin` returned.
        done: what `run_rounds` returned.
        recipe: of the run, without an axis of settings.
    """
    executor = _executor_of_run(recipe, run.rows, run.phase_keys)
    executor.scores = None if done.scores is None else [done.scores]
    learned = phases.finish_run(
        recipe, executor, begun=run.begun, state=done.state, hypotheses=done.hypotheses
    )
    return FinishedRun(executor.records["epilogue"], learned)


def _executor_of_run(
    recipe: Recipe,
    rows: PreparedRows,
    phase_keys: PhaseValues,
    *,
    reporter_id: Array | None = None,
    num_parallel_rounds: int | None = None,
) -> ScanExecutor:
    """Make an executor for one part of a run with fresh draws."""
    return ScanExecutor(
        recipe=recipe,
        tables=[rows],
        interpret_phase=interpreter_with_fresh_draws(recipe, reporter_id),
        phase_inputs=phase_keys,
        num_parallel_rounds=num_parallel_rounds,
    )


def _compile_part(options: Mapping[str, Any], *static: str) -> Any:
    """Make a decorator that compiles a part of a run with these compiler options.

    Its cache tells programs of other priced draws apart.
    """
    return compilation.jit_with_bounded_cache(
        static_argnames=static, cache_key_argnames=("priced",), compiler_options=options
    )


_compiled_begin = _compile_part(compilation.OLDER_EMITTER)(begin)
_compiled_begin_unoptimized = _compile_part(compilation.OLDER_EMITTER_UNOPTIMIZED)(begin)
_compiled_rounds = _compile_part(compilation.OLDER_EMITTER, "num_parallel_rounds")(run_rounds)
_compiled_finish_unoptimized = _compile_part(compilation.OLDER_EMITTER_UNOPTIMIZED)(finish)

MAX_CELLS_OF_UNOPTIMIZED_PROLOGUE = 2**22
"""The most cells of a table whose prologue runs without optimizations.

It takes 12 ns more a cell, and so 0.05 s more for so many; its program compiles 0.27 s sooner.
"""


def run_in_three_programs(
    *,
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None,
    reporter_id: Array | None,
    num_parallel_rounds: int | None,
    priced: Hashable,
) -> FittedParts:
    """Run a recipe on a table in memory by three programs, and return the fitted parts.

    Args:
        key: of the noise.
        table: in memory.
        recipe: of the run, without an axis of settings.
        public_key: of the public structure, if the recipe draws any.
        reporter_id: as `boost.run_in_memory_with_fresh_draws` takes it.
        num_parallel_rounds: as `scan.run_in_memory` takes it.
        priced: the draws of the ledger (`draw_dependencies.priced_draws_of_all_phases`), with which
            each program compares those that it runs when it is traced.
    """
    is_small = table.bins.size <= MAX_CELLS_OF_UNOPTIMIZED_PROLOGUE
    compiled_begin = _compiled_begin_unoptimized if is_small else _compiled_begin
    run = compiled_begin(key, table, recipe, public_key, priced=priced)
    done = _compiled_rounds(
        run, recipe, reporter_id, num_parallel_rounds=num_parallel_rounds, priced=priced
    )
    finished = _compiled_finish_unoptimized(run, done, recipe, priced=priced)
    return fitted_parts_without_withheld_sites(
        recipe,
        releases=PhaseValues(run.begun.prologue, done.releases, finished.epilogue),
        hypotheses=finished.learned.hypotheses,
        intercept=finished.learned.line.intercept,
    )


def num_compiled_programs() -> int:
    """How many programs of rounds were compiled so far in this process."""
    return _compiled_rounds.num_compiled
