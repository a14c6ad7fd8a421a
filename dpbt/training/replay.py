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
from dpbt.training.scan import Answer, RunResult, run_in_memory
from dpbt.training.table_entry import prepare_table, without_domain
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
    """What `replay` returns.

    Attributes:
        log_prob: site -> f32[T], exact log densities given all earlier releases; f32[] for a site
            of the prologue or of the epilogue.
        hypotheses: what follows from the transcript alone.
    """

    log_prob: dict[Site, Array]
    hypotheses: Hypotheses


def replay(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    """Score a recorded transcript on a table, and rebuild the model from it.

    It can be differentiated in the numbers of the recipe, such as its noise multipliers. What was
    released is constant then, and so are sums over rows, since they are whole numbers.

    Args:
        transcript: as `boost` returns it.
        table: any table with the same splits: the recorded one, or a neighbour.
        recipe: the recipe.

    Raises:
        ValueError: for what is no transcript of this recipe, for one that was recorded on a table
            of another domain or form (`checks.check_transcript`), and as
            `table_entry.prepare_table`.
    """
    _check_tables_fit_transcript(transcript, [table], recipe)
    transcript = transcript._replace(recorded_on=None)
    return _compiled_replay(transcript, without_domain(table), without_domain(recipe))


def _check_tables_fit_transcript(
    transcript: Transcript, tables: Sequence[Table], recipe: Recipe
) -> None:
    """Refuse tables that a transcript is not of, as far as that is static.

    Raises:
        ValueError: as `replay`.
    """
    for table in tables:
        checks.check_run(table, recipe)
        checks.check_transcript(transcript, table, recipe)


# Always compiled: op by op, the classes of an author would be handed the values of rows.
@compilation.jit_with_bounded_cache()
@derivatives.with_derivative_in_64_bits
def _compiled_replay(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    return devices.run_divided_by_compiler(_replay_in_program, transcript, table, recipe)


def _replay_in_program(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    ran = _run_with_recorded_draws(
        transcript, [table], recipe, program_interpreters.log_prob_by_site
    )
    return Replayed(_values_by_site(ran.kept), ran.hypotheses)


@compilation.jit_with_bounded_cache()
def _compiled_log_ratios(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[Site, DrawComparison]:
    return devices.run_divided_by_compiler(
        _compare_in_program, transcript, table, neighbour, recipe
    )


def _compare_in_program(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[Site, DrawComparison]:
    return _values_by_site(
        _run_with_recorded_draws(
            transcript, [table, neighbour], recipe, program_interpreters.compare_views
        ).kept
    )


def _run_with_recorded_draws(
    transcript: Transcript, tables: Sequence[Table], recipe: Recipe, judge: Callable[..., Any]
) -> RunResult:
    """A run in memory that keeps what `judge(program, release, *views)` returns of recorded draws.

    Raises:
        ValueError: as `replay`.
    """
    prepared = [prepare_table(table, recipe) for table in tables]
    for table in tables:
        checks.check_transcript(transcript, table, recipe)

    def answer(phase: Phase, release: Release, views: Sequence[View]) -> Answer:
        return Answer(release, judge(phase.program, release, *views))

    entries = PhaseValues(**transcript.releases)
    return run_in_memory(recipe, prepared, answer, entries)


@compilation.jit_with_bounded_cache()
def redraw_hypotheses(
    keys: Array, transcript: Transcript, recipe: Recipe, absent_row_table: Table
) -> Hypotheses:
    """The hypotheses of a recorded run, with the noise of its rounds drawn again around outputs.

    It is post-processing: a mechanism draws around its own output, at the public scale of its
    noise. What was selected, the prologue and the epilogue stay as they were released.

    Args:
        keys: one typed key for each run that is made up, or several.
        transcript: with all sites of the rounds, and without the table that it was recorded on.
        recipe: the recipe.
        absent_row_table: one absent row.

    Returns:
        Hypotheses with a leading axis for keys, and then one for rounds.

    Raises:
        ValueError: if the transcript lacks a site.
    """

    def answer(phase: Phase, entry: Any, views: Sequence[View]) -> Answer:
        release, key = entry
        if not phase.repeats:
            return Answer(release, ())
        specs = program_interpreters.replay_draws(phase.program, release, views[0])
        noisy = {
            site: spec.mechanism.sample(boundary.site_key(key, site), release[site], spec.scale)
            for site, spec in specs.items()
            if not (spec.mechanism.public or spec.mechanism.is_selection)
        }
        return Answer(release | noisy, ())

    rows = [recipe.learner.training.prepare(absent_row_table)]

    def redraw(key: Array) -> Hypotheses:
        entries = PhaseValues(
            prologue=(transcript.prologue, None),
            rounds=(transcript.rounds, jax.random.split(key, recipe.max_rounds)),
            epilogue=(transcript.epilogue, None),
        )
        return run_in_memory(recipe, rows, answer, entries).hypotheses

    return jax.vmap(redraw)(keys)


def _values_by_site(values_of_phases: PhaseValues) -> dict[Site, Any]:
    """The kept values of all phases, merged into one mapping by site."""
    return {
        site: value
        for values_of_phase in values_of_phases
        for site, value in values_of_phase.items()
    }


def log_ratios_by_site(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[Site, DrawComparison]:
    """Site -> the log ratios of the densities on a table and on a neighbour, and the worst losses.

    A log ratio is the log density of a draw on the table less that on the neighbour. The worst loss
    is the worst case of a draw over all its outputs: everything released before it is as recorded,
    and the draw itself takes the output that tells the two tables apart best. By adaptive
    composition the sum over sites and rounds bounds any transcript's loss. Both are f32[T], and
    f32[] for a site of the prologue or of the epilogue.

    Args:
        transcript: as `boost` returns it.
        table: a table.
        neighbour: another of the same shape.
        recipe: the recipe.

    Raises:
        ValueError: as `replay`.
    """
    _check_tables_fit_transcript(transcript, [table, neighbour], recipe)
    transcript, recipe = transcript._replace(recorded_on=None), without_domain(recipe)
    return _compiled_log_ratios(
        transcript, without_domain(table), without_domain(neighbour), recipe
    )
