"""A loss of one's own: the spherical loss, as the criterion of splits and as what is boosted.

Run it with `python docs/examples/own_loss.py`.
"""

import math

import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.data.domains import Nominal, Numeric
from dpbt.learners.trees import rule
from dpbt.types import ADD_REMOVE, ProperLoss

# The Bayes risk is L(u) = SCALE (1 - sqrt(u^2 + (1 - u)^2)), so that L(1/2) = 1.
SCALE = 1 / (1 - math.sqrt(0.5))


def bayes_risk(u):
    """L(u), for u in [0, 1]."""
    return SCALE * (1 - jnp.hypot(u, 1 - u))


def link(u):
    """The canonical link, -L'(u)."""
    return SCALE * (2 * u - 1) / jnp.hypot(u, 1 - u)


def inverse_link(z):
    """A probability for every real score: 0 and 1 beyond the range of the link."""
    v = jnp.clip(z / SCALE, -1, 1) / math.sqrt(2)
    return (1 + v / jnp.sqrt(1 - v**2)) / 2


def surrogate(z):
    """The convex loss F of a margin, with F'(z) = -inverse_link(-z)."""
    v = jnp.clip(z / SCALE, -1, 1) / math.sqrt(2)
    curved = SCALE * (1 - jnp.sqrt((1 - v**2) / 2)) - z / 2
    return jnp.where(jnp.abs(z) < SCALE, curved, jnp.maximum(-z, 0))


def perspective(w1, w0):
    """(w1 + w0) L(w1 / (w1 + w0)), written without a difference."""
    total = w1 + w0 + jnp.hypot(w1, w0)
    return 2 * SCALE * w1 * w0 / jnp.where(total > 0, total, 1)


spherical = ProperLoss(
    name="spherical",
    bayes_risk=bayes_risk,
    link=link,
    inverse_link=inverse_link,
    surrogate=surrogate,
    perspective=perspective,
    smoothness=1 / SCALE,  # the largest second derivative of the surrogate
)

# From here on it is used like any loss of dpbt.losses.
domain = {"age": Numeric(0, 100, bins=10), "job": Nominal(("clerk", "smith"))}
rng = np.random.default_rng(0)
rows = {"age": rng.uniform(20, 80, 2000), "job": rng.choice(["clerk", "smith"], 2000)}
member = (rows["age"] > 50) & (rows["job"] == "smith")
table = dpbt.table(domain, rows, member)

recipe = dpbt.recipes.bdpe(epsilon=1.0, rows=2500, rounds=3, depth=2, criterion=spherical)
print(dpbt.ledger(recipe))
model = dpbt.fit(dpbt.fresh_key(), table, recipe)
print("error on the rows:", np.mean(dpbt.predict(model, table) != member))

# A file holds the name of the loss and no function, so the loss comes from the caller again.
dpbt.save(model, "own_loss.json")
loaded = dpbt.load("own_loss.json", loss=spherical)
print(dpbt.predict_proba(loaded, table)[0])

# A family of losses. Its alpha is a number of the weight update, which is traced.
family = dpbt.losses.m_alpha
recipe = dpbt.recipes.custom(
    rule.one_rule(ADD_REMOVE),
    epsilon=1.0,
    rows=2500,
    rounds=5,
    weight_update=dpbt.weighting.mirror(family),
    weighting=dpbt.weighting.MirrorNumbers(link_alpha=np.float32(0.5)),
    loss=family,
)
print(dpbt.predict_proba(dpbt.fit(dpbt.fresh_key(), table, recipe), table)[0])
