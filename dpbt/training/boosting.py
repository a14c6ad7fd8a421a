"""Boosting: each round weighs the rows, learns a hypothesis, and adds it to the scores.

The only state between rounds is what has been released. All is pure and traceable. A fit and a
replay are one function, `run`, with two answers to what the programs of a recipe draw.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpbt.common import compilation
from dpbt.privacy import boundary, pricing
from dpbt.privacy.mechanism import StepLoss
from dpbt.public_types import redacted_repr
from dpbt.training import step
from dpbt.training.step import Context, PhaseValues
from dpbt.types import Array, Hypotheses, Prepared, Recipe, Release, Table, Transcript, View

# The loop.

Answer = Callable[[str, Any, Sequence[View]], tuple[Release, Any]]
"""(part, entry, what its program reads of each table) -> (its release, what to keep of it)."""


class RunResult(NamedTuple):
    """What `run` returns.

    Attributes:
        kept: of each part, what the answer kept.
        hypotheses: of the model, after the epilogue, with a leading axis for rounds.
        intercept: of the model.
        scores: of each table, after the epilogue; None where rounds ran side by side.
    """

    kept: PhaseValues
    hypotheses: Hypotheses
    intercept: Array
    scores: list[Array] | None

    __repr__ = redacted_repr


def run(
    recipe: Recipe, tables: Sequence[Prepared], answer: Answer, entries: Any, batch: int = 0
) -> RunResult:
    """Run a recipe from its prologue to its epilogue; traceable.

    Each round weighs the rows by their scores, asks for a release, and adds its hypothesis. Every
    function of an author is traced apart, so what it keeps of the rows is dead when it returns, and
    what is public is worked out from what is public alone (`apart`).

    Args:
        recipe: one setting.
        tables: prepared rows. All tables share the releases, and each has scores of its own.
        answer: makes a release, or judges a recorded one.
        entries: what it is given: a field for each part, of rounds with a leading axis.
        batch: how many rounds run side by side, of a recipe that is `independent`; 0 to run one
            after the other.
    """
    learner = recipe.learner

    def asked(
        part: str, entry: Any, context: Context, scores: Sequence[Array], tables: Any = tables
    ) -> tuple[Release, Any, list[View]]:
        weighed = [
            step.weigh_rows(part, recipe, rows, score, context)
            for rows, score in zip(tables, scores, strict=True)
        ]
        shared = weighed[0][1]  # the cap follows from what was released, so all have it
        views = [
            step.program_view(part, recipe, rows, (weights, shared), context)
            for rows, (weights, _) in zip(tables, weighed, strict=True)
        ]
        return *answer(part, entry, views), views

    # The prologue.
    nothing = [jnp.zeros(rows.present.shape, jnp.float32) for rows in tables]
    prologue, opening = {}, {}
    if learner.prologue is not None:
        context = Context(recipe.public(), jnp.float32(0))
        prologue, opening, _ = asked("prologue", entries.prologue, context, nothing)
    public, start, resting = step.after_prologue(recipe, prologue)
    everyone = start[..., None]
    scores = [jnp.broadcast_to(everyone, start.shape + rows.present.shape) for rows in tables]
    bound = jnp.max(jnp.abs(start))

    # The rounds. Structures that come again are worked out once, and what they say of each row.
    def turn(number: Array) -> Any:
        structure = step.round_context(recipe, public, bound, number).public.structure
        return structure, [step.assign_leaves(recipe, structure, rows).leaf for rows in tables]

    count = (
        0
        if batch
        else step.num_cached_structures(recipe, sum(rows.present.shape[0] for rows in tables))
    )
    cycle = jax.lax.map(turn, jnp.arange(count, dtype=jnp.int32)) if count else None

    def one_round(state: Any, numbered: tuple[Array, Any]) -> tuple[Any, Any]:
        (scores, bound, moving), (number, entry) = state, numbered
        structure, read = None, tables
        if cycle is not None:
            structure, leaves = jax.tree.map(lambda array: array[number % count], cycle)
            read = [rows._replace(leaf=leaf) for rows, leaf in zip(tables, leaves, strict=True)]
        context = step.round_context(recipe, public, bound, number, structure)
        release, kept, views = asked("rounds", entry, context, scores, read)
        hypothesis, more, moving = step.hypothesis_and_bound_of_round(
            recipe, release, views[0].public, moving
        )
        if not batch:  # else no round reads them
            scores = [
                score + step.predict_rows(recipe, hypothesis, view.rows)
                for score, view in zip(scores, views, strict=True)
            ]
        return (scores, bound + more, moving), (kept, hypothesis)

    state = scores, bound, resting
    entries_of_rounds = jnp.arange(recipe.capacity, dtype=jnp.int32), entries.rounds
    if batch:
        scores = None

        def alone(numbered: tuple[Array, Any]) -> Any:
            active, found = numbered[0] < recipe.rounds, one_round(state, numbered)[1]
            return jax.tree.map(lambda a: jnp.where(active, a, jnp.zeros_like(a)), found)

        size = min(batch, recipe.capacity)
        rounds, hypotheses = jax.lax.map(alone, entries_of_rounds, batch_size=size)
    else:
        state, (rounds, hypotheses) = _scan(recipe, one_round, state, entries_of_rounds)
        scores, bound, _ = state

    # The epilogue.
    ending, intercept, slope = {}, start, jnp.float32(1)
    if learner.epilogue is not None:
        assert scores is not None  # as `Recipe.independent` says
        last = public._replace(round=jnp.asarray(recipe.rounds, jnp.int32))
        context = Context(last, bound)
        epilogue, ending, _ = asked("epilogue", entries.epilogue, context, scores)
        slope, intercept = step.score_line(recipe, prologue, epilogue)
        scores = [intercept[..., None] + slope * (score - everyone) for score in scores]
    hypotheses = step.model_hypotheses(recipe, public, hypotheses, slope)
    return RunResult(PhaseValues(opening, rounds, ending), hypotheses, intercept, scores)


@jax.custom_batching.custom_vmap
def _any_lane(flag: Array) -> Array:
    """The flag; under vmap, whether any lane has it. So a cond on it stays a cond under vmap."""
    return flag


@_any_lane.def_vmap
def _any_lane_of_batch(
    axis_size: int, in_batched: Sequence[bool], flag: Array
) -> tuple[Array, bool]:
    return (_any_lane(jnp.any(flag, axis=0)) if in_batched[0] else flag), False


def _scan(
    recipe: Recipe, one_round: Callable[[Any, Any], tuple[Any, Any]], state: Any, entries: Any
) -> tuple[Any, Any]:
    """`lax.scan` of `one_round` over the first T of `capacity` entries; the others give zeros.

    The other entries cost nothing where no lane of a vmap needs them. (A cond on a batched flag
    would run both branches and copy the table for every lane.)
    """
    # What a round keeps. A jit of the round would know it too, but would hold the tables for good.
    shapes: list[Any] = []

    def skip(state: Any, entry: Any) -> tuple[Any, Any]:
        kept = shapes[-1] if shapes else jax.eval_shape(one_round, state, entry)[1]
        return state, jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), kept)

    def one(state: Any, entry: Any) -> tuple[Any, Any]:
        active = entry[0] < recipe.rounds

        def go_on(state: Any, entry: Any) -> tuple[Any, Any]:
            found = one_round(state, entry)
            shapes.append(jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), found[1]))
            return jax.tree.map(lambda a, b: jnp.where(active, a, b), found, skip(state, entry))

        return jax.lax.cond(_any_lane(active), go_on, skip, state, entry)

    return jax.lax.scan(one, state, entries)


# Its answers.


class Replayed(NamedTuple):
    """What `replay` returns.

    Attributes:
        log_prob: site -> f32[T], exact log densities given all earlier releases; f32[] for a site
            of the prologue or of the epilogue.
        hypotheses: what follows from the transcript alone.
    """

    log_prob: dict[str, Array]
    hypotheses: Hypotheses


ROUND_REPORTS: dict[int, Callable[[int], None]] = {}
"""What is told of the rounds of programs that run; a number stands for each in its program."""


def _report_round(watch: Any, number: Any) -> None:
    """Tell that a round draws. It tells its number, which is public, and reads nothing else."""
    ROUND_REPORTS.get(int(watch), lambda number: None)(int(number))


def run_with_fresh_draws(
    key: Array,
    rows: Prepared,
    recipe: Recipe,
    public_key: Array | None,
    batch: int = 0,
    watch: Array | None = None,
) -> RunResult:
    """`run` with fresh draws, which it keeps.

    With `watch`, an i32[], the one in `ROUND_REPORTS` of that number is told of each round as it
    draws.

    Raises:
        ValueError: for public structure without a public key, and for two draws of one name.
    """
    learner = recipe.learner

    def drawn(part: str, entry: tuple[Array, Array | None], views: Sequence[View]) -> Any:
        if watch is not None and part == "rounds":
            jax.debug.callback(_report_round, watch, views[0].public.round)
        program, priced = (
            pricing.program_of_phase(learner, part),
            pricing.priced_draws(recipe, part),
        )
        release = boundary.sample(program, *entry, views[0], priced)
        return release, release

    noise = step.phase_keys(step.derive_recipe_key(key, recipe), recipe)
    pairs = zip(noise, step.phase_keys(public_key, recipe), strict=True)
    return run(recipe, [rows], drawn, PhaseValues(*pairs), batch)


def replay(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    """Score a recorded transcript on a table, and rebuild the model from it.

    Args:
        transcript: as `boost` returns it.
        table: any table with the same splits: the recorded one, or a neighbour.
        recipe: the recipe.

    Raises:
        ValueError: for what is no transcript of this recipe, for one that was recorded on a table
            of another domain or form (`step.check_transcript`), and as `step.prepare_table`.
    """
    tables = _check_and_strip(transcript, [table], recipe)
    return _replayed(transcript._replace(recorded_on=None), *tables, step.without_domain(recipe))


def _check_and_strip(
    transcript: Transcript, tables: Sequence[Table], recipe: Recipe
) -> list[Table]:
    """The tables without their domains, after the checks of a replay.

    Raises:
        ValueError: as `replay`.
    """
    for table in tables:
        step.check_run(table, recipe)
        step.check_transcript(transcript, table, recipe)
    return [step.without_domain(table) for table in tables]


# Always compiled: op by op, the classes of an author would be handed the values of rows.
@compilation.jit_with_bounded_cache()
def _replayed(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    ran = _run_with_recorded_draws(transcript, [table], recipe, boundary.log_prob)
    return Replayed(_values_by_site(ran.kept), ran.hypotheses)


@compilation.jit_with_bounded_cache()
def _compared(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[str, tuple[Array, StepLoss]]:
    return _values_by_site(
        _run_with_recorded_draws(transcript, [table, neighbour], recipe, boundary.compared).kept
    )


def _run_with_recorded_draws(
    transcript: Transcript, tables: Sequence[Table], recipe: Recipe, judge: Callable[..., Any]
) -> RunResult:
    """`run` with recorded draws, of which it keeps what `judge` says of (program, release, *views).

    Raises:
        ValueError: as `replay`.
    """
    prepared = [step.prepare_table(table, recipe) for table in tables]
    for table in tables:
        step.check_transcript(transcript, table, recipe)

    def answer(part: str, release: Release, views: Sequence[View]) -> Any:
        return release, judge(pricing.program_of_phase(recipe.learner, part), release, *views)

    return run(recipe, prepared, answer, transcript)


@compilation.jit_with_bounded_cache()
def redraw_hypotheses(
    keys: Array, transcript: tuple[Release, Release, Release], recipe: Recipe, dummy: Table
) -> Hypotheses:
    """The hypotheses of a recorded run, with the noise of its rounds drawn again around outputs.

    It is post-processing: a mechanism draws around its own output, at the public scale of its
    noise. What was selected, the prologue and the epilogue stay as they were released.

    Args:
        keys: one typed key for each run that is made up, or several.
        transcript: the releases of prologue, rounds and epilogue, with all sites of the rounds.
        recipe: the recipe.
        dummy: one absent row.

    Returns:
        Hypotheses with a leading axis for keys, and then one for rounds.

    Raises:
        ValueError: if the transcript lacks a site.
    """

    def answer(part: str, entry: Any, views: Sequence[View]) -> tuple[Release, Any]:
        release, key = entry
        if part != "rounds":
            return release, ()
        asks = boundary.replay_draws(
            pricing.program_of_phase(recipe.learner, part), release, views[0]
        )
        noisy = {
            site: ask.mechanism.sample(boundary.site_key(key, site), release[site], ask.scale)
            for site, ask in asks.items()
            if not (ask.mechanism.public or ask.mechanism.selects)
        }
        return release | noisy, ()

    rows = [recipe.learner.hypotheses.prepare(dummy)]

    def one(key: Array) -> Hypotheses:
        prologue, rounds, epilogue = transcript
        of_rounds = rounds, jax.random.split(key, recipe.capacity)
        entries = PhaseValues((prologue, None), of_rounds, (epilogue, None))
        return run(recipe, rows, answer, entries).hypotheses

    return jax.vmap(one)(keys)


def _values_by_site(kept: PhaseValues) -> dict[str, Any]:
    """What was kept of the sites of all parts."""
    return {site: each for part in kept for site, each in part.items()}


def compared(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[str, tuple[Array, StepLoss]]:
    """Site -> (f32[T] log density on the table less that on the neighbour, StepLoss of f32[T]).

    A `StepLoss` is the worst case of a draw over all its outputs: everything released before it is
    as recorded, and the draw itself takes the output that tells the two tables apart best. By
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
    return _compared(transcript._replace(recorded_on=None), *tables, step.without_domain(recipe))
