"""Small estimators, and the rows that they learn from."""

import functools

import dpbt
from dpbt.data.domains import Numeric
from dpbt.sklearn import (
    PrivateBoostingClassifier,
    PrivateForestClassifier,
)

SMALL = functools.partial(dpbt.recipes.oblivious_boost, rounds=4, depth=2)
TREE_GROUP = functools.partial(dpbt.recipes.random_forest, rounds=4, depth=2, disjoint=True)
DOMAIN = {name: Numeric(0, 1, bins=8, missing=True) for name in ("a", "b")}
STATED = {"epsilon": 20.0, "rows": 64, "domain": DOMAIN, "classes": (0, 1)}


def boosting(**options) -> PrivateBoostingClassifier:
    return PrivateBoostingClassifier(**(STATED | {"recipe": SMALL} | options))


def forest(**options) -> PrivateForestClassifier:
    return PrivateForestClassifier(**(STATED | {"recipe": TREE_GROUP} | options))
