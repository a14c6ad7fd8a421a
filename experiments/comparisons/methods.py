"""What a method is: how it fits the training rows of a split, and predicts its test rows.

A method has one setting for all data, and states it in words or JSON.
"""

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from dpbt.types import Recipe
from experiments.common import peers
from experiments.comparisons.study import Study


class Found(NamedTuple):
    """The predictions of one fit on the test rows of its split.

    Attributes:
        predicted: f[M], scores, of which one above 0 means the positive class; or i64[M], classes;
            or f64[M], numbers.
        probability: f[M] of the positive class, or f[M, K] of several; None where there is none.
        seconds: of the fit.
    """

    predicted: np.ndarray
    probability: np.ndarray | None
    seconds: float


Fit = Callable[[Study, int, float, float], Found]
"""(study, split, epsilon, delta) -> what was found."""

Setting = Callable[[Study, float, float], str | None]
"""(study, epsilon, delta) -> words or JSON; None where the method has nothing to measure there."""

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
        library: the library that must be there, a name that `peers.check` knows.
    """

    fit: Fit
    setting: Setting
    private: bool = True
    library: str | None = None


def setting_of(recipe: Recipe) -> str:
    """All numbers of a recipe, as JSON, and the static parts of its learner as a fingerprint."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(recipe)
    numbers = {
        jax.tree_util.keystr(path).strip("."): float(f"{float(leaf):.6g}") for path, leaf in leaves
    }
    learner = hashlib.sha256(recipe.learner.identity.encode()).hexdigest()[:8]
    return json.dumps({"setting": recipe.setting, "learner": learner, **numbers})


def words(text: str) -> Setting:
    """The setting of a method with or without a delta."""
    return lambda study, epsilon, delta: text


def pure(text: str) -> Setting:
    """The setting of a method that has no delta."""
    return lambda study, epsilon, delta: None if delta > 0 else text


def approximate(text: str) -> Setting:
    """The setting of a method that has a delta."""
    return lambda study, epsilon, delta: text if delta > 0 else None


def rival(
    make: Callable[[Study, peers.Rows, float, float, int], peers.Fit],
    predict: Callable[[Study, Any, np.ndarray], tuple[np.ndarray, np.ndarray | None]],
    field: str = "numbers",
) -> Fit:
    """The fit of a model of scikit-learn's kind.

    Args:
        make: (study, training rows, epsilon, delta, split) -> the fit.
        predict: (study, model, test rows) -> predictions and probabilities.
        field: the arrays of `peers.Rows` that the model reads.
    """

    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        test = study.tests[split]
        call = make(study, study.numbers.where(~test), epsilon, delta, split)
        with peers.quiet(), peers.on_one_core():
            start = time.perf_counter()
            model = call()
            seconds = time.perf_counter() - start
            scores = predict(study, model, getattr(study.numbers, field)[test])
        return Found(*scores, seconds)

    return fit


def gradient_boosting(
    study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int
) -> peers.Fit:
    """Boosted trees of scikit-learn at their defaults, without privacy."""
    from sklearn import ensemble

    del epsilon, delta
    kinds = ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier
    model: Any = kinds[study.target.dtype.kind != "f"](
        categorical_features=rows.nominal,  # pyright: ignore[reportArgumentType]
        random_state=seed,
    )
    return lambda: model.fit(rows.numbers, rows.label)


FEWER = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
"""Numbers of rows of which boosting without privacy learns, to tell what an epsilon is worth."""


def boosting_of(count: int, predict: Callable[..., Any]) -> Method:
    """Boosting without privacy of so many training rows, drawn at random for each split."""

    def make(study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int) -> peers.Fit:
        chosen = np.random.default_rng(seed).permutation(len(rows.label)) < count
        return gradient_boosting(study, rows.where(chosen), epsilon, delta, seed)

    def setting(study: Study, epsilon: float, delta: float) -> str | None:
        del epsilon, delta
        words = f"HistGradientBoostingClassifier: defaults, {count} rows, no privacy"
        return words if count < study.rows else None

    return Method(rival(make, predict), setting, private=False, library="scikit-learn")


def classifiers(
    predict: Callable[[Study, Any, np.ndarray], tuple[np.ndarray, np.ndarray | None]],
) -> dict[str, Method]:
    """The classifiers of other libraries that two and more classes have in common."""
    return {
        "diffprivlib-forest": Method(
            rival(
                lambda study, rows, epsilon, delta, seed: peers.diffprivlib_forest(
                    rows, TREES, DEPTH, epsilon, seed, shuffle=True, classes=study.classes
                ),
                predict,
            ),
            pure(f"RandomForestClassifier: {TREES} trees of depth {DEPTH}, shuffled rows"),
            library="diffprivlib",
        ),
        "diffprivlib-logistic": Method(
            rival(
                lambda study, rows, epsilon, delta, seed: peers.diffprivlib_logistic(
                    rows, epsilon, seed
                ),
                predict,
                "unit",
            ),
            pure("LogisticRegression: defaults, the norm is the root of the number of columns"),
            library="diffprivlib",
        ),
        "boosting": Method(
            rival(gradient_boosting, predict),
            words("HistGradientBoostingClassifier: defaults, no privacy"),
            private=False,
            library="scikit-learn",
        ),
    }
