"""A recipe of any weak learner: your own, or one of the library under another re-weighter."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import functools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbt.base import (
    ADD_REMOVE,
    MAX_ROWS,
    MOST_CHUNKED_ROWS,
    Budget,
    LossFamily,
    ProperLoss,
    Public,
    Recipe,
    Relation,
    Reweighter,
    Reweighting,
    WeakLearner,
    check_parts,
    relation_name,
)
from dpbt.losses import check_loss
from dpbt.privacy import pricing
from dpbt.privacy.mechanism import Allowance
from dpbt.recipes.building import (
    Calibrate,
    Parts,
    assemble,
    build,
    checked_request,
    checked_rows,
    family_of,
)
from dpbt.recipes.limits import makes_recipes
from dpbt.recipes.settings import setting
from dpbt.reweighting import uniform
from dpbt.validate import floats, shown


@makes_recipes
def custom(
    learner: WeakLearner,
    *,
    rows: ArrayLike,
    rounds: ArrayLike,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike = 0.0,
    budget: Budget | None = None,
    calibrate: Calibrate | None = None,
    reweighter: Reweighter = uniform,
    reweighting: Reweighting = (),
    loss: ProperLoss | LossFamily | str | None = None,
    relation: str | Relation | None = None,
    rows_per_person: int = 1,
    name: str = "custom",
) -> Recipe:
    """Boosting with any weak learner: Bun et al. (2020), Algorithm 4, for any re-weighter.

    Guarantee: what the learner's events say, times `rounds`; see `dpbt.ledger`. With `epsilon` the
    learner's `calibrate` sets the noise, after the samplers' finite bits are paid for.

    Args:
        learner: from `boundary.weak_learner`, or one of `dpbt.learners`.
        rows: m. Under add/remove a public bound on the number of rows; under replace-one their
            public number.
        rounds: T.
        epsilon: the total budget, for a learner that can be calibrated. Give either this or
            `budget`.
        delta: 0 for a pure guarantee, else in (0, 1), through GDP where all draws are
            Gaussian, and else through zCDP.
        budget: the learner's numbers, a NamedTuple, instead of `epsilon`.
        calibrate: (allowance of all rounds, rounds, public) -> budget, for `epsilon`; the
            learner's own by default.
        reweighter: `reweighting.uniform`, `mirror(...)`, `lazy_bregman(...)` or your own.
        reweighting: the numbers of the re-weighter, a NamedTuple such as
            `reweighting.MirrorNumbers`; an empty tuple for `uniform`.
        loss: the loss of `predict_proba`, a family of losses, or a name in `losses.NAMED`. Its
            alpha is `reweighting.link_alpha`.
        relation: "add_remove" or "replace_one"; by default the learner's, or add/remove.
        rows_per_person: the most rows that one person has, by the owner's promise. The guarantee is
            then for all rows of a person together.
        name: the name of the algorithm in tables.

    Raises:
        ValueError: for both or neither of `epsilon` and `budget`, for an argument of another kind
            or out of its range, and for a learner that cannot be calibrated. Parts that do not fit
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
    if budget is not None and calibrate is not None:
        raise ValueError(
            f"calibrate sets the noise for epsilon; with budget, got {shown(calibrate)}"
        )
    if calibrate is not None and not callable(calibrate):
        raise ValueError(
            "calibrate must be a function (allowance, rounds, public) -> budget, "
            f"got {shown(calibrate)}"
        )
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
    family = None if loss is None else family_of("loss", loss)
    if family is not None:
        check_loss(family)
    if family is not None and not hasattr(reweighting, "link_alpha"):
        raise ValueError("a loss needs reweighting with link_alpha, as MirrorNumbers has it")
    parts = Parts(learner, reweighter, reweighting, family, name, "custom")

    # Take the given budget, or calibrate one.
    if budget is not None:
        _check_budget("budget", budget, learner, request.public(reweighting))
        return _of_a_size(assemble(request, parts, budget))
    own = learner.calibrate
    if calibrate is not None:
        own = functools.partial(_calibrated, calibrate, learner)
    if own is None:
        raise ValueError(f"{learner.tag} has no calibrate of its own; give one, or a budget")
    return _of_a_size(build(request, parts, own))


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


def _calibrated(
    calibrate: Calibrate, learner: WeakLearner, allowance: Allowance, rounds: Any, public: Public
) -> Budget:
    """The budget by a given calibration, checked."""
    budget = calibrate(allowance, rounds, public)
    _check_budget("the result of calibrate", budget, learner, public)
    return budget


def _check_budget(name: str, budget: Budget, learner: WeakLearner, public: Public) -> None:
    """Check that a budget is a NamedTuple of numbers that the learner's events can read.

    Raises:
        ValueError: naming the budget and the field, or the learner that cannot read it.
    """
    if not hasattr(budget, "_asdict"):
        raise ValueError(f"{name} must be a NamedTuple of numbers, got {shown(budget)}")
    for field, value in budget._asdict().items():
        if not np.all(floats(f"{field} of {name}", value) >= 0):  # NaN, too
            raise ValueError(f"{field} of {name} must be at least 0, got {shown(value)}")
    try:
        learner.events(budget, public)
    except AttributeError as error:
        raise ValueError(
            f"{name} is a {type(budget).__name__}, which {learner.tag} cannot read: {error}"
        ) from error
