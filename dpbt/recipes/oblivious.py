"""Boosting with oblivious trees over public splits; `dpbt.recipes.auto` sets all of its numbers."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

from collections.abc import Callable, Mapping, Sequence

from numpy.typing import ArrayLike

from dpbt import types
from dpbt.data import column_types
from dpbt.data.column_types import Target
from dpbt.data.domains import Domain
from dpbt.recipes.bins import BinsTask, OneTimeDraws
from dpbt.recipes.building import checked_privacy_request
from dpbt.recipes.trees_over_bins import TreeNumbers, TreeStructure, oblivious_recipe


def oblivious_boost(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = 0.0,
    rounds: ArrayLike = 64,
    depth: int = 6,
    attributes_per_tree: Sequence[int] = (1, 2, 3),
    step: ArrayLike | Callable[[int], ArrayLike] = 0.2,
    limit: ArrayLike = 0.6,
    clip: ArrayLike | None = None,
    marginals_fraction: ArrayLike = 0.0,
    target_fraction: ArrayLike = 0.1,
    target_bins: int = 32,
    scores_fraction: ArrayLike = 0.0,
    curvature: ArrayLike | None = None,
    smoothing: float = 0.1,
    structures: int = 0,
    target: Target | None = None,
    objective: str | None = None,
    quantile: float | None = None,
    monotone: Mapping[str, int] | None = None,
    seed: ArrayLike = 0,
    relation: str | types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
    delta_anyway: bool = False,
) -> types.Recipe:
    """A recipe of boosted oblivious trees over public splits, with one noisy draw a tree.

    Guarantee: epsilon-DP, or (epsilon, delta)-DP, under `relation`, with the lines of
    `dpbt.ledger`. A round releases the signed sums of the clipped weights in each leaf; with
    several classes, or a number, the sums of the clipped residuals. All of its splits are
    public. With a delta every draw is a rounded Gaussian, and GDP composes them
    exactly. `auto` sets all numbers from public quantities.

    Arguments of type ArrayLike may be arrays. They broadcast to settings, and none of their values
    causes a recompile.

    `dpbt.recipes` explains the arguments that all recipes share.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy.
        rows: m, a public bound on the number of rows; under replace-one their public number.
        domain: the public domain of the table.
        delta: 0 for a pure guarantee, with discrete Laplace noise; else in (0, 1).
        rounds: T, the number of trees.
        depth: D, the number of splits of a tree, in 1..10.
        attributes_per_tree: how many attributes a tree asks. The trees take these numbers in turn.
        step: s, how far a leaf moves scores if its sum is as large as its noise, in nats, or in
            spreads of a number. Or a schedule of the round, from 0, such as any `optax.Schedule`.
            It is evaluated here, once a round, and each number of rounds has its own program. With
            a step of 0 no leaf moves a score.
        limit: v, the furthest that a leaf moves a score, in nats or in spreads.
        clip: c. No row has a larger weight than c, in (0, 1]; by default 0.3. With several classes
            the L2 norm of a row's residuals is at most sqrt(2) c. With pure epsilon their L1 norm
            is at most 2 c. For two classes these are the same. The residual of a number is at most
            c spreads, by default 0.5, and that of a count 1. The larger residual of a quantile
            counts as c spreads.
        marginals_fraction: the share of the budget (of epsilon, or of mu^2) for class histograms of
            all attributes before the first tree, in [0, 1). All settings have them or none does.
        target_fraction: the share of the budget for the histogram of a number, in (0, 1). It says
            where scores start, and the spread in units of which residuals are clipped.
        target_bins: how many bins of equal width that histogram has. Fewer bins stand out of more
            noise, and more bins tell a number of small spread in a wide range.
        scores_fraction: the share of the budget for the final scores by class, after the last tree,
            in [0, 1). They make probabilities true. All settings have them or none does.
        curvature: h, how much a leaf's estimated share of the rows adds to its denominator, which
            makes the step a Newton step where noise is small. For classes it is 0.05 by default,
            and counts with histograms only. For a number it is 6 s by default (6 times the first
            step of a schedule), so that without noise a leaf moves half as far as the mean of its
            residuals.
        smoothing: the weight of a leaf's neighbours in its sum, in [0, 1).
        structures: after how many trees their splits repeat; 0 for never. The model has one tree
            for each, so fewer of them make it smaller and faster.
        target: several classes (`domains.Nominal`) or a number (`domains.Numeric`); None for two.
        objective: of a number: "squared" by default, "poisson" for a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: name of a column -> 1 if scores must not fall as it rises, -1 if not rise.
        seed: of the public splits, a whole number in 0..2^24 - 1. It is not a secret.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person, all of which the guarantee covers together.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    request = checked_privacy_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        relation=relation,
        max_rows_per_user=max_rows_per_user,
        delta_anyway=delta_anyway,
        max_rows=types.MAX_ROWS_IN_BLOCKS,
        options={
            "step": None if callable(step) else step,
            "limit": limit,
            "clip": clip,
            "marginals_fraction": marginals_fraction,
            "target_fraction": target_fraction,
            "scores_fraction": scores_fraction,
            "curvature": curvature,
            "seed": seed,
        },
    )
    return oblivious_recipe(
        request,
        BinsTask(
            domain=domain,
            target=column_types.target_with_objective(target, objective, quantile),
            monotone=monotone,
        ),
        one_time_draws=OneTimeDraws(
            marginals_fraction=marginals_fraction,
            target_fraction=target_fraction,
            target_bins=target_bins,
            scores_fraction=scores_fraction,
        ),
        structure=TreeStructure(
            depth=depth,
            attributes_per_tree=attributes_per_tree,
            smoothing=smoothing,
            structures=structures,
        ),
        numbers=TreeNumbers(step=step, limit=limit, clip=clip, curvature=curvature, seed=seed),
    )
