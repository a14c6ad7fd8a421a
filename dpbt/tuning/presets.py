"""Candidates around `auto`: its rule, and the same with numbers that the rule may get wrong."""

from __future__ import annotations  # so that help() shows Domain by its name

import functools
import math

from dpbt.base import ADD_REMOVE, Recipe, Relation
from dpbt.base import relation as to_relation
from dpbt.data import domains
from dpbt.data.domains import Domain
from dpbt.recipes import oblivious_boost
from dpbt.recipes.building import checked_rows
from dpbt.recipes.limits import makes_recipes
from dpbt.recipes.oblivious import rule
from dpbt.tuning.selections import Selection, candidates

GRID = {"rounds": (0.5, 1.0, 2.0), "step": (0.5, 1.0, 2.0), "clip": (0.3, 1.0)}
"""Candidates of `around_auto`: multiples of the rule's rounds and step, and clips."""


def _scaled(
    *,
    epsilon: float,
    delta: float,
    rows: int,
    domain: Domain,
    relation: Relation,
    rows_per_person: int,
    seed: int,
    rounds: float,
    step: float,
    clip: float,
) -> Recipe:
    """`auto` with multiples of its rounds and its step.

    The step also falls with the root of the multiple of rounds, as the rule's own does. The limit
    follows the step.
    """
    people = {"relation": relation, "rows_per_person": rows_per_person}
    chosen = rule(epsilon, rows, len(domain), delta, relation, rows_per_person)
    number = max(1, round(rounds * chosen.rounds))
    factor = step * math.sqrt(chosen.rounds / number)
    numbers = chosen._asdict() | {
        "rounds": number,
        "step": factor * chosen.step,
        "limit": factor * chosen.limit,
        "clip": clip,
    }
    common = {"epsilon": epsilon, "delta": delta, "rows": rows, "domain": domain, "seed": seed}
    return oblivious_boost(**common, **people, **numbers)


@makes_recipes
def around_auto(
    selection: Selection,
    *,
    epsilon: float,
    rows: int,
    domain: Domain,
    delta: float = 0.0,
    seed: int = 0,
    relation: str | Relation = ADD_REMOVE,
    rows_per_person: int = 1,
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
        rows_per_person: the most rows that one person has, by the owner's promise.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    domains.check(domain)
    bound = checked_rows(rows)
    if bound.ndim:
        raise ValueError(f"around_auto takes one rows, got {bound.size} of them")
    return candidates(
        functools.partial(_scaled, seed=seed, rows_per_person=rows_per_person),
        selection,
        grid=GRID,
        epsilon=epsilon,
        delta=delta,
        relation=to_relation(relation),
        rows=int(bound),
        domain=domain,
    )
