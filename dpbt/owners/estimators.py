"""Private trees as estimators of scikit-learn: `pip install 'dpbt[sklearn]'`.

The guarantee starts at the X that is given to `fit`. A transformer that was fitted on private rows
before, such as a scaler or an imputer, is outside of it, and so is every reader that made X.
"""

import dataclasses
import numbers
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np

try:
    from sklearn.utils.validation import validate_data
except ImportError as error:
    raise ImportError(
        "dpbt.sklearn needs scikit-learn 1.6 or newer: pip install 'dpbt[sklearn]'"
    ) from error

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

import dpbt
from dpbt import recipes
from dpbt.common.progress import show_progress
from dpbt.data import declarations, domains, tables
from dpbt.data.cells import eager_advice
from dpbt.data.declarations import Answers, Reading, Rows, rows_of
from dpbt.data.domains import Domain, Label, UserColumn, WeightColumn, names_of
from dpbt.data.kinds import with_objective
from dpbt.models import model as models
from dpbt.models.file import about_recipe
from dpbt.models.model import explain, ledger, save, statement, without_training_parts
from dpbt.owners import file_report
from dpbt.owners.file_report import OwnerReport
from dpbt.privacy import accounting, keys
from dpbt.public_types import BOOSTED, FORESTS
from dpbt.training.fit import fit
from dpbt.types import REPLACE_ONE, Array, Recipe, Table

__all__ = [
    "PrivateBoostingClassifier",
    "PrivateBoostingRegressor",
    "PrivateForestClassifier",
    "RepeatedReleaseWarning",
]

BOOSTING: Mapping[str, Callable[..., Any]] = {name: recipes.NAMED[name] for name in BOOSTED}
"""Recipes that boosting estimators know by name."""

_FORESTS: Mapping[str, Callable[..., Any]] = {name: recipes.NAMED[name] for name in FORESTS}

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


_parameters = dataclasses.dataclass(eq=False, repr=False, kw_only=True)
"""Makes the constructor of a class of estimators, from its parameters and their defaults."""


