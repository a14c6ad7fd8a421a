"""Measures of predictions on test rows. They are exact, so they are a release of these rows."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from dpbt.public_types import Response

MIN_PROBABILITY = 1e-6
"""A smaller probability counts as this one in a log loss."""


Measures = Mapping[str, float | None]
"""The value of each measure by its name; None where it is not defined."""


def measure_two_classes(
    target: Bool[np.ndarray, "M"],
    score: Float[np.ndarray, "M"],
    probability: Float[np.ndarray, "M"] | None,
) -> Measures:
    """Measure accuracy, AUROC, log loss and bias of scores for two classes.

    Scores above 0 predict the positive class.

    The bias is the mean probability minus the share of the positive class. The AUROC is None if all
    rows are of one class.

    Args:
        target: bool[M].
        score: f[M].
        probability: f[M], of the positive class; None without probabilities.
    """
    return {
        "accuracy": float(np.mean((score > 0) == target)),
        "auroc": _none_if_nan(auroc(score.astype(np.float32), target)),
        "log_loss": None if probability is None else log_loss_of_two_classes(target, probability),
        "bias": None if probability is None else float(np.mean(probability) - np.mean(target)),
    }


def measure_classes(
    target: Int64[np.ndarray, "M"],
    predicted: Int64[np.ndarray, "M"],
    probability: Float[np.ndarray, "M K"] | None,
) -> Measures:
    """Measure accuracy, AUROC and log loss of predicted classes.

    The AUROC is the mean over classes of the AUROC of one class against the rest. A class that has
    no test row, or all of them, does not count; it is None if no class counts.

    Args:
        target: i64[M], the numbers of the classes.
        predicted: i64[M].
        probability: f[M, K]; None without probabilities.
    """
    accuracy = float(np.mean(predicted == target))
    if probability is None:
        return {"accuracy": accuracy, "auroc": None, "log_loss": None}
    classes = range(probability.shape[1])
    areas = [auroc(probability[:, number], target == number) for number in classes]
    defined_areas = [area for area in areas if not math.isnan(area)]
    return {
        "accuracy": accuracy,
        "auroc": float(np.mean(defined_areas)) if defined_areas else None,
        "log_loss": log_loss(target, probability),
    }


def _none_if_nan(value: float) -> float | None:
    """The value itself, or None if it is NaN."""
    return None if math.isnan(value) else value


def measure_numbers(target: np.ndarray, predicted: np.ndarray, _: Any = None) -> Measures:
    """Measure RMSE, mean absolute error, R^2 and bias of predicted numbers.

    The numbers are f64[M], and the RMSE is the root of the mean squared error.

    R^2 is 1 minus the mean squared error over that of the mean of the test rows; None if these are
    all equal. The bias is the mean prediction minus the mean number.
    """
    errors = np.asarray(predicted, np.float64) - target
    squared = float(np.mean(errors**2))
    variance = float(np.var(target))
    is_constant = np.ptp(target) == 0  # the variance of equal numbers may be rounded to above 0
    return {
        "rmse": squared**0.5,
        "mae": float(np.mean(np.abs(errors))),
        "r2": None if is_constant or variance == 0 else 1 - squared / variance,
        "bias": float(np.mean(errors)),
    }


def measure_objective(target: np.ndarray, predicted: np.ndarray, response: Response) -> Measures:
    """Measure predicted numbers f64[M] by the loss of an objective, such as a quantile.

    For counts it is the mean Poisson deviance, in which a prediction below 1e-6 counts as 1e-6. For
    a quantile it is the mean pinball loss, and the coverage: the share of numbers that do not
    exceed the prediction. For the squared error there are no measures.
    """
    target = np.asarray(target, np.float64)
    if response.objective == "poisson":
        mean = np.maximum(predicted, MIN_PROBABILITY)
        logs = target * np.log(np.maximum(target, 1e-300) / mean)
        return {"deviance": float(2 * np.mean(logs - target + mean))}
    if response.objective == "quantile":
        residual = target - predicted
        loss = pinball_loss(residual, response.level)
        return {"pinball": float(np.mean(loss)), "coverage": float(np.mean(residual <= 0))}
    return {}


def pinball_loss(residual: np.ndarray, level: float) -> Float[np.ndarray, "M"]:
    """f[M]: the pinball loss at a level, of residuals f[M].

    A residual is the number less its prediction.
    """
    return np.maximum(level * residual, (level - 1) * residual)


def share_of_most_frequent_class(target: np.ndarray) -> float:
    """The share of the rows that are of the most frequent class.

    It is the best accuracy of predicting one class for all rows, of which there is at least one.
    """
    return float(np.bincount(np.asarray(target).astype(int)).max() / len(target))


def auroc(score: np.ndarray, positive: Bool[np.ndarray, "M"]) -> float:
    """The AUROC: the share of pairs of a positive and a negative row in the right order.

    Ties count half. It is NaN without pairs.

    Args:
        score: f[M], or whole numbers.
        positive: bool[M].
    """
    positives, negatives = score[positive], np.sort(score[~positive])
    if not len(positives) or not len(negatives):
        return float("nan")
    below = np.searchsorted(negatives, positives, "left")
    not_above = np.searchsorted(negatives, positives, "right")
    return float(np.mean(below + not_above) / (2 * len(negatives)))


def log_loss(target: Int64[np.ndarray, "M"], probability: Float[np.ndarray, "M K"]) -> float:
    """The mean log loss of the probabilities of several classes, in nats.

    Args:
        target: i64[M].
        probability: f[M, K].
    """
    probability = np.asarray(probability, np.float64)
    of_target = np.take_along_axis(probability, target[:, None], axis=1)
    return float(-np.mean(np.log(np.clip(of_target, MIN_PROBABILITY, 1))))


def log_loss_of_two_classes(target: np.ndarray, probability: np.ndarray) -> float:
    """The mean log loss of two classes, in nats.

    The probabilities f[M] are of the positive class.
    """
    clipped = np.clip(probability, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return float(-np.mean(np.log(np.where(target, clipped, 1 - clipped))))


class CalibrationBin(NamedTuple):
    """The averages over the rows whose predicted probabilities lie in one bin.

    Attributes:
        num_rows: the number of rows.
        mean_probability: the mean predicted probability of the positive class.
        positive_share: the share of rows of the positive class.
    """

    num_rows: int
    mean_probability: float
    positive_share: float


def calibration_bins(
    target: Bool[np.ndarray, "M"], probability: Float[np.ndarray, "M"], num_bins: int = 10
) -> list[CalibrationBin]:
    """Group rows by predicted probability into bins of equal width, and average each bin.

    Bins without rows are left out.

    Args:
        target: bool[M].
        probability: f[M], of the positive class.
        num_bins: the number of bins.
    """
    bin_of_row = np.minimum((probability * num_bins).astype(int), num_bins - 1)
    members = [bin_of_row == number for number in range(num_bins)]
    return [
        CalibrationBin(
            num_rows=int(rows.sum()),
            mean_probability=float(probability[rows].mean()),
            positive_share=float(target[rows].mean()),
        )
        for rows in members
        if rows.any()
    ]


class NumberCalibrationBin(NamedTuple):
    """The averages over the rows whose predicted numbers lie in one bin.

    Attributes:
        num_rows: the number of rows.
        mean_prediction: the mean predicted number.
        mean_number: the mean of the numbers.
    """

    num_rows: int
    mean_prediction: float
    mean_number: float


def quantile_calibration_bins_of_numbers(
    target: np.ndarray, predicted: np.ndarray, num_bins: int = 10
) -> list[NumberCalibrationBin]:
    """Group rows by predicted number into bins of about as many rows, and average each.

    Bins without rows are left out.

    Args:
        target: f64[M], the numbers.
        predicted: f[M].
        num_bins: the number of bins.
    """
    edges = np.quantile(predicted, np.arange(1, num_bins) / num_bins)
    bin_of_row = np.searchsorted(edges, predicted, side="right")
    members = [bin_of_row == number for number in range(num_bins)]
    return [
        NumberCalibrationBin(
            num_rows=int(rows.sum()),
            mean_prediction=float(np.mean(predicted[rows])),
            mean_number=float(np.mean(target[rows])),
        )
        for rows in members
        if rows.any()
    ]
