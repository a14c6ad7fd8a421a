"""The methods: how each fits the training rows of a split, and scores its test rows.

A method has one setting for all data, and states it in words. Numbers of `auto` follow from public
quantities, so its setting has them as JSON.
"""

import dataclasses
import functools
import json
import math
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import boosting, forests, prediction, recipes, tuning
from dpbt.base import Recipe, Table
from dpbt.privacy import keys
from dpbt.tuning import presets
from experiments.common import peers
from experiments.frontier import ablation
from experiments.frontier.study import Study, log_loss


class Found(NamedTuple):
    """The predictions of one fit on the test rows of its split.

    Attributes:
        score: f[M]; above 0 means the positive class.
        probability: f[M] of the positive class, or None where the method has none.
        seconds: of the fit.
    """

    score: np.ndarray
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
        library: the library that must be installed, a name of `peers.LIBRARIES`.
    """

    fit: Callable[[Study, int, float, float], Found]
    setting: Callable[[Study, float, float], str | None]
    private: bool = True
    library: str | None = None


def program_rounds(rounds: int) -> int:
    """The capacity of the program for so many rounds: 128, 1024, 8192, ...

    Few sizes compile few programs, and rounds beyond a recipe's own cost next to nothing.
    """
    size = 128
    while size < rounds:
        size *= 8
    return size


DIGITS = 5
"""Decimal digits of a boosted score that count, in nats."""


@jax.jit
def _scores(key: jax.Array, table: Table, recipe: Recipe) -> jax.Array:
    """f32[N]: the scores of all rows, absent ones too, of a model of the present ones."""
    return boosting.boost(key, table, recipe).scores


def _boosted(make: Callable[[Study, int, float, float], Recipe]) -> Callable[..., Found]:
    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        recipe, table = make(study, split, epsilon, delta), study.taught(split)
        room = dataclasses.replace(recipe, capacity=program_rounds(recipe.capacity))

        start = time.perf_counter()
        every = np.asarray(_scores(jax.random.key(split), table, room))
        seconds = time.perf_counter() - start

        # Sums of the same leaves in another order differ by rounding, and must be ties.
        score = np.round(every[: len(study.target)][study.tests[split]], DIGITS)
        probability = None
        if recipe.loss is not None:
            probability = np.asarray(prediction.probability_of(recipe, jnp.asarray(score)))
        return Found(score, probability, seconds)

    return fit


def _auto(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
    domain = study.dataset.domain
    return recipes.auto(epsilon=epsilon, delta=delta, rows=study.rows, domain=domain, seed=split)


def _changed(change: ablation.Change) -> Method:
    """`auto` with one of its numbers changed; nothing to measure where that changes nothing."""

    def make(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
        domain = study.dataset.domain
        numbers = ablation.numbers(study.rows, len(domain), epsilon, delta)
        other = {"epsilon": epsilon, **ablation.changed(numbers, change, epsilon, delta)}
        return recipes.oblivious_boost(
            rows=study.rows, domain=domain, delta=delta, seed=split, **other
        )

    def setting(study: Study, epsilon: float, delta: float) -> str | None:
        numbers = ablation.numbers(study.rows, len(study.dataset.domain), epsilon, delta)
        other = ablation.changed(numbers, change, epsilon, delta)
        same = ablation.counting(other) == ablation.counting(numbers)
        return None if same else _json(other)

    return Method(_boosted(make), setting)


def _setting_of_auto(study: Study, epsilon: float, delta: float) -> str:
    return _json(ablation.numbers(study.rows, len(study.dataset.domain), epsilon, delta))


def _json(numbers: ablation.Numbers) -> str:
    """The numbers that count, each with six digits."""
    return json.dumps(
        {
            name: float(f"{value:.6g}") if isinstance(value, float) else value
            for name, value in ablation.counting(numbers).items()
        }
    )


def _words(text: str) -> Callable[[Study, float, float], str]:
    return lambda study, epsilon, delta: text


def _greedy(calibration: str) -> Method:
    def make(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
        del split
        common = {"epsilon": epsilon, "delta": delta, "rows": study.rows}
        return recipes.bdpe(criterion="gini", rounds=5, depth=3, calibration=calibration, **common)

    words = _words(f"bdpe: gini, 5 trees of depth 3, {calibration}")
    if calibration == "tight":
        return Method(_boosted(make), words)
    return Method(_boosted(make), lambda *at: None if at[2] > 0 else words(*at))


def _rules(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
    del split
    return recipes.lazybb_rules(rounds=9, epsilon=epsilon, delta=delta, rows=study.rows)


def _forest(study: Study, split: int, epsilon: float, delta: float) -> Found:
    table = study.taught(split)
    recipe = recipes.random_forest(
        epsilon=epsilon, delta=delta, rows=study.rows, rounds=21, depth=10
    )
    noise_key, public_key = keys.pair(jax.random.key(split))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", keys.ResearchKeyWarning)
        start = time.perf_counter()
        model = jax.block_until_ready(forests.fit(noise_key, table, recipe, public_key))
        seconds = time.perf_counter() - start

    every = np.asarray(prediction.predict_proba(model, table))
    probability = every[: len(study.target)][study.tests[split]]
    return Found(probability - 0.5, probability, seconds)


def _classifier(
    make: Callable[[peers.Rows, float, float, int], peers.Fit], field: str = "numbers"
) -> Callable[..., Found]:
    """The fit of a classifier of scikit-learn's kind; `field` of `peers.Rows` is what it reads."""

    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        test = study.tests[split]
        call = make(study.numbers.where(~test), epsilon, delta, split)
        with peers.quiet(), peers.on_one_core():
            start = time.perf_counter()
            model = call()
            seconds = time.perf_counter() - start
            read = getattr(study.numbers, field)[test]
            probability = np.asarray(model.predict_proba(read))[:, 1]
        return Found(probability - 0.5, probability, seconds)

    return fit