@_parameters
class PrivateEstimator(BaseEstimator):
    """What all estimators share. Classes of it have further parameters and the predictions."""

    _recipes: ClassVar[Mapping[str, Callable[..., Any]]]
    """The recipes by name."""

    _clone_number = 0
    """Which clone of its original this is, as cross-validation makes them; 0 if it is none."""

    _clones = 0
    """How many clones were made of it."""

    epsilon: float | None = None
    delta: float = 0.0
    rows: int | None = None
    relation: str = "add_remove"
    max_rows_per_user: int = 1
    domain: Any = None
    recipe: Any = "auto"
    random_state: Any = None
    verbose: int = 0

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, users: Any = None) -> Self:
        """Learn and release a model, with the guarantee of `ledger_`.

        Private values are never refused. A cell that the domain does not hold is missing or in its
        nearest interval, and a row whose label is no declared class, or no number, is absent. A
        weight that is no number is 0. Of what is private only this is refused: more rows than
        `rows`, and lengths of X, y and weights that differ.

        Args:
            X: N rows: a data frame (pandas, polars or Arrow), an array, or a list of rows. Frames
                are read by the names of their columns, and others in the order of the domain.
            y: N labels, or numbers in their units: an array, a column of a frame, or a list.
            sample_weight: N weights from 0 to `max_weight`, or None. Noise is set for rows of the
                largest weight. The recipes "lazybb_rules", "lazybb_trees" and "halfspace_boost"
                take none.
            users: N ids that say whose each row is, or None. Of each user the first
                `max_rows_per_user` rows that have a label count, and a row without an id does not
                (`dpbt.table`). Without ids, that nobody has more rows is your promise.

        Raises:
            ValueError: if a parameter is missing or out of its range, named with what is expected.
                Also for X or y of another form, and as above.
            TypeError: for a sparse X.
        """
        # What is public: the parameters, and the form of X and y.
        left = [name for name in _STATED if getattr(self, name) is None]
        if left:
            raise ValueError("; ".join(f"{name} must be stated: {_STATED[name]}" for name in left))
        verbose = bool(self.verbose)
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, "
                "but the target y is None."
            )
        domain, label = declarations.declared(self.domain, names_of(X))
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
        with show_progress("setting the noise", verbose):
            recipe = recipes.make_recipe(self.recipe, made, self._recipes)
        if not isinstance(recipe, Recipe) or np.ndim(recipe.rows) > 0:
            raise ValueError("recipe must return one setting of a recipe, as dpbt.recipes makes it")
        self._check(recipe)

        # What is private: the table, padded with absent rows so that no shape shows its length.
        names = [name for name in ("max_weight", "class_weight") if hasattr(self, name)]
        weights = {name: getattr(self, name) for name in names}
        if sample_weight is not None:
            weights["sample_weight"] = column_of("sample_weight", sample_weight)
        elif label is not None and label.weight is not None:
            raise ValueError(
                f"the domain's file declares weights of rows, in {label.weight.column!r}; "
                f"give them to fit as sample_weight, with max_weight={label.weight.most:g}"
            )
        file, limit = None if label is None else label.user, self.max_rows_per_user
        if users is not None:
            folded = file is not None and file.ignore_case
            words = {"max_rows_per_user": limit, "ignore_case": folded}
            weights |= {"users": column_of("users", users), **words}
        if file is not None and (users is None or limit != file.most):
            raise ValueError(
                f"the domain's file declares ids of users, in {file.column!r}; give them to fit as "
                f"users, with max_rows_per_user={file.most}"
            )
        bound = int(recipe.rows)
        if users is None and given.count > bound:
            raise ValueError(f"X has more rows than rows={bound}, the stated bound on their number")
        room = None if recipe.relation is REPLACE_ONE else bound
        with show_progress("making the table", verbose):
            private, report = read(reading, given, labels, answers, weights, room)
        key, public_key = keys_of(self.random_state)
        key = keys.derive_noise_key(key, [private])
        with show_progress("learning", verbose) as progress:
            model = fit(key, private, recipe, public_key, progress=progress)
        self._warn()

        # The release.
        validate_data(self, form_of(X, given), reset=True, skip_check_array=True)
        if answers.classes is not None:
            self.classes_ = answers.classes
        self.model_ = model
        self._reading = reading
        self.owner_report_ = report
        return self

    def _warn(self) -> None:
        """Warn of the second of several clones that are fitted."""
        if self._clone_number == 2:
            self._clone_number = 0
            warnings.warn(
                "several clones of one estimator are fitted, as cross-validation and grid search "
                "do: every fit on private rows is a release, so their epsilons add up; test "
                "scores on private rows, and a choice by them, are releases that no ledger covers",
                RepeatedReleaseWarning,
                stacklevel=3,
            )

    # What is released.

    def save(self, path: str | Path) -> None:
        """Write the model to one file, which `dpbt.load` reads with NumPy alone (`dpbt.save`).

        The file holds the domain and the classes, so it reads raw columns and predicts classes.

        Raises:
            ValueError: as `dpbt.save`.
            OSError: if the file cannot be written.
        """
        classes = getattr(self, "classes_", None)
        save(self.model_, path, domain=self.domain_, classes=classes)

    def explain(self, trees: int | None = None) -> str:
        """The model in words, or its first trees (`dpbt.explain`)."""
        return explain(self.model_, self.domain_, trees=trees)

    @property
    def feature_importances_(self) -> np.ndarray:
        """float64[F]: the share of each column of X in the effects on the score; 0 if none has one.

        An effect is the standard deviation of the score as this column alone is redrawn, with all
        bins of the declared domain equally likely (`dpbt.effects.attribute_effects`). It follows
        from what was released and what is public, so it costs no privacy. Noise has effects, too.
        Importances by permutation read rows, and are a release of these that no ledger covers.
        """
        effects = dpbt.effects.attribute_effects(self.model_, self.domain_, draws=256)
        found = {effect.attribute: effect.deviation for effect in effects}
        shares = np.array([found.get(name, 0.0) for name in self._reading.names])
        return shares / (shares.sum() or 1.0)

    @property
    def domain_(self) -> Domain:
        """The public domain that the model was fitted with."""
        return self._reading.domain

    @property
    def ledger_(self) -> accounting.Ledger:
        """What the fit cost (`dpbt.ledger`), with the kind of its key."""
        return ledger(self.model_)

    @property
    def statement_(self) -> str:
        """What the guarantee says, in plain words (`dpbt.statement`)."""
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
            state["model_"] = without_training_parts(state["model_"])
        return state


