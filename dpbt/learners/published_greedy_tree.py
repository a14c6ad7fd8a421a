"""Greedy trees as published: Nock & Henecka (2020), section 6.

Exponent eps / (2 max{3, 1 + f(1, m)}) with the node budgets of equation (17), alpha of equation
(16) read off the data, discrete Laplace noise on leveraged links.
"""

import functools

import jax.numpy as jnp
import numpy as np

from dpbt.base import GRID, Array, LossFamily, Public, Release, Tree, WeakLearner
from dpbt.learners import trees
from dpbt.learners.greedy_tree import (
    BY_DEPTH,
    TINY_PRIOR,
    AlphaOfLevel,
    Kind,
    Settings,
    Shares,
    SplitPrice,
    TreeBudget,
    default_settings,
    errors,
    gathered_splits,
    grow,
    link_values,
    public_alpha,
    split_events,
)
from dpbt.privacy import boundary, mechanisms, sensitivity
from dpbt.privacy.accounting import Event
from dpbt.privacy.mechanism import Allowance, Numbers, quotient_up, rounded_down

ALPHA_LEAK = "alpha of equation (16), a ratio of error counts read off the private rows"

PRICE = SplitPrice(
    bound=sensitivity.published_split,
    factor=2,
    moves=2,
    pays=lambda level: 2**level,
    moved=lambda level: 2**level,
    nodes="node by node",
    theorem="Thm 3, eq. (15), (17)",
)
"""Node by node: scores that move by at most the bound, either way, so their range is twice that."""


def private_objective(draw: boundary.Draw, budget: TreeBudget) -> AlphaOfLevel:
    """Objective calibration as published, equation (16): alpha_k = errors_k / errors_0, exact.

    Level by level, where the paper goes leaf by leaf. Without an error at the root, alpha is 1 at
    the root and 0 below.
    """
    del draw, budget
    exact_errors: list[Array] = []

    def alpha(level: int, totals: Array) -> Array:
        exact_errors.append(errors(totals).astype(jnp.float32))
        if level == 0:
            return jnp.float32(1)
        return exact_errors[-1] / jnp.maximum(exact_errors[0], 1)

    return alpha


def leaf_range(step: Numbers, clip: Numbers) -> np.ndarray:
    """f64[...]: 2 a M^2, the range of a leveraged leaf value, of numbers rounded to float32."""
    step, clip = np.asarray(step, np.float32), np.asarray(clip, np.float32)
    return 2 * (step * clip**2).astype(np.float64)


def _leaf_sensitivity(widest: Numbers, leaf_step: Numbers) -> np.ndarray:
    """f64[...]: the range of a leaf in steps of its grid, and one step for rounding to the grid."""
    return np.floor(np.asarray(widest, np.float64) / np.asarray(leaf_step, np.float64)) + 1


