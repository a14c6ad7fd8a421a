"""Level-wise greedy trees with private splits and private leaves (Nock & Henecka, 2020, section 6).

This is the tight calibration. Splits have the exponent eps / f(1, m) for all nodes of a level at
once. Alpha follows from noisy errors, and leaf values from noisy class weights.
`published_greedy_tree` has the paper's calibration.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import (
    GRID,
    AnyArray,
    Array,
    LossFamily,
    ProperLoss,
    Public,
    Relation,
    Release,
    Tree,
    WeakLearner,
    relation_name,
)
from dpbt.learners import trees
from dpbt.losses import check_criterion, family_name
from dpbt.privacy import accounting, boundary, mechanisms, sensitivity, variates
from dpbt.privacy.accounting import Event
from dpbt.privacy.mechanism import SCALE_MARGIN, Allowance, Mechanism, Numbers, rounded_down
from dpbt.privacy.mechanisms import Scores

TINY_PRIOR = 1e-6
"""A parent's weight in the share of its leaf, where it should only fill in for empty leaves."""


class TreeBudget(NamedTuple):
    """The traced numbers of a greedy tree; each may have leading axes of settings.

    Attributes:
        split_epsilon: f32[D], the exponent's epsilon at each depth: of one node (published), or of
            all nodes of the level (tight). It is infinite in the non-private mode, which takes the
            best split and leaves pure nodes alone.
        error_scale: f32[], noise scale of the noisy errors, in grid units; 0 without them.
        leaf_scale: f32[], noise scale of a leaf: of its value (published) or of its class weights
            in grid units (tight).
        leaf_step: f32[], a power of two: the public grid that leaf values lie on (published).
        alpha: f32[D], the criterion's alpha by depth, where it is given.
        link_alpha: f32[], alpha of the link and of the leverage.
        clip: f32[], M: leaf values before leverage are clamped to [-M, M].
        zeta: f32[], shares of a class are clamped to [zeta, 1 - zeta] before the link.
        step: f32[], a of Algorithm 1.
        smoothing: f32[], a parent's weight in the share of its leaf, in units of `leaf_scale`.
    """

    split_epsilon: AnyArray
    error_scale: AnyArray
    leaf_scale: AnyArray
    leaf_step: AnyArray
    alpha: AnyArray
    link_alpha: AnyArray
    clip: AnyArray
    zeta: AnyArray
    step: AnyArray
    smoothing: AnyArray


BY_DEPTH = ("split_epsilon", "alpha")
"""The fields of a budget with one entry for each depth."""


class Shares(NamedTuple):
    """How a tree's allowance is shared; float64, scalars or arrays of settings.

    Attributes:
        structure: the share of splits and errors together; leaves have the rest.
        errors: the share of the structure's share for noisy errors; 0 without them.
    """

    structure: Numbers
    errors: Numbers


class Settings(NamedTuple):
    """The numbers of a tree that do not affect privacy; float64, scalars or arrays.

    Attributes:
        alpha: f64[..., D]; link_alpha, clip, zeta, step, smoothing: as in `TreeBudget`.
    """

    alpha: Numbers
    link_alpha: Numbers
    clip: Numbers
    zeta: Numbers
    step: Numbers
    smoothing: Numbers


def default_settings(link: LossFamily, depth: int) -> Settings:
    """The settings of `recipes.bdpe` for alpha = 1."""
    clip, smoothness = 10.0, float(link(np.float32(1)).smoothness)
    return Settings(np.ones(depth), 1.0, clip, 1e-4, 1 / (4 * smoothness * clip**2), 1.0)


AlphaOfLevel = Callable[[int, Array], Array]
"""(level, class weights i32[nodes, 2]) -> the criterion's alpha at that level."""

AlphaRule = Callable[[boundary.Draw, TreeBudget], AlphaOfLevel]
"""(the program's draw, the learner's budget) -> the alpha of each level."""


def errors(totals: AnyArray) -> Any:
    """The weight that predicting each node's majority class gets wrong, in grid units.

    Args:
        totals: i32[nodes, 2], class weights; or int64 of NumPy.

    Returns:
        i32[], or int64.
    """
    return totals.min(axis=-1).sum()


