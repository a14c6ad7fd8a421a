"""Greedy growth of a tree, level by level: its config, its numbers and the draws of its splits."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float32, Int32

from dpbt import types
from dpbt.learners.materialize import materialize_once
from dpbt.learners.trees.class_weights import (
    child_totals,
    class_weights_of_nodes,
    root_class_weights,
    split_weights_of_nodes,
    weights_by_class,
)
from dpbt.learners.trees.leaf_values import TreeSettings
from dpbt.learners.trees.model import BinsAndSplits, move_to_children, narrowest_node_dtype
from dpbt.learners.trees.split_scores import SplitScorer
from dpbt.losses import unique_family_name
from dpbt.privacy import accounting, boundary, mechanisms, variates
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism_types import Mechanism, Numbers
from dpbt.types import AnyArray, Array, LossFamily, Release, View


class GreedyTreeParams(NamedTuple):
    """The traced numbers of a greedy tree.

    Attributes:
        noise: f32[], the noise multiplier of "split", "error" and "leaf". That of splits is 0 in
            the non-private mode, which takes the best split and leaves pure nodes alone.
        settings: numbers that are no noise.
    """

    noise: Mapping[str, AnyArray]
    settings: TreeSettings


def tree_budget_fraction_by_group(
    structure_fraction: Numbers, error_fraction: Numbers | None
) -> dict[str, Numbers]:
    """Share a tree's budget among "split", "leaf" and, with noisy errors, "error".

    It returns the fraction of each by its name.

    Args:
        structure_fraction: the fraction of splits and errors together; leaves have the rest.
        error_fraction: the fraction of the structure's fraction for noisy errors; None without
            them.
    """
    if error_fraction is None:
        return {"split": structure_fraction, "leaf": 1 - structure_fraction}
    return {
        "split": structure_fraction * (1 - error_fraction),
        "error": structure_fraction * error_fraction,
        "leaf": 1 - structure_fraction,
    }


AlphaOfLevel = Callable[[int, Array], Array]
"""(level, class weights i32[nodes, 2] of its nodes) -> the criterion's alpha at that level."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GreedyTreeConfig:
    """The static configuration of a learner of greedy trees.

    Attributes:
        depth: D, at least 1.
        criterion: the family whose perspective scores splits.
        link: the family of the link and of the leverage.
        calibrates_alpha: whether alpha follows from the errors of the levels, which is objective
            calibration, and not from `TreeSettings.alpha`.
        relation: the neighbouring relation of the ledger.
        noise: the mechanism of errors and leaves: `mechanisms.discrete_laplace`, or
            `mechanisms.rounded_gaussian` for zCDP.
    """

    depth: int
    criterion: LossFamily
    link: LossFamily
    calibrates_alpha: bool
    relation: types.Relation
    noise: Mechanism = mechanisms.discrete_laplace

    @property
    def identity(self) -> str:
        """A text of all static settings, from which noise keys are derived."""
        families = f"{unique_family_name(self.criterion)}, {unique_family_name(self.link)}"
        guarantee = f"{self.relation_name}, {self.noise.name}"
        return f"{self.depth}, {self.calibrates_alpha}, {families}, {guarantee}"

    @property
    def relation_name(self) -> str:
        """The name of the neighbouring relation that the guarantee holds under."""
        return types.as_relation(self.relation).value


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPricing:
    """How the draws of splits are priced: their sensitivity, and how often it is paid.

    Attributes:
        bound: (loss, rows) -> the sensitivity of a score.
        moves: the range of the change of scores is moves * bound.
        each_node: whether every node is paid for, instead of all nodes of a level together.
        theorem: where the bound is proved.
    """

    bound: Callable[[types.ProperLoss, AnyArray], Array]
    moves: int
    each_node: bool
    theorem: str

    def sensitivity(
        self, criterion: LossFamily, alpha: Numbers, max_rows: Numbers
    ) -> Float32[Array, ""]:
        """f32[]: the sensitivity of split scores, which is the range of their change by one row.

        It is computed in double precision, so that a fit in memory and one in blocks have the same.

        So a fit in memory and one in blocks have the same.
        """
        with variates.double_precision():
            numbers = (
                variates.to_float64(jnp.asarray(alpha)),
                variates.to_float64(jnp.asarray(max_rows)),
            )
            bound = self.bound(criterion(numbers[0]), numbers[1])
            return (self.moves * bound).astype(jnp.float32)


