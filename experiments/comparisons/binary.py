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
from dpbt.models.measures import log_loss_of_two_classes
from dpbt.privacy import keys
from dpbt.recipes.auto_rule import (
    AutoHyperparameters,
    ColumnCounts,
    choose_hyperparameters,
    count_columns,
)
from dpbt.types import ADD_REMOVE, Recipe
from experiments.common import peers
from experiments.common.training import boosted_scores
from experiments.comparisons import challengers, repositories, synthetic
from experiments.comparisons.methods import (
    FEWER,
    Fit,
    Method,
    Predictions,
    RowPredictions,
    Trial,
    boosting_on_fewer_rows,
    describe_recipe,
    fit_of_peer,
    peer_classifiers,
    scores_and_probabilities,
    setting_with_any_delta,
    setting_with_delta,
    setting_without_delta,
)
from experiments.comparisons.study import Study

MakeRecipe = Callable[[Trial], Recipe]
"""The recipe of a trial."""

SCORE_DIGITS = 5
"""Decimal digits of a boosted score that count, in nats."""


def program_rounds(rounds: int) -> int:
    """The `max_rounds` of the program for so many rounds: 128, 1024, 8192, ...

    Few sizes compile few programs, and rounds beyond a recipe's own cost next to nothing.
    """
    size = 128
    while size < rounds:
        size *= 8
    return size


def _predictions_of_scores(
    trial: Trial, recipe: Recipe, scores: np.ndarray, seconds: float
) -> Predictions:
    """The predictions of a model of the recipe that gives these scores to all rows.

    Sums of the same leaves in another order differ by rounding, and must be ties.
    """
    score = np.round(scores[: len(trial.test)][trial.test], SCORE_DIGITS)
    probability = None
    if recipe.weight_update.loss is not None:
        probability = np.asarray(
            probabilities_of_scores(public_facts_of_recipe(recipe), jnp.asarray(score))
        )
    return Predictions(score, probability, seconds)


def _predict_boosted(trial: Trial, recipe: Recipe, max_rounds: int) -> Predictions:
    """The predictions of one boosted model, by a program for so many rounds."""
    table = trial.study.training_table(trial.split)
    padded_recipe = dataclasses.replace(recipe, max_rounds=max_rounds)
    start = time.perf_counter()
    scores = np.asarray(boosted_scores(jax.random.key(trial.split), table, padded_recipe))
    return _predictions_of_scores(trial, recipe, scores, time.perf_counter() - start)


def _fit_of_recipe(make: MakeRecipe) -> Fit:
    """The fit of a boosted recipe."""

    def fit(trial: Trial) -> Predictions:
        recipe = make(trial)
        return _predict_boosted(trial, recipe, program_rounds(recipe.max_rounds))

    return fit


def _method_of_recipe(make: MakeRecipe, *, private: bool = True) -> Method:
    """The method of a boosted recipe, whose setting is all of its numbers."""
    return Method(_fit_of_recipe(make), lambda trial: describe_recipe(make(trial)), private)


def _auto(trial: Trial) -> Recipe:
    return recipes.auto(
        epsilon=trial.epsilon,
        delta=trial.delta,
        rows=trial.study.rows,
        domain=trial.study.data.domain,
        seed=trial.split,
    )


def oblivious_boost_arguments(numbers: AutoHyperparameters) -> dict[str, Any]:
    """The arguments of `oblivious_boost` that the rule of `auto` sets, by name."""
    return {
        "rounds": numbers.rounds,
        "step": numbers.step,
        "limit": numbers.limit,
        **dataclasses.asdict(numbers.structure),
        **dataclasses.asdict(numbers.one_time_draws),
    }


