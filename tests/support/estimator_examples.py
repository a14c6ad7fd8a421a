"""Small estimators, and the rows that they learn from."""

import functools

import dpbt
from dpbt.data.domains import Numeric
from dpbt.sklearn import (
    PrivateBoostingClassifier,
    PrivateForestClassifier,
)

SMALL_BOOSTING = functools.partial(dpbt.recipes.oblivious_boost, rounds=4, depth=2)
SMALL_FOREST = functools.partial(dpbt.recipes.random_forest, rounds=4, depth=2, disjoint=True)
DOMAIN = {name: Numeric(0, 1, bins=8, missing=True) for name in ("a", "b")}
OPTIONS = {"epsilon": 20.0, "rows": 64, "domain": DOMAIN, "classes": (0, 1)}


def boosting_classifier(**options) -> PrivateBoostingClassifier:
    return PrivateBoostingClassifier(**(OPTIONS | {"recipe": SMALL_BOOSTING} | options))


def forest_classifier(**options) -> PrivateForestClassifier:
    return PrivateForestClassifier(**(OPTIONS | {"recipe": SMALL_FOREST} | options))
