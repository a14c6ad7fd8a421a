"""Private trees as estimators of scikit-learn: `pip install 'dpbt[sklearn]'`.

The guarantee starts at the X that you pass to `fit`. It covers neither a transformer that was
fitted on private rows before, such as a scaler or an imputer, nor the code that read X.
"""

import dataclasses
import numbers
import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from jaxtyping import UInt8

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
from dpbt.data.cells import advice_for_lazy_data
from dpbt.data.column_types import target_with_objective
from dpbt.data.declarations import ColumnOrder, DeclaredAnswers, RowsByColumn, rows_by_column
from dpbt.data.domains import Domain, Label, UserColumn, WeightColumn, frame_column_names
from dpbt.models import model as models
from dpbt.models.contributions import Contributions
from dpbt.models.file import public_facts_of_recipe
from dpbt.models.model import explain, ledger, save, statement, without_training_parts
from dpbt.owners import file_report
from dpbt.owners.file_report import OwnerReport
from dpbt.privacy import accounting, keys
from dpbt.public_types import BOOSTED, FORESTS
from dpbt.training.fit import fit
from dpbt.types import REPLACE_ONE, Recipe, Table

__all__ = [
    "PrivateBoostingClassifier",
    "PrivateBoostingRegressor",
    "PrivateForestClassifier",
    "RepeatedReleaseWarning",
]

BOOSTING: Mapping[str, Callable[..., Any]] = {name: recipes.NAMED[name] for name in BOOSTED}
"""The recipes that boosting estimators know by name."""

_FORESTS: Mapping[str, Callable[..., Any]] = {name: recipes.NAMED[name] for name in FORESTS}
"""The recipes that forest estimators know by name."""

_MEANING_OF_REQUIRED_PARAMETER = {
    "epsilon": "it is the total budget, such as 1.0",
    "rows": "it is a public bound on the number of rows and never read off X; a bound of twice the "
    "truth costs little",
}
"""The parameters that must be stated, with what they mean."""

_RECIPE_PARAMETERS = ("epsilon", "delta", "rows", "relation", "monotone", "max_rows_per_user")
"""The parameters that a recipe is made from, beside the domain and the target."""


class RepeatedReleaseWarning(UserWarning):
    """A warning that several clones of one estimator are fitted, so that their costs add up.

    Cross-validation and grid search fit such clones.
    """


_EFFECT_DEVIATIONS_BY_MODEL: weakref.WeakKeyDictionary[models.Model, dict[str, float]] = (
    weakref.WeakKeyDictionary()
)
"""The effects of the columns of models that were asked for, as deviations; kept with the model."""

_parameters = dataclasses.dataclass(eq=False, repr=False, kw_only=True)
"""Adds a constructor to a class of estimators, from its parameters and their defaults."""