def _leaf_step(widest: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    """The grid of leaf values: a power of two, far finer than their range and their noise.

    At most 2**-12 of the range or of the noise's scale, whichever is smaller, but not so fine that
    the noise has a scale of more than 2**31 steps, or a value lies beyond 2**29 steps.
    """
    scale = widest / np.where(np.isfinite(epsilon), epsilon, 2.0**12)
    step = np.minimum(widest, scale) * 2.0**-12
    step = np.maximum(np.maximum(step, scale * 2.0**-31), widest * 2.0**-29)
    return 2.0 ** np.floor(np.log2(step))


def calibrate(
    kind: Kind,
    shares: Shares,
    settings: Settings,
    allowance: Allowance,
    rounds: Numbers,
    public: Public,
) -> TreeBudget:
    """The paper's budget: equal shares of depths among their nodes, and of all leaves.

    Args: as `greedy_tree.calibrate`.
    """
    del public
    depth = kind.depth
    tree = allowance.part(1 / np.asarray(rounds))
    level_epsilon = tree.part(np.asarray(shares.structure) / depth).epsilon
    leaf = tree.part((1 - np.asarray(shares.structure)) / 2**depth)

    step, clip = rounded_down(settings.step), rounded_down(settings.clip)
    widest = leaf_range(step, clip)
    leaf_step = _leaf_step(widest, leaf.epsilon)
    noise_steps = kind.noise.scale(_leaf_sensitivity(widest, leaf_step), leaf)
    return TreeBudget(
        split_epsilon=rounded_down(level_epsilon[..., None] / 2.0 ** np.arange(depth)),
        error_scale=np.zeros(()),
        leaf_scale=quotient_up(noise_steps.astype(np.float64) * leaf_step, 1.0),
        leaf_step=leaf_step,
        **settings._replace(step=step, clip=clip)._asdict(),
    )


def program(
    kind: Kind,
    draw: boundary.Draw,
    table: trees.Prepared,
    weights: Array,
    budget: TreeBudget,
    public: Public,
) -> None:
    """Splits level by level, and leveraged leaf values in steps of their grid."""
    rule = private_objective if kind.objective else public_alpha
    totals = grow(draw, table, weights, budget, public, kind.criterion, rule, PRICE.temperature)
    counts = totals.astype(jnp.float32) * (public.cap / GRID)
    share = trees.shrink_to_parents(counts, jnp.float32(TINY_PRIOR))
    value = link_values(kind.link, budget, share)

    rows = jnp.maximum(jnp.sum(table.present.astype(jnp.float32)), 1)
    leverage = budget.step * jnp.sum((counts[:, 1] - counts[:, 0]) * value) / rows
    largest = budget.step * budget.clip**2
    steps = jnp.round(jnp.clip(leverage * value, -largest, largest) / budget.leaf_step)
    scale = jnp.asarray(budget.leaf_scale / budget.leaf_step)
    draw("leaf", kind.noise, steps.astype(jnp.int32), scale)


def hypothesis(kind: Kind, release: Release, budget: TreeBudget, public: Public) -> Tree:
    """The tree: noisy leaf values, clamped to their range again."""
    del kind, public
    largest = budget.step * budget.clip**2
    value = release["leaf"].astype(jnp.float32) * budget.leaf_step
    return Tree(gathered_splits(release), jnp.clip(value, -largest, largest))


def events(kind: Kind, budget: TreeBudget, public: Public) -> list[Event]:
    """The splits of each level, node by node, and the leaves, leaf by leaf."""
    lines = split_events(PRICE, budget, public, kind.objective, kind.criterion)
    leaf_step = np.asarray(budget.leaf_step, np.float64)
    leaves = Event(
        "leaf",
        kind.noise,
        "leveraged values in steps, leaf by leaf",
        sensitivity=_leaf_sensitivity(leaf_range(budget.step, budget.clip), leaf_step),
        scale=np.asarray(budget.leaf_scale, np.float64) / leaf_step,
        theorem="section 6, leaves",
        count=2**kind.depth,
        moved=2**kind.depth,
    )
    return [*lines, leaves]


@functools.cache
def published_greedy_tree(
    depth: int, criterion: LossFamily, link: LossFamily, objective: bool
) -> WeakLearner:
    """The paper's calibration: a release of 2**D - 1 splits and 2**D leveraged leaf values.

    Guarantee claimed by the paper, for neighbours that differ by one example (so under both
    relations): node budgets add up over all nodes; leaf budgets add up over all leaves. The paper
    says how nodes share their budget and is silent on leaves; as every row moves beta_t, and with
    it the value of every leaf, the leaves' budgets must add up to the tree's. They are equal here,
    as the paper has it for forests (section 17.2).

    The leverage is folded into the leaf before the noise, so the value is in [-a M**2, a M**2] and
    the Laplace scale is 2 a M**2 / epsilon of a leaf; afterwards it is clamped to that range again.
    The link is clamped to [-M, M] before the noise, which the paper's description leaves to
    afterwards; without it the scale would be too small for the claim. Values are put on a public
    grid of steps `leaf_step`, to which the noise is drawn exactly; that enlarges the sensitivity of
    a value by one step.

    Args: as `greedy_tree.greedy_tree`, without the relation.
    """
    kind = Kind(depth, criterion, link, objective, None, mechanisms.discrete_laplace)
    shares, settings = kind.default_shares, default_settings(link, depth)
    return boundary.weak_learner(
        functools.partial(program, kind),
        functools.partial(hypothesis, kind),
        functools.partial(events, kind),
        trees.TREES,
        None,
        calibrate=functools.partial(calibrate, kind, shares, settings),
        by_depth=BY_DEPTH,
        unprotected=(ALPHA_LEAK,) if objective else (),
        tag=f"published_greedy_tree({kind.tag})",
    )
