"""Level-wise greedy trees with private splits and private leaves (Nock & Henecka, 2020, section 6).

Two calibrations of one way to grow. `published` follows the paper: exponent eps / (2 max{3, 1 + f(1, m)}) with the
node budgets of equation (17), alpha of equation (16) read off the data, discrete Laplace noise on leveraged links.
`tight` keeps the guarantee with less noise: exponent eps / f(1, m) for all nodes of a level at once, alpha from
noisy errors, leaves from noisy class weights.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt import accounting, boundary, mechanisms, sensitivity, trees
from dpbt.accounting import Event
from dpbt.base import (
    GRID,
    AnyArray,
    Array,
    LossFamily,
    Mechanism,
    ProperLoss,
    Relation,
    Release,
    Tree,
    WeakLearner,
    Weights,
    relation_name,
)
from dpbt.losses import family_name

_TINY_PRIOR = 1e-6

ALPHA_LEAK = "alpha of equation (16), a ratio of error counts read off the private rows"


class TreeBudget(NamedTuple):
    """The traced numbers of a greedy tree; each may have leading axes of settings.

    Attributes:
        split_epsilon: f32[D], the exponent's epsilon at each depth: of one node (published), or of all nodes
            of the level (tight). Infinite in the non-private mode, which takes the best split and leaves pure
            nodes alone.
        error_scale: f32[], noise scale of the noisy errors, in grid units.
        leaf_scale: f32[], noise scale of a leaf: of its value (published) or of its class weights in
            grid units (tight).
        leaf_step: f32[], a power of two: the public grid that leaf values lie on (published).
        alpha: f32[D], the criterion's alpha by depth, where it is given.
        link_alpha: f32[], alpha of the link, of the weight update and of `step`.
        rows: f32[], m: the public bound on the number of rows (add/remove) or their number (replace-one).
        clip: f32[], M: leaf values before leverage are clamped to [-M, M].
        zeta: f32[], shares of a class are clamped to [zeta, 1 - zeta] before the link.
        step: f32[], a of Algorithm 1.
        smoothing: f32[], the weight of a leaf's parent in its share, in units of the leaf's noise scale.
    """

    split_epsilon: AnyArray
    error_scale: AnyArray
    leaf_scale: AnyArray
    leaf_step: AnyArray
    alpha: AnyArray
    link_alpha: AnyArray
    rows: AnyArray
    clip: AnyArray
    zeta: AnyArray
    step: AnyArray
    smoothing: AnyArray


AlphaRule = Callable[[boundary.Draw, TreeBudget], Callable[[int, Array], Array]]
"""(draw, budget) -> (level, totals i32[nodes, 2]) -> the criterion's alpha at that level."""


def _errors(totals: Array) -> Array:
    """i32[]: the weight that predicting each node's majority class gets wrong, in grid units."""
    return jnp.sum(jnp.min(totals, axis=-1))


def given_alpha(draw: boundary.Draw, budget: TreeBudget):
    """Alpha is public: a constant or a schedule of the depth."""
    del draw

    def alpha(level: int, totals: Array) -> Array:
        del totals
        return jnp.asarray(budget.alpha)[level]

    return alpha


def private_objective(draw: boundary.Draw, budget: TreeBudget):
    """Objective calibration as published: alpha_k = errors_k / errors_0 of the private rows, equation (16).

    Level by level, where the paper goes leaf by leaf. With no error at the root, alpha is 1 there and 0 below.
    """
    del draw, budget
    seen: list[Array] = []

    def alpha(level: int, totals: Array) -> Array:
        seen.append(_errors(totals).astype(jnp.float32))
        return jnp.float32(1) if level == 0 else seen[-1] / jnp.maximum(seen[0], 1)

    return alpha


