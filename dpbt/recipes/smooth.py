"""Smooth boosting: LazyBB (Asadi et al., 2022), LazyBregBoost with halfspaces (Bun et al., 2020).

The same noise serves both neighbouring relations. The total weight is kappa `rows`, a public
number, whatever the number of rows present, up to `rows` (`sensitivity`). Neighbours are tables
whose other rows keep their order.
"""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses
from dpbt.common.validate import (
    check_boolean,
    check_floats,
    check_interval,
    check_positive_integer,
    show_value,
)
from dpbt.learners.halfspaces import learner as halfspaces
from dpbt.learners.trees import rule, top_down
from dpbt.privacy import conversions, mechanisms
from dpbt.privacy.mechanism_types import Allowance, round_down_to_float32
from dpbt.recipes.building import (
    PrivacyRequest,
    RecipeParts,
    better_of_pure_and_zcdp_allowance,
    build_recipe,
    build_recipe_of_fixed_noise,
    checked_privacy_request,
    is_single_loss,
    pure_or_zcdp_allowance,
)
from dpbt.types import ADD_REMOVE, Params, ProperLoss, Public, Recipe, Relation, WeakLearner
from dpbt.weighting import LazyNumbers, lazy_bregman

MAX_DEPTH = 12
"""The largest depth cap of a top-down tree."""


def lazybb_rules(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    delta: ArrayLike = 0.0,
    rounds: ArrayLike = 39,
    density: ArrayLike = 0.35,
    learning_rate: ArrayLike = 0.45,
    calibration: str = "tight",
    relation: str | Relation = ADD_REMOVE,
    max_rows_per_user: int = 1,
    delta_anyway: bool = False,
) -> Recipe:
    """A recipe of LazyBB with 1-rules, whose model is a majority vote.

    It is Asadi et al. (2022), Algorithm 1.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of
    `dpbt.ledger`. In the tight calibration a rule costs 2 eta / (kappa n), with weights in units of
    a public cap. With a delta, rules are composed by the better of basic composition and zCDP by
    bounded range. In the published calibration a rule costs 4 eta / (kappa n) (Theorem 4.2). With a
    delta, rules are composed by the better of basic and advanced composition (Theorem 2.8). Where
    zCDP composes the same draws to less, the ledger's epsilon is then smaller than asked for;
    `ledger.epsilon_at(delta, "advanced")` is the paper's.

    Arguments of type ArrayLike may be arrays, which broadcast to settings. None of their values
    causes a recompile.

    `dpbt.recipes` explains the arguments that all recipes share.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy: the best rule.
        rows: m, a public bound on the number of rows; under replace-one their public number.
        delta: 0 for a pure guarantee, else in (0, 1).
        rounds: tau. Settings of different tau share a program, with room for the largest.
        density: kappa, in (0, 1), with kappa m of at least 1.
        learning_rate: lambda, on margins, above 0.
        calibration: "tight" or "published".
        relation: "add_remove" or "replace_one" (the paper's).
        max_rows_per_user: the most rows of one person, all of which the guarantee covers together.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.

    Raises:
        ValueError: for a value outside these ranges, naming the argument and what was given.
    """
    request = checked_privacy_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        delta_anyway=delta_anyway,
        options={
            "density": density,
            "learning_rate": learning_rate,
        },
    )
    return _voting_recipe(
        request,
        learner=rule.one_rule(request.relation, calibration),
        density=density,
        learning_rate=learning_rate,
        name="lazybb_rules",
        options_text="exponential",
        total_allowance=(
            better_of_pure_and_zcdp_allowance
            if request.is_tight
            else functools.partial(published_allowance, draws_per_round=1)
        ),
    )


