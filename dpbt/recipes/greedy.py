"""Boosting with greedy trees: Nock & Henecka (2020)."""

import functools
from typing import Any, NamedTuple

import numpy as np
import optax

from dpbt import losses
from dpbt.base import ADD_REMOVE, LossFamily, ProperLoss, Recipe, Relation, positive
from dpbt.learners import greedy_tree, published_greedy_tree
from dpbt.privacy import mechanisms
from dpbt.privacy.mechanism import rounded_down
from dpbt.recipes.building import (
    Parts,
    Request,
    build,
    no_published_delta,
    request,
    whole,
)
from dpbt.reweighting import MirrorNumbers, mirror


def _family(loss: ProperLoss | LossFamily) -> LossFamily:
    return losses.fixed(loss) if isinstance(loss, ProperLoss) else loss


def _boostable(
    loss: ProperLoss | LossFamily | None, criterion: ProperLoss | LossFamily
) -> LossFamily:
    """The family of the link: the criterion's own where its surrogate is smooth, else
    Matsushita's.
    """
    family = _family(criterion if loss is None else loss)
    if np.isfinite(float(family(np.float32(1)).smoothness)):
        return family
    if loss is None:
        return losses.fixed(losses.matsushita)
    raise ValueError(
        f"loss must have a smooth surrogate to be boosted, {family(np.float32(1)).name} has kinks"
    )


