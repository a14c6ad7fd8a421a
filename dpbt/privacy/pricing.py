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
    Events,
    Model,
    Program,
    Public,
    Recipe,
    Reweighter,
    View,
    WeakLearner,
)
from dpbt.privacy import accounting, boundary, keys
from dpbt.privacy.boundary import DrawSpec, Stages
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
            events = _events(recipe, part_of.events, public)
            once[part] = accounting.compared(events, drawn(recipe, part), 1)

    # The rounds: their draws are read as in the first round, and as in a later one.
    events = _events(recipe, learner.events, public)
    first, later = (
        accounting.compared(events, drawn(recipe, "rounds", bound), rounds)
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


def _events(recipe: Recipe, says: Events, public: Public) -> list[accounting.Event]:
    """The events of a program, for all rows of one person."""
    events = says(recipe.budget, public)
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


def drawn(recipe: Recipe, part: str, bound: float = 0.0) -> Mapping[str, DrawSpec]:
    """The draws that a part of a run asks for on a table of one row, by site.

    Args:
        recipe: one setting.
        part: "prologue", "rounds" or "epilogue".
        bound: on the scores that the weights follow from.
    """
    described = _described(recipe.learner, part, recipe.reweighter)
    return described(recipe.budget, recipe.public(), jnp.float32(bound))


@functools.cache
def _described(
    learner: WeakLearner, part: str, reweighter: Reweighter
) -> Callable[[Budget, Public, Array], Mapping[str, DrawSpec]]:
    """(budget, public, bound) -> the draws that a part asks for; compiled once."""

    def on_a_row(budget: Budget, public: Public, bound: Array) -> Mapping[str, DrawSpec]:
        view = _row(learner, part, reweighter, budget, public, bound)
        return boundary.describe(program_of(learner, part), view)

    return jax.jit(on_a_row)


def program_of(learner: WeakLearner, part: str) -> Program:
    """The program of a part of a run that the learner has."""
    return (learner if part == "rounds" else getattr(learner, part)).program


def _row(
    learner: WeakLearner,
    part: str,
    reweighter: Reweighter,
    budget: Budget,
    public: Public,
    bound: Array,
) -> View:
    """What a part of a run reads of one row."""
    # What follows a prologue reads its release; zeros stand for it here.
    if learner.prologue is not None and part != "prologue":
        specs = _described(learner, "prologue", reweighter)(budget, public, jnp.float32(0))
        zeros = {site: jnp.zeros(spec.shape, spec.dtype) for site, spec in specs.items()}
        public = public._replace(prologue=zeros)

    # Weights on the one row.
    weigher = reweighter if part == "rounds" else uniform
    prepared = learner.hypotheses.prepare(learner.hypotheses.example())
    axes = weigher.response.axes
    score = jnp.zeros((*axes, prepared.present.shape[0]), jnp.float32)
    weighted = weigher.weigh(score, bound, prepared, public)
    return View(prepared, weighted.weight, budget, public._replace(cap=weighted.cap))


def stages(recipe: Recipe, part: str) -> Stages:
    """Which draws of a part of a run one pass over a table in parts can serve (`boundary.stages`).

    Raises:
        ValueError: for a part that reads all rows at once.
    """
    key = recipe.learner, part, recipe.reweighter
    if key not in _STAGES:
        view = _row(*key, recipe.budget, recipe.public(), jnp.float32(0))
        try:
            _STAGES[key] = boundary.stages(program_of(recipe.learner, part), view)
        except ValueError as error:
            _STAGES[key] = str(error)
    found = _STAGES[key]
    if isinstance(found, str):
        raise ValueError(found)
    return found


_STAGES: dict[tuple[WeakLearner, str, Reweighter], Stages | str] = {}
"""Stages, or why there are none: both follow from the static parts of a recipe alone."""


def check_in_parts(recipe: Recipe) -> None:
    """Refuse a recipe whose table cannot be read in parts.

    Raises:
        ValueError: saying which draw reads all rows at once.
    """
    if recipe.reweighter.coupled:
        raise ValueError(f"{recipe.reweighter.tag} makes weights that depend on all rows")
    for part in recipe.learner.parts:
        found = stages(recipe, part)
        if part != "rounds" and len(found) > 1:
            raise ValueError(f"the {part} has sums that follow from its own draws: {found}")


def in_one_pass(recipe: Recipe) -> bool:
    """Whether a table could be read in parts, with one pass for each round."""
    try:
        check_in_parts(recipe)
    except ValueError:
        return False
    return len(stages(recipe, "rounds")) == 1
