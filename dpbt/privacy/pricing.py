"""Pricing: a recipe's ledger, compared with the draws that its programs ask for."""

import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import Array, Budget, PrivateProgram, Public, Recipe, Reweighter, WeakLearner
from dpbt.privacy import accounting, boundary, keys
from dpbt.privacy.mechanism import DrawRequest
from dpbt.reweighting import uniform


def ledger(recipe: Recipe, key: Array | None = None) -> accounting.Ledger:
    """The ledger of one setting: the learner's events, T times each, and what finite bits cost.

    Every event is compared with the draw that it prices: same site, same mechanism, no less noise.
    The events of a prologue count once.

    Args:
        recipe: one setting.
        key: the key of a release, for the ledger to say of which kind it is.

    Raises:
        ValueError: if the recipe holds several settings or no whole number of rounds, if its
            release has a site that no event covers, or if an event does not fit its draw.
    """
    rounds, delta = _checked(recipe)
    learner, public = recipe.learner, recipe.public()

    lines: list[accounting.Line] = []
    if learner.prologue is not None:
        events = learner.prologue.program.events(recipe.budget, public)
        lines += accounting.compared(events, drawn(recipe, learner.prologue.program), 1)
    events = learner.program.events(recipe.budget, public)
    boundary.check_sites([line.site for line in lines], [event.site for event in events])
    for bound in (0.0, _FAR_BOUND):
        in_rounds = accounting.compared(events, drawn(recipe, learner.program, bound), rounds)

    return accounting.Ledger(
        recipe.relation,
        (*lines, *in_rounds),
        delta,
        learner.unprotected,
        None if key is None else keys.kind(key),
        int(recipe.rows),
    )


def _checked(recipe: Recipe) -> tuple[int, float]:
    """(rounds, delta) of one setting.

    Raises:
        ValueError: saying which of them is no such number.
    """
    if not isinstance(recipe, Recipe):
        raise ValueError(f"a ledger is of a recipe, got {type(recipe).__name__}")
    if np.ndim(recipe.rows) > 0:
        raise ValueError("a ledger is of one setting; take one with recipes.setting(recipe, index)")
    rounds, delta = np.asarray(recipe.rounds), float(recipe.delta)
    if rounds.dtype.kind not in "iu" or not 1 <= rounds <= recipe.capacity:
        raise ValueError(
            f"rounds must be a whole number in 1..{recipe.capacity}, got {recipe.rounds!r}"
        )
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta}")
    return int(rounds), delta


_FAR_BOUND = 8.0
"""A bound on scores as after some rounds: draws are read at it, and at 0, as in the first round."""


def drawn(
    recipe: Recipe, program: PrivateProgram, bound: float | None = None
) -> Mapping[str, DrawRequest]:
    """What a program of the recipe asks for, by site, on a table of one row.

    Args:
        recipe: one setting.
        program: its learner's, or that of its learner's prologue.
        bound: on the scores that the weights follow from; None for weights before all rounds.
    """
    reweighter = uniform if bound is None else recipe.reweighter
    reading = _reading(recipe.learner, program, reweighter)
    return reading(recipe.budget, recipe.public(), jnp.float32(bound or 0.0))


@functools.cache
def _reading(
    learner: WeakLearner, program: PrivateProgram, reweighter: Reweighter
) -> Callable[[Budget, Public, Array], Mapping[str, DrawRequest]]:
    """(budget, public, bound) -> what the program asks for, compiled once."""

    def on_a_row(budget: Budget, public: Public, bound: Array) -> Mapping[str, DrawRequest]:
        if learner.prologue is not None and program is learner.program:
            opening = _reading(learner, learner.prologue.program, uniform)
            sites = opening(budget, public, jnp.float32(0))
            zeros = {site: jnp.zeros(draw.shape, draw.dtype) for site, draw in sites.items()}
            public = public._replace(prologue=zeros)

        prepared = learner.hypotheses.prepare(learner.hypotheses.example())
        score = jnp.zeros(prepared.present.shape[0], jnp.float32)
        weighted = reweighter.weigh(score, bound, prepared, public)
        public = public._replace(cap=weighted.cap)
        return program.draws(prepared, weighted.weight, budget, public)

    return jax.jit(on_a_row)
