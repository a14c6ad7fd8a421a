"""Section 6's second way to protect beta_t, which protects nothing: a learner for experiments.

Section 6 offers to put noise on the leaves alone, "from which follows the protection of beta_t".
beta_t is then computed from the private rows, on the noisy tree. It is a function of the rows
without any noise, so its line in the ledger is infinite and its name is UNPROTECTED.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses, types
from dpbt.learners import trees
from dpbt.learners.trees import (
    TINY_PRIOR,
    GreedyTreeConfig,
    GreedyTreeParams,
    TreeSettings,
    default_tree_settings,
    draw_tree_splits,
    splits_in_heap_order,
)
from dpbt.privacy import boundary, mechanisms
from dpbt.privacy.mechanism import Allowance, divide_rounding_up
from dpbt.recipes import custom
from dpbt.recipes.published import ALPHA_LEAK, PRICE, private_objective
from dpbt.types import GRID, AnyArray, Array, Public, Recipe, Release, Tree, WeakLearner
from dpbt.weighting import MirrorNumbers, mirror

BETA_LEAK = "beta_t is computed from the private rows on the noisy tree, without noise"

FINEST = 2.0**-24
"""The grid of beta_t, over its largest value."""

MOST_STEPS = 2.0**31
"""The largest scale of a leaf's noise, in steps of its grid."""


class Budget(NamedTuple):
    """The traced numbers of a tree; those of `trees.GreedyTreeParams`, and more.

    Attributes:
        noise: f32[], the noise multiplier of the splits of each depth; 0 for the best split.
        settings: alpha, clip (M, of noisy leaf values), and the others of greedy trees.
        inner: f32[], leaf values are clamped to [-inner, inner] before the noise.
        observed: f32[], 1 where the step's M is the largest link before the noise, else 0.
        leaf_scale: f32[], noise scale of a leaf's value.
        leaf_step: f32[], the grid that leaf values lie on.
        beta_step: f32[], the grid that beta_t lies on.
    """

    noise: Mapping[str, AnyArray]
    settings: TreeSettings
    inner: AnyArray
    observed: AnyArray
    leaf_scale: AnyArray
    leaf_step: AnyArray
    beta_step: AnyArray


def program(
    config: GreedyTreeConfig,
    draw: boundary.Draw,
    table: trees.TreeRows,
    weights: Array,
    budget: Budget,
    public: Public,
) -> None:
    """Draw splits, then noisy leaf values, then beta_t of the noisy tree without noise."""
    alpha_of = private_objective() if config.objective else None
    settings = budget.settings
    view = types.View(table, weights, GreedyTreeParams(budget.noise, settings), public)
    totals = draw_tree_splits(config, draw, view, alpha_of, PRICE)

    # The link of each leaf's share, clamped before the noise. The sensitivity of a leaf is the true
    # one. Where values are clamped after the noise only, it is larger than the 2 M of the noise.
    counts = totals.astype(jnp.float32) * (public.cap / GRID)
    share = trees.leaf_shares_shrunk_to_parents(counts, jnp.float32(TINY_PRIOR))
    inside = jnp.clip(share, settings.zeta, 1 - settings.zeta)
    link = config.link(settings.link_alpha).link(inside)
    value = jnp.clip(link, -budget.inner, budget.inner)
    noisy = draw(
        "leaf",
        mechanisms.discrete_laplace,
        jnp.round(value / budget.leaf_step).astype(jnp.int32),
        sensitivity=jnp.floor(2 * budget.inner / budget.leaf_step) + 1,
        moves=2**config.depth,
        theorem="Nock & Henecka (2020), section 6, leaves",
        scale=jnp.asarray(budget.leaf_scale / budget.leaf_step),
        count=2**config.depth,
        releases="leaf values, each leaf paid for",
        unit="step of the leaves' grid",
    )

    # Step 2.2 of Algorithm 1 on the noisy tree: exact class weights, no noise.
    rows = jnp.maximum(jnp.sum(table.present.astype(jnp.float32)), 1)
    tree = leaf_values(noisy, budget)
    edge = jnp.sum((counts[:, 1] - counts[:, 0]) * tree) / rows
    of_step = jnp.where(budget.observed > 0, link, tree)
    beta = trees.leverage(settings, of_step, edge, jnp.float32(jnp.inf)) / budget.beta_step
    beta = jnp.round(beta).astype(jnp.int32)
    draw(
        "beta",
        mechanisms.discrete_laplace,
        beta,
        sensitivity=1.0,
        moves=1,
        theorem="none: docs/errata.md",
        scale=0.0,
        releases="beta_t without noise",
        unit="step of the grid of beta_t",
    )


def leaf_values(noisy: Array, budget: Budget) -> Array:
    """f32[L]: noisy leaf values, clamped to [-M, M]."""
    clip = budget.settings.clip
    return jnp.clip(noisy.astype(jnp.float32) * budget.leaf_step, -clip, clip)


def hypothesis(depth: int, release: Release, budget: Budget, public: Public) -> Tree:
    """The tree: noisy leaf values times beta_t."""
    del public
    beta = release["beta"].astype(jnp.float32) * budget.beta_step
    return Tree(splits_in_heap_order(release, depth), beta * leaf_values(release["leaf"], budget))


