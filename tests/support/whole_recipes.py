"""Recipes of curves and of trees with all of their one-time draws, and tables for them."""

import numpy as np

import dpbt
from dpbt.data.domains import Nominal, Numeric

NUM_ROWS = 830
"""The number is no multiple of what processors add at once."""

DOMAIN = {
    **{f"x{index}": Numeric(0, 1, bins=32) for index in range(5)},
    "job": Nominal(("0", "1", "2", "3")),
}

RANGE = {"target": Numeric(0, 10, bins=64)}

RESPONSES = {
    "two classes": {},
    "three classes": {"target": Nominal(("0", "1", "2"))},
    "number": RANGE,
    "count": {**RANGE, "objective": "poisson"},
    "quantile": {**RANGE, "objective": "quantile", "quantile": 0.3},
}


def recipe_and_table(make, delta, response, epsilon=8.0):
    """A recipe of curves or trees with all of its one-time draws, and a table for it."""
    rng = np.random.default_rng(0)
    numbers = rng.random((NUM_ROWS, 5))
    job = rng.integers(0, 4, NUM_ROWS).astype(str)
    noise = 0.3 * rng.normal(size=NUM_ROWS)
    labels = {
        "two classes": numbers[:, 0] + numbers[:, 1] * numbers[:, 2] + noise > 0.8,
        "three classes": np.digitize(numbers[:, 0] + noise, [0.3, 0.7]).astype(str),
    }
    label = labels.get(response, np.clip(3 * numbers[:, 0] + numbers[:, 1] + noise, 0, 10))
    columns = {f"x{index}": numbers[:, index] for index in range(5)} | {"job": job}
    options = RESPONSES[response]
    target = {name: value for name, value in options.items() if name == "target"}
    recipe = make(epsilon=epsilon, rows=NUM_ROWS, domain=DOMAIN, delta=delta, **options)
    return recipe, dpbt.table(DOMAIN, columns, label, **target)
