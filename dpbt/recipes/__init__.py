"""Recipes: an algorithm's parts, budget and relation, together, so that noise and ledger agree."""

from dpbt.recipes.custom import custom
from dpbt.recipes.forest import random_forest, rf_e, rf_l
from dpbt.recipes.greedy import bdpe
from dpbt.recipes.oblivious import auto, oblivious_boost
from dpbt.recipes.settings import setting
from dpbt.recipes.smooth import halfspace_boost, hs_stl, lazybb_rules, lazybb_trees

__all__ = [
    "auto",
    "bdpe",
    "custom",
    "halfspace_boost",
    "hs_stl",
    "lazybb_rules",
    "lazybb_trees",
    "oblivious_boost",
    "random_forest",
    "rf_e",
    "rf_l",
    "setting",
]
