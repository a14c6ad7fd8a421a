"""The steps of a run, written once: weigh the rows, place them, draw, learn, add.

A run has three parts: a prologue, rounds and an epilogue. Each has a private program, which reads a
`View` of the rows. `boosting` runs them on a table in memory, and `blocks` on one in parts.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpbt.common.types import (
    Array,
    Hypotheses,
    Hypothesis,
    Prepared,
    Public,
    Recipe,
    Release,
    Table,
    View,
    WeakLearner,
    uniform,
)
from dpbt.data import targets
from dpbt.data.blocks import BlockTable
from dpbt.privacy import boundary, pricing
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.sensitivity import counted_weights
from dpbt.training.checks import check_run


class Context(NamedTuple):
    """What is public when a part of a run begins.

    Attributes:
        public: what is public in all rounds; of a prologue without a release.
        bound: f32[], an upper bound on |score| for every possible row.
        number: i32[], of the round.
        structure: of the round; None where the learner has none.
    """

    public: Public
    bound: Any
    number: Any
    structure: Any = None


def before(recipe: Recipe) -> Context:
    """What is public before anything is released."""
    public = recipe.public()
    return Context(public, jnp.float32(0), public.round)


def opened(recipe: Recipe, prologue: Release) -> tuple[Public, Array]:
    """What is public in all rounds after the prologue, and the score that every row starts from.

    The score is f32[], or f32[K] with several classes.
    """
    public, once = recipe.public(prologue), recipe.learner.prologue
    if once is None:
        return public, jnp.zeros(recipe.learner.hypotheses.response.axes, jnp.float32)
    for name in ("unit", "seen"):
        says = getattr(once, name)
        if says is not None:
            found = jnp.asarray(says(prologue, recipe.params), jnp.float32)
            public = public._replace(**{name: found})
    return public, jnp.asarray(once.intercept(prologue, recipe.params), jnp.float32)


def begun(recipe: Recipe, public: Public, bound: Array, number: Array) -> Context:
    """What is public when a round begins: its structure, which follows from no row, is made."""
    structure = None
    if recipe.learner.structure is not None:
        structure = recipe.learner.structure(recipe.params, public._replace(round=number))
    return Context(public, bound, number, structure)


def closing(recipe: Recipe, public: Public, bound: Array) -> Context:
    """What is public when the epilogue begins."""
    return Context(public, bound, jnp.asarray(recipe.rounds, jnp.int32))


def weigh(
    part: str, recipe: Recipe, rows: Prepared, scores: Array, context: Context
) -> tuple[Array, Array]:
    """What a program reads of the rows besides their content, and the public bound on it.

    It is f32[N] weights or f32[K, N] residuals, in units of bound / GRID; of an epilogue it is the
    scores, whose bound does not count.
    """
    if part == "epilogue":
        return scores, context.public.cap
    if part == "prologue":
        nothing = jnp.zeros(rows.present.shape, jnp.float32)
        weighted = uniform.weigh(nothing, context.bound, rows, context.public)
        return counted_weights(weighted.weight, rows), weighted.cap
    weighted = recipe.weight_update.weigh(scores, context.bound, rows, context.public)
    response = recipe.learner.hypotheses.response
    return counted_weights(weighted.weight, rows, response), weighted.cap


def view(
    part: str, recipe: Recipe, rows: Prepared, weighed: tuple[Array, Array], context: Context
) -> View:
    """What the program of a part reads, with what the structure of a round says of each row."""
    weights, cap = weighed
    if part == "rounds":
        rows = placed(recipe.learner, context.structure, rows)
    return View(rows, weights, recipe.params, public_of(context, cap))


def public_of(context: Context, cap: Array) -> Public:
    """What is public when the rows of a part are weighed."""
    _, _, number, structure = context
    return context.public._replace(cap=cap, round=number, structure=structure)


def placed(learner: WeakLearner, structure: Any, rows: Prepared) -> Prepared:
    """The rows, with what the structure of a round says of each."""
    place = learner.hypotheses.place
    return rows if place is None else place(structure, rows)


# What follows from no row: a program runs on one absent row in place of them.


def dummy_row(table: BlockTable) -> Table:
    """One absent row of the kind of the table's."""
    room = table.room(1)
    return Table(
        jnp.asarray(room.bins.T),
        jnp.asarray(room.target),
        jnp.asarray(room.present),
        jax.tree.map(jnp.asarray, table.splits),
        None if room.weight is None else jnp.asarray(room.weight),
        None if table.target is None else jnp.asarray(targets.fingerprint(table.target)),
    )


