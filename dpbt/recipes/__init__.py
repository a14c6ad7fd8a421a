"""Recipes: an algorithm's parts, budget and relation, together, so that noise and ledger agree."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from dpbt.common.public import BOOSTED, FORESTS
from dpbt.common.types import Recipe
from dpbt.common.validate import shown
from dpbt.recipes.additive import additive as additive
from dpbt.recipes.building import custom as custom
from dpbt.recipes.building import setting as setting
from dpbt.recipes.forest import random_forest as random_forest
from dpbt.recipes.forest import rf_e as rf_e
from dpbt.recipes.forest import rf_l as rf_l
from dpbt.recipes.greedy import bdpe as bdpe
from dpbt.recipes.oblivious import auto as auto
from dpbt.recipes.oblivious import oblivious_boost as oblivious_boost
from dpbt.recipes.smooth import halfspace_boost as halfspace_boost
from dpbt.recipes.smooth import lazybb_rules as lazybb_rules
from dpbt.recipes.smooth import lazybb_trees as lazybb_trees

NAMED: dict[str, Callable[..., Recipe]] = {name: globals()[name] for name in (*BOOSTED, *FORESTS)}
NAMED["bdpe"] = functools.partial(bdpe, criterion="gini")
"""The recipes that estimators and the command line know by name, with their defaults.

The criterion of bdpe is then Gini, which is far more accurate than the paper's.
"""


def build(asked: Any, options: Mapping[str, Any], known: Mapping[str, Callable[..., Any]]) -> Any:
    """What the function of a recipe makes of options.

    Args:
        asked: a name of `known`, or a function.
        options: by name. What is None is not given, and the domain and one row for each user are
            given only to a function that takes them.
        known: functions by name.

    Raises:
        ValueError: for a name or an object that is no recipe, for an option that the recipe does
            not take, and as the recipe.
    """
    function: Any = known.get(asked) if isinstance(asked, str) else asked
    if not callable(function) or isinstance(function, Recipe):
        raise ValueError(
            f"recipe must be one of {[*known]}, or a function that is given epsilon, delta, rows, "
            "relation and domain by name and returns a recipe, such as "
            f"functools.partial(dpbt.recipes.bdpe, depth=2); got {shown(asked)}"
        )

    given = {name: value for name, value in options.items() if value is not None}
    own = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in own.values()):
        return function(**given)
    for name in [name for name in given if name not in own]:
        if name != "domain" and (name, given[name]) != ("max_rows_per_user", 1):
            others = [each for each in known if name in inspect.signature(known[each]).parameters]
            raise ValueError(f"the recipe {shown(asked)} takes no {name}, as these do: {others}")
        del given[name]
    return function(**given)
