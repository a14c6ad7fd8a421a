"""One model of every kind, and raw rows that they read."""

import functools

import jax
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Nominal, Numeric, Objective
from tests.support.random_models import DEPTHS, random_model

DOMAIN = {
    "age": Numeric(15, 95, bins=8, missing=True),
    "gain": Numeric(0, 1e5, bins=6, scale="log"),
    "hours": Numeric(1 / 3, 99, cuts=(20.5, 40)),
    'job "x"\n\u2028': Nominal(("a", "b", "c", "\ud800"), other="c"),
    "town": Nominal(("Köln", "NA", "3")),
    "class": Nominal(("low", "mid", "top"), ordered=True),
    "sex": Boolean("m", "f", missing=True),
}


def random_raw_columns(seed: int, rows: int) -> dict[str, list]:
    """Columns of random cells, some of them missing or undeclared."""
    rng = np.random.default_rng(seed)
    odd_cells = [None, "NA", "", "?", "zebra", "1e400", "-inf", "nan", True, -1, 7.25, "03", "3.0"]
    columns = {
        "age": rng.uniform(0, 110, rows).tolist(),
        "gain": (10 ** rng.uniform(-1, 6, rows)).tolist(),
        "hours": rng.integers(0, 120, rows).tolist(),
        'job "x"\n\u2028': rng.choice(["a", "b", "c", "d"], rows).tolist(),
        "town": rng.choice(["Köln", "NA", "3", "Rom"], rows).tolist(),
        "class": rng.choice(["low", "mid", "top"], rows).tolist(),
        "sex": rng.choice(["m", "f", "x"], rows).tolist(),
    }
    for cells in columns.values():
        for row in np.flatnonzero(rng.random(rows) < 0.2):
            cells[row] = odd_cells[rng.integers(len(odd_cells))]
    return columns


def table_of(columns, exact=False):
    labels = np.arange(len(columns["age"])) % 3 == 0
    return dpbt.table(DOMAIN, columns, labels, exact=exact)


COMMON = {"epsilon": 1.0, "rows": 60, "rounds": 3}
RECIPE_MAKERS = {
    "bdpe": (lambda: recipes.bdpe(**COMMON, depth=2, criterion="gini"), {}),
    "oblivious": (lambda: recipes.oblivious_boost(**COMMON, domain=DOMAIN, depth=3), {}),
    "additive": (lambda: recipes.additive(**COMMON, domain=DOMAIN), {}),
    "forest": (lambda: recipes.random_forest(**COMMON, depth=3), {}),
    "forest-exact": (lambda: recipes.random_forest(**COMMON, depth=3), {"exact": True}),
    "rules": (lambda: recipes.lazybb_rules(**COMMON, density=0.5), {}),
    "halfspace": (lambda: recipes.halfspace_boost(**COMMON, delta=1e-4), {}),
}
TARGETS = {"several": Nominal(("low", "mid", "top")), "number": Numeric(-5, 20)}
TARGETS["count"] = Objective(0, 25, objective="poisson")
"""The targets of models that predict something else than one of two classes."""
MODEL_NAMES = [*RECIPE_MAKERS, *TARGETS]


@functools.cache
def model_of_kind(name):
    """The model of a name in `MODEL_NAMES`; that of "bdpe" has learned from rows."""
    if name == "bdpe":
        return dpbt.fit(
            jax.random.key(0),
            table_of(random_raw_columns(0, 50)),
            RECIPE_MAKERS[name][0](),
        )
    if name not in TARGETS:
        make_recipe, model_options = RECIPE_MAKERS[name]
        return random_model(make_recipe(), DEPTHS.get(name, 3), DOMAIN, **model_options)
    options = {"domain": DOMAIN, "depth": 2, "target": TARGETS[name]}
    return random_model(recipes.oblivious_boost(**COMMON, **options), 2, DOMAIN)