def lazybb_trees(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    delta: ArrayLike = 0.0,
    rounds: ArrayLike = 39,
    density: ArrayLike = 0.35,
    learning_rate: ArrayLike = 0.45,
    splits: int = 3,
    depth: int = 3,
    criterion: ProperLoss | str = "gini",
    leaf_fraction: ArrayLike = 0.5,
    calibration: str = "tight",
    relation: str | Relation = ADD_REMOVE,
    max_rows_per_user: int = 1,
    delta_anyway: bool = False,
) -> Recipe:
    """A recipe of LazyBB with top-down trees, whose model is a majority vote.

    It is Asadi et al. (2022), Algorithms 1 and 2.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of
    `dpbt.ledger`. With a delta, one accountant composes all draws of a round: the one that gives
    the splits more. In the published calibration a tree costs 16 t eta / (kappa n) (Theorem 4.5).
    With a delta, trees are composed by the better of basic and advanced composition, as in
    `lazybb_rules`.

    Arguments of type ArrayLike may be arrays, which broadcast to settings. None of their values
    causes a recompile.

    `dpbt.recipes` explains the arguments that all recipes share.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy: the best split, majority
            labels.
        rows: m, a public bound on the number of rows; under replace-one their public number.
        delta: 0 for a pure guarantee, else in (0, 1).
        rounds: tau. Settings of different tau share a program, with room for the largest.
        density: kappa, in (0, 1), with kappa m of at least 1.
        learning_rate: lambda, on margins, above 0.
        splits: t, the number of internal nodes, in 1..2^depth - 1.
        depth: the depth cap, at most 12.
        criterion: the splitting criterion G: a loss, or "gini" (`losses.square`),
            "information_gain", "matsushita" or "error" (the 0/1 loss). The published calibration
            is of Gini only.
        leaf_fraction: the share of a round's budget for the labels, in (0, 1). The published
            calibration has a half.
        calibration: "tight" or "published".
        relation: "add_remove" or "replace_one" (the paper's).
        max_rows_per_user: the most rows of one person, all of which the guarantee covers together.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.

    Raises:
        ValueError: for a value outside these ranges, naming the argument and what was given.
    """
    # The static part of the trees.
    request = checked_privacy_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        delta_anyway=delta_anyway,
        options={
            "density": density,
            "learning_rate": learning_rate,
            "leaf_fraction": leaf_fraction,
        },
    )
    splits = check_positive_integer("splits", splits)
    depth = check_positive_integer("depth", depth, MAX_DEPTH)
    if splits > 2**depth - 1:
        raise ValueError(f"splits must be at most 2^depth - 1, got {splits} at a depth of {depth}")
    family = losses.loss_family_of_loss_or_name(criterion, "criterion")
    if not is_single_loss(family):
        raise ValueError(
            f"criterion must be a single loss here, got the family {show_value(criterion)}"
        )
    loss = family(1.0)

    # The shares of a round.
    labels_share = check_interval("leaf_fraction", leaf_fraction, "(0, 1)")
    if not request.is_tight and (loss is not losses.square or np.any(labels_share != 0.5)):
        raise ValueError("the published calibration needs the Gini criterion and leaf_fraction=0.5")
    if request.is_tight:
        total_allowance = functools.partial(
            allowance_with_less_noise_of_splits, split_fraction=(1 - labels_share) / splits
        )
    else:
        total_allowance = functools.partial(
            published_allowance, draws_per_round=splits, has_labels=True
        )

    config = top_down.TopDownConfig(
        splits=splits,
        depth=depth,
        criterion=loss,
        relation=request.relation,
        calibration=calibration,
    )
    return _voting_recipe(
        request,
        learner=top_down.top_down_tree(config),
        density=density,
        learning_rate=learning_rate,
        name="lazybb_trees",
        options_text=f"{splits}, {loss.name}",
        fractions=top_down.top_down_budget_fraction_by_group(labels_share),
        total_allowance=total_allowance,
    )


