"""Models of a small domain, of which everything can be said row by row."""

import itertools

import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Nominal, Numeric

DOMAIN = {
    "age": Numeric(0, 100, cuts=(20, 25.5, 60), missing=True),
    "job": Nominal(("clerk", "smith", "cook")),
    "rank": Nominal(("low", "mid", "top"), other="top", ordered=True),
    "member": Boolean("yes", "no", missing=True),
}
ROWS = 60
COMMON = {"epsilon": 5.0, "rows": ROWS, "rounds": 3}
LESS_NOISE = COMMON | {"epsilon": 20.0}
"""Under `COMMON` these trees say the same of every row."""

MADE = {
    "bdpe": lambda: recipes.bdpe(**COMMON, depth=3, criterion="gini"),
    "oblivious": lambda: recipes.oblivious_boost(**COMMON, domain=DOMAIN, depth=3),
    "forest": lambda: recipes.random_forest(**COMMON, depth=4),
    "parts": lambda: recipes.random_forest(**COMMON, depth=3, disjoint=True),
    "rules": lambda: recipes.lazybb_rules(**COMMON, density=0.5),
    "trees": lambda: recipes.lazybb_trees(**LESS_NOISE, density=0.5, depth=2, splits=2),
    "halfspace": lambda: recipes.halfspace_boost(**COMMON, delta=1e-4),
}
SLOW = ("trees",)
"""Their hypotheses are of a kind that another model has, too."""


def every(*names):
    """Parameters of these names."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in names]


TREES = tuple(name for name in MADE if name != "halfspace")
VOTES = {"rules", "trees", "halfspace"}
"""Models whose scores define no probability."""

CELLS = [column.cells for column in DOMAIN.values()]
EVERY = np.array(list(itertools.product(*map(range, CELLS))), np.uint8)


def columns_of(seed):
    rng = np.random.default_rng(seed)
    return {
        "age": np.where(rng.random(ROWS) < 0.2, np.nan, rng.uniform(0, 100, ROWS)),
        "job": rng.choice(["clerk", "smith", "cook", "zebra"], ROWS),
        "rank": rng.choice(["low", "mid", "top"], ROWS),
        "member": rng.choice(["yes", "no", ""], ROWS),
    }


class Models(dict):
    """Name -> model, which is fitted when it is first asked for."""

    def __missing__(self, name):
        columns = columns_of(0)
        labels = (np.nan_to_num(columns["age"], nan=50) > 40) ^ (columns["job"] == "cook")
        table = dpbt.table(DOMAIN, columns, labels)
        self[name] = dpbt.fit(jax.random.key(0), table, MADE[name](), jax.random.key(1))
        return self[name]


MODELS = Models()
"""Those that any test of this process has asked for."""


class Saved(dict):
    """Name -> model of a file."""

    def __init__(self, folder):
        self.folder = folder

    def __missing__(self, name):
        MODELS[name].save(self.path(name), domain=DOMAIN)
        self[name] = dpbt.load(self.path(name))
        return self[name]

    def path(self, name):
        return self.folder / f"{name}.json"
