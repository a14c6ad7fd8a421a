"""What a hypothesis adds to the scores of rows, which an executor holds."""

from dpbt import types
from dpbt.privacy.isolation import evaluate_in_isolated_trace
from dpbt.training.checks import dtype_and_shape, is_promoted_to_float32
from dpbt.types import Array, PreparedRows, Recipe


def predict_rows(recipe: Recipe, hypothesis: types.Hypothesis, rows: PreparedRows) -> Array:
    """f32[N], or f32[K, N] with several classes: what a hypothesis adds to the score of each row.

    Nothing else of the rows is kept.

    Raises:
        ValueError: as `check_shape_of_predictions`.
    """
    predictions = evaluate_in_isolated_trace(recipe.learner.kind.predict_prepared, hypothesis, rows)
    return check_shape_of_predictions(predictions, recipe, rows)


MAX_SHOWN_ROWS = 3
"""The largest number of rows that an error shows; `author_code` traces as many absent rows."""


def check_shape_of_predictions(predictions: Array, recipe: Recipe, rows: PreparedRows) -> Array:
    """Check that an author's predictions have the shape and the dtype of scores, and return them.

    Args:
        predictions: what the author's function returned for one hypothesis; they may be traced.
        recipe: of the run, without an axis of settings.
        rows: the rows that the function read.

    Raises:
        ValueError: naming the function, and the shape that it should have returned. The shape that
            it did return is shown for the few absent rows that are traced before a run. For a table
            only its rank is shown, as the number of rows is private.
    """
    axes = recipe.learner.response.score_axes
    (num_rows,) = rows.present.shape
    if predictions.shape == (*axes, num_rows) and is_promoted_to_float32(predictions):
        return predictions
    is_prepared = recipe.learner.training.predict_prepared is not None
    function = "Training.predict_prepared" if is_prepared else "HypothesisKind.predict"
    expected = f"float32[{axes[0]}, N]" if axes else "float32[N]"
    returned = types.describe_dtype_and_rank(predictions)
    if num_rows <= MAX_SHOWN_ROWS:
        returned = f"{dtype_and_shape(predictions)} for N = {num_rows}"
    raise ValueError(
        f"{function} must return {expected}: what the hypothesis adds to the score of each of the "
        f"N rows that it reads; it returned {returned}"
    )
