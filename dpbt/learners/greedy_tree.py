"""Level-wise greedy trees with private splits and private leaves (Nock & Henecka, 2020, section 6).

Splits have the exponent eps / f(1, m) for all nodes of a level at once. Alpha follows from noisy
errors, and leaf values from noisy class weights. `recipes.published` has the paper's calibration.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common import types
from dpbt.common.types import GRID, AnyArray, Array, LossFamily, Public, Release, Tree
from dpbt.learners import trees
from dpbt.learners.hypotheses import Bins
from dpbt.learners.trees import Prepared
from dpbt.losses import check_criterion, family_name
from dpbt.privacy import accounting, boundary, mechanisms, sensitivity, variates
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism import Mechanism, Numbers
from dpbt.privacy.mechanisms import Scores

TINY_PRIOR = 1e-6
"""A parent's weight in the share of its leaf, where it should only fill in for empty leaves."""


class Settings(NamedTuple):
    """The numbers of a tree that are no noise; each may have axes of settings.

    Attributes:
        alpha: f32[] for each of D depths, the criterion's alpha, where it is given.
        link_alpha: f32[], alpha of the link and of the leverage.
        clip: f32[], M: leaf values before leverage are clamped to [-M, M].
        zeta: f32[], shares of a class are clamped to [zeta, 1 - zeta] before the link.
        step: f32[], a of Algorithm 1.
        smoothing: f32[], a parent's weight in the share of its leaf, in units of the leaf's noise.
    """

    alpha: tuple[Numbers, ...]
    link_alpha: Numbers
    clip: Numbers
    zeta: Numbers
    step: Numbers
    smoothing: Numbers


class Params(NamedTuple):
    """The traced numbers of a greedy tree.

    Attributes:
        noise: f32[], the noise multiplier of "split", "error" and "leaf". That of splits is 0 in
            the non-private mode, which takes the best split and leaves pure nodes alone.
        settings: numbers that are no noise.
    """

    noise: Mapping[str, AnyArray]
    settings: Settings


def default_settings(link: LossFamily, depth: int) -> Settings:
    """The settings of `recipes.bdpe` for alpha = 1."""
    clip, smoothness = 10.0, float(link(np.float32(1)).smoothness)
    return Settings((1.0,) * depth, 1.0, clip, 1e-4, 1 / (4 * smoothness * clip**2), 1.0)


def params(settings: Settings, noise: Mapping[str, AnyArray], public: Public) -> Params:
    """The learner's numbers."""
    del public
    return Params(dict(noise), settings)


def fractions(structure: Numbers, errors: Numbers | None) -> dict[str, Numbers]:
    """How a tree's budget is shared.

    Args:
        structure: the fraction of splits and errors together; leaves have the rest.
        errors: the fraction of the structure's fraction for noisy errors; None without them.
    """
    if errors is None:
        return {"split": structure, "leaf": 1 - structure}
    return {"split": structure * (1 - errors), "error": structure * errors, "leaf": 1 - structure}


Alpha = Callable[[int, Array], Array]
"""(level, class weights i32[nodes, 2] of its nodes) -> the criterion's alpha at that level."""


def errors(totals: AnyArray) -> Any:
    """The weight that predicting each node's majority class gets wrong, in grid units.

    Args:
        totals: i32[nodes, 2], class weights; or int64 of NumPy.

    Returns:
        i32[], or int64.
    """
    return totals.min(axis=-1).sum()


def objective_alpha(noisy_errors: Array) -> Array:
    """f32[K] non-increasing alphas from noisy errors [K] of the levels 0..K-1; the first is 1.

    This is post-processing: ratios to the root's errors, clamped to [0, 1], each at most the one
    above. Root errors below one grid unit count as one.
    """
    ratio = noisy_errors.astype(jnp.float32) / jnp.maximum(noisy_errors[0], 1).astype(jnp.float32)
    ratio = jnp.clip(ratio, 0, 1).at[0].set(1)
    return jnp.minimum.accumulate(ratio)


def noisy_objective(draw: Draw, config: "Config") -> Alpha:
    """Objective calibration from noisy errors: one count for each level, of sensitivity 1 row."""
    noisy_errors: list[Array] = []

    def alpha(level: int, totals: Array) -> Array:
        if config.depth == 1:
            return jnp.float32(1)
        released = draw(
            f"error_{level}",
            config.noise,
            boundary.Total(totals, errors),
            sensitivity=sensitivity.ERROR_WEIGHT.times(GRID),
            moves=1,
            theorem="docs/privacy.md 4",
            releases=f"errors at depth {level}",
            unit=accounting.ROW_STEP,
        )
        noisy_errors.append(released.astype(jnp.float32))  # i32, or f32 of a large table
        return objective_alpha(jnp.stack(noisy_errors))[-1]

    return alpha