@_parameters
class PrivateEstimator(BaseEstimator):
    """The base class of all estimators: parameters, `fit`, and what a fit has released.

    Subclasses add parameters and predictions.
    """

    _recipes: ClassVar[Mapping[str, Callable[..., Any]]]
    """The recipes by name."""

    _clone_number = 0
    """The number of this clone among those of its original, from 1; 0 for an original."""

    _num_clones = 0
    """The number of clones that were made of this estimator."""

    epsilon: float | None = None
    delta: float = 0.0
    rows: int | None = None
    relation: str = "add_remove"
    max_rows_per_user: int = 1
    delta_anyway: bool = False
    domain: Any = None
    recipe: Any = "auto"
    random_state: Any = None
    verbose: int = 0
    memory: float = tables.DEFAULT_MEMORY_BYTES

    def _declared_classes_or_range(self, label: Label | None, labels: Any) -> DeclaredAnswers:
        """The classes or the range of numbers that are declared for the labels.

        Of the labels themselves only the dtype is read.

        Raises:
            ValueError: saying how to declare them.
        """
        raise NotImplementedError

    def _check_can_predict_with(self, recipe: Recipe) -> None:
        """Refuse a recipe that the estimator cannot predict with.

        Raises:
            ValueError: saying which recipes it takes.
        """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, users: Any = None) -> Self:
        """Learn and release a model, with the guarantee of `ledger_`.

        No private value raises an error. A cell outside the domain counts as missing or as its
        nearest interval. A row whose label is not a declared class, or not a number, counts as
        absent. A weight that is not a number counts as 0. Only two private facts raise an error:
        more rows than `rows`, and different lengths of X, y, weights and ids.

        Args:
            X: N rows: a data frame (pandas, polars or Arrow), an array, or a list of rows. Frames
                are read by the names of their columns, and others in the order of the domain.
            y: N labels, or numbers in their units: an array, a column of a frame, or a list.
            sample_weight: N weights from 0 to `max_weight`, or None. The noise is set for rows with
                the largest weight. The recipes "lazybb_rules", "lazybb_trees" and "halfspace_boost"
                take no weights.
            users: N ids that state whose each row is, or None. Only the first `max_rows_per_user`
                labelled rows of each user count, and rows without an id do not (`dpbt.table`).
                Without ids, you promise that nobody has more rows.

        Raises:
            ValueError: if a parameter is missing or out of its range, named with what is expected.
                Also for X or y of another form, and as above.
            TypeError: for a sparse X.
        """
        # What is public: the parameters, and the form of X and y.
        self._check_required_arguments(y)
        domain, label = declarations.read_declaration(self.domain, frame_column_names(X))
        rows = rows_by_column(X, len(domain) if isinstance(domain, Mapping) else None)
        if rows.num_columns < 1:
            raise ValueError(
                f"0 feature(s) (shape=(, 0)) while a minimum of 1 is required by "
                f"{type(self).__name__}."
            )
        column_order = ColumnOrder.of_fit(domain, rows)
        labels = flatten_to_one_column("y", y)
        sample_weight = (
            None if sample_weight is None else flatten_to_one_column("sample_weight", sample_weight)
        )
        users = None if users is None else flatten_to_one_column("users", users)
        answers = self._declared_classes_or_range(label, labels)
        recipe = self._make_recipe(column_order.domain, answers)
        key, public_key = keys_of_random_state(self.random_state)
        max_rows = int(recipe.rows)
        capacity = None if recipe.relation is REPLACE_ONE else max_rows
        if capacity is not None:
            tables.check_table_fits_memory(column_order.domain, capacity, self.memory)

        # What is private: the table, padded with absent rows so that no shape shows its length.
        options = {
            **answers.table_options,
            **self._weight_and_user_arguments(label, sample_weight, users),
        }
        options["memory"] = self.memory
        if users is None and rows.num_rows > max_rows:
            raise ValueError(
                f"X has more rows than rows={max_rows}, the stated bound on their number"
            )
        with show_progress("making the table", bool(self.verbose)):
            table, report = make_table_and_report(
                column_order, rows, labels=labels, table_options=options, capacity=capacity
            )
        key = keys.mix_rows_into_research_key(key, [table])
        with show_progress("learning", bool(self.verbose)) as progress:
            model = fit(key, table, recipe, public_key, memory=self.memory, progress=progress)
        self._warn_once_if_cross_validation_spends()

        # The release.
        validate_data(self, argument_of_validate_data(X, rows), reset=True, skip_check_array=True)
        if answers.classes is not None:
            self.classes_ = answers.classes
        self.model_ = model
        self._column_order = column_order
        self.owner_report_ = report
        return self

    def _check_required_arguments(self, y: Any) -> None:
        """Refuse a fit without a parameter that must be stated, or without labels.

        Raises:
            ValueError: saying what is missing.
        """
        missing = [name for name in _MEANING_OF_REQUIRED_PARAMETER if getattr(self, name) is None]
        if missing:
            raise ValueError(
                "; ".join(
                    f"{name} must be stated: {_MEANING_OF_REQUIRED_PARAMETER[name]}"
                    for name in missing
                )
            )
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, "
                "but the target y is None."
            )

    def _make_recipe(self, domain: Domain, answers: DeclaredAnswers) -> Recipe:
        """Build the recipe that the parameters state.

        Raises:
            ValueError: for a recipe that the estimator does not take, and as the recipe's function.
        """
        arguments = {name: getattr(self, name, None) for name in _RECIPE_PARAMETERS}
        arguments |= {"domain": domain, "target": answers.target}
        if self.delta_anyway:
            arguments["delta_anyway"] = True
        with show_progress("setting the noise", bool(self.verbose)):
            recipe = recipes.make_recipe(self.recipe, arguments, self._recipes)
        if not isinstance(recipe, Recipe) or np.ndim(recipe.rows) > 0:
            raise ValueError("recipe must return one setting of a recipe, as dpbt.recipes makes it")
        self._check_can_predict_with(recipe)
        return recipe

    def _weight_and_user_arguments(
        self, label: Label | None, sample_weight: Any | None, users: Any | None
    ) -> dict[str, Any]:
        """The arguments of `dpbt.table` on weights and ids of users, by name.

        Raises:
            ValueError: if the domain's file declares weights or ids that `fit` did not get, or
                another limit on the rows of a user.
        """
        names = [name for name in ("max_weight", "class_weight") if hasattr(self, name)]
        options = {name: getattr(self, name) for name in names}
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        elif label is not None and label.weight is not None:
            raise ValueError(
                f"the domain's file declares weights of rows, in {label.weight.column!r}; "
                f"give them to fit as sample_weight, with max_weight={label.weight.max_weight:g}"
            )
        user_column = None if label is None else label.user
        max_rows = self.max_rows_per_user
        if users is not None:
            ignore_case = user_column is not None and user_column.ignore_case
            options |= {"users": users, "max_rows_per_user": max_rows, "ignore_case": ignore_case}
        if user_column is not None and (users is None or max_rows != user_column.max_rows):
            raise ValueError(
                f"the domain's file declares ids of users, in {user_column.column!r}; give them to "
                f"fit as users, with max_rows_per_user={user_column.max_rows}"
            )
        return options

    def _warn_once_if_cross_validation_spends(self) -> None:
        """Warn once that cross-validation spends budget.

        The warning comes when a second clone of one estimator is fitted.
        """
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
        """Write the model to one file.

        `dpbt.load` reads the file with NumPy alone (`dpbt.save`). The file holds the domain and the
        classes, so it reads raw columns and predicts classes.

        Raises:
            sklearn.exceptions.NotFittedError: before `fit`.
            ValueError: as `dpbt.save`.
            OSError: if the file cannot be written.
        """
        check_is_fitted(self, "model_")
        classes = getattr(self, "classes_", None)
        save(self.model_, path, domain=self.domain_, classes=classes)

    def explain(self, trees: int | None = None) -> str:
        """Describe the model in words, or its first trees.

        It is the text of `dpbt.explain`.

        Raises:
            sklearn.exceptions.NotFittedError: before `fit`.
            ValueError: as `dpbt.explain`.
        """
        check_is_fitted(self, "model_")
        return explain(self.model_, self.domain_, trees=trees)

    def contributions(
        self, X: Any, background: Mapping[str, Any] | str | None = None
    ) -> Contributions:
        """What each column of each row adds to its score, exactly.

        They are those of `dpbt.Model.contributions`: post-processing of the model, and as private
        as the rows.

        Args:
            X: N rows, as `predict` reads them.
            background: as `dpbt.Model.contributions`.

        Raises:
            sklearn.exceptions.NotFittedError: before `fit`.
            ValueError: as `dpbt.Model.contributions`.
        """
        check_is_fitted(self, "model_")
        contributions = self.model_.contributions(
            self._encode_rows(X), domain=self.domain_, background=background
        )
        classes = getattr(self, "classes_", None)
        return contributions if classes is None else contributions.with_classes(classes.tolist())

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each column of X in the effects on the score: float64[F].

        All are 0 if no column has an effect.

        An effect is the standard deviation of the score as this column alone is redrawn, with all
        bins of the declared domain equally likely (`dpbt.effects.attribute_effects`). It follows
        from what was released and what is public, so it costs no privacy. Noise has effects, too.
        Importances by permutation read rows, and are a release of these that no ledger covers. They
        are computed once for a model, when they are first asked for.
        """
        check_is_fitted(self, "model_")
        deviation_of = _EFFECT_DEVIATIONS_BY_MODEL.get(self.model_)
        if deviation_of is None:
            effects = dpbt.effects.attribute_effects(self.model_, self.domain_, draws=256)
            deviation_of = {effect.attribute: effect.deviation for effect in effects}
            _EFFECT_DEVIATIONS_BY_MODEL[self.model_] = deviation_of
        deviations = np.array([deviation_of.get(name, 0.0) for name in self._column_order.names])
        return deviations / (deviations.sum() or 1.0)

    @property
    def domain_(self) -> Domain:
        """The public domain that the model was fitted with."""
        return self._column_order.domain

    @property
    def ledger_(self) -> accounting.Ledger:
        """The ledger of the fit: what it costs, line by line, and the kind of its key.

        It is that of `dpbt.ledger`.
        """
        return ledger(self.model_)

    @property
    def statement_(self) -> str:
        """The guarantee of the fit in plain words, as `dpbt.statement` puts it."""
        return statement(self.model_)

    def _encode_rows(self, X: Any) -> UInt8[np.ndarray, "N F"]:
        """Encode rows into the bins that the model reads: u8[N, F]."""
        check_is_fitted(self, "model_")
        rows = rows_by_column(X, len(self._column_order.names))
        validate_data(self, argument_of_validate_data(X, rows), reset=False, skip_check_array=True)
        return domains.encode(self._column_order.domain, self._column_order.declared_columns(rows))

    # The protocols of scikit-learn.

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def __sklearn_clone__(self):
        clone = cast(Self, super().__sklearn_clone__())
        self._num_clones += 1
        clone._clone_number = self._num_clones
        return clone

    def __getstate__(self) -> dict:
        """The state that is pickled: the parameters and the fitted model.

        The model is kept as `dpbt.load` would read it. The private report to the owner of the rows
        is left out.
        """
        state: dict[str, Any] = {**cast(dict, super().__getstate__())}
        state.pop("owner_report_", None)  # private
        if "model_" in state:
            state["model_"] = without_training_parts(state["model_"])
        return state


def argument_of_validate_data(X: Any, rows: RowsByColumn) -> Any:
    """What stands for X in scikit-learn's `validate_data`, which then reads none of its cells.

    The function checks the names and the number of columns. It is X itself if X has names, as the
    function reads no cell then, or else an array without rows.
    """
    return X if rows.names is not None else np.empty((0, rows.num_columns))


def flatten_to_one_column(name: str, data: Any) -> Any:
    """Flatten labels, weights or ids to one axis.

    They may be a frame or an array of one column.

    Raises:
        ValueError: for more than one column, and for a value that holds no cells yet, such as a
            lazy frame.
    """
    if (advice := advice_for_lazy_data(data)) and not hasattr(data, "__len__"):
        raise ValueError(f"{name} must be one column, got {type(data).__name__}{advice}")
    names = frame_column_names(data)
    is_readable = hasattr(data, "dtype") or hasattr(data, "to_pylist")
    if names is None and not is_readable and hasattr(data, "__array__"):
        data = np.asarray(data)
    shape = getattr(data, "shape", (0,)) if names is None else (0, len(names))
    if len(shape) == 1:
        return data
    if shape[1:] != (1,):
        raise ValueError(f"{name} must be one column")
    warnings.warn(
        f"A column-vector {name} was passed when a 1d array was expected.",
        DataConversionWarning,
        stacklevel=3,
    )
    return np.asarray(data)[:, 0] if names is None else data[names[0]]


class TableAndReport(NamedTuple):
    """The table of a fit, and the report to its owner on how the domain read it.

    Both are private.
    """

    table: Table
    report: OwnerReport


def make_table_and_report(
    column_order: ColumnOrder,
    rows: RowsByColumn,
    *,
    labels: Any,
    table_options: Mapping[str, Any],
    capacity: int | None,
) -> TableAndReport:
    """Make the table of a fit, and the report to the owner of X on how the domain reads it.

    Args:
        column_order: how the columns of X are matched with those of the domain.
        rows: X.
        labels: y.
        table_options: the further arguments of `dpbt.table`, such as the classes and the weights.
        capacity: a bound on the number of rows; None if their number is public.

    Raises:
        ValueError: as `dpbt.table`.
    """
    columns = dict(column_order.declared_columns(rows))
    domain = column_order.domain
    table = tables.table(domain, columns, labels, **table_options, capacity=capacity)

    # The report reads labels, weights and ids as further columns, under names that are free.
    def add_column(name: str, column: Any) -> str:
        while name in columns:
            name = f"({name})"
        columns[name] = column
        return name

    weight = user = None
    if "users" in table_options:
        name = add_column("users", table_options["users"])
        user = UserColumn(name, table_options["max_rows_per_user"])
    if "sample_weight" in table_options:
        name = add_column("sample_weight", table_options["sample_weight"])
        weight = WeightColumn(name, table_options["max_weight"])
    declaration: Any = {
        name: table_options[name] for name in _LABEL_OPTIONS if name in table_options
    }
    declaration["ignore_case"] = table_options.get("ignore_label_case", False)
    label = Label(add_column("y", labels), **declaration, weight=weight, user=user)
    return TableAndReport(table, file_report.owner_report_of_rows(domain, label, [columns]))


_LABEL_OPTIONS = "negative", "positive", "target"
"""The arguments of `dpbt.table` that declare the labels."""


def keys_of_random_state(random_state: Any) -> keys.NoiseAndPublicKeys:
    """Make the noise key and the public key of a fit from a random state of scikit-learn.

    A number is the seed itself, with all of its bits. A RandomState or a Generator of NumPy draws
    64 bits.

    Raises:
        ValueError: for a random state that scikit-learn does not know, and for a number outside of
            0..2^64 - 1.
    """
    seed = random_state
    if isinstance(random_state, np.random.Generator):
        seed = int.from_bytes(random_state.bytes(8), "little")
    elif random_state is not None and not isinstance(random_state, numbers.Integral):
        seed = int.from_bytes(check_random_state(random_state).bytes(8), "little")
    return keys.noise_and_public_keys(seed, "random_state")


def _check_has_probabilities(estimator: Any) -> Literal[True]:
    """Refuse `predict_proba` of a fitted model that states no probabilities.

    For any other estimator it is True, as `available_if` asks.

    Raises:
        AttributeError: if its model has none, saying why.
    """
    model = vars(estimator).get("model_")
    if model is None or model.about.probability is not None:
        return True
    raise AttributeError(
        f"{model.about.reason}; there is no predict_proba, and decision_function orders the rows"
    )


@_parameters
class _PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """The base class of the classifiers: it predicts classes, scores and probabilities."""

    classes: Any = None

    def _declared_classes_or_range(self, label: Label | None, labels: Any) -> DeclaredAnswers:
        return declarations.declared_classes(self.classes, label, labels)

    def decision_function(self, X: Any) -> np.ndarray:
        """The score of each row: float64[N].

        A score above 0 means `classes_[1]`. With K > 2 classes it is float64[N, K], a score for
        each of `classes_`.
        """
        bins = self._encode_rows(X)
        return np.asarray(models.decision_function(self.model_, bins), np.float64)

    def predict(self, X: Any) -> np.ndarray:
        """The predicted class of each row, one of `classes_`.

        A score of 0 means `classes_[0]`. With several classes it is that of the largest score, the
        first of equal ones.
        """
        score = self.decision_function(X)
        class_number = np.argmax(score, axis=1) if score.ndim == 2 else (score > 0).astype(int)
        return self.classes_[class_number]

    @available_if(_check_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class for each row, in the order of `classes_`: float64[N, K].

        Recipes that vote, such as "lazybb_rules", state no probabilities.
        """
        bins = self._encode_rows(X)  # raises the error of scikit-learn if there is no model yet
        return np.asarray(self.model_.predict_proba(bins), np.float64)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        is_stated = isinstance(self.classes, list | tuple | np.ndarray)
        tags.classifier_tags.multi_class = is_stated and len(self.classes) > 2
        tags.classifier_tags.poor_score = True  # noise
        return tags


