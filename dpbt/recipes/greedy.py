"""Boosting with greedy trees: Nock & Henecka (2020)."""

from typing import Any

import numpy as np
import optax

from dpbt import accounting, losses, mechanisms, sensitivity
from dpbt.base import ADD_REMOVE, GRID, LossFamily, ProperLoss, Recipe, Relation, positive
from dpbt.base import relation as to_relation
from dpbt.learners import greedy_tree
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
from dpbt.reweighting import mirror


def _family(loss: ProperLoss | LossFamily) -> LossFamily:
    return losses.fixed(loss) if isinstance(loss, ProperLoss) else loss


def _boostable(loss: ProperLoss | LossFamily | None, criterion: ProperLoss | LossFamily) -> LossFamily:
    """The family of the link: the criterion's own where its surrogate is smooth, else Matsushita's."""
    family = _family(criterion if loss is None else loss)
    if np.isfinite(float(family(np.float32(1)).smoothness)):
        return family
    if loss is None:
        return losses.fixed(losses.matsushita)
    raise ValueError(f"loss must have a smooth surrogate to be boosted, {family(np.float32(1)).name} has kinks")


def _depth_schedule(alpha: Any, depth: int) -> np.ndarray:
    """Float64[..., D]: alpha at each depth, from a number, an array of settings, or a schedule of the depth."""
    values = np.stack([np.asarray(alpha(k) if callable(alpha) else alpha, np.float64) for k in range(depth)], -1)
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError(f"alpha must be in [0, 1], or a schedule with values there, got {values.tolist()}")
    return values


