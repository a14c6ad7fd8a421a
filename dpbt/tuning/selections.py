"""What is public about tuning: the score, the number of runs, the parts of the rows, the price.

A score is one noisy draw, and a number that follows from it: a private program of one draw, as an
epilogue is. It is given the scores of the rows in place of weights. docs/privacy.md, T6, has the
sensitivities.
"""

from __future__ import annotations  # so that help() shows the types by their names

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import structs

from dpbt.common.types import (
    ADD_REMOVE,
    BINARY,
    GRID,
    Array,
    LossFamily,
    Noise,
    Prepared,
    Program,
    Public,
    Recipe,
    Relation,
    Table,
    View,
)
from dpbt.common.types import relation as to_relation
from dpbt.common.validate import one_of, positive, within
from dpbt.data import domains
from dpbt.data.domains import Domain
from dpbt.privacy import accounting, boundary, mechanisms, pricing, sensitivity
from dpbt.privacy.accounting import Ledger, Line, RunCount
from dpbt.privacy.mechanism import Allowance, Mechanism, Sensitivity
from dpbt.privacy.pricing import ledger
from dpbt.recipes import oblivious_boost, setting
from dpbt.recipes.building import checked_rows, deltas, epsilons, for_people
from dpbt.recipes.oblivious import rule
from dpbt.release.about import kinks, no_link

# Scores.

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
        releases: what is published, in words.
        unit: of the sensitivity.
        probabilities: whether it needs a recipe with a loss.
    """

    name: str
    statistic: Callable[[Prepared, Array, Public, LossFamily | None], Array]
    most: int
    counts: bool
    value: Callable[[np.ndarray], float]
    releases: str
    unit: str
    probabilities: bool

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


LOG_LOSS = Score(
    name="log_loss",
    statistic=losses,
    most=GRID,
    counts=False,
    value=lambda draw: -_STEP * float(draw),
    releases="the sum of their clipped log losses",
    unit=f"1/{GRID} of {MAX_LOSS:g} nats",
    probabilities=True,
)
AUROC = Score(
    name="auroc",
    statistic=histogram,
    most=1,
    counts=True,
    value=auroc_of,
    releases="scored rows by score and class",
    unit="row",
    probabilities=False,
)
BY_NAME = {score.name: score for score in (LOG_LOSS, AUROC)}
"""Name -> score."""


def loss_of(score: Score, recipe: Recipe) -> LossFamily | None:
    """The loss that gives the probabilities of a recipe; None for a score that needs none.

    Raises:
        ValueError: if the score needs probabilities and the recipe gives none.
    """
    if recipe.loss is None:
        missing = no_link(recipe.name)
    else:
        alphas = np.unique(np.asarray(recipe.weighting.link_alpha, np.float32))
        members = [recipe.loss(alpha) for alpha in alphas]
        kinked = [member.name for member in members if not np.isfinite(member.smoothness)]
        if not kinked:
            return recipe.loss
        missing = kinks(kinked[0])
    if score.probabilities:
        raise ValueError(f"the score {score.name} needs probabilities: {missing}")
    return None


@functools.cache
def program_of(
    score: Score, noise: Mechanism, relation: Relation, loss: LossFamily | None
) -> Program:
    """The private program of a score, whose budget is a `types.Noise`.

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


# Choices.


@dataclasses.dataclass(frozen=True)
class Selection:
    """How candidates are tried and scored; all of it is public. Make one with `selection`.

    Attributes:
        score: "auroc" or "log_loss".
        count: the law of the number of runs.
        held_out: the share of rows that are scored on and not learned from; None if all rows are
            both.
        score_fraction: the share of a run's budget that its score gets where a run costs the sum.
        seed: of the rule that holds rows out.
    """

    score: str
    count: RunCount
    held_out: float | None
    score_fraction: float
    seed: int

    def disjoint(self, relation: Relation) -> bool:
        """Whether a run costs the dearer of fit and score, and not their sum.

        It does where fit and score read different rows, under add/remove: a row that comes or goes
        is in one part. Under replace-one the old row may be in one part and the new one in the
        other, so a run costs the sum.
        """
        return self.held_out is not None and relation is ADD_REMOVE