@_parameters
class PrivateBoostingClassifier(_PrivateClassifier):
    """A classifier by differentially private boosted trees, of two classes or of several.

    Guarantee: epsilon-DP, or (epsilon, delta)-DP, under `relation`, for the X, y and weights given
    to `fit`, with the lines of `ledger_`. It starts at that X: a transformer that was fitted on
    private rows before is outside of it. A second fit is a second release.

    Args:
        epsilon: the total budget. It must be stated.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows.
        rows: under "add_remove" a public bound on the number of rows; under "replace_one" their
            public number. It must be stated.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person, all of which the guarantee covers together:
            a limit where `fit` gets `users`, else the owner's promise.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.
        domain: the public declaration of the columns, which must be stated. It is a dict from names
            to `domains.Numeric`, `Nominal` or `Boolean`, or one of these for all columns, or the
            path of a JSON file (`domains.read_domain`). `domains.template` writes one to fill in.
        classes: the two labels, or all of several. They may be left out where the domain's file
            declares them, or where the dtype of y is Boolean. Only "auto", "additive" and
            "oblivious_boost" learn more than two.
        monotone: for names of columns 1 if scores must not fall as the column rises, or -1 if they
            must not rise. It costs nothing. It needs two classes and one of the recipes "auto",
            "additive" and "oblivious_boost".
        max_weight: a public bound on `sample_weight`, which weights need. Larger ones are clipped.
        class_weight: a public weight for each class: a dict, or None. "balanced" is refused,
            because it would read the private counts of classes.
        recipe: "auto", "additive", "oblivious_boost", "bdpe", "lazybb_rules", "lazybb_trees" or
            "halfspace_boost", with the defaults of `dpbt.recipes`; "bdpe" has the Gini criterion.
            Or a function of epsilon, delta, rows, relation and, if it takes it, domain, such as
            `functools.partial(dpbt.recipes.bdpe, depth=2)`. It is also called with parameters such
            as `monotone` if they are stated, and must then take them.
        random_state: None draws a release key of 256 bits. A number in 0..2^64 - 1, or a
            RandomState or Generator of NumPy, makes a research key: anyone who knows it can
            subtract the noise. The noise follows from it and from the rows, so that two tables
            never share theirs.
        verbose: above 0 to report progress on standard error: stages and rounds, never rows.
        memory: how many bytes the table of `rows` rows may take with its fit. A larger one is
            refused before a row is read; dpbt.fit also learns from blocks on the disk.

    Attributes:
        classes_: the classes in order; of two, the negative one first.
        n_features_in_: F, the number of columns of X.
        feature_names_in_: their names, if X is a data frame with names.
        domain_: the public domain.
        model_: the `dpbt.Model`.
        ledger_: the cost of the fit.
        statement_: the guarantee in plain words.
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
    """A classifier by differentially private random forests, of two classes.

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
        max_rows_per_user: the most rows of one person, as in `PrivateBoostingClassifier`.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.
        domain: the public declaration of the columns. It must be stated.
        classes: the two labels.
        recipe: "random_forest", "rf_l" or "rf_e", with the defaults of `dpbt.recipes`, or a
            function as in `PrivateBoostingClassifier` that makes a recipe of random trees.
        random_state: None draws a release key; for others see `PrivateBoostingClassifier`.
        verbose: above 0 to report progress on standard error: stages and rounds, never rows.
        memory: how many bytes the table may take, as in `PrivateBoostingClassifier`.
    """

    _recipes = _FORESTS

    recipe: Any = "random_forest"

    def fit(self, X: Any, y: Any, users: Any = None) -> Self:  # type: ignore[override]
        """Learn and release a forest.

        It reads its arguments as `PrivateBoostingClassifier.fit` does, but takes no weights.

        Args:
            X: N rows.
            y: N labels.
            users: N ids that say whose each row is, or None.

        Raises:
            ValueError: as `PrivateBoostingClassifier.fit`.
            TypeError: for a sparse X.
        """
        return super().fit(X, y, users=users)

    def _check_can_predict_with(self, recipe: Recipe) -> None:
        if public_facts_of_recipe(recipe).probability != "shares":
            raise ValueError(f"a forest takes a recipe of random trees, got {recipe.name}")

    def decision_function(self, X: Any) -> np.ndarray:
        """The mean share of `classes_[1]` that the trees state for each row, less 1/2: float64[N].

        A score above 0 means that class.
        """
        return self.predict_proba(X)[:, 1] - 0.5


@_parameters
class PrivateBoostingRegressor(RegressorMixin, PrivateEstimator):
    """A regressor by differentially private boosted trees, of a number in a declared range.

    Guarantee: as `PrivateBoostingClassifier`.

    Args:
        epsilon: the total budget. It must be stated.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows.
        rows: under "add_remove" a public bound on the number of rows; under "replace_one" their
            public number. It must be stated.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person, as in `PrivateBoostingClassifier`.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.
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
        recipe: "auto", "additive" or "oblivious_boost", or a function as in
            `PrivateBoostingClassifier` that also takes `target`.
        random_state: None draws a release key; for others see `PrivateBoostingClassifier`.
        verbose: above 0 to report progress on standard error: stages and rounds, never rows.
        memory: how many bytes the table may take, as in `PrivateBoostingClassifier`.

    Attributes:
        n_features_in_: F, the number of columns of X.
        feature_names_in_: their names, if X is a data frame with names.
        domain_: the public domain.
        model_: the `dpbt.Model`.
        ledger_: the cost of the fit.
        statement_: the guarantee in plain words.
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

    def _declared_classes_or_range(self, label: Label | None, labels: Any) -> DeclaredAnswers:
        del labels  # only the declaration counts
        target = declarations.declared_range(self.target_range, label)
        return DeclaredAnswers(None, target_with_objective(target, self.objective, self.quantile))

    def predict(self, X: Any) -> np.ndarray:
        """The predicted number of each row, in its units: float64[N].

        It is inside the declared range.
        """
        bins = self._encode_rows(X)
        return np.asarray(self.model_.predict(bins))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise
        return tags
