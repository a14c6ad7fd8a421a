"""A weak learner of one's own: a stump with one noisy leaf draw a round, boosted and audited.

Run it with `python docs/examples/own_learner.py`.
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


def of_sides(sums):
    """From sums over rows to what is drawn: the class weights of both sides of the split."""
    products, totals = sums
    return trees.child_totals(products, totals, SPLIT)


def program(draw, table, weights, params, public):
    """The private side: it sees rows, and everything it gives away goes through `draw`."""
    by_class = trees.weights_by_class(table, weights)
    root = jnp.zeros(table.target.shape, jnp.int32)
    sums = (
        trees.node_products(table, by_class, root, 1, None),
        trees.node_totals(by_class),
    )
    sides = boundary.Total(sums, of_sides)
    proof = "a row is on one side, so it changes one class weight"
    draw(
        "leaf", mechanisms.discrete_laplace, sides, sensitivity=GRID, moved_outputs=1, theorem=proof
    )


def hypothesis(release, params, public):
    """The public side: it sees only what was drawn."""
    noisy = release["leaf"]
    return Tree(SPLIT, jnp.sign(noisy[:, 1] - noisy[:, 0]).astype(jnp.float32))


fractions = {"leaf": 1.0}  # of the budget, for each draw
stump = boundary.weak_learner(
    name="stump",
    program=program,
    hypothesis=hypothesis,
    kind=trees.TREES,
    fractions=fractions,
    relation="add_remove",
)

if __name__ == "__main__":
    domain = {"age": Numeric(0, 100, bins=10), "job": Nominal(("clerk", "smith"))}
    rng = np.random.default_rng(0)
    rows = {"age": rng.uniform(20, 80, 500), "job": rng.choice(["clerk", "smith"], 500)}
    table = dpbt.table(domain, rows, rows["age"] > 50)

    recipe = dpbt.recipes.custom(stump, epsilon=1.0, rows=600, rounds=5)
    print(dpbt.ledger(recipe))
    key = dpbt.fresh_key()
    model = dpbt.fit(key, table, recipe)
    print(dpbt.explain(model, domain))

    # The same release from a table in blocks, and the model as a file.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        blocks = dpbt.convert.convert_columns(domain, rows, rows["age"] > 50, folder / "blocks")
        in_blocks = dpbt.fit(key, blocks, recipe)
        np.testing.assert_array_equal(in_blocks.hypotheses.leaf, model.hypotheses.leaf)
        dpbt.save(model, folder / "model.json", domain=domain)
        print(dpbt.load(folder / "model.json").predict({"age": [70], "job": ["smith"]}))

    # The exact losses of 20 transcripts against all tables with one row less.
    near = dpbt.audit.neighbours(table, recipe.relation)
    print(dpbt.audit.audit(dpbt.fresh_key(), near, recipe, transcripts=20, steps=True))

    # The same with momentum, as optax has it, of leaves and not of splits.
    leaves_alone = Tree(split=False, leaf=True)  # type: ignore[arg-type]
    momentum = optax.masked(optax.trace(0.9), leaves_alone)
    one_stump = trees.TREES.with_training(
        merge=lambda rounds, *_: Tree(rounds.split[:1], rounds.leaf.sum(axis=0, keepdims=True))
    )
    steady = boundary.weak_learner(
        name="stump with momentum",
        config=0.9,
        program=program,
        hypothesis=hypothesis,
        kind=one_stump,
        fractions=fractions,
        relation="add_remove",
        optimizer=lambda params: momentum,
    )
    recipe = dpbt.recipes.custom(steady, epsilon=1.0, rows=600, rounds=5)
    print(dpbt.explain(dpbt.fit(dpbt.fresh_key(), table, recipe), domain))
