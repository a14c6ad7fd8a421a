"""Private trees as estimators of scikit-learn: `pip install 'dpbt[sklearn]'`.

The guarantee starts at the X that is given to `fit`. A transformer that was fitted on private rows
before, such as a scaler or an imputer, is outside of it, and so is every reader that made X.
"""

import dataclasses
import inspect
import itertools
import numbers
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self, cast

import jax
import numpy as np

import dpbt
from dpbt import boosting, forests, prediction, tuning
from dpbt.analysis.explain import explain
from dpbt.base import REPLACE_ONE, Array, Model, Recipe, Table, Transcript
from dpbt.data import domains, tables
from dpbt.data.declarations import Reading, classes_of, declared
from dpbt.data.domains import Domain
from dpbt.data.frames import Rows, names_of, rows_of
from dpbt.privacy import accounting, keys, pricing
from dpbt.privacy.keys import ResearchKeyWarning
from dpbt.recipes import named
from dpbt.statements import statement
from dpbt.validate import shown

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "dpbt.sklearn needs scikit-learn 1.6 or newer: pip install 'dpbt[sklearn]'"
    ) from error

__all__ = ["PrivateBoostingClassifier", "PrivateForestClassifier", "RepeatedReleaseWarning"]


TUNED = "tuned"
"""The name of a choice among recipes, which `fit` pays for."""


class RepeatedReleaseWarning(UserWarning):
    """Clones of one estimator are fitted, as cross-validation and grid search do."""


class _CloneNumbers:
    """Which clone of its original an estimator is: the first, the second, ...

    Cross-validation, grid search and bagging fit several clones of one estimator. They make them by
    `sklearn.base.clone`. Other uses make one.
    """

    def __init__(self):
        self._counts: weakref.WeakKeyDictionary[Any, Iterator[int]] = weakref.WeakKeyDictionary()
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def cloned(self, original: Any, clone: Any) -> None:
        with self._lock:
            count = self._counts.setdefault(original, itertools.count(1))
            self._numbers[clone] = next(count)

    def get(self, estimator: Any) -> int:
        with self._lock:
            return self._numbers.get(estimator, 0)

    def put(self, estimator: Any, number: int) -> None:
        """Remember a number, such as that of an estimator that another process has made."""
        with self._lock:
            self._numbers[estimator] = number


_CLONES = _CloneNumbers()


class _Made(NamedTuple):
    """What the recipe of a model was made of. All of it is public and can be pickled."""

    epsilon: Any
    delta: Any
    rows: Any
    relation: Any
    recipe: Any
    domain: Domain


def _has_probabilities(estimator: Any) -> bool:
    """Whether the model, if there is one, states probabilities."""
    model = vars(estimator).get("model_")
    if model is None or model.recipe.loss is not None:
        return True
    if model.recipe.learner.hypotheses.shares is not None:
        return True
    raise AttributeError(
        f"{model.recipe.name} is a vote without a link, so it has no predict_proba; "
        "decision_function orders the rows"
    )


