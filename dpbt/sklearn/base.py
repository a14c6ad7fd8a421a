"""What all estimators share: the fit, what is released of it, and how it is pickled."""

import functools
import numbers
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dpbt import recipes, tuning
from dpbt.common.public import BOOSTED
from dpbt.common.types import REPLACE_ONE, Array, Recipe
from dpbt.data import domains, owner, tables
from dpbt.data.declarations import Answers, Reading, Rows, declared, names_of, rows_of
from dpbt.data.domains import Domain, Label, WeightColumn
from dpbt.data.owner import OwnerReport
from dpbt.privacy import accounting, keys
from dpbt.release.model import explain, frozen, ledger, save, statement
from dpbt.training.fit import fit

TUNED = "tuned"
"""The name of a choice among recipes, which `fit` pays for."""

BOOSTING: Mapping[str, Callable[..., Any]] = {
    **recipes.named(BOOSTED),
    TUNED: functools.partial(tuning.around_auto, tuning.selection()),
}
"""Recipes that boosting estimators know by name, and the candidates of a choice."""

_STATED = {
    "epsilon": "it is the total budget, such as 1.0",
    "rows": "it is a public bound on the number of rows and never read off X; a bound of twice the "
    "truth costs little",
}
"""Parameters without a default, and what they mean."""

_MADE_OF = ("epsilon", "delta", "rows", "relation", "monotone", "max_rows_per_user")
"""The parameters that a recipe is made of, beside the domain and the target."""


class RepeatedReleaseWarning(UserWarning):
    """Clones of one estimator are fitted, as cross-validation and grid search do."""


