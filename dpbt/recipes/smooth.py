"""Smooth boosting: LazyBB (Asadi et al., 2022), LazyBregBoost with halfspaces (Bun et al., 2020).

The same noise serves both neighbouring relations: the total weight is set to kappa `rows`, a public
number, whatever the number of rows present, up to `rows` (`slickness`). Neighbours are tables whose
other rows keep their order.
"""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import functools

import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses
from dpbt.base import REPLACE_ONE, ProperLoss, Recipe, Relation, WeakLearner
from dpbt.learners import halfspace, one_rule, top_down_tree
from dpbt.privacy import accounting, mechanisms
from dpbt.privacy.mechanism import Allowance, rounded_down
from dpbt.recipes.building import (
    Parts,
    Request,
    assemble,
    build,
    checked_request,
    either_accountant,
    flag,
    one_of,
    public_numbers,
    whole,
)
from dpbt.reweighting import LazyNumbers, lazy_bregman, loss_rate
from dpbt.theory import smooth_bounds
from dpbt.validate import floats, positive

_SELECTIONS = {"exponential": mechanisms.exponential, "noisy_max": mechanisms.noisy_max}
MAX_DEPTH = 12


def lazybb_rules(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    delta: ArrayLike = 0.0,
    rounds: ArrayLike = 39,
    density: ArrayLike = 0.35,
    learning_rate: ArrayLike = 0.45,
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

    Arguments of type ArrayLike may be arrays; they broadcast to settings. None of their values
    causes a recompile.

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
    request = checked_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
    )
    numbers = _numbers(request, density, learning_rate)
    one_of("selection", selection, _SELECTIONS)
    learner = one_rule.one_rule(request.relation, calibration, _SELECTIONS[selection])

    allow = either_accountant if request.tight else functools.partial(_composed, draws=1)
    assert learner.calibrate is not None
    parts = _parts(request, learner, numbers, "lazybb_rules", selection)
    return build(request, parts, learner.calibrate, allow)


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
    criterion: ProperLoss = losses.square,
    leaf_share: ArrayLike = 0.5,
    calibration: str = "tight",
    relation: str | Relation = REPLACE_ONE,
) -> Recipe:
    """LazyBB with top-down trees: Asadi et al. (2022), Algorithms 1 and 2, a majority vote.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of
    `dpbt.ledger`. With a delta a round is composed by one accountant for all of its draws: the one
    that gives the splits more. Published: 16 t eta / (kappa n) for a tree (Theorem 4.5), and with a
    delta the better of basic and advanced composition, as `lazybb_rules`.

    Arguments of type ArrayLike may be arrays; they broadcast to settings. None of their values
    causes a recompile.

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
    request = checked_request(
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
    )
    numbers = _numbers(request, density, learning_rate)
    kind = _tree(request, splits, depth, criterion)
    label_share = positive("leaf_share", leaf_share, below=1)
    if not request.tight and (criterion is not losses.square or np.any(label_share != 0.5)):
        raise ValueError(
            "the published calibration is of the Gini criterion and gives half of a round to the "
            "labels"
        )

    by_splits = functools.partial(_by_splits, split_share=(1 - label_share) / kind.splits)
    published = functools.partial(_composed, draws=kind.splits, labels=True)
    learner = top_down_tree.top_down_tree(*kind)
    setting = f"{kind.splits}, {criterion.name}"
    parts = _parts(request, learner, numbers, "lazybb_trees", setting)
    calibrate = functools.partial(top_down_tree.calibrate, kind, label_share)
    return build(request, parts, calibrate, by_splits if request.tight else published)


def _tree(request: Request, splits: int, depth: int, criterion: ProperLoss) -> top_down_tree.Kind:
    """The static part of top-down trees, checked."""
    splits, depth = whole("splits", splits), whole("depth", depth)
    if not isinstance(criterion, ProperLoss):
        raise ValueError(f"criterion must be a loss, such as losses.square, got {criterion!r}")
    losses.check_criterion(losses.fixed(criterion))
    if depth > MAX_DEPTH or splits > 2**depth - 1:
        raise ValueError(
            f"depth must be at most {MAX_DEPTH}, and a tree of depth D has at most 2^D - 1 splits; "
            f"got depth={depth} and splits={splits}"
        )
    return top_down_tree.Kind(splits, depth, criterion, request.relation, request.calibration)


def _numbers(request: Request, density: ArrayLike, learning_rate: ArrayLike) -> LazyNumbers:
    """The re-weighter's numbers, checked; a smaller density than asked for has less noise."""
    kappa = positive("density", density, below=1)
    if np.any(kappa * request.rows < 1):
        raise ValueError(
            f"density times rows must be at least 1, got {kappa!r} times {request.rows!r}"
        )
    rate = positive("learning_rate", learning_rate, finite=True)
    return LazyNumbers(rounded_down(kappa), rate)


