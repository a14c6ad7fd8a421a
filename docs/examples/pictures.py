"""Pictures of a private model of a made-up table; docs/pictures.md shows them.

Run it with `python docs/examples/pictures.py FOLDER`. It writes PNG files there,
and `model.json` into the current folder.
"""

import sys
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import dpbt
from dpbt.data.domains import Boolean, Nominal, Numeric

ROWS = 8000
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")


def save(name: str) -> None:
    """Write the current figure, and close it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    plt.savefig(FOLDER / name, dpi=100)
    plt.close()


domain = {
    "age": Numeric(18, 90, bins=12),
    "income": Numeric(0, 200_000, bins=10, scale="log", missing=True),
    "hours": Numeric(0, 80, cuts=(10, 20, 35, 40, 50)),
    "job": Nominal(("clerk", "cook", "nurse", "smith")),
    "owner": Boolean("yes", "no"),
    "shoe size": Numeric(35, 48, bins=13),
}

# A made-up table, in which hours, owner and the shoe size tell nothing.
rng = np.random.default_rng(0)
columns = {
    "age": rng.uniform(18, 90, ROWS),
    "income": np.where(rng.random(ROWS) < 0.1, np.nan, 10 ** rng.uniform(2.5, 5.2, ROWS)),
    "hours": rng.choice([0, 15, 30, 38, 45, 60], ROWS),
    "job": rng.choice(["clerk", "cook", "nurse", "smith"], ROWS),
    "owner": rng.choice(["yes", "no"], ROWS),
    "shoe size": rng.uniform(35, 48, ROWS),
}
truth = (columns["age"] - 50) / 12 + np.where(columns["job"] == "nurse", 1.5, -0.5)
truth += 1.5 * ((np.nan_to_num(columns["income"]) > 20_000) & (columns["age"] > 40))
table = dpbt.table(domain, columns, truth + rng.logistic(0, 1, ROWS) > 0.5)

# A key of research, so that the pictures are the same in every run.
key = jax.random.key(0)
recipe = dpbt.recipes.auto(epsilon=1.0, rows=ROWS, domain=domain)
model = dpbt.fit(key, table, recipe)
print(dpbt.ledger(recipe))

dpbt.save(model, "model.json", domain=domain)

dpbt.plot.attributes(model, domain, data="made-up rows")
save("picture_attributes.png")

panels = plt.subplots(2, 2, figsize=(9, 6), sharey=True, layout="constrained")[1].flat
for name, ax in zip(("age", "income", "hours", "job"), panels, strict=True):
    dpbt.plot.shape(model, domain, name, ax=ax)
save("picture_shapes.png")

# One person, of whom the model says why it scores them so.
person = {
    "age": [66],
    "income": [9000],
    "hours": [38],
    "job": ["nurse"],
    "owner": ["yes"],
    "shoe size": [41],
}
dpbt.plot.contributions(model, person, data="made-up rows")
print(model.contributions(person).of_row())
save("picture_row.png")

# An additive model is its curves.
recipe = dpbt.recipes.additive(epsilon=1.0, delta=1e-6, rows=ROWS, domain=domain)
curves = dpbt.fit(key, table, recipe)
dpbt.plot.shapes(curves, domain, data="made-up rows")
save("picture_additive.png")
print(dpbt.explain(curves, domain))

for effect in dpbt.effects.attribute_effects(model, domain):
    print(f"{effect.attribute:10}{effect.deviation:6.2f}")
