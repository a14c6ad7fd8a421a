"""What a sweep measures of each fit: the columns of its results.

A measure of scores runs inside of the compiled program, and a measure of whole fits on the host,
one fit at a time. Both are exact functions of private rows.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.validate import show_value
from dpbt.data.column_types import Nominal, Numeric
from dpbt.models import measures
from dpbt.models.file import probabilities_of_scores, public_facts_of_recipe
from dpbt.models.model import Model, predict_proba
from dpbt.models.scoring import predictions_of_scores
from dpbt.public_types import redacted_repr
from dpbt.sweeps.grid import Setting, qualified_name
from dpbt.training.boost import Boosted
from dpbt.types import BINARY, Array, Recipe, Table

Columns = Mapping[str, Any]
"""Name -> the value of a column for one fit: a number, a Boolean, or an array of them."""


class FinishedFit(NamedTuple):
    """One fit of a sweep, as a measure of whole fits reads it.

    All arrays are of NumPy. It does not depend on the batch, or on the other settings of the sweep.

    Attributes:
        boosted: what `dpbt.boost` returns: the transcript, the hypotheses and the scores of all
            rows.
        table: the rows, of which the training rows of the evaluation are present. Its weights, if
            there are any, are in units of the largest one.
        test: bool[N], the rows to test on.
        recipe: the recipe of the setting.
        setting: axis -> value.
        evaluation: the number of the evaluation.
        repeat: the number of the repeat.
    """

    boosted: Boosted
    table: Table
    test: np.ndarray
    recipe: Recipe
    setting: Setting
    evaluation: int
    repeat: int

    __repr__ = redacted_repr

    def model(self) -> Model:
        """The model of the fit, which predicts other rows.

        It is as private as the scores.
        """
        boosted, table, recipe = jax.tree.map(jnp.asarray, (self.boosted, self.table, self.recipe))
        return boosted.model(table, recipe)


ScoreMeasure = Callable[[Array, Array, Array, Array], Columns]
"""(scores f32[N] or f32[K, N], target [N], trained bool[N], test bool[N]) -> columns; traceable."""

FitMeasure = Callable[[FinishedFit], Columns]
"""A function of one fit, which is called on the host."""

Measure = ScoreMeasure | FitMeasure
"""A function of one argument measures a whole fit, and one of four arguments its scores."""


def error_rates(score: Array, target: Array, trained: Array, test: Array) -> dict[str, Array]:
    """Error rates of predicted classes on the test rows and on the training rows.

    Each row counts once, whatever it weighs. Of two classes the sign of a score is predicted, and 0
    counts as negative. Of several classes the one with the largest score is, the first of equals.

    Args:
        score: f32[N], or f32[K, N] with several classes.
        target: bool[N], or u8[N] with several classes.
        trained: bool[N].
        test: bool[N].
    """
    predicted = score > 0 if score.ndim == 1 else jnp.argmax(score, axis=0).astype(target.dtype)
    is_wrong = predicted != target

    def error_rate(mask: Array) -> Array:
        return jnp.sum(is_wrong & mask) / jnp.maximum(jnp.sum(mask), 1)

    return {"test_error": error_rate(test), "train_error": error_rate(trained)}


def measure_predictions(fit: FinishedFit) -> dict[str, float]:
    """Measure the predictions for the test rows, by the measures of `dpbt evaluate`.

    The target of the recipe decides which these are. Each row counts once, whatever it weighs. A
    measure that is not defined is NaN, and so are all of them without test rows.

    - Two classes: `test_accuracy`, `test_auroc`, `test_log_loss`, and `test_bias`, the mean
      probability minus the share of the positive class.
    - Several classes: `test_accuracy`, `test_auroc` (the mean over classes against the rest) and
      `test_log_loss`.
    - A number, in its units: `test_rmse`, the root of the mean squared error, `test_mae`, `test_r2`
      and `test_bias`. For a count there is also `test_deviance`, and for a quantile `test_pinball`
      and `test_coverage`.
    """
    target_kind = fit.recipe.target
    test = np.asarray(fit.test)
    scores = np.asarray(fit.boosted.scores)[..., test].T  # [M], or [M, K] with several classes
    target = np.asarray(fit.table.target)[test]
    if not len(target):  # how many rows there are is private, so it is no error
        on_all_rows = measure_predictions(fit._replace(test=np.ones_like(test)))
        return dict.fromkeys(on_all_rows, math.nan)
    if isinstance(target_kind, Numeric):
        low, high = float(target_kind.low), float(target_kind.high)
        numbers = low + (high - low) * target.astype(np.float64)
        predicted = np.asarray(predictions_of_scores(target_kind, scores))
        by_name = {
            **measures.measure_numbers(numbers, predicted),
            **measures.measure_objective(numbers, predicted, target_kind.response),
        }
    elif isinstance(target_kind, Nominal):
        predicted = np.asarray(predictions_of_scores(target_kind, scores)).astype(np.int64)
        by_name = measures.measure_classes(
            target.astype(np.int64), predicted, _test_probabilities(fit, scores)
        )
    else:
        probabilities = _test_probabilities(fit, scores)
        positive = None if probabilities is None else probabilities[:, 1]
        by_name = measures.measure_two_classes(target, scores, positive)
    return {f"test_{name}": math.nan if value is None else value for name, value in by_name.items()}


def _test_probabilities(fit: FinishedFit, scores: np.ndarray) -> np.ndarray | None:
    """f[M, K]: the probabilities of the classes of the test rows.

    It is None if the scores define no probabilities.
    """
    facts = public_facts_of_recipe(fit.recipe)
    if facts.probability is None:
        return None
    if facts.probability == "shares":
        return np.asarray(predict_proba(fit.model(), fit.table))[fit.test]
    probabilities = np.asarray(probabilities_of_scores(facts, scores))
    if probabilities.ndim == 2:
        return probabilities
    return np.stack([1 - probabilities, probabilities], axis=1)


class SplitMeasures(NamedTuple):
    """The measures of scores and of whole fits, apart.

    Attributes:
        of_scores: those inside of the program.
        of_fits: those on the host.
        names: the name of each measure, in the order of the argument, as results record them.
    """

    of_scores: tuple[ScoreMeasure, ...]
    of_fits: tuple[FitMeasure, ...]
    names: tuple[str, ...]


def split_measures(measure: Any) -> SplitMeasures:
    """Split measures into those of scores and those of whole fits, by their arguments.

    Args:
        measure: a measure, or several of them.

    Raises:
        ValueError: for anything else.
    """
    is_several = isinstance(measure, Iterable) and not isinstance(measure, str)
    measure_list: list[Any] = list(measure) if is_several else [measure]
    if not measure_list or not all(hasattr(each, "__qualname__") for each in measure_list):
        raise ValueError(f"measure must be a function, or several, got {show_value(measure)}")
    num_arguments = [_num_arguments(each) for each in measure_list]
    if set(num_arguments) - {1, 4}:
        raise ValueError(
            "measure must take one argument, the finished fit, or four: score, target, trained "
            f"and test, got {', '.join(map(qualified_name, measure_list))}"
        )
    by_arguments = list(zip(measure_list, num_arguments, strict=True))
    return SplitMeasures(
        of_scores=tuple(each for each, count in by_arguments if count == 4),
        of_fits=tuple(each for each, count in by_arguments if count == 1),
        names=tuple(map(qualified_name, measure_list)),
    )


def _num_arguments(function: Callable[..., Any]) -> int:
    """Count the positional arguments that a function needs; 0 if it does not state them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return sum(each.kind in kinds and each.default is each.empty for each in parameters)