def form_of(X: Any, given: Rows) -> Any:
    """What scikit-learn is shown of X: the names and the number of its columns, and no row."""
    return X if given.names is not None else np.empty((0, given.width))


def column_of(name: str, data: Any) -> Any:
    """Labels or weights as a column.

    Raises:
        ValueError: for more than one column, and for what holds none yet, such as a lazy frame.
    """
    if (advice := eager_advice(data)) and not hasattr(data, "__len__"):
        raise ValueError(f"{name} must be one column, got {type(data).__name__}{advice}")
    names = names_of(data)
    plain = hasattr(data, "dtype") or hasattr(data, "to_pylist") or not hasattr(data, "__array__")
    if names is None and not plain:
        data = np.asarray(data)
    axes = getattr(data, "shape", (0,)) if names is None else (0, len(names))
    if len(axes) == 1:
        return data
    if axes[1:] != (1,):
        raise ValueError(f"{name} must be one column")
    warnings.warn(
        f"A column-vector {name} was passed when a 1d array was expected.",
        DataConversionWarning,
        stacklevel=3,
    )
    return np.asarray(data)[:, 0] if names is None else data[names[0]]


def read(
    reading: Reading, given: Rows, labels: Any, answers: Answers, weights: Any, capacity: int | None
) -> tuple[Table, OwnerReport]:
    """The table of X, y, weights and ids of users, and how the declaration reads them.

    Raises:
        ValueError: as `dpbt.table`.
    """
    domain, stated = reading.domain, {**answers.options, **weights, "capacity": capacity}
    columns = dict(reading.columns(given))
    table = tables.table(domain, columns, labels, **stated)

    def add(name: str, column: Any) -> str:
        while name in columns:
            name = f"({name})"
        columns[name] = column
        return name

    weight = user = None
    if "users" in weights:
        user = UserColumn(add("users", weights["users"]), weights["max_rows_per_user"])
    if "sample_weight" in weights:
        name = add("sample_weight", weights["sample_weight"])
        weight = WeightColumn(name, weights["max_weight"])
    label = Label(add("y", labels), **answers.options, weight=weight, user=user)
    return table, file_report.report(domain, label, [columns])


def keys_of(random_state: Any) -> tuple[Array, Array]:
    """The keys of the noise and of public structure.

    Raises:
        ValueError: for a random state that scikit-learn does not know.
    """
    if random_state is not None and not isinstance(random_state, numbers.Integral):
        random_state = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return keys.noise_and_public_keys(None if random_state is None else int(random_state))


def _has_probabilities(estimator: Any) -> bool:
    """Whether the model, if there is one, states probabilities."""
    model = vars(estimator).get("model_")
    if model is None or model.about.probability is not None:
        return True
    raise AttributeError(
        f"{model.about.reason}; there is no predict_proba, and decision_function orders the rows"
    )


@_parameters
class _PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """What the two classifiers share."""

    classes: Any = None

    def _answers(self, label: Label | None, labels: Any) -> Answers:
        return declarations.answers_of(self.classes, label, labels)

    def decision_function(self, X: Any) -> np.ndarray:
        """float64[N]: the score of each row; above 0 means `classes_[1]`.

        With K > 2 classes it is float64[N, K], a score for each of `classes_`.
        """
        bins = self._bins(X)
        return np.asarray(models.decision_function(self.model_, bins), np.float64)

    def predict(self, X: Any) -> np.ndarray:
        """[N]: the class of each row, of `classes_`. A score of 0 means `classes_[0]`.

        With several classes it is that of the largest score, the first of equal ones.
        """
        score = self.decision_function(X)
        number = np.argmax(score, axis=1) if score.ndim == 2 else (score > 0).astype(int)
        return self.classes_[number]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """float64[N, K]: the probability of each class, in the order of `classes_`.

        Recipes that vote, such as "lazybb_rules", state no probabilities.
        """
        bins = self._bins(X)  # which says so if there is no model yet
        return np.asarray(self.model_.predict_proba(bins), np.float64)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        listed = isinstance(self.classes, list | tuple | np.ndarray)
        tags.classifier_tags.multi_class = listed and len(self.classes) > 2
        tags.classifier_tags.poor_score = True  # noise
        return tags


