"""A recipe of any weak learner: one's own, or one of the library under another re-weighter."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import numpy as np
from numpy.typing import ArrayLike

from dpbt.base import (
    ADD_REMOVE,
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
from dpbt.losses import as_family
from dpbt.recipes.building import Calibrate, Parts, assemble, build, checked_request
from dpbt.reweighting import uniform


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
    loss: ProperLoss | LossFamily | None = None,
    relation: str | Relation | None = None,
    name: str = "custom",
) -> Recipe:
    """Boosting with any weak learner: Bun et al. (2020), Algorithm 4, for any re-weighter.

    Guarantee: what the learner's events say, times `rounds`; see `dpbt.ledger`. With `epsilon` the
    learner's `calibrate` sets the noise, after what finite bits cost is paid for.

    Args:
        learner: from `boundary.weak_learner`, or one of `dpbt.learners`.
        rows: m. Under add/remove a public bound on the number of rows; under replace-one their
            public number.
        rounds: T.
        epsilon: the total budget, for a learner that can be calibrated; or give `budget`.
        delta: 0 for a pure guarantee, else in (0, 1), through zCDP.
        budget: the learner's numbers, a NamedTuple, instead of `epsilon`.
        calibrate: (allowance of all rounds, rounds, public) -> budget; the learner's by default.
        reweighter: `reweighting.uniform`, `mirror(...)`, `lazy_bregman(...)` or one's own.
        reweighting: its numbers, a NamedTuple; `reweighting.MirrorNumbers` for example.
        loss: for `predict_proba`; its alpha is `reweighting.link_alpha`.
        relation: the neighbouring relation; by default the learner's, or add/remove.
        name: for tables.

    Raises:
        ValueError: for both or neither of `epsilon` and `budget`, for a learner that cannot be
            calibrated, for numbers of another re-weighter, and as `Recipe` has it for parts that do
            not fit.
    """
    if (epsilon is None) == (budget is None):
        raise ValueError(f"give either epsilon or budget, got {epsilon!r} and {budget!r}")

    if relation is None:
        relation = ADD_REMOVE if learner.relation is None else relation_name(learner.relation)
    request = checked_request(
        epsilon=np.inf if epsilon is None else epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration="tight",
        relation=relation,
    )
    check_parts(learner, reweighter, request.relation)
    if not isinstance(reweighting, reweighter.numbers):
        raise ValueError(
            f"{reweighter.tag} needs reweighting={reweighter.numbers.__name__}(...), "
            f"got {reweighting!r}"
        )

    family = None if loss is None else as_family(loss)
    if family is not None and not hasattr(reweighting, "link_alpha"):
        raise ValueError("a loss needs reweighting with link_alpha, as MirrorNumbers has it")

    parts = Parts(learner, reweighter, reweighting, family, name, "custom")
    if budget is not None:
        return assemble(request, parts, budget)

    calibrate = learner.calibrate if calibrate is None else calibrate
    if calibrate is None:
        raise ValueError(f"{learner.tag} has no calibrate of its own; give one, or a budget")
    return build(request, parts, calibrate)
