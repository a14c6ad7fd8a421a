"""The methods: how each fits the training rows of a split, and predicts its test rows.

A method has one setting for all data, and states it in words.
"""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from experiments.common import peers
from experiments.tasks import library
from experiments.tasks.study import Study


class Found(NamedTuple):
    """The predictions of one fit on the test rows of its split.

    Attributes:
        predicted: i64[M], classes, or f64[M], numbers.
        probability: f[M, K] of the classes, or None where there is none.
        seconds: of the fit.
    """

    predicted: np.ndarray
    probability: np.ndarray | None
    seconds: float


class Method(NamedTuple):
    """A way to learn and predict.

    Attributes:
        fit: (study, split, epsilon, delta) -> Found.
        setting: (study, epsilon, delta) -> its setting in words or JSON; None where the method has
            nothing to measure there.
        private: whether it has a budget. Other methods get an infinite epsilon and are measured
            once a data set.
        library: the library of `peers.LIBRARIES` that it needs; None for dpbt and for plain means.
        check: raises ImportError if it cannot be run.
    """

    fit: Callable[[Study, int, float, float], Found]
    setting: Callable[[Study, float, float], str | None]
    private: bool = True
    library: str | None = None
    check: Callable[[], None] = lambda: None


def _auto(study: Study, split: int, epsilon: float, delta: float) -> Found:
    return Found(*library.predictions(study, split, epsilon, delta))


def _fitted(
    make: Callable[[Study, peers.Rows, float, float, int], peers.Fit],
    predict: Callable[[Study, Any, np.ndarray], tuple[np.ndarray, np.ndarray | None]],
    field: str = "numbers",
) -> Callable[[Study, int, float, float], Found]:
    """The fit of a model of scikit-learn's kind; `field` of `peers.Rows` is what it reads."""

    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        test = study.tests[split]
        call = make(study, study.numbers.where(~test), epsilon, delta, split)
        with peers.quiet(), peers.on_one_core():
            start = time.perf_counter()
            model = call()
            seconds = time.perf_counter() - start
            found = predict(study, model, getattr(study.numbers, field)[test])
        return Found(*found, seconds)

    return fit


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


TREES, DEPTH = 21, 8


def _their_forest(
    study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int
) -> peers.Fit:
    del delta
    return peers.diffprivlib_forest(
        rows, TREES, DEPTH, epsilon, seed, shuffle=True, classes=study.classes
    )


def _their_logistic(
    study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int
) -> peers.Fit:
    del study, delta
    return peers.diffprivlib_logistic(rows, epsilon, seed)


def _their_bayes(
    study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int
) -> peers.Fit:
    del study, delta
    return peers.diffprivlib_bayes(rows, epsilon, seed)


def _their_linear(
    study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int
) -> peers.Fit:
    del delta
    return peers.diffprivlib_linear(rows, study.bounds, epsilon, seed)


def _ebm(study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int) -> peers.Fit:
    return peers.private_ebm_regressor(rows, study.bounds, epsilon, delta, seed)


def _boosting(study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int) -> peers.Fit:
    from sklearn import ensemble

    del epsilon, delta
    kinds = ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier
    model: Any = kinds[study.data.target.dtype.kind == "i"](
        categorical_features=rows.nominal,  # pyright: ignore[reportArgumentType]
        random_state=seed,
    )
    return lambda: model.fit(rows.numbers, rows.label)


def _forest(study: Study, rows: peers.Rows, epsilon: float, delta: float, seed: int) -> peers.Fit:
    from sklearn import ensemble

    del epsilon, delta
    kinds = ensemble.RandomForestRegressor, ensemble.RandomForestClassifier
    model: Any = kinds[study.data.target.dtype.kind == "i"](random_state=seed)
    return lambda: model.fit(rows.numbers, rows.label)


def _larger_class(study: Study, split: int, epsilon: float, delta: float) -> Found:
    del epsilon, delta
    test = study.tests[split]
    counts = np.bincount(study.data.target[~test], minlength=study.classes)
    probability = np.tile(counts / counts.sum(), (int(test.sum()), 1))
    return Found(np.full(int(test.sum()), int(counts.argmax())), probability, 0.0)


def _constant(statistic: Callable[[np.ndarray], Any]) -> Callable[..., Found]:
    """The same number for all rows, of the targets in training."""

    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        del epsilon, delta
        test = study.tests[split]
        number = float(statistic(study.data.target[~test]))
        return Found(np.full(int(test.sum()), number), None, 0.0)

    return fit


Setting = Callable[[Study, float, float], str | None]


def _words(text: str) -> Setting:
    return lambda study, epsilon, delta: text


def _pure(text: str) -> Setting:
    return lambda study, epsilon, delta: None if delta > 0 else text


def _approximate(text: str) -> Setting:
    return lambda study, epsilon, delta: text if delta > 0 else None


def _peer(
    distribution: str, fit: Callable[..., Found], setting: Setting, private: bool = True
) -> Method:
    check = functools.partial(peers.check, distribution)
    return Method(fit, setting, private, distribution, check)


_OURS = {
    "auto": Method(_auto, library.setting, check=library.check),
    "auto-without-noise": Method(_auto, library.setting, private=False, check=library.check),
}

CLASSES: Mapping[str, Method] = {
    **_OURS,
    "diffprivlib-forest": _peer(
        "diffprivlib",
        _fitted(_their_forest, _as_classes),
        _pure(f"RandomForestClassifier: {TREES} trees of depth {DEPTH}, shuffled rows"),
    ),
    "diffprivlib-logistic": _peer(
        "diffprivlib",
        _fitted(_their_logistic, _as_classes, "unit"),
        _pure("LogisticRegression: defaults, the norm is the root of the number of columns"),
    ),
    "diffprivlib-bayes": _peer(
        "diffprivlib", _fitted(_their_bayes, _as_classes), _pure("GaussianNB: defaults")
    ),
    "boosting": _peer(
        "scikit-learn",
        _fitted(_boosting, _as_classes),
        _words("HistGradientBoostingClassifier: defaults, no privacy"),
        private=False,
    ),
    "random-forest": _peer(
        "scikit-learn",
        _fitted(_forest, _as_classes),
        _words("RandomForestClassifier: defaults, no privacy"),
        private=False,
    ),
    "larger-class": Method(
        _larger_class, _words("the shares of the classes in training"), private=False
    ),
}
"""Name -> method for several classes, in the order of tables."""

NUMBERS: Mapping[str, Method] = {
    **_OURS,
    "diffprivlib-linear": _peer(
        "diffprivlib", _fitted(_their_linear, _as_numbers, "unit"), _pure("LinearRegression")
    ),
    "dp-ebm": _peer(
        "interpret-core",
        _fitted(_ebm, _as_numbers),
        _approximate("DPExplainableBoostingRegressor: defaults"),
    ),
    "boosting": _peer(
        "scikit-learn",
        _fitted(_boosting, _as_numbers),
        _words("HistGradientBoostingRegressor: defaults, no privacy"),
        private=False,
    ),
    "random-forest": _peer(
        "scikit-learn",
        _fitted(_forest, _as_numbers),
        _words("RandomForestRegressor: defaults, no privacy"),
        private=False,
    ),
    "mean": Method(_constant(np.mean), _words("the mean in training"), private=False),
    "median": Method(_constant(np.median), _words("the median in training"), private=False),
}
"""Name -> method for numbers, in the order of tables."""