@_parameters
class PrivateBoostingClassifier(_PrivateClassifier):
    """Differentially private boosted trees of two classes, or of several.

    Guarantee: epsilon-DP, or (epsilon, delta)-DP, under `relation`, for the X, y and weights given
    to `fit`, with the lines of `ledger_`. It starts at that X: a transformer that was fitted on
    private rows before is outside of it. A second fit is a second release.

    Args:
        epsilon: the total budget. It must be stated.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows.
        rows: under "add_remove" a public bound on the number of rows; under "replace_one" their
            public number. It must be stated.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person: a limit where `fit` is given `users`, else
            the owner's promise. The guarantee is for all rows of a person together.
        domain: the public declaration of the columns, which must be stated. It is a dict from names
            to `domains.Numeric`, `Nominal` or `Boolean`, or one of these for all columns, or the
            path of a JSON file (`domains.read_domain`). `domains.template` writes one to fill in.
        classes: the two labels, or all of several. They may be left out where the domain's file
            declares them, or where the dtype of y is Boolean. Only "auto" and "oblivious_boost"
            learn more than two.
        monotone: for names of columns 1 if scores must not fall as the column rises, or -1 if they
            must not rise. It costs nothing. It is for two classes, and for the recipes "auto" and
            "oblivious_boost".
        max_weight: a public bound on `sample_weight`, which weights need. Larger ones are clipped.
        class_weight: a public weight for each class: a dict, or None. "balanced" is refused,
            because it would read the private counts of classes.
        recipe: "auto", "oblivious_boost", "bdpe", "lazybb_rules", "lazybb_trees" or
            "halfspace_boost", with the defaults of `dpbt.recipes`; "bdpe" has the Gini criterion.
            Or a function that is given epsilon, delta, rows, relation and, if it takes it, domain.
            `functools.partial(dpbt.recipes.bdpe, depth=2)` is one. Parameters such as `monotone`
            are given to it if they are stated, and it must take them.
        random_state: None draws a release key of 256 bits. A number or a NumPy RandomState makes a
            research key: whoever knows it can subtract the noise. The noise follows from it and
            from the rows, so that two tables never share theirs.
        verbose: above 0 to say on standard error what is done; rounds, and never rows.

    Attributes:
        classes_: the classes in order; of two, the negative one first.
        n_features_in_: F, the number of columns of X.
        feature_names_in_: their names, if X is a data frame with names.
        domain_: the public domain.
        model_: the `dpbt.Model`.
        ledger_: what the fit cost.
        statement_: what the guarantee says, in plain words.
        feature_importances_: how much the score depends on each column of X; they cost no privacy.
        owner_report_: exact counts of rows without a label and of cells without a value, for the
            owner of X alone: `print` it, and share it with nobody. It is not kept in pickles.
    """

    _recipes = BOOSTING

    monotone: Any = None
    max_weight: float | None = None
    class_weight: Any = None


