"""Methods for several classes and for numbers."""

import functools
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
from dpbt.privacy.conversions import gdp_mu
from dpbt.types import Recipe, Table
from experiments.common import peers
from experiments.common.data.targets import Targeted
from experiments.comparisons.methods import (
    Fit,
    Method,
    Predictions,
    RowPredictions,
    Trial,
    describe_recipe,
    fit_of_peer,
    gradient_boosting,
    peer_classifiers,
    setting_with_any_delta,
    setting_with_delta,
    setting_without_delta,
)
from experiments.comparisons.study import Study


def table_of_rows(study: Study, rows: np.ndarray) -> Table:
    """The table of some rows; `rows` is bool[N]."""
    dataset = study.data.where(rows)
    assert isinstance(dataset, Targeted)  # as methods of classes and of numbers get it
    return dpbt.table(dataset.domain, dataset.columns, dataset.cells, target=dataset.kind)


def _auto_recipe(trial: Trial) -> Recipe:
    """The untuned recipe of a split, whose number is the seed of its public splits."""
    study = trial.study
    return recipes.auto(
        epsilon=trial.epsilon,
        delta=trial.delta,
        rows=study.rows,
        domain=study.data.domain,
        target=study.target_kind,
        objective=study.objective,
        seed=trial.split,
    )


def _additive_recipe(trial: Trial) -> Recipe:
    """The untuned recipe of one curve a column."""
    study = trial.study
    return recipes.additive(
        epsilon=trial.epsilon,
        delta=trial.delta,
        rows=study.rows,
        domain=study.data.domain,
        target=study.target_kind,
        objective=study.objective,
    )


def _method_of_recipe(make_recipe: Callable[[Trial], Recipe]) -> Method:
    """The method that fits a recipe of dpbt."""
    return Method(
        functools.partial(_predict_by_recipe, make_recipe),
        lambda trial: describe_recipe(make_recipe(trial)),
    )


def _predict_by_recipe(make_recipe: Callable[[Trial], Recipe], trial: Trial) -> Predictions:
    study = trial.study
    table, recipe = table_of_rows(study, ~trial.test), make_recipe(trial)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", keys.ResearchKeyWarning)
        start = time.perf_counter()
        model = jax.block_until_ready(dpbt.fit(jax.random.key(trial.split), table, recipe))
        seconds = time.perf_counter() - start

    test_table = table_of_rows(study, trial.test)
    predicted = np.asarray(dpbt.predict(model, test_table))
    if not isinstance(study.target_kind, Nominal):
        return Predictions(predicted.astype(np.float64), None, seconds)
    probability = np.asarray(dpbt.predict_proba(model, test_table))
    return Predictions(predicted.astype(np.int64), probability, seconds)


def _predict_classes(study: Study, model: Any, rows: np.ndarray) -> RowPredictions:
    """Classes and probabilities; a class that the model never saw has probability 0.

    Probabilities that are no numbers are even over the classes.
    """
    probability = np.zeros((len(rows), study.num_classes))
    probability[:, np.asarray(model.classes_, int)] = model.predict_proba(rows)
    is_broken = ~np.isfinite(probability).all(axis=1)
    probability[is_broken] = 1 / study.num_classes
    return RowPredictions(np.asarray(model.predict(rows)).astype(np.int64), probability)


def _predict_numbers(study: Study, model: Any, rows: np.ndarray) -> RowPredictions:
    """Numbers, clipped to the declared range; the middle of the range replaces what is none."""
    low, high = study.target_bounds
    predicted = np.nan_to_num(np.asarray(model.predict(rows), np.float64), nan=(low + high) / 2)
    return RowPredictions(np.clip(predicted, low, high), None)


def _random_forest(trial: Trial, rows: peers.Rows) -> peers.Fit:
    from sklearn import ensemble

    kinds = ensemble.RandomForestRegressor, ensemble.RandomForestClassifier
    model: Any = kinds[trial.study.has_classes](random_state=trial.split)
    return lambda: model.fit(rows.numbers, rows.label)


def _predict_larger_class(trial: Trial) -> Predictions:
    study, num_tests = trial.study, int(trial.test.sum())
    counts = np.bincount(study.target[~trial.test], minlength=study.num_classes)
    probability = np.tile(counts / counts.sum(), (num_tests, 1))
    return Predictions(np.full(num_tests, int(counts.argmax())), probability, 0.0)


def _predict_constant(statistic: Callable[[np.ndarray], Any]) -> Fit:
    """The same number for all rows: a statistic of the targets in training."""

    def fit(trial: Trial) -> Predictions:
        number = float(statistic(trial.study.target[~trial.test]))
        return Predictions(np.full(int(trial.test.sum()), number), None, 0.0)

    return fit


