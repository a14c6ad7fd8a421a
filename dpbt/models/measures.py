"""Measures of predictions on test rows. They are exact: a release of these rows, if private."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbt.public_types import Response

MIN_PROBABILITY = 1e-6
"""Probabilities below it count as this in a log loss."""


Measures = Mapping[str, float | None]
"""Name -> value; None where it is not defined."""


def measure_two_classes(
    target: np.ndarray, score: np.ndarray, probability: np.ndarray | None
) -> Measures:
    """Accuracy, AUROC and log loss of scores f[M], of which one above 0 is the positive class.

    Args:
        target: bool[M].
        score: f[M].
        probability: f[M], of the positive class; None if there is none.
    """
    return {
        "accuracy": float(np.mean((score > 0) == target)),
        "auroc": auroc(score.astype(np.float32), target),
        "log_loss": None if probability is None else log_loss_of_two(target, probability),
    }


def measure_classes(
    target: np.ndarray, predicted: np.ndarray, probability: np.ndarray | None
) -> Measures:
    """Accuracy, AUROC and log loss of classes i64[M], as the target is, and their f[M, K].

    The AUROC is the mean over classes of that of one class against the rest. A class that has no
    test row, or all of them, does not count.
    """
    accuracy = float(np.mean(predicted == target))
    if probability is None:
        return {"accuracy": accuracy, "auroc": None, "log_loss": None}
    numbers = range(probability.shape[1])
    areas = [auroc(probability[:, number], target == number) for number in numbers]
    return {
        "accuracy": accuracy,
        "auroc": float(np.nanmean(areas)),
        "log_loss": log_loss(target, probability),
    }


def measure_numbers(target: np.ndarray, predicted: np.ndarray, _: Any = None) -> Measures:
    """Root of the mean squared error, mean absolute error, and R^2 of numbers f64[M].

    R^2 is 1 minus the mean squared error over that of the mean of the test rows.
    """
    errors = np.asarray(predicted, np.float64) - target
    squared = float(np.mean(errors**2))
    return {
        "rmse": squared**0.5,
        "mae": float(np.mean(np.abs(errors))),
        "r2": 1 - squared / float(np.var(target)),
    }


def measure_objective(target: np.ndarray, predicted: np.ndarray, response: Response) -> Measures:
    """What is measured of numbers f64[M] whose objective is not the squared error.

    Of counts it is the mean Poisson deviance, where a prediction below 1e-6 counts as this. Of a
    quantile it is the mean pinball loss, and the coverage: the share of numbers that are not above
    it.
    """
    target = np.asarray(target, np.float64)
    if response.objective == "poisson":
        mean = np.maximum(predicted, MIN_PROBABILITY)
        logs = target * np.log(np.maximum(target, 1e-300) / mean)
        return {"deviance": float(2 * np.mean(logs - target + mean))}
    if response.objective == "quantile":
        apart, level = target - predicted, response.level
        loss = np.maximum(level * apart, (level - 1) * apart)
        return {"pinball": float(np.mean(loss)), "coverage": float(np.mean(apart <= 0))}
    return {}


def share_of_most_frequent(target: np.ndarray) -> float:
    """The accuracy of one answer for all rows, the best one, given classes of at least one row."""
    return float(np.bincount(np.asarray(target).astype(int)).max() / len(target))


def auroc(score: np.ndarray, positive: np.ndarray) -> float:
    """The share of pairs that a score orders rightly; ties count half. NaN without pairs.

    Args:
        score: f[M], or whole numbers.
        positive: bool[M].
    """
    own, other = score[positive], np.sort(score[~positive])
    if not len(own) or not len(other):
        return float("nan")
    below = np.searchsorted(other, own, "left") + np.searchsorted(other, own, "right")
    return float(np.mean(below) / (2 * len(other)))


def log_loss(target: np.ndarray, probability: np.ndarray) -> float:
    """The mean log loss in nats.

    Args:
        target: i64[M].
        probability: f[M, K].
    """
    own = np.take_along_axis(np.asarray(probability, np.float64), target[:, None], axis=1)
    return float(-np.mean(np.log(np.clip(own, MIN_PROBABILITY, 1))))


def log_loss_of_two(target: np.ndarray, probability: np.ndarray) -> float:
    """The mean log loss of f[M], the probabilities of the positive class, in nats."""
    clipped = np.clip(probability, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return float(-np.mean(np.log(np.where(target, clipped, 1 - clipped))))


def calibration_bins(target: np.ndarray, probability: np.ndarray, bins: int = 10) -> list[tuple]:
    """(rows, mean probability, share of positive rows) by probability, in bins of equal width.

    Args:
        target: bool[M].
        probability: f[M], of the positive class.
        bins: how many; one without rows is left out.
    """
    place = np.minimum((probability * bins).astype(int), bins - 1)
    chosen = [place == number for number in range(bins)]
    return [
        (int(here.sum()), float(probability[here].mean()), float(target[here].mean()))
        for here in chosen
        if here.any()
    ]
