"""Forests of random trees: all trees at once, three voting rules, and what the trees of a data set are like.

`fit` learns what `boosting.fit` learns under the same key, but as trees do not wait for each other, in batches. Voting
is post-processing of the released leaves: majority voting, threshold averaging and probabilistic averaging of
Bojarski et al. (2014), Algorithms 1 and 2.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import boosting, checks, keys
from dpbt.base import Array, Model, Recipe, Release, Table, WeakLearner, Weights
from dpbt.learners import random_tree
from dpbt.learners.random_tree import Grove
from dpbt.questions import positions_of

VOTINGS = ("majority", "threshold", "probabilistic")


def grow(key: Array, table: Table, recipe: Recipe, public_key: Array, batch: int = 8) -> tuple[Release, Grove]:
    """The releases and trees of `boosting.boost` under the same key, in batches; pure and traceable.

    The guarantee is that of `dpbt.ledger(recipe)`. The key is a secret of the release.

    Args:
        key: a typed key, of the noise; see `keys`.
        table: N rows.
        recipe: one setting of a recipe whose rounds do not depend on each other, such as `recipes.random_forest`.
        public_key: a typed key that is independent of `key`, of the trees' structure.
        batch: how many trees are grown side by side; the result does not depend on it.
    """
    prepared = boosting.prepared_table(table, recipe)
    weights = recipe.reweighter.weights(*boosting.start(prepared), prepared, recipe.budget)

    def one(counted):
        t, (round_key, public_round_key) = counted
        release = recipe.learner.release(round_key, public_round_key, prepared, weights, recipe.budget)
        tree = recipe.learner.hypothesis(release, recipe.budget, weights.unit)
        return jax.tree.map(lambda x: jnp.where(t < recipe.rounds, x, jnp.zeros((), x.dtype)), (release, tree))

    entries = boosting.key_pairs(key, public_key, recipe)
    rounds = jnp.arange(recipe.capacity, dtype=jnp.int32), entries
    return jax.lax.map(one, rounds, batch_size=min(batch, recipe.capacity))


_grow = jax.jit(grow, static_argnames="batch")


@functools.cache
def _leaves(learner: WeakLearner) -> int:
    """How many leaves one round of a learner of groves has, found by abstract evaluation."""
    rows = random_tree.prepare(random_tree.GROVES.example())
    weights, budget = Weights(jnp.zeros(1), jnp.float32(1)), random_tree.ForestBudget(jnp.float32(1), jnp.float32(1))
    key = jax.random.key(0)
    shapes = jax.eval_shape(lambda: learner.release(key, key, rows, weights, budget))
    parts, nodes = shapes["threshold"].shape
    return parts * (nodes + 1)


def fit(
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None = None,
    memory_mb: float = 256,
    *,
    sample_weight: Any = None,
    keep_withheld: bool = False,
) -> Model:
    """Learn a random forest. The model is a function of noisy releases alone; see `dpbt.ledger(recipe)`.

    Args:
        key: one typed key, a secret; see `boosting.fit`.
        table: from `dpbt.table`, of cells or, with `exact`, of positions f32[N, A].
        recipe: one setting, from `recipes.random_forest`, `rf_l` or `rf_e`.
        public_key: one typed key that is independent of `key`, of the trees' structure.
        memory_mb: roughly how much memory the trees in the making may take, beside the table and the model.
        sample_weight: not supported.
        keep_withheld: as `boosting.fit`.

    Raises:
        ValueError: if any of these is not so. Of private things only the number of present rows is
            raised on (`checks.check`); no cell and no length of the table is shown.
    """
    if recipe.learner.hypotheses is not random_tree.GROVES:
        raise ValueError(f"forests.fit takes a recipe of random trees, got {recipe.name}")
    checks.refuse_sample_weight(sample_weight)
    table = checks.on_device(table)
    checks.check(key, table, recipe, public_key)
    keys.warn_of_research(key)
    each = 64 * table.target.shape[0] + 512 * _leaves(recipe.learner)
    batch = int(np.clip(memory_mb * 2**20 / each, 1, 64))
    releases, trees = _grow(key, table, recipe, public_key, batch=batch)
    if not keep_withheld:
        releases = boosting.published(releases, recipe.learner)
    return boosting.model_of(trees, releases, recipe, table)


def theta(trees: Grove, positions: Array) -> Array:
    """f32[k, N]: the share of the positive class that each tree's leaf states for each row.

    Args:
        trees: a Grove with any leading axes, such as `Model.trees`; NaN for rounds that did not take place.
        positions: f32[N, A] or bool[N, A].
    """
    grown = trees.grown.reshape(-1)
    attribute, threshold, leaf = (array.reshape(-1, array.shape[-1]) for array in trees[:3])
    flat = Grove(attribute, threshold, leaf, grown)
    shares = random_tree.leaf_shares(flat, jnp.asarray(positions).astype(jnp.float32))
    return jnp.where(grown[:, None] > 0, shares, jnp.nan)


def vote(shares: Array, voting: str, key: Array | None = None) -> Array:
    """bool[...]: the forest's answers from theta f32[k, ...]; post-processing.

    "majority": more than half of the trees have theta above 1/2. "threshold": the mean of theta is above 1/2.
    "probabilistic": positive with probability the mean of theta, by independent coins from `key`, which
    must be independent of the noise's key, as votes are published. Ties are
    negative. Bojarski et al. (2014), Algorithm 1. Trees whose theta is NaN do not count.

    Raises:
        ValueError: for another rule, or a probabilistic vote without a key.
    """
    if voting == "majority":
        return 2 * jnp.sum(shares > 0.5, axis=0) > jnp.sum(~jnp.isnan(shares), axis=0)
    mean = jnp.nanmean(shares, axis=0)
    if voting == "threshold":
        return mean > 0.5
    if voting == "probabilistic":
        if key is None:
            raise ValueError("a probabilistic vote needs a key")
        return jax.random.uniform(key, mean.shape, mean.dtype) < mean
    raise ValueError(f"voting must be one of {VOTINGS}, got {voting!r}")


@jax.jit
def _table_theta(trees: Grove, table: Table) -> Array:
    return theta(trees, positions_of(table))


def predict(
    model: Model,
    rows: Array | Table,
    voting: str = "majority",
    key: Array | None = None,
) -> Array:
    """bool[N]: the answer for each row.

    Args:
        model: from `fit` (or `boosting.fit`) of a random forest.
        rows: as `boosting.decision_function` takes them.
        voting: as `vote`.
        key: for a probabilistic vote.

    Raises:
        ValueError: as `boosting.decision_function`, or as `vote`.
    """
    return vote(_shares(model, rows), voting, key)


def predict_proba(model: Model, rows: Array | Table) -> Array:
    """f32[N]: the mean of theta over the trees.

    Rows are as `boosting.decision_function` takes them, which says what is refused.
    """
    return jnp.nanmean(_shares(model, rows), axis=0)


def _shares(model: Model, rows: Array | Table) -> Array:
    """f32[k, N]: `theta` of rows that the model reads."""
    table = checks.rows_for(model, rows)
    model.recipe.learner.hypotheses.check(table)
    return _table_theta(model.trees, table)


class Structure(NamedTuple):
    """Public randomness of a tree of height H, and with it of one of every height up to H.

    Attributes:
        attribute: i32[2**H - 1], heap order.
        threshold: f32[2**H - 1].
    """

    attribute: Array
    threshold: Array


def structure(key: Array, depth: int, attributes: int) -> Structure:
    """A random structure of height H over A attributes, distributed as the learner draws it; sees no rows."""
    first, second = jax.random.split(key)
    nodes = (2**depth - 1,)
    return Structure(jax.random.randint(first, nodes, 0, attributes), jax.random.uniform(second, nodes))


def weights_at_all_heights(tree: Structure, rows: random_tree.Positions) -> tuple[Array, Array]:
    """Nodes and class counts of one tree at every height 0..H, in heap order: node i of level h is at 2**h - 1 + i.

    A random tree of height h is the top of a taller one, so one descent serves all heights, and the counts of a node
    are the sums of its children's.

    Args:
        tree: the structure.
        rows: from `random_tree.prepare`.

    Returns:
        i32[H + 1, N], the heap index of each row's node at each height, absent rows' too; and i32[2**(H + 1) - 1, 2],
        the present rows of each node and class. Both are private.
    """
    everyone = jnp.zeros(rows.target.shape[0], jnp.int32)
    node = random_tree.descend(tree.attribute[None], tree.threshold[None], rows.position, everyone)
    depth = node.shape[0]
    here = rows.present.astype(jnp.int32)
    count = random_tree.leaf_weights(node[-1], rows.target, here, 2**depth)
    levels = [count]
    for _ in range(depth):
        levels.append(levels[-1].reshape(-1, 2, 2).sum(axis=1))
    first = 2 ** (jnp.arange(depth, dtype=jnp.int32) + 1) - 1
    return jnp.concatenate([everyone[None], node + first[:, None]]), jnp.concatenate(levels[::-1])