def _depth_schedule(alpha: Any, depth: int) -> np.ndarray:
    """Float64[..., D]: alpha at each depth, from a number, an array of settings, or a schedule of
    the depth.
    """
    values = np.stack(
        [np.asarray(alpha(k) if callable(alpha) else alpha, np.float64) for k in range(depth)], -1
    )
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError(
            f"alpha must be in [0, 1], or a schedule with values there, got {values.tolist()}"
        )
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
    """Boosted differentially private ensembles of trees: Nock & Henecka (2020), Algorithm 1 and
    section 6.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) under `relation`, with the lines of
    `dpbt.ledger`. In the tight calibration every line is proved in `sensitivity`; in the published
    one epsilon is the paper's claim and the ledger names what stays unprotected. Rows beyond the
    bound `rows` do not count; `fit` refuses them.

    Every argument of type Any but `alpha` as a word or a schedule may be an array; they broadcast,
    and the recipe then holds one setting for each entry (vmap over it). None of these values causes
    a recompile.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy: best splits, exact leaves,
            pure nodes not split, empty leaves predict their parent's value, no clamping to `clip`.
        rows: m. Under add/remove a public bound on the number of rows; under replace-one their
            public number.
        delta: 0 for a pure guarantee, with discrete Laplace counts; else in (0, 1), for (epsilon,
            delta)-DP through zCDP, with rounded Gaussian counts and bounded-range selections, the
            shares being shares of rho (tight calibration).
        rounds: T, the number of trees. Settings of different T share a program, with room for the
            largest.
        depth: D, the depth of every tree.
        calibration: "tight" or "published".
        relation: "add_remove" or "replace_one". The published noise is the same for both.
        alpha: the criterion's alpha: "objective" (equation (16): the ratio of errors to the root's;
            noisy in the tight calibration, read off the data in the published one), a number in [0,
            1], or a schedule of the depth, such as any `optax.Schedule`.
        criterion: the loss, or the family indexed by alpha, whose perspective scores the splits.
        loss: the loss or family of link, re-weighting and leverage; the criterion's own by default,
            Matsushita's where that one has kinks. Its alpha is 1 unless `alpha` is a number (the
            paper leaves this open).
        beta_tree: share of epsilon that goes to the trees' structure; the rest goes to leaves. In
            (0, 1).
        error_share: share of the structure's budget that pays for noisy errors (tight, objective, D
            > 1). In (0, 1).
        clip: M, in [1e-6, 1e6]: the bound on a leaf's value before leverage.
        zeta: shares are clamped to [zeta, 1 - zeta] before the link; in [1e-6, 1/2).
        pi: places a in (1 / (4 F'' M**2)) [1 - pi, 1 + pi], F'' the surrogate's smoothness, which
            is (alpha / M**2) [1 - pi, 1 + pi] for M-alpha (equation (125)); in (-1, 1), a negative
            value being a smaller step.
        smoothing: tight calibration: weight of a leaf's parent in its share, in units of the leaf's
            noise. At least 0.

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
    no_published_delta(asked)
    depth = _checked_depth(depth)
    families = _families(alpha, criterion, loss)
    shares = _shares(beta_tree, error_share)
    settings = _settings(asked, families, alpha, depth, clip, zeta, pi, smoothing)

    noise = mechanisms.rounded_gaussian if asked.approximate else mechanisms.discrete_laplace
    static = (depth, families.criterion, families.link, families.objective)
    if asked.tight:
        kind = greedy_tree.Kind(*static, asked.relation, noise)
        learner, calibrate = greedy_tree.greedy_tree(*kind), greedy_tree.calibrate
        shares = shares._replace(errors=shares.errors if kind.counts_errors else 0.0)
    else:
        kind = greedy_tree.Kind(*static, None, noise)
        learner = published_greedy_tree.published_greedy_tree(*static)
        calibrate = published_greedy_tree.calibrate

    parts = Parts(
        learner=learner,
        reweighter=mirror(families.link, bounded=asked.tight),
        reweighting=MirrorNumbers(settings.link_alpha),
        loss=families.link,
        name="bdpe",
        setting=families.words,
    )
    calibrated = functools.partial(calibrate, kind, shares, settings)
    return build(asked, parts, calibrated, by_depth=greedy_tree.BY_DEPTH)


MAX_DEPTH = 12


def _checked_depth(depth: Any) -> int:
    depth = whole("depth", depth)
    if depth > MAX_DEPTH:
        raise ValueError(f"depth must be at most {MAX_DEPTH} for complete trees, got {depth}")
    return depth


class _Families(NamedTuple):
    """The losses of a recipe.

    Attributes:
        criterion: the family whose perspective scores splits.
        link: the family of link, weights and leverage.
        objective: whether alpha follows errors.
        words: for tables.
    """

    criterion: LossFamily
    link: LossFamily
    objective: bool
    words: str


def _families(
    alpha: Any, criterion: ProperLoss | LossFamily, loss: ProperLoss | LossFamily | None
) -> _Families:
    objective = isinstance(alpha, str)
    if objective and alpha != "objective":
        raise ValueError(f'alpha must be "objective", a number, or a schedule, got {alpha!r}')
    family = _family(criterion)
    losses.check_criterion(family)
    link = _boostable(loss, criterion)
    if objective and isinstance(criterion, ProperLoss):
        raise ValueError(
            f"objective calibration needs a family of losses indexed by alpha, got {criterion.name}"
        )
    name = family(0.5).name
    words = "objective" if objective else ("alpha" if name == "m_alpha" else name)
    return _Families(family, link, objective, words)


def _shares(beta_tree: Any, error_share: Any) -> greedy_tree.Shares:
    structure = positive("beta_tree", beta_tree, below=1)
    return greedy_tree.Shares(structure, positive("error_share", error_share, below=1))


def _settings(
    asked: Request,
    families: _Families,
    alpha: Any,
    depth: int,
    clip: Any,
    zeta: Any,
    pi: Any,
    smoothing: Any,
) -> greedy_tree.Settings:
    """The numbers that have nothing to do with privacy, checked."""
    by_depth = _depth_schedule(1.0 if families.objective else alpha, depth)
    link_alpha = np.asarray(1.0)
    if not families.objective and not callable(alpha):
        link_alpha = by_depth[..., 0]
        if families.link(0.5).name == "m_alpha":  # alpha = 0 has kinks; 1 is Matsushita's loss
            link_alpha = np.where(link_alpha > 0, link_alpha, 1.0)

    clip = positive("clip", clip, finite=True)
    zeta = positive("zeta", zeta, below=0.5)
    if np.any((clip < 1e-6) | (clip > 1e6)) or np.any(zeta < 1e-6):
        words = "float32 needs clip in [1e-6, 1e6] and zeta of at least 1e-6"
        raise ValueError(f"{words}, got {clip!r} and {zeta!r}")
    pi, smoothing = np.asarray(pi, np.float64), np.asarray(smoothing, np.float64)
    if not np.all(np.abs(pi) < 1):
        raise ValueError(f"pi must be in (-1, 1), got {pi!r}")
    if not np.all((smoothing >= 0) & (smoothing <= 1e6)):
        raise ValueError(f"smoothing must be in [0, 1e6], got {smoothing!r}")

    link = families.link(np.asarray(link_alpha, np.float32))
    widest = np.abs(np.asarray(link.link(np.asarray(1 - zeta, np.float32)), np.float64))
    clip = np.where(np.isinf(asked.epsilon), widest, clip)  # no clamping without privacy
    step = (1 + pi) / (4 * np.asarray(link.smoothness, np.float64) * clip**2)
    return greedy_tree.Settings(rounded_down(by_depth), link_alpha, clip, zeta, step, smoothing)
