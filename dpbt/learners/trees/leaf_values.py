"""The settings of a tree, and the values of its leaves: shares, links and leverage."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from dpbt.learners.complete_trees import tree_depth
from dpbt.privacy.mechanism_types import Numbers
from dpbt.types import AnyArray, Array, LossFamily


def leaf_shares_shrunk_to_parents(counts: Shaped[Array, "L 2"], prior: Array) -> Shaped[Array, "L"]:
    """f32 or f64[L]: the share of class 1 in each leaf, shrunk towards the shares of its ancestors.

    q(node) = (c1 + prior q(parent)) / (c1 + c0 + prior), with q(root's parent) = 1/2. With a tiny
    prior an empty node takes its parent's share, and any other node its own.

    Args:
        counts: f32 or f64[L, 2], non-negative class weights (negative, positive) of the leaves.
        prior: of the same type, above 0: the weight of the parent's share.
    """
    # The class weights of all nodes, from the leaves up.
    sums = [counts]
    for _ in range(tree_depth(counts.shape[0])):
        sums.append(sums[-1].reshape(-1, 2, 2).sum(axis=1))

    # Their shares, from the root down.
    share = jnp.full(1, 0.5, counts.dtype)
    for count in reversed(sums):
        parent_share = share if count.shape[0] == 1 else jnp.repeat(share, 2)
        share = (count[:, 1] + prior * parent_share) / (count.sum(axis=1) + prior)
    return share


TINY_PRIOR = 1e-6
"""A parent's weight in the share of its leaf, where it should only fill in for empty leaves."""


class TreeSettings(NamedTuple):
    """The numbers of a tree that are no noise; each may have axes of settings.

    Attributes:
        alpha: f32[] for each of D depths, the criterion's alpha, where it is given.
        link_alpha: f32[], alpha of the link and of the leverage.
        clip: f32[], M: leaf values before leverage are clamped to [-M, M].
        zeta: f32[], shares of a class are clamped to [zeta, 1 - zeta] before the link.
        step: f32[], a of Algorithm 1 for M = clip.
        step_clip: f32[], at most clip: the least M of the step; see `tree_leverage`.
        smoothing: f32[], a parent's weight in the share of its leaf, in units of the leaf's noise.
    """

    alpha: tuple[Numbers, ...]
    link_alpha: Numbers
    clip: Numbers
    zeta: Numbers
    step: Numbers
    step_clip: Numbers
    smoothing: Numbers


def default_tree_settings(link: LossFamily, depth: int) -> TreeSettings:
    """The settings of `recipes.bdpe` for alpha = 1."""
    clip, smoothness = 10.0, float(link(np.float32(1)).smoothness)
    return TreeSettings((1.0,) * depth, 1.0, clip, 1e-4, 1 / (4 * smoothness * clip**2), clip, 1.0)


def link_values(family: LossFamily, settings: TreeSettings, share: Array) -> Shaped[Array, "L"]:
    """f32 or f64[L], as the shares: the canonical link of each, with both clamped."""
    value = family(settings.link_alpha).link(jnp.clip(share, settings.zeta, 1 - settings.zeta))
    return jnp.clip(value, -settings.clip, settings.clip)


def tree_leverage(
    settings: TreeSettings,
    value: Shaped[Array, "L"],
    edge: Shaped[Array, ""],
    cap: Shaped[AnyArray, ""],
) -> Shaped[Array, ""]:
    """f32 or f64[]: beta_t of Algorithm 1, the edge of a tree times a of its M.

    M is max |value|, or `step_clip` where that is larger. A leveraged leaf beta_t h is at most
    a M^2 for weights of at most 1. That is the same number for every M: `step * clip^2`.

    Args:
        settings: of the tree.
        value: f32 or f64[L], the values h of its leaves, clamped to [-clip, clip].
        edge: f32 or f64[], the mean of w y h; clamped to its range.
        cap: f32 or f64[], the largest weight.
    """
    bound = jnp.maximum(jnp.max(jnp.abs(value)), settings.step_clip)
    step = settings.step * (settings.clip / bound) ** 2
    return step * jnp.clip(edge, -cap * bound, cap * bound)
