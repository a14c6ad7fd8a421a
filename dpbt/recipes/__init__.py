"""Recipes: an algorithm's parts, budget and relation, together, so that noise and ledger agree.

All recipes share the arguments below. Each function describes them in a line, and its text adds
what is special to its algorithm. An argument of type ArrayLike may be an array of settings; arrays
broadcast to the axes of one recipe of all settings.

The guarantee:

- `epsilon`: the total budget, above 0. Infinite means no privacy.
- `delta`: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows. A delta buys much
  less noise.
- `rows`: m, which is public. Under add/remove it is a bound on the number of rows, never a number
  that was read off the table, and `dpbt.fit` refuses a table with more rows. A bound of twice the
  truth costs little. Under replace-one it is the number of rows itself.
- `relation`: which tables count as neighbours. Under "add_remove" the rows of one person are in one
  of them alone; under "replace_one" they are others in each.
- `max_rows_per_user`: the most rows of one person. `dpbt.table` enforces it where the table has ids
  of users; else the owner promises it. The guarantee is for all rows of a person together.
- `delta_anyway`: whether to accept a delta of 1 / rows or more. Such a delta protects nobody:
  publishing each row with probability delta would keep the guarantee.

What is learned, where a recipe is made for a domain:

- `domain`: the public columns, as `dpbt.domains` declares them.
- `target`: what is predicted: `domains.Nominal` for several classes, `domains.Numeric` for a number
  in a declared range, None for two classes. Give `dpbt.table` the same.
- `objective`: of a number: "squared" by default, "poisson" for a count, or "quantile".
- `quantile`: the level of a quantile, in [0.01, 0.99].
- `monotone`: for names of columns 1 if scores must not fall as the column rises, or -1 if they must
  not rise. It costs no budget. A bin for missing values counts as the largest. It is not for
  several classes, nor for columns without an order.
"""

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
    """Make a recipe of options, by a maker's name or by the caller's own function.

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
