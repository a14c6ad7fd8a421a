"""Methods for two classes: recipes of dpbt, other libraries, and tuned models.

Numbers of `auto` follow from public quantities, so its setting has them as JSON.
"""

import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes, tuning
from dpbt.models.file import probabilities_of_scores, public_facts_of_recipe
from dpbt.models.measures import log_loss_of_two
from dpbt.privacy import keys
from dpbt.recipes.oblivious import choose_numbers
from dpbt.types import ADD_REMOVE, Recipe, Table
from experiments.common import peers
from experiments.comparisons import challengers, repositories, synthetic
from experiments.comparisons.methods import (
    FEWER,
    Fit,
    Found,
    Method,
    approximate,
    boosting_of,
    classifiers,
    pure,
    rival,
    setting_of,
    words,
)
from experiments.comparisons.study import Study

Make = Callable[[Study, int, float, float], Recipe]
"""(study, split, epsilon, delta) -> the recipe."""


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
    return dpbt.boost(key, table, recipe).scores


def _found(study: Study, split: int, recipe: Recipe, every: np.ndarray, seconds: float) -> Found:
    """The predictions of a model of the recipe that gives all rows these scores.

    Sums of the same leaves in another order differ by rounding, and must be ties.
    """
    score = np.round(every[: len(study.target)][study.tests[split]], DIGITS)
    probability = None
    if recipe.weight_update.loss is not None:
        probability = np.asarray(
            probabilities_of_scores(public_facts_of_recipe(recipe), jnp.asarray(score))
        )
    return Found(score, probability, seconds)


def _fitted(study: Study, split: int, recipe: Recipe, capacity: int) -> Found:
    """The predictions of one boosted model, by a program for so many rounds."""
    table, room = study.taught(split), dataclasses.replace(recipe, capacity=capacity)
    start = time.perf_counter()
    every = np.asarray(_scores(jax.random.key(split), table, room))
    return _found(study, split, recipe, every, time.perf_counter() - start)


def _boosted(make: Make) -> Fit:
    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        recipe = make(study, split, epsilon, delta)
        return _fitted(study, split, recipe, program_rounds(recipe.capacity))

    return fit


