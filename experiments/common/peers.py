"""Other libraries' private classifiers on the same data; the extra `peers` must be installed."""

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpbt.data.domains import Numeric
from experiments.common import timing
from experiments.common.data import Dataset

EPSILON = 1.0


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the peers' warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check() -> None:
    """Check that the peers can be imported.

    Raises:
        ImportError: if one is not installed, or does not work with the installed scikit-learn.
    """
    with quiet():
        importlib.import_module("diffprivlib.models")
        importlib.import_module("interpret.privacy")


def features(dataset: Dataset) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """(float64[N, n], bounds of each column): numbers clipped to their bounds, other cells as
    codes.

    Missing numbers are at the lower bound.
    """
    columns, bounds = [], []
    for name, column in dataset.domain.items():
        values = np.asarray(dataset.columns[name])
        if isinstance(column, Numeric):
            low, high = column.low, column.high
            columns.append(np.clip(np.nan_to_num(values.astype(np.float64), nan=low), low, high))
        else:
            known, codes = np.unique(values.astype(str), return_inverse=True)
            low, high = 0.0, float(max(len(known) - 1, 1))
            columns.append(codes.astype(np.float64))
        bounds.append((low, high))
    return np.stack(columns, axis=1), bounds


def diffprivlib_forest(dataset: Dataset, trees: int, depth: int) -> Callable[[], Any]:
    """One fit of diffprivlib's random forest (Holohan et al., 2019).

    Its trees are random, and permute-and-flip chooses the labels of its leaves.
    """
    from diffprivlib.models import RandomForestClassifier  # pyright: ignore[reportMissingImports]

    x, bounds = features(dataset)
    label = dataset.label.astype(int)
    lows, highs = (np.asarray(side) for side in zip(*bounds, strict=True))

    def fit():
        forest = RandomForestClassifier(
            n_estimators=trees,
            max_depth=depth,
            epsilon=EPSILON,
            bounds=(lows, highs),
            classes=[0, 1],
            random_state=0,
        )
        return forest.fit(x, label)

    return fit


def private_ebm(dataset: Dataset) -> Callable[[], Any]:
    """One fit of interpret's DP-EBM (Nori et al., 2021) at its default 300 rounds, on one core."""
    from interpret.privacy import DPExplainableBoostingClassifier  # pyright: ignore[reportMissingImports]

    x, bounds = features(dataset)
    label = dataset.label.astype(int)

    def fit():
        model = DPExplainableBoostingClassifier(
            epsilon=EPSILON, delta=1e-6, privacy_bounds=np.asarray(bounds), n_jobs=1, random_state=0
        )
        return model.fit(x, label)

    return fit


def seconds(fit: Callable[[], Any], repeats: int) -> float:
    """The seconds of the fastest of `repeats` fits; one more fit comes first and is not counted."""
    with quiet():
        return timing.measure(lambda _: fit(), repeats).fastest