@_parameters
class PrivateForestClassifier(_PrivateClassifier):
    """Differentially private random forests of two classes.

    The score of a row is the mean share of `classes_[1]` that the trees state, less 1/2. So classes
    and probabilities agree, as in scikit-learn's forests. `dpbt.predict(model_, ...)` has the other
    votings.

    Guarantee and parameters are those of `PrivateBoostingClassifier`, with other recipes, and
    without several classes, weights and monotone columns.

    Args:
        epsilon: the total budget. It must be stated.
        delta: 0 for a pure guarantee; else in (0, 1).
        rows: a public bound on the number of rows. It must be stated.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person: a limit where `fit` is given `users`, else
            the owner's promise.
        domain: the public declaration of the columns. It must be stated.
        classes: the two labels.
        recipe: "random_forest", "rf_l" or "rf_e", with the defaults of `dpbt.recipes`, or a
            function as in `PrivateBoostingClassifier` that makes a recipe of random trees.
        random_state: None draws a release key.
        verbose: above 0 to say on standard error what is done; rounds, and never rows.
    """

    _recipes = _FORESTS

    recipe: Any = "random_forest"

    def fit(self, X: Any, y: Any, users: Any = None) -> Self:  # type: ignore[override]
        """Learn and release a forest, as `PrivateBoostingClassifier.fit` does. It takes no weights.

        Args:
            X: N rows.
            y: N labels.
            users: N ids that say whose each row is, or None.

        Raises:
            ValueError: as `PrivateBoostingClassifier.fit`.
            TypeError: for a sparse X.
        """
        return super().fit(X, y, users=users)

    def _check(self, recipe: Recipe) -> None:
        if about_recipe(recipe).probability != "shares":
            raise ValueError(f"a forest takes a recipe of random trees, got {recipe.name}")

    def decision_function(self, X: Any) -> np.ndarray:
        """float64[N]: the mean share of `classes_[1]` less 1/2; above 0 means that class."""
        return self.predict_proba(X)[:, 1] - 0.5


@_parameters
class PrivateBoostingRegressor(RegressorMixin, PrivateEstimator):
    """Differentially private boosted trees of a number in a declared range.

    Guarantee: as `PrivateBoostingClassifier`.

    Args:
        epsilon: the total budget. It must be stated.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows.
        rows: under "add_remove" a public bound on the number of rows; under "replace_one" their
            public number. It must be stated.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person: a limit where `fit` is given `users`, else
            the owner's promise. The guarantee is for all rows of a person together.
        domain: the public declaration of the columns, as in `PrivateBoostingClassifier`. It must be
            stated.
        target_range: (low, high), the public range of the number, in its units. A number beyond it
            counts as its nearer end. With None it is that of the domain's file. Declare it from
            what the number means, and never read it off y.
        objective: "squared", "poisson" for the mean of a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: for names of columns 1 if predictions must not fall as the column rises, or -1 if
            they must not rise. It costs nothing.
        max_weight: a public bound on `sample_weight`, which weights need. Larger ones are clipped.
        recipe: "auto" or "oblivious_boost", or a function as in `PrivateBoostingClassifier` that
            takes `target`, too.
        random_state: None draws a release key of 256 bits. A number or a NumPy RandomState makes a
            research key: whoever knows it can subtract the noise. The noise follows from it and
            from the rows, so that two tables never share theirs.
        verbose: above 0 to say on standard error what is done; rounds, and never rows.

    Attributes:
        n_features_in_: F, the number of columns of X.
        feature_names_in_: their names, if X is a data frame with names.
        domain_: the public domain.
        model_: the `dpbt.Model`.
        ledger_: what the fit cost.
        statement_: what the guarantee says, in plain words.
        feature_importances_: how much the score depends on each column of X; they cost no privacy.
        owner_report_: exact counts of rows without a label and of cells without a value, for the
            owner of X alone: `print` it, and share it with nobody. It is not kept in pickles.
    """

    _recipes = BOOSTING

    target_range: Any = None
    objective: str = "squared"
    quantile: float | None = None
    monotone: Any = None
    max_weight: float | None = None

    def _answers(self, label: Label | None, labels: Any) -> Answers:
        del labels  # only the declaration counts
        target = declarations.range_of(self.target_range, label)
        return Answers(None, with_objective(target, self.objective, self.quantile))

    def predict(self, X: Any) -> np.ndarray:
        """float64[N]: the number of each row, in its units and inside the declared range."""
        bins = self._bins(X)
        return np.asarray(self.model_.predict(bins))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise
        return tags
