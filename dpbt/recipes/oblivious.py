"""Boosting with oblivious trees over public questions, and the rule that sets all of its numbers."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import functools
import math

import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses
from dpbt.base import ADD_REMOVE, Public, Recipe, Relation
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal
from dpbt.learners import oblivious_tree
from dpbt.learners.oblivious_questions import Attribute
from dpbt.privacy import accounting, mechanisms
from dpbt.privacy.mechanism import Allowance
from dpbt.recipes.building import Parts, build, checked_request, flag, whole
from dpbt.reweighting import ClippedNumbers, clipped_mirror
from dpbt.validate import positive


def attributes_of(domain: Domain) -> tuple[Attribute, ...]:
    """What trees may ask of each column of a domain."""
    return tuple(
        Attribute(column.cells, not isinstance(column, Nominal)) for column in domain.values()
    )


def oblivious_boost(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = 0.0,
    rounds: ArrayLike = 64,
    depth: int = 6,
    mixes: tuple[int, ...] = (1, 2, 3),
    step: ArrayLike = 0.2,
    limit: ArrayLike = 0.6,
    clip: ArrayLike = 0.3,
    marginals_share: ArrayLike = 0.0,
    curvature: ArrayLike = 0.05,
    smoothing: float = 0.1,
    seed: int = 0,
    relation: str | Relation = ADD_REMOVE,
) -> Recipe:
    """Boosted oblivious trees."""
    request = checked_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration="tight",
        relation=relation,
    )
    noise = mechanisms.rounded_gaussian if request.approximate else mechanisms.discrete_laplace
    share = np.asarray(marginals_share, np.float64)
    marginals = bool(np.any(share > 0))
    kind = oblivious_tree.Kind(
        attributes_of(domain),
        depth,
        tuple(mixes),
        marginals,
        float(smoothing),
        request.relation,
        noise,
    )
    learner = oblivious_tree._learner(kind)

    def calibrate(
        allowance: Allowance, rounds: np.ndarray, public: Public
    ) -> oblivious_tree.Budget:
        each = allowance.part((1 - share) / np.asarray(rounds))
        scale = noise.scale(oblivious_tree.sum_sensitivity(kind), each)
        opening = 0.0
        if marginals:
            opening = noise.scale(oblivious_tree.histogram_sensitivity(kind), allowance.part(share))
        return oblivious_tree.Budget(
            scale, opening, step, limit, curvature if marginals else 0.0, seed
        )

    numbers = ClippedNumbers(np.float32(1), positive("clip", clip))
    family = losses.fixed(losses.log)
    parts = Parts(
        learner, clipped_mirror(losses.log), numbers, family, "oblivious_boost", f"D={depth}"
    )
    return build(request, parts, calibrate)


def rule(
    epsilon: float, rows: float, domain: Domain, delta: float, relation: str | Relation
) -> dict:
    features = len(domain)
    moved = 1 if relation in ("add_remove", ADD_REMOVE) else 2
    if delta > 0:
        mu = accounting.gdp_mu(epsilon, delta) / moved
        rounds = 64 * (rows * mu / 8.9) ** 0.42
        T = int(np.clip(round(rounds), 8, 1024))
        s = 1.6 / math.sqrt(T)
        b = 0.1 if math.sqrt(features) / (rows * mu) < 0.008 else 0.0
        return dict(rounds=T, step=s, limit=min(4 * s, 0.6), marginals_share=b, mixes=(1, 2, 3))
    eps = epsilon / moved
    T = int(np.clip(round(64 / 11 * (rows * eps / 43) ** 0.42), 4, 128))
    s = 2 / math.sqrt(T)
    b = 0.1 if features / (rows * eps) < 0.002 else 0.0
    return dict(rounds=T, step=s, limit=min(4 * s, 0.6), marginals_share=b, mixes=(2, 3, 4))
