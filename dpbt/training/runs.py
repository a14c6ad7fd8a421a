"""What a choice is made of: the score of a run, and the number of runs.

A score is one noisy draw from a sum over rows, as an epilogue's is, by a private program that is
given the scores of the rows in place of weights. docs/privacy.md has the proofs.
"""

import functools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt.common import types
from dpbt.common.types import GRID, Array, Noise, Recipe
from dpbt.privacy import boundary, keys
from dpbt.privacy.accounting import RunCount
from dpbt.privacy.mechanism import Mechanism, Sensitivity
from dpbt.release.file import kinks, no_link

# Scores.

SITE = "score"

MAX_LOSS = 2.0
"""The most that one row loses, in nats: a probability of 0.135 for its class, or less."""

_NATS = MAX_LOSS / GRID


class Score(NamedTuple):
    """A kind of score: a sum over rows.

    Its sensitivity is `most` in every norm and relation. Proof. Fix the model. A row adds a whole
    number in 0..most. So a row that comes, goes or is replaced moves the sum by at most `most`. []

    Attributes:
        name: its name in ledgers.
        statistic: (rows, scores, public, loss) -> i32[], the private value.
        most: what one row adds at most.
        value: (its draw) -> the number that runs are ordered by; a larger one is better.
        releases: what is published, in words.
        unit: of the sensitivity.
        loss_of: the loss that the statistic needs of a recipe; it refuses one without.
    """

    name: str
    statistic: Callable[..., Array]
    most: int
    value: Callable[[np.ndarray], float]
    releases: str
    unit: str
    loss_of: Callable[[Recipe], types.LossFamily | None]


def losses(
    rows: types.Prepared, scores: Array, public: types.Public, loss: types.LossFamily
) -> Array:
    """i32[]: the sum of the log losses of present rows, each rounded to a step and clipped."""
    member = loss(public.weighting.link_alpha)
    positive = (member.probability or member.inverse_link)(scores)
    stated = jnp.where(rows.target, positive, 1 - positive)
    least = jnp.float32(math.exp(-MAX_LOSS))
    nats = -jnp.log(jnp.clip(jnp.nan_to_num(stated), least, 1))
    steps = jnp.clip(jnp.round(nats / np.float32(_NATS)), 0, GRID).astype(jnp.int32)
    return jnp.sum(jnp.where(rows.present, steps, 0))


def loss_of(recipe: Recipe) -> types.LossFamily:
    """The loss that gives the probabilities of a recipe.

    Raises:
        ValueError: if it gives none.
    """
    if recipe.loss is None:
        raise ValueError(f"a score needs probabilities: {no_link(recipe.name)}")
    for alpha in np.unique(np.asarray(recipe.weighting.link_alpha, np.float32)):
        member = recipe.loss(alpha)
        if not np.isfinite(member.smoothness):
            raise ValueError(f"a score needs probabilities: {kinks(member.name)}")
    return recipe.loss


LOG_LOSS = Score(
    name="log_loss",
    statistic=losses,
    most=GRID,
    value=lambda draw: -_NATS * float(draw),
    releases="the sum of their clipped log losses",
    unit=f"1/{GRID} of {MAX_LOSS:g} nats",
    loss_of=loss_of,
)
BY_NAME = {LOG_LOSS.name: LOG_LOSS}
"""Name -> score."""


@functools.cache
def program_of(score: Score, noise: Mechanism, loss: types.LossFamily | None) -> types.Program:
    """The private program of a score, whose budget is a `types.Noise`."""

    def program(
        draw: boundary.Draw,
        rows: types.Prepared,
        scores: Array,
        params: Noise,
        public: types.Public,
    ) -> None:
        del params
        draw(
            SITE,
            noise,
            score.statistic(rows, scores, public, loss),
            sensitivity=noise.bound(Sensitivity(score.most, score.most)),
            moves=1,
            theorem="docs/privacy.md T6",
            releases=score.releases,
            unit=score.unit,
        )

    return program


# The number of runs: drawn by exact arithmetic from 256 bits of the key.

_DIGITS = 120
_WORDS = 8
_NOTHING = Decimal(10) ** -90
"""Probabilities below it end the search: together they are below 2^-200."""


def drawn_count(key: Array, count: RunCount) -> int:
    """K, by inversion of its distribution function at 256 random bits. It is private.

    Nothing truncates it. The law of the result is within 2^-200 of that of `count` in total
    variation (`accounting.COUNT_DISTANCE`). The reason is that each value's probability is off by
    at most 2^-256 and the rounding of 120 digits, and fewer than 2^22 values are not below 10^-90.

    Args:
        key: one typed key, used for nothing else.
        count: the law.
    """
    words = np.asarray(keys.words(key, _WORDS, ()))
    position = 0
    for word in words.tolist():
        position = (position << 32) | word
    return at_position(position, 32 * _WORDS, count)


def at_position(position: int, bits: int, count: RunCount) -> int:
    """The k at which the distribution function of K first exceeds position / 2^bits."""
    if count.gamma == 1:
        return 1
    with localcontext() as context:
        context.prec = _DIGITS
        gamma, eta = Decimal(count.gamma), Decimal(count.eta)
        rest = 1 - gamma
        log_inverse = -gamma.ln()
        if count.eta == 0:
            probability = rest / log_inverse
        else:
            probability = rest * eta / ((eta * log_inverse).exp() - 1)
        wanted = Decimal(position) / Decimal(2) ** bits

        k, below = 1, probability
        while below <= wanted and probability > _NOTHING:
            probability *= rest * (k + eta) / (k + 1)
            below += probability
            k += 1
    return k
