"""A recipe of any weak learner: your own, or one of the library under another weight update."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from dpbt.base import (
    ADD_REMOVE,
    MAX_ROWS,
    MAX_ROWS_IN_BLOCKS,
    LossFamily,
    Params,
    ProperLoss,
    Recipe,
    Relation,
    WeakLearner,
    Weighting,
    WeightUpdate,
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
    setting,
)
from dpbt.validate import floats, shown
from dpbt.weighting import uniform


def custom(
    learner: WeakLearner,
    *,
    rows: ArrayLike,
    rounds: ArrayLike,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike = 0.0,
    params: Params | None = None,
    fractions: Mapping[str, Any] | None = None,
    weight_update: WeightUpdate = uniform,
    weighting: Weighting = (),
    loss: ProperLoss | LossFamily | str | None = None,
    relation: str | Relation | None = None,
    max_rows_per_user: int = 1,
    name: str = "custom",
) -> Recipe:
    """Boosting with any weak learner: Bun et al. (2020), Algorithm 4, for any weight update.

    Guarantee: what the learner's draws cost, times `rounds`; see `dpbt.ledger`. With `epsilon` the
    fractions of its draws set the noise, after the samplers' finite bits are paid for.

    Args:
        learner: from `boundary.weak_learner`, or one of `dpbt.learners`.
        rows: m. Under add/remove a public bound on the number of rows; under replace-one their
            public number.
        rounds: T.
        epsilon: the total budget. Give either this or `params`.
        delta: 0 for a pure guarantee, else in (0, 1), through GDP where all draws are
            Gaussian, and else through zCDP.
        params: the learner's numbers, a NamedTuple, instead of `epsilon`.
        fractions: the fraction of `epsilon` of each site; the learner's own by default.
        weight_update: `weighting.uniform`, `mirror(...)`, `lazy_bregman(...)` or your own.
        weighting: the numbers of the weight update, a NamedTuple such as
            `weighting.MirrorNumbers`; an empty tuple for `uniform`.
        loss: the loss of `predict_proba`, a family of losses, or a name in `losses.NAMED`. Its
            alpha is `weighting.link_alpha`. None for scores without probabilities.
        relation: "add_remove" or "replace_one"; by default the learner's, or add/remove.
        max_rows_per_user: the most rows that one person has, by the owner's promise. The guarantee
            is then for all rows of a person together.
        name: the name of the algorithm in tables.

    Raises:
        ValueError: for both or neither of `epsilon` and `params`, for an argument of another kind
            or out of its range, and for a site without a fraction. Parts that do not fit
            together are refused as `Recipe` says.
    """
    # Check each argument by itself.
    if not isinstance(learner, WeakLearner):
        raise ValueError(
            "learner must be a weak learner, as boundary.weak_learner makes it, "
            f"got {shown(learner)}"
        )
    if (epsilon is None) == (params is None):
        raise ValueError(f"give either epsilon or params, got {shown(epsilon)} and {shown(params)}")
    if params is not None and fractions is not None:
        raise ValueError(
            f"fractions share out epsilon; with params, got fractions={shown(fractions)}"
        )
    if fractions is not None and not isinstance(fractions, Mapping):
        raise ValueError(f"fractions must map sites to numbers, got {shown(fractions)}")
    if not isinstance(name, str):
        raise ValueError(f"name must be a text, got {shown(name)}")
    _check_reweighting(weight_update, weighting)

    if relation is None:
        relation = ADD_REMOVE if learner.relation is None else relation_name(learner.relation)
    request = checked_request(
        epsilon=np.inf if epsilon is None else epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration="tight",
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        max_rows=MAX_ROWS_IN_BLOCKS,
    )

    # Check that they fit together.
    check_parts(learner, weight_update, request.relation)
    family = None if loss is None else as_family(loss, "loss")
    if family is not None:
        check_loss(family)
        if not hasattr(weighting, "link_alpha"):
            raise ValueError("a loss needs weighting with link_alpha, as MirrorNumbers has it")
    weight_update = weight_update._replace(loss=family)
    parts = Parts(learner, weight_update, weighting, name, "custom")

    # Take the given numbers, or calibrate one.
    if params is not None:
        _check_budget(params)
        return _of_a_size(assemble(request, parts, params))
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


def _check_reweighting(weight_update: WeightUpdate, weighting: Weighting) -> None:
    """Check a weight update and its numbers.

    Raises:
        ValueError: for something that is no weight update, or for numbers that are not its own.
    """
    if not isinstance(weight_update, WeightUpdate):
        raise ValueError(
            "weight_update must be a weight update, such as weighting.mirror(losses.log), "
            f"got {shown(weight_update)}"
        )
    if weight_update.numbers is tuple and weighting != ():
        raise ValueError(
            f"weighting must be an empty tuple for {weight_update.tag}, got {shown(weighting)}"
        )
    if not isinstance(weighting, weight_update.numbers):
        raise ValueError(
            f"{weight_update.tag} needs weighting={weight_update.numbers.__name__}(...), "
            f"got {shown(weighting)}"
        )
    for field, value in zip(getattr(weighting, "_fields", ()), weighting, strict=True):
        if value is not None:
            floats(f"{field} of weighting", value)


def _check_budget(params: Params) -> None:
    """Check that params are a NamedTuple of numbers, with the noise of its sites.

    Raises:
        ValueError: naming the field.
    """
    if not hasattr(params, "_asdict") or not isinstance(getattr(params, "noise", None), Mapping):
        raise ValueError(
            "params must be a NamedTuple whose noise maps sites to numbers, as base.Noise, "
            f"got {shown(params)}"
        )
    for path, value in jax.tree_util.tree_leaves_with_path(params):
        name = jax.tree_util.keystr(path, simple=True, separator=" ")
        if not np.all(floats(f"{name} of params", value) >= 0):  # NaN, too
            raise ValueError(f"{name} of params must be at least 0, got {shown(value)}")