TREES, DEPTH = 21, 8
"""Of diffprivlib's forest. Of eight pairs these have the largest mean AUROC at epsilon = 0.1 on
banknote, breast-wisc, magic and mushroom.
"""


def _their_forest(rows: peers.Rows, epsilon: float, delta: float, seed: int) -> peers.Fit:
    del delta
    return peers.diffprivlib_forest(rows, TREES, DEPTH, epsilon, seed, shuffle=True)


def _their_logistic(rows: peers.Rows, epsilon: float, delta: float, seed: int) -> peers.Fit:
    del delta
    return peers.diffprivlib_logistic(rows, epsilon, seed)


def _boosting(rows: peers.Rows, epsilon: float, delta: float, seed: int) -> peers.Fit:
    from sklearn.ensemble import HistGradientBoostingClassifier

    del epsilon, delta
    model = HistGradientBoostingClassifier(
        categorical_features=rows.nominal,  # pyright: ignore[reportArgumentType]
        random_state=seed,
    )
    return lambda: model.fit(rows.numbers, rows.label)


def _larger_class(study: Study, split: int, epsilon: float, delta: float) -> Found:
    del epsilon, delta
    test = study.tests[split]
    share = float(np.mean(study.target[~test]))
    probability = np.full(int(test.sum()), share)
    return Found(probability - 0.5, probability, 0.0)


def _pure(text: str) -> Callable[[Study, float, float], str | None]:
    return lambda study, epsilon, delta: None if delta > 0 else text


def _approximate(text: str) -> Callable[[Study, float, float], str | None]:
    return lambda study, epsilon, delta: text if delta > 0 else None


_PUBLIC = functools.partial(Method, private=False)
METHODS: dict[str, Method] = {
    "auto": Method(_boosted(_auto), _setting_of_auto),
    "auto-without-noise": _PUBLIC(_boosted(_auto), _setting_of_auto),
    "bdpe-published": _greedy("published"),
    "bdpe-tight": _greedy("tight"),
    "lazybb": Method(_boosted(_rules), _words("lazybb_rules: 9 rules")),
    "forest": Method(
        _forest, _words("random_forest: 21 trees of depth 10 on all rows, mean share")
    ),
    "diffprivlib-forest": Method(
        _classifier(_their_forest),
        _pure(f"RandomForestClassifier: {TREES} trees of depth {DEPTH}, shuffled rows"),
        library="diffprivlib",
    ),
    "diffprivlib-logistic": Method(
        _classifier(_their_logistic, "unit"),
        _pure("LogisticRegression: defaults, the norm is the root of the number of columns"),
        library="diffprivlib",
    ),
    "dp-ebm": Method(
        _classifier(
            lambda rows, epsilon, delta, seed: peers.private_ebm(rows, epsilon, delta, seed)
        ),
        _approximate("DPExplainableBoostingClassifier: defaults"),
        library="interpret-core",
    ),
    "boosting": _PUBLIC(
        _classifier(_boosting),
        _words("HistGradientBoostingClassifier: defaults, no privacy"),
        library="scikit-learn",
    ),
    "larger-class": _PUBLIC(_larger_class, _words("the shares of the classes in training")),
}
"""Name -> method, in the order of tables."""