def objective_alpha(noisy_errors: Array) -> Array:
    """f32[K] non-increasing alphas from noisy errors [K] of the levels 0..K-1; the first is 1.

    Post-processing: ratios to the root's, clamped to [0, 1], each at most the one above. A root count below one
    grid unit counts as one.
    """
    ratio = noisy_errors.astype(jnp.float32) / jnp.maximum(noisy_errors[0], 1).astype(jnp.float32)
    ratio = jnp.clip(ratio, 0, 1).at[0].set(1)
    return jnp.minimum.accumulate(ratio)


@functools.cache
def noisy_objective(noise: Mechanism) -> AlphaRule:
    """Objective calibration from noisy errors: one count of sensitivity 1 row for each level."""

    def rule(draw: boundary.Draw, budget: TreeBudget):
        depth = budget.alpha.shape[-1]
        seen: list[Array] = []

        def alpha(level: int, totals: Array) -> Array:
            if depth == 1:
                return jnp.float32(1)
            seen.append(draw(f"error_{level}", noise, _errors(totals), budget.error_scale))
            return objective_alpha(jnp.stack(seen))[-1]

        return alpha

    return rule


def split_scores(loss: ProperLoss, products: Array, totals: Array) -> Array:
    """f32[nodes, S]: minus the summed perspectives of the two children of every node and split.

    Args:
        loss: the criterion.
        products: i32[nodes, 2, S] from `trees.node_products`.
        totals: i32[nodes, 2].
    """
    right = products.astype(jnp.float32) / GRID
    left = (totals[:, :, None] - products).astype(jnp.float32) / GRID
    return -(loss.perspective(right[:, 1], right[:, 0]) + loss.perspective(left[:, 1], left[:, 0]))


def _grow(
    draw: boundary.Draw,
    table: trees.Prepared,
    weights: Weights,
    budget: TreeBudget,
    family: LossFamily,
    alpha_rule: AlphaRule,
    temperature: Callable[[ProperLoss, Array], Array],
) -> Array:
    """Draw all splits, level by level; returns the leaves' class weights i32[L, 2] in grid units (private)."""
    depth = budget.alpha.shape[-1]
    levels = trees.masked_levels(table, weights.level)
    node = jnp.zeros(table.target.shape[0], trees.node_dtype(2**depth))
    totals, products = trees.node_totals(levels), None
    alpha_of = alpha_rule(draw, budget)
    for level in range(depth):
        products = trees.node_products(table, levels, node, 2**level, products)
        loss = family(alpha_of(level, totals))
        scores = split_scores(loss, products, totals)
        epsilon = budget.split_epsilon[level]
        pure = jnp.min(totals, axis=-1) == 0
        scores = jnp.where((jnp.isinf(epsilon) & pure)[:, None], -jnp.inf, scores)
        if table.allowed is not None:
            scores = jnp.where(table.allowed[None, :], scores, -jnp.inf)
        unit = temperature(loss, jnp.asarray(budget.rows))
        split = draw(f"split_{level}", mechanisms.exponential, scores, unit / epsilon, unit)
        totals = trees.child_totals(products, totals, split)
        node = trees.descend(table.columns, node, split)
    return totals


def _link_values(family: LossFamily, budget: TreeBudget, share: Array) -> Array:
    """f32[L]: the canonical link of the clamped shares, clamped to [-M, M]."""
    value = family(budget.link_alpha).link(jnp.clip(share, budget.zeta, 1 - budget.zeta))
    return jnp.clip(value, -budget.clip, budget.clip)


def _gather_splits(release: Release) -> Array:
    depth = sum(1 for site in release if site.startswith("split_"))
    return jnp.concatenate([release[f"split_{level}"] for level in range(depth)])


class SplitPrice(NamedTuple):
    """How the ledger prices the splits of a level.

    Attributes:
        bound: (loss, rows) -> the sensitivity of a score.
        factor: the temperature is factor * bound / epsilon.
        times: (level) -> how often a level pays.
        moves: what it then pays, in `split_epsilon`.
        moved: (level) -> how many nodes' draws one row moves.
        words: what is released, and where the bound is proved.
    """

    bound: Callable[[ProperLoss, AnyArray], Array]
    factor: int
    times: Callable[[int], int]
    moves: int
    moved: Callable[[int], int]
    words: tuple[str, str]


