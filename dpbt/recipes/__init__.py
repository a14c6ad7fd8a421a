"""Recipes: an algorithm's parts, its budget and its relation, set together so that noise and ledger agree."""

from dpbt.recipes.common import setting
from dpbt.recipes.forest import random_forest, rf_e, rf_l
from dpbt.recipes.greedy import bdpe
from dpbt.recipes.smooth import halfspace_boost, hs_stl, lazy_breg_boost, lazybb

__all__ = [
    "bdpe",
    "halfspace_boost",
    "hs_stl",
    "lazy_breg_boost",
    "lazybb",
    "random_forest",
    "rf_e",
    "rf_l",
    "setting",
]