def _parts(
    request: Request, learner: WeakLearner, numbers: LazyNumbers, name: str, setting: str
) -> Parts:
    """A vote of hypotheses on lazily projected weights."""
    return Parts(learner, lazy_bregman(request.tight), numbers, None, name, setting)


def _composed(request: Request, draws: int, labels: bool = False) -> Allowance:
    """The whole budget as an epsilon of basic or of advanced composition, whichever is more.

    Args:
        request: the request.
        draws: equal draws of a round.
        labels: whether a round has one more draw, of so many times the epsilon of one of these.
    """
    if not request.approximate:
        return either_accountant(request)
    in_round = draws * (2 if labels else 1)

    def total(epsilon: float, delta: float, rounds: int) -> float:
        parts = [(int(rounds) * draws, 1.0)]
        if labels:
            parts.append((int(rounds), float(draws)))
        of_draw = accounting.advanced_each(float(epsilon), float(delta), tuple(parts))
        return of_draw * in_round * int(rounds)

    totals = np.vectorize(total, otypes=[float])
    epsilon = totals(request.epsilon, request.delta, request.rounds)
    return Allowance(epsilon, np.zeros_like(epsilon))


def _by_splits(request: Request, split_share: np.ndarray) -> Allowance:
    """The whole budget by one accountant: the one that gives a split more.

    Args:
        request: the request.
        split_share: of a round's budget, for one split.
    """
    both = either_accountant(request)
    of_split = both.part(split_share / request.rounds)
    zero = np.zeros_like(of_split.epsilon)
    shift = mechanisms.exponential.price.shift
    by_zcdp = shift(of_split._replace(epsilon=zero)) > shift(of_split._replace(rho=zero))
    return Allowance(np.where(by_zcdp, 0.0, both.epsilon), np.where(by_zcdp, both.rho, 0.0))


def halfspace_boost(
    *,
    rows: ArrayLike,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike = 1e-6,
    noise: ArrayLike | None = None,
    rounds: ArrayLike = 50,
    density: ArrayLike = 0.25,
    learning_rate: ArrayLike = 0.5,
    normalized: bool = False,
    features: int = 256,
    calibration: str = "tight",
    relation: str | Relation = REPLACE_ONE,
) -> Recipe:
    """LazyBregBoost with the noisy centre: one halfspace, the sum of T noisy centres.

    Bun et al. (2020), Algorithm 5.

    Guarantee: (epsilon, delta)-DP under `relation`, through zCDP, with the lines of `dpbt.ledger`:
    per round rho = 2 / (kappa m sigma)^2 (tight; noise in units of a public cap on weights, so at
    most sigma) or 8 / (kappa m sigma)^2 (published). Tables hold exact numbers f32[N, d], or cells,
    which are read at their positions; rows outside the unit ball are projected onto it; sums are
    exact integers (see `learners.halfspace`). Neighbours are tables whose other rows keep their
    order. The hypotheses are not clipped to [-1, 1], so that their sum is a halfspace; where |h| >
    1 the loss is (1 + y h) / 2, which continues the paper's.

    Arguments of type ArrayLike may be arrays; they broadcast to settings. `hs_stl` sets them as the
    paper does.

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
    _check_noise(epsilon, noise, delta)
    request = checked_request(
        epsilon=1.0 if epsilon is None else epsilon,
        delta=delta,
        rows=rows,
        rounds=rounds,
        calibration=calibration,
        relation=relation,
    )
    numbers = _numbers(request, density, learning_rate)
    numbers = numbers._replace(learning_rate=loss_rate(numbers.learning_rate))
    flag("normalized", normalized)
    learner = halfspace.halfspace(
        request.relation, calibration, bool(normalized), whole("features", features)
    )
    setting = "normalized" if normalized else "gaussian"
    parts = _parts(request, learner, numbers, "halfspace_boost", setting)
    if noise is None:
        assert learner.calibrate is not None
        return build(request, parts, learner.calibrate)
    sigma = positive("noise", noise, finite=True).astype(np.float32)
    budget = halfspace.calibrate_for_noise(sigma, public_numbers(request, parts))
    return assemble(request, parts, budget)


def _check_noise(epsilon: ArrayLike | None, noise: ArrayLike | None, delta: ArrayLike) -> None:
    """Refuse what does not set the noise of halfspaces.

    Raises:
        ValueError: for both or neither of epsilon and noise, or a delta of 0.
    """
    if (epsilon is None) == (noise is None):
        raise ValueError(
            f"give either epsilon or noise, got epsilon={epsilon!r} and noise={noise!r}"
        )
    if np.any(floats("delta", delta) == 0):
        raise ValueError("Gaussian noise has no pure guarantee; delta must be in (0, 1), got 0")


def hs_stl(
    *,
    alpha: float,
    beta: float,
    tau: float,
    rows: ArrayLike,
    delta: ArrayLike = 1e-6,
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
