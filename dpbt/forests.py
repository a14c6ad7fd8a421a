"""Forests of random trees: all trees at once, and statistics of the trees of a data set.

`fit` learns what `boosting.fit` learns under the same key. Trees do not wait for each other, so it
grows them in batches. `dpbt.predict` has the voting rules of Bojarski et al. (2014), Algorithms 1
and 2.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import boosting, checks, shapes
from dpbt.base import Array, Noise, Public, Recipe, Release, Table, Transcript, View, WeakLearner
from dpbt.learners import random_tree
from dpbt.learners.random_tree import Grove
from dpbt.privacy import boundary, keys
from dpbt.release.model import Model
from dpbt.reweighting import counted_weights
from dpbt.rounds import prepared_table
from dpbt.validate import flag, positive


def grow(
    key: Array, table: Table, recipe: Recipe, public_key: Array, batch: int = 8
) -> tuple[Release, Grove]:
    """The releases and trees of `boosting.boost` under the same key, in batches; traceable.

    The guarantee is that of `dpbt.ledger(recipe)`. The key is a secret of the release.

    Args:
        key: a typed key, of the noise; see `keys`.
        table: N rows.
        recipe: one setting of a recipe whose rounds do not depend on each other, such as
            `recipes.random_forest`.
        public_key: a typed key that is independent of `key`, of the trees' structure.
        batch: how many trees are grown side by side; the result does not depend on it.
    """
    prepared = prepared_table(table, recipe)
    learner, public = recipe.learner, recipe.public()
    score = jnp.zeros(prepared.present.shape, jnp.float32)
    weighted = recipe.reweighter.weigh(score, jnp.float32(0), prepared, public)
    public = public._replace(cap=weighted.cap)
    weights = counted_weights(weighted.weight, prepared)

    def one_round(numbered: tuple[Array, tuple[Array, Array]]) -> tuple[Release, Grove]:
        t, keys_of_round = numbered
        view = View(prepared, weights, recipe.budget, public)
        release = boundary.sample(learner.program, *keys_of_round, view)
        tree = learner.hypothesis(release, recipe.budget, public)
        return jax.tree.map(
            lambda x: jnp.where(t < recipe.rounds, x, jnp.zeros((), x.dtype)), (release, tree)
        )

    entries = boosting.key_pairs(key, public_key, recipe)
    rounds = jnp.arange(recipe.capacity, dtype=jnp.int32), entries
    return jax.lax.map(one_round, rounds, batch_size=min(batch, recipe.capacity))


_grow = jax.jit(grow, static_argnames="batch")


@functools.cache
def _leaves(learner: WeakLearner) -> int:
    """How many leaves one round of a learner of groves has, found by abstract evaluation."""
    rows = random_tree.prepare(random_tree.GROVES.example())
    scale, key = jnp.float32(1), jax.random.key(0)
    read = jnp.zeros(1), Noise({"leaf": scale}), Public(scale, scale, (), {})
    release = jax.eval_shape(lambda: boundary.sample(learner.program, key, key, View(rows, *read)))
    parts, nodes = release["threshold"].shape
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
    """Learn a random forest: a function of noisy releases alone; see `dpbt.ledger(recipe)`.

    Args:
        key: one typed key, a secret; see `boosting.fit`.
        table: from `dpbt.table`, of cells or, with `exact`, of positions f32[N, A].
        recipe: one setting, from `recipes.random_forest`, `rf_l` or `rf_e`.
        public_key: one typed key that is independent of `key`, of the trees' structure.
        memory_mb: roughly how much memory the trees of a batch may take, beside the table and the
            model.
        sample_weight: as `boosting.fit`.
        keep_withheld: as `boosting.fit`.

    Raises:
        ValueError: if any of these does not hold. Of what is private only the number of present
            rows is refused (`checks.check`). No cell and no length of the table is shown.
    """
    checks.refuse_sample_weight(sample_weight)
    model = learn(key, table, recipe, public_key, memory_mb, keep_withheld=keep_withheld)
    keys.warn_of_research(key)
    return model


def learn(
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None = None,
    memory_mb: float = 256,
    *,
    keep_withheld: bool = False,
) -> Model:
    """`fit` without its warning of a research key, for callers that warn in their own words.

    Args: as `fit`.

    Raises:
        ValueError: as `fit`.
    """
    flag("keep_withheld", keep_withheld)
    limit = float(positive("memory_mb", memory_mb))
    checks.check_run(table, recipe)
    if recipe.learner.hypotheses is not random_tree.GROVES:
        raise ValueError(f"forests.fit takes a recipe of random trees, got {recipe.name}")
    learner = recipe.learner
    once = learner.prologue is not None or learner.epilogue is not None
    if once or not recipe.independent:
        raise ValueError(
            "forests.fit grows trees side by side, and these wait for each other; use dpbt.fit"
        )
    checks.check_independent(recipe)
    table = checks.on_device(table)
    checks.check(key, table, recipe, public_key)

    tree_bytes = 64 * table.target.shape[0] + 512 * _leaves(recipe.learner)
    batch = int(np.clip(limit * 2**20 / tree_bytes, 1, 64))
    room = dataclasses.replace(recipe, capacity=shapes.bucket(recipe.capacity))
    releases, trees = _grow(key, shapes.padded(table), room, public_key, batch=batch)
    transcript, kind = Transcript({}, releases, {}), keys.kind(key)
    return boosting.model_of(trees, transcript, recipe, table, keep_withheld, kind)


class Structure(NamedTuple):
    """Public randomness of a tree of height H; its top is that of every lower tree.

    Attributes:
        attribute: i32[2^H - 1], heap order.
        threshold: f32[2^H - 1].
    """

    attribute: Array
    threshold: Array


def structure(key: Array, depth: int, attributes: int) -> Structure:
    """A structure of height H over A attributes, distributed as the learner draws it."""
    attribute_key, threshold_key = jax.random.split(key)
    nodes = (2**depth - 1,)
    return Structure(
        attribute=jax.random.randint(attribute_key, nodes, 0, attributes, jnp.int32),
        threshold=jax.random.uniform(threshold_key, nodes, jnp.float32),
    )


def weights_at_all_heights(tree: Structure, rows: random_tree.Positions) -> tuple[Array, Array]:
    """Nodes and class counts of one tree at every height 0..H.

    They are in heap order: node i of level h is at 2^h - 1 + i. A random tree of height h is the
    top of a taller one, so one descent serves all heights. The counts of a node are the sums of its
    children's counts.

    Args:
        tree: the structure.
        rows: from `random_tree.prepare`.

    Returns:
        i32[H + 1, N], the heap index of each row's node at each height, for absent rows, too.

        i32[2^(H + 1) - 1, 2], the present rows of each node and class. Both arrays are private.
    """
    root = jnp.zeros(rows.target.shape[0], jnp.int32)
    node = random_tree.descend(tree.attribute[None], tree.threshold[None], rows.position, root)
    depth = node.shape[0]

    present = rows.present.astype(jnp.int32)
    count = random_tree.leaf_weights(node[-1], rows.target, present, 2**depth)
    levels = [count]
    for _ in range(depth):
        levels.append(levels[-1].reshape(-1, 2, 2).sum(axis=1))

    first = 2 ** (jnp.arange(depth, dtype=jnp.int32) + 1) - 1
    return jnp.concatenate([root[None], node + first[:, None]]), jnp.concatenate(levels[::-1])
