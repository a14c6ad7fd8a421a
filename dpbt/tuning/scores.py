"""Scores of a run on held-out rows: each is one noisy draw, and a number that follows from it.

A score is a private program of one draw, as an epilogue is: it is given the scores of the rows in
place of weights. docs/privacy.md, T6, has the sensitivities.
"""

from __future__ import annotations  # so that help() shows the types by their names

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import (
    GRID,
    Array,
    LossFamily,
    Noise,
    Prepared,
    Program,
    Public,
    Recipe,
    Relation,
    Release,
    Table,
    View,
)
from dpbt.privacy import boundary, pricing, sensitivity
from dpbt.privacy.accounting import Event
from dpbt.privacy.mechanism import Mechanism, Sensitivity
from dpbt.release.about import kinks, no_link

SITE = "score"

MAX_LOSS = 2.0
"""The most that one row loses, in nats: a probability of 0.135 for its class, or less."""

_STEP = MAX_LOSS / GRID

EDGES = np.array([-3, -2, -1.4, -1, -0.7, -0.45, -0.2, 0, 0.2, 0.45, 0.7, 1, 1.4, 2, 3], np.float32)
"""f32[15]: the public intervals of scores for AUROC: log odds where there are probabilities."""


class Score(NamedTuple):
    """A kind of score: a sum over rows, or counts of them.

    Attributes:
        name: its name in ledgers.
        statistic: (rows, scores, public, loss) -> i32[...], the private value.
        most: what one row adds at most: a whole number in 0..most, to one entry.
        counts: whether there are several entries, each for some of the rows.
        value: (its draw) -> the number that runs are ordered by; a larger one is better.
        shown: (its draw) -> the number as people read it.
        releases: what is published, in words.
        unit: of the sensitivity.
        probabilities: whether it needs a recipe with a loss.
    """

    name: str
    statistic: Callable[[Prepared, Array, Public, LossFamily | None], Array]
    most: int
    counts: bool
    value: Callable[[np.ndarray], float]
    shown: Callable[[np.ndarray], float]
    releases: str
    unit: str = "row"
    probabilities: bool = False

    def moved(self, relation: Relation) -> int:
        """How many of its entries one row moves."""
        rows = sensitivity.moved_rows(relation)  # refuses other relations
        return rows if self.counts else 1

    def sensitivity(self, relation: Relation, noise: Mechanism) -> float:
        """How far one row moves it, in the mechanism's norm.

        Proof. Fix the model. A row adds a whole number in 0..most to one entry. So a row that
        comes, goes or is replaced moves a sum by at most `most`. Of several entries, a row that
        comes or goes moves one. A row that is replaced moves two, each by at most `most`: then L1
        is 2 most and L2 is sqrt(2) most. []
        """
        moved = self.moved(relation)
        return noise.bound(Sensitivity(moved * self.most, math.sqrt(moved) * self.most))


def _probability(loss: LossFamily, scores: Array, public: Public) -> Array:
    """f32[N]: the probability of the positive class; alpha may be traced."""
    member = loss(public.weighting.link_alpha)
    return (member.probability or member.inverse_link)(scores)


def errors(rows: Prepared, scores: Array, public: Public, loss: LossFamily | None) -> Array:
    """i32[]: how many present rows are predicted wrongly."""
    del public, loss
    return jnp.sum(rows.present & ((scores > 0) != rows.target)).astype(jnp.int32)


def losses(rows: Prepared, scores: Array, public: Public, loss: LossFamily | None) -> Array:
    """i32[]: the sum of the log losses of present rows, each rounded to a step and clipped."""
    assert loss is not None  # as `of_recipe` says
    positive = _probability(loss, scores, public)
    stated = jnp.where(rows.target, positive, 1 - positive)
    least = jnp.float32(math.exp(-MAX_LOSS))
    nats = -jnp.log(jnp.clip(jnp.nan_to_num(stated), least, 1))
    steps = jnp.clip(jnp.round(nats / np.float32(_STEP)), 0, GRID).astype(jnp.int32)
    return jnp.sum(jnp.where(rows.present, steps, 0))


