"""Recipes: an algorithm's parts, budget and relation, together, so that noise and ledger agree."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from dpbt.common import forks
from dpbt.common.validate import show_value
from dpbt.public_types import BOOSTED, FORESTS
from dpbt.recipes.additive import additive as additive
from dpbt.recipes.auto import auto as auto
from dpbt.recipes.building import custom as custom
from dpbt.recipes.building import setting as setting
from dpbt.recipes.forest import random_forest as random_forest
from dpbt.recipes.forest import rf_e as rf_e
from dpbt.recipes.forest import rf_l as rf_l
from dpbt.recipes.greedy import bdpe as bdpe
from dpbt.recipes.oblivious import oblivious_boost as oblivious_boost
from dpbt.recipes.programs import ProgramSettings as ProgramSettings
from dpbt.recipes.programs import multi_program_recipe as multi_program_recipe
from dpbt.recipes.programs import settings_by_program as settings_by_program
from dpbt.recipes.smooth import halfspace_boost as halfspace_boost
from dpbt.recipes.smooth import lazybb_rules as lazybb_rules
from dpbt.recipes.smooth import lazybb_trees as lazybb_trees
from dpbt.types import MultiProgramRecipe as MultiProgramRecipe
from dpbt.types import Recipe

NAMED: dict[str, Callable[..., Recipe]] = {name: globals()[name] for name in (*BOOSTED, *FORESTS)}
NAMED["bdpe"] = functools.partial(bdpe, criterion="gini")
"""The recipes that estimators and the command line know by name, with their defaults.

The criterion of bdpe is then Gini, which is far more accurate than the paper's.
"""


def make_recipe(
    maker: Any, options: Mapping[str, Any], makers: Mapping[str, Callable[..., Any]]
) -> Any:
    """The recipe that a function of `makers`, or the caller's own function, makes of options.

    Args:
        maker: a name of `makers`, or a function.
        options: by name. An option that is None is left to its default. The domain, and one row for
            each user, are passed only to a function that takes them.
        makers: functions by name.

    Raises:
        ValueError: for a name or an object that is no recipe, for an option that the recipe does
            not take, and as the recipe.
        RuntimeError: in a process that was forked after JAX had run.
    """
    forks.check_jax_can_run()
    function: Any = makers.get(maker) if isinstance(maker, str) else maker
    if not callable(function) or isinstance(function, Recipe):
        raise ValueError(
            f"recipe must be one of {[*makers]}, or a function that is given epsilon, delta, rows, "
            "relation and domain by name and returns a recipe, such as "
            f"functools.partial(dpbt.recipes.bdpe, depth=2); got {show_value(maker)}"
        )

    stated_options = {name: value for name, value in options.items() if value is not None}
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return function(**stated_options)
    for name in [name for name in stated_options if name not in parameters]:
        if name != "domain" and (name, stated_options[name]) != ("max_rows_per_user", 1):
            maker_names = [
                maker_name
                for maker_name in makers
                if name in inspect.signature(makers[maker_name]).parameters
            ]
            raise ValueError(
                f"the recipe {show_value(maker)} takes no {name}, as these do: {maker_names}"
            )
        del stated_options[name]
    return function(**stated_options)
