"""A weak learner of one's own: a stump with one noisy leaf draw a round, boosted and audited.

Run it with `python docs/examples/own_learner.py`.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.base import GRID, Tree
from dpbt.data.domains import Nominal, Numeric
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms
from dpbt.privacy.accounting import Event

SPLIT = 4  # "age > 50": dpbt.domains.describe(domain, 4) says so
NOISE = mechanisms.discrete_laplace


class StumpBudget(NamedTuple):
    """The numbers that the noise needs: one scale."""

    leaf_scale: np.ndarray


def calibrate(allowance, rounds, public):
    """From the allowance of all rounds to the scale of one draw a round."""
    return StumpBudget(NOISE.scale(GRID, allowance.part(1 / rounds)))


def program(draw, table, weights, budget, public):
    """The private side: it sees rows, and everything it gives away goes through `draw`."""
    nodes = jnp.zeros(table.target.shape, jnp.int32)
    by_class = trees.weights_by_class(table, weights)
    products = trees.node_products(table, by_class, nodes, 1, None)
    split = jnp.full(1, SPLIT, jnp.int32)
    sides = trees.child_totals(products, trees.node_totals(by_class), split)
    draw("leaf", NOISE, sides, budget.leaf_scale)


def hypothesis(release, budget, public):
    """The public side: it sees only what was drawn."""
    noisy = release["leaf"]
    signs = jnp.sign(noisy[:, 1] - noisy[:, 0]).astype(jnp.float32)
    return Tree(jnp.full(1, SPLIT, jnp.int32), signs)


def events(budget, public):
    """One line of the ledger for each draw. A row changes one side's weight by at most GRID."""
    scale = budget.leaf_scale
    return [Event("leaf", NOISE, "class weights", GRID, scale, "a row is on one side", moved=1)]


stump = boundary.weak_learner(
    program, hypothesis, events, trees.TREES, "add_remove", calibrate=calibrate
)

if __name__ == "__main__":
    domain = {"age": Numeric(0, 100, bins=10), "job": Nominal(("clerk", "smith"))}
    rng = np.random.default_rng(0)
    rows = {"age": rng.uniform(20, 80, 500), "job": rng.choice(["clerk", "smith"], 500)}
    table = dpbt.table(domain, rows, rows["age"] > 50)

    recipe = dpbt.recipes.custom(stump, epsilon=1.0, rows=600, rounds=5)
    print(dpbt.ledger(recipe))
    model = dpbt.fit(dpbt.fresh_key(), table, recipe)
    print(dpbt.explain(model, domain))

    # The exact losses of 20 transcripts against all tables with one row less.
    near = dpbt.audit.neighbours(table, recipe.relation)
    print(dpbt.audit.audit(dpbt.fresh_key(), near, recipe, transcripts=20, steps=True))