def selection(
    score: str = "log_loss",
    *,
    mean: float = 5.0,
    eta: float = -0.5,
    held_out: float | None = 0.25,
    score_fraction: float = 0.1,
    seed: int = 0,
) -> Selection:
    """How candidates are tried and scored.

    A pure guarantee costs 2 + eta times a run, whatever the mean. One with a delta costs more for a
    larger mean.

    Args:
        score: "log_loss" (the sum of log losses, each at most 2 nats) or "auroc" (from counts in 16
            public intervals).
        mean: the mean number of runs, at least 1. The number itself is random and has no bound.
        eta: the shape of its law, in -0.9..100: 0 is logarithmic and 1 geometric.
        held_out: the share of rows that are scored on and not learned from, in (0, 1). None learns
            from all rows and scores on all rows.
        score_fraction: the share of a run's budget that goes to its score, in (0, 1). It counts
            where a run costs the sum of fit and score: under replace-one, or without held-out rows.
            Elsewhere the score costs as much as the fit.
        seed: of the rule that holds rows out, a whole number in 0..2^32 - 1. It is not a secret.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    one_of("score", score, tuple(BY_NAME))
    if held_out is not None:
        held_out = float(positive("held_out", held_out, below=1))
    share = float(positive("score_fraction", score_fraction, below=1))
    seed = int(within("seed", seed, f"[0, {2**32 - 1}]", whole=True))
    return Selection(score, accounting.run_count(mean, eta), held_out, share, seed)


def settings_of(recipes: Recipe | Sequence[Recipe]) -> list[Recipe]:
    """Every setting of one or several recipes, in order.

    Raises:
        ValueError: for no recipe, something that is none, or recipes that differ in what a choice
            has once: rows, delta, relation and max_rows_per_user. Also for a recipe whose
            calibration reads private data without a mechanism, or that predicts anything but two
            classes.
    """
    given = [recipes] if isinstance(recipes, Recipe) else list(recipes)
    if not given or not all(isinstance(each, Recipe) for each in given):
        raise ValueError("recipes must be one or several recipes, as dpbt.recipes makes them")
    single = [
        setting(each, index) if index else each
        for each in given
        for index in np.ndindex(np.shape(each.rows))
    ]
    for each in single:
        response = each.learner.hypotheses.response
        if response != BINARY:
            raise ValueError(
                f"{each.name} predicts {response.words}, and a choice is among recipes of two "
                "classes"
            )
        if each.learner.traits.unprotected:
            raise ValueError(
                f"the calibration of {each.name} reads private data without a mechanism, so no "
                "choice can be paid for; use calibration='tight'"
            )
        for name in ("rows", "delta", "relation", "max_rows_per_user"):
            if getattr(each, name) != getattr(single[0], name):
                raise ValueError(f"all candidates must have the same {name}")
    return single


class Plan(NamedTuple):
    """What a choice runs, and what it costs.

    Attributes:
        choice: what is public about the choice.
        score: the kind of score.
        params: the noise of the score.
        line: the ledger's line of the score.
        programs: the private program of the score, for models of each candidate.
    """

    choice: accounting.Choice
    score: Score
    params: Noise
    line: Line
    programs: tuple[Program, ...]


def plan(single: Sequence[Recipe], selection: Selection) -> Plan:
    """The plan of a choice among single settings of recipes (`settings_of`).

    Raises:
        ValueError: if the score needs probabilities that a recipe does not give, and as
            `dpbt.ledger`.
    """
    first, books = single[0], [ledger(each) for each in single]
    disjoint = selection.disjoint(first.relation)
    choice = accounting.choice_of(
        books, selection.count, selection.score, len(single), disjoint=disjoint
    )
    score = BY_NAME[selection.score]
    noise = mechanisms.rounded_gaussian if first.delta > 0 else mechanisms.discrete_laplace

    # The score costs as much as the fit, or its share of the sum.
    part = 1.0 if disjoint else selection.score_fraction / (1 - selection.score_fraction)
    spent = Allowance(np.asarray(choice.epsilon), np.asarray(0.0))
    if first.delta > 0:
        spent = Allowance(np.asarray(0.0), np.asarray(choice.rho))
    multiplier = noise.multiplier(for_people(spent.part(part), first.max_rows_per_user))
    params = Noise({SITE: multiplier})
    programs = tuple(
        program_of(score, noise, first.relation, loss_of(score, each)) for each in single
    )

    # The line of the score's draw, as its program describes it on a table of one row.
    nobody = jnp.zeros(1, bool)
    rows = Table(jnp.zeros((1, 1), jnp.uint8), nobody, nobody)
    view = View(rows, jnp.zeros(1, jnp.float32), params, first.public())
    spec = boundary.describe(programs[0], view)[SITE]
    line = pricing.line(spec, params.noise, first.max_rows_per_user)
    return Plan(choice, score, params, line, programs)


def planned_ledger(recipes: Recipe | Sequence[Recipe], selection: Selection) -> Ledger:
    """The ledger of a choice before it is made; its lines are those of the first candidate.

    Args:
        recipes: the candidates, as `dpbt.tune` takes them.
        selection: how they are tried and scored.

    Raises:
        ValueError: as `settings_of` and `plan`.
    """
    single = settings_of(recipes)
    made, fit = plan(single, selection), ledger(single[0])
    return structs.replace(fit, lines=(*fit.lines, made.line), choice=made.choice)


_TRIES = 20


def candidates(
    build: Callable[..., Recipe],
    selection: Selection,
    *,
    grid: Mapping[str, Sequence[Any]],
    epsilon: float,
    delta: float = 0.0,
    relation: str | Relation = ADD_REMOVE,
    **options: Any,
) -> list[Recipe]:
    """A candidate for each combination of a grid, whose choice costs at most (epsilon, delta).

    It finds the epsilon of a run, and builds every candidate with it. So epsilon is the total, as
    for every recipe.

    Args:
        build: a recipe's function, such as `recipes.oblivious_boost`.
        selection: as `dpbt.tune` is given it.
        grid: argument of `build` -> its values; the candidates are all combinations.
        epsilon: the total budget of the choice, above 0.
        delta: of the choice; 0 for a pure guarantee, else in (0, 1).
        relation: "add_remove" or "replace_one".
        **options: the other arguments of `build`, such as rows and domain.

    Raises:
        ValueError: for a value outside these ranges, and as `build` and `plan`.
    """
    epsilon, delta = float(epsilons(epsilon)), float(deltas(delta))
    relation = to_relation(relation)
    if not grid or not all(len(values) for values in grid.values()):
        raise ValueError("grid must have an argument, and values for each of its arguments")
    given = {"delta": delta, "relation": relation, **options}
    chosen = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]

    for gaussian in (True, False) if delta else (True,):
        each = run_epsilon(epsilon, delta, selection, relation, gaussian=gaussian)
        if each == 0:
            raise ValueError(f"epsilon is too small for a choice of several runs, got {epsilon:g}")
        for _ in range(_TRIES):
            made = [build(epsilon=each, **given, **values) for values in chosen]
            book = planned_ledger(made, selection)
            if book.epsilon <= epsilon:
                return made
            if gaussian and delta and book.accountant == "zcdp":
                break  # the draws are not all Gaussian
            each *= 1 - min(1.01 * (book.epsilon / epsilon - 1) + 1e-7, 0.5)  # finite bits
    raise ValueError(f"no epsilon of a run was found whose choice costs at most {epsilon:g}")


def run_epsilon(
    epsilon: float,
    delta: float,
    selection: Selection,
    relation: str | Relation = ADD_REMOVE,
    *,
    gaussian: bool = True,
) -> float:
    """The epsilon of one fit, at the same delta, whose choice costs (epsilon, delta).

    What finite bits cost is not in it; `candidates` counts it.

    Args:
        epsilon: the total, above 0.
        delta: 0, or in (0, 1).
        selection: how candidates are tried and scored.
        relation: the neighbouring relation.
        gaussian: whether all draws of a fit are Gaussian. It counts with a delta.
    """
    if math.isinf(epsilon):
        return epsilon
    share = 0.0 if selection.disjoint(to_relation(relation)) else selection.score_fraction
    count = selection.count
    if delta == 0:
        return epsilon / accounting.best_pure_epsilon(1.0, count) * (1 - share)

    def total(mu: float) -> float:
        if gaussian:
            return accounting.best_gdp_epsilon(mu, delta, count)
        return accounting.best_zcdp_epsilon(mu**2 / 2, delta, count)

    low, high = 0.0, float(accounting.gdp_mu(epsilon, delta))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) <= epsilon else (low, middle)
    fit = low * math.sqrt(1 - share)
    if gaussian:
        return accounting.gdp_epsilon(fit, delta)
    return accounting.zcdp_epsilon(fit**2 / 2, delta)


AROUND = {"rounds": (0.5, 1.0, 2.0), "step": (0.5, 1.0, 2.0), "clip": (0.3, 1.0)}
"""Candidates of `around_auto`: multiples of the rule's rounds and step, and clips."""