def _split_events(budget: TreeBudget, objective: bool, criterion: LossFamily, price: SplitPrice) -> list[Event]:
    """One event a depth."""
    nodes, theorem = price.words
    events = []
    for level, epsilon in enumerate(np.asarray(budget.split_epsilon, np.float64)):
        alpha = 1.0 if objective else np.asarray(budget.alpha)[level]
        worst = float(price.bound(criterion(alpha), np.asarray(budget.rows)))
        events.append(
            accounting.selection(
                f"split_{level}",
                f"splits at depth {level}, {nodes}",
                count=price.times(level),
                epsilon=price.moves * float(epsilon),
                scale=price.factor * worst / float(epsilon),
                sensitivity=worst,
                theorem=theorem,
                unit=price.factor * worst,
                moved=price.moved(level),
            )
        )
    return events


@functools.cache
def tight(
    depth: int,
    criterion: LossFamily,
    link: LossFamily,
    objective: bool,
    relation: Relation,
    noise: Mechanism = mechanisms.discrete_laplace,
) -> WeakLearner:
    """The tight calibration: a release of 2**D - 1 splits, 2**(D+1) class weights and, if asked for, D errors.

    Guarantee, under `relation`: each level of splits is `split_epsilon`-DP times `sensitivity.split_moves`, by
    one-signed scores and disjoint nodes; each error and all class weights together cost sensitivity / scale.
    Proofs are in `sensitivity`. With alpha from released errors (or public), nothing else is read.

    Args:
        depth: D, at least 1.
        criterion: the family whose perspective scores splits.
        link: the family of the link and of the leverage.
        objective: take alpha from noisy errors instead of `budget.alpha`.
        relation: the neighbouring relation the ledger speaks of; `recipes` sets the noise from the same.
        noise: of errors and class weights: `mechanisms.discrete_laplace`, or
            `mechanisms.rounded_gaussian` for zCDP.
    """

    def program(draw, table, weights, budget):
        rule = noisy_objective(noise) if objective else given_alpha
        leaves = _grow(draw, table, weights, budget, criterion, rule, sensitivity.tight_split)
        draw("leaf", noise, leaves, budget.leaf_scale)

    def hypothesis(release, budget, unit):
        to_rows = unit / GRID
        noisy = release["leaf"].astype(jnp.float32) * to_rows
        prior = jnp.maximum(budget.smoothing * budget.leaf_scale * to_rows, _TINY_PRIOR)
        value = _link_values(link, budget, trees.shrink_to_parents(jnp.maximum(noisy, 0), prior))
        edge = jnp.sum((noisy[:, 1] - noisy[:, 0]) * value) / budget.rows
        beta = budget.step * jnp.clip(edge, -unit * budget.clip, unit * budget.clip)
        return Tree(_gather_splits(release), beta * value)

    def events(budget):
        moves = sensitivity.split_moves(relation)
        price = SplitPrice(
            bound=sensitivity.tight_split,
            factor=1,
            times=lambda level: 1,
            moves=moves,
            moved=lambda level: moves,
            words=("all nodes at once", "docs/privacy.md 1-3"),
        )
        lines = _split_events(budget, objective, criterion, price)
        if objective and depth > 1:
            bound, scale = GRID * sensitivity.error_weight(relation), float(budget.error_scale)
            lines += [
                accounting.noise(
                    f"error_{k}",
                    noise.name,
                    f"errors at depth {k}",
                    l1=bound,
                    l2=bound,
                    scale=scale,
                    theorem="docs/privacy.md 4",
                )
                for k in range(depth)
            ]
        leaves = accounting.noise(
            "leaf",
            noise.name,
            "class weights, all leaves",
            l1=GRID * sensitivity.class_weights(relation),
            l2=GRID * sensitivity.class_weights_l2(relation),
            scale=float(budget.leaf_scale),
            theorem="docs/privacy.md 3, 5",
            moved=sensitivity.class_weights(relation),
        )
        return [*lines, leaves]

    parts = (family_name(criterion), family_name(link), relation_name(relation), noise.name)
    tag = f"greedy_tree.tight({depth}, {objective}, {', '.join(parts)})"
    return boundary.weak_learner(program, hypothesis, events, trees.TREES, relation, tag=tag)