def _voting_recipe(
    request: PrivacyRequest,
    *,
    learner: WeakLearner,
    density: ArrayLike,
    learning_rate: ArrayLike,
    name: str,
    options_text: str,
    fractions: Mapping[str, Any] | None = None,
    total_allowance: Callable[[PrivacyRequest], Allowance] = pure_or_zcdp_allowance,
    fixed_params: Callable[[Public], Params] | None = None,
) -> Recipe:
    """Build the recipe of a majority vote, with weights by lazy Bregman projection.

    Args:
        request: the checked arguments.
        learner: the weak learner.
        density: kappa.
        learning_rate: lambda, on margins.
        name: the algorithm's name in tables.
        options_text: its options, for tables.
        fractions: site -> its fraction of the budget; the learner's own by default.
        total_allowance: from the request to what all rounds may cost together.
        fixed_params: (public) -> the learner's numbers, where the caller states the noise.

    Raises:
        ValueError: for a density or a learning rate outside its range.
    """
    kappa = check_interval("density", density, "(0, 1)")
    weight_params = LazyNumbers(
        round_down_to_float32(kappa), check_interval("learning_rate", learning_rate, "(0, inf)")
    )
    total_weight = kappa * request.rows
    if np.any(total_weight < 1):
        raise ValueError(f"density times rows must be at least 1, got {show_value(total_weight)}")
    parts = RecipeParts(
        learner=learner,
        weight_update=lazy_bregman(request.is_tight),
        weight_params=weight_params,
        name=name,
        options_text=options_text,
    )
    if fixed_params is not None:
        return build_recipe_of_fixed_noise(request, parts, fixed_params)
    return build_recipe(request, parts, fractions=fractions, total_allowance=total_allowance)


def allowance_with_less_noise_of_splits(
    request: PrivacyRequest, split_fraction: np.ndarray
) -> Allowance:
    """The whole budget of a request as an epsilon or as a rho, by which splits get less noise.

    One accountant composes all draws of a round.

    Args:
        request: the checked arguments.
        split_fraction: the share of a round's budget for one split.
    """
    allowance = better_of_pure_and_zcdp_allowance(request)
    allowance_of_split = allowance.times(split_fraction / request.rounds)

    # Pay for one split by rho alone and by epsilon alone.
    zero = np.zeros_like(allowance_of_split.epsilon)
    noise_by_zcdp = mechanisms.exponential.noise_multiplier(
        allowance_of_split._replace(epsilon=zero)
    )
    noise_by_epsilon = mechanisms.exponential.noise_multiplier(
        allowance_of_split._replace(rho=zero)
    )
    is_by_zcdp = noise_by_zcdp < noise_by_epsilon
    return Allowance(
        np.where(is_by_zcdp, 0.0, allowance.epsilon), np.where(is_by_zcdp, allowance.rho, 0.0)
    )


def published_allowance(
    request: PrivacyRequest, *, draws_per_round: int, has_labels: bool = False
) -> Allowance:
    """The whole budget as the epsilon of the papers: by basic or advanced composition, the larger.

    Args:
        request: the checked arguments.
        draws_per_round: the number of equal draws of a round.
        has_labels: whether a round also draws labels, which have `draws_per_round` times the
            epsilon of each of its other draws.
    """
    if not request.is_approximate:
        return better_of_pure_and_zcdp_allowance(request)

    def total_epsilon(epsilon: float, delta: float, rounds: int) -> float:
        groups = [
            conversions.DrawGroup(num_draws=int(rounds) * draws_per_round, epsilon_multiple=1.0)
        ]
        if has_labels:
            groups.append(
                conversions.DrawGroup(
                    num_draws=int(rounds), epsilon_multiple=float(draws_per_round)
                )
            )
        of_draw = conversions.max_epsilon_per_draw(
            total_epsilon=float(epsilon), delta=float(delta), groups=tuple(groups)
        )
        return of_draw * draws_per_round * (1 + has_labels) * int(rounds)

    of_settings = np.vectorize(total_epsilon, otypes=[float])
    epsilon = of_settings(request.epsilon, request.delta, request.rounds)
    return Allowance(epsilon, np.zeros_like(epsilon))


