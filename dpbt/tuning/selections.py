"""What is public about tuning: the score, the number of runs, the parts of the rows, the price."""

from __future__ import annotations  # so that help() shows the types by their names

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.base import ADD_REMOVE, BINARY, Noise, Program, Recipe, Relation
from dpbt.base import relation as to_relation
from dpbt.data import domains
from dpbt.data.domains import Domain
from dpbt.privacy import accounting, mechanisms
from dpbt.privacy.accounting import ChoiceLedger, Line, RunCount
from dpbt.privacy.mechanism import Allowance
from dpbt.privacy.pricing import ledger
from dpbt.recipes import oblivious_boost, setting
from dpbt.recipes.building import checked_rows, deltas, epsilons, for_people
from dpbt.recipes.oblivious import rule
from dpbt.tuning import scores
from dpbt.validate import one_of, positive, shown

MAX_SEED = 2**32
"""Seeds of the held-out rows are whole numbers below this."""


@dataclasses.dataclass(frozen=True)
class Selection:
    """How candidates are tried and scored; all of it is public. Make one with `selection`.

    Attributes:
        score: "accuracy", "auroc" or "log_loss".
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
        score: "accuracy" (the number of errors), "log_loss" (the sum of log losses, each at most 2
            nats) or "auroc" (from counts in 16 public intervals).
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
    one_of("score", score, tuple(scores.BY_NAME))
    if held_out is not None:
        held_out = float(positive("held_out", held_out, below=1))
    share = float(positive("score_fraction", score_fraction, below=1))
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < MAX_SEED:
        raise ValueError(f"seed must be a whole number in 0..{MAX_SEED - 1}, got {shown(seed)}")
    count = accounting.run_count(mean, eta)
    return Selection(score, count, held_out, share, int(seed))


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
        budget: the noise of the score.
        line: the ledger's line of the score.
    """

    choice: accounting.Choice
    score: scores.Score
    params: Noise
    line: Line

    def program(self, recipe: Recipe) -> Program:
        """The private program of the score, for models of a recipe."""
        loss = scores.loss_of(self.score, recipe)
        return scores.program_of(self.score, self.line.mechanism, recipe.relation, loss)


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
    score = scores.BY_NAME[selection.score]
    noise = mechanisms.rounded_gaussian if first.delta > 0 else mechanisms.discrete_laplace

    # The score costs as much as the fit, or its share of the sum.
    part = 1.0 if disjoint else selection.score_fraction / (1 - selection.score_fraction)
    spent = Allowance(np.asarray(choice.epsilon), np.asarray(0.0))
    if first.delta > 0:
        spent = Allowance(np.asarray(0.0), np.asarray(choice.rho))
    multiplier = noise.multiplier(for_people(spent.part(part), first.max_rows_per_user))
    params = Noise({scores.SITE: multiplier})

    # The line is of the draw of every candidate's program.
    lines = [
        accounting.line_of_draw(
            scores.event_of(scores.program_of(score, noise, first.relation, loss), params, first),
            1,
        )
        for loss in dict.fromkeys(scores.loss_of(score, each) for each in single)
    ]
    return Plan(choice, score, params, lines[0])


def planned_ledger(recipes: Recipe | Sequence[Recipe], selection: Selection) -> ChoiceLedger:
    """The ledger of a choice before it is made; its lines are those of the first candidate.

    Args:
        recipes: the candidates, as `dpbt.tune` takes them.
        selection: how they are tried and scored.

    Raises:
        ValueError: as `settings_of` and `plan`.
    """
    single = settings_of(recipes)
    made = plan(single, selection)
    return accounting.with_choice(ledger(single[0]), None, made.choice, made.line)


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


GRID = {"rounds": (0.5, 1.0, 2.0), "step": (0.5, 1.0, 2.0), "clip": (0.3, 1.0)}
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
        seed: of the public questions. It is not a secret.
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
        grid=GRID,
        epsilon=epsilon,
        delta=delta,
        relation=related,
        rows=int(bound),
        domain=domain,
        seed=seed,
        max_rows_per_user=max_rows_per_user,
    )