class PrivateEstimator(BaseEstimator):
    """What all estimators share. Classes of it have the parameters and the predictions."""

    _recipes: Mapping[str, Callable[..., Recipe]]
    """The recipes by name."""

    _reading: Reading
    _clone_number: int = 0
    """Which clone of its original this is, as cross-validation makes them; 0 if it is none."""

    _clones: int = 0
    """How many clones were made of it."""

    # Parameters of all estimators.
    epsilon: Any
    delta: Any
    rows: Any
    relation: Any
    max_rows_per_user: Any
    domain: Any
    recipe: Any
    random_state: Any

    def _keep(self, parameters: dict[str, Any]) -> None:
        """Keep the parameters of a constructor, given its `locals()`."""
        names = self._get_param_names()
        vars(self).update({name: parameters[name] for name in names})

    def _answers(self, label: Label | None, labels: Any) -> Answers:
        """What is predicted. Of the labels only the dtype is read.

        Raises:
            ValueError: saying how to declare it.
        """
        raise NotImplementedError

    def _check(self, recipe: Recipe) -> None:
        """Refuse a recipe that the estimator cannot predict by.

        Raises:
            ValueError: saying what it takes.
        """

    def _fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """`fit`, which the classes of estimators describe.

        Raises:
            ValueError: as `fit`.
            TypeError: for a sparse X.
        """
        # What is public: the parameters, and the form of X and y.
        for name, meaning in _STATED.items():
            if getattr(self, name) is None:
                raise ValueError(f"{name} must be stated: {meaning}")
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, "
                "but the target y is None."
            )
        domain, label = declared(self.domain)
        given = rows_of(X, len(domain) if isinstance(domain, Mapping) else None)
        if given.width < 1:
            raise ValueError(
                f"0 feature(s) (shape=(, 0)) while a minimum of 1 is required by "
                f"{type(self).__name__}."
            )
        reading = Reading.of(domain, given)
        labels = column_of("y", y)
        answers = self._answers(label, labels)
        made = {name: getattr(self, name, None) for name in _MADE_OF}
        made |= {"domain": reading.domain, "target": answers.target}
        found = recipes.build(self.recipe, made, self._recipes)
        candidates = found if isinstance(self.recipe, str) and self.recipe == TUNED else [found]
        recipe = candidates[0]
        if not isinstance(recipe, Recipe) or np.ndim(recipe.rows) > 0:
            raise ValueError("recipe must return one setting of a recipe, as dpbt.recipes makes it")
        self._check(recipe)

        # What is private: the table, padded with absent rows so that no shape shows its length.
        weights = self._weights(label, sample_weight)
        bound = int(recipe.rows)
        if given.count > bound:
            raise ValueError(f"X has more rows than rows={bound}, the stated bound on their number")
        private = tables.table(
            reading.domain,
            reading.columns(given),
            labels,
            **answers.options,
            **weights,
            capacity=None if recipe.relation is REPLACE_ONE else bound,
        )
        report = owner_report_of(reading, given, labels, answers, weights)
        key, public_key = keys_of(self.random_state)
        key = keys.noise_key(key, [private])
        if len(candidates) > 1:
            model = tuning.tune(key, private, candidates, tuning.selection(), public_key).model
        else:
            model = fit(key, private, recipe, public_key)
        self._warn()

        # The release.
        validate_data(self, form_of(X, given), reset=True, skip_check_array=True)
        if answers.classes is not None:
            self.classes_ = answers.classes
        self.model_ = model
        self._reading = reading
        self.owner_report_ = report
        return self

    def _weights(self, label: Label | None, sample_weight: Any) -> dict[str, Any]:
        """The options of `dpbt.table` on weights.

        Raises:
            ValueError: if the domain's file declares weights, and none are given.
        """
        names = [name for name in ("max_weight", "class_weight") if hasattr(self, name)]
        options = {name: getattr(self, name) for name in names}
        if sample_weight is not None:
            own = column_of("sample_weight", sample_weight)
            return {**options, "sample_weight": own}
        if label is not None and label.weight is not None:
            raise ValueError(
                f"the domain's file declares weights of rows, in {label.weight.column!r}; "
                f"give them to fit as sample_weight, with max_weight={label.weight.most:g}"
            )
        return options

    def _warn(self) -> None:
        """Warn of the second of several clones that are fitted."""
        if self._clone_number == 2:
            self._clone_number = 0
            warnings.warn(
                "several clones of one estimator are fitted, as cross-validation and grid search "
                "do: every fit on private rows is a release, so their epsilons add up; test "
                "scores on private rows, and a choice by them, are releases that no ledger covers",
                RepeatedReleaseWarning,
                stacklevel=4,
            )

    # What is released.

    def save(self, path: str | Path) -> None:
        """Write the model to one file, which `dpbt.load` reads with NumPy alone (`dpbt.save`).

        The file holds the domain and the classes, so it reads raw columns and predicts classes.

        Raises:
            ValueError: as `dpbt.save`.
            OSError: if the file cannot be written.
        """
        check_is_fitted(self, "model_")
        classes = getattr(self, "classes_", None)
        save(self.model_, path, domain=self.domain_, classes=classes)

    def explain(self) -> str:
        """The model in words (`dpbt.explain`)."""
        check_is_fitted(self, "model_")
        return explain(self.model_, self.domain_)

    @property
    def domain_(self) -> Domain:
        """The public domain that the model was fitted with."""
        check_is_fitted(self, "model_")
        return self._reading.domain

    @property
    def ledger_(self) -> accounting.Ledger:
        """What the fit cost (`dpbt.ledger`), with the kind of its key."""
        check_is_fitted(self, "model_")
        return ledger(self.model_)

    @property
    def statement_(self) -> str:
        """What the guarantee says, in plain words (`dpbt.statement`)."""
        check_is_fitted(self, "model_")
        return statement(self.model_)

    def _bins(self, X: Any) -> np.ndarray:
        """u8[N, F]: rows as the model reads them."""
        check_is_fitted(self, "model_")
        given = rows_of(X, len(self._reading.names))
        validate_data(self, form_of(X, given), reset=False, skip_check_array=True)
        return domains.encode(self._reading.domain, self._reading.columns(given))

    # What scikit-learn asks.

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def __sklearn_clone__(self):
        clone = cast(Self, super().__sklearn_clone__())
        self._clones += 1
        clone._clone_number = self._clones
        return clone

    def __getstate__(self) -> dict:
        """The parameters and the release, as `dpbt.load` reads a model."""
        state: dict[str, Any] = {**cast(dict, super().__getstate__())}
        state.pop("owner_report_", None)  # private
        if "model_" in state:
            state["model_"] = frozen(state["model_"])
        return state


def form_of(X: Any, given: Rows) -> Any:
    """What scikit-learn is shown of X: the names and the number of its columns, and no row."""
    return X if given.names is not None else np.empty((0, given.width))


def column_of(name: str, data: Any) -> Any:
    """Labels or weights as a column.

    Raises:
        ValueError: for more than one column.
    """
    names, width = names_of(data), None
    if names is not None:
        width = len(names)
    elif hasattr(data, "__array__") and not hasattr(data, "to_pylist"):
        data = data if hasattr(data, "dtype") else np.asarray(data)
        axes = np.shape(data)
        width = None if len(axes) == 1 else axes[1] if len(axes) == 2 else 0
    if width is None:
        return data
    if width != 1:
        raise ValueError(f"{name} must be one column")
    warnings.warn(
        f"A column-vector {name} was passed when a 1d array was expected.",
        DataConversionWarning,
        stacklevel=4,
    )
    return np.asarray(data)[:, 0] if names is None else data[names[0]]


def owner_report_of(
    reading: Reading, given: Rows, labels: Any, answers: Answers, weights: Mapping[str, Any]
) -> OwnerReport:
    """How the declaration reads X, y and weights; as `dpbt.table` has them."""
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