def halfspace_boost(
    *,
    rows: ArrayLike,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike = 1e-6,
    noise_scale: ArrayLike | None = None,
    rounds: ArrayLike = 50,
    density: ArrayLike = 0.25,
    learning_rate: ArrayLike = 0.5,
    normalized: bool = False,
    features: int = 256,
    calibration: str = "tight",
    relation: str | Relation = ADD_REMOVE,
    max_rows_per_user: int = 1,
    delta_anyway: bool = False,
) -> Recipe:
    """A recipe of LazyBregBoost, whose model is one halfspace: the sum of T noisy centres.

    It is Bun et al. (2020), Algorithm 5.

    Guarantee: (epsilon, delta)-DP under `relation`, with the lines of `dpbt.ledger`. The noise is
    set through GDP in the tight calibration. The published one sets it through zCDP, by the paper's
    Lemma 15: epsilon = rho + 2 sqrt(rho log(1 / delta)). The ledger composes the same draws
    exactly, so its epsilon is then smaller than asked for. A round has rho = 2 / (kappa m sigma)^2
    in the tight calibration, with noise in units of a public cap on weights, so of at most sigma.
    In the published one it has 8 / (kappa m sigma)^2. Neighbours are tables whose other rows keep
    their order.

    Tables hold exact numbers f32[N, d], or bins, which are read at their positions. Rows outside
    the unit ball are projected onto it. Sums are exact integers (see `halfspaces.learner`). The
    hypotheses are not clipped to [-1, 1], so that their sum is a halfspace. Where |h| > 1 the loss
    is (1 + y h) / 2, which continues the paper's.

    Arguments of type ArrayLike may be arrays, which broadcast to settings.

    `dpbt.recipes` explains the arguments that all recipes share.

    Args:
        rows: m, a public bound on the number of rows; under replace-one their public number.
        epsilon: the budget that sets the noise; infinite for none. Give either this or
            `noise_scale`.
        delta: in (0, 1); there is no pure guarantee.
        noise_scale: sigma, the standard deviation of the noise on each coordinate of a centre. The
            tight calibration multiplies it by the round's cap on weights, at most 1. The ledger
            says what it costs.
        rounds: T.
        density: kappa, in (0, 1), with kappa m of at least 1.
        learning_rate: lambda, on the paper's losses: half of it on margins.
        normalized: divide each released centre by its length, at no cost in privacy (see
            `halfspaces.learner`). The paper does not. Hypotheses are then in [-1, 1] and many times
            larger, so use smaller rates.
        features: a public bound on the number of features; tables with more are refused. Sums are
            rounded to a grid, which adds sqrt(features) of its steps to the sensitivity.
        calibration: "tight" or "published".
        relation: "add_remove" or "replace_one" (the paper's).
        max_rows_per_user: the most rows of one person, all of which the guarantee covers together.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.

    Raises:
        ValueError: for a value outside these ranges, naming the argument and what was given, or
            for both or neither of `epsilon` and `noise_scale`.
    """
    if (epsilon is None) == (noise_scale is None):
        raise ValueError("give either epsilon or noise_scale")
    if np.any(check_floats("delta", delta) == 0):
        raise ValueError(f"delta must be in (0, 1) for Gaussian noise, got {show_value(delta)}")
    request = checked_privacy_request(
        epsilon=1.0 if epsilon is None else epsilon,  # a stated noise sets its own
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        delta_anyway=delta_anyway,
        options={
            "density": density,
            "learning_rate": learning_rate,
            "noise_scale": noise_scale,
        },
    )
    check_boolean("normalized", normalized)
    config = halfspaces.HalfspaceConfig(
        relation=request.relation,
        calibration=calibration,
        normalized=bool(normalized),
        features=check_positive_integer("features", features),
    )
    margin_rate = check_interval("learning_rate", learning_rate, "(0, inf)") / 2
    fixed_params = None
    if noise_scale is not None:
        sigma = check_interval("noise_scale", noise_scale, "(0, inf)").astype(np.float32)
        fixed_params = functools.partial(
            halfspaces.noise_multiplier_and_sum_grid_for_sigma, config, sigma
        )
    return _voting_recipe(
        request,
        learner=halfspaces.halfspace(config),
        density=density,
        learning_rate=margin_rate,
        name="halfspace_boost",
        options_text="normalized" if normalized else "gaussian",
        total_allowance=(pure_or_zcdp_allowance if request.is_tight else published_zcdp_allowance),
        fixed_params=fixed_params,
    )


def published_zcdp_allowance(request: PrivacyRequest) -> Allowance:
    """The whole budget as a rho of zCDP, by the paper's conversion from epsilon and delta.

    It is Bun et al. (2020), Lemma 15.
    """
    rho = conversions.published_zcdp_rho(request.epsilon, request.delta)
    return Allowance(np.zeros(request.shape), rho)
