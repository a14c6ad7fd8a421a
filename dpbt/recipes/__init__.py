"""Recipes: an algorithm's parts, budget and relation, together, so that noise and ledger agree."""

import functools
from collections.abc import Callable, Iterable

from dpbt.common.public import BOOSTED, FORESTS
from dpbt.common.types import Recipe
from dpbt.recipes.building import custom, setting
from dpbt.recipes.forest import random_forest, rf_e, rf_l
from dpbt.recipes.greedy import bdpe
from dpbt.recipes.oblivious import auto, oblivious_boost
from dpbt.recipes.smooth import halfspace_boost, lazybb_rules, lazybb_trees

__all__ = [
    "auto",
    "bdpe",
    "custom",
    "halfspace_boost",
    "lazybb_rules",
    "lazybb_trees",
    "named",
    "oblivious_boost",
    "random_forest",
    "rf_e",
    "rf_l",
    "setting",
]


def named(names: Iterable[str] = (*BOOSTED, *FORESTS)) -> dict[str, Callable[..., Recipe]]:
    """The recipes that estimators and the command line know by name, with their defaults.

    The criterion of bdpe is then Gini, which is far more accurate than the paper's.
    """
    every = {**globals(), "bdpe": functools.partial(bdpe, criterion="gini")}
    return {name: every[name] for name in names}
