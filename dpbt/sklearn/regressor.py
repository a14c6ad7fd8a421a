"""The regressor."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from dpbt import prediction
from dpbt.data.declarations import Answers, range_of
from dpbt.data.domains import Label
from dpbt.data.targets import in_units
from dpbt.recipes import named
from dpbt.sklearn.base import PrivateEstimator


class PrivateBoostingRegressor(RegressorMixin, PrivateEstimator):
    """Differentially private boosted trees of a number in a declared range.

    Guarantee: as `PrivateBoostingClassifier`.

    Args:
        epsilon: the total budget. It must be stated.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows.
        rows: under "add_remove" a public bound on the number of rows; under "replace_one" their
            public number. It must be stated.
        relation: "add_remove" or "replace_one".
        rows_per_person: the most rows that one person has, by the owner's promise. The guarantee is
            then for all rows of a person together.
        domain: the public declaration of the columns, as in `PrivateBoostingClassifier`. It must be
            stated.
        target_range: (low, high), the public range of the number, in its units. A number beyond it
            counts as its nearer end. With None it is that of the domain's file. Declare it from
            what the number means, and never read it off y.
        monotone: for names of columns 1 if predictions must not fall as the column rises, or -1 if
            they must not rise. It costs nothing.
        most_weight: a public bound on `sample_weight`, which weights need. Larger ones are clipped.
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

    _recipes = named.BOOSTING
    _tunes = True  # it is refused in words

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rows: int | None = None,
        relation: str = "add_remove",
        rows_per_person: int = 1,
        domain: Any = None,
        target_range: Any = None,
        monotone: Any = None,
        most_weight: float | None = None,
        recipe: Any = "auto",
        random_state: Any = None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.rows = rows
        self.relation = relation
        self.rows_per_person = rows_per_person
        self.domain = domain
        self.target_range = target_range
        self.monotone = monotone
        self.most_weight = most_weight
        self.recipe = recipe
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn and release a model, with the guarantee of `ledger_`.

        Private values are never refused. A row whose y is no number is absent. What is refused is
        as in `PrivateBoostingClassifier.fit`.

        Args:
            X: N rows: a data frame (pandas, polars or Arrow), an array, or a list of rows.
            y: N numbers, in their units: an array, a column of a frame, or a list.
            sample_weight: N weights from 0 to `most_weight`, or None.

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
        cells = self._cells(X)
        position = np.asarray(prediction.decision_function(self.model_, cells))
        target: Any = self._made.target
        return in_units(target, position)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise
        return tags
