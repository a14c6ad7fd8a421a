"""Other libraries' private classifiers on the same data; the extra `peers` must be installed.

They get the public domain: bounds of numbers, and values of the other columns. Each library states
its guarantee, and by its own definition of neighbours.
"""

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from dpbt.data.domains import Numeric, positions
from experiments.common import timing
from experiments.common.data import Dataset

EPSILON = 1.0

LIBRARIES = {
    "diffprivlib": "diffprivlib.models",
    "interpret-core": "interpret.privacy",
    "scikit-learn": "sklearn.ensemble",
}
"""Distribution -> its module of classifiers."""

Fit = Callable[[], Any]
"""One fit. It returns a classifier of scikit-learn's kind."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the peers' warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Let the peers use one core. On a busy machine their threads wait for each other."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def check(*names: str) -> None:
    """Check that peers can be imported.

    Args:
        names: keys of `LIBRARIES`; all by default.

    Raises:
        ImportError: if one is not installed, or does not work with the installed scikit-learn.
    """
    with quiet():
        for name in names or LIBRARIES:
            importlib.import_module(LIBRARIES[name])


def version(name: str) -> str:
    """The name and version of an installed distribution of `LIBRARIES`."""
    return f"{name} {metadata.version(name)}"


class Rows(NamedTuple):
    """Rows as arrays, by their public domain.

    Attributes:
        numbers: f64[N, F]. Numbers are clipped to their bounds, and other cells are their place
            in the declared values. Missing numbers are at the lower bound.
        bounds: f64[F, 2], of each column of `numbers`.
        nominal: bool[F], the columns that are no numbers.
        unit: f64[N, A], all in [0, 1]: numbers as parts of their range, and indicators of each
            declared value of the other columns and of declared missing numbers.
        label: i64[N], 0 or 1.
    """

    numbers: np.ndarray
    bounds: np.ndarray
    nominal: np.ndarray
    unit: np.ndarray
    label: np.ndarray

    def where(self, rows: np.ndarray) -> "Rows":
        """Only some rows; `rows` is bool[N] or places."""
        return self._replace(
            numbers=self.numbers[rows], unit=self.unit[rows], label=self.label[rows]
        )


def rows_of(dataset: Dataset) -> Rows:
    """The rows of a data set, without a look at which values occur."""
    cells = np.asarray(dataset.table.cells)
    columns, bounds = [], []
    for place, (name, column) in enumerate(dataset.domain.items()):
        if isinstance(column, Numeric):
            low, high = column.low, column.high
            values = np.asarray(dataset.columns[name], np.float64)
            columns.append(np.clip(np.nan_to_num(values, nan=low), low, high))
        else:
            low, high = 0.0, float(max(column.cells - 1, 1))
            columns.append(cells[:, place].astype(np.float64))
        bounds.append((low, high))
    numeric = [isinstance(column, Numeric) for column in dataset.domain.values()]
    unit = np.asarray(positions(dataset.domain, dataset.columns), np.float64)
    label = np.asarray(dataset.label).astype(int)
    return Rows(np.stack(columns, axis=1), np.asarray(bounds), ~np.asarray(numeric), unit, label)


def diffprivlib_forest(
    rows: Rows,
    trees: int,
    depth: int,
    epsilon: float = EPSILON,
    seed: int = 0,
    shuffle: bool = False,
) -> Fit:
    """One fit of diffprivlib's random forest (Holohan et al., 2019).

    Its trees are random and see disjoint rows, and permute-and-flip chooses the labels of leaves.

    Args:
        rows: the training rows.
        trees: how many.
        depth: of each.
        epsilon: the budget.
        seed: of everything random, noise included.
        shuffle: whether a tree's rows are drawn at random, and not in order.
    """
    from diffprivlib.models import RandomForestClassifier  # pyright: ignore[reportMissingImports]

    def fit():
        forest = RandomForestClassifier(
            n_estimators=trees,
            max_depth=depth,
            epsilon=epsilon,
            bounds=(rows.bounds[:, 0], rows.bounds[:, 1]),
            classes=[0, 1],
            random_state=seed,
            shuffle=shuffle,
        )
        return forest.fit(rows.numbers, rows.label)

    return fit


def diffprivlib_logistic(rows: Rows, epsilon: float = EPSILON, seed: int = 0) -> Fit:
    """One fit of diffprivlib's logistic regression on `Rows.unit` (Chaudhuri et al., 2011).

    A column of the domain adds at most 1 to the squared norm of a row, so the norm is at most the
    root of their number. The classes are read from the labels.
    """
    from diffprivlib.models import LogisticRegression  # pyright: ignore[reportMissingImports]

    norm = float(np.sqrt(len(rows.nominal)))

    def fit():
        model = LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed)
        return model.fit(rows.unit, rows.label)

    return fit


def private_ebm(rows: Rows, epsilon: float = EPSILON, delta: float = 1e-6, seed: int = 0) -> Fit:
    """One fit of interpret's DP-EBM (Nori et al., 2021) at its default 300 rounds, on one core.

    It gets the types of all columns and their bounds. It still reads the classes, the number of
    rows, and which values occur in nominal columns.
    """
    from interpret.privacy import DPExplainableBoostingClassifier  # pyright: ignore[reportMissingImports]

    kinds = ["nominal" if nominal else "continuous" for nominal in rows.nominal]

    def fit():
        model = DPExplainableBoostingClassifier(
            epsilon=epsilon,
            delta=delta,
            feature_types=kinds,
            privacy_bounds=rows.bounds,
            n_jobs=1,
            random_state=seed,
        )
        return model.fit(rows.numbers, rows.label)

    return fit


def seconds(fit: Fit, repeats: int) -> float:
    """The seconds of the fastest of `repeats` fits; one more fit comes first and is not counted."""
    with quiet():
        return timing.measure(lambda _: fit(), repeats).fastest
