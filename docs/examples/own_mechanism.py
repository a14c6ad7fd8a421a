"""A mechanism of one's own: randomised response, which releases the sign of each leaf of a stump.

Run it with `python docs/examples/own_mechanism.py`.
"""

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.data.domains import Nominal, Numeric
from dpbt.learners import trees
from dpbt.privacy import boundary
from dpbt.privacy.mechanism_prices import PURE
from dpbt.privacy.mechanism_types import Mechanism, WorstCaseLoss
from dpbt.types import Tree


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
    epsilon = jnp.sum(jnp.maximum(*ratios))
    return WorstCaseLoss(epsilon, epsilon**2 / 2)  # pure epsilon costs epsilon^2 / 2 of zCDP


# Without a proved bound on the sampler, every ledger says so.
randomised_response = Mechanism("randomised response", sample, log_prob, divergence, PURE)

SPLIT = 4  # "age > 50"


def program(draw, table, weights, params, public):
    """Which class is heavier in each leaf. A row is in one leaf, so it flips at most one bit."""
    nodes = jnp.zeros(table.target.shape, jnp.int32)
    by_class = trees.weights_by_class(table, weights)
    products = trees.split_weights_of_nodes(table, by_class, nodes, num_nodes=1)
    split = jnp.full(1, SPLIT, jnp.int32)
    sides = trees.child_totals(products, trees.root_class_weights(by_class), split)
    heavier = (sides[:, 1] > sides[:, 0]).astype(jnp.int32)
    proof = "a row is in one leaf"
    draw("bit", randomised_response, heavier, sensitivity=1, moved_outputs=1, theorem=proof)


def hypothesis(release, params, public):
    """The stump of the released bits."""
    return Tree(jnp.full(1, SPLIT, jnp.int32), 2 * release["bit"].astype(jnp.float32) - 1)


stump = boundary.weak_learner(
    name="stump of bits",
    program=program,
    hypothesis=hypothesis,
    kind=trees.TREES,
    fractions={"bit": 1.0},
    relation="add_remove",
)

if __name__ == "__main__":
    # Bits that differ in one place, at two scales: sampler, density, divergence and price.
    bits = jnp.zeros(2, jnp.int32)
    pairs = [(bits, bits.at[1].set(1))]
    print(dpbt.audit.check_mechanism(randomised_response, pairs, scales=[0.5, 2.0]))

    domain = {"age": Numeric(0, 100, bins=10), "job": Nominal(("clerk", "smith"))}
    rng = np.random.default_rng(0)
    rows = {"age": rng.uniform(20, 80, 500), "job": rng.choice(["clerk", "smith"], 500)}
    table = dpbt.table(domain, rows, rows["age"] > 50)

    recipe = dpbt.recipes.custom(stump, epsilon=2.0, rows=600, rounds=1)
    print(dpbt.ledger(recipe))
    print(dpbt.explain(dpbt.fit(dpbt.fresh_key(), table, recipe), domain))