def public_alpha(draw: boundary.Draw, budget: TreeBudget) -> AlphaOfLevel:
    """Alpha is public: a constant or a schedule of the depth."""
    del draw
    return lambda level, totals: jnp.asarray(budget.alpha)[level]


def objective_alpha(noisy_errors: Array) -> Array:
    """f32[K] non-increasing alphas from noisy errors [K] of the levels 0..K-1; the first is 1.

    This is post-processing: ratios to the root's errors, clamped to [0, 1], each at most the one
    above. Root errors below one grid unit count as one.
    """
    ratio = noisy_errors.astype(jnp.float32) / jnp.maximum(noisy_errors[0], 1).astype(jnp.float32)
    ratio = jnp.clip(ratio, 0, 1).at[0].set(1)
    return jnp.minimum.accumulate(ratio)


@functools.cache
def noisy_objective(noise: Mechanism) -> AlphaRule:
    """Objective calibration from noisy errors: one count for each level, of sensitivity 1 row."""

    def rule(draw: boundary.Draw, budget: TreeBudget) -> AlphaOfLevel:
        depth = budget.alpha.shape[-1]
        noisy_errors: list[Array] = []

        def alpha(level: int, totals: Array) -> Array:
            if depth == 1:
                return jnp.float32(1)
            counts = boundary.Total(totals, errors)
            released = draw(f"error_{level}", noise, counts, budget.error_scale)
            noisy_errors.append(released.astype(jnp.float32))  # i32, or f32 of a large table
            return objective_alpha(jnp.stack(noisy_errors))[-1]

        return alpha

    return rule


