"""The settings of a tree, and the values of its leaves: shares, links and leverage."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from dpbt.learners.complete_trees import depth_of_complete_tree
from dpbt.privacy.mechanism_types import Numbers
from dpbt.types import AnyArray, Array, LossFamily


def positive_leaf_shares_shrunk_to_parents(
    leaf_class_weights: Shaped[Array, "L 2"], prior_weight: Array
) -> Shaped[Array, "L"]:
    """f32 or f64[L]: each leaf's share of the positive class, shrunk towards its ancestors' shares.

    q(node) = (c1 + prior q(parent)) / (c1 + c0 + prior), with q(root's parent) = 1/2. With a tiny
    prior an empty node takes its parent's share, and any other node its own.

    Args:
        leaf_class_weights: f32 or f64[L, 2], non-negative; the classes are negative and positive.
        prior_weight: of the same type, above 0: the weight of the parent's share.
    """
    # The class weights of all nodes, from the leaves up.
    sums = [leaf_class_weights]
    for _ in range(depth_of_complete_tree(leaf_class_weights.shape[0])):
        sums.append(sums[-1].reshape(-1, 2, 2).sum(axis=1))

    # Their shares, from the root down.
    share = jnp.full(1, 0.5, leaf_class_weights.dtype)
    for count in reversed(sums):
        parent_share = share if count.shape[0] == 1 else jnp.repeat(share, 2)
        share = (count[:, 1] + prior_weight * parent_share) / (count.sum(axis=1) + prior_weight)
    return share


TINY_PRIOR = 1e-6
"""A parent's weight in the share of its leaf, where it should only fill in for empty leaves."""


class TreeSettings(NamedTuple):
    """The numbers of a tree besides its noise; each may have axes of settings.

    Attributes:
        alpha: f32[] for each of D depths, the criterion's alpha, where it is given.
        link_alpha: f32[], alpha of the link and of the leverage.
        clip: f32[], M: leaf values before leverage are clamped to [-M, M].
        zeta: f32[], shares of a class are clamped to [zeta, 1 - zeta] before the link.
        step: f32[], a of Algorithm 1 for M = clip.
        step_clip: f32[], at most clip: the least M of the step; see `leverage_of_clamped_edge`.
        smoothing: f32[], a parent's weight in the share of its leaf, in units of the leaf's noise.
    """

    alpha: tuple[Numbers, ...]
    link_alpha: Numbers
    clip: Numbers
    zeta: Numbers
    step: Numbers
    step_clip: Numbers
    smoothing: Numbers


def default_tree_settings_with_alpha_one(link: LossFamily, depth: int) -> TreeSettings:
    """The settings of trees that `bdpe` has by default, but with an alpha of 1 at every level."""
    clip, smoothness = 10.0, float(link(np.float32(1)).smoothness)
    return TreeSettings(
        alpha=(1.0,) * depth,
        link_alpha=1.0,
        clip=clip,
        zeta=1e-4,
        step=1 / (4 * smoothness * clip**2),
        step_clip=clip,
        smoothing=1.0,
    )


def clamped_link_of_shares(
    link_family: LossFamily, settings: TreeSettings, share: Array
) -> Shaped[Array, "L"]:
    """f32 or f64[L]: the leaf values that shares give: the canonical link, clamped to [-M, M].

    Shares are clamped before the link, too.
    """
    value = link_family(settings.link_alpha).link(jnp.clip(share, settings.zeta, 1 - settings.zeta))
    return jnp.clip(value, -settings.clip, settings.clip)


def leverage_of_clamped_edge(
    settings: TreeSettings,
    leaf_values: Shaped[Array, "L"],
    edge: Shaped[Array, ""],
    max_weight: Shaped[AnyArray, ""],
) -> Shaped[Array, ""]:
    """f32 or f64[]: the leverage beta_t of a tree in Algorithm 1, from its clamped edge.

    It is the step a for M times the clamped edge.

    M is max |value|, or `step_clip` where that is larger. A leveraged leaf beta_t h is at most
    a M^2 for weights of at most 1. That is the same number for every M: `step * clip^2`.

    Args:
        settings: of the tree.
        leaf_values: f32 or f64[L], the values h of its leaves, clamped to [-clip, clip].
        edge: f32 or f64[], the mean of w y h; clamped to its range.
        max_weight: f32 or f64[], the largest weight.
    """
    bound = jnp.maximum(jnp.max(jnp.abs(leaf_values)), settings.step_clip)
    step = settings.step * (settings.clip / bound) ** 2
    return step * jnp.clip(edge, -max_weight * bound, max_weight * bound)