@functools.cache
def learner(depth: int, objective: bool) -> WeakLearner:
    """Trees whose beta_t is read off the rows: no guarantee at all.

    Args:
        depth: D, at least 1.
        objective: take the criterion's alpha from the private errors, equation (16).
    """
    noise, family = mechanisms.discrete_laplace, losses.m_alpha
    return boundary.weak_learner(
        functools.partial(
            program,
            GreedyTreeConfig(
                depth=depth,
                criterion=family,
                link=family,
                objective=objective,
                relation=types.ADD_REMOVE,
                noise=noise,
            ),
        ),
        functools.partial(hypothesis, depth),
        {"split": 1.0},
        trees.TREES,
        "add_remove",
        unprotected=(BETA_LEAK, *((ALPHA_LEAK,) if objective else ())),
        tag=f"second option({depth}, {objective})",
    )


class Noise(NamedTuple):
    """Where a reading has noise; numbers, or arrays of settings.

    Attributes:
        splits: whether splits have noise.
        leaves: whether leaves have noise.
        each_leaf: whether the 2^D leaves of a tree share its budget, instead of having it each.
        before: whether leaf values are clamped to [-M, M] before the noise, too.
        unclamped: whether leaf values are clamped to the link at 1 - zeta only, and not to M.
    """

    splits: ArrayLike
    leaves: ArrayLike
    each_leaf: ArrayLike
    before: ArrayLike
    unclamped: ArrayLike = False


def recipe(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    rounds: ArrayLike,
    depth: int,
    alpha: ArrayLike | str,
    beta_tree: ArrayLike,
    noise: Noise,
    clip: ArrayLike = 10.0,
    step_clip: ArrayLike = np.inf,
    observed: ArrayLike = False,
) -> Recipe:
    """Boosting with trees whose beta_t is read off the rows.

    Guarantee: none. The ledger's epsilon is infinite.

    The weights are at most 1, as published. With objective calibration, link, weights and a have
    alpha = 1, as in `recipes.bdpe`.

    Args:
        epsilon: what the paper claims.
        rows: m.
        rounds: T.
        depth: D.
        alpha: "objective" for equation (16), or a number.
        beta_tree: the share of epsilon for splits.
        noise: where there is noise.
        clip: M.
        step_clip: the least M of the step, as in `recipes.bdpe`. beta_t lies on a grid that is too
            small for less than a hundredth of the clip, or a tenth where M is observed.
        observed: the step's M is the largest link before the noise, in place of the largest noisy
            value.
    """
    objective = isinstance(alpha, str)
    given = np.asarray(1.0 if objective else alpha, np.float64)
    epsilon, share = np.asarray(epsilon, np.float64), np.asarray(beta_tree, np.float64)
    rounds = np.asarray(rounds)
    usual = default_tree_settings(losses.m_alpha, depth)
    clip = np.asarray(clip, np.float64)

    # The shares of equation (17), and of one leaf.
    of_level = share * epsilon / rounds / depth
    selection = mechanisms.exponential
    noisy_splits = {
        f"split_{level}": selection.noise_multiplier(
            Allowance(np.where(noise.splits, of_level / 2.0**level, np.inf), np.zeros(()))
        )
        for level in range(depth)
    }
    of_leaf = (1 - share) * epsilon / rounds / np.where(noise.each_leaf, 2.0**depth, 1.0)
    leaf_scale = np.where(noise.leaves, 2 * clip / of_leaf, 0.0)

    # Leaf values lie on a grid that is far finer than M; noise beyond int32 is clamped anyway.
    widest = np.abs(np.asarray(losses.m_alpha(given).link(1 - usual.zeta), np.float64))
    inner = np.where(noise.before, np.minimum(clip, widest), widest)
    room = np.where(noise.unclamped, np.maximum(clip, widest), clip)
    inner = np.where(noise.unclamped, widest, inner)
    leaf_step = 2.0 ** np.ceil(np.log2(np.maximum(inner * 2.0**-16, leaf_scale / MOST_STEPS)))
    smoothness = np.asarray(losses.m_alpha(given).smoothness, np.float64)
    step = 1 / (4 * smoothness * clip**2)

    budget = Budget(
        noise=noisy_splits,
        settings=usual._replace(
            alpha=(given,) * depth,
            link_alpha=given,
            clip=room,
            step=step,
            step_clip=np.minimum(step_clip, room),
        ),
        inner=inner,
        observed=np.asarray(observed, np.float64),
        leaf_scale=divide_rounding_up(leaf_scale, 1.0),
        leaf_step=leaf_step,
        beta_step=2.0 ** np.ceil(np.log2(step * clip * FINEST)),
    )
    return custom(
        learner(depth, objective),
        rows=rows,
        rounds=rounds,
        params=budget,
        weight_update=mirror(losses.m_alpha, bounded=False),
        weighting=MirrorNumbers(given),
        loss=losses.m_alpha,
        name="bdpe, beta_t unprotected",
    )