@functools.cache
def published(
    depth: int,
    criterion: LossFamily,
    link: LossFamily,
    objective: bool,
) -> WeakLearner:
    """The paper's calibration: a release of 2**D - 1 splits and 2**D leveraged leaf values.

    Guarantee claimed by the paper, for neighbours that differ by one example (so under both relations):
    node budgets add up over all nodes; leaf budgets add up over all leaves. The paper says how nodes share their
    budget and is silent on leaves; as every row moves beta_t, and with it the value of every leaf, the leaves'
    budgets must add up to the tree's. They are equal here, as the paper has it for forests (section 17.2).

    The leverage is folded into the leaf before the noise, so the value is in [-a M**2, a M**2] and the Laplace scale
    is 2 a M**2 / epsilon of a leaf; afterwards it is clamped to that range again. The link is clamped to [-M, M]
    before the noise, which the paper's description leaves to afterwards; without it the scale would be too small for
    the claim. Values are put on a public grid of steps `leaf_step`, to which the noise is drawn
    exactly; that enlarges the sensitivity of a value by one step.

    Args: as `tight`, without the relation.
    """

    def exponent(loss, rows):
        return 2 * sensitivity.published_split(loss, rows)

    def program(draw, table, weights, budget):
        rule = private_objective if objective else given_alpha
        totals = _grow(draw, table, weights, budget, criterion, rule, exponent)
        counts = totals.astype(jnp.float32) * (weights.unit / GRID)
        value = _link_values(link, budget, trees.shrink_to_parents(counts, jnp.float32(_TINY_PRIOR)))
        rows = jnp.maximum(jnp.sum(table.present.astype(jnp.float32)), 1)
        beta = budget.step * jnp.sum((counts[:, 1] - counts[:, 0]) * value) / rows
        bound = budget.step * budget.clip**2
        steps = jnp.round(jnp.clip(beta * value, -bound, bound) / budget.leaf_step)
        scale = jnp.asarray(budget.leaf_scale / budget.leaf_step)
        draw("leaf", mechanisms.discrete_laplace, steps.astype(jnp.int32), scale)

    def hypothesis(release, budget, unit):
        del unit
        bound = budget.step * budget.clip**2
        value = release["leaf"].astype(jnp.float32) * budget.leaf_step
        return Tree(_gather_splits(release), jnp.clip(value, -bound, bound))

    def events(budget):
        price = SplitPrice(
            bound=sensitivity.published_split,
            factor=2,
            times=lambda level: 2**level,
            moves=1,
            moved=lambda level: 2**level,
            words=("node by node", "Thm 3, eq. (15), (17)"),
        )
        lines = _split_events(budget, objective, criterion, price)
        bound = float(np.floor(2 * float(budget.step * budget.clip**2) / float(budget.leaf_step)) + 1)
        leaves = accounting.noise(
            "leaf",
            "discrete laplace",
            "leveraged values in steps, leaf by leaf",
            l1=bound,
            l2=bound,
            scale=float(budget.leaf_scale) / float(budget.leaf_step),
            theorem="section 6, leaves",
            count=2**depth,
            moved=2**depth,
        )
        return [*lines, leaves]

    leaks = (ALPHA_LEAK,) if objective else ()
    tag = f"greedy_tree.published({depth}, {objective}, {family_name(criterion)}, {family_name(link)})"
    return boundary.weak_learner(program, hypothesis, events, trees.TREES, None, unprotected=leaks, tag=tag)
