"""A weak learner that reads tables in blocks, saves its models, and has momentum.

It is the stump of `own_learner.py`. Run it with `python docs/examples/own_learner_advanced.py`.
"""

import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import optax

import dpbt
from dpbt.data.domains import Nominal, Numeric
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms
from dpbt.types import GRID, Tree

SPLIT = jnp.full(1, 4, jnp.int32)  # "age > 50": dpbt.domains.predicates(domain)[4].yes


def class_weights_of_sides(sums):
    """Map sums over rows to the statistic of the draw: the class weights of both sides."""
    products, totals = sums
    return trees.child_totals(products, totals, SPLIT)


def program(draw, table, weights, params, public):
    """The private side, which states its statistic as a sum over rows and a map of that sum."""
    by_class = trees.weights_by_class(table, weights)
    root = jnp.zeros(table.target.shape, jnp.int32)
    sums = (
        trees.split_weights_of_nodes(table, by_class, root, num_nodes=1),
        trees.root_class_weights(by_class),
    )
    draw(
        "leaf",
        mechanisms.discrete_laplace,
        boundary.RowSum(sums, class_weights_of_sides),
        sensitivity=GRID,
        moved_outputs=1,
        theorem="a row is on one side, so it changes one class weight",
    )


def hypothesis(release, params, public):
    """The public side: it sees only what was drawn."""
    noisy = release["leaf"]
    return Tree(SPLIT, jnp.sign(noisy[:, 1] - noisy[:, 0]).astype(jnp.float32))


stump = boundary.weak_learner(
    name="stump",
    program=program,
    hypothesis=hypothesis,
    kind=trees.TREES,
    fractions={"leaf": 1.0},
    relation="add_remove",
)

# The same stump with the momentum of optax, applied to leaves and not to splits.
only_leaves = Tree(split=False, leaf=True)  # type: ignore[arg-type]
momentum = optax.masked(optax.trace(0.9), only_leaves)
one_stump = trees.TREES.with_training(
    merge=lambda rounds, *_: Tree(rounds.split[:1], rounds.leaf.sum(axis=0, keepdims=True))
)
steady = boundary.weak_learner(
    name="stump with momentum",
    config=0.9,
    program=program,
    hypothesis=hypothesis,
    kind=one_stump,
    fractions={"leaf": 1.0},
    relation="add_remove",
    optimizer=lambda params: momentum,
)

if __name__ == "__main__":
    domain = {"age": Numeric(0, 100, bins=10), "job": Nominal(("clerk", "smith"))}
    rng = np.random.default_rng(0)
    rows = {"age": rng.uniform(20, 80, 500), "job": rng.choice(["clerk", "smith"], 500)}
    table = dpbt.table(domain, rows, rows["age"] > 50)

    # The same release from a table in memory and in blocks, and the model as a file.
    recipe = dpbt.recipes.custom(stump, epsilon=1.0, rows=600, rounds=5)
    print(dpbt.ledger(recipe))
    key = dpbt.fresh_key()
    model = dpbt.fit(key, table, recipe)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        blocks = dpbt.convert.convert_columns(domain, rows, rows["age"] > 50, folder / "blocks")
        in_blocks = dpbt.fit(key, blocks, recipe)
        np.testing.assert_array_equal(in_blocks.hypotheses.leaf, model.hypotheses.leaf)
        dpbt.save(model, folder / "model.json", domain=domain)
        print(dpbt.load(folder / "model.json").predict({"age": [70], "job": ["smith"]}))

    # With momentum.
    recipe = dpbt.recipes.custom(steady, epsilon=1.0, rows=600, rounds=5)
    print(dpbt.explain(dpbt.fit(dpbt.fresh_key(), table, recipe), domain))
