"""Private trees as estimators of scikit-learn: `pip install 'dpbt[sklearn]'`.

The guarantee starts at the X that is given to `fit`. A transformer that was fitted on private rows
before, such as a scaler or an imputer, is outside of it, and so is every reader that made X.
"""

from typing import Any, Self, cast

import numpy as np

try:
    from sklearn.utils.validation import validate_data as _validate_data  # noqa: F401
except ImportError as error:
    raise ImportError(
        "dpbt.sklearn needs scikit-learn 1.6 or newer: pip install 'dpbt[sklearn]'"
    ) from error

from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from dpbt import recipes
from dpbt.common.public import FORESTS
from dpbt.common.types import Recipe
from dpbt.data.declarations import Answers, answers_of, range_of
from dpbt.data.domains import Label
from dpbt.data.kinds import Numeric
from dpbt.data.targets import in_units
from dpbt.release import model as models
from dpbt.release.scoring import about
from dpbt.sklearn.base import BOOSTING, PrivateEstimator, RepeatedReleaseWarning

__all__ = [
    "PrivateBoostingClassifier",
    "PrivateBoostingRegressor",
    "PrivateForestClassifier",
    "RepeatedReleaseWarning",
]


def _has_probabilities(estimator: Any) -> bool:
    """Whether the model, if there is one, states probabilities."""
    model = vars(estimator).get("model_")
    if model is None or model.about.probability is not None:
        return True
    raise AttributeError(
        f"{model.about.reason}; there is no predict_proba, and decision_function orders the rows"
    )


