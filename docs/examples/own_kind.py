"""A kind of hypothesis of one's own: a number for each of two centres, boosted and audited.

Run it with `python docs/examples/own_kind.py`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import weighting
from dpbt.data.domains import Numeric
from dpbt.privacy import boundary, mechanisms
from dpbt.types import GRID, HypothesisKind, Table, Training
from dpbt.weighting import MirrorNumbers

CENTRES = jnp.array([[2.0, 3.0], [7.0, 6.0]])  # public, in bins of the two columns


class Nearest(NamedTuple):
    """Two centres f32[2, F] and what each adds to the scores of the rows near it, f32[2]."""

    centres: jax.Array
    leaf: jax.Array


def nearest_centre(bins, centres):
    """i32[N]: the number of the centre that each row is nearest to."""
    squares = jnp.sum((bins[:, None, :].astype(jnp.float32) - centres[None]) ** 2, axis=2)
    return jnp.argmin(squares, axis=1)


def predict(hypothesis, table):
    """What a hypothesis adds to the score of each row."""
    return hypothesis.leaf[nearest_centre(table.bins, hypothesis.centres)]


def check_table(table):
    """Refuse a table that these hypotheses cannot read, by its dtypes and widths alone."""
    if table.bins.shape[-1] != 2 or table.bins.dtype != jnp.uint8:
        raise ValueError("nearest centres read the bins of two columns")


def absent_row():
    """A table of one absent row."""
    absent = jnp.zeros(1, bool)
    return Table(bins=jnp.zeros((1, 2), jnp.uint8), target=absent, present=absent)


nearest = HypothesisKind(
    predict=predict,
    training=Training(
        example_table=absent_row,
        check_table=check_table,
        prepare=lambda table: table,  # the loops read the table as it is
        bound=lambda hypothesis: jnp.max(jnp.abs(hypothesis.leaf)),
    ),
)


def program(draw, table, weights, params, public):
    """The private side: the class weights near each centre."""
    present = jnp.where(table.present, weights, 0).astype(jnp.int32)
    place = 2 * nearest_centre(table.bins, CENTRES) + table.target.astype(jnp.int32)
    sums = jnp.zeros(4, jnp.int32).at[place].add(present).reshape(2, 2)
    proof = "a row is near one centre, so it changes one class weight"
    draw(
        "leaf", mechanisms.discrete_laplace, sums, sensitivity=GRID, moved_outputs=1, theorem=proof
    )


def hypothesis(release, params, public):
    """The public side: each centre votes for the class that seems larger near it."""
    noisy = release["leaf"]
    return Nearest(CENTRES, 0.5 * jnp.sign(noisy[:, 1] - noisy[:, 0]).astype(jnp.float32))


learner = boundary.weak_learner(
    name="nearest centre",
    program=program,
    hypothesis=hypothesis,
    kind=nearest,
    fractions={"leaf": 1.0},
    relation="add_remove",
)

if __name__ == "__main__":
    domain = {"age": Numeric(0, 100, bins=10), "height": Numeric(100, 200, bins=10)}
    rng = np.random.default_rng(0)
    rows = {"age": rng.uniform(0, 100, 500), "height": rng.uniform(100, 200, 500)}
    table = dpbt.table(domain, rows, rows["age"] + rows["height"] > 200)

    # Boosting, by the weights of the log loss.
    recipe = dpbt.recipes.custom(
        learner,
        epsilon=2.0,
        rows=600,
        rounds=4,
        weight_update=weighting.mirror("information_gain"),
        weighting=MirrorNumbers(jnp.float32(1)),
        loss="information_gain",
    )
    print(dpbt.ledger(recipe))
    model = dpbt.fit(dpbt.fresh_key(), table, recipe)
    new = dpbt.domains.encode(domain, {"age": [10, 90], "height": [110, 190]})
    print(dpbt.predict(model, new), dpbt.predict_proba(model, new)[:, 1])

    # The exact losses of transcripts against all tables with one row less.
    near = dpbt.audit.neighbours(table, recipe.relation)
    print(
        dpbt.audit.audit_transcripts(
            dpbt.fresh_key(), near, recipe, num_transcripts=10, with_worst_steps=True
        )
    )
