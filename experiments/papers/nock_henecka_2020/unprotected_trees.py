"""Trees whose beta_t is read off the private rows: a weak learner for experiments alone.

Section 6 offers to put noise on the leaves alone, "from which follows the protection of beta_t".
beta_t is then computed from the private rows, on the noisy tree. It is a function of the rows
without any noise, so its line in the ledger is infinite and its name is UNPROTECTED. `options` says
which readings of the paper's text have such trees.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp

from dpbt import losses, types
from dpbt.learners.trees.growth import (
    GreedyTreeConfig,
    GreedyTreeParams,
    draw_splits_and_sum_leaf_class_weights,
    splits_in_heap_order,
)
from dpbt.learners.trees.leaf_values import (
    TINY_PRIOR,
    TreeSettings,
    leverage_of_clamped_edge,
    positive_leaf_shares_shrunk_to_parents,
)
from dpbt.learners.trees.published import (
    ALPHA_LEAK,
    PUBLISHED_SPLIT_PRICING,
    alpha_from_exact_errors,
)
from dpbt.learners.trees.rows import TREES, TreeRows
from dpbt.privacy import boundary, mechanisms
from dpbt.types import GRID, AnyArray, Array, Public, Release, Tree, WeakLearner

BETA_LEAK = "beta_t is computed from the private rows on the noisy tree, without noise"


class TreeParams(NamedTuple):
    """The traced numbers of a tree: those of `trees.growth.GreedyTreeParams`, and more.

    Attributes:
        noise: f32[], the noise multiplier of the splits of each depth; 0 for the best split.
        settings: alpha, clip (M, of noisy leaf values), and the others of greedy trees.
        max_value: f32[], leaf values are clamped to [-max_value, max_value] before the noise.
        is_step_observed: f32[], 1 where the step's M is the largest link before the noise, else 0.
        leaf_scale: f32[], the noise scale of a leaf's value, or of its share of class 1.
        leaf_step: f32[], the grid that these values or shares lie on.
        beta_step: f32[], the grid that beta_t lies on.
    """

    noise: Mapping[str, AnyArray]
    settings: TreeSettings
    max_value: AnyArray
    is_step_observed: AnyArray
    leaf_scale: AnyArray
    leaf_step: AnyArray
    beta_step: AnyArray


class TreeConfig(NamedTuple):
    """The static choices of a tree.

    Attributes:
        greedy: those that it shares with other greedy trees.
        is_noise_on_shares: whether a leaf's share of class 1 has the noise, and not its link.
        is_beta_exact: whether beta_t is that of the tree before the noise.
    """

    greedy: GreedyTreeConfig
    is_noise_on_shares: bool
    is_beta_exact: bool

    @property
    def identity(self) -> str:
        """Every static part as text, which enters keys."""
        text = f"{self.greedy.depth}, {self.greedy.calibrates_alpha}"
        text += ", noise on shares" if self.is_noise_on_shares else ""
        return text + (", exact beta" if self.is_beta_exact else "")


def program(
    config: TreeConfig,
    draw: boundary.Draw,
    table: TreeRows,
    weights: Array,
    params: TreeParams,
    public: Public,
) -> None:
    """Draw splits, then noisy leaves, then beta_t without noise."""
    alpha_of = alpha_from_exact_errors() if config.greedy.calibrates_alpha else None
    settings = params.settings
    view = types.View(table, weights, GreedyTreeParams(params.noise, settings), public)
    totals = draw_splits_and_sum_leaf_class_weights(
        config.greedy, draw, view, alpha_of_level=alpha_of, pricing=PUBLISHED_SPLIT_PRICING
    )

    # The link of each leaf's share, clamped before the noise. The sensitivity of a leaf is the true
    # one. Where values are clamped after the noise only, it is larger than the 2 M of the noise.
    counts = totals.astype(jnp.float32) * (public.cap / GRID)
    share = positive_leaf_shares_shrunk_to_parents(counts, jnp.float32(TINY_PRIOR))
    inside = jnp.clip(share, settings.zeta, 1 - settings.zeta)
    link = config.greedy.link(settings.link_alpha).link(inside)
    value = jnp.clip(link, -params.max_value, params.max_value)
    if config.is_noise_on_shares:
        drawn_from, width, unit = share, jnp.float32(1), "step of the shares' grid"
    else:
        drawn_from, width, unit = value, 2 * params.max_value, "step of the leaves' grid"
    noisy = draw(
        "leaf",
        mechanisms.discrete_laplace,
        jnp.round(drawn_from / params.leaf_step).astype(jnp.int32),
        sensitivity=jnp.floor(width / params.leaf_step) + 1,
        moved_outputs=2**config.greedy.depth,
        theorem="Nock & Henecka (2020), section 6, leaves",
        scale=jnp.asarray(params.leaf_scale / params.leaf_step),
        num_payments=2**config.greedy.depth,
        releases="leaf values, each leaf paid for",
        unit=unit,
    )

    # Step 2.2 of Algorithm 1: exact class weights, no noise.
    rows = jnp.maximum(jnp.sum(table.present.astype(jnp.float32)), 1)
    tree = value if config.is_beta_exact else leaf_values(config, noisy, params)
    edge = jnp.sum((counts[:, 1] - counts[:, 0]) * tree) / rows
    step_values = jnp.where(params.is_step_observed > 0, link, tree)
    beta = (
        leverage_of_clamped_edge(settings, step_values, edge, jnp.float32(jnp.inf))
        / params.beta_step
    )
    beta = jnp.round(beta).astype(jnp.int32)
    draw(
        "beta",
        mechanisms.discrete_laplace,
        beta,
        sensitivity=1.0,
        moved_outputs=1,
        theorem="none: docs/errata.md",
        scale=0.0,
        releases="beta_t without noise",
        unit="step of the grid of beta_t",
    )


def leaf_values(config: TreeConfig, noisy: Array, params: TreeParams) -> Array:
    """f32[L]: the values of noisy leaves, clamped to [-M, M]; `noisy` is i32[L], in grid steps."""
    settings = params.settings
    values = noisy.astype(jnp.float32) * params.leaf_step
    if config.is_noise_on_shares:
        share = jnp.clip(values, settings.zeta, 1 - settings.zeta)
        values = config.greedy.link(settings.link_alpha).link(share)
    return jnp.clip(values, -settings.clip, settings.clip)


def hypothesis(config: TreeConfig, release: Release, params: TreeParams, public: Public) -> Tree:
    """The tree: noisy leaf values times beta_t."""
    del public
    beta = release["beta"].astype(jnp.float32) * params.beta_step
    values = leaf_values(config, release["leaf"], params)
    return Tree(splits_in_heap_order(release, config.greedy.depth), beta * values)


@functools.cache
def learner(
    *, depth: int, objective: bool, is_noise_on_shares: bool = False, is_beta_exact: bool = False
) -> WeakLearner:
    """Trees whose beta_t is read off the rows: no guarantee at all.

    Args:
        depth: D, at least 1.
        objective: take the criterion's alpha from the private errors, equation (16).
        is_noise_on_shares: put the noise of a leaf on its share of class 1, and not on its link.
        is_beta_exact: take the beta_t of the tree before the noise.
    """
    noise, family = mechanisms.discrete_laplace, losses.m_alpha
    greedy = GreedyTreeConfig(
        depth=depth,
        criterion=family,
        link=family,
        calibrates_alpha=objective,
        relation=types.ADD_REMOVE,
        noise=noise,
    )
    config = TreeConfig(greedy, is_noise_on_shares, is_beta_exact)
    return boundary.weak_learner(
        name="second option",
        config=config,
        program=functools.partial(program, config),
        hypothesis=functools.partial(hypothesis, config),
        kind=TREES,
        fractions={"split": 1.0},
        relation="add_remove",
        unprotected=(BETA_LEAK, *((ALPHA_LEAK,) if objective else ())),
    )
