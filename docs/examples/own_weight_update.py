"""A weight update of your own: exponential weights that stop at 1.

Run it with `python docs/examples/own_weight_update.py`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import weighting
from dpbt.learners.trees import rule
from dpbt.types import ADD_REMOVE, Numbers, WeightUpdate


class Rate(NamedTuple):
    """The traced numbers of the weight update."""

    rate: Numbers


def weigh(score, bound, table, public):
    """min(1, exp(-rate y H)): a row's own score and label, and public numbers alone."""
    margin = jnp.where(table.target, score, -score)
    weight = jnp.exp(-jnp.maximum(public.weight_params.rate * margin, 0))
    return weighting.on_grid(weight, jnp.float32(1))  # 1 is the public cap of every weight


stopped = WeightUpdate(identity="exponential up to 1", coupled=False, weigh=weigh, params_type=Rate)

recipe = dpbt.recipes.custom(
    rule.one_rule(ADD_REMOVE),
    epsilon=1.0,
    rows=600,
    rounds=5,
    weight_update=stopped,
    weighting=Rate(0.5),
)
print(dpbt.ledger(recipe))

# A made-up table, of which the first 20 rows are a table to audit.
domain = {"age": dpbt.domains.Numeric(0, 100, bins=4), "member": dpbt.domains.Boolean("yes", "no")}
rng = np.random.default_rng(0)
columns = {"age": rng.uniform(0, 100, 600), "member": rng.choice(["yes", "no"], 600)}
table = dpbt.table(domain, columns, columns["age"] > 50)
few = dpbt.table(domain, {name: bins[:20] for name, bins in columns.items()}, rng.random(20) > 0.5)

model = dpbt.fit(dpbt.fresh_key(), table, recipe)
print(dpbt.explain(model, domain))

near = dpbt.audit.neighbours(few, recipe.relation)
print(dpbt.audit.audit_transcripts(dpbt.fresh_key(), near, recipe, num_transcripts=20))

# Record a transcript, and ask how likely it is on a neighbour.
boosted = jax.jit(dpbt.boost)(dpbt.fresh_key(), table, recipe)
replay = jax.jit(dpbt.replay)
here = replay(boosted.transcript, table, recipe).log_prob["rule"]
without_first = table._replace(present=table.present.at[0].set(False))
there = replay(boosted.transcript, without_first, recipe).log_prob["rule"]
loss = abs(float(jnp.sum(here - there)))
print(f"the transcript tells the tables apart by {loss:.3f}")
assert loss <= dpbt.ledger(recipe).epsilon

# The model of what `boost` returned, which predicts other rows.
model = boosted.model(table, recipe)
new = dpbt.domains.encode(domain, {"age": [30, 70], "member": ["yes", "no"]})
print(dpbt.predict(model, new), dpbt.decision_function(model, new))