def split_scores(loss: types.ProperLoss, products: Array, totals: Array) -> Array:
    """f64[nodes, S]: minus the summed perspectives of the two children of every node and split.

    For use within `variates.double_precision`, with a loss whose alpha is float64.

    Args:
        loss: the criterion.
        products: i32[nodes, 2, S] from `trees.node_products`, or the same in float64.
        totals: i32[nodes, 2], the class weights of the nodes, or the same in float64.
    """
    left = totals[:, :, None] - products
    return -(trees.perspectives(loss, products) + trees.perspectives(loss, left))


@functools.cache
def split_choice(family: LossFamily) -> Callable[..., Scores]:
    """From the class weights of the nodes of a level to the scores of their splits.

    Args:
        family: the criterion by alpha.

    Returns:
        ((products, totals), alpha, noise, allowed) -> the scores [nodes, S]. The first two are as
        in `split_scores`. The bool[S] `allowed` says which splits may be chosen; None for all.
        Without noise, pure nodes are left alone.
    """

    def scores(
        sums: tuple[Array, Array], alpha: Array, noise: Array, allowed: Array | None
    ) -> Scores:
        with variates.double_precision():
            products, totals = sums
            pure = jnp.min(totals, axis=-1) == 0
            chosen_from = ~((noise == 0) & pure)[:, None]
            if allowed is not None:
                chosen_from = chosen_from & allowed[None, :]
            exact = split_scores(family(variates.double(alpha)), products, totals)
            return mechanisms.behind_best(exact, chosen_from)

    return scores


class Config(NamedTuple):
    """The static parts of a greedy tree.

    Attributes:
        depth: D, at least 1.
        criterion: the family whose perspective scores splits.
        link: the family of the link and of the leverage.
        objective: take alpha from errors instead of `Settings.alpha`.
        relation: the neighbouring relation of the ledger.
        noise: the mechanism of errors and leaves: `mechanisms.discrete_laplace`, or
            `mechanisms.rounded_gaussian` for zCDP.
    """

    depth: int
    criterion: LossFamily
    link: LossFamily
    objective: bool
    relation: types.Relation
    noise: Mechanism = mechanisms.discrete_laplace

    @property
    def tag(self) -> str:
        """Every static part as text."""
        families = f"{family_name(self.criterion)}, {family_name(self.link)}"
        under = types.relation_name(self.relation)
        return f"{self.depth}, {self.objective}, {families}, {under}, {self.noise.name}"


class SplitPrice(NamedTuple):
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

    def sensitivity(self, family: LossFamily, alpha: Numbers, rows: Numbers) -> Array:
        """f32[]: the range of the change of scores, worked out in double precision.

        So a fit in memory and one in blocks have the same.
        """
        with variates.double_precision():
            numbers = variates.double(jnp.asarray(alpha)), variates.double(jnp.asarray(rows))
            bound = self.bound(family(numbers[0]), numbers[1])
            return (self.moves * bound).astype(jnp.float32)


def grow(
    draw: Draw,
    table: Prepared,
    weights: Array,
    params: Params,
    public: Public,
    config: Config,
    alpha_of: Alpha | None,
    price: SplitPrice,
) -> Array:
    """Draw all splits, level by level.

    Args:
        draw: the program's access to random draws.
        table: the prepared rows.
        weights: f32[N], integers 0..GRID.
        params: the learner's noise and settings.
        public: what is public in the round.
        config: the static parts of the tree.
        alpha_of: the alpha of each level; None for that of `Settings.alpha`.
        price: how the draws of splits are priced.

    Returns:
        i32[L, 2], the leaves' class weights in grid units; private.
    """
    family, noise_of = config.criterion, params.noise
    weigh = functools.partial(trees.weights_by_class, table, weights)
    by_class = trees.stored(public.round, weigh)
    node = jnp.zeros(table.target.shape[0], trees.node_dtype(2**config.depth))
    totals, products = trees.node_totals(by_class), None
    by_rows = isinstance(table.asked, Bins)
    for level in range(config.depth):
        # The weights on the right side of every split, and the criterion of this level.
        nodes = 2**level
        products = trees.node_products(table, by_class, node, nodes, products)
        alpha = params.settings.alpha[level] if alpha_of is None else alpha_of(level, totals)
        alpha = jnp.asarray(alpha, jnp.float32)
        largest = params.settings.alpha[level] if alpha_of is None else jnp.float32(1)

        # One split for each node, by its score; every row moves to its child.
        site = f"split_{level}"
        noise = noise_of[boundary.group_of(site, noise_of)]
        told = alpha, jnp.asarray(noise, jnp.float32), table.allowed
        split = draw(
            site,
            mechanisms.exponential,
            boundary.Total((products, totals), split_choice(family), told),
            sensitivity=price.sensitivity(family, alpha, public.rows),
            at_most=price.sensitivity(family, largest, public.rows),
            moves=nodes if price.each_node else price.moves,
            theorem=price.theorem,
            count=nodes if price.each_node else 1,
            releases=f"splits at depth {level}, "
            f"{'each node paid for' if price.each_node else 'all nodes together'}",
            unit=accounting.ROW,
        )
        # A sum over rows, where it is cheap, lets a pass on a table in parts leave out the products
        # of the levels above.
        if level + 1 < config.depth or by_rows:
            descend = functools.partial(trees.descend, table.asked, node, split)
            node = trees.stored(public.round, descend)
        if by_rows:
            totals = trees.sums_of_nodes(by_class, node, 2 * nodes)
        else:
            totals = trees.child_totals(products, totals, split)
    return totals


