"""Fits and replays in memory: the two answers to what the programs of a recipe draw.

`run_with_fresh_draws` samples every draw. `replay` and `compared` look draws up in a transcript, on
one table or on two, and `redraw_hypotheses` draws the noise of a transcript again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from dpbt.common import compilation
from dpbt.privacy import answers, boundary
from dpbt.privacy.answers import DrawComparison
from dpbt.privacy.dependencies import priced_draws
from dpbt.training import checks, round_reports, run_keys
from dpbt.training.run import PhaseValues
from dpbt.training.scan import Answer, RunResult, run
from dpbt.types import (
    Array,
    Hypotheses,
    Phase,
    Prepared,
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


def run_with_fresh_draws(
    key: Array,
    rows: Prepared,
    recipe: Recipe,
    public_key: Array | None,
    batch: int = 0,
    run_number: Array | None = None,
) -> RunResult:
    """`run` with fresh draws, which it keeps.

    With `run_number`, an i32[] of `round_reports.report_rounds`, each round is reported as it
    draws.

    Raises:
        ValueError: for public structure without a public key, and for two draws of one name.
    """

    def sample_draws(
        phase: Phase, entry: tuple[Array, Array | None], views: Sequence[View]
    ) -> Answer:
        if run_number is not None and phase.repeats:
            round_reports.report_round(run_number, views[0].public.round)
        key, public_key = entry
        priced = priced_draws(recipe, phase)
        release = answers.sample(phase.program, key, public_key, views[0], priced)
        return Answer(release, release)

    noise = run_keys.phase_keys(run_keys.derive_recipe_key(key, recipe), recipe)
    pairs = zip(noise, run_keys.phase_keys(public_key, recipe), strict=True)
    return run(recipe, [rows], sample_draws, PhaseValues(*pairs), batch)


def replay(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    """Score a recorded transcript on a table, and rebuild the model from it.

    Args:
        transcript: as `boost` returns it.
        table: any table with the same splits: the recorded one, or a neighbour.
        recipe: the recipe.

    Raises:
        ValueError: for what is no transcript of this recipe, for one that was recorded on a table
            of another domain or form (`checks.check_transcript`), and as `checks.prepare_table`.
    """
    tables = _check_and_strip(transcript, [table], recipe)
    return _replayed(transcript._replace(recorded_on=None), *tables, checks.without_domain(recipe))


def _check_and_strip(
    transcript: Transcript, tables: Sequence[Table], recipe: Recipe
) -> list[Table]:
    """The tables without their domains, after the checks of a replay.

    Raises:
        ValueError: as `replay`.
    """
    for table in tables:
        checks.check_run(table, recipe)
        checks.check_transcript(transcript, table, recipe)
    return [checks.without_domain(table) for table in tables]


# Always compiled: op by op, the classes of an author would be handed the values of rows.
@compilation.jit_with_bounded_cache()
def _replayed(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    ran = _run_with_recorded_draws(transcript, [table], recipe, answers.log_prob)
    return Replayed(_values_by_site(ran.kept), ran.hypotheses)


@compilation.jit_with_bounded_cache()
def _compared(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[Site, DrawComparison]:
    return _values_by_site(
        _run_with_recorded_draws(transcript, [table, neighbour], recipe, answers.compare_views).kept
    )


def _run_with_recorded_draws(
    transcript: Transcript, tables: Sequence[Table], recipe: Recipe, judge: Callable[..., Any]
) -> RunResult:
    """`run` with recorded draws, of which it keeps what `judge` says of (program, release, *views).

    Raises:
        ValueError: as `replay`.
    """
    prepared = [checks.prepare_table(table, recipe) for table in tables]
    for table in tables:
        checks.check_transcript(transcript, table, recipe)

    def answer(phase: Phase, release: Release, views: Sequence[View]) -> Answer:
        return Answer(release, judge(phase.program, release, *views))

    entries = PhaseValues(**transcript.releases)
    return run(recipe, prepared, answer, entries)


@compilation.jit_with_bounded_cache()
def redraw_hypotheses(
    keys: Array, transcript: Transcript, recipe: Recipe, dummy: Table
) -> Hypotheses:
    """The hypotheses of a recorded run, with the noise of its rounds drawn again around outputs.

    It is post-processing: a mechanism draws around its own output, at the public scale of its
    noise. What was selected, the prologue and the epilogue stay as they were released.

    Args:
        keys: one typed key for each run that is made up, or several.
        transcript: with all sites of the rounds, and without the table that it was recorded on.
        recipe: the recipe.
        dummy: one absent row.

    Returns:
        Hypotheses with a leading axis for keys, and then one for rounds.

    Raises:
        ValueError: if the transcript lacks a site.
    """

    def answer(phase: Phase, entry: Any, views: Sequence[View]) -> Answer:
        release, key = entry
        if not phase.repeats:
            return Answer(release, ())
        specs = answers.replay_draws(phase.program, release, views[0])
        noisy = {
            site: spec.mechanism.sample(boundary.site_key(key, site), release[site], spec.scale)
            for site, spec in specs.items()
            if not (spec.mechanism.public or spec.mechanism.selects)
        }
        return Answer(release | noisy, ())

    rows = [recipe.learner.training.prepare(dummy)]

    def redraw(key: Array) -> Hypotheses:
        entries = PhaseValues(
            prologue=(transcript.prologue, None),
            rounds=(transcript.rounds, jax.random.split(key, recipe.capacity)),
            epilogue=(transcript.epilogue, None),
        )
        return run(recipe, rows, answer, entries).hypotheses

    return jax.vmap(redraw)(keys)


def _values_by_site(kept: PhaseValues) -> dict[Site, Any]:
    """What was kept of the sites of all phases."""
    return {site: value for of_phase in kept for site, value in of_phase.items()}


def compared(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[Site, DrawComparison]:
    """Site -> the log density on the table less that on the neighbour, and the worst loss; f32[T].

    The worst loss is the worst case of a draw over all its outputs: everything released before it
    is as recorded, and the draw itself takes the output that tells the two tables apart best. By
    adaptive composition the sum over sites and rounds bounds any transcript's loss. A site of the
    prologue or of the epilogue has f32[] in place of f32[T].

    Args:
        transcript: as `boost` returns it.
        table: a table.
        neighbour: another of the same shape.
        recipe: the recipe.

    Raises:
        ValueError: as `replay`.
    """
    tables = _check_and_strip(transcript, [table, neighbour], recipe)
    return _compared(transcript._replace(recorded_on=None), *tables, checks.without_domain(recipe))