def histogram(rows: Prepared, scores: Array, public: Public, loss: LossFamily | None) -> Array:
    """i32[16, 2]: how many present rows of each class have scores in each public interval."""
    if loss is not None:
        positive = jnp.clip(_probability(loss, scores, public), 1e-6, 1 - 1e-6)
        scores = jnp.log(positive) - jnp.log1p(-positive)
    interval = jnp.searchsorted(jnp.asarray(EDGES), jnp.nan_to_num(scores), side="right")
    place = 2 * interval.astype(jnp.int32) + rows.target.astype(jnp.int32)
    one = rows.present.astype(jnp.int32)
    return jax.ops.segment_sum(one, place, 2 * (len(EDGES) + 1)).reshape(-1, 2)


def auroc_of(counts: np.ndarray) -> float:
    """The area under the ROC curve of noisy counts by class; 1/2 where a class has none."""
    zeros, ones = (np.maximum(np.asarray(counts, np.float64)[:, label], 0) for label in (0, 1))
    pairs = zeros.sum() * ones.sum()
    if pairs == 0:
        return 0.5
    below = np.cumsum(zeros) - zeros
    return float(np.sum(ones * (below + zeros / 2)) / pairs)


def _negated(draw: np.ndarray) -> float:
    return -float(draw)


ACCURACY = Score("accuracy", errors, 1, False, _negated, float, "errors of the scored rows")
LOG_LOSS = Score(
    name="log_loss",
    statistic=losses,
    most=GRID,
    counts=False,
    value=_negated,
    shown=lambda draw: _STEP * float(draw),
    releases="the sum of their clipped log losses",
    unit=f"1/{GRID} of {MAX_LOSS:g} nats",
    probabilities=True,
)
AUROC = Score("auroc", histogram, 1, True, auroc_of, auroc_of, "scored rows by score and class")
BY_NAME = {score.name: score for score in (ACCURACY, LOG_LOSS, AUROC)}
"""Name -> score."""


def loss_of(score: Score, recipe: Recipe) -> LossFamily | None:
    """The loss that gives the probabilities of a recipe; None for a score that needs none.

    Raises:
        ValueError: if the score needs probabilities and the recipe gives none.
    """
    if recipe.loss is None:
        if score.probabilities:
            raise ValueError(f"the score {score.name} needs probabilities: {no_link(recipe.name)}")
        return None
    for alpha in np.unique(np.asarray(recipe.weighting.link_alpha, np.float32)):
        member = recipe.loss(alpha)
        if not np.isfinite(member.smoothness):
            if score.probabilities:
                raise ValueError(
                    f"the score {score.name} needs probabilities: {kinks(member.name)}"
                )
            return None
    return recipe.loss


@functools.cache
def program_of(
    score: Score, noise: Mechanism, relation: Relation, loss: LossFamily | None
) -> Program:
    """The private program of a score, whose budget is a `base.Noise`.

    Args:
        score: the kind of score.
        noise: a mechanism on integers.
        relation: the neighbouring relation of its draw.
        loss: as `loss_of`.
    """

    def program(
        draw: boundary.Draw, rows: Prepared, scores: Array, params: Noise, public: Public
    ) -> None:
        del params
        draw(
            SITE,
            noise,
            score.statistic(rows, scores, public, loss),
            sensitivity=score.sensitivity(relation, noise),
            moves=score.moved(relation),
            theorem="docs/privacy.md T6",
            releases=score.releases,
            unit=score.unit,
        )

    return program


def event_of(program: Program, params: Noise, recipe: Recipe) -> Event:
    """The event of a score's draw, as its program describes it on a table of one row."""
    nobody = jnp.zeros(1, bool)
    rows = Table(jnp.zeros((1, 1), jnp.uint8), nobody, nobody)
    view = View(rows, jnp.zeros(1, jnp.float32), params, recipe.public())
    spec = boundary.describe(program, view)[SITE]
    return pricing.event_of(spec, params.noise, recipe.max_rows_per_user)


def drawn(release: Release) -> np.ndarray:
    """The draw of a score."""
    return np.asarray(release[SITE])