def around_auto(
    selection: Selection,
    *,
    epsilon: float,
    rows: int,
    domain: Domain,
    delta: float = 0.0,
    seed: int = 0,
    relation: str | Relation = ADD_REMOVE,
    max_rows_per_user: int = 1,
) -> list[Recipe]:
    """18 candidates: `recipes.auto` with half and twice its rounds and steps, and with two clips.

    Guarantee: a choice among them costs at most (epsilon, delta), as `candidates` says.

    Args:
        selection: as `dpbt.tune` is given it.
        epsilon: the total budget of the choice, above 0.
        rows: as `recipes.auto`.
        domain: the public domain of the table.
        delta: of the choice; 0 for a pure guarantee, else in (0, 1).
        seed: of the public splits. It is not a secret.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows that one person has, by the owner's promise.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    domains.check(domain)
    bound = checked_rows(rows)
    if bound.ndim:
        raise ValueError(f"around_auto takes one rows, got {bound.size} of them")
    related = to_relation(relation)

    def scaled(*, epsilon: float, rounds: float, step: float, **options: Any) -> Recipe:
        """`auto` with multiples of its rounds and its step.

        The step also falls with the root of the multiple of rounds, as the rule's own does. The
        limit follows the step.
        """
        chosen = rule(epsilon, int(bound), len(domain), delta, related, max_rows_per_user)
        number = max(1, round(rounds * chosen.rounds))
        factor = step * math.sqrt(chosen.rounds / number)
        numbers = chosen._asdict() | {"rounds": number, **options}
        numbers |= {"step": factor * chosen.step, "limit": factor * chosen.limit}
        return oblivious_boost(epsilon=epsilon, **numbers)

    return candidates(
        scaled,
        selection,
        grid=AROUND,
        epsilon=epsilon,
        delta=delta,
        relation=related,
        rows=int(bound),
        domain=domain,
        seed=seed,
        max_rows_per_user=max_rows_per_user,
    )
