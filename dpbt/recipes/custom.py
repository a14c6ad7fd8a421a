"""A recipe of any weak learner: your own, or one of the library under another re-weighter."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from dpbt.base import (
    ADD_REMOVE,
    MAX_ROWS,
    MOST_CHUNKED_ROWS,
    Budget,
    LossFamily,
    ProperLoss,
    Recipe,
    Relation,
    Reweighter,
    Reweighting,
    WeakLearner,
    check_parts,
    relation_name,
)
from dpbt.losses import as_family, check_loss
from dpbt.privacy import pricing
from dpbt.recipes.building import (
    Parts,
    assemble,
    build,
    checked_request,
    checked_rows,
)
from dpbt.recipes.settings import setting
from dpbt.reweighting import uniform
from dpbt.validate import floats, shown


def custom(
    learner: WeakLearner,
    *,
    rows: ArrayLike,
    rounds: ArrayLike,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike = 0.0,
    budget: Budget | None = None,
    fractions: Mapping[str, Any] | None = None,
    reweighter: Reweighter = uniform,
    reweighting: Reweighting = (),
    loss: ProperLoss | LossFamily | str | None = None,
    relation: str | Relation | None = None,
    rows_per_person: int = 1,
    name: str = "custom",
) -> Recipe:
    """Boosting with any weak learner: Bun et al. (2020), Algorithm 4, for any re-weighter.

    Guarantee: what the learner's draws cost, times `rounds`; see `dpbt.ledger`. With `epsilon` the
    fractions of its draws set the noise, after the samplers' finite bits are paid for.

    Args:
        learner: from `boundary.weak_learner`, or one of `dpbt.learners`.
        rows: m. Under add/remove a public bound on the number of rows; under replace-one their
            public number.
        rounds: T.
        epsilon: the total budget. Give either this or `budget`.
        delta: 0 for a pure guarantee, else in (0, 1), through GDP where all draws are
            Gaussian, and else through zCDP.
        budget: the learner's numbers, a NamedTuple, instead of `epsilon`.
        fractions: the fraction of `epsilon` of each site; the learner's own by default.
        reweighter: `reweighting.uniform`, `mirror(...)`, `lazy_bregman(...)` or your own.
        reweighting: the numbers of the re-weighter, a NamedTuple such as
            `reweighting.MirrorNumbers`; an empty tuple for `uniform`.
        loss: the loss of `predict_proba`, a family of losses, or a name in `losses.NAMED`. Its
            alpha is `reweighting.link_alpha`. None for scores without probabilities.
        relation: "add_remove" or "replace_one"; by default the learner's, or add/remove.
        rows_per_person: the most rows that one person has, by the owner's promise. The guarantee is
            then for all rows of a person together.
        name: the name of the algorithm in tables.

    Raises:
        ValueError: for both or neither of `epsilon` and `budget`, for an argument of another kind
            or out of its range, and for a site without a fraction. Parts that do not fit
            together are refused as `Recipe` says.
    """
    # Check each argument by itself.
    if not isinstance(learner, WeakLearner):
        raise ValueError(
            "learner must be a weak learner, as boundary.weak_learner makes it, "
            f"got {shown(learner)}"
        )
    if (epsilon is None) == (budget is None):
        raise ValueError(f"give either epsilon or budget, got {shown(epsilon)} and {shown(budget)}")
    if budget is not None and fractions is not None:
        raise ValueError(
            f"fractions share out epsilon; with budget, got fractions={shown(fractions)}"
        )
    if fractions is not None and not isinstance(fractions, Mapping):
        raise ValueError(f"fractions must map sites to numbers, got {shown(fractions)}")
    if not isinstance(name, str):
        raise ValueError(f"name must be a text, got {shown(name)}")
    _check_reweighting(reweighter, reweighting)

    if relation is None:
        relation = ADD_REMOVE if learner.relation is None else relation_name(learner.relation)
    request = checked_request(
        epsilon=np.inf if epsilon is None else epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration="tight",
        relation=relation,
        rows_per_person=rows_per_person,
        most_rows=MOST_CHUNKED_ROWS,
    )

    # Check that they fit together.
    check_parts(learner, reweighter, request.relation)
    family = None if loss is None else as_family(loss, "loss")
    if family is not None:
        check_loss(family)
        if not hasattr(reweighting, "link_alpha"):
            raise ValueError("a loss needs reweighting with link_alpha, as MirrorNumbers has it")
    reweighter = reweighter._replace(loss=family)
    parts = Parts(learner, reweighter, reweighting, name, "custom")

    # Take the given budget, or calibrate one.
    if budget is not None:
        _check_budget(budget)
        return _of_a_size(assemble(request, parts, budget))
    return _of_a_size(build(request, parts, fractions))


def _of_a_size(recipe: Recipe) -> Recipe:
    """A recipe for tables of more rows than memory holds only if it reads them in parts.

    Raises:
        ValueError: naming rows.
    """
    first = (0,) * np.ndim(recipe.rows)
    if np.any(recipe.rows > MAX_ROWS):
        try:
            pricing.check_in_parts(setting(recipe, first) if first else recipe)
        except ValueError:
            checked_rows(recipe.rows, MAX_ROWS)
    return recipe


def _check_reweighting(reweighter: Reweighter, reweighting: Reweighting) -> None:
    """Check a re-weighter and its numbers.

    Raises:
        ValueError: for something that is no re-weighter, or for numbers that are not its own.
    """
    if not isinstance(reweighter, Reweighter):
        raise ValueError(
            "reweighter must be a re-weighter, such as reweighting.mirror(losses.log), "
            f"got {shown(reweighter)}"
        )
    if reweighter.numbers is tuple and reweighting != ():
        raise ValueError(
            f"reweighting must be an empty tuple for {reweighter.tag}, got {shown(reweighting)}"
        )
    if not isinstance(reweighting, reweighter.numbers):
        raise ValueError(
            f"{reweighter.tag} needs reweighting={reweighter.numbers.__name__}(...), "
            f"got {shown(reweighting)}"
        )
    for field, value in zip(getattr(reweighting, "_fields", ()), reweighting, strict=True):
        floats(f"{field} of reweighting", value)


def _check_budget(budget: Budget) -> None:
    """Check that a budget is a NamedTuple of numbers, with the noise of its sites.

    Raises:
        ValueError: naming the field.
    """
    if not hasattr(budget, "_asdict") or not isinstance(getattr(budget, "noise", None), Mapping):
        raise ValueError(
            "budget must be a NamedTuple whose noise maps sites to numbers, as base.Noise, "
            f"got {shown(budget)}"
        )
    for path, value in jax.tree_util.tree_leaves_with_path(budget):
        name = jax.tree_util.keystr(path, simple=True, separator=" ")
        if not np.all(floats(f"{name} of budget", value) >= 0):  # NaN, too
            raise ValueError(f"{name} of budget must be at least 0, got {shown(value)}")