def draw_splits_and_sum_leaf_class_weights(
    config: GreedyTreeConfig,
    draw: Draw,
    view: View,
    *,
    alpha_of_level: AlphaOfLevel | None,
    pricing: SplitPricing,
) -> Int32[Array, "L 2"]:
    """Draw all splits level by level, and return the exact class weights of the leaves.

    The splits are released; the class weights are private, and no noise is on them yet.

    Args:
        config: the static parts of the tree.
        draw: the program's access to random draws.
        view: prepared rows, their weights in 0..GRID, `GreedyTreeParams`, and what is public in the
            round.
        alpha_of_level: the alpha of each level; None for that of `TreeSettings.alpha`.
        pricing: how the draws of splits are priced.

    Returns:
        i32[L, 2], the leaves' class weights in grid units; private.
    """
    table, weights, params, public = view
    row_weights_by_class = materialize_once(
        functools.partial(weights_by_class, table, weights), round_index=public.round
    )
    node = jnp.zeros(table.target.shape[0], narrowest_node_dtype(2**config.depth))
    totals = root_class_weights(row_weights_by_class)
    products = None
    by_rows = isinstance(table.splits_of_rows, BinsAndSplits)
    for level in range(config.depth):
        products = split_weights_of_nodes(
            table, row_weights_by_class, node, num_nodes=2**level, parent_products=products
        )
        alpha = _alpha_and_max_alpha_of_level(
            params.settings, alpha_of_level, level=level, totals=totals
        )
        split = _draw_splits_of_level(
            config,
            draw,
            view,
            pricing=pricing,
            level=level,
            alpha=alpha,
            products=products,
            totals=totals,
        )
        # A sum over rows, where it is cheap, lets a pass on a table in parts leave out the products
        # of the levels above.
        if level + 1 < config.depth or by_rows:
            node = materialize_once(
                functools.partial(move_to_children, table.splits_of_rows, node, split),
                round_index=public.round,
            )
        if by_rows:
            totals = class_weights_of_nodes(row_weights_by_class, node, 2 ** (level + 1))
        else:
            totals = child_totals(products, totals, split)
    return totals


class _AlphaAndMaxAlpha(NamedTuple):
    """The criterion's alpha at a level, and the largest that it may be.

    Attributes:
        alpha: f32[].
        max_alpha: of every table; `alpha` itself where it does not follow from releases.
    """

    alpha: Array
    max_alpha: Numbers


def _alpha_and_max_alpha_of_level(
    settings: TreeSettings,
    alpha_of_level: AlphaOfLevel | None,
    *,
    level: int,
    totals: Int32[Array, "nodes 2"],
) -> _AlphaAndMaxAlpha:
    """The criterion's alpha at a level, and the largest that it may be.

    It follows from the settings or from the class weights of the level.
    """
    if alpha_of_level is None:
        alpha = settings.alpha[level]
        return _AlphaAndMaxAlpha(jnp.asarray(alpha, jnp.float32), alpha)
    alpha = alpha_of_level(level, totals)
    return _AlphaAndMaxAlpha(jnp.asarray(alpha, jnp.float32), jnp.float32(1))


def _draw_splits_of_level(
    config: GreedyTreeConfig,
    draw: Draw,
    view: View,
    *,
    pricing: SplitPricing,
    level: int,
    alpha: _AlphaAndMaxAlpha,
    products: Int32[Array, "nodes 2 S"],
    totals: Int32[Array, "nodes 2"],
) -> Int32[Array, "nodes"]:
    """i32[nodes]: draw one split for each node of a level, by the exponential mechanism.

    Args:
        config: the static parts of the tree.
        draw: the program's access to random draws.
        view: as `draw_splits_and_sum_leaf_class_weights`.
        pricing: how the draws of splits are priced.
        level: the depth of the nodes.
        alpha: of the level.
        products: the class weights on the right side of every split of every node; private.
        totals: the class weights of every node; private.
    """
    site = f"split_{level}"
    num_nodes = 2**level
    family = config.criterion
    noise_by_group = view.params.noise
    noise = noise_by_group[boundary.budget_group_of_site(site, noise_by_group)]
    public_arguments = alpha.alpha, jnp.asarray(noise, jnp.float32), view.rows.allowed
    max_rows = view.public.max_rows
    return draw(
        site,
        mechanisms.exponential,
        boundary.RowSum((products, totals), SplitScorer(family), public_inputs=public_arguments),
        sensitivity=pricing.sensitivity(family, alpha.alpha, max_rows),
        max_sensitivity=pricing.sensitivity(family, alpha.max_alpha, max_rows),
        moved_outputs=num_nodes if pricing.each_node else pricing.moves,
        theorem=pricing.theorem,
        num_payments=num_nodes if pricing.each_node else 1,
        releases=f"splits at depth {level}, "
        f"{'each node paid for' if pricing.each_node else 'all nodes together'}",
        unit=accounting.ROW,
    )


def splits_in_heap_order(release: Release, depth: int) -> Int32[Array, "_"]:
    """i32[2^D - 1]: concatenate the released splits of all D levels in heap order."""
    return jnp.concatenate([release[f"split_{level}"] for level in range(depth)])
