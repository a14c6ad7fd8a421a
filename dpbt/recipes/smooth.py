"""Smooth boosting: LazyBB (Asadi et al., 2022) and LazyBregBoost with halfspaces (Bun et al., 2020)."""

from typing import Any, NamedTuple

import numpy as np

from dpbt import accounting, losses, mechanisms, sensitivity, slickness, smooth_bounds
from dpbt.base import GRID, REPLACE_ONE, ProperLoss, Recipe, Relation, WeakLearner, positive
from dpbt.base import relation as to_relation
from dpbt.learners import halfspace, one_rule, top_down_tree
from dpbt.recipes.common import (
    Moved,
    after_samplers,
    deltas,
    down,
    known_calibration,
    noise_scale,
    public_rows,
    whole,
    wholes,
)
from dpbt.reweighting import lazy_bregman, loss_rate

_SELECTIONS = {"exponential": mechanisms.exponential, "noisy_max": mechanisms.noisy_max}


def lazybb(
    *,
    epsilon: Any,
    rows: Any,
    delta: Any = 0.0,
    rounds: Any = 39,
    density: Any = 0.35,
    learning_rate: Any = 0.45,
    learner: str = "one_rule",
    selection: str = "exponential",
    splits: int = 3,
    depth: int = 3,
    criterion: ProperLoss = losses.square,
    leaf_share: Any = 0.5,
    calibration: str = "tight",
    relation: str | Relation = REPLACE_ONE,
) -> Recipe:
    """LazyBB: Asadi et al. (2022), Algorithm 1, a majority vote of 1-rules or of top-down trees.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of `dpbt.ledger`. The same noise
    serves both relations: the total weight is set to kappa `rows`, a public number, whatever the number of rows
    present, up to `rows` (`slickness`). Neighbours are tables whose other rows keep their order.
    Tight: 2 eta / (kappa n) for each 1-rule, weights in units of a public cap, and
    with a delta the better of basic composition and zCDP by bounded range. Published: 4 eta / (kappa n) (Theorem 4.2),
    16 t eta / (kappa n) for a tree (Theorem 4.5), and with a delta the better of basic and advanced composition
    (Theorem 2.8); the ledger's epsilon is then smaller than asked for where zCDP composes the same draws to less, and
    `ledger.epsilon_at(delta, "advanced")` is the paper's.

    Arguments of type Any may be arrays; they broadcast to settings. None of their values causes a recompile.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy: the best rule, the best split, majority labels.
        rows: m. Under replace-one the public number of rows, under add/remove a public bound on it.
        delta: 0 for a pure guarantee, else in (0, 1).
        rounds: tau. Settings of different tau share a program, with room for the largest.
        density: kappa, in (0, 1), with kappa m of at least 1.
        learning_rate: lambda, on margins, above 0.
        learner: "one_rule" or "top_down".
        selection: for 1-rules, "exponential" or "noisy_max" (weighted return-noisy-max).
        splits: for trees, t, the number of internal nodes, in 1..2**depth - 1.
        depth: for trees, the depth cap, at most 12.
        criterion: for trees, the splitting criterion G; the published calibration knows Gini (`losses.square`) only.
        leaf_share: for trees, the share of a round's budget for the labels, in (0, 1); published: a half.
        calibration: "tight" or "published".
        relation: "replace_one" (the paper's) or "add_remove".

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    common = _common(epsilon, rows, delta, rounds, density, learning_rate, calibration, relation)
    tight, relation = common.tight, common.relation
    if learner == "one_rule":
        if selection not in _SELECTIONS:
            raise ValueError(f"selection must be one of {sorted(_SELECTIONS)}, got {selection!r}")
        mechanism = _SELECTIONS[selection]
        common = _after_samplers(common, [Moved(mechanism, common.rounds)])
        each = common.epsilon / common.rounds
        if common.approximate and tight:
            rho = np.vectorize(accounting.zcdp_rho)(common.epsilon, common.left_delta) / common.rounds
            each = np.maximum(each, np.sqrt((8 if mechanism is mechanisms.exponential else 2) * rho))
        elif common.approximate:
            each = _advanced(common, 1)
        spread = slickness.rule_range(relation) if tight else one_rule.PUBLISHED_RANGE
        weak = one_rule.one_rule(relation, calibration, mechanism)
        traced = {"rule_scale": noise_scale(spread * sensitivity.count_step(common.rows), each)}
        return _recipe(weak, one_rule.RuleBudget, traced, common, "lazybb", f"one_rule, {selection}")
    if learner != "top_down":
        raise ValueError(f'learner must be "one_rule" or "top_down", got {learner!r}')
    splits, depth = whole("splits", splits), whole("depth", depth)
    losses.check_criterion(losses.fixed(criterion))
    if depth > 12 or splits > 2**depth - 1:
        raise ValueError(f"a tree of depth {depth} has at most {2**depth - 1} splits (and depth 12), got {splits}")
    leaf_share = positive("leaf_share", leaf_share, below=1)
    if not tight and (criterion is not losses.square or np.any(leaf_share != 0.5)):
        raise ValueError("the published calibration is of the Gini criterion and gives half of a round to the labels")
    part = (1 - leaf_share) / splits
    labels = mechanisms.exponential if tight else mechanisms.noisy_max
    draws = [Moved(mechanisms.exponential, common.rounds * splits), Moved(labels, common.rounds * 2**depth)]
    common = _after_samplers(common, draws)
    split, leaf = (common.epsilon / common.rounds * share for share in (part, leaf_share))
    if common.approximate and tight:  # one accountant for both draws: the one that gives the splits more
        rho = np.vectorize(accounting.zcdp_rho)(common.epsilon, common.left_delta) / common.rounds
        by_zcdp = np.sqrt(8 * rho * part) > split
        split, leaf = (
            np.where(by_zcdp, np.sqrt(8 * rho * share), pure) for share, pure in ((part, split), (leaf_share, leaf))
        )
    elif common.approximate:
        split = _advanced(common, splits, float(splits))
        leaf = split * splits
    weak = top_down_tree.top_down_tree(splits, depth, criterion, relation, calibration)
    traced = {
        "split_epsilon": down(split),
        "leaf_scale": noise_scale(sensitivity.count_step(common.rows) * slickness.label_range(relation), leaf),
    }
    return _recipe(weak, top_down_tree.TopDownBudget, traced, common, "lazybb", f"top_down {splits}, {criterion.name}")


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
    """LazyBregBoost with the noisy centre: one halfspace, the sum of T noisy centres (Bun et al., 2020, Algorithm 5).

    Guarantee: (epsilon, delta)-DP under `relation`, through zCDP, with the lines of `dpbt.ledger`: per round rho =
    2 / (kappa m sigma)^2 (tight; noise in units of a public cap on weights, so at most sigma) or 8 / (kappa m
    sigma)^2 (published). Tables hold exact numbers f32[N, d], or cells, which are read at their
    positions; rows outside the unit ball are projected onto it; sums are exact integers (see
    `learners.halfspace`). Neighbours are tables whose other rows keep their order. The hypotheses
    are not clipped to [-1, 1], so that their sum is a halfspace; where |h| > 1 the loss is
    (1 + y h) / 2, which continues the paper's.

    Arguments of type Any may be arrays; they broadcast to settings. `hs_stl` sets them as the paper does.

    Args:
        rows: m. Under replace-one the public number of rows, under add/remove a public bound on it.
        epsilon: the budget that sets the noise; infinite for none. Give either this or `noise`.
        delta: in (0, 1); there is no pure guarantee.
        noise: sigma; the ledger says what it costs.
        rounds: T.
        density: kappa, in (0, 1), with kappa m of at least 1.
        learning_rate: lambda, on the paper's losses: half of it on margins.
        normalized: divide each released centre by its length, at no cost in privacy: see `learners.halfspace`. The
            paper does not. Hypotheses are then in [-1, 1] and many times larger, so rates are to be smaller.
        features: a public bound on the number of features; tables with more are refused. Sums are
            rounded to a grid, which adds sqrt(features) of its steps to the sensitivity.
        calibration: "tight" or "published".
        relation: "replace_one" (the paper's) or "add_remove".

    Raises:
        ValueError: for a value outside these ranges, or for both or neither of epsilon and noise.
    """
    if (epsilon is None) == (noise is None):
        raise ValueError(f"give either epsilon or noise, got epsilon={epsilon!r} and noise={noise!r}")
    if np.any(np.asarray(delta, np.float64) == 0):
        raise ValueError("Gaussian noise has no pure guarantee; delta must be in (0, 1), got 0")
    some = 1.0 if epsilon is None else epsilon
    common = _common(some, rows, delta, rounds, density, learning_rate, calibration, relation)
    features = whole("features", features)
    if noise is None:
        draw = mechanisms.rounded_gaussian
        draws = [Moved(draw, common.rounds * features, 1 / common.rounds, features)]
        common = _after_samplers(common, draws)
        rho = np.vectorize(accounting.zcdp_rho)(common.epsilon, common.left_delta) / common.rounds
        sigma, step = _center_noise(common, features, np.sqrt(2 * rho))
    else:
        sigma = positive("noise", noise, finite=True).astype(np.float32)
        step = _center_grid(common, sigma)
    common = common._replace(learning_rate=loss_rate(common.learning_rate))
    weak = halfspace.halfspace(common.relation, calibration, normalized, features)
    return _recipe(
        weak,
        halfspace.CenterBudget,
        {"noise": sigma, "step": step},
        common,
        "halfspace_boost",
        "normalized" if normalized else "gaussian",
    )


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


def lazy_breg_boost(
    learner: WeakLearner,
    budget: Any,
    *,
    rounds: Any,
    relation: str | Relation = REPLACE_ONE,
    delta: Any = 0.0,
    bounded: bool = True,
    words: tuple[str, str, str] = ("lazy_breg_boost", "tight", "custom"),
) -> Recipe:
    """LazyBregBoost with any weak learner (Bun et al., 2020, Algorithm 4): the schema without a budget of its own.

    Guarantee: what the learner's ledger lines say, times `rounds`, if they hold for weights that move as `slickness`
    says. The model is the sum of the learner's hypotheses.

    Args:
        learner: from `boundary.weak_learner`, with `slick=True`: a row that changes moves the weights of all.
        budget: its budget, with fields `rows`, `density` (kappa) and `learning_rate` (on margins: half of lambda on
            the paper's losses, see `reweighting.loss_rate`).
        rounds: T.
        relation: the relation its lines speak of.
        delta: of the ledger; 0 for a pure one.
        bounded: measure weights in units of their public cap below 1: see `reweighting.lazy_bregman`.
        words: name, calibration and setting, for tables.

    Raises:
        ValueError: if the learner is not slick, or of another relation.
    """
    shape, rounds = np.shape(budget.rows), wholes("rounds", rounds)
    name, calibration, setting = words
    return Recipe(
        budget=budget,
        delta=np.broadcast_to(np.asarray(delta, np.float64), shape),
        rounds=np.broadcast_to(rounds, shape),
        learner=learner,
        reweighter=lazy_bregman(bounded),
        loss=None,
        capacity=int(np.max(rounds)),
        relation=to_relation(relation),
        name=name,
        calibration=calibration,
        setting=setting,
    )


class _Common(NamedTuple):
    """What the smooth recipes share, checked; float64 arrays.

    After `_after_samplers`, `epsilon` and `left_delta` are what is left for the laws.
    """

    epsilon: np.ndarray
    rows: np.ndarray
    delta: np.ndarray
    left_delta: np.ndarray
    density: np.ndarray
    learning_rate: np.ndarray
    rounds: np.ndarray
    calibration: str
    relation: Relation

    @property
    def tight(self) -> bool:
        return self.calibration == "tight"

    @property
    def approximate(self) -> bool:
        return bool(np.any(self.delta > 0))


def _common(epsilon, rows, delta, rounds, density, learning_rate, calibration, relation) -> _Common:
    known_calibration(calibration)
    rows = public_rows(rows)
    density = positive("density", density, below=1)
    if np.any(density * rows < 1):
        raise ValueError(f"density times rows must be at least 1, got {density!r} times {rows!r}")
    delta, _ = deltas(delta)
    return _Common(
        positive("epsilon", epsilon),
        rows,
        delta,
        delta,
        density,
        positive("learning_rate", learning_rate, finite=True),
        wholes("rounds", rounds),
        calibration,
        to_relation(relation),
    )


def _center_grid(common: _Common, sigma: np.ndarray) -> np.ndarray:
    """The public grid of the sums, fit for rows and for noise sigma of a centre."""
    units = common.rows * down(common.density).astype(np.float64) * GRID * 2.0**14
    finite = np.where(np.isfinite(sigma), sigma, 0).astype(np.float64)
    return slickness.sum_step(common.rows, finite * units)


def _center_noise(common: _Common, features: int, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(sigma, grid) of a centre that a row moves by `shift` standard deviations.

    The grid enters the sensitivity, and the noise the choice of the grid: it is chosen for the noise
    without it, which it hardly changes.
    """
    mass = common.rows * down(common.density).astype(np.float64)
    grid = slickness.sum_step(common.rows)
    for _ in range(2):
        bound = halfspace.moved(grid, common.relation, common.tight, features)
        sigma = noise_scale(bound / mass, shift)
        grid = np.maximum(grid, _center_grid(common, sigma))
    return noise_scale(halfspace.moved(grid, common.relation, common.tight, features) / mass, shift), grid


def _after_samplers(common: _Common, draws: list[Moved]) -> _Common:
    """The budget that is left for the laws, once the finite bits of these draws are paid for."""
    epsilon, delta = after_samplers(common.epsilon, common.delta, draws)
    return common._replace(epsilon=epsilon, left_delta=delta)


def _advanced(common: _Common, draws: int, *more: float) -> np.ndarray:
    """The epsilon of each of `draws` equal draws a round, with one more a round of so many times that epsilon."""

    def solve(epsilon, delta, rounds) -> float:
        parts = ((int(rounds) * draws, 1.0), *((int(rounds), multiple) for multiple in more))
        return accounting.advanced_each(float(epsilon), float(delta), parts)

    return np.vectorize(solve)(common.epsilon, common.left_delta, common.rounds)


def _recipe(weak: WeakLearner, kind: Any, traced: dict, common: _Common, name: str, setting: str) -> Recipe:
    """A recipe whose budget's fields all have the shape of the settings."""
    traced = {**traced, "density": down(common.density), "learning_rate": common.learning_rate, "rows": common.rows}
    shape = np.broadcast_shapes(*(np.shape(value) for value in (*traced.values(), common.delta, common.rounds)))
    budget = kind(**{field: np.broadcast_to(np.asarray(value, np.float32), shape) for field, value in traced.items()})
    if bad := [field for field, value in budget._asdict().items() if np.any(np.isnan(value)) or np.any(value < 0)]:
        raise ValueError(f"these settings leave float32 in {bad}")
    private = np.broadcast_to(np.isfinite(common.epsilon), shape)
    for field in ("rule_scale", "leaf_scale", "noise"):
        scale = getattr(budget, field, None)
        if scale is not None and np.any(private & ((scale <= 0) | np.isinf(scale))):
            raise ValueError(f"these settings leave float32 in {field}: no noise, or noise that is not finite")
    return lazy_breg_boost(
        weak,
        budget,
        rounds=np.broadcast_to(common.rounds, shape),
        relation=common.relation,
        delta=np.broadcast_to(common.delta, shape),
        bounded=common.tight,
        words=(name, common.calibration, setting),
    )