def _predict_private_mean(trial: Trial) -> Predictions:
    """The mean of the training rows, as a sum with noise over the public bound on rows.

    The sum is of the distances from the middle of the declared range, so one row moves it by half
    of the range. It gets the whole budget.
    """
    study, rng = trial.study, np.random.default_rng(trial.split)
    low, high = study.target_bounds
    middle, half_range = (low + high) / 2, (high - low) / 2
    total = float(np.sum(study.target[~trial.test] - middle))
    if trial.delta > 0:
        total += rng.normal(0, half_range / float(gdp_mu(trial.epsilon, trial.delta)))
    else:
        total += rng.laplace(0, half_range / trial.epsilon)
    mean = np.clip(middle + total / study.rows, low, high)
    return Predictions(np.full(int(trial.test.sum()), mean), None, 0.0)


def _diffprivlib_bayes(trial: Trial, rows: peers.Rows) -> peers.Fit:
    return peers.diffprivlib_bayes(rows, epsilon=trial.epsilon, seed=trial.split)


def _diffprivlib_linear(trial: Trial, rows: peers.Rows) -> peers.Fit:
    return peers.diffprivlib_linear(
        rows, trial.study.target_bounds, epsilon=trial.epsilon, seed=trial.split
    )


def _private_ebm(trial: Trial, rows: peers.Rows) -> peers.Fit:
    return peers.private_ebm(
        rows,
        epsilon=trial.epsilon,
        delta=trial.delta,
        seed=trial.split,
        bounds=trial.study.target_bounds,
    )


_AUTO = {"auto": _method_of_recipe(_auto_recipe)}
_AUTO["auto-without-noise"] = _AUTO["auto"]._replace(private=False)
_PEERS = peer_classifiers(_predict_classes)

CLASSES: Mapping[str, Method] = {
    **_AUTO,
    "diffprivlib-forest": _PEERS["diffprivlib-forest"],
    "diffprivlib-logistic": _PEERS["diffprivlib-logistic"],
    "diffprivlib-bayes": Method(
        fit_of_peer(_diffprivlib_bayes, _predict_classes),
        setting_without_delta("GaussianNB: defaults"),
        library="diffprivlib",
    ),
    "boosting": _PEERS["boosting"],
    "random-forest": Method(
        fit_of_peer(_random_forest, _predict_classes),
        setting_with_any_delta("RandomForestClassifier: defaults, no privacy"),
        private=False,
        library="scikit-learn",
    ),
    "larger-class": Method(
        _predict_larger_class,
        setting_with_any_delta("the shares of the classes in training"),
        private=False,
    ),
}
"""Name -> method for several classes, in the order of tables."""

NUMBERS: Mapping[str, Method] = {
    **_AUTO,
    "diffprivlib-linear": Method(
        fit_of_peer(_diffprivlib_linear, _predict_numbers, "unit"),
        setting_without_delta("LinearRegression"),
        library="diffprivlib",
    ),
    "dp-ebm": Method(
        fit_of_peer(_private_ebm, _predict_numbers),
        setting_with_delta("DPExplainableBoostingRegressor: defaults"),
        library="interpret-core",
    ),
    "boosting": Method(
        fit_of_peer(gradient_boosting, _predict_numbers),
        setting_with_any_delta("HistGradientBoostingRegressor: defaults, no privacy"),
        private=False,
        library="scikit-learn",
    ),
    "random-forest": Method(
        fit_of_peer(_random_forest, _predict_numbers),
        setting_with_any_delta("RandomForestRegressor: defaults, no privacy"),
        private=False,
        library="scikit-learn",
    ),
    "mean": Method(
        _predict_constant(np.mean), setting_with_any_delta("the mean in training"), private=False
    ),
    "median": Method(
        _predict_constant(np.median),
        setting_with_any_delta("the median in training"),
        private=False,
    ),
}
"""Name -> method for numbers, in the order of tables."""

NUMBERS_ABOUT_PEOPLE: Mapping[str, Method] = {
    "auto": _AUTO["auto"],
    "additive": _method_of_recipe(_additive_recipe),
    "private-mean": Method(
        _predict_private_mean, setting_with_any_delta("a sum with noise over the bound on rows")
    ),
    "auto-without-noise": _AUTO["auto-without-noise"],
    "boosting": NUMBERS["boosting"],
}
"""Name -> method for numbers and counts about people, in the order of tables."""