def _auto(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
    domain = study.data.domain
    return recipes.auto(epsilon=epsilon, delta=delta, rows=study.rows, domain=domain, seed=split)


def _additive(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
    del split
    common = {"epsilon": epsilon, "delta": delta, "rows": study.rows}
    return recipes.additive(domain=study.data.domain, **common)


def _stated(make: Make, private: bool = True) -> Method:
    """A boosted recipe whose setting is all of its numbers."""
    return Method(_boosted(make), lambda study, *at: setting_of(make(study, 0, *at)), private)


def _greedy(calibration: str) -> Method:
    def make(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
        del split
        common = {"epsilon": epsilon, "delta": delta, "rows": study.rows}
        return recipes.bdpe(criterion="gini", rounds=5, depth=3, calibration=calibration, **common)

    text = f"bdpe: gini, 5 trees of depth 3, {calibration}"
    return Method(_boosted(make), words(text) if calibration == "tight" else pure(text))


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
        model = jax.block_until_ready(dpbt.fit(noise_key, table, recipe, public_key))
        seconds = time.perf_counter() - start

    every = np.asarray(dpbt.predict_proba(model, table))[:, 1]
    probability = every[: len(study.target)][study.tests[split]]
    return Found(probability - 0.5, probability, seconds)


def _positive(study: Study, model: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and probabilities of the positive class, of a classifier of scikit-learn's kind."""
    del study
    probability = np.asarray(model.predict_proba(rows))[:, 1]
    return probability - 0.5, probability


def _larger_class(study: Study, split: int, epsilon: float, delta: float) -> Found:
    del epsilon, delta
    test = study.tests[split]
    share = float(np.mean(study.target[~test]))
    probability = np.full(int(test.sum()), share)
    return Found(probability - 0.5, probability, 0.0)


_THEIRS = classifiers(_positive)
METHODS: dict[str, Method] = {
    "auto": _stated(_auto),
    "auto-without-noise": _stated(_auto, private=False),
    "additive": _stated(_additive),
    **challengers.METHODS,
    **synthetic.METHODS,
    "bdpe-published": _greedy("published"),
    "bdpe-tight": _greedy("tight"),
    "lazybb": Method(_boosted(_rules), words("lazybb_rules: 9 rules")),
    "forest": Method(_forest, words("random_forest: 21 trees of depth 10 on all rows, mean share")),
    "diffprivlib-forest": _THEIRS["diffprivlib-forest"],
    "diffprivlib-logistic": _THEIRS["diffprivlib-logistic"],
    "dp-ebm": Method(
        rival(
            lambda study, rows, epsilon, delta, seed: peers.private_ebm(rows, epsilon, delta, seed),
            _positive,
        ),
        approximate("DPExplainableBoostingClassifier: defaults"),
        library="interpret-core",
    ),
    **repositories.METHODS,
    "boosting": _THEIRS["boosting"],
    "larger-class": Method(
        _larger_class, words("the shares of the classes in training"), private=False
    ),
}
"""Name -> method, in the order of tables."""


AROUND = {"rounds": (0.5, 1.0, 2.0), "step": (0.5, 1.0, 2.0), "clip": (0.3, 1.0)}
"""Candidates around `auto`: multiples of its rounds and of its step, and clips."""


def _near(
    study: Study, selection: tuning.Selection, split: int, epsilon: float, delta: float
) -> Sequence[Recipe]:
    """The candidates around `auto`."""
    rows, domain = study.rows, study.data.domain

    def scaled(*, epsilon: float, rounds: float, step: float, **options: Any) -> Recipe:
        """The step also falls with the root of the multiple of rounds, as that of `auto` does."""
        chosen = choose_numbers(
            epsilon=epsilon, rows=rows, num_columns=len(domain), delta=delta, relation=ADD_REMOVE
        )
        number = max(1, round(rounds * chosen.rounds))
        factor = step * math.sqrt(chosen.rounds / number)
        numbers = chosen.options | {"rounds": number, **options}
        numbers |= {"step": factor * chosen.step, "limit": factor * chosen.limit}
        return recipes.oblivious_boost(epsilon=epsilon, **numbers)

    budget = {"rows": rows, "domain": domain, "seed": split, "epsilon": epsilon, "delta": delta}
    return tuning.candidates(scaled, selection, grid=AROUND, **budget)


def _tuned(mean: float, eta: float) -> Method:
    """`dpbt.tune` among the candidates around `auto`, at the same total budget."""

    def fit(study: Study, split: int, epsilon: float, delta: float) -> Found:
        selection = tuning.selection(mean=mean, eta=eta, held_out=0.25, seed=split)
        made = _near(study, selection, split, epsilon, delta)
        table, start = study.taught(split), time.perf_counter()
        model = tuning.tune(jax.random.key(split), table, made, selection).model
        jax.block_until_ready(model.hypotheses)
        seconds = time.perf_counter() - start
        every = np.asarray(dpbt.decision_function(model, table))
        assert model.recipe is not None  # it was fitted
        return _found(study, split, model.recipe, every, seconds)

    about = {"mean": mean, "eta": eta, "held_out": 0.25, "score": "log_loss", "grid": AROUND}
    return Method(fit, words(json.dumps(about)))


def _hindsight(study: Study, split: int, epsilon: float, delta: float) -> Found:
    """The candidate of the least log loss on test rows, at the whole budget: nothing pays for it.

    No private choice does better, so it says how much there is to gain.
    """
    free = tuning.selection(mean=1, held_out=0.25)  # its fits have the whole budget
    made = _near(study, free, split, epsilon, delta)
    room = program_rounds(max(each.capacity for each in made))
    target = study.target[study.tests[split]]

    def loss(found: Found) -> float:
        assert found.probability is not None
        return log_loss_of_two(target, found.probability)

    return min((_fitted(study, split, recipe, room) for recipe in made), key=loss)


TUNED: dict[str, Method] = {
    "tuned": _tuned(5.0, -0.5),
    "tuned-logarithmic": _tuned(10.0, 0.0),
    "hindsight": Method(_hindsight, words("the best of all candidates by test rows; not private")),
}
_FEWER = {f"boosting-{n}": boosting_of(n, _positive) for n in FEWER}
EVERY = {**METHODS, **challengers.BEST, **_FEWER, **TUNED}
