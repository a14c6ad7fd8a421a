"""Greedy growth of a tree, level by level: its config, its numbers and the draws of its splits."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float32, Int32

from dpbt import types
from dpbt.learners.materialize import materialize
from dpbt.learners.trees.class_weights import (
    child_totals,
    class_weights_of_nodes,
    node_products,
    node_totals,
    weights_by_class,
)
from dpbt.learners.trees.leaf_values import TreeSettings
from dpbt.learners.trees.model import BinsAndSplits, move_to_children, node_dtype
from dpbt.learners.trees.split_scores import SplitScorer
from dpbt.losses import family_name
from dpbt.privacy import accounting, boundary, mechanisms, variates
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism import Mechanism, Numbers
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


def tree_budget_fractions(
    structure_fraction: Numbers, error_fraction: Numbers | None
) -> dict[str, Numbers]:
    """How a tree's budget is shared.

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
    """The static parts of a greedy tree.

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
        """Every static part as text, which enters keys."""
        families = f"{family_name(self.criterion)}, {family_name(self.link)}"
        return f"{self.depth}, {self.calibrates_alpha}, {families}, {self.under}, {self.noise.name}"

    @property
    def under(self) -> str:
        """The name of the neighbouring relation that the guarantee holds under."""
        return types.as_relation(self.relation).value


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPricing:
    """How the draws of splits are priced.

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

    def sensitivity(self, family: LossFamily, alpha: Numbers, rows: Numbers) -> Float32[Array, ""]:
        """f32[]: the range of the change of scores, worked out in double precision.

        So a fit in memory and one in blocks have the same.
        """
        with variates.double_precision():
            numbers = (
                variates.to_float64(jnp.asarray(alpha)),
                variates.to_float64(jnp.asarray(rows)),
            )
            bound = self.bound(family(numbers[0]), numbers[1])
            return (self.moves * bound).astype(jnp.float32)


def draw_splits_and_weigh_leaves(
    config: GreedyTreeConfig,
    draw: Draw,
    view: View,
    alpha_of_level: AlphaOfLevel | None,
    pricing: SplitPricing,
) -> Int32[Array, "L 2"]:
    """Draw all splits, level by level.

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
    family, noise_of = config.criterion, params.noise
    by_class = materialize(public.round, functools.partial(weights_by_class, table, weights))
    node = jnp.zeros(table.target.shape[0], node_dtype(2**config.depth))
    totals, products = node_totals(by_class), None
    by_rows = isinstance(table.splits_of_rows, BinsAndSplits)
    for level in range(config.depth):
        # The weights on the right side of every split, and the criterion of this level.
        nodes = 2**level
        products = node_products(table, by_class, node, nodes, products)
        alpha = (
            params.settings.alpha[level]
            if alpha_of_level is None
            else alpha_of_level(level, totals)
        )
        alpha = jnp.asarray(alpha, jnp.float32)
        largest = params.settings.alpha[level] if alpha_of_level is None else jnp.float32(1)

        # One split for each node, by its score; every row moves to its child.
        site = f"split_{level}"
        noise = noise_of[boundary.budget_group_of_site(site, noise_of)]
        read_by_scorer = alpha, jnp.asarray(noise, jnp.float32), table.allowed
        split = draw(
            site,
            mechanisms.exponential,
            boundary.Total((products, totals), SplitScorer(family), public=read_by_scorer),
            sensitivity=pricing.sensitivity(family, alpha, public.max_rows),
            max_sensitivity=pricing.sensitivity(family, largest, public.max_rows),
            moved_outputs=nodes if pricing.each_node else pricing.moves,
            theorem=pricing.theorem,
            num_payments=nodes if pricing.each_node else 1,
            releases=f"splits at depth {level}, "
            f"{'each node paid for' if pricing.each_node else 'all nodes together'}",
            unit=accounting.ROW,
        )
        # A sum over rows, where it is cheap, lets a pass on a table in parts leave out the products
        # of the levels above.
        if level + 1 < config.depth or by_rows:
            node = materialize(
                public.round, functools.partial(move_to_children, table.splits_of_rows, node, split)
            )
        if by_rows:
            totals = class_weights_of_nodes(by_class, node, 2 * nodes)
        else:
            totals = child_totals(products, totals, split)
    return totals


def splits_in_heap_order(release: Release, depth: int) -> Int32[Array, "_"]:
    """i32[2^D - 1]: the splits of all D levels in heap order."""
    return jnp.concatenate([release[f"split_{level}"] for level in range(depth)])
