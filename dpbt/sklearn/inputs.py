"""What a fit is given: the recipe that parameters name, columns, the private table, and keys."""

import functools
import inspect
import numbers
import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_random_state

from dpbt import recipes, tuning
from dpbt.common.public import BOOSTED
from dpbt.common.types import REPLACE_ONE, Array, Recipe, Table
from dpbt.common.validate import shown
from dpbt.data import owner, tables
from dpbt.data.declarations import Answers, Reading, Rows, names_of
from dpbt.data.domains import Label, WeightColumn
from dpbt.data.owner import OwnerReport
from dpbt.privacy import keys

TUNED = "tuned"
"""The name of a choice among recipes, which `fit` pays for."""

BOOSTING: Mapping[str, Callable[..., Any]] = {
    **recipes.named(BOOSTED),
    TUNED: functools.partial(tuning.around_auto, tuning.selection()),
}
"""Recipes that boosting estimators know by name, and the candidates of a choice."""

_ONLY = {
    "target": "learns two classes alone; 'auto' and 'oblivious_boost' learn several classes and "
    "numbers",
    "monotone": "takes no monotone columns; 'auto' and 'oblivious_boost' take them",
    "max_rows_per_user": "takes no max_rows_per_user",
}
"""What is said of a recipe that does not take an option."""


def candidates_of(made: Mapping[str, Any], known: Mapping[str, Callable[..., Any]]) -> list[Recipe]:
    """The recipe that parameters name, or the candidates of a choice.

    Args:
        made: the parameters of the fit by name, with the domain and the target. All of it is
            public and can be pickled.
        known: recipes by name.

    Raises:
        ValueError: for a name or an object that is no recipe, for an option that the recipe does
            not take, and as the recipe.
    """
    asked = made["recipe"]
    if isinstance(asked, str) and asked in known:
        build = known[asked]
    elif callable(asked) and not isinstance(asked, Recipe):
        build = cast(Callable[..., Recipe], asked)
    else:
        raise ValueError(
            f"recipe must be one of {[*known]}, or a function that is given epsilon, delta, rows, "
            "relation and domain by name and returns a recipe, such as "
            f"functools.partial(dpbt.recipes.bdpe, depth=2); got {shown(asked)}"
        )
    options = {name: made[name] for name in ("epsilon", "delta", "rows", "relation")}
    if _takes(build, "domain"):
        options["domain"] = made["domain"]
    for name, words in _ONLY.items():
        value = made[name]
        if value is None or (name == "max_rows_per_user" and value == 1):
            continue
        if not _takes(build, name):
            raise ValueError(f"the recipe {shown(asked)} {words}")
        options[name] = value
    found: Any = build(**options)
    if build is known.get(TUNED):
        return found
    if not isinstance(found, Recipe) or np.ndim(found.rows) > 0:
        raise ValueError("recipe must return one setting of a recipe, as dpbt.recipes makes it")
    return [found]


def _takes(build: Callable[..., Recipe], name: str) -> bool:
    """Whether a function takes an argument of that name."""
    parameters = inspect.signature(build).parameters.values()
    return any(one.name == name or one.kind is one.VAR_KEYWORD for one in parameters)


def form_of(X: Any, given: Rows) -> Any:
    """What scikit-learn is shown of X: the names and the number of its columns, and no row."""
    return X if given.names is not None else np.empty((0, given.width))


def column_of(name: str, what: str, data: Any) -> Any:
    """Labels or weights as a column.

    Args:
        name: of the argument.
        what: it holds, for errors.
        data: an array, a column of a frame, or a list.

    Raises:
        ValueError: for more than one column.
    """
    names = names_of(data)
    if names is not None and len(names) == 1:
        _warn_of_column(name)
        return data[names[0]]
    if names is not None:
        raise ValueError(f"{name} must be one column of {what}, got {len(names)}")
    if hasattr(data, "to_pylist") or not hasattr(data, "__array__"):
        return data
    if not hasattr(data, "dtype"):
        data = np.asarray(data)
    axes = getattr(data, "ndim", 1)
    if axes == 2 and data.shape[1] == 1:
        _warn_of_column(name)
        return np.asarray(data)[:, 0]
    if axes != 1:
        raise ValueError(f"{name} must be one column of {what}, got an array of {axes} axes")
    return data


def _warn_of_column(name: str) -> None:
    warnings.warn(
        f"A column-vector {name} was passed when a 1d array was expected.",
        DataConversionWarning,
        stacklevel=5,
    )


def table_of(
    reading: Reading,
    given: Rows,
    labels: Any,
    answers: Answers,
    recipe: Recipe,
    weights: Mapping[str, Any],
) -> Table:
    """The table of private rows, with room for `rows` of them.

    Under replace-one their number is public, and no room is added.

    Args:
        reading: how rows are read.
        given: the rows.
        labels: of the rows.
        answers: what is predicted.
        recipe: one setting.
        weights: the options of `dpbt.table` on weights.

    Raises:
        ValueError: for more rows than the bound, and as `dpbt.table`.
    """
    bound = int(recipe.rows)
    if given.count > bound:
        raise ValueError(f"X has more rows than rows={bound}, the stated bound on their number")
    return tables.table(
        reading.domain,
        reading.columns(given),
        labels,
        **answers.options,
        **weights,
        capacity=None if recipe.relation is REPLACE_ONE else bound,
    )


def owner_report_of(
    reading: Reading, given: Rows, labels: Any, answers: Answers, weights: Mapping[str, Any]
) -> OwnerReport:
    """How the declaration reads X, y and weights; arguments as `table_of` has them."""
    columns = dict(reading.columns(given))

    def add(name: str, column: Any) -> str:
        while name in columns:
            name = f"({name})"
        columns[name] = column
        return name

    weight = None
    if "sample_weight" in weights:
        name = add("sample_weight", weights["sample_weight"])
        weight = WeightColumn(name, weights["max_weight"])
    label = Label(add("y", labels), **answers.options, weight=weight)
    return owner.report(reading.domain, label, [columns])


def keys_of(random_state: Any) -> tuple[Array, Array]:
    """The keys of the noise and of public structure.

    Raises:
        ValueError: for a random state that scikit-learn does not know.
    """
    if random_state is not None and not isinstance(random_state, numbers.Integral):
        random_state = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return keys.noise_and_public(None if random_state is None else int(random_state))
