"""Replays of recorded transcripts in memory.

`replay` scores a transcript on one table, and `log_ratios_by_site` compares its densities on two.
`redraw_hypotheses` draws the noise of its rounds again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from dpbt.common import compilation, derivatives, devices
from dpbt.privacy import boundary, program_interpreters
from dpbt.privacy.program_interpreters import DrawComparison
from dpbt.training import checks
from dpbt.training.phases import PhaseValues
from dpbt.training.scan import InterpretedPhase, RunResult, run_in_memory
from dpbt.training.table_preparation import prepare_table, without_domain
from dpbt.types import (
    Array,
    Hypotheses,
    Phase,
    Recipe,
    Release,
    Site,
    Table,
    Transcript,
    View,
)


class Replayed(NamedTuple):
    """The log densities of a recorded transcript on a table, and its hypotheses.

    Attributes:
        log_prob: site -> f32[T], exact log densities given all earlier releases; f32[] for a site
            of the prologue or of the epilogue.
        hypotheses: what follows from the transcript alone.
    """

    log_prob: dict[Site, Array]
    hypotheses: Hypotheses


def replay(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    """Compute the log densities of a transcript on a table, and rebuild its hypotheses.

    It can be differentiated in the numbers of the recipe, such as its noise multipliers. What was
    released is constant then, and so are sums over rows, since they are whole numbers.

    Args:
        transcript: as `boost` returns it.
        table: any table with the same splits: the recorded one, or a neighbour.
        recipe: the recipe.

    Raises:
        ValueError: for what is no transcript of this recipe, for one that was recorded on a table
            of another domain or form (`checks.check_transcript`), and as
            `table_preparation.prepare_table`.
    """
    _check_tables_fit_transcript(transcript, [table], recipe)
    transcript = transcript._replace(recorded_on=None)
    return _compiled_replay(transcript, without_domain(table), without_domain(recipe))


def _check_tables_fit_transcript(
    transcript: Transcript, tables: Sequence[Table], recipe: Recipe
) -> None:
    """Refuse tables and a recipe that a transcript does not fit, as far as that is static.

    Raises:
        ValueError: as `replay`.
    """
    for table in tables:
        checks.check_table_and_recipe(table, recipe)
        checks.check_transcript(transcript, table, recipe)


# Always compiled: op by op, the classes of an author would be handed the values of rows.
@compilation.jit_with_bounded_cache()
@derivatives.with_derivative_in_64_bits
def _compiled_replay(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    """Replay a transcript on a table, by a compiled program, on checked arguments.

    The table and the recipe have no domains, so that all domains share a program.
    """
    return devices.run_divided_by_compiler(_replay_in_sharded_program, transcript, table, recipe)


def _replay_in_sharded_program(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    """Replay a transcript within a program that the compiler may divide among devices."""
    run_result = _run_with_recorded_draws(
        transcript, [table], recipe, judge_draws=program_interpreters.log_prob_by_site
    )
    return Replayed(log_prob=_records_by_site(run_result.records), hypotheses=run_result.hypotheses)


@compilation.jit_with_bounded_cache()
def _compiled_log_ratios(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[Site, DrawComparison]:
    """Compare two tables by a transcript, by a compiled program, on checked arguments.

    The tables and the recipe have no domains, so that all domains share a program.
    """
    return devices.run_divided_by_compiler(
        _log_ratios_in_sharded_program, transcript, table, neighbour, recipe
    )


def _log_ratios_in_sharded_program(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[Site, DrawComparison]:
    """Compare two tables within a program that the compiler may divide among devices."""
    run_result = _run_with_recorded_draws(
        transcript, [table, neighbour], recipe, judge_draws=program_interpreters.compare_views
    )
    return _records_by_site(run_result.records)


def _run_with_recorded_draws(
    transcript: Transcript,
    tables: Sequence[Table],
    recipe: Recipe,
    *,
    judge_draws: Callable[..., dict[Site, Any]],
) -> RunResult:
    """Run a recipe in memory on recorded draws, and record a judgement of each draw by site.

    Args:
        transcript: the recorded draws.
        tables: the tables, all of one form.
        recipe: of the run, without an axis of settings.
        judge_draws: (program, recorded release, a view of each table) -> site -> what is recorded
            of its draw, such as its log density.

    Raises:
        ValueError: as `replay`.
    """
    prepared = [prepare_table(table, recipe) for table in tables]
    for table in tables:
        checks.check_transcript(transcript, table, recipe)

    def judge_release(phase: Phase, release: Release, views: Sequence[View]) -> InterpretedPhase:
        return InterpretedPhase(release=release, record=judge_draws(phase.program, release, *views))

    return run_in_memory(
        recipe,
        prepared,
        interpret_phase=judge_release,
        phase_inputs=PhaseValues(**transcript.releases),
    )


@compilation.jit_with_bounded_cache()
def redraw_hypotheses(
    keys: Array, transcript: Transcript, recipe: Recipe, absent_row_table: Table
) -> Hypotheses:
    """Draw fresh noise around the recorded outputs of all rounds, and rebuild the hypotheses.

    It is post-processing: a mechanism draws around its recorded output, at the public scale of its
    noise. What was selected, the prologue and the epilogue stay as they were released.

    Args:
        keys: a leading axis of typed keys, one for each redrawn run.
        transcript: with all sites of the rounds, and without the table that it was recorded on.
        recipe: the recipe.
        absent_row_table: one absent row.

    Returns:
        Hypotheses with a leading axis for keys, and then one for rounds.

    Raises:
        ValueError: if the transcript lacks a site.
    """

    def redraw_noise(
        phase: Phase, release_and_key: tuple[Release, Array], views: Sequence[View]
    ) -> InterpretedPhase:
        release, key = release_and_key
        if not phase.repeats:
            return InterpretedPhase(release=release, record=())
        specs = program_interpreters.replay_draws(phase.program, release, views[0])
        noisy = {
            site: spec.mechanism.sample(boundary.site_key(key, site), release[site], spec.scale)
            for site, spec in specs.items()
            if not (spec.mechanism.public or spec.mechanism.is_selection)
        }
        return InterpretedPhase(release=release | noisy, record=())

    rows = [recipe.learner.training.prepare(absent_row_table)]

    def redraw(key: Array) -> Hypotheses:
        releases_and_keys = PhaseValues(
            prologue=(transcript.prologue, None),
            rounds=(transcript.rounds, jax.random.split(key, recipe.max_rounds)),
            epilogue=(transcript.epilogue, None),
        )
        run_result = run_in_memory(
            recipe, rows, interpret_phase=redraw_noise, phase_inputs=releases_and_keys
        )
        return run_result.hypotheses

    return jax.vmap(redraw)(keys)


def _records_by_site(records: PhaseValues) -> dict[Site, Any]:
    """Merge the records of all phases, each of them by site, into one mapping by site."""
    return {site: record for phase_record in records for site, record in phase_record.items()}


def log_ratios_by_site(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[Site, DrawComparison]:
    """Compare the densities of recorded draws on a table and on a neighbour, by site.

    Returns site -> the log ratios of the densities and the worst losses. A log ratio is the log
    density of a draw on the table less that on the neighbour. The worst loss is the worst case of a
    draw over all its outputs: everything released before it is as recorded, and the draw itself
    takes the output that tells the two tables apart best. By adaptive composition the sum over
    sites and rounds bounds any transcript's loss. Both are f32[T], and f32[] for a site of the
    prologue or of the epilogue.

    Args:
        transcript: as `boost` returns it.
        table: a table.
        neighbour: another of the same shape.
        recipe: the recipe.

    Raises:
        ValueError: as `replay`.
    """
    _check_tables_fit_transcript(transcript, [table, neighbour], recipe)
    return _compiled_log_ratios(
        transcript._replace(recorded_on=None),
        without_domain(table),
        without_domain(neighbour),
        without_domain(recipe),
    )