def bdpe(
    *,
    epsilon: Any,
    rows: Any,
    delta: Any = 0.0,
    rounds: Any = 5,
    depth: int = 3,
    calibration: str = "tight",
    relation: str | Relation = ADD_REMOVE,
    alpha: str | float | np.ndarray | optax.Schedule = "objective",
    criterion: ProperLoss | LossFamily = losses.m_alpha,
    loss: ProperLoss | LossFamily | None = None,
    beta_tree: Any = 0.5,
    error_share: Any = 0.1,
    clip: Any = 10.0,
    zeta: Any = 1e-4,
    pi: Any = 0.0,
    smoothing: Any = 1.0,
) -> Recipe:
    """Boosted differentially private ensembles of trees: Nock & Henecka (2020), Algorithm 1 and section 6.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of `dpbt.ledger`. In the
    tight calibration every line is proved in `sensitivity`; in the published one epsilon is the paper's claim and
    the ledger names what stays unprotected. Rows beyond the bound `rows` do not count; `fit` refuses them.

    Every argument of type Any but `alpha` as a word or a schedule may be an array; they broadcast, and the recipe
    then holds one setting for each entry (vmap over it). None of these values causes a recompile.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy: best splits, exact leaves, pure nodes not
            split, empty leaves predict their parent's value, no clamping to `clip`.
        rows: m. Under add/remove a public bound on the number of rows; under replace-one their public number.
        delta: 0 for a pure guarantee, with discrete Laplace counts; else in (0, 1), for (epsilon, delta)-DP through
            zCDP, with rounded Gaussian counts and bounded-range selections, the shares being shares of
            rho (tight calibration).
        rounds: T, the number of trees. Settings of different T share a program, with room for the largest.
        depth: D, the depth of every tree.
        calibration: "tight" or "published".
        relation: "add_remove" or "replace_one". The published noise is the same for both.
        alpha: the criterion's alpha: "objective" (equation (16): the ratio of errors to the root's; noisy in the
            tight calibration, read off the data in the published one), a number in [0, 1], or a schedule of the depth,
            such as any `optax.Schedule`.
        criterion: the loss, or the family indexed by alpha, whose perspective scores the splits.
        loss: the loss or family of link, re-weighting and leverage; the criterion's own by default, Matsushita's
            where that one has kinks. Its alpha is 1 unless `alpha` is a number (the paper leaves this open).
        beta_tree: share of epsilon that goes to the trees' structure; the rest goes to leaves. In (0, 1).
        error_share: share of the structure's budget that pays for noisy errors (tight, objective, D > 1). In (0, 1).
        clip: M, in [1e-6, 1e6]: the bound on a leaf's value before leverage.
        zeta: shares are clamped to [zeta, 1 - zeta] before the link; in [1e-6, 1/2).
        pi: places a in (1 / (4 F'' M**2)) [1 - pi, 1 + pi], F'' the surrogate's smoothness, which is
            (alpha / M**2) [1 - pi, 1 + pi] for M-alpha (equation (125)); in (-1, 1), a negative value being a
            smaller step.
        smoothing: tight calibration: weight of a leaf's parent in its share, in units of the leaf's noise. At
            least 0.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    relation = to_relation(relation)
    known_calibration(calibration)
    rounds, depth = wholes("rounds", rounds), whole("depth", depth)
    if depth > 12:
        raise ValueError(f"depth must be at most 12 for complete greedy trees, got {depth}")
    objective = isinstance(alpha, str)
    if objective and alpha != "objective":
        raise ValueError(f'alpha must be "objective", a number, or a schedule, got {alpha!r}')
    losses.check_criterion(_family(criterion))
    criterion_family, link_family = _family(criterion), _boostable(loss, criterion)
    if objective and isinstance(criterion, ProperLoss):
        raise ValueError(f"objective calibration needs a family of losses indexed by alpha, got {criterion.name}")
    by_depth = _depth_schedule(1.0 if objective else alpha, depth)
    number = not objective and not callable(alpha)
    link_alpha = by_depth[..., 0] if number else np.asarray(1.0)
    if number and link_family(0.5).name == "m_alpha":
        link_alpha = np.where(link_alpha > 0, link_alpha, 1.0)  # alpha = 0 has kinks; 1 is Matsushita's loss

    epsilon = positive("epsilon", epsilon)
    rows = public_rows(rows)
    beta_tree = positive("beta_tree", beta_tree, below=1)
    error_share = positive("error_share", error_share, below=1)
    clip = positive("clip", clip, finite=True)
    zeta = positive("zeta", zeta, below=0.5)
    if np.any((clip < 1e-6) | (clip > 1e6)) or np.any(zeta < 1e-6):
        raise ValueError(f"float32 needs clip in [1e-6, 1e6] and zeta of at least 1e-6, got {clip!r} and {zeta!r}")
    pi, smoothing = np.asarray(pi, np.float64), np.asarray(smoothing, np.float64)
    if not np.all(np.abs(pi) < 1):
        raise ValueError(f"pi must be in (-1, 1), got {pi!r}")
    if not np.all((smoothing >= 0) & (smoothing <= 1e6)):
        raise ValueError(f"smoothing must be in [0, 1e6], got {smoothing!r}")

    delta, approximate = deltas(delta)

    shape = np.broadcast_shapes(
        *(
            np.shape(x)
            for x in (epsilon, delta, rounds, rows, beta_tree, error_share, clip, zeta, pi, smoothing, by_depth[..., 0])
        )
    )
    link = link_family(np.asarray(link_alpha, np.float32))
    widest = np.abs(np.asarray(link.link(np.asarray(1 - zeta, np.float32)), np.float64))
    clip = np.where(np.isinf(epsilon), widest, clip)
    step = (1 + pi) / (4 * np.asarray(link.smoothness, np.float64) * clip**2)
    counts_errors = objective and depth > 1
    if calibration == "tight":
        noise = mechanisms.rounded_gaussian if approximate else mechanisms.discrete_laplace
        learner = greedy_tree.tight(depth, criterion_family, link_family, objective, relation, noise)
        errors_too = error_share if counts_errors else None
        moves = sensitivity.split_moves(relation)
        _, error, leaf = _shares(1 / rounds, beta_tree, errors_too, depth)
        draws = [
            Moved(mechanisms.exponential, rounds * depth * moves),
            Moved(noise, rounds * sensitivity.class_weights(relation), leaf),
            *([Moved(noise, rounds * depth, error)] if counts_errors else []),
        ]
        left, left_delta = after_samplers(epsilon, delta, draws)
        total = np.vectorize(accounting.zcdp_rho)(left, left_delta) if approximate else left
        split, error, leaf = _shares(total / rounds, beta_tree, errors_too, depth)
        errors = GRID * sensitivity.error_weight(relation)
        leaves = GRID * sensitivity.class_weights(relation)
        if approximate:
            split, error, leaf = np.sqrt(8 * split), np.sqrt(2 * error), np.sqrt(2 * leaf)
            leaves = GRID * sensitivity.class_weights_l2(relation)
        split_epsilon = np.repeat((split / moves)[..., None], depth, -1)
        error_scale, leaf_scale = noise_scale(errors, error), noise_scale(leaves, leaf)
        for name, scale in (("errors", error_scale), ("leaves", leaf_scale)):
            if np.any(scale > mechanisms.MAX_DISCRETE_SCALE):
                raise ValueError(f"epsilon is too small: noise of scale {np.max(scale) / GRID:g} rows for the {name}")
        leaf_step = np.asarray(1.0)
        reweighter = mirror(link_family, bounded=True)
    else:
        if approximate:
            raise ValueError("the published calibration has no (epsilon, delta) guarantee; use delta = 0")
        learner = greedy_tree.published(depth, criterion_family, link_family, objective)
        draws = [
            Moved(mechanisms.exponential, rounds * (2**depth - 1)),
            Moved(mechanisms.discrete_laplace, rounds * 2**depth, (1 - beta_tree) / rounds / 2**depth),
        ]
        left, _ = after_samplers(epsilon, delta, draws)
        split, _, leaf = _shares(left / rounds, beta_tree, None, depth)
        split_epsilon = split[..., None] / 2.0 ** np.arange(depth)
        error_scale = np.asarray(0.0)
        step = down(step).astype(np.float64)
        clip = down(clip).astype(np.float64)
        widest = 2 * (step.astype(np.float32) * clip.astype(np.float32) ** 2).astype(np.float64)
        leaf_step = _leaf_step(widest, leaf / 2**depth)
        steps = noise_scale(np.floor(widest / leaf_step) + 1, leaf / 2**depth)
        if np.any(steps > mechanisms.MAX_DISCRETE_SCALE):
            raise ValueError(f"epsilon is too small: noise of scale {np.max(steps):g} steps for the leaves")
        leaf_scale = steps.astype(np.float64) * leaf_step
        reweighter = mirror(link_family, bounded=False)

    def spread(value) -> np.ndarray:
        return np.broadcast_to(np.asarray(value, np.float32), shape)

    def spread_depth(value) -> np.ndarray:
        return np.broadcast_to(down(value), (*shape, depth))

    budget = greedy_tree.TreeBudget(
        split_epsilon=spread_depth(split_epsilon),
        error_scale=spread(error_scale),
        leaf_scale=spread(leaf_scale),
        leaf_step=spread(leaf_step),
        alpha=spread_depth(by_depth),
        link_alpha=spread(link_alpha),
        rows=spread(rows),
        clip=spread(clip),
        zeta=spread(zeta),
        step=spread(step),
        smoothing=spread(smoothing),
    )
    if bad := [field for field, value in budget._asdict().items() if not _sound(field, value, epsilon)]:
        raise ValueError(f"these settings leave float32 in {bad}: no noise, or a value that is not finite")
    name = criterion_family(0.5).name
    setting = "objective" if objective else ("alpha" if name == "m_alpha" else name)
    return Recipe(
        budget=budget,
        delta=np.broadcast_to(delta, shape),
        rounds=np.broadcast_to(rounds, shape),
        learner=learner,
        reweighter=reweighter,
        loss=link_family,
        capacity=int(np.max(rounds)),
        relation=relation,
        name="bdpe",
        calibration=calibration,
        setting=setting,
    )


def _sound(field: str, value: np.ndarray, epsilon: np.ndarray) -> bool:
    """Whether a float32 field of the budget is finite, and positive where noise or a step must not vanish."""
    private = np.isfinite(epsilon)
    if field == "split_epsilon":
        return bool(np.all((value > 0) & (np.isfinite(value) | ~private[..., None])))
    positive_fields = {"leaf_scale": private, "leaf_step": True, "step": True}
    return bool(np.all(np.isfinite(value)) and np.all((value > 0) | ~np.asarray(positive_fields.get(field, False))))


def _leaf_step(widest: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    """The grid of published leaf values: a power of two, far finer than their range and their noise.

    At most 2**-12 of the range or of the noise's scale, whichever is smaller, but not so fine that
    the noise has a scale of more than 2**31 steps, or a value lies beyond 2**29 steps.
    """
    scale = widest / np.where(np.isfinite(epsilon), epsilon, 2.0**12)
    step = np.minimum(widest, scale) * 2.0**-12
    step = np.maximum(np.maximum(step, scale * 2.0**-31), widest * 2.0**-29)
    return 2.0 ** np.floor(np.log2(step))


def _shares(tree, beta_tree, error_share, depth: int):
    """A tree's budget as that of one level's splits, one level's errors, and all leaves; additive (epsilon or rho)."""
    structure = beta_tree * tree
    leaf = (1 - beta_tree) * tree
    if error_share is None:
        return structure / depth, np.full_like(structure, np.inf), leaf
    return (1 - error_share) * structure / depth, error_share * structure / depth, leaf
