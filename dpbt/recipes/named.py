"""The recipes that estimators and the command line know by name, with their defaults."""

import functools
from collections.abc import Callable, Mapping

from dpbt.base import Recipe
from dpbt.recipes.forest import random_forest, rf_e, rf_l
from dpbt.recipes.greedy import bdpe
from dpbt.recipes.oblivious import auto, oblivious_boost
from dpbt.recipes.smooth import halfspace_boost, lazybb_rules, lazybb_trees

BOOSTING: Mapping[str, Callable[..., Recipe]] = {
    "auto": auto,
    "oblivious_boost": oblivious_boost,
    "bdpe": functools.partial(bdpe, criterion="gini"),
    "lazybb_rules": lazybb_rules,
    "lazybb_trees": lazybb_trees,
    "halfspace_boost": halfspace_boost,
}
"""Recipes that `boosting.fit` runs. The criterion of bdpe is Gini, which is far more accurate."""

FORESTS: Mapping[str, Callable[..., Recipe]] = {
    "random_forest": random_forest,
    "rf_l": rf_l,
    "rf_e": rf_e,
}
"""Recipes that `dpbt.fit` runs."""
