"""Methods for several classes and for numbers."""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.data.domains import Nominal
from dpbt.privacy import keys
from dpbt.types import Recipe, Table
from experiments.common import peers
from experiments.common.data.targets import Targeted
from experiments.comparisons.methods import (
    Fit,
    Found,
    Method,
    approximate,
    classifiers,
    gradient_boosting,
    pure,
    rival,
    setting_of,
    words,
)
from experiments.comparisons.study import Study


def _table(study: Study, rows: np.ndarray) -> Table:
    """The table of some rows; `rows` is bool[N]."""
    some = study.data.where(rows)
    assert isinstance(some, Targeted)  # as methods of classes and of numbers are given
    return dpbt.table(some.domain, some.columns, some.cells, target=some.kind)


def _recipe(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
    """The untuned recipe of a split, whose number is the seed of its public splits."""
    given: dict[str, Any] = {"domain": study.data.domain, "target": study.kind}
    return recipes.auto(epsilon=epsilon, delta=delta, rows=study.rows, seed=split, **given)


def _auto(study: Study, split: int, epsilon: float, delta: float) -> Found:
    test = study.tests[split]
    table, recipe = _table(study, ~test), _recipe(study, split, epsilon, delta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", keys.ResearchKeyWarning)
        start = time.perf_counter()
        model = jax.block_until_ready(dpbt.fit(jax.random.key(split), table, recipe))
        seconds = time.perf_counter() - start

    held = _table(study, test)
    predicted = np.asarray(dpbt.predict(model, held))
    if not isinstance(study.kind, Nominal):
        return Found(predicted.astype(np.float64), None, seconds)
    probability = np.asarray(dpbt.predict_proba(model, held))
    return Found(predicted.astype(np.int64), probability, seconds)


def _setting(study: Study, epsilon: float, delta: float) -> str:
    return setting_of(_recipe(study, 0, epsilon, delta))


def _as_classes(study: Study, model: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Classes and probabilities; a class that the model never saw has probability 0.

    Probabilities that are no numbers are even over the classes.
    """
    probability = np.zeros((len(rows), study.classes))
    probability[:, np.asarray(model.classes_, int)] = model.predict_proba(rows)
    broken = ~np.isfinite(probability).all(axis=1)
    probability[broken] = 1 / study.classes
    return np.asarray(model.predict(rows)).astype(np.int64), probability


def _as_numbers(study: Study, model: Any, rows: np.ndarray) -> tuple[np.ndarray, None]:
    """Numbers, clipped to the declared range; none is the middle of the range."""
    low, high = study.bounds
    predicted = np.nan_to_num(np.asarray(model.predict(rows), np.float64), nan=(low + high) / 2)
    return np.clip(predicted, low, high), None


def _forest(study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int) -> peers.Fit:
    from sklearn import ensemble

    del epsilon, delta
    kinds = ensemble.RandomForestRegressor, ensemble.RandomForestClassifier
    model: Any = kinds[study.target.dtype.kind != "f"](random_state=seed)
    return lambda: model.fit(rows.numbers, rows.label)


def _larger_class(study: Study, split: int, epsilon: float, delta: float) -> Found:
    del epsilon, delta
    test = study.tests[split]
    counts = np.bincount(study.target[~test], minlength=study.classes)
    probability = np.tile(counts / counts.sum(), (int(test.sum()), 1))
    return Found(np.full(int(test.sum()), int(counts.argmax())), probability, 0.0)


def _constant(statistic: Callable[[np.ndarray], Any]) -> Fit:
    """The same number for all rows, of the targets in training."""

    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        del epsilon, delta
        test = study.tests[split]
        number = float(statistic(study.target[~test]))
        return Found(np.full(int(test.sum()), number), None, 0.0)

    return fit


_OURS = {"auto": Method(_auto, _setting)}
_OURS["auto-without-noise"] = _OURS["auto"]._replace(private=False)
_THEIRS = classifiers(_as_classes)

CLASSES: Mapping[str, Method] = {
    **_OURS,
    "diffprivlib-forest": _THEIRS["diffprivlib-forest"],
    "diffprivlib-logistic": _THEIRS["diffprivlib-logistic"],
    "diffprivlib-bayes": Method(
        rival(
            lambda study, rows, epsilon, delta, seed: peers.diffprivlib_bayes(rows, epsilon, seed),
            _as_classes,
        ),
        pure("GaussianNB: defaults"),
        library="diffprivlib",
    ),
    "boosting": _THEIRS["boosting"],
    "random-forest": Method(
        rival(_forest, _as_classes),
        words("RandomForestClassifier: defaults, no privacy"),
        private=False,
        library="scikit-learn",
    ),
    "larger-class": Method(
        _larger_class, words("the shares of the classes in training"), private=False
    ),
}
"""Name -> method for several classes, in the order of tables."""

NUMBERS: Mapping[str, Method] = {
    **_OURS,
    "diffprivlib-linear": Method(
        rival(
            lambda study, rows, epsilon, delta, seed: peers.diffprivlib_linear(
                rows, study.bounds, epsilon, seed
            ),
            _as_numbers,
            "unit",
        ),
        pure("LinearRegression"),
        library="diffprivlib",
    ),
    "dp-ebm": Method(
        rival(
            lambda study, rows, epsilon, delta, seed: peers.private_ebm(
                rows, epsilon, delta, seed, study.bounds
            ),
            _as_numbers,
        ),
        approximate("DPExplainableBoostingRegressor: defaults"),
        library="interpret-core",
    ),
    "boosting": Method(
        rival(gradient_boosting, _as_numbers),
        words("HistGradientBoostingRegressor: defaults, no privacy"),
        private=False,
        library="scikit-learn",
    ),
    "random-forest": Method(
        rival(_forest, _as_numbers),
        words("RandomForestRegressor: defaults, no privacy"),
        private=False,
        library="scikit-learn",
    ),
    "mean": Method(_constant(np.mean), words("the mean in training"), private=False),
    "median": Method(_constant(np.median), words("the median in training"), private=False),
}
"""Name -> method for numbers, in the order of tables."""
