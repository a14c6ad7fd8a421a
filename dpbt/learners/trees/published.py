"""Greedy trees as published: Nock & Henecka (2020), section 6.

This calibration costs more for the same budget, and leaves unprotected what the ledger names. New
code has no use for it: it is for comparison with the paper, and a recipe takes it with
`calibration="published"` alone. Splits have the exponent eps / (2 max{3, 1 + f(1, m)}) with the
node budgets of equation (17). The alpha of equation (16) is read off the data. Leveraged links have
discrete Laplace noise.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt.common.arithmetic import round_separately
from dpbt.learners.trees.class_weights import total_majority_error_weight
from dpbt.learners.trees.growth import (
    AlphaOfLevel,
    GreedyTreeConfig,
    GreedyTreeParams,
    SplitPricing,
    draw_splits_and_sum_leaf_class_weights,
    splits_in_heap_order,
    tree_budget_fraction_by_group,
)
from dpbt.learners.trees.leaf_values import (
    TINY_PRIOR,
    TreeSettings,
    clamped_link_of_shares,
    default_tree_settings_with_alpha_one,
    leverage_of_clamped_edge,
    positive_leaf_shares_shrunk_to_parents,
)
from dpbt.learners.trees.rows import TREES, TreeRows, work_bytes_of_level_sums
from dpbt.losses import check_perspective_of_family
from dpbt.privacy import boundary, sensitivity
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism_types import ROUNDING, Numbers, round_down_to_float32
from dpbt.types import GRID, AnyArray, Array, Public, Release, Tree, View, WeakLearner

ALPHA_LEAK = "alpha of equation (16) is a ratio of error counts, read off the private rows"

PUBLISHED_SPLIT_PRICING = SplitPricing(
    bound=sensitivity.published_split_sensitivity,
    moves=2,
    each_node=True,
    theorem="Nock & Henecka (2020), Thm 3, eq. (15), (17)",
)
"""Each node is paid for. Its scores move by at most the bound either way, a range of twice that."""


class PublishedTreeParams(NamedTuple):
    """The traced numbers of a tree: those of the tight one, and the public grid of leaf values."""

    noise: Mapping[str, AnyArray]
    settings: TreeSettings
    leaf_step: Numbers


def alpha_from_exact_errors() -> AlphaOfLevel:
    """A function that derives a level's alpha from its exact errors, without privacy.

    It is equation (16).

    This is objective calibration as published: alpha_k = errors_k / errors_0.

    Alpha changes with the level, where the paper changes it leaf by leaf. Without an error at the
    root, alpha is 1 at the root and 0 below.
    """
    exact_errors: list[Array] = []

    def alpha(level: int, totals: Array) -> Array:
        exact_errors.append(jnp.asarray(total_majority_error_weight(totals), jnp.float32))
        if level == 0:
            return jnp.float32(1)
        return exact_errors[-1] / jnp.maximum(exact_errors[0], 1)

    return alpha


def greedy_tree_params(
    settings: TreeSettings, noise: Mapping[str, AnyArray], public: Public
) -> PublishedTreeParams:
    """Choose the public grid of leaf values by their noise, and add it to the other parameters.

    The grid is a power of two. A step is at most 2^-12 of the range 2 a M^2 or of the noise's
    scale, whichever is smaller. But it is coarse enough that the noise has a scale of at most 2^31
    steps, and no value lies beyond 2^29 steps.
    """
    step, clip = round_down_to_float32(settings.step), round_down_to_float32(settings.clip)
    multiplier = np.asarray(noise["leaf"], np.float64)
    epsilon = np.where(multiplier > 0, ROUNDING / np.where(multiplier > 0, multiplier, 1), 2.0**12)
    range_of_values = 2 * (np.float32(step) * np.float32(clip) ** 2).astype(np.float64)
    scale = range_of_values / epsilon
    finest_step = np.minimum(range_of_values, scale) * 2.0**-12
    leaf_step = np.maximum(np.maximum(finest_step, scale * 2.0**-31), range_of_values * 2.0**-29)
    step_clip = np.minimum(round_down_to_float32(settings.step_clip), clip)
    numbers = settings._replace(step=step, clip=clip, step_clip=step_clip)
    return PublishedTreeParams(dict(noise), numbers, 2.0 ** np.floor(np.log2(leaf_step)))


def draw_splits_and_leveraged_leaf_values(
    draw: Draw,
    table: TreeRows,
    weights: Array,
    params: PublishedTreeParams,
    public: Public,
    *,
    config: GreedyTreeConfig,
) -> None:
    """Draw noisy splits level by level, and then noisy leaf values times the tree's leverage.

    The leverage, a factor of the whole tree, is applied before the noise. Values are whole steps of
    a public grid.
    """
    settings = params.settings

    # Private splits; the leaves' class weights are exact here.
    alpha_of_level = alpha_from_exact_errors() if config.calibrates_alpha else None
    view = View(table, weights, GreedyTreeParams(params.noise, settings), public)
    totals = draw_splits_and_sum_leaf_class_weights(
        config, draw, view, alpha_of_level=alpha_of_level, pricing=PUBLISHED_SPLIT_PRICING
    )

    # The link of each leaf's share, times the leverage of the tree.
    counts = totals.astype(jnp.float32) * round_separately(public.cap * np.float32(1 / GRID))
    share = positive_leaf_shares_shrunk_to_parents(counts, jnp.float32(TINY_PRIOR))
    value = clamped_link_of_shares(config.link, settings, share)
    rows = jnp.maximum(jnp.sum(table.present.astype(jnp.float32)), 1)
    edge = jnp.sum((counts[:, 1] - counts[:, 0]) * value) / rows
    leverage = leverage_of_clamped_edge(settings, value, edge, public.cap)

    # Noise on values in steps of their grid. Rounding to it moves a value by one step more.
    largest = settings.step * settings.clip**2
    steps = jnp.round(jnp.clip(leverage * value, -largest, largest) / params.leaf_step)
    draw(
        "leaf",
        config.noise,
        steps.astype(jnp.int32),
        sensitivity=jnp.floor(2 * largest / params.leaf_step) + 1,
        moved_outputs=2**config.depth,
        theorem="Nock & Henecka (2020), section 6, leaves",
        num_payments=2**config.depth,
        releases="leveraged leaf values, each leaf paid for",
        unit="step of the leaves' grid",
    )


def tree_of_release_with_clamped_leaves(
    config: GreedyTreeConfig, release: Release, params: PublishedTreeParams, public: Public
) -> Tree:
    """Build the tree of a release, with its noisy leaf values clamped to their range.

    They were in this range before the noise.
    """
    largest = params.settings.step * params.settings.clip**2
    value = release["leaf"].astype(jnp.float32) * params.leaf_step
    return Tree(splits_in_heap_order(release, config.depth), jnp.clip(value, -largest, largest))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedTreeConfig(GreedyTreeConfig):
    """The static configuration of a learner of the paper's greedy trees.

    The paper's claim is for both relations.
    """

    @property
    def relation_name(self) -> str:
        """The text "both", because the claim of the paper holds under both relations."""
        return "both"


@functools.cache
def greedy_tree(config: GreedyTreeConfig) -> WeakLearner:
    """A weak learner of greedy trees with noisy splits and leaves, in the paper's calibration.

    A round releases 2^D - 1 splits and 2^D leveraged leaf values.

    Guarantee claimed by the paper, for neighbours that differ by one example, so under both
    relations, whatever `GreedyTreeConfig.relation` is: node budgets add up over all nodes, and leaf
    budgets add up over all leaves. The paper says how nodes share their budget, but not how leaves
    do. Every row moves beta_t, and with it the value of every leaf. So the leaves' budgets must add
    up to the tree's. They are equal here, as in the paper's forests (section 17.2).

    The leverage is folded into the leaf before the noise, so the value is in [-a M^2, a M^2].
    That is the same range for every M, so M may be that of the tree before the noise.
    The Laplace scale is 2 a M^2 / epsilon of a leaf. After the noise the value is clamped to that
    range again. The link is clamped to [-M, M] before the noise. The paper's description does that
    afterwards, but then the scale would be too small for the claim. Values are put on a public grid
    of steps `leaf_step`, to which the noise is drawn exactly. That enlarges the sensitivity of a
    value by one step.
    """
    check_perspective_of_family(config.criterion)
    usual = default_tree_settings_with_alpha_one(config.link, config.depth)
    return boundary.weak_learner(
        name="published_greedy_tree",
        config=PublishedTreeConfig(**vars(config)),
        program=functools.partial(draw_splits_and_leveraged_leaf_values, config=config),
        hypothesis=functools.partial(tree_of_release_with_clamped_leaves, config),
        kind=TREES,
        fractions=tree_budget_fraction_by_group(0.5, None),
        make_params=functools.partial(greedy_tree_params, usual),
        relation=None,
        work_bytes=functools.partial(work_bytes_of_level_sums, num_nodes=2 ** (config.depth - 1)),
        unprotected=(ALPHA_LEAK,) if config.calibrates_alpha else (),
    )
