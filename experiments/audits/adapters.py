"""Private learners of other libraries as black boxes; the extra `peers` must be installed.

An adapter is a function (table, seed) -> the numbers that a fitted model shows: predictions on four
rows, and public attributes. A table is f64[N, A + 1], with the label last, of numbers in 0..1. A
learner that raises an error shows one number alone, so that audits see errors on private rows, too.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from experiments.common import peers

CLAIM = (1.0, 0.0)
PAIRS = ("a corner among random rows", "a corner among the other", "a cell that is no number")
"""Of `dpbt.audit.worst_pairs`; one row comes or goes."""

CANARIES = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


class Adapter(NamedTuple):
    """A learner of another library.

    Attributes:
        library: the key of `peers.LIBRARIES`.
        fit: (rows, seed) -> a fitted model.
        observe: model -> the numbers that it shows.
        runs: the number of runs of the black box.
        claim: (epsilon, delta).
    """

    library: str
    fit: Callable[[peers.Rows, int], Any]
    observe: Callable[[Any], Any]
    runs: int
    claim: tuple[float, float] = CLAIM

    def __call__(self, table: np.ndarray, seed: int) -> np.ndarray:
        """The numbers that a model fitted to a table shows."""
        numbers = np.asarray(table[:, :-1], float)
        rows = peers.rows_of_unit_numbers(numbers, table[:, -1].astype(int))
        try:
            with peers.without_warnings(), peers.on_one_core():
                return np.ravel(self.observe(self.fit(rows, seed)))
        except ValueError:
            return np.full(1, -1.0)


def _fit_tree(rows: peers.Rows, seed: int) -> Any:
    module = importlib.import_module("diffprivlib.models.forest")  # where one tree is
    options = {"bounds": tuple(rows.bounds.T), "classes": [0, 1], "random_state": seed}
    tree = module.DecisionTreeClassifier(max_depth=2, epsilon=1.0, **options)
    return tree.fit(rows.numbers, rows.label)


def _canary_probabilities(model: Any) -> Any:
    return np.ravel(model.predict_proba(CANARIES))


def _fit_linear_regression(rows: peers.Rows, seed: int) -> Any:
    rows = rows._replace(unit=rows.numbers, label=rows.label.astype(float))
    return peers.diffprivlib_linear(rows, (0.0, 1.0), seed=seed)()


def _fit_forest(rows: peers.Rows, seed: int) -> Any:
    return peers.diffprivlib_forest(rows, trees=5, depth=2, seed=seed)()


def _fit_logistic_regression(rows: peers.Rows, seed: int) -> Any:
    return peers.diffprivlib_logistic(rows, seed=seed)()


def _fit_ebm(rows: peers.Rows, seed: int) -> Any:
    return peers.private_ebm(rows, seed=seed)()


ADAPTERS = {
    "forest": Adapter("diffprivlib", _fit_forest, _canary_probabilities, runs=600),
    "tree": Adapter("diffprivlib", _fit_tree, _canary_probabilities, runs=1000),
    "logistic regression": Adapter(
        "diffprivlib", _fit_logistic_regression, _canary_probabilities, runs=1000
    ),
    "linear regression": Adapter(
        "diffprivlib", _fit_linear_regression, lambda model: model.predict(CANARIES), runs=1000
    ),
    "DP-EBM": Adapter(
        "interpret-core",
        _fit_ebm,
        lambda model: [*_canary_probabilities(model), *np.ravel(model.bag_weights_)],
        runs=120,
        claim=(1.0, 1e-6),
    ),
}
"""Name -> learner, each with its defaults but for the size of trees and the public domain."""
