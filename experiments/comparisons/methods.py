"""What a method is: how it fits the training rows of a split, and predicts its test rows.

A method has one setting for all data, and states it in words or JSON.
"""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from dpbt.types import Recipe
from experiments.common import peers
from experiments.comparisons.study import Study


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """One split of a study at one budget.

    Attributes:
        study: the data set and its splits.
        split: the number of the split, which is the seed of everything random, too.
        epsilon: the budget; infinite for methods without privacy.
        delta: the budget; 0 for a pure guarantee.
    """

    study: Study
    split: int
    epsilon: float
    delta: float

    @property
    def test(self) -> np.ndarray:
        """bool[N], the test rows of the split; the others train."""
        return self.study.tests[self.split]

    @property
    def recipe_arguments(self) -> dict[str, Any]:
        """What every recipe gets: epsilon, delta, and the public bound on training rows."""
        return {"epsilon": self.epsilon, "delta": self.delta, "rows": self.study.rows}


class Predictions(NamedTuple):
    """The predictions of one fit on the test rows of its split.

    Attributes:
        predicted: f[M], scores, of which one above 0 means the positive class; or i64[M], classes;
            or f64[M], numbers.
        probability: f[M] of the positive class, or f[M, K] of several; None where there is none.
        seconds: the seconds of the fit.
    """

    predicted: np.ndarray
    probability: np.ndarray | None
    seconds: float


Fit = Callable[[Trial], Predictions]
"""The fit of a method on the training rows of a trial, and its predictions on the test rows."""

Setting = Callable[[Trial], str | None]
"""The setting of a method in words or JSON; None where it has nothing to measure at the budget."""

MakePeerFit = Callable[[Trial, peers.Rows], peers.Fit]
"""From a trial and its training rows to one fit of another library."""


class RowPredictions(NamedTuple):
    """The `predicted` and the `probability` of `Predictions`, before any time is known."""

    predicted: np.ndarray
    probability: np.ndarray | None


Predict = Callable[[Study, Any, np.ndarray], RowPredictions]
"""From a study, a fitted model and test rows to their predictions."""

TREES, DEPTH = 21, 8
"""Of diffprivlib's forest. Of eight pairs these have the largest mean AUROC at epsilon = 0.1 on
banknote, breast-wisc, magic and mushroom.
"""


class Method(NamedTuple):
    """A way to learn and predict.

    Attributes:
        fit: see `Fit`.
        setting: see `Setting`.
        private: whether it has a budget. Other methods get an infinite epsilon and are measured
            once a data set.
        library: the library that must be installed, a name that `peers.check_installed` knows.
    """

    fit: Fit
    setting: Setting
    private: bool = True
    library: str | None = None


def _recorded_name(path: Sequence[Any]) -> str:
    """The name of a recipe's number in the records.

    They call `weight_params` "weighting", and the largest learning rate of an additive model
    "limit", as when the first of them were written.
    """
    name = jax.tree_util.keystr(tuple(path)).strip(".").replace("weight_params.", "weighting.")
    return "params.limit" if name == "params.max_learning_rate" else name


def describe_recipe(recipe: Recipe) -> str:
    """All numbers of a recipe, as JSON, and the static parts of its learner as a fingerprint."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(recipe)
    numbers = {_recorded_name(path): float(f"{float(leaf):.6g}") for path, leaf in leaves}
    learner = hashlib.sha256(recipe.learner.identity.encode()).hexdigest()[:8]
    return json.dumps({"setting": recipe.options_text, "learner": learner, **numbers})


def setting_with_any_delta(text: str) -> Setting:
    """The setting of a method that runs with and without a delta."""
    return lambda trial: text


def setting_without_delta(text: str) -> Setting:
    """The setting of a method that has no delta."""
    return lambda trial: None if trial.delta > 0 else text


def setting_with_delta(text: str) -> Setting:
    """The setting of a method that needs a delta."""
    return lambda trial: text if trial.delta > 0 else None


def fit_of_peer(make: MakePeerFit, predict: Predict, field: str = "numbers") -> Fit:
    """The fit of a model of scikit-learn's kind.

    Args:
        make: see `MakePeerFit`.
        predict: see `Predict`.
        field: the arrays of `peers.Rows` that the model reads.
    """

    def fit(trial: Trial) -> Predictions:
        rows = trial.study.peer_rows
        fit_model = make(trial, rows.where(~trial.test))
        with peers.without_warnings(), peers.on_one_core():
            start = time.perf_counter()
            model = fit_model()
            seconds = time.perf_counter() - start
            test_rows = getattr(rows, field)[trial.test]
            predicted, probability = predict(trial.study, model, test_rows)
        return Predictions(predicted, probability, seconds)

    return fit


def scores_and_probabilities(probability: np.ndarray, seconds: float) -> Predictions:
    """Predictions of two classes; the score is how far the probability is above one half."""
    return Predictions(probability - 0.5, probability, seconds)


def gradient_boosting(trial: Trial, rows: peers.Rows) -> peers.Fit:
    """Boosted trees of scikit-learn at their defaults, without privacy."""
    from sklearn import ensemble

    kinds = ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier
    model: Any = kinds[trial.study.has_classes](
        categorical_features=rows.nominal,  # pyright: ignore[reportArgumentType]
        random_state=trial.split,
    )
    return lambda: model.fit(rows.numbers, rows.label)


FEWER = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
"""Numbers of rows of which boosting without privacy learns, to tell what an epsilon is worth."""


def boosting_on_fewer_rows(count: int, predict: Predict) -> Method:
    """Boosting without privacy of so many training rows, drawn at random for each split."""

    def make(trial: Trial, rows: peers.Rows) -> peers.Fit:
        is_drawn = np.random.default_rng(trial.split).permutation(len(rows.label)) < count
        return gradient_boosting(trial, rows.where(is_drawn))

    def setting(trial: Trial) -> str | None:
        words = f"HistGradientBoostingClassifier: defaults, {count} rows, no privacy"
        return words if count < trial.study.rows else None

    return Method(fit_of_peer(make, predict), setting, private=False, library="scikit-learn")


def _diffprivlib_forest(trial: Trial, rows: peers.Rows) -> peers.Fit:
    return peers.diffprivlib_forest(
        rows,
        trees=TREES,
        depth=DEPTH,
        epsilon=trial.epsilon,
        seed=trial.split,
        shuffle=True,
        classes=trial.study.num_classes,
    )


def _diffprivlib_logistic(trial: Trial, rows: peers.Rows) -> peers.Fit:
    return peers.diffprivlib_logistic(rows, epsilon=trial.epsilon, seed=trial.split)


def peer_classifiers(predict: Predict) -> dict[str, Method]:
    """The classifiers of other libraries that learn two and more classes."""
    return {
        "diffprivlib-forest": Method(
            fit_of_peer(_diffprivlib_forest, predict),
            setting_without_delta(
                f"RandomForestClassifier: {TREES} trees of depth {DEPTH}, shuffled rows"
            ),
            library="diffprivlib",
        ),
        "diffprivlib-logistic": Method(
            fit_of_peer(_diffprivlib_logistic, predict, "unit"),
            setting_without_delta(
                "LogisticRegression: defaults, the norm is the root of the number of columns"
            ),
            library="diffprivlib",
        ),
        "boosting": Method(
            fit_of_peer(gradient_boosting, predict),
            setting_with_any_delta("HistGradientBoostingClassifier: defaults, no privacy"),
            private=False,
            library="scikit-learn",
        ),
    }
