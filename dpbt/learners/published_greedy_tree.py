"""Greedy trees as published: Nock & Henecka (2020), section 6.

Splits have the exponent eps / (2 max{3, 1 + f(1, m)}) with the node budgets of equation (17). The
alpha of equation (16) is read off the data. Leveraged links have discrete Laplace noise.
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
from dpbt.losses import check_criterion
from dpbt.privacy import boundary, mechanisms, sensitivity
from dpbt.privacy.accounting import Event
from dpbt.privacy.mechanism import Allowance, Numbers, quotient_up, rounded_down

ALPHA_LEAK = "alpha of equation (16) is a ratio of error counts, read off the private rows"

PRICE = SplitPrice(
    bound=sensitivity.published_split,
    factor=2,
    moves=2,
    pays=lambda level: 2**level,
    moved=lambda level: 2**level,
    nodes="each node paid for",
    theorem="Nock & Henecka (2020), Thm 3, eq. (15), (17)",
)
"""Each node is paid for. Its scores move by at most the bound either way, a range of twice that."""


def private_objective(draw: boundary.Draw, budget: TreeBudget) -> AlphaOfLevel:
    """Objective calibration as published, equation (16): alpha_k = errors_k / errors_0, exact.

    Alpha changes with the level, where the paper changes it leaf by leaf. Without an error at the
    root, alpha is 1 at the root and 0 below.
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
    """f64[...]: 2 a M^2, the range of a leveraged leaf value, for numbers rounded to float32."""
    step, clip = np.asarray(step, np.float32), np.asarray(clip, np.float32)
    return 2 * (step * clip**2).astype(np.float64)


def _leaf_sensitivity(widest: Numbers, leaf_step: Numbers) -> np.ndarray:
    """f64[...]: the range of a leaf in steps of its grid, plus one step for rounding to it."""
    return np.floor(np.asarray(widest, np.float64) / np.asarray(leaf_step, np.float64)) + 1


def _leaf_step(widest: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    """The grid of leaf values: a power of two, far finer than their range and their noise.

    A step is at most 2^-12 of the range or of the noise's scale, whichever is smaller. But it is
    coarse enough that the noise has a scale of at most 2^31 steps, and no value lies beyond 2^29
    steps.
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
    """The paper's budget: the nodes of a depth share it equally, and so do all leaves.

    The arguments are those of `greedy_tree.calibrate`.
    """
    del public

    # The allowance of a tree: an equal share for each depth, and one for each leaf.
    depth = kind.depth
    tree = allowance.part(1 / np.asarray(rounds))
    level_epsilon = tree.part(np.asarray(shares.structure) / depth).epsilon
    leaf = tree.part((1 - np.asarray(shares.structure)) / 2**depth)

    # The grid of leaf values, and their noise in steps of it.
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
    """Draw splits level by level, and leveraged leaf values in steps of their grid."""
    # Private splits; the leaves' class weights are exact here.
    rule = private_objective if kind.objective else public_alpha
    totals = grow(draw, table, weights, budget, public, kind.criterion, rule, PRICE.temperature)

    # The link of each leaf's share, times the leverage of the tree.
    counts = totals.astype(jnp.float32) * (public.cap / GRID)
    share = trees.shrink_to_parents(counts, jnp.float32(TINY_PRIOR))
    value = link_values(kind.link, budget, share)

    rows = jnp.maximum(jnp.sum(table.present.astype(jnp.float32)), 1)
    leverage = budget.step * jnp.sum((counts[:, 1] - counts[:, 0]) * value) / rows

    # Noise on values in steps of their grid.
    largest = budget.step * budget.clip**2
    steps = jnp.round(jnp.clip(leverage * value, -largest, largest) / budget.leaf_step)
    scale = jnp.asarray(budget.leaf_scale / budget.leaf_step)
    draw("leaf", kind.noise, steps.astype(jnp.int32), scale)


def hypothesis(kind: Kind, release: Release, budget: TreeBudget, public: Public) -> Tree:
    """The tree: noisy leaf values, clamped to their range again."""
    del public
    largest = budget.step * budget.clip**2
    value = release["leaf"].astype(jnp.float32) * budget.leaf_step
    return Tree(gathered_splits(release, kind.depth), jnp.clip(value, -largest, largest))


def events(kind: Kind, budget: TreeBudget, public: Public) -> list[Event]:
    """The splits of each level and the leaves; each node and each leaf is paid for."""
    lines = split_events(PRICE, budget, public, kind.objective, kind.criterion)
    leaf_step = np.asarray(budget.leaf_step, np.float64)
    leaves = Event(
        "leaf",
        kind.noise,
        "leveraged leaf values, each leaf paid for",
        sensitivity=_leaf_sensitivity(leaf_range(budget.step, budget.clip), leaf_step),
        scale=np.asarray(budget.leaf_scale, np.float64) / leaf_step,
        theorem="Nock & Henecka (2020), section 6, leaves",
        count=2**kind.depth,
        moved=2**kind.depth,
        unit="step of the leaves' grid",
    )
    return [*lines, leaves]


@functools.cache
def published_greedy_tree(
    depth: int, criterion: LossFamily, link: LossFamily, objective: bool
) -> WeakLearner:
    """The paper's calibration: a release of 2^D - 1 splits and 2^D leveraged leaf values.

    Guarantee claimed by the paper, for neighbours that differ by one example, so under both
    relations: node budgets add up over all nodes, and leaf budgets add up over all leaves. The
    paper says how nodes share their budget, but not how leaves do. Every row moves beta_t, and with
    it the value of every leaf. So the leaves' budgets must add up to the tree's. They are equal
    here, as in the paper's forests (section 17.2).

    The leverage is folded into the leaf before the noise, so the value is in [-a M^2, a M^2].
    The Laplace scale is 2 a M^2 / epsilon of a leaf. After the noise the value is clamped to that
    range again. The link is clamped to [-M, M] before the noise. The paper's description does that
    afterwards, but then the scale would be too small for the claim. Values are put on a public grid
    of steps `leaf_step`, to which the noise is drawn exactly. That enlarges the sensitivity of a
    value by one step.

    The arguments are those of `greedy_tree.greedy_tree`, without the relation.
    """
    check_criterion(criterion)
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