class _PrivateClassifier(ClassifierMixin, BaseEstimator):
    """What the two classifiers share."""

    _recipes: Mapping[str, Callable[..., Recipe]]
    """The recipes by name."""

    _tunes = False
    """Whether `TUNED` is one of the names."""

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rows: int | None = None,
        relation: str = "add_remove",
        domain: Any = None,
        classes: Any = None,
        recipe: Any = "auto",
        random_state: Any = None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.rows = rows
        self.relation = relation
        self.domain = domain
        self.classes = classes
        self.recipe = recipe
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn and release a model, with the guarantee of `ledger_`.

        Private values are never refused. A cell that the domain does not hold is missing or in its
        nearest interval, and a row whose label is neither class is absent. Of what is private only
        this is refused: more rows than `rows`, and lengths of X and y that differ.

        Args:
            X: N rows: a data frame (pandas, polars or Arrow), an array, or a list of rows. Frames
                are read by the names of their columns, and others in the order of the domain.
            y: N labels: an array, a column of a frame, or a list.

        Raises:
            ValueError: if a parameter is missing or out of its range, named with what is expected.
                Also for X or y of another form, and as above.
            TypeError: for a sparse X.
        """
        # What is public: the parameters, and the form of X and y.
        epsilon = _stated("epsilon", self.epsilon, "it is the total budget, such as 1.0")
        bound = _stated(
            "rows",
            self.rows,
            "it is a public bound on the number of rows and never read off X; a bound of twice "
            "the truth costs little",
        )
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
        labels = _labels(y)
        classes = classes_of(self.classes, label, labels)
        made = _Made(epsilon, self.delta, bound, self.relation, self.recipe, reading.domain)
        recipes = self._candidates(made)

        # What is private: the table, padded with absent rows so that no shape shows its length.
        private = _table(reading, given, labels, classes, recipes[0])
        key, public_key = _keys(self.random_state)
        if made.recipe == TUNED:
            model = tuning.choose(key, private, recipes, tuning.selection(), public_key).model
        else:
            model = self._learn(key, private, recipes[0], public_key)
        self._warn(key)

        # The release.
        validate_data(self, _form(X, given), reset=True, skip_check_array=True)
        self.classes_ = classes
        self.model_ = model
        self._reading, self._made = reading, made
        return self

    def _candidates(self, made: _Made) -> list[Recipe]:
        """The recipe that the parameters name, or the candidates of a choice.

        Raises:
            ValueError: as `_recipe` and `tuning.around_auto`.
        """
        if made.recipe != TUNED or not self._tunes:
            return [self._recipe(made)]
        options = made._asdict()
        options.pop("recipe")
        return tuning.around_auto(tuning.selection(), **options)

    def _recipe(self, made: _Made) -> Recipe:
        """The recipe that the parameters name.

        Raises:
            ValueError: for a name or an object that is no recipe, and as the recipe.
        """
        asked = made.recipe
        if isinstance(asked, str) and asked in self._recipes:
            build = self._recipes[asked]
        elif callable(asked) and not isinstance(asked, Recipe):
            build = cast(Callable[..., Recipe], asked)
        else:
            known = [*self._recipes, *((TUNED,) if self._tunes else ())]
            raise ValueError(
                f"recipe must be one of {known}, or a function that is given epsilon,"
                f" delta, rows, relation and domain by name and returns a recipe, such as "
                f"functools.partial(dpbt.recipes.bdpe, depth=2); got {shown(asked)}"
            )
        options = made._asdict()
        options.pop("recipe")
        if not _takes(build, "domain"):
            options.pop("domain")
        recipe = build(**options)
        if not isinstance(recipe, Recipe) or np.ndim(recipe.rows) > 0:
            raise ValueError("recipe must return one setting of a recipe, as dpbt.recipes makes it")
        return recipe

    def _learn(self, key: Array, table: Table, recipe: Recipe, public_key: Array) -> Model:
        return boosting.learn(key, table, recipe, public_key)

    def _warn(self, key: Array) -> None:
        """Warn of a key that can be found, and of the second of several clones that are fitted."""
        if keys.kind(key) == keys.RESEARCH:
            warnings.warn(
                "research key: random_state makes the noise, and whoever knows it can subtract "
                "the noise; release private rows with random_state=None",
                ResearchKeyWarning,
                stacklevel=3,
            )
        if _CLONES.get(self) == 2:
            _CLONES.put(self, 0)
            warnings.warn(
                "several clones of one estimator are fitted, as cross-validation and grid search "
                "do: every fit on private rows is a release, so their epsilons add up; test "
                "scores on private rows, and a choice by them, are releases that no ledger covers",
                RepeatedReleaseWarning,
                stacklevel=3,
            )

    # What is released.

    def decision_function(self, X: Any) -> np.ndarray:
        """float64[N]: the score of each row; above 0 means `classes_[1]`."""
        cells = self._cells(X)
        return np.asarray(prediction.decision_function(self.model_, cells), np.float64)

    def predict(self, X: Any) -> np.ndarray:
        """[N]: the class of each row, of `classes_`. A score of 0 means `classes_[0]`."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """float64[N, 2]: the probability of each class, in the order of `classes_`.

        Recipes that vote, such as "lazybb_rules", state no probabilities.
        """
        cells = self._cells(X)
        positive = np.asarray(prediction.predict_proba(self.model_, cells), np.float64)
        return np.stack([1 - positive, positive], axis=1)

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
        return pricing.ledger(self.model_)

    @property
    def statement_(self) -> str:
        """What the guarantee says, in plain words (`dpbt.statement`)."""
        check_is_fitted(self, "model_")
        return statement(self.model_)

    def _cells(self, X: Any) -> np.ndarray:
        """u8[N, F]: rows as the model reads them."""
        check_is_fitted(self, "model_")
        given = rows_of(X, len(self._reading.names))
        validate_data(self, _form(X, given), reset=False, skip_check_array=True)
        return domains.encode(self._reading.domain, self._reading.columns(given))

    # What scikit-learn asks.

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # noise
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def __sklearn_clone__(self):
        clone = super().__sklearn_clone__()
        _CLONES.cloned(self, clone)
        return clone

    def __getstate__(self) -> dict:
        """The parameters and the release. A model holds functions, so its arrays are kept."""
        state: dict[str, Any] = {**cast(dict, super().__getstate__())}
        state["_clone_number"] = _CLONES.get(self)
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
        number = state.pop("_clone_number", 0)
        arrays, words, version = (state.pop(f"_{x}", None) for x in ("arrays", "words", "version"))
        super().__setstate__(state)
        if number:
            _CLONES.put(self, number)
        if arrays is None:
            return

        hypotheses, intercept, transcript, numbers_then = arrays

        def same(recipe: Recipe) -> bool:
            numbers_now = jax.tree.leaves(recipe)
            alike = len(numbers_now) == len(numbers_then) and recipe.learner.tag == version[1]
            return alike and all(map(np.array_equal, numbers_now, numbers_then))

        recipe = next(filter(same, self._candidates(self._made)), None)
        if recipe is None:
            raise ValueError(
                f"the estimator was fitted by dpbt {version[0]}, and its parameters make another "
                f"recipe in dpbt {dpbt.__version__}"
            )
        questions = jax.tree.map(jax.numpy.asarray, domains.questions(self._reading.domain))
        hypotheses, intercept, transcript = jax.tree.map(
            jax.numpy.asarray, (hypotheses, intercept, transcript)
        )
        released = hypotheses, intercept, Transcript(*transcript)
        self.model_ = Model(*released, recipe, questions, **words)


_WORDS = [field.name for field in dataclasses.fields(Model) if field.metadata.get("static")]
"""The fields of a model that are no arrays and can be pickled."""


def _stated(name: str, value: Any, meaning: str) -> Any:
    """A parameter without a default.

    Raises:
        ValueError: saying what it means, if it is not stated.
    """
    if value is None:
        raise ValueError(f"{name} must be stated: {meaning}")
    return value


def _takes(build: Callable[..., Recipe], name: str) -> bool:
    """Whether a function takes an argument of that name."""
    parameters = inspect.signature(build).parameters.values()
    return any(one.name == name or one.kind is one.VAR_KEYWORD for one in parameters)


def _form(X: Any, given: Rows) -> Any:
    """What scikit-learn is shown of X: the names and the number of its columns, and no row."""
    return X if given.names is not None else np.empty((0, given.width))


def _labels(y: Any) -> Any:
    """The labels as a column.

    Raises:
        ValueError: for more than one column.
    """
    names = names_of(y)
    if names is not None and len(names) == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected.",
            DataConversionWarning,
            stacklevel=3,
        )
        return y[names[0]]
    if names is not None:
        raise ValueError(f"y must be one column of labels, got {len(names)}")
    if isinstance(y, list | tuple) or not hasattr(y, "__array__"):
        return y
    if not hasattr(y, "dtype"):
        y = np.asarray(y)
    axes = getattr(y, "ndim", 1)
    if axes == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected.",
            DataConversionWarning,
            stacklevel=3,
        )
        return np.asarray(y)[:, 0]
    if axes != 1:
        raise ValueError(f"y must be one column of labels, got an array of {axes} axes")
    return y


def _table(
    reading: Reading, given: Rows, labels: Any, classes: np.ndarray, recipe: Recipe
) -> Table:
    """The table of private rows, with room for `rows` of them.

    Under replace-one their number is public, and no room is added.

    Raises:
        ValueError: for more rows than the bound, and as `dpbt.table`.
    """
    bound = int(recipe.rows)
    if given.count > bound:
        raise ValueError(f"X has more rows than rows={bound}, the stated bound on their number")
    negative, positive = classes.tolist()
    return tables.table(
        reading.domain,
        reading.columns(given),
        labels,
        negative=negative,
        positive=positive,
        capacity=None if recipe.relation is REPLACE_ONE else bound,
    )


def _keys(random_state: Any) -> tuple[Array, Array]:
    """The keys of the noise and of public structure.

    Raises:
        ValueError: for a random state that scikit-learn does not know.
    """
    if random_state is None:
        return keys.fresh_key(), keys.fresh_key()
    if not isinstance(random_state, numbers.Integral):
        random_state = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return keys.pair(jax.random.key(int(random_state)))


class PrivateBoostingClassifier(_PrivateClassifier):
    """Differentially private boosted trees of two classes.

    Guarantee: epsilon-DP, or (epsilon, delta)-DP, under `relation`, for the X and y given to `fit`,
    with the lines of `ledger_`. It starts at that X: a transformer that was fitted on private rows
    before is outside of it. A second fit is a second release.

    Args:
        epsilon: the total budget. It must be stated.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows.
        rows: under "add_remove" a public bound on the number of rows; under "replace_one" their
            public number. It must be stated.
        relation: "add_remove" or "replace_one".
        domain: the public declaration of the columns, which must be stated. It is a dict from names
            to `domains.Numeric`, `Nominal` or `Boolean`, or one of these for all columns, or the
            path of a JSON file (`domains.read_domain`). `domains.template` writes one to fill in.
        classes: the two labels. With None they are those of the domain's file, or else 0 and 1, or
            False and True, where the dtype of y is of numbers or Booleans.
        recipe: "auto", "oblivious_boost", "bdpe", "lazybb_rules", "lazybb_trees" or
            "halfspace_boost", with the defaults of `dpbt.recipes`; "bdpe" has the Gini criterion.
            "tuned" chooses among candidates around "auto" (`dpbt.tune`), within the same epsilon
            and delta. Or a function that is given epsilon, delta, rows, relation and, if it takes
            it, domain. `functools.partial(dpbt.recipes.bdpe, depth=2)` is one.
        random_state: None draws a release key of 256 bits. A number or a NumPy RandomState makes a
            research key: whoever knows it can subtract the noise.

    Attributes:
        classes_: the two classes in order, negative first.
        n_features_in_: F, the number of columns of X.
        feature_names_in_: their names, if X is a data frame with names.
        domain_: the public domain.
        model_: the `dpbt.Model`.
        ledger_: what the fit cost.
        statement_: what the guarantee says, in plain words.
    """

    _recipes = named.BOOSTING
    _tunes = True


class PrivateForestClassifier(_PrivateClassifier):
    """Differentially private random forests of two classes.

    The score of a row is the mean share of `classes_[1]` that the trees state, less 1/2. So classes
    and probabilities agree, as in scikit-learn's forests. `dpbt.predict(model_, ...)` has the other
    votings.

    Guarantee and parameters are those of `PrivateBoostingClassifier`, with other recipes.

    Args:
        epsilon: the total budget. It must be stated.
        delta: 0 for a pure guarantee; else in (0, 1).
        rows: a public bound on the number of rows. It must be stated.
        relation: "add_remove" or "replace_one".
        domain: the public declaration of the columns. It must be stated.
        classes: the two labels.
        recipe: "random_forest", "rf_l" or "rf_e", with the defaults of `dpbt.recipes`, or a
            function as in `PrivateBoostingClassifier` that makes a recipe of random trees.
        random_state: None draws a release key.
    """

    _recipes = named.FORESTS

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rows: int | None = None,
        relation: str = "add_remove",
        domain: Any = None,
        classes: Any = None,
        recipe: Any = "random_forest",
        random_state: Any = None,
    ):
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            rows=rows,
            relation=relation,
            domain=domain,
            classes=classes,
            recipe=recipe,
            random_state=random_state,
        )

    def decision_function(self, X: Any) -> np.ndarray:
        """float64[N]: the mean share of `classes_[1]` less 1/2; above 0 means that class."""
        return self.predict_proba(X)[:, 1] - 0.5

    def _learn(self, key: Array, table: Table, recipe: Recipe, public_key: Array) -> Model:
        return forests.learn(key, table, recipe, public_key)