def _auto_as_of_fine_columns(trial: Trial) -> Recipe:
    """`auto` as it is for tables whose columns are all fine, on any table."""
    domain = trial.study.data.domain
    numbers = choose_hyperparameters(
        epsilon=trial.epsilon,
        rows=trial.study.rows,
        columns=ColumnCounts(num_columns=len(domain), num_fine=len(domain)),
        delta=trial.delta,
    )
    options = {"rows": trial.study.rows, "delta": trial.delta, **oblivious_boost_arguments(numbers)}
    return recipes.oblivious_boost(
        epsilon=trial.epsilon, domain=domain, seed=trial.split, **options
    )


def _additive(trial: Trial) -> Recipe:
    return recipes.additive(
        epsilon=trial.epsilon,
        delta=trial.delta,
        rows=trial.study.rows,
        domain=trial.study.data.domain,
    )


def _greedy_trees(calibration: str) -> Method:
    def make(trial: Trial) -> Recipe:
        return recipes.bdpe(
            criterion="gini",
            rounds=5,
            depth=3,
            calibration=calibration,
            **trial.recipe_arguments,
        )

    words = f"bdpe: gini, 5 trees of depth 3, {calibration}"
    setting = setting_with_any_delta if calibration == "tight" else setting_without_delta
    return Method(_fit_of_recipe(make), setting(words))


def _rules(trial: Trial) -> Recipe:
    return recipes.lazybb_rules(rounds=9, **trial.recipe_arguments)


def _predict_forest(trial: Trial) -> Predictions:
    table = trial.study.training_table(trial.split)
    recipe = recipes.random_forest(rounds=21, depth=10, **trial.recipe_arguments)
    noise_key, public_key = keys.pair(jax.random.key(trial.split))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", keys.ResearchKeyWarning)
        start = time.perf_counter()
        model = jax.block_until_ready(dpbt.fit(noise_key, table, recipe, public_key))
        seconds = time.perf_counter() - start

    probability = np.asarray(dpbt.predict_proba(model, table))[:, 1]
    return scores_and_probabilities(probability[: len(trial.test)][trial.test], seconds)


def _predict_positive_class(study: Study, model: Any, rows: np.ndarray) -> RowPredictions:
    """Scores and probabilities of the positive class, of a classifier of scikit-learn's kind."""
    del study
    probability = np.asarray(model.predict_proba(rows))[:, 1]
    return RowPredictions(probability - 0.5, probability)


def _predict_larger_class(trial: Trial) -> Predictions:
    share = float(np.mean(trial.study.target[~trial.test]))
    return scores_and_probabilities(np.full(int(trial.test.sum()), share), 0.0)


def _private_ebm(trial: Trial, rows: peers.Rows) -> peers.Fit:
    return peers.private_ebm(rows, epsilon=trial.epsilon, delta=trial.delta, seed=trial.split)


_PEERS = peer_classifiers(_predict_positive_class)
METHODS: dict[str, Method] = {
    "auto": _method_of_recipe(_auto),
    "auto-without-noise": _method_of_recipe(_auto, private=False),
    "auto-as-fine": _method_of_recipe(_auto_as_of_fine_columns),
    "additive": _method_of_recipe(_additive),
    **challengers.METHODS,
    **synthetic.METHODS,
    "bdpe-published": _greedy_trees("published"),
    "bdpe-tight": _greedy_trees("tight"),
    "lazybb": Method(_fit_of_recipe(_rules), setting_with_any_delta("lazybb_rules: 9 rules")),
    "forest": Method(
        _predict_forest,
        setting_with_any_delta("random_forest: 21 trees of depth 10 on all rows, mean share"),
    ),
    "diffprivlib-forest": _PEERS["diffprivlib-forest"],
    "diffprivlib-logistic": _PEERS["diffprivlib-logistic"],
    "dp-ebm": Method(
        fit_of_peer(_private_ebm, _predict_positive_class),
        setting_with_delta("DPExplainableBoostingClassifier: defaults"),
        library="interpret-core",
    ),
    **repositories.METHODS,
    "boosting": _PEERS["boosting"],
    "larger-class": Method(
        _predict_larger_class,
        setting_with_any_delta("the shares of the classes in training"),
        private=False,
    ),
}
"""Name -> method, in the order of tables."""