def default_measure(table: Table) -> Measure:
    """The default measure of a table, by its target.

    It is `error_rates` for two classes, else `measure_predictions`.
    """
    is_binary = str(table.target.dtype) == BINARY.target_dtype
    return error_rates if is_binary else measure_predictions


def merge_columns(columns_of_measures: Iterable[Any]) -> dict[str, Any]:
    """Merge the columns of several measures into one mapping, and refuse a name that two have.

    Raises:
        ValueError: for a measure that returns no mapping of texts, or a column of two measures. The
            message has no value.
    """
    merged: dict[str, Any] = {}
    for columns in columns_of_measures:
        if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns):
            raise ValueError(f"a measure must return a dict of columns, got {type(columns)}")
        if shared := merged.keys() & columns.keys():
            raise ValueError(f"two measures have the columns {sorted(shared)}")
        merged.update(columns)
    return merged


def as_numpy_fit(fit: FinishedFit, max_rounds: int) -> FinishedFit:
    """Convert a fit to arrays of NumPy, with the room for rounds that its own recipe has.

    Args:
        fit: one whose recipe has room for at least as many rounds.
        max_rounds: the room of its own recipe.
    """
    boosted = jax.tree.map(np.asarray, fit.boosted)
    room = fit.recipe.max_rounds
    if room > max_rounds:  # of another setting in the same program
        transcript = boosted.transcript._replace(
            rounds=jax.tree.map(lambda array: array[:max_rounds], boosted.transcript.rounds)
        )
        hypotheses = jax.tree.map(lambda array: array[:max_rounds], boosted.hypotheses)
        boosted = boosted._replace(transcript=transcript, hypotheses=hypotheses)
    return fit._replace(
        boosted=boosted,
        table=jax.tree.map(np.asarray, fit.table),
        test=np.asarray(fit.test),
        recipe=dataclasses.replace(jax.tree.map(np.asarray, fit.recipe), max_rounds=max_rounds),
    )
