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

from dpbt.data.domains import Columns, Domain, Numeric, encode, encode_positions
from experiments.common import timing
from experiments.common.data import Dataset

EPSILON = 1.0

LIBRARIES = {
    "diffprivlib": "diffprivlib.models",
    "interpret-core": "interpret.privacy",
    "scikit-learn": "sklearn.ensemble",
}
"""Distribution -> its module of classifiers."""

REPOSITORIES = {"S-BDT": "sbdt", "PrivaTree": "privatree.privatree"}
"""Library that is no distribution -> its module, which is on the path where it was built."""

Fit = Callable[[], Any]
"""One fit. It returns a classifier of scikit-learn's kind."""


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
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


def check_installed(*names: str) -> None:
    """Check that peers can be imported.

    Args:
        names: keys of `LIBRARIES`, or of `REPOSITORIES`; all of the first by default.

    Raises:
        ImportError: if one is not installed, or does not work with the installed scikit-learn.
    """
    with without_warnings():
        for name in names or LIBRARIES:
            importlib.import_module({**LIBRARIES, **REPOSITORIES}[name])


def name_with_version(name: str) -> str:
    """The name of a library, with the version of a distribution."""
    return name if name in REPOSITORIES else f"{name} {metadata.version(name)}"


class Rows(NamedTuple):
    """Rows as arrays, by their public domain.

    Attributes:
        numbers: f64[N, F]. Numbers are clipped to their bounds, and other bins are their place
            in the declared values. Missing numbers are at the lower bound.
        bounds: f64[F, 2], of each column of `numbers`.
        nominal: bool[F], the columns that are no numbers.
        unit: f64[N, A], all in [0, 1]: numbers as parts of their range, and indicators of each
            declared value of the other columns and of declared missing numbers.
        label: i64[N], the places of the classes, 0 or 1 if there are two; or f64[N], numbers.
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


def rows_of_dataset(dataset: Dataset) -> Rows:
    """The rows of a data set, without a look at which values occur."""
    return rows_of_columns(dataset.domain, dataset.columns, np.asarray(dataset.label).astype(int))


def rows_of_columns(domain: Domain, columns: Columns, label: np.ndarray) -> Rows:
    """The rows of columns, without a look at which values occur.

    Args:
        domain: the public domain.
        columns: the raw cells of each column.
        label: i64[N], the places of the classes; or f64[N], numbers.
    """
    bins = encode(domain, columns)
    numbers, bounds = [], []
    for place, (name, column) in enumerate(domain.items()):
        if isinstance(column, Numeric):
            low, high = column.low, column.high
            values = np.asarray(columns[name], np.float64)
            numbers.append(np.clip(np.nan_to_num(values, nan=low), low, high))
        else:
            low, high = 0.0, float(max(column.n_bins - 1, 1))
            numbers.append(bins[:, place].astype(np.float64))
        bounds.append((low, high))
    nominal = ~np.asarray([isinstance(column, Numeric) for column in domain.values()])
    unit = np.asarray(encode_positions(domain, columns), np.float64)
    return Rows(np.stack(numbers, axis=1), np.asarray(bounds), nominal, unit, label)


def rows_of_unit_numbers(numbers: np.ndarray, label: np.ndarray) -> Rows:
    """Rows of numbers f64[N, F] whose public ranges are all [0, 1]."""
    count = numbers.shape[1]
    bounds, nominal = np.tile([0.0, 1.0], (count, 1)), np.zeros(count, bool)
    return Rows(numbers=numbers, bounds=bounds, nominal=nominal, unit=numbers, label=label)


def diffprivlib_forest(
    rows: Rows,
    *,
    trees: int,
    depth: int,
    epsilon: float = EPSILON,
    seed: int = 0,
    shuffle: bool = False,
    classes: int = 2,
) -> Fit:
    """One fit of diffprivlib's random forest (Holohan et al., 2019).

    Its trees are random and see disjoint rows, and permute-and-flip chooses the labels of leaves.

    Args:
        rows: the training rows.
        trees: how many.
        depth: the depth of each tree.
        epsilon: the budget.
        seed: the seed of everything random, noise included.
        shuffle: whether a tree's rows are drawn at random, and not in order.
        classes: how many there are.
    """
    make_model = _diffprivlib_model("RandomForestClassifier")
    arguments = {"epsilon": epsilon, "random_state": seed, "shuffle": shuffle}
    arguments |= {"n_estimators": trees, "max_depth": depth, "classes": list(range(classes))}
    bounds = tuple(rows.bounds.T)
    return lambda: make_model(**arguments, bounds=bounds).fit(rows.numbers, rows.label)


def diffprivlib_logistic(
    rows: Rows, *, epsilon: float = EPSILON, seed: int = 0, **options: Any
) -> Fit:
    """One fit of diffprivlib's logistic regression on `Rows.unit` (Chaudhuri et al., 2011).

    A column of the domain adds at most 1 to the squared norm of a row, so the norm is at most the
    root of their number. The classes are read from the labels; of more than two each is told from
    the rest, with an equal part of epsilon. Other options are passed on to the library.
    """
    norm = float(np.sqrt(len(rows.nominal)))
    make_model = _diffprivlib_model("LogisticRegression")
    arguments = {"epsilon": epsilon, "random_state": seed, "data_norm": norm, **options}
    return lambda: make_model(**arguments).fit(rows.unit, rows.label)


def diffprivlib_bayes(rows: Rows, *, epsilon: float = EPSILON, seed: int = 0) -> Fit:
    """One fit of diffprivlib's Gaussian naive Bayes (Vaidya et al., 2013) on `Rows.numbers`.

    The classes and the number of rows are read from the labels.
    """
    make_model = _diffprivlib_model("GaussianNB")
    arguments = {"epsilon": epsilon, "random_state": seed, "bounds": tuple(rows.bounds.T)}
    return lambda: make_model(**arguments).fit(rows.numbers, rows.label)


def diffprivlib_linear(
    rows: Rows, bounds: tuple[float, float], *, epsilon: float = EPSILON, seed: int = 0
) -> Fit:
    """One fit of diffprivlib's linear regression on `Rows.unit` (Zhang et al., 2012).

    Args:
        rows: the training rows.
        bounds: the public range of the target.
        epsilon: the budget.
        seed: the seed of the noise.
    """
    make_model = _diffprivlib_model("LinearRegression")
    arguments = {"epsilon": epsilon, "random_state": seed}
    ranges = {"bounds_X": (0.0, 1.0), "bounds_y": bounds}
    return lambda: make_model(**arguments, **ranges).fit(rows.unit, rows.label)


def _diffprivlib_model(name: str) -> Callable[..., Any]:
    """The class of a model of diffprivlib."""
    return getattr(importlib.import_module(LIBRARIES["diffprivlib"]), name)


def private_ebm(
    rows: Rows,
    *,
    epsilon: float = EPSILON,
    delta: float = 1e-6,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> Fit:
    """One fit of interpret's DP-EBM (Nori et al., 2021) at its default 300 rounds, on one core.

    It gets the types of all columns and their bounds. It still reads the classes, the number of
    rows, and which values occur in nominal columns.

    Args:
        rows: the training rows.
        epsilon: the budget.
        delta: the budget, above 0.
        seed: the seed of everything random, noise included.
        bounds: the public range of the target, if that is a number.
    """
    kinds = ["nominal" if nominal else "continuous" for nominal in rows.nominal]
    arguments: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "feature_types": kinds}
    arguments |= {"random_state": seed, "privacy_bounds": rows.bounds, "n_jobs": 1}
    if bounds is not None:
        arguments |= {"privacy_target_min": bounds[0], "privacy_target_max": bounds[1]}
    name = "Classifier" if bounds is None else "Regressor"
    module = importlib.import_module(LIBRARIES["interpret-core"])
    make_model = getattr(module, f"DPExplainableBoosting{name}")
    return lambda: make_model(**arguments).fit(rows.numbers, rows.label)


def fastest_seconds(fit: Fit, repeats: int) -> float:
    """The seconds of the fastest of `repeats` fits; one more fit comes first and is not counted."""
    with without_warnings():
        return timing.time_calls(lambda _: fit(), repeats).fastest
