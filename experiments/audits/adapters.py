"""Private learners of other libraries as black boxes; the extra `peers` must be installed.

A fit is (table, seed) -> numbers that a model shows: predictions on four rows, and public
attributes. A table is f64[N, A + 1], with the label last, of numbers in 0..1. A learner that raises
an error shows one number alone, so that errors on private rows are found as well.
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
        shown: model -> numbers.
        runs: of the black box.
        claim: (epsilon, delta).
    """

    library: str
    fit: Callable[[peers.Rows, int], Any]
    shown: Callable[[Any], Any]
    runs: int
    claim: tuple[float, float] = CLAIM

    def __call__(self, table: np.ndarray, seed: int) -> np.ndarray:
        """What a fit shows."""
        numbers = np.asarray(table[:, :-1], float)
        count = numbers.shape[1]
        bounds, nominal = np.tile([0.0, 1.0], (count, 1)), np.zeros(count, bool)
        rows = peers.Rows(numbers, bounds, nominal, numbers, table[:, -1].astype(int))
        try:
            with peers.without_warnings(), peers.on_one_core():
                return np.ravel(self.shown(self.fit(rows, seed)))
        except ValueError:
            return np.full(1, -1.0)


def _tree(rows: peers.Rows, seed: int) -> Any:
    module = importlib.import_module("diffprivlib.models.forest")  # where one tree is
    options = {"bounds": tuple(rows.bounds.T), "classes": [0, 1], "random_state": seed}
    tree = module.DecisionTreeClassifier(max_depth=2, epsilon=1.0, **options)
    return tree.fit(rows.numbers, rows.label)


def _chances(model: Any) -> Any:
    return np.ravel(model.predict_proba(CANARIES))


def _linear(rows: peers.Rows, seed: int) -> Any:
    rows = rows._replace(unit=rows.numbers, label=rows.label.astype(float))
    return peers.diffprivlib_linear(rows, (0.0, 1.0), seed=seed)()


ADAPTERS = {
    "forest": Adapter(
        "diffprivlib", lambda r, s: peers.diffprivlib_forest(r, 5, 2, seed=s)(), _chances, 600
    ),
    "tree": Adapter("diffprivlib", _tree, _chances, 1000),
    "logistic regression": Adapter(
        "diffprivlib", lambda r, s: peers.diffprivlib_logistic(r, seed=s)(), _chances, 1000
    ),
    "linear regression": Adapter("diffprivlib", _linear, lambda m: m.predict(CANARIES), 1000),
    "DP-EBM": Adapter(
        "interpret-core",
        lambda r, s: peers.private_ebm(r, seed=s)(),
        lambda m: [*_chances(m), *np.ravel(m.bag_weights_)],
        120,
        (1.0, 1e-6),
    ),
}
"""Name -> learner, each with its defaults but for the size of trees and the public domain."""