def split_scores(loss: ProperLoss, products: Array, totals: Array) -> Array:
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
        ((products, totals), alpha, epsilon, allowed) -> the scores [nodes, S]. The first two are as
        in `split_scores`. The bool[S] `allowed` says which splits may be chosen; None for all.
        Without privacy, where epsilon is infinite, pure nodes are left alone.
    """

    def scores(
        sums: tuple[Array, Array], alpha: Array, epsilon: Array, allowed: Array | None
    ) -> Scores:
        with variates.double_precision():
            products, totals = sums
            pure = jnp.min(totals, axis=-1) == 0
            chosen_from = ~(jnp.isinf(epsilon) & pure)[:, None]
            if allowed is not None:
                chosen_from = chosen_from & allowed[None, :]
            exact = split_scores(family(variates.double(alpha)), products, totals)
            return mechanisms.behind_best(exact, chosen_from)

    return scores


Temperature = Callable[[ProperLoss, Array], Array]
"""(loss, rows) -> the temperature of a draw of splits at epsilon 1."""


def temperature_of(
    temperature: Temperature, family: LossFamily, alpha: Numbers, rows: Numbers
) -> Array:
    """f32[...]: a temperature that is worked out in double precision, and rounded once.

    So the ledger, a fit in memory and a fit by chunks have the same one.
    """
    with variates.double_precision():
        numbers = variates.double(jnp.asarray(alpha)), variates.double(jnp.asarray(rows))
        return temperature(family(numbers[0]), numbers[1]).astype(jnp.float32)


def grow(
    draw: boundary.Draw,
    table: trees.Prepared,
    weights: Array,
    budget: TreeBudget,
    public: Public,
    family: LossFamily,
    alpha_rule: AlphaRule,
    temperature: Temperature,
) -> Array:
    """Draw all splits, level by level.

    Args:
        draw: the program's access to random draws.
        table: the prepared rows.
        weights: f32[N], integers 0..GRID.
        budget: the learner's numbers.
        public: what is public in the round.
        family: the criterion by alpha.
        alpha_rule: how alpha follows at each level.
        temperature: the temperature of a draw at epsilon 1.

    Returns:
        i32[L, 2], the leaves' class weights in grid units; private.
    """
    depth = budget.alpha.shape[-1]
    weigh = functools.partial(trees.weights_by_class, table, weights)
    by_class = trees.stored(public.round, weigh)
    node = jnp.zeros(table.target.shape[0], trees.node_dtype(2**depth))
    totals, products = trees.node_totals(by_class), None
    alpha_of = alpha_rule(draw, budget)
    for level in range(depth):
        # The weights on the right side of every split, and the criterion of this level.
        products = trees.node_products(table, by_class, node, 2**level, products)
        alpha = jnp.asarray(alpha_of(level, totals), jnp.float32)
        epsilon = budget.split_epsilon[level]

        # One split for each node, by its score; every row moves to its child.
        told = alpha, jnp.asarray(epsilon, jnp.float32), table.allowed
        scores = boundary.Total((products, totals), split_choice(family), told)
        at_epsilon_1 = temperature_of(temperature, family, alpha, public.rows)
        scale = at_epsilon_1 / epsilon
        split = draw(f"split_{level}", mechanisms.exponential, scores, scale, at_epsilon_1)
        # A sum over rows, where it is cheap, lets a pass on a table in parts leave out the products
        # of the levels above.
        by_rows = table.cells is not None
        if level + 1 < depth or by_rows:
            descend = functools.partial(trees.descend, table.asked, node, split)
            node = trees.stored(public.round, descend)
        if by_rows:
            totals = trees.sums_of_nodes(by_class, node, 2 ** (level + 1))
        else:
            totals = trees.child_totals(products, totals, split)
    return totals


def link_values(family: LossFamily, budget: TreeBudget, share: Array) -> Array:
    """f32 or f64[L], as the shares: the canonical link of each, with both clamped."""
    value = family(budget.link_alpha).link(jnp.clip(share, budget.zeta, 1 - budget.zeta))
    return jnp.clip(value, -budget.clip, budget.clip)


def gathered_splits(release: Release, depth: int) -> Array:
    """i32[2^D - 1]: the splits of all D levels in heap order."""
    return jnp.concatenate([release[f"split_{level}"] for level in range(depth)])


class SplitPrice(NamedTuple):
    """How the draws of splits are priced; the program and the ledger read the same numbers.

    Attributes:
        bound: (loss, rows) -> the sensitivity of a score.
        factor: the temperature is factor * bound / epsilon.
        moves: the range of the change of scores is moves * bound.
        pays: (level) -> how often a level is paid for.
        moved: (level) -> how many nodes' draws one row moves.
        nodes: what is paid for together, in words for the ledger.
        theorem: where the bound is proved.
    """

    bound: Callable[[ProperLoss, AnyArray], Array]
    factor: int
    moves: int
    pays: Callable[[int], int]
    moved: Callable[[int], int]
    nodes: str
    theorem: str

    def temperature(self, loss: ProperLoss, rows: AnyArray) -> Array:
        """f32[]: the temperature of a draw at epsilon 1."""
        return self.factor * self.bound(loss, rows)


def split_events(
    price: SplitPrice, budget: TreeBudget, public: Public, objective: bool, criterion: LossFamily
) -> list[Event]:
    """One event for each depth.

    Args:
        price: how the draws of splits are priced.
        budget: the learner's numbers.
        public: what is public; the number of rows is read.
        objective: whether alpha may be any number up to 1.
        criterion: the criterion by alpha.
    """
    rows = np.asarray(public.rows, np.float32)
    events = []
    for level in range(np.shape(budget.alpha)[-1]):
        # The temperature as the program computes it, at the largest alpha.
        alpha = np.float32(1) if objective else np.asarray(budget.alpha, np.float32)[..., level]
        exact = temperature_of(price.temperature, criterion, alpha, rows)
        at_epsilon_1 = np.asarray(exact, np.float64)
        epsilon = np.asarray(budget.split_epsilon, np.float64)[..., level]
        with np.errstate(divide="ignore"):  # an epsilon of 0 is refused by its scale
            scale = at_epsilon_1 / epsilon
        events.append(
            Event(
                f"split_{level}",
                mechanisms.exponential,
                f"splits at depth {level}, {price.nodes}",
                sensitivity=price.moves * at_epsilon_1 / price.factor,
                scale=scale,
                theorem=price.theorem,
                count=price.pays(level),
                scale_unit=at_epsilon_1,
                moved=price.moved(level),
                unit=accounting.ROW,
            )
        )
    return events


class Kind(NamedTuple):
    """The static parts of a greedy tree.

    Attributes:
        depth: D, at least 1.
        criterion: the family whose perspective scores splits.
        link: the family of the link and of the leverage.
        objective: take alpha from errors instead of `TreeBudget.alpha`.
        relation: the neighbouring relation of the ledger; None for both.
        noise: the mechanism of errors and leaves.
    """

    depth: int
    criterion: LossFamily
    link: LossFamily
    objective: bool
    relation: Relation | None
    noise: Mechanism

    @property
    def counts_errors(self) -> bool:
        """Whether noisy errors are released. With one level, alpha is 1 without them."""
        return self.objective and self.depth > 1

    @property
    def default_shares(self) -> Shares:
        """The shares of `recipes.bdpe`: half for structure, and a tenth of that for errors."""
        return Shares(0.5, 0.1 if self.counts_errors else 0.0)

    @property
    def tag(self) -> str:
        """Every static part as text."""
        families = f"{family_name(self.criterion)}, {family_name(self.link)}"
        under = "both" if self.relation is None else relation_name(self.relation)
        return f"{self.depth}, {self.objective}, {families}, {under}, {self.noise.name}"


def _price(kind: Kind) -> SplitPrice:
    """All nodes of a level are paid for at once: their scores move one way, on disjoint rows."""
    moves = sensitivity.split_moves(_relation(kind))
    return SplitPrice(
        bound=sensitivity.tight_split,
        factor=1,
        moves=moves,
        pays=lambda level: 1,
        moved=lambda level: moves,
        nodes="all nodes together",
        theorem="docs/privacy.md 1-3",
    )


def _relation(kind: Kind) -> Relation:
    """The relation of a tight tree, which always has one."""
    assert kind.relation is not None
    return kind.relation


def _error_sensitivity(kind: Kind) -> Numbers:
    """The sensitivity of one count of errors, in grid units."""
    return kind.noise.bound(sensitivity.ERROR_WEIGHT.times(GRID))


def _leaf_sensitivity(kind: Kind) -> Numbers:
    """The sensitivity of the class weights of all leaves together, in grid units."""
    return kind.noise.bound(sensitivity.class_weights(_relation(kind)).times(GRID))


def calibrate(
    kind: Kind,
    shares: Shares,
    settings: Settings,
    allowance: Allowance,
    rounds: Numbers,
    public: Public,
) -> TreeBudget:
    """The budget of the tight calibration.

    Args:
        kind: the static parts of the tree.
        shares: how a tree's allowance is shared.
        settings: the numbers that do not affect privacy.
        allowance: of all rounds.
        rounds: T.
        public: not read; sensitivities of splits follow the traced alpha.
    """
    del public
    depth, moves = kind.depth, sensitivity.split_moves(_relation(kind))
    tree = allowance.part(1 / np.asarray(rounds))
    structure, leaves = tree.part(shares.structure), tree.part(1 - np.asarray(shares.structure))
    of_level = structure.part((1 - np.asarray(shares.errors)) / depth)
    split_epsilon = mechanisms.exponential.price.shift(of_level) / moves * (1 - SCALE_MARGIN)
    error_scale: Numbers = 0.0
    if kind.counts_errors:
        of_errors = structure.part(np.asarray(shares.errors) / depth)
        error_scale = kind.noise.scale(_error_sensitivity(kind), of_errors)
    return TreeBudget(
        split_epsilon=np.repeat(rounded_down(split_epsilon)[..., None], depth, -1),
        error_scale=error_scale,
        leaf_scale=kind.noise.scale(_leaf_sensitivity(kind), leaves),
        leaf_step=np.ones(()),
        **settings._asdict(),
    )


def program(
    kind: Kind,
    draw: boundary.Draw,
    table: trees.Prepared,
    weights: Array,
    budget: TreeBudget,
    public: Public,
) -> None:
    """Draw splits level by level, and the class weights of the leaves."""
    rule = noisy_objective(kind.noise) if kind.objective else public_alpha
    price = _price(kind)
    leaves = grow(draw, table, weights, budget, public, kind.criterion, rule, price.temperature)
    draw("leaf", kind.noise, boundary.Total(leaves), budget.leaf_scale)


def hypothesis(kind: Kind, release: Release, budget: TreeBudget, public: Public) -> Tree:
    """The tree: links of noisy shares, times the leverage of their noisy edge.

    It is rounded once, from double precision. So a leaf depends on the program around it only if it
    is within some units of the last place of a double from where float32 rounds up.
    """
    with variates.double_precision():
        numbers = jax.tree.map(variates.double, budget)

        # The canonical link of each leaf's noisy share of the positive class.
        to_rows = variates.double(public.cap) / GRID
        noisy = variates.double(release["leaf"]) * to_rows
        prior = jnp.maximum(numbers.smoothing * numbers.leaf_scale * to_rows, TINY_PRIOR)
        share = trees.shrink_to_parents(jnp.maximum(noisy, 0), prior)
        value = link_values(kind.link, numbers, share)

        # The leverage is the step times the clamped noisy edge.
        edge = jnp.sum((noisy[:, 1] - noisy[:, 0]) * value) / variates.double(public.rows)
        edge_bound = variates.double(public.cap) * numbers.clip
        leverage = numbers.step * jnp.clip(edge, -edge_bound, edge_bound)
        leaf = (leverage * value).astype(jnp.float32)
    return Tree(gathered_splits(release, kind.depth), leaf)


def events(kind: Kind, budget: TreeBudget, public: Public) -> list[Event]:
    """The splits of each level, the errors of each level, and all leaves."""
    lines = split_events(_price(kind), budget, public, kind.objective, kind.criterion)
    lines += [
        Event(
            f"error_{level}",
            kind.noise,
            f"errors at depth {level}",
            sensitivity=_error_sensitivity(kind),
            scale=budget.error_scale,
            theorem="docs/privacy.md 4",
            moved=1,
            unit=accounting.ROW_STEP,
        )
        for level in range(kind.depth if kind.counts_errors else 0)
    ]
    leaves = Event(
        "leaf",
        kind.noise,
        "class weights, all leaves",
        sensitivity=_leaf_sensitivity(kind),
        scale=budget.leaf_scale,
        theorem="docs/privacy.md 3, 5",
        moved=sensitivity.moved_rows(_relation(kind)),
        unit=accounting.ROW_STEP,
    )
    return [*lines, leaves]


@functools.cache
def greedy_tree(
    depth: int,
    criterion: LossFamily,
    link: LossFamily,
    objective: bool,
    relation: Relation,
    noise: Mechanism = mechanisms.discrete_laplace,
) -> WeakLearner:
    """The tight calibration: a release of 2^D - 1 splits, 2^(D+1) class weights, and D errors.

    Guarantee, under `relation`. Each level of splits is `split_epsilon`-DP times
    `sensitivity.split_moves`, by one-signed scores and disjoint nodes. Each error costs sensitivity
    / scale, and so do all class weights together. Proofs are in `sensitivity`. Alpha follows from
    released errors or is public, so nothing else is read.

    Args:
        depth: D, at least 1.
        criterion: the family whose perspective scores splits.
        link: the family of the link and of the leverage.
        objective: take alpha from noisy errors instead of `budget.alpha`.
        relation: the neighbouring relation of the ledger.
        noise: the mechanism of errors and class weights: `mechanisms.discrete_laplace`, or
            `mechanisms.rounded_gaussian` for zCDP.
    """
    check_criterion(criterion)
    kind = Kind(depth, criterion, link, objective, relation, noise)
    shares, settings = kind.default_shares, default_settings(link, depth)
    return boundary.weak_learner(
        functools.partial(program, kind),
        functools.partial(hypothesis, kind),
        functools.partial(events, kind),
        trees.TREES,
        relation,
        calibrate=functools.partial(calibrate, kind, shares, settings),
        by_depth=BY_DEPTH,
        work=functools.partial(trees.work, nodes=2 ** (depth - 1)),
        tag=f"greedy_tree({kind.tag})",
    )