def link_values(family: LossFamily, settings: Settings, share: Array) -> Array:
    """f32 or f64[L], as the shares: the canonical link of each, with both clamped."""
    value = family(settings.link_alpha).link(jnp.clip(share, settings.zeta, 1 - settings.zeta))
    return jnp.clip(value, -settings.clip, settings.clip)


def gathered_splits(release: Release, depth: int) -> Array:
    """i32[2^D - 1]: the splits of all D levels in heap order."""
    return jnp.concatenate([release[f"split_{level}"] for level in range(depth)])


def price(relation: types.Relation) -> SplitPrice:
    """All nodes of a level are paid for at once: their scores move one way, on disjoint rows."""
    moves = sensitivity.split_moves(relation)
    return SplitPrice(sensitivity.tight_split, moves, False, "docs/privacy.md 1-3")


def _leaf_sensitivity(config: Config) -> Numbers:
    """The sensitivity of the class weights of all leaves together, in grid units."""
    return config.noise.bound(sensitivity.class_weights(config.relation).times(GRID))


def program(
    config: Config, draw: Draw, table: Prepared, weights: Array, params: Params, public: Public
) -> None:
    """Draw splits level by level, and the class weights of the leaves."""
    alpha_of = noisy_objective(draw, config) if config.objective else None
    leaves = grow(draw, table, weights, params, public, config, alpha_of, price(config.relation))
    draw(
        "leaf",
        config.noise,
        boundary.Total(leaves),
        sensitivity=_leaf_sensitivity(config),
        moves=sensitivity.moved_rows(config.relation),
        theorem="docs/privacy.md 3, 5",
        releases="class weights, all leaves",
        unit=accounting.ROW_STEP,
    )


def hypothesis(config: Config, release: Release, params: Params, public: Public) -> Tree:
    """The tree: links of noisy shares, times the leverage of their noisy edge.

    It is rounded once, from double precision. So a leaf depends on the program around it only if it
    is within some units of the last place of a double from where float32 rounds up.
    """
    with variates.double_precision():
        numbers = jax.tree.map(variates.double, params.settings)
        leaf_scale = variates.double(params.noise["leaf"]) * _leaf_sensitivity(config)

        # The canonical link of each leaf's noisy share of the positive class.
        to_rows = variates.double(public.cap) / GRID
        noisy = variates.double(release["leaf"]) * to_rows
        prior = jnp.maximum(numbers.smoothing * leaf_scale * to_rows, TINY_PRIOR)
        share = trees.shrink_to_parents(jnp.maximum(noisy, 0), prior)
        value = link_values(config.link, numbers, share)

        # The leverage is the step times the clamped noisy edge.
        edge = jnp.sum((noisy[:, 1] - noisy[:, 0]) * value) / variates.double(public.rows)
        edge_bound = variates.double(public.cap) * numbers.clip
        leverage = numbers.step * jnp.clip(edge, -edge_bound, edge_bound)
        leaf = (leverage * value).astype(jnp.float32)
    return Tree(gathered_splits(release, config.depth), leaf)


@functools.cache
def greedy_tree(config: Config) -> types.WeakLearner:
    """Greedy trees: a release of 2^D - 1 splits, 2^(D+1) class weights, and D errors.

    Guarantee, under `relation`. Each level of splits costs sensitivity / scale, by one-signed
    scores and disjoint nodes. Each error costs that, too, and so do all class weights together.
    Proofs are in `sensitivity`. Alpha follows from released errors or is public, so nothing else is
    read.
    """
    check_criterion(config.criterion)
    usual = default_settings(config.link, config.depth)
    return boundary.weak_learner(
        functools.partial(program, config),
        functools.partial(hypothesis, config),
        fractions(0.5, 0.1 if config.objective and config.depth > 1 else None),
        trees.TREES,
        config.relation,
        params=functools.partial(params, usual),
        work=functools.partial(trees.work, nodes=2 ** (config.depth - 1)),
        tag=f"greedy_tree({config.tag})",
    )
