"""Level-wise greedy trees with private splits and private leaves (Nock & Henecka, 2020, section 6).

Splits have the exponent eps / f(1, m) for all nodes of a level at once. Alpha follows from noisy
errors, and leaf values from noisy class weights. `trees.published` has the paper's calibration.
"""

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from dpbt import types
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
from dpbt.privacy import accounting, boundary, sensitivity, variates
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism_types import Numbers
from dpbt.types import GRID, AnyArray, Array, Public, Release, Tree, View


def greedy_tree_params(
    settings: TreeSettings, noise: Mapping[str, AnyArray], public: Public
) -> GreedyTreeParams:
    """Combine noise multipliers and settings into the parameters of a greedy tree."""
    return GreedyTreeParams(dict(noise), settings)


def alpha_from_noisy_errors(draw: Draw, config: GreedyTreeConfig) -> AlphaOfLevel:
    """A function that draws the noisy errors of a level and derives the level's alpha from them.

    This is objective calibration. Each level draws one count, of sensitivity 1 row.

    What follows is post-processing. Alpha is the ratio to the root's errors, clamped to [0, 1] and
    at most that of the level above; at the root it is 1. Root errors below one grid unit count as
    one.
    """
    noisy_errors: list[Array] = []

    def alpha(level: int, totals: Array) -> Array:
        if config.depth == 1:
            return jnp.float32(1)
        released = draw(
            f"error_{level}",
            config.noise,
            boundary.RowSum(totals, total_majority_error_weight),
            sensitivity=sensitivity.ERROR_WEIGHT.times(GRID),
            moved_outputs=1,
            theorem="dpbt theorem 4",
            releases=f"errors at depth {level}",
            unit=accounting.ROW_STEP,
        )
        noisy_errors.append(released.astype(jnp.float32))  # i32, or f32 of a large table
        ratio = jnp.stack(noisy_errors) / jnp.maximum(noisy_errors[0], 1)
        return jnp.min(jnp.clip(ratio, 0, 1).at[0].set(1))

    return alpha


def tight_pricing_of_split_draws(relation: types.Relation) -> SplitPricing:
    """The pricing of split draws in the tight calibration: one payment for all nodes of a level.

    The scores of a level move one way, on disjoint rows.
    """
    moves = sensitivity.num_split_score_changes(relation)
    return SplitPricing(
        bound=sensitivity.tight_split_sensitivity,
        moves=moves,
        each_node=False,
        theorem="dpbt theorem 1-3",
    )


def _leaf_class_weights_sensitivity(config: GreedyTreeConfig) -> Numbers:
    """The sensitivity of the class weights of all leaves together, in grid units."""
    return config.noise.sensitivity_in_norm(
        sensitivity.class_weights_sensitivity(config.relation).times(GRID)
    )


def draw_splits_and_leaf_class_weights(
    draw: Draw,
    table: TreeRows,
    weights: Array,
    params: GreedyTreeParams,
    public: Public,
    *,
    config: GreedyTreeConfig,
) -> None:
    """Draw noisy splits level by level, and the noisy class weights of the leaves."""
    alpha_of_level = alpha_from_noisy_errors(draw, config) if config.calibrates_alpha else None
    view = View(table, weights, params, public)
    leaf_class_weights = draw_splits_and_sum_leaf_class_weights(
        config,
        draw,
        view,
        alpha_of_level=alpha_of_level,
        pricing=tight_pricing_of_split_draws(config.relation),
    )
    draw(
        "leaf",
        config.noise,
        boundary.RowSum(leaf_class_weights),
        sensitivity=_leaf_class_weights_sensitivity(config),
        moved_outputs=sensitivity.num_changed_rows(config.relation),
        theorem="dpbt theorem 3, 5",
        releases="class weights, all leaves",
        unit=accounting.ROW_STEP,
    )


def tree_of_release(
    config: GreedyTreeConfig, release: Release, params: GreedyTreeParams, public: Public
) -> Tree:
    """Build the tree of a release, with leaf values from noisy class shares and a noisy leverage.

    A leaf value is the link of its noisy class share times the tree's noisy leverage.

    It is rounded once, from double precision. So a leaf depends on the program around it only if it
    is within some units of the last place of a double from where float32 rounds up.
    """
    with variates.double_precision():
        numbers = jax.tree.map(variates.to_float64, params.settings)
        leaf_scale = variates.to_float64(params.noise["leaf"]) * _leaf_class_weights_sensitivity(
            config
        )

        # The canonical link of each leaf's noisy share of the positive class.
        to_rows = variates.to_float64(public.cap) / GRID
        noisy = variates.to_float64(release["leaf"]) * to_rows
        prior = jnp.maximum(numbers.smoothing * leaf_scale * to_rows, TINY_PRIOR)
        share = positive_leaf_shares_shrunk_to_parents(jnp.maximum(noisy, 0), prior)
        value = clamped_link_of_shares(config.link, numbers, share)

        # The leverage is the step times the clamped noisy edge.
        edge = jnp.sum((noisy[:, 1] - noisy[:, 0]) * value) / variates.to_float64(public.max_rows)
        leverage = leverage_of_clamped_edge(numbers, value, edge, variates.to_float64(public.cap))
        leaf = (leverage * value).astype(jnp.float32)
    return Tree(splits_in_heap_order(release, config.depth), leaf)


@functools.cache
def greedy_tree(config: GreedyTreeConfig) -> types.WeakLearner:
    """A weak learner of greedy trees with noisy splits and leaves, in the tight calibration.

    A round releases 2^D - 1 splits, 2^(D+1) class weights, and D errors.

    Guarantee, under `relation`. Each level of splits costs sensitivity / scale, by one-signed
    scores and disjoint nodes. Each error costs that, too, and so do all class weights together.
    Proofs are in `sensitivity`. Alpha follows from released errors or is public, so nothing else is
    read.
    """
    check_perspective_of_family(config.criterion)
    usual = default_tree_settings_with_alpha_one(config.link, config.depth)
    with_errors = config.calibrates_alpha and config.depth > 1
    return boundary.weak_learner(
        name="greedy_tree",
        config=config,
        program=functools.partial(draw_splits_and_leaf_class_weights, config=config),
        hypothesis=functools.partial(tree_of_release, config),
        kind=TREES,
        fractions=tree_budget_fraction_by_group(0.5, 0.1 if with_errors else None),
        make_params=functools.partial(greedy_tree_params, usual),
        relation=config.relation,
        work_bytes=functools.partial(work_bytes_of_level_sums, num_nodes=2 ** (config.depth - 1)),
    )