class _PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """What the two classifiers share."""

    classes: Any

    def _answers(self, label: Label | None, labels: Any) -> Answers:
        return answers_of(self.classes, label, labels)

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
        bins = self._bins(X)
        found = np.asarray(models.predict_proba(self.model_, bins), np.float64)
        return found if found.ndim == 2 else np.stack([1 - found, found], axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        listed = isinstance(self.classes, list | tuple | np.ndarray)
        tags.classifier_tags.multi_class = listed and len(self.classes) > 2
        tags.classifier_tags.poor_score = True  # noise
        return tags


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
        max_rows_per_user: the most rows that one person has, by the owner's promise. The guarantee
            is then for all rows of a person together.
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
            "tuned" chooses among candidates around "auto" (`dpbt.tune`), within the same epsilon
            and delta. It is for two classes, without weights and monotone columns.
            Or a function that is given epsilon, delta, rows, relation and, if it takes it, domain.
            `functools.partial(dpbt.recipes.bdpe, depth=2)` is one. Parameters such as `monotone`
            are given to it if they are stated, and it must take them.
        random_state: None draws a release key of 256 bits. A number or a NumPy RandomState makes a
            research key: whoever knows it can subtract the noise. The noise follows from it and
            from the rows, so that two tables never share theirs.

    Attributes:
        classes_: the classes in order; of two, the negative one first.
        n_features_in_: F, the number of columns of X.
        feature_names_in_: their names, if X is a data frame with names.
        domain_: the public domain.
        model_: the `dpbt.Model`.
        ledger_: what the fit cost.
        statement_: what the guarantee says, in plain words.
        owner_report_: exact counts of rows without a label and of cells without a value, for the
            owner of X alone: `print` it, and share it with nobody. It is not kept in pickles.
    """

    _recipes = BOOSTING

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rows: int | None = None,
        relation: str = "add_remove",
        max_rows_per_user: int = 1,
        domain: Any = None,
        classes: Any = None,
        monotone: Any = None,
        max_weight: float | None = None,
        class_weight: Any = None,
        recipe: Any = "auto",
        random_state: Any = None,
    ):
        self._keep(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn and release a model, with the guarantee of `ledger_`.

        Private values are never refused. A cell that the domain does not hold is missing or in its
        nearest interval, and a row whose label is no declared class is absent. A weight that is no
        number is 0. Of what is private only this is refused: more rows than `rows`, and lengths of
        X, y and weights that differ.

        Args:
            X: N rows: a data frame (pandas, polars or Arrow), an array, or a list of rows. Frames
                are read by the names of their columns, and others in the order of the domain.
            y: N labels: an array, a column of a frame, or a list.
            sample_weight: N weights from 0 to `max_weight`, or None. Noise is set for rows of the
                largest weight. The recipes "lazybb_rules", "lazybb_trees" and "halfspace_boost"
                take none.

        Raises:
            ValueError: if a parameter is missing or out of its range, named with what is expected.
                Also for X or y of another form, and as above.
            TypeError: for a sparse X.
        """
        return self._fit(X, y, sample_weight)


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
        max_rows_per_user: the most rows that one person has, by the owner's promise.
        domain: the public declaration of the columns. It must be stated.
        classes: the two labels.
        recipe: "random_forest", "rf_l" or "rf_e", with the defaults of `dpbt.recipes`, or a
            function as in `PrivateBoostingClassifier` that makes a recipe of random trees.
        random_state: None draws a release key.
    """

    _recipes = recipes.named(FORESTS)

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rows: int | None = None,
        relation: str = "add_remove",
        max_rows_per_user: int = 1,
        domain: Any = None,
        classes: Any = None,
        recipe: Any = "random_forest",
        random_state: Any = None,
    ):
        self._keep(locals())

    def fit(self, X: Any, y: Any) -> Self:
        """Learn and release a forest, as `PrivateBoostingClassifier.fit` does. It takes no weights.

        Args:
            X: N rows.
            y: N labels.

        Raises:
            ValueError: as `PrivateBoostingClassifier.fit`.
            TypeError: for a sparse X.
        """
        return self._fit(X, y)

    def _check(self, recipe: Recipe) -> None:
        if about(recipe).probability != "shares":
            raise ValueError(f"a forest takes a recipe of random trees, got {recipe.name}")

    def decision_function(self, X: Any) -> np.ndarray:
        """float64[N]: the mean share of `classes_[1]` less 1/2; above 0 means that class."""
        return self.predict_proba(X)[:, 1] - 0.5


class PrivateBoostingRegressor(RegressorMixin, PrivateEstimator):
    """Differentially private boosted trees of a number in a declared range.

    Guarantee: as `PrivateBoostingClassifier`.

    Args:
        epsilon: the total budget. It must be stated.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows.
        rows: under "add_remove" a public bound on the number of rows; under "replace_one" their
            public number. It must be stated.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows that one person has, by the owner's promise. The guarantee
            is then for all rows of a person together.
        domain: the public declaration of the columns, as in `PrivateBoostingClassifier`. It must be
            stated.
        target_range: (low, high), the public range of the number, in its units. A number beyond it
            counts as its nearer end. With None it is that of the domain's file. Declare it from
            what the number means, and never read it off y.
        monotone: for names of columns 1 if predictions must not fall as the column rises, or -1 if
            they must not rise. It costs nothing.
        max_weight: a public bound on `sample_weight`, which weights need. Larger ones are clipped.
        recipe: "auto" or "oblivious_boost", or a function as in `PrivateBoostingClassifier` that
            takes `target`, too.
        random_state: None draws a release key of 256 bits. A number or a NumPy RandomState makes a
            research key: whoever knows it can subtract the noise. The noise follows from it and
            from the rows, so that two tables never share theirs.

    Attributes:
        n_features_in_: F, the number of columns of X.
        feature_names_in_: their names, if X is a data frame with names.
        domain_: the public domain.
        model_: the `dpbt.Model`.
        ledger_: what the fit cost.
        statement_: what the guarantee says, in plain words.
        owner_report_: exact counts of rows without a label and of cells without a value, for the
            owner of X alone: `print` it, and share it with nobody. It is not kept in pickles.
    """

    _recipes = BOOSTING
    target_range: Any

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rows: int | None = None,
        relation: str = "add_remove",
        max_rows_per_user: int = 1,
        domain: Any = None,
        target_range: Any = None,
        monotone: Any = None,
        max_weight: float | None = None,
        recipe: Any = "auto",
        random_state: Any = None,
    ):
        self._keep(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn and release a model, with the guarantee of `ledger_`.

        Private values are never refused. A row whose y is no number is absent. What is refused is
        as in `PrivateBoostingClassifier.fit`.

        Args:
            X: N rows: a data frame (pandas, polars or Arrow), an array, or a list of rows.
            y: N numbers, in their units: an array, a column of a frame, or a list.
            sample_weight: N weights from 0 to `max_weight`, or None.

        Raises:
            ValueError: as `PrivateBoostingClassifier.fit`, and if no range is declared.
            TypeError: for a sparse X.
        """
        return self._fit(X, y, sample_weight)

    def _answers(self, label: Label | None, labels: Any) -> Answers:
        del labels  # only the declaration counts
        return Answers(None, range_of(self.target_range, label))

    def predict(self, X: Any) -> np.ndarray:
        """float64[N]: the number of each row, in its units and inside the declared range."""
        bins = self._bins(X)
        position = np.asarray(models.decision_function(self.model_, bins))
        return in_units(cast(Numeric, self.model_.about.target), position)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise
        return tags
