"""Smooth boosting: LazyBB (Asadi et al., 2022) and LazyBregBoost with halfspaces (Bun et al.,
2020).

The same noise serves both neighbouring relations: the total weight is set to kappa `rows`, a public
number, whatever the number of rows present, up to `rows` (`slickness`). Neighbours are tables whose
other rows keep their order.
"""

import functools
from typing import Any

import numpy as np

from dpbt import losses
from dpbt.base import REPLACE_ONE, ProperLoss, Recipe, Relation, WeakLearner, positive
from dpbt.learners import halfspace, one_rule, top_down_tree
from dpbt.privacy import accounting, mechanisms
from dpbt.privacy.mechanism import Allowance, rounded_down
from dpbt.recipes.building import (
    Parts,
    Request,
    assemble,
    build,
    either_accountant,
    flag,
    given,
    one_of,
    request,
    whole,
)
from dpbt.reweighting import LazyNumbers, lazy_bregman, loss_rate
from dpbt.theory import smooth_bounds

_SELECTIONS = {"exponential": mechanisms.exponential, "noisy_max": mechanisms.noisy_max}
MAX_DEPTH = 12


def lazybb_rules(
    *,
    epsilon: Any,
    rows: Any,
    delta: Any = 0.0,
    rounds: Any = 39,
    density: Any = 0.35,
    learning_rate: Any = 0.45,
    selection: str = "exponential",
    calibration: str = "tight",
    relation: str | Relation = REPLACE_ONE,
) -> Recipe:
    """LazyBB with 1-rules: Asadi et al. (2022), Algorithm 1, a majority vote.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of
    `dpbt.ledger`. Tight: 2 eta / (kappa n) for each rule, weights in units of a public cap, and
    with a delta the better of basic composition and zCDP by bounded range. Published:
    4 eta / (kappa n) (Theorem 4.2), and with a delta the better of basic and advanced composition
    (Theorem 2.8); the ledger's epsilon is then smaller than asked for where zCDP composes the same
    draws to less, and `ledger.epsilon_at(delta, "advanced")` is the paper's.

    Arguments of type Any may be arrays; they broadcast to settings. None of their values causes a
    recompile.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy: the best rule.
        rows: m. Under replace-one the public number of rows, under add/remove a public bound on it.
        delta: 0 for a pure guarantee, else in (0, 1).
        rounds: tau. Settings of different tau share a program, with room for the largest.
        density: kappa, in (0, 1), with kappa m of at least 1.
        learning_rate: lambda, on margins, above 0.
        selection: "exponential" or "noisy_max" (weighted return-noisy-max).
        calibration: "tight" or "published".
        relation: "replace_one" (the paper's) or "add_remove".

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    asked = request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
    )
    numbers = _numbers(asked, density, learning_rate)
    one_of("selection", selection, _SELECTIONS)
    learner = one_rule.one_rule(asked.relation, calibration, _SELECTIONS[selection])

    allow = either_accountant if asked.tight else functools.partial(_composed, draws=1)
    assert learner.calibrate is not None
    parts = _parts(asked, learner, numbers, "lazybb_rules", selection)
    return build(asked, parts, learner.calibrate, allow)


def lazybb_trees(
    *,
    epsilon: Any,
    rows: Any,
    delta: Any = 0.0,
    rounds: Any = 39,
    density: Any = 0.35,
    learning_rate: Any = 0.45,
    splits: int = 3,
    depth: int = 3,
    criterion: ProperLoss = losses.square,
    leaf_share: Any = 0.5,
    calibration: str = "tight",
    relation: str | Relation = REPLACE_ONE,
) -> Recipe:
    """LazyBB with top-down trees: Asadi et al. (2022), Algorithms 1 and 2, a majority vote.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of
    `dpbt.ledger`. With a delta a round is composed by one accountant for all of its draws: the one
    that gives the splits more. Published: 16 t eta / (kappa n) for a tree (Theorem 4.5), and with a
    delta the better of basic and advanced composition, as `lazybb_rules`.

    Arguments of type Any may be arrays; they broadcast to settings. None of their values causes a
    recompile.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy: the best split, majority
            labels.
        rows: m. Under replace-one the public number of rows, under add/remove a public bound on it.
        delta: 0 for a pure guarantee, else in (0, 1).
        rounds: tau. Settings of different tau share a program, with room for the largest.
        density: kappa, in (0, 1), with kappa m of at least 1.
        learning_rate: lambda, on margins, above 0.
        splits: t, the number of internal nodes, in 1..2**depth - 1.
        depth: the depth cap, at most 12.
        criterion: the splitting criterion G; the published calibration knows Gini
            (`losses.square`) only.
        leaf_share: the share of a round's budget for the labels, in (0, 1); published: a half.
        calibration: "tight" or "published".
        relation: "replace_one" (the paper's) or "add_remove".

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    asked = request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
    )
    numbers = _numbers(asked, density, learning_rate)
    kind = _tree(asked, splits, depth, criterion)
    leaf_share = positive("leaf_share", leaf_share, below=1)
    if not asked.tight and (criterion is not losses.square or np.any(leaf_share != 0.5)):
        raise ValueError(
            "the published calibration is of the Gini criterion and gives half of a round to the "
            "labels"
        )

    by_splits = functools.partial(_by_splits, split_share=(1 - leaf_share) / kind.splits)
    published = functools.partial(_composed, draws=kind.splits, labels=True)
    learner = top_down_tree.top_down_tree(*kind)
    words = f"{kind.splits}, {criterion.name}"
    parts = _parts(asked, learner, numbers, "lazybb_trees", words)
    calibrate = functools.partial(top_down_tree.calibrate, kind, leaf_share)
    return build(asked, parts, calibrate, by_splits if asked.tight else published)


