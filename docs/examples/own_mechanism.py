"""A mechanism of one's own: randomised response, which releases the sign of each leaf of a stump.

Run it with `python docs/examples/own_mechanism.py`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.base import Tree
from dpbt.data.domains import Nominal, Numeric
from dpbt.learners import trees
from dpbt.privacy import boundary
from dpbt.privacy.accounting import Event
from dpbt.privacy.mechanism import Mechanism
from dpbt.privacy.mechanisms import prices


def sample(key, bit, scale):
    """Keep each bit, 0 or 1, with probability 1 / (1 + exp(-1 / scale)), and else flip it."""
    kept = jax.random.uniform(key, jnp.shape(bit), jnp.float32) < jax.nn.sigmoid(1 / scale)
    return jnp.where(kept, bit, 1 - bit)


def log_prob(output, bit, scale):
    """The exact log probability of each output bit."""
    return jax.nn.log_sigmoid(jnp.where(output == bit, 1 / scale, -1 / scale))


def divergence(bit, scale, other_bit, other_scale):
    """The largest absolute log ratio over all outputs, added over independent draws."""
    ratios = [
        jnp.abs(log_prob(output, bit, scale) - log_prob(output, other_bit, other_scale))
        for output in (0, 1)
    ]
    return jnp.sum(jnp.maximum(*ratios))


def rho(*arguments):
    """Pure epsilon costs epsilon^2 / 2 of zCDP."""
    return divergence(*arguments) ** 2 / 2


# Without a proved bound on the sampler, every ledger says so.
randomised_response = Mechanism(
    "randomised response", sample, log_prob, divergence, rho, prices.PURE
)

SPLIT = 4  # "age > 50"


class BitBudget(NamedTuple):
    """The numbers that the noise needs: one scale."""

    bit_scale: np.ndarray


def calibrate(allowance, rounds, public):
    """From the allowance of all rounds to the scale of one draw a round."""
    return BitBudget(randomised_response.scale(1, allowance.part(1 / rounds)))


def program(draw, table, weights, budget, public):
    """Which class is heavier in each leaf. A row is in one leaf, so it flips at most one bit."""
    nodes = jnp.zeros(table.target.shape, jnp.int32)
    by_class = trees.weights_by_class(table, weights)
    products = trees.node_products(table, by_class, nodes, 1, None)
    split = jnp.full(1, SPLIT, jnp.int32)
    sides = trees.child_totals(products, trees.node_totals(by_class), split)
    heavier = (sides[:, 1] > sides[:, 0]).astype(jnp.int32)
    draw("bit", randomised_response, heavier, budget.bit_scale)


def hypothesis(release, budget, public):
    """The stump of the released bits."""
    return Tree(jnp.full(1, SPLIT, jnp.int32), 2 * release["bit"].astype(jnp.float32) - 1)


def events(budget, public):
    """One line of the ledger: a row flips at most one bit, by 1."""
    scale = budget.bit_scale
    proof = "a row is in one leaf"
    return [Event("bit", randomised_response, "heavier class", 1, scale, proof, moved=1)]


stump = boundary.weak_learner(
    program, hypothesis, events, trees.TREES, "add_remove", calibrate=calibrate
)

if __name__ == "__main__":
    domain = {"age": Numeric(0, 100, bins=10), "job": Nominal(("clerk", "smith"))}
    rng = np.random.default_rng(0)
    rows = {"age": rng.uniform(20, 80, 500), "job": rng.choice(["clerk", "smith"], 500)}
    table = dpbt.table(domain, rows, rows["age"] > 50)

    recipe = dpbt.recipes.custom(stump, epsilon=2.0, rows=600, rounds=1)
    print(dpbt.ledger(recipe))
    print(dpbt.explain(dpbt.fit(dpbt.fresh_key(), table, recipe), domain))
