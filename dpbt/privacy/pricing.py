"""Pricing: the ledger of a recipe, after comparing its events with the draws of its programs."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import (
    Array,
    Budget,
    Model,
    PrivateProgram,
    Public,
    Recipe,
    Reweighter,
    WeakLearner,
)
from dpbt.privacy import accounting, boundary, keys
from dpbt.privacy.mechanism import DrawRequest
from dpbt.reader import SavedModel
from dpbt.reweighting import uniform


@jax.enable_x64(False)  # so it is the same wherever it is asked for, and prices what runs
def ledger(recipe: Recipe | Model | SavedModel, key: Array | None = None) -> accounting.Ledger:
    """The ledger of one setting: what each draw costs over all rounds, and the total.

    Every event is compared with the draw that it prices: same site, same mechanism, no less noise.
    The events of a round count T times, and those of a prologue and of an epilogue once. The ledger
    of a model that was chosen among several is that of the choice (`accounting.ChoiceLedger`).

    Args:
        recipe: one setting, or a model, which has the ledger of the recipe that it was fitted with.
            A saved model has the ledger that was saved with it.
        key: the key of a release; the ledger then names its kind. A model knows the kind of its
            own key.

    Raises:
        ValueError: for anything else than a recipe or a model of one setting and a whole number of
            rounds. Also if a site of the release has no event, or an event does not fit its draw.
    """
    kind = None if key is None else keys.kind(key)
    if isinstance(recipe, SavedModel):
        kept = accounting.from_json(recipe.privacy)
        return kept if kind is None else dataclasses.replace(kept, key=kind)
    if isinstance(recipe, Model):
        kind = kind or recipe.key
        if recipe.choice is not None:
            choice, score = recipe.choice
            of_run = ledger(recipe.recipe)
            return accounting.with_choice(of_run, kind, choice, accounting.line_of(dict(score)))
        recipe = recipe.recipe
    rounds, delta = _checked(recipe)
    learner, public = recipe.learner, recipe.public()

    # What takes place once.
    once: dict[str, list[accounting.Line]] = {}
    for part in ("prologue", "epilogue"):
        if (part_of := getattr(learner, part)) is not None:
            events = _events(recipe, part_of.program, public)
            once[part] = accounting.compared(events, drawn(recipe, part_of.program), 1)

    # The rounds: their draws are read as in the first round, and as in a later one.
    events = _events(recipe, learner.program, public)
    first, later = (
        accounting.compared(events, drawn(recipe, learner.program, bound), rounds)
        for bound in (0.0, _FAR_BOUND)
    )
    in_rounds = [line.with_less(other) for line, other in zip(first, later, strict=True)]

    lines = {"prologue": [], "rounds": in_rounds, "epilogue": [], **once}
    boundary.check_sites(**{part: [line.site for line in own] for part, own in lines.items()})
    return accounting.Ledger(
        recipe.relation,
        tuple(itertools.chain.from_iterable(lines.values())),
        delta,
        learner.unprotected,
        kind,
        int(recipe.rows),
        recipe.rows_per_person,
    )


def _events(recipe: Recipe, program: PrivateProgram, public: Public) -> list[accounting.Event]:
    """The events of a program, for all rows of one person."""
    events = program.events(recipe.budget, public)
    if recipe.rows_per_person == 1:
        return events
    return [accounting.of_people(event, recipe.rows_per_person) for event in events]


def _checked(recipe: Recipe) -> tuple[int, float]:
    """(rounds, delta) of one setting.

    Raises:
        ValueError: naming the one that is out of its range, or for anything else than a recipe of
            one setting.
    """
    if not isinstance(recipe, Recipe):
        raise ValueError(f"a ledger needs a recipe or a model, got {type(recipe).__name__}")
    if np.ndim(recipe.rows) > 0:
        raise ValueError(
            "a ledger is of one setting; choose one with recipes.setting(recipe, index)"
        )
    rounds, delta = np.asarray(recipe.rounds), float(recipe.delta)
    if rounds.dtype.kind not in "iu" or not 1 <= rounds <= recipe.capacity:
        raise ValueError(
            f"rounds must be a whole number in 1..{recipe.capacity}, got {rounds.tolist()}"
        )
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta}")
    return int(rounds), delta


_FAR_BOUND = 8.0
"""A bound on scores as after some rounds; 0 is that of the first round. Draws are read at both."""


def drawn(
    recipe: Recipe, program: PrivateProgram, bound: float | None = None
) -> Mapping[str, DrawRequest]:
    """The draws that a program of the recipe asks for on a table of one row, by site.

    Args:
        recipe: one setting.
        program: its learner's program, or that of its learner's prologue or epilogue.
        bound: on the scores that the weights follow from; None for what takes place once.
    """
    reweighter = uniform if bound is None else recipe.reweighter
    reading = _reading(recipe.learner, program, reweighter)
    return reading(recipe.budget, recipe.public(), jnp.float32(bound or 0.0))


@functools.cache
def _reading(
    learner: WeakLearner, program: PrivateProgram, reweighter: Reweighter
) -> Callable[[Budget, Public, Array], Mapping[str, DrawRequest]]:
    """(budget, public, bound) -> the draws that the program asks for; compiled once."""

    def on_a_row(budget: Budget, public: Public, bound: Array) -> Mapping[str, DrawRequest]:
        # What follows a prologue reads its release; zeros stand for it here.
        if learner.prologue is not None and program is not learner.prologue.program:
            opening = _reading(learner, learner.prologue.program, uniform)
            sites = opening(budget, public, jnp.float32(0))
            zeros = {site: jnp.zeros(draw.shape, draw.dtype) for site, draw in sites.items()}
            public = public._replace(prologue=zeros)

        # Weights on the one row.
        prepared = learner.hypotheses.prepare(learner.hypotheses.example())
        axes = reweighter.response.axes
        score = jnp.zeros((*axes, prepared.present.shape[0]), jnp.float32)
        weighted = reweighter.weigh(score, bound, prepared, public)
        public = public._replace(cap=weighted.cap)
        return program.draws(prepared, weighted.weight, budget, public)

    return jax.jit(on_a_row)