def _tree(asked: Request, splits: Any, depth: Any, criterion: ProperLoss) -> top_down_tree.Kind:
    """The static part of top-down trees, checked."""
    splits, depth = whole("splits", splits), whole("depth", depth)
    losses.check_criterion(losses.fixed(criterion))
    if depth > MAX_DEPTH or splits > 2**depth - 1:
        raise ValueError(
            f"depth must be at most {MAX_DEPTH}, and a tree of depth D has at most 2^D - 1 splits; "
            f"got depth={depth} and splits={splits}"
        )
    return top_down_tree.Kind(splits, depth, criterion, asked.relation, asked.calibration)


def _numbers(asked: Request, density: Any, learning_rate: Any) -> LazyNumbers:
    """The re-weighter's numbers, checked; a smaller density than asked for has less noise."""
    density = positive("density", density, below=1)
    if np.any(density * asked.rows < 1):
        raise ValueError(
            f"density times rows must be at least 1, got {density!r} times {asked.rows!r}"
        )
    rate = positive("learning_rate", learning_rate, finite=True)
    return LazyNumbers(rounded_down(density), rate)


def _parts(
    asked: Request, learner: WeakLearner, numbers: LazyNumbers, name: str, setting: str
) -> Parts:
    """A vote of hypotheses on lazily projected weights."""
    return Parts(learner, lazy_bregman(asked.tight), numbers, None, name, setting)


def _composed(asked: Request, draws: int, labels: bool = False) -> Allowance:
    """The whole budget as an epsilon of basic or of advanced composition, whichever is more.

    Args:
        asked: the request.
        draws: equal draws of a round.
        labels: whether a round has one more draw, of so many times the epsilon of one of these.
    """
    if not asked.approximate:
        return either_accountant(asked)
    in_round = draws * (2 if labels else 1)

    def total(epsilon: float, delta: float, rounds: int) -> float:
        parts = ((int(rounds) * draws, 1.0), *(((int(rounds), float(draws)),) if labels else ()))
        each = accounting.advanced_each(float(epsilon), float(delta), parts)
        return each * in_round * int(rounds)

    whole_budget = np.vectorize(total, otypes=[float])(asked.epsilon, asked.delta, asked.rounds)
    return Allowance(whole_budget, np.zeros_like(whole_budget))


def _by_splits(asked: Request, split_share: Any) -> Allowance:
    """The whole budget by one accountant: the one that gives a split more.

    Args:
        asked: the request.
        split_share: of a round's budget, for one split.
    """
    both = either_accountant(asked)
    one = both.part(split_share / asked.rounds)
    price = mechanisms.exponential.price
    nothing = np.zeros_like(one.epsilon)
    by_zcdp = price.shift(one._replace(epsilon=nothing)) > price.shift(one._replace(rho=nothing))
    return Allowance(np.where(by_zcdp, 0.0, both.epsilon), np.where(by_zcdp, both.rho, 0.0))