AROUND = {"rounds": (0.5, 1.0, 2.0), "step": (0.5, 1.0, 2.0), "clip": (0.3, 1.0)}
"""Candidates around `auto`: multiples of its rounds and of its step, and clips."""


def _scaled_auto(
    *, epsilon: float, delta: float, rows: int, rounds: float, step: float, **options: Any
) -> Recipe:
    """`auto` with multiples of its rounds and of its step.

    The step also falls with the root of the multiple of rounds, as that of `auto` does.
    """
    auto_numbers = choose_hyperparameters(
        epsilon=epsilon,
        rows=rows,
        columns=count_columns(options["domain"]),
        delta=delta,
        relation=ADD_REMOVE,
    )
    num_rounds = max(1, round(rounds * auto_numbers.rounds))
    factor = step * math.sqrt(auto_numbers.rounds / num_rounds)
    numbers = oblivious_boost_arguments(auto_numbers) | {
        "rows": rows,
        "delta": delta,
        "rounds": num_rounds,
        **options,
    }
    numbers |= {"step": factor * auto_numbers.step, "limit": factor * auto_numbers.limit}
    return recipes.oblivious_boost(epsilon=epsilon, **numbers)


def _candidates_around_auto(trial: Trial, selection: tuning.Selection) -> Sequence[Recipe]:
    arguments = {"domain": trial.study.data.domain, "seed": trial.split, **trial.recipe_arguments}
    return tuning.candidates(_scaled_auto, selection, grid=AROUND, **arguments)


def _tuned_auto(*, mean: float, eta: float) -> Method:
    """`dpbt.tune` among the candidates around `auto`, at the same total budget."""

    def fit(trial: Trial) -> Predictions:
        selection = tuning.selection(mean=mean, eta=eta, held_out=0.25, seed=trial.split)
        candidates = _candidates_around_auto(trial, selection)
        table, start = trial.study.training_table(trial.split), time.perf_counter()
        model = tuning.tune(jax.random.key(trial.split), table, candidates, selection).model
        jax.block_until_ready(model.hypotheses)
        seconds = time.perf_counter() - start
        scores = np.asarray(dpbt.decision_function(model, table))
        assert model.recipe is not None  # it was fitted
        return _predictions_of_scores(trial, model.recipe, scores, seconds)

    setting = {"mean": mean, "eta": eta, "held_out": 0.25, "score": "log_loss", "grid": AROUND}
    return Method(fit, setting_with_any_delta(json.dumps(setting)))


def _predict_best_in_hindsight(trial: Trial) -> Predictions:
    """The candidate of the least log loss on test rows, at the whole budget: nothing pays for it.

    No private choice does better, so it says how much there is to gain.
    """
    free_choice = tuning.selection(mean=1, held_out=0.25)  # its fits have the whole budget
    candidates = _candidates_around_auto(trial, free_choice)
    max_rounds = program_rounds(max(recipe.max_rounds for recipe in candidates))
    target = trial.study.target[trial.test]

    def test_loss(predictions: Predictions) -> float:
        assert predictions.probability is not None
        return log_loss_of_two_classes(target, predictions.probability)

    fits = (_predict_boosted(trial, recipe, max_rounds) for recipe in candidates)
    return min(fits, key=test_loss)


TUNED: dict[str, Method] = {
    "tuned": _tuned_auto(mean=5.0, eta=-0.5),
    "tuned-logarithmic": _tuned_auto(mean=10.0, eta=0.0),
    "hindsight": Method(
        _predict_best_in_hindsight,
        setting_with_any_delta("the best of all candidates by test rows; not private"),
    ),
}
_BOOSTING_ON_FEWER_ROWS = {
    f"boosting-{n}": boosting_on_fewer_rows(n, _predict_positive_class) for n in FEWER
}
ALL_METHODS = {**METHODS, **challengers.BEST, **_BOOSTING_ON_FEWER_ROWS, **TUNED}
"""Name -> method, of all that `frontier` can measure."""
