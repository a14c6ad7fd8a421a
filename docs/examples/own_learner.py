"""A weak learner of one's own: a stump with one noisy draw a round, boosted and audited.

Run it with `python docs/examples/own_learner.py`.
"""

import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.data.domains import Nominal, Numeric
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms
from dpbt.types import GRID, Tree

SPLIT = jnp.full(1, 4, jnp.int32)  # "age > 50": dpbt.domains.predicates(domain)[4].yes


def program(draw, table, weights, params, public):
    """The private side: it sees the rows and releases values only through `draw`."""
    by_class = trees.weights_by_class(table, weights)
    root = jnp.zeros(table.target.shape, jnp.int32)
    products = trees.split_weights_of_nodes(table, by_class, root, num_nodes=1)
    draw(
        "leaf",
        mechanisms.discrete_laplace,
        trees.child_totals(products, trees.root_class_weights(by_class), SPLIT),
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
    fractions={"leaf": 1.0},  # each draw's share of the budget
    relation="add_remove",
)

if __name__ == "__main__":
    domain = {"age": Numeric(0, 100, bins=10), "job": Nominal(("clerk", "smith"))}
    rng = np.random.default_rng(0)
    rows = {"age": rng.uniform(20, 80, 500), "job": rng.choice(["clerk", "smith"], 500)}
    table = dpbt.table(domain, rows, rows["age"] > 50)

    recipe = dpbt.recipes.custom(stump, epsilon=1.0, rows=600, rounds=5)
    print(dpbt.ledger(recipe))
    print(dpbt.explain(dpbt.fit(dpbt.fresh_key(), table, recipe), domain))

    # Twelve made-up rows against all their neighbours, a search for worse pairs, and the noise.
    few = {name: cells[:12] for name, cells in rows.items()}
    small = dpbt.table(domain, few, few["age"] > 50)
    print(dpbt.audit.check_learner(stump, small))
