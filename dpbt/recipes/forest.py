"""Random decision forests: Bojarski et al. (2014), and RF-L and RF-E of Nock & Henecka (2020), section 17.2."""

from typing import Any

import numpy as np

from dpbt import accounting, mechanisms, sensitivity
from dpbt.base import ADD_REMOVE, GRID, REPLACE_ONE, Mechanism, Recipe, Relation, positive
from dpbt.base import relation as to_relation
from dpbt.learners import random_tree
from dpbt.recipes.common import (
    Moved,
    after_samplers,
    deltas,
    known_calibration,
    noise_scale,
    public_rows,
    whole,
    wholes,
)
from dpbt.reweighting import uniform


def random_forest(
    *,
    epsilon: Any,
    rows: Any,
    delta: Any = 0.0,
    rounds: Any = 21,
    depth: int = 10,
    calibration: str = "tight",
    relation: str | Relation = ADD_REMOVE,
    disjoint: bool = False,
    negative: str | None = None,
) -> Recipe:
    """Random decision trees with noisy class counts in their leaves: Bojarski et al. (2014), Algorithm 2.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of `dpbt.ledger`. In both
    calibrations the noise of a count is Laplace of scale k / epsilon under add/remove, as published: leaves are
    disjoint, so a tree has its whole share (the paper's proof). Under replace-one a row that changes moves two counts
    of a tree, so the scale is 2 k / epsilon; the paper's own scale would cost 2 epsilon there.
    `learners.random_tree` has the proofs.

    Voting is chosen when predicting, `forests.predict`; `dpbt.predict` is the majority vote. Arguments of type Any may
    be arrays, and the recipe then holds one setting for each entry.

    Args:
        epsilon: the total budget (the paper's eta), above 0. Infinite means exact counts.
        rows: m. Under add/remove a public bound on the number of rows; under replace-one their public number.
        delta: 0 for a pure guarantee; else in (0, 1), with rounded Gaussian noise through zCDP (tight).
        rounds: k, the number of trees. Settings of different k share a program (one k if `disjoint`).
        depth: h, their height, in 1..20.
        calibration: "published" or "tight"; for these forests both are discrete Laplace noise on exact
            counts, which is the published law on a grid of 1/127 of a row.
        relation: "add_remove" or "replace_one".
        disjoint: give each row to one of the k trees (tight). Each tree then sees about n / k rows and has the whole
            budget: noise of scale 1 / epsilon instead of k / epsilon, on counts that are k times smaller. The release
            then says which place of the table went to which tree, in the site "part" of length N.
            `fit` leaves that site out of the model, unless called with `keep_withheld=True`
            (`learners.random_tree` has the reason).
        negative: what negative noisy counts mean, at no cost: "zero" (the default of the tight calibration) or
            "uniform", theta uniform at random as Algorithm 2 prints it (the published one's). See
            `random_tree.shares`; the paper's own numbers are those of "zero".

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    noise = _count_noise(delta, calibration)
    moves = sensitivity.class_weights(to_relation(relation))
    return _forest(
        "random_forest", epsilon, rows, delta, rounds, depth, calibration, relation, disjoint, noise, moves, 1, negative
    )


def rf_l(
    *,
    epsilon: Any,
    rows: Any,
    delta: Any = 0.0,
    rounds: Any = 21,
    depth: int = 10,
    calibration: str = "tight",
    relation: str | Relation = ADD_REMOVE,
    disjoint: bool = False,
    negative: str | None = None,
) -> Recipe:
    """RF-L: random trees whose leaves state Laplace counts; Nock & Henecka (2020), section 17.2.

    Guarantee: as `random_forest`. In the published calibration a leaf has the budget epsilon / (k 2^h) for its two
    counts, of L1 sensitivity 1 (add/remove) or 2 (replace-one). Leaves are disjoint, so the tight one gives every leaf
    epsilon / k: 2^h times less noise, and the same program as `random_forest`.

    Args: as `random_forest`.
    """
    noise = _count_noise(delta, calibration)
    moves = sensitivity.class_weights(to_relation(relation))
    leaves = 2**depth if calibration == "published" else 1
    return _forest(
        "rf_l", epsilon, rows, delta, rounds, depth, calibration, relation, disjoint, noise, moves, leaves, negative
    )


def rf_e(
    *,
    epsilon: Any,
    rows: Any,
    delta: Any = 0.0,
    rounds: Any = 21,
    depth: int = 10,
    calibration: str = "tight",
    relation: str | Relation = ADD_REMOVE,
    disjoint: bool = False,
) -> Recipe:
    """RF-E: random trees whose leaves state a label, drawn by the exponential mechanism on the class counts.

    Guarantee: as `random_forest`. Published (Nock & Henecka, 2020, section 17.2): p(label) proportional to
    exp(e count / 2) with e = epsilon / (k 2^h) for each leaf, valid under both relations. Tight: leaves are disjoint
    and a row moves scores one way, so p is proportional to exp(e count) with e = epsilon / k (add/remove) or
    epsilon / (2 k) (replace-one): 2^(h+1) or 2^h times the published exponent.

    Args: as `random_forest`.
    """
    published = calibration == "published"
    if published and np.any(np.asarray(delta, np.float64) > 0):
        raise ValueError("the published calibration has no (epsilon, delta) guarantee; use delta = 0")
    moves = 2 if published else sensitivity.split_moves(to_relation(relation))
    leaves = 2**depth if published else 1
    noise = mechanisms.exponential
    return _forest(
        "rf_e", epsilon, rows, delta, rounds, depth, calibration, relation, disjoint, noise, moves, leaves, None
    )


def _count_noise(delta: Any, calibration: str) -> Mechanism:
    approximate = np.any(np.asarray(delta, np.float64) > 0)
    if calibration == "published" and approximate:
        raise ValueError("the published calibration has no (epsilon, delta) guarantee; use delta = 0")
    return mechanisms.rounded_gaussian if approximate else mechanisms.discrete_laplace


def _forest(
    name: str,
    epsilon: Any,
    rows: Any,
    delta: Any,
    rounds: Any,
    depth: int,
    calibration: str,
    relation: str | Relation,
    disjoint: bool,
    noise: Mechanism,
    moves: int,
    leaves: int,
    negative: str | None,
) -> Recipe:
    """A forest whose leaf noise is `moves` rows over a tree's budget, which is split among `leaves` leaves."""
    relation = to_relation(relation)
    rounds, depth = wholes("rounds", rounds), whole("depth", depth)
    if depth > random_tree.MAX_DEPTH:
        raise ValueError(f"depth must be at most {random_tree.MAX_DEPTH} for complete random trees, got {depth}")
    known_calibration(calibration)
    if disjoint and calibration == "published":
        raise ValueError("disjoint rows are not in the papers; use the tight calibration")
    if negative is None:
        negative = "uniform" if calibration == "published" else "zero"
    if negative not in random_tree.NEGATIVE:
        raise ValueError(f"negative must be one of {random_tree.NEGATIVE}, got {negative!r}")
    epsilon, rows = positive("epsilon", epsilon), public_rows(rows)
    delta, approximate = deltas(delta)
    shape = np.broadcast_shapes(epsilon.shape, rows.shape, delta.shape, rounds.shape)

    parts, trees = (whole("rounds", rounds), np.int32(1)) if disjoint else (1, rounds)
    moved = 2 if relation is REPLACE_ONE else 1
    left, left_delta = after_samplers(epsilon, delta, [Moved(noise, trees * moved, 1 / (trees * leaves), moved)])
    if approximate:
        share = np.vectorize(accounting.zcdp_rho)(left, left_delta) / trees
        bound, share = (
            (moves, np.sqrt(8 * share))
            if noise is mechanisms.exponential
            else (
                sensitivity.class_weights_l2(relation),
                np.sqrt(2 * share),
            )
        )
    else:
        bound, share = moves, left / (trees * leaves)
    step = sensitivity.count_step(rows, exact=noise is not mechanisms.exponential)
    scale = noise_scale(step * bound, share)
    if not np.all(np.isfinite(scale) & ((scale > 0) | np.isinf(np.broadcast_to(epsilon, scale.shape)))):
        raise ValueError(f"epsilon leaves float32: noise of scale {scale.tolist()} for epsilon {epsilon.tolist()}")
    if noise is not mechanisms.exponential and np.any(scale > mechanisms.MAX_DISCRETE_SCALE):
        raise ValueError(f"epsilon is too small: noise of scale {np.max(scale) / GRID:g} rows for the leaves")
    budget = random_tree.ForestBudget(
        leaf_scale=np.broadcast_to(scale, shape), rows=np.broadcast_to(rows.astype(np.float32), shape)
    )
    return Recipe(
        budget=budget,
        delta=np.broadcast_to(delta, shape),
        rounds=np.broadcast_to(trees, shape),
        learner=random_tree.random_tree(depth, relation, noise, parts, leaves > 1, negative),
        reweighter=uniform,
        loss=None,
        capacity=int(np.max(trees)),
        relation=relation,
        name=name,
        calibration=calibration,
        setting="disjoint rows" if disjoint else "all rows",
    )
