"""The claims in words of Asadi et al. (2022), each as one number."""

import statistics
from collections.abc import Sequence

import numpy as np

from dpbt.theory import smooth_bounds
from experiments.common import data
from experiments.common.results import Line
from experiments.papers.asadi_2022.features import load
from experiments.papers.asadi_2022.settings import (
    CALIBRATIONS,
    DATASETS,
    FIGURE_1,
    SERIES_DELTA,
)

HIGH_PRIVACY = 0.5
"""The largest epsilon of high privacy; the paper names none."""


def sizes() -> list[Line]:
    """Rows and features of the data sets that are there."""
    lines = []
    for name in DATASETS:
        if data.is_there(name):
            table, test, words = load(name)
            tests = 0 if test is None else int(test.sum())
            rows = len(np.asarray(table.target)) - tests
            lines.append({"dataset": name, "rows": rows, "tests": tests, "features": len(words)})
    return lines


def measures(found: dict[str, Sequence[Line]]) -> list[Line]:
    """Lines of name, calibration and value, from the results that are there.

    Args:
        found: name of a saved result -> its lines.
    """
    bound = smooth_bounds.rounds_needed(FIGURE_1["gamma"], FIGURE_1["density"])
    values = {("rounds of Theorem 3.1", "none"): float(bound)}
    for calibration in CALIBRATIONS:
        if "advantages" in found:
            own = _of(found["advantages"], calibration)
            below = [line["round"] for line in own if line["mean"] < FIGURE_1["gamma"]]
            values["first round without the advantage", calibration] = min(below, default=np.inf)
        for name in ("fig2", "fig3"):
            if name in found:
                gains = _gains(_of(found[name], calibration))
                if not gains:
                    continue
                values[f"{name} mean gain by delta, points", calibration] = 100 * statistics.fmean(
                    gain for gain, _ in gains
                )
                within = sum(gain <= sd for gain, sd in gains)
                values[f"{name} epsilons of a gain within one sd", calibration] = within
        if "table2" in found and "baselines" in found:
            for dataset in DATASETS:
                gaps = _over_logistic(found, dataset, calibration)
                if gaps:
                    name = f"{dataset} above DP-LR, points"
                    values[name, calibration] = 100 * statistics.fmean(gaps)
        if "table2" in found and "trees" in found:
            gaps = _over_trees(found, calibration)
            if gaps:
                name = "adult 1-rules above top-down trees, points"
                values[name, calibration] = 100 * statistics.fmean(gaps)
    return [
        {"name": name, "calibration": calibration, "value": value}
        for (name, calibration), value in values.items()
    ]


def _of(lines: Sequence[Line], calibration: str) -> list[Line]:
    return [line for line in lines if line["calibration"] == calibration]


def _gains(lines: Sequence[Line]) -> list[tuple[float, float]]:
    """(accuracy with a delta less without one, the standard deviation without) by epsilon."""
    pure = {line["epsilon"]: line for line in lines if line["delta"] == 0}
    return [
        (
            line["accuracy_mean"] - pure[line["epsilon"]]["accuracy_mean"],
            pure[line["epsilon"]]["accuracy_sd"],
        )
        for line in lines
        if line["delta"] == SERIES_DELTA
    ]


def _over_trees(found: dict[str, Sequence[Line]], calibration: str) -> list[float]:
    """Accuracies of LazyBB with 1-rules less those with top-down trees, on Adult by epsilon."""
    trees = {line["epsilon"]: line["accuracy_mean"] for line in _of(found["trees"], calibration)}
    return [
        line["accuracy_mean"] - trees[line["epsilon"]]
        for line in _of(found["table2"], calibration)
        if line["dataset"] == "adult" and line["epsilon"] in trees
    ]


def _over_logistic(found: dict[str, Sequence[Line]], dataset: str, calibration: str) -> list[float]:
    """Accuracies of LazyBB less those of DP-LR, at the epsilons of high privacy."""
    protocol = "test" if dataset == "adult" else "folds"
    theirs = {
        line["epsilon"]: line["accuracy_mean"]
        for line in found["baselines"]
        if (line["dataset"], line["protocol"], line["method"]) == (dataset, protocol, "dp-lr")
    }
    return [
        line["accuracy_mean"] - theirs[line["epsilon"]]
        for line in _of(found["table2"], calibration)
        if line["dataset"] == dataset
        and line["epsilon"] in theirs
        and line["epsilon"] <= HIGH_PRIVACY
    ]
