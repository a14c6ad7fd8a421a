"""Pricing: a recipe's ledger, compared with the draws that its program asks for."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import accounting, keys
from dpbt.base import Array, Recipe, Reweighter, WeakLearner


def ledger(recipe: Recipe, key: Array | None = None) -> accounting.Ledger:
    """The ledger of one setting: the learner's events, T times each, and what finite bits cost.

    Every event is compared with the draw that it prices: same site, same mechanism, no less noise.

    Args:
        recipe: one setting.
        key: the key of a release, for the ledger to say of which kind it is.

    Raises:
        ValueError: if the recipe holds several settings or no whole number of rounds, if its
            release has a site that no event covers, or if an event does not fit its draw.
    """
    if np.ndim(recipe.budget.rows) > 0:
        raise ValueError("a ledger is of one setting; take one with recipes.setting(recipe, index)")
    rounds = np.asarray(recipe.rounds)
    if rounds.dtype.kind not in "iu" or not 1 <= rounds <= recipe.capacity:
        raise ValueError(f"rounds must be a whole number in 1..{recipe.capacity}, got {recipe.rounds!r}")
    delta = float(recipe.delta)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta}")

    events = recipe.learner.events(recipe.budget)
    for draws in _draws(recipe):
        events = accounting.compared(events, draws)
    repeated = tuple(accounting.repeat(event, int(rounds)) for event in events)
    kind = None if key is None else keys.kind(key)
    return accounting.Ledger(
        recipe.relation,
        repeated,
        delta,
        recipe.learner.unprotected,
        kind,
        int(recipe.budget.rows),
    )


_FAR_BOUND = 8.0
"""A bound on scores as after some rounds: draws are read at it, and at 0, as in the first round."""


def _draws(recipe: Recipe) -> list[dict]:
    """What the program asks for on a table of one row, in a first and in a later round."""
    scales, asked = _reader(recipe.learner, recipe.reweighter)
    found = []
    for bound in (0.0, _FAR_BOUND):
        at = scales(recipe.budget, jnp.float32(bound))
        found.append({site: draw._replace(scale=at[site][0], widest=at[site][1]) for site, draw in asked.items()})
    return found


@functools.cache
def _reader(learner: WeakLearner, reweighter: Reweighter) -> tuple[Callable, dict]:
    """(budget, bound) -> the scale of every draw by site, compiled once; and the draws, once it ran."""
    asked = {}

    def scales(budget, bound):
        prepared = learner.hypotheses.prepare(learner.hypotheses.example())
        score = jnp.zeros(prepared.target.shape[0], jnp.float32)
        weights = reweighter.weights(score, bound, prepared, budget)
        draws = learner.draws(prepared, weights, budget)
        asked.update({site: draw._replace(scale=None, widest=None) for site, draw in draws.items()})
        return {site: (draw.scale, draw.widest) for site, draw in draws.items()}

    return jax.jit(scales), asked


def release_sites(recipe: Recipe) -> list[str]:
    """The sites of one round's release, found on a table of one row."""
    return list(_draws(recipe)[0])