def _tuned(mean: float, eta: float, held_out: float | None = 0.25) -> Method:
    """`dpbt.tune` among the candidates around `auto`, at the same total budget."""

    def chosen(split: int) -> tuning.Selection:
        return tuning.selection("log_loss", mean=mean, eta=eta, held_out=held_out, seed=split)

    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        table, selection = study.taught(split), chosen(split)
        domain, rows = study.dataset.domain, study.rows
        recipes = tuning.around_auto(
            selection, epsilon=epsilon, delta=delta, rows=rows, domain=domain, seed=split
        )
        start = time.perf_counter()
        model = tuning.choose(jax.random.key(split), table, recipes, selection).model
        jax.block_until_ready(model.hypotheses)
        seconds = time.perf_counter() - start

        every = np.asarray(prediction.decision_function(model, table))
        score = np.round(every[: len(study.target)][study.tests[split]], DIGITS)
        return Found(
            score, np.asarray(prediction.probability_of(model.recipe, jnp.asarray(score))), seconds
        )

    words = {"mean": mean, "eta": eta, "held_out": held_out, "score": "log_loss"}
    return Method(fit, _words(json.dumps(words | {"grid": presets.GRID})))


WIDE = {"step": (0.02, 0.05, 0.1, 0.2, 0.5, 1.0), "rounds": (4, 16, 64, 256), "clip": (0.3, 1.0)}
"""A grid of `oblivious_boost` for those who know no rule: 48 candidates."""


def _wide(study: Study, selection: tuning.Selection, at: tuple[int, float, float]) -> list[Recipe]:
    split, epsilon, delta = at
    common = {"rows": study.rows, "domain": study.dataset.domain, "seed": split}
    return tuning.candidates(
        recipes.oblivious_boost, selection, grid=WIDE, epsilon=epsilon, delta=delta, **common
    )


def _tuned_wide(mean: float, eta: float) -> Method:
    """`dpbt.tune` over the wide grid."""

    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        selection = tuning.selection("log_loss", mean=mean, eta=eta, seed=split)
        made = _wide(study, selection, (split, epsilon, delta))
        start = time.perf_counter()
        model = tuning.choose(jax.random.key(split), study.taught(split), made, selection).model
        every = np.asarray(prediction.decision_function(model, study.taught(split)))
        seconds = time.perf_counter() - start
        score = np.round(every[: len(study.target)][study.tests[split]], DIGITS)
        probability = prediction.probability_of(model.recipe, jnp.asarray(score))
        return Found(score, np.asarray(probability), seconds)

    words = {"mean": mean, "eta": eta, "held_out": 0.25, "score": "log_loss", "grid": WIDE}
    return Method(fit, _words(json.dumps(words)))


def _guessed(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
    """A candidate of the wide grid at random, at the whole budget."""
    made = _wide(study, tuning.selection(mean=1), (split, epsilon, delta))
    return made[np.random.default_rng(split).integers(len(made))]


def _hindsight(study: Study, split: int, epsilon: float, delta: float) -> Found:
    """The candidate of the least log loss on test rows, at the whole budget: nothing pays for it.

    No private choice does better, so it says how much there is to gain.
    """
    free = tuning.selection("log_loss", mean=1, held_out=0.25)  # its fits have the whole budget
    domain, table = study.dataset.domain, study.taught(split)
    recipes = tuning.around_auto(
        free, epsilon=epsilon, delta=delta, rows=study.rows, domain=domain, seed=split
    )
    room = program_rounds(max(each.capacity for each in recipes))
    test = study.tests[split]
    best, least = None, math.inf
    for recipe in recipes:
        start = time.perf_counter()
        ready = dataclasses.replace(recipe, capacity=room)
        every = np.asarray(_scores(jax.random.key(split), table, ready))
        seconds = time.perf_counter() - start
        score = np.round(every[: len(study.target)][test], DIGITS)
        probability = np.asarray(prediction.probability_of(recipe, jnp.asarray(score)))
        loss = log_loss(probability, study.target[test])
        if loss < least:
            best, least = Found(score, probability, seconds), loss
    assert best is not None
    return best


ABLATION = {f"auto:{name}": _changed(change) for name, change in ablation.CHANGES.items()}
TUNED: dict[str, Method] = {
    "tuned": _tuned(5.0, -0.5),
    "tuned-logarithmic": _tuned(10.0, 0.0),
    "guess-wide": Method(_boosted(_guessed), _words(json.dumps({"a random candidate of": WIDE}))),
    "tuned-wide": _tuned_wide(5.0, -0.5),
    "tuned-wide-logarithmic": _tuned_wide(10.0, 0.0),
    "hindsight": Method(_hindsight, _words("the best of all candidates by test rows; not private")),
}
EVERY = {**METHODS, **ABLATION, **TUNED}