def specs(
    part: str, recipe: Recipe, dummy: Table, context: Context, release: Release
) -> dict[str, DrawSpec]:
    """What the draws of a part ask for, after the draws that `release` has; traceable."""
    read = _dummy_view(part, recipe, dummy, context)
    return boundary.describe(pricing.program_of(recipe.learner, part), read, release)


def of_a_round(recipe: Recipe, table: Table) -> tuple[Context, dict[str, DrawSpec]]:
    """A round after a prologue of zeros, and what its draws ask for; traceable."""
    prologue = {}
    if recipe.learner.prologue is not None:
        prologue = {spec.site: spec.zeros for spec in pricing.sites(recipe, "prologue")}
    public, _ = opened(recipe, prologue)
    context = begun(recipe, public, jnp.float32(0), jnp.int32(0))
    return context, specs("rounds", recipe, table, context, {})


def public_draws(part: str, recipe: Recipe, dummy: Table, context: Context, key: Array) -> Release:
    """The public randomness of a part; traceable."""
    read = _dummy_view(part, recipe, dummy, context)
    return boundary.public_draws(pricing.program_of(recipe.learner, part), key, read)


def _dummy_view(part: str, recipe: Recipe, dummy: Table, context: Context) -> View:
    """What a part of a run reads of one absent row."""
    rows = recipe.learner.hypotheses.prepare(dummy)
    axes = recipe.learner.hypotheses.response.axes
    scores = jnp.zeros((*axes, *rows.present.shape), jnp.float32)
    return view(part, recipe, rows, weigh(part, recipe, rows, scores, context), context)


# What follows from a release.


def learned(recipe: Recipe, release: Release, public: Public) -> tuple[Hypothesis, Array]:
    """The hypothesis of a round's release, and the bound on what it adds to a score."""
    hypothesis = recipe.learner.hypothesis(release, recipe.params, public)
    return hypothesis, recipe.learner.hypotheses.bound(hypothesis)


def added(recipe: Recipe, scores: Array, hypothesis: Hypothesis, rows: Prepared) -> Array:
    """The scores of placed rows with what the hypothesis of their round adds."""
    return scores + recipe.learner.hypotheses.predict(hypothesis, rows)


def everywhere(start: Array, rows: int) -> Array:
    """f32[N], or f32[K, N]: the same score for every row."""
    return jnp.broadcast_to(start[..., None], (*start.shape, rows))


def line_of(recipe: Recipe, prologue: Release, epilogue: Release) -> tuple[Array, Array]:
    """(f32[] slope, intercept): scores become intercept + slope (score - start).

    The intercept is f32[], or f32[K] with several classes.
    """
    _, start = opened(recipe, prologue)
    if recipe.learner.epilogue is None:
        return jnp.float32(1), start
    slope, intercept = recipe.learner.epilogue.line(epilogue, recipe.params, start)
    return jnp.asarray(slope, jnp.float32), jnp.asarray(intercept, jnp.float32)


def scaled(recipe: Recipe, hypotheses: Hypotheses, slope: Array) -> Hypotheses:
    """The hypotheses of the model, after the epilogue."""
    if recipe.learner.epilogue is None:
        return hypotheses
    by = recipe.learner.hypotheses.scaled
    assert by is not None  # as `boundary.weak_learner` says
    return by(hypotheses, slope)


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
        ValueError: as `checks.check_run`; and if the hypotheses leave weights of rows out.
    """
    check_run(table, recipe)
    prepared = recipe.learner.hypotheses.prepare(table)
    if table.weight is not None and getattr(prepared, "weight", None) is None:
        raise ValueError(
            "rows have weights, and the hypotheses' prepare leaves them out: lay out `weight`"
        )
    return prepared._replace(present=admitted(prepared.present, recipe))
