"""The loop over rounds: re-weight the rows, visit the round, add its hypothesis to the scores.

`boosting` releases in it, replays recorded releases and compares two tables.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from dpbt.base import (
    Array,
    Hypotheses,
    Prepared,
    Public,
    Recipe,
    Release,
    Table,
    View,
    WeakLearner,
)
from dpbt.checks import check_run, check_same_rows
from dpbt.privacy import boundary
from dpbt.reweighting import counted_weights, uniform


@jax.custom_batching.custom_vmap
def _anywhere(flag: Array) -> Array:
    """The flag; under vmap, whether any lane has it. So a cond on it stays a cond under vmap."""
    return flag


@_anywhere.def_vmap
def _anywhere_in_a_batch(
    axis_size: int, in_batched: Sequence[bool], flag: Array
) -> tuple[Array, bool]:
    del axis_size
    return (_anywhere(jnp.any(flag, axis=0)) if in_batched[0] else flag), False


RoundStep = Callable[[Any, Any], tuple[Any, Any]]
"""(state, entry of the round) -> (next state, what to keep of the round). All are pytrees."""


def scan_rounds(recipe: Recipe, one_round: RoundStep, state: Any, entries: Any) -> tuple[Any, Any]:
    """`lax.scan` of `one_round` over the first T of `capacity` entries; the others give zeros.

    The other entries cost nothing where no lane of a vmap needs them. (A cond on a batched flag
    would run both branches and copy the table for every lane.)
    """
    # What a round keeps. A jit of the round would know it too, but would hold the tables for good.
    shapes: list[Any] = []

    def skip(state: Any, entry: Any) -> tuple[Any, Any]:
        kept = shapes[-1] if shapes else jax.eval_shape(one_round, state, entry)[1]
        return state, jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), kept)

    def step(state: Any, numbered: tuple[Array, Any]) -> tuple[Any, Any]:
        t, entry = numbered
        active = t < recipe.rounds

        def run(state: Any, entry: Any) -> tuple[Any, Any]:
            after, kept = one_round(state, entry)
            shapes.append(jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), kept))
            after = jax.tree.map(lambda a, b: jnp.where(active, a, b), after, state)
            kept = jax.tree.map(lambda a: jnp.where(active, a, jnp.zeros_like(a)), kept)
            return after, kept

        return jax.lax.cond(_anywhere(active), run, skip, state, entry)

    return jax.lax.scan(step, state, (jnp.arange(recipe.capacity, dtype=jnp.int32), entries))


def admitted(present: Array, recipe: Recipe) -> Array:
    """bool[N]: the first `rows` of the present rows, in order.

    The noise was set for `rows` rows. Beyond that bound, a row more or less moves at most one other
    row out or in. So a larger table costs what two rows cost: 2 epsilon, or 4 rho.
    """
    rank = jnp.cumsum(present.astype(jnp.int32))
    return present & (rank <= jnp.asarray(recipe.rows).astype(jnp.int32))


def prepared_table(table: Table, recipe: Recipe) -> Prepared:
    """The table laid out for the loops, with the rows that count.

    Raises:
        ValueError: as `checks.check_run`; and if cells, target and present have different rows. No
            length is shown.
    """
    check_run(table, recipe)
    check_same_rows(table)
    prepared = recipe.learner.hypotheses.prepare(table)
    if table.weight is not None and getattr(prepared, "weight", None) is None:
        raise ValueError(
            "rows have weights, and the hypotheses' prepare leaves them out: lay out `weight`"
        )
    return prepared._replace(present=admitted(prepared.present, recipe))


RoundVisitor = Callable[[Any, Sequence[Prepared], list[Array], Public], tuple[Release, Any]]
"""(entry, tables, weights of each, public) -> (the round's release, what to keep of the round)."""


def run_rounds(
    recipe: Recipe, prologue: Release, tables: Sequence[Prepared], visit: RoundVisitor, entries: Any
) -> tuple[list[Array], Any, Any]:
    """The loop: re-weight, visit, and add the hypothesis of the round's release to the scores.

    Args:
        recipe: one setting.
        prologue: the release of the learner's prologue.
        tables: prepared rows. All tables share the releases, and each has scores of its own.
        visit: makes a release, or evaluates a recorded one.
        entries: what `visit` is given, with a leading axis for rounds.

    Returns:
        The scores f32[N] of each table, what was kept, and the hypotheses.
    """
    learner, opening = recipe.learner, opening_of(recipe, prologue)
    response = learner.hypotheses.response

    def one_round(state: Any, numbered: tuple[Array, Any]) -> tuple[Any, Any]:
        # Re-weight the rows of each table by their scores.
        scores, bound = state
        number, entry = numbered
        weighted = [
            recipe.reweighter.weigh(score, bound, table, opening)
            for score, table in zip(scores, tables, strict=True)
        ]
        public = opening._replace(cap=weighted[0].cap, round=number)
        weights = [
            counted_weights(each.weight, table, response)
            for each, table in zip(weighted, tables, strict=True)
        ]

        # Work out once what the program, the hypothesis and its predictions all read.
        if learner.structure is not None:
            public = public._replace(structure=learner.structure(recipe.budget, public))
        placed = [placed_by(learner, public, table) for table in tables]

        # Learn, or judge a recorded release.
        release, kept = visit(entry, placed, weights, public)
        boundary.check_sites(prologue=prologue, rounds=release)

        # Add the hypothesis to the scores.
        hypothesis = learner.hypothesis(release, recipe.budget, public)
        scores = [
            score + learner.hypotheses.predict(hypothesis, table)
            for score, table in zip(scores, placed, strict=True)
        ]
        bound = bound + learner.hypotheses.bound(hypothesis)
        return (scores, bound), (kept, hypothesis)

    start = start_of(recipe, prologue)
    scores = [_everywhere(start, table) for table in tables]
    numbered = jnp.arange(recipe.capacity, dtype=jnp.int32), entries
    state = scores, jnp.max(jnp.abs(start))
    (scores, _), (kept, hypotheses) = scan_rounds(recipe, one_round, state, numbered)
    return scores, kept, hypotheses


def _everywhere(start: Array, table: Prepared) -> Array:
    """f32[N], or f32[K, N]: the same score for every row."""
    rows = table.present.shape
    return jnp.broadcast_to(start[..., None], (*start.shape, *rows))


def placed_by(learner: WeakLearner, public: Public, table: Prepared) -> Prepared:
    """The rows, with what the structure of the round says of each."""
    place = learner.hypotheses.place
    return table if place is None else place(public.structure, table)


def opening_of(recipe: Recipe, prologue: Release) -> Public:
    """What is public in every round after the prologue."""
    opening, once = recipe.public(prologue), recipe.learner.prologue
    for name in () if once is None else ("unit", "seen"):
        says = getattr(once, name)
        if says is not None:
            found = jnp.asarray(says(prologue, recipe.budget), jnp.float32)
            opening = opening._replace(**{name: found})
    return opening


def start_of(recipe: Recipe, prologue: Release) -> Array:
    """f32[], or f32[K] with several classes: the score that every row starts from."""
    if recipe.learner.prologue is None:
        return jnp.zeros(recipe.learner.hypotheses.response.axes, jnp.float32)
    return jnp.asarray(recipe.learner.prologue.intercept(prologue, recipe.budget), jnp.float32)


def line_of(recipe: Recipe, prologue: Release, epilogue: Release) -> tuple[Array, Array]:
    """(f32[] slope, intercept): scores become intercept + slope (score - start).

    The intercept is f32[], or f32[K] with several classes.
    """
    start = start_of(recipe, prologue)
    if recipe.learner.epilogue is None:
        return jnp.float32(1), start
    slope, intercept = recipe.learner.epilogue.line(epilogue, recipe.budget, start)
    return jnp.asarray(slope, jnp.float32), jnp.asarray(intercept, jnp.float32)


def scaled(recipe: Recipe, hypotheses: Hypotheses, slope: Array) -> Hypotheses:
    """The hypotheses of the model, after the epilogue."""
    if recipe.learner.epilogue is None:
        return hypotheses
    by = recipe.learner.hypotheses.scaled
    assert by is not None  # as `boundary.weak_learner` says
    return by(hypotheses, slope)


def before_rounds(table: Prepared, recipe: Recipe) -> View:
    """What the program of the learner's prologue reads."""
    score = jnp.zeros(table.present.shape, jnp.float32)
    weighted = uniform.weigh(score, jnp.float32(0), table, recipe.public())
    weights = counted_weights(weighted.weight, table)
    return View(table, weights, recipe.budget, recipe.public()._replace(cap=weighted.cap))


def after_rounds(table: Prepared, scores: Array, recipe: Recipe, prologue: Release) -> View:
    """What the program of the learner's epilogue reads."""
    rounds = jnp.asarray(recipe.rounds, jnp.int32)
    public = opening_of(recipe, prologue)._replace(round=rounds)
    return View(table, scores, recipe.budget, public)