def halfspace_boost(
    *,
    rows: Any,
    epsilon: Any = None,
    delta: Any = 1e-6,
    noise: Any = None,
    rounds: Any = 50,
    density: Any = 0.25,
    learning_rate: Any = 0.5,
    normalized: bool = False,
    features: int = 256,
    calibration: str = "tight",
    relation: str | Relation = REPLACE_ONE,
) -> Recipe:
    """LazyBregBoost with the noisy centre: one halfspace, the sum of T noisy centres (Bun et al.,
    2020, Algorithm 5).

    Guarantee: (epsilon, delta)-DP under `relation`, through zCDP, with the lines of `dpbt.ledger`:
    per round rho = 2 / (kappa m sigma)^2 (tight; noise in units of a public cap on weights, so at
    most sigma) or 8 / (kappa m sigma)^2 (published). Tables hold exact numbers f32[N, d], or cells,
    which are read at their positions; rows outside the unit ball are projected onto it; sums are
    exact integers (see `learners.halfspace`). Neighbours are tables whose other rows keep their
    order. The hypotheses are not clipped to [-1, 1], so that their sum is a halfspace; where |h| >
    1 the loss is (1 + y h) / 2, which continues the paper's.

    Arguments of type Any may be arrays; they broadcast to settings. `hs_stl` sets them as the paper
    does.

    Args:
        rows: m. Under replace-one the public number of rows, under add/remove a public bound on it.
        epsilon: the budget that sets the noise; infinite for none. Give either this or `noise`.
        delta: in (0, 1); there is no pure guarantee.
        noise: sigma; the ledger says what it costs.
        rounds: T.
        density: kappa, in (0, 1), with kappa m of at least 1.
        learning_rate: lambda, on the paper's losses: half of it on margins.
        normalized: divide each released centre by its length, at no cost in privacy: see
            `learners.halfspace`. The paper does not. Hypotheses are then in [-1, 1] and many times
            larger, so rates are to be smaller.
        features: a public bound on the number of features; tables with more are refused. Sums are
            rounded to a grid, which adds sqrt(features) of its steps to the sensitivity.
        calibration: "tight" or "published".
        relation: "replace_one" (the paper's) or "add_remove".

    Raises:
        ValueError: for a value outside these ranges, or for both or neither of epsilon and noise.
    """
    if (epsilon is None) == (noise is None):
        raise ValueError(
            f"give either epsilon or noise, got epsilon={epsilon!r} and noise={noise!r}"
        )
    if np.any(np.asarray(delta, np.float64) == 0):
        raise ValueError("Gaussian noise has no pure guarantee; delta must be in (0, 1), got 0")
    asked = request(
        epsilon=1.0 if epsilon is None else epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
    )
    numbers = _numbers(asked, density, learning_rate)
    numbers = numbers._replace(learning_rate=loss_rate(numbers.learning_rate))
    flag("normalized", normalized)
    learner = halfspace.halfspace(
        asked.relation, calibration, bool(normalized), whole("features", features)
    )
    setting = "normalized" if normalized else "gaussian"
    parts = _parts(asked, learner, numbers, "halfspace_boost", setting)
    assert learner.calibrate is not None
    if noise is None:
        return build(asked, parts, learner.calibrate)
    sigma = positive("noise", noise, finite=True).astype(np.float32)
    return assemble(asked, parts, halfspace.calibrate_for_noise(sigma, given(asked, parts)))


def hs_stl(
    *,
    alpha: float,
    beta: float,
    tau: float,
    rows: Any,
    delta: Any = 1e-6,
    features: int = 256,
    calibration: str = "tight",
    relation: str | Relation = REPLACE_ONE,
) -> Recipe:
    """HS-StL: `halfspace_boost` with the parameters of Bun et al. (2020), Algorithm 5.

    Guarantee: as the ledger says for `delta`; `rows` decides, the noise being set for accuracy.

    Args:
        alpha: the error to reach, in (0, 1); beta: the probability of failure, in (0, 1).
        beta: see alpha.
        tau: the margin of the target halfspace, in (0, 1).
        rows: m. `smooth_bounds.halfspace_rows` is how many the paper asks for.
        delta: in (0, 1), for the ledger.
        features: a public bound on the number of features.
        calibration: "tight" or "published".
        relation: "replace_one" or "add_remove".
    """
    chosen = smooth_bounds.hs_stl(alpha, beta, tau)
    return halfspace_boost(
        rows=rows,
        delta=delta,
        noise=chosen.noise,
        rounds=chosen.rounds,
        density=chosen.density,
        learning_rate=chosen.learning_rate,
        features=features,
        calibration=calibration,
        relation=relation,
    )
