"""What all estimators share: the fit, what is released of it, and how it is pickled."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, cast

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

import dpbt
from dpbt import tuning
from dpbt.common.types import Recipe, Transcript
from dpbt.data import domains
from dpbt.data.declarations import Answers, Reading, declared, rows_of
from dpbt.data.domains import Domain, Label
from dpbt.privacy import accounting, keys
from dpbt.release.model import Model, explain, ledger, save, statement
from dpbt.sklearn.inputs import (
    candidates_of,
    column_of,
    form_of,
    keys_of,
    owner_report_of,
    table_of,
)
from dpbt.training.fit import fit

_STATED = {
    "epsilon": "it is the total budget, such as 1.0",
    "rows": "it is a public bound on the number of rows and never read off X; a bound of twice the "
    "truth costs little",
}
"""Parameters without a default, and what they mean."""

_MADE_OF = ("epsilon", "delta", "rows", "relation", "recipe", "monotone", "max_rows_per_user")
"""The parameters that a recipe is made of, beside the domain and the target."""


class RepeatedReleaseWarning(UserWarning):
    """Clones of one estimator are fitted, as cross-validation and grid search do."""


class PrivateEstimator(BaseEstimator):
    """What all estimators share. Classes of it have the parameters and the predictions."""

    _recipes: Mapping[str, Callable[..., Recipe]]
    """The recipes by name."""

    _reading: Reading
    _made: dict[str, Any]
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
        labels = column_of("y", "labels", y)
        answers = self._answers(label, labels)
        made = {name: getattr(self, name, None) for name in _MADE_OF}
        made |= {"domain": reading.domain, "target": answers.target}
        recipes = candidates_of(made, self._recipes)
        self._check(recipes[0])

        # What is private: the table, padded with absent rows so that no shape shows its length.
        weights = self._weights(label, sample_weight)
        private = table_of(reading, given, labels, answers, recipes[0], weights)
        report = owner_report_of(reading, given, labels, answers, weights)
        key, public_key = keys_of(self.random_state)
        key = keys.noise_key(key, [private])
        if len(recipes) > 1:
            model = tuning.tune(key, private, recipes, tuning.selection(), public_key).model
        else:
            model = fit(key, private, recipes[0], public_key)
        self._warn()

        # The release.
        validate_data(self, form_of(X, given), reset=True, skip_check_array=True)
        if answers.classes is not None:
            self.classes_ = answers.classes
        self.model_ = model
        self._reading, self._made = reading, made
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
            own = column_of("sample_weight", "numbers", sample_weight)
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
        """The parameters and the release. A model holds functions, so its arrays are kept."""
        state: dict[str, Any] = {**cast(dict, super().__getstate__())}
        state.pop("owner_report_", None)  # private
        model = state.pop("model_", None)
        if model is not None:
            kept = model.hypotheses, model.intercept, tuple(model.transcript)
            numbers = jax.tree.leaves(model.recipe)
            state["_arrays"] = jax.tree.map(np.asarray, (*kept, numbers))
            state["_words"] = {name: getattr(model, name) for name in _WORDS}
            state["_version"] = dpbt.__version__, model.recipe.learner.tag
        return state

    def __setstate__(self, state: dict) -> None:
        """Rebuild the recipe from the parameters of the fit.

        Raises:
            ValueError: if they make another recipe than in the version that fitted it.
        """
        state = dict(state)
        arrays, words, version = (state.pop(f"_{x}", None) for x in ("arrays", "words", "version"))
        super().__setstate__(state)
        if arrays is None:
            return

        hypotheses, intercept, transcript, numbers_then = arrays

        def same(recipe: Recipe) -> bool:
            numbers_now = jax.tree.leaves(recipe)
            alike = len(numbers_now) == len(numbers_then) and recipe.learner.tag == version[1]
            return alike and all(map(np.array_equal, numbers_now, numbers_then))

        made = candidates_of(self._made, self._recipes)
        recipe = next(filter(same, made), None)
        if recipe is None:
            raise ValueError(
                f"the estimator was fitted by dpbt {version[0]}, and its parameters make another "
                f"recipe in dpbt {dpbt.__version__}"
            )
        splits = jax.tree.map(jax.numpy.asarray, domains.splits(self._reading.domain))
        hypotheses, intercept, transcript = jax.tree.map(
            jax.numpy.asarray, (hypotheses, intercept, transcript)
        )
        released = hypotheses, intercept, Transcript(*transcript)
        self.model_ = Model(*released, recipe, splits, **words)


_WORDS = [field.name for field in dataclasses.fields(Model) if field.metadata.get("static")]
"""The fields of a model that are no arrays and can be pickled."""
