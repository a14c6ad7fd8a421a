"""Random decision forests: Bojarski et al. (2014); RF-L, RF-E of Nock & Henecka (2020), 17.2."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import dataclasses
import functools

import numpy as np
from numpy.typing import ArrayLike

from dpbt.common.validate import check_boolean, check_choice, check_positive_integer
from dpbt.learners.forests import learner as forests
from dpbt.privacy import mechanisms
from dpbt.recipes.building import (
    RecipeParts,
    better_of_pure_and_zcdp_allowance,
    build_recipe,
    checked_privacy_request,
    pure_or_zcdp_allowance,
)
from dpbt.types import ADD_REMOVE, MAX_ROWS_IN_BLOCKS, Recipe, Relation
from dpbt.weighting import uniform


def random_forest(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    delta: ArrayLike = 0.0,
    rounds: ArrayLike = 21,
    depth: int = 10,
    calibration: str = "tight",
    relation: str | Relation = ADD_REMOVE,
    max_rows_per_user: int = 1,
    delta_anyway: bool = False,
    disjoint: bool = False,
    negative: str | None = None,
    variant: str = "random_forest",
) -> Recipe:
    """A recipe of random decision trees with private leaves.

    It is Bojarski et al. (2014), Algorithm 2.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of
    `dpbt.ledger`. Leaves are disjoint, so every tree has its whole share (the paper's proof). In
    both calibrations the noise of a count under add/remove is Laplace of scale k / epsilon, as
    published. Under replace-one a row that changes moves two counts of a tree, so the scale is
    2 k / epsilon. The paper's own scale would cost 2 epsilon there. `forests.learner` has the
    proofs.

    Voting is chosen when predicting, as `dpbt.predict(model, rows, voting)`; the default is
    majority. Arguments of type ArrayLike may be arrays; the recipe then holds one setting for each
    entry.

    `dpbt.recipes` explains the arguments that all recipes share.

    Args:
        epsilon: the total budget (the paper's eta), above 0. Infinite means exact counts.
        rows: m, a public bound on the number of rows; under replace-one their public number. A
            table in blocks may have up to 2^40 (`dpbt.fit`).
        delta: 0 for a pure guarantee; else in (0, 1), with rounded Gaussian noise through GDP
            (tight).
        rounds: k, the number of trees. Settings of different k share a program. With `disjoint`, k
            must be one number.
        depth: h, their height, in 1..20.
        calibration: "tight" or "published". For these forests both are discrete Laplace noise on
            exact counts, which is the published law on a grid of 1/127 of a row.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person, all of which the guarantee covers together.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.
        disjoint: give each row to one of the k trees (tight calibration only). Each tree then sees
            about n / k rows and has the whole budget: noise of scale 1 / epsilon instead of
            k / epsilon, on counts that are k times smaller. The release then says which place of
            the table went to which tree, in the site "part" of length N. `fit` leaves that site
            out of the model (`forests.learner` has
            the reason).
        negative: what negative noisy counts mean, at no cost in privacy: "zero", or "uniform",
            which is theta uniform at random, as Algorithm 2 prints it. The default of the tight
            calibration is "zero", that of the published one is "uniform". The paper's own numbers
            are those of "zero". See `forests.learner.positive_shares_or_fallback`.
        variant: "random_forest", or one of Nock & Henecka (2020), section 17.2, which split the
            published budget of a tree among its 2^h leaves. Leaves are disjoint, so the tight
            calibration gives every leaf epsilon / k.

            "rf_l": leaves state Laplace counts, of L1 sensitivity 1 (add/remove) or 2
            (replace-one) for the two of a leaf. The published budget of a leaf is
            epsilon / (k 2^h). The tight program is that of "random_forest".

            "rf_e": leaves state a label, drawn by the exponential mechanism. In the published
            calibration p(label) is proportional to exp(e count / 2) with e = epsilon / (k 2^h) for
            each leaf, valid under both relations. In the tight one p(label) is proportional to
            exp(e count), as a row moves scores one way. There e is epsilon / k (add/remove) or
            epsilon / (2 k) (replace-one): 2^(h+1) or 2^h times the published exponent.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    # Check the arguments.
    check_choice("variant", variant, ("random_forest", "rf_l", "rf_e"))
    request = checked_privacy_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        delta_anyway=delta_anyway,
        max_rows=MAX_ROWS_IN_BLOCKS,
        has_published_delta=False,
    )
    depth = check_positive_integer("depth", depth, forests.MAX_DEPTH)
    check_boolean("disjoint", disjoint)
    if disjoint and not request.is_tight:
        raise ValueError("disjoint rows are not in the papers; use the tight calibration")

    # The number of parts of disjoint rows is that of trees, so it is static.
    num_parts = check_positive_integer("rounds", request.rounds) if disjoint else 1
    if num_parts > 2**30 >> depth:  # so that 32 bits number the classes of all leaves
        raise ValueError(
            f"disjoint trees have at most 2^30 leaves, got {num_parts} trees of 2^{depth}"
        )
    if num_parts > 1:
        request = dataclasses.replace(request, rounds=np.ones_like(request.rounds))

    # Negative counts are by default those of the calibration.
    if negative is None:
        negative = "zero" if request.is_tight else "uniform"
    check_choice("negative", negative, forests.NEGATIVE_WEIGHT_RULES)

    states_labels = variant == "rf_e"
    if states_labels:
        mechanism = mechanisms.exponential
    elif request.is_approximate:
        mechanism = mechanisms.rounded_gaussian
    else:
        mechanism = mechanisms.discrete_laplace
    pays_each_leaf = variant != "random_forest" and not request.is_tight
    config = forests.RandomTreeConfig(
        depth=depth,
        relation=request.relation,
        noise=mechanism,
        parts=num_parts,
        per_leaf=pays_each_leaf,
        negative=negative,
    )
    parts = RecipeParts(
        learner=forests.random_tree(config),
        weight_update=uniform,
        weight_params=(),
        name=variant,
        options_text="disjoint rows" if num_parts > 1 else "all rows",
    )
    return build_recipe(
        request,
        parts,
        total_allowance=(
            better_of_pure_and_zcdp_allowance if states_labels else pure_or_zcdp_allowance
        ),
    )


rf_l = functools.partial(random_forest, variant="rf_l")
"""RF-L: random trees whose leaves state Laplace counts; see `random_forest`."""

rf_e = functools.partial(random_forest, variant="rf_e")
"""RF-E: random trees whose leaves state a label; see `random_forest`."""
