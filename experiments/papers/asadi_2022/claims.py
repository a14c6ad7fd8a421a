"""The claims in words of Asadi et al. (2022), each as one number."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpbt.data.splits import satisfied_splits
from experiments.common import data, smooth_bounds
from experiments.common.estimates import Estimate
from experiments.common.results import Line, distinct, where
from experiments.papers.asadi_2022.features import load_features
from experiments.papers.asadi_2022.settings import (
    CALIBRATIONS,
    DATASETS,
    EPSILONS,
    FIGURE_1,
    SERIES_DELTA,
    printed_settings,
)

HIGH_PRIVACY = 0.5
"""The largest epsilon of high privacy; the paper names none."""

Results = Mapping[str, Sequence[Line]]
"""Name of a saved result -> its lines."""

Values = dict[str, Estimate]
"""Name of a claim -> its value."""


def data_set_lines() -> list[Line]:
    """Rows and features of the data sets whose files are there."""
    lines = []
    for name in DATASETS:
        if data.is_available(name):
            table, test, words = load_features(name)
            tests = 0 if test is None else int(test.sum())
            rows = len(np.asarray(table.target)) - tests
            lines.append({"dataset": name, "rows": rows, "tests": tests, "features": len(words)})
    return lines


def claim_lines(results: Results) -> list[Line]:
    """Lines of name, calibration, value and its standard error (or None).

    A claim is left out without the results that it needs.

    Args:
        results: those that were saved, and the lines of `data_set_lines` as "datasets".
    """
    bound = smooth_bounds.theorem_24_rounds(FIGURE_1["gamma"], FIGURE_1["density"])
    values = {("rounds of Theorem 3.1", "none"): Estimate(float(bound))}
    failures = [_max_failure_probability(name) for name in DATASETS if data.is_available(name)]
    if failures:
        values["largest failure probability of Theorem 4.3", "none"] = Estimate(max(failures))
    for calibration in CALIBRATIONS:
        for make_claims in CLAIM_MAKERS:
            for name, value in make_claims(results, calibration).items():
                values[name, calibration] = value
    return [
        {"name": name, "calibration": calibration, "value": value, "error": error}
        for (name, calibration), (value, error) in values.items()
    ]


def percent_lines(counts: Sequence[Line], features: Sequence[Line]) -> list[Line]:
    """The numbers of features that models use, in percent of all features.

    Args:
        counts: the lines of `sparsity`.
        features: those of `data_set_lines`.
    """
    num_features = {line["dataset"]: line["features"] for line in features}
    columns = [name for calibration in CALIBRATIONS for name in (calibration, f"{calibration}_sd")]
    return [
        {"dataset": line["dataset"], "epsilon": line["epsilon"], "keys": line["keys"]}
        | {name: 100 * line[name] / num_features[line["dataset"]] for name in columns}
        for line in counts
        if line["dataset"] in num_features
    ]


def _advantage_claims(results: Results, calibration: str) -> Values:
    """When the advantage fails, if it was measured."""
    if "advantages" not in results:
        return {}
    advantages = where(results["advantages"], calibration=calibration)
    below = [line["round"] for line in advantages if line["mean"] < FIGURE_1["gamma"]]
    return {"first round without the advantage": Estimate(min(below, default=np.inf))}


BETA = 0.05
"""The probability with which Theorem 4.3 may fail."""


def _max_failure_probability(name: str) -> float:
    """The largest probability that a literal is further from the best than Theorem 4.3 says.

    Literals are those of the first round, at the settings of Tables 8 to 10 and each epsilon.
    """
    table, test, _ = load_features(name)
    train = np.ones(len(np.asarray(table.target)), bool) if test is None else ~test
    features = np.asarray(satisfied_splits(table))[train]
    sign = np.where(np.asarray(table.target)[train], 1.0, -1.0)
    edge = sign @ np.where(features, 1.0, -1.0) / len(sign)
    advantage = np.concatenate([edge, -edge, [sign.mean(), -sign.mean()]]) / 2
    worst = 0.0
    for epsilon in EPSILONS:
        settings = printed_settings(name, epsilon)
        eta = epsilon * settings["density"] * len(sign) / (4 * settings["rounds"])
        mass = np.exp(eta * (advantage - advantage.max()))
        is_far = advantage < advantage.max() - np.log(len(advantage) / BETA) / eta
        worst = max(worst, float(mass[is_far].sum() / mass.sum()))
    return worst


def _round_claims(results: Results, calibration: str) -> Values:
    """How much more a delta gains with more rounds."""
    lines = where(results.get("rounds", []), calibration=calibration)
    gains = {
        rounds: _mean_in_points(_gains_by_delta(where(lines, rounds=rounds)))
        for rounds in distinct(lines, "rounds")
    }
    if len(gains) < 2:
        return {}
    many, few = gains[max(gains)], gains[min(gains)]
    name = f"gain by delta at {max(gains)} rounds less that at {min(gains)}, points"
    return {
        name: Estimate(
            many.value - few.value, float(np.hypot(many.standard_error, few.standard_error))
        )
    }


def _delta_claims(results: Results, calibration: str) -> Values:
    """What a delta gains in Figures 2 and 3."""
    values: Values = {}
    for name in ("fig2", "fig3"):
        lines = where(results.get(name, []), calibration=calibration)
        gains = _gains_by_delta(lines)
        if not gains:
            continue
        spreads = [pair.pure["accuracy_sd"] for pair in _pairs_by_delta(lines)]
        num_within = sum(gain.value <= sd for gain, sd in zip(gains, spreads, strict=True))
        values[f"{name} mean gain by delta, points"] = _mean_in_points(gains)
        values[f"{name} epsilons of a gain within one sd"] = Estimate(num_within)
        values[f"{name} epsilons of a gain above one sd"] = Estimate(len(gains) - num_within)
    return values


def _logistic_claims(results: Results, calibration: str) -> Values:
    """How LazyBB compares with DP-LR at high privacy."""
    values: Values = {}
    if "table2" not in results or "baselines" not in results:
        return values
    num_ahead = 0
    for dataset in DATASETS:
        gaps = _differences_to_logistic(results, dataset, calibration)
        if gaps:
            gain = _mean_in_points(gaps)
            values[f"{dataset} above DP-LR, points"] = gain
            num_ahead += gain.value > 0 or _is_sparser(results, dataset, calibration)
    if len(values) == len(DATASETS) and "sparsity" in results:
        values["data sets of better accuracy or sparsity than DP-LR"] = Estimate(num_ahead)
    return values


def _is_sparser(results: Results, dataset: str, calibration: str) -> bool:
    """Whether LazyBB leaves features out at high privacy."""
    counts = [
        line[calibration]
        for line in results.get("sparsity", [])
        if line["dataset"] == dataset and line["epsilon"] <= HIGH_PRIVACY
    ]
    num_features = {line["dataset"]: line["features"] for line in results.get("datasets", [])}
    return bool(counts) and dataset in num_features and max(counts) < num_features[dataset]


def _tree_claims(results: Results, calibration: str) -> Values:
    """How 1-rules and DP-LR compare with top-down trees on Adult."""
    if "table2" not in results or "trees" not in results:
        return {}
    trees = {line["epsilon"]: line for line in where(results["trees"], calibration=calibration)}
    rules = [
        line
        for line in where(results["table2"], calibration=calibration)
        if line["dataset"] == "adult" and line["epsilon"] in trees
    ]
    if not rules:
        return {}
    gaps = [_accuracy_difference(line, trees[line["epsilon"]]) for line in rules]
    values: Values = {"adult 1-rules above top-down trees, points": _mean_in_points(gaps)}
    if "baselines" in results:
        logistic = _logistic_lines(results, "adult")
        better = [
            max(line["accuracy_mean"], logistic[line["epsilon"]]["accuracy_mean"])
            > trees[line["epsilon"]]["accuracy_mean"]
            for line in rules
            if line["epsilon"] in logistic
        ]
        values["adult epsilons at which 1-rules or DP-LR beat trees"] = Estimate(sum(better))
    return values


def _bound_claims(results: Results, calibration: str) -> Values:
    """On how many data sets the proved accuracy is below the measured one, at epsilon 1."""
    if "bounds" not in results or "table2" not in results:
        return {}
    proved = {
        line["dataset"]: line["bound_mean"]
        for line in where(results["bounds"], calibration=calibration)
    }
    below = [
        proved[line["dataset"]] < line["accuracy_mean"]
        for line in where(results["table2"], calibration=calibration)
        if line["epsilon"] == 1 and line["dataset"] in proved
    ]
    return {"data sets whose bound is below the accuracy": Estimate(sum(below))}


def _rival_claims(results: Results, calibration: str) -> Values:
    """How 1-rules compare with tuned DP-LR, DP-Boost and DP-Bag, and how often they are best."""
    values: Values = {}
    if "table2" not in results or "rivals" not in results:
        return values
    rules = {
        (line["dataset"], line["epsilon"]): line
        for line in where(results["table2"], calibration=calibration)
    }
    rivals = {
        (line["method"], line["dataset"], line["epsilon"]): line for line in results["rivals"]
    }
    for method in distinct(results["rivals"], "method"):
        for dataset in DATASETS:
            gaps = [
                _accuracy_difference(line, rivals[method, dataset, epsilon])
                for (name, epsilon), line in rules.items()
                if name == dataset
                and (method, dataset, epsilon) in rivals
                and (method != "dp-lr" or epsilon <= HIGH_PRIVACY)
            ]
            if gaps:
                words = "tuned DP-LR" if method == "dp-lr" else METHODS[method]
                values[f"{dataset} above {words}, points"] = _mean_in_points(gaps)

    # At how many of the epsilons that all methods have 1-rules or DP-LR are the best of all.
    trees = where(results.get("trees", []), calibration=calibration)
    num_best = num_compared = 0
    for (name, epsilon), line in rules.items():
        rival_accuracies = [
            rivals[method, name, epsilon]["accuracy_mean"]
            for method in METHODS
            if (method, name, epsilon) in rivals
        ]
        if not rival_accuracies or ("dp-lr", name, epsilon) not in rivals:
            continue
        if name == "adult":
            rival_accuracies += [
                tree["accuracy_mean"] for tree in trees if tree["epsilon"] == epsilon
            ]
        candidates = line["accuracy_mean"], rivals["dp-lr", name, epsilon]["accuracy_mean"]
        num_best += max(candidates) > max(rival_accuracies)
        num_compared += 1
    if num_compared:
        name = "percent of the settings at which 1-rules or DP-LR are best of all"
        values[name] = Estimate(100 * num_best / num_compared)
    return values


def _printed_tree_claims(results: Results, calibration: str) -> Values:
    """How 1-rules compare with the best trees of Table 1's grid, and how many rounds these have."""
    values: Values = {}
    trees = where(results.get("selected", []), calibration=calibration, dataset="adult")
    for tree in trees if "table2" in results else []:
        setting = {"calibration": calibration, "dataset": "adult", "epsilon": tree["epsilon"]}
        (line,) = where(results["table2"], **setting)
        values["adult 1-rules above the best trees of Table 1, points"] = _mean_in_points(
            [_accuracy_difference(line, tree)]
        )
        values["rounds of the best trees of Table 1"] = Estimate(float(tree["rounds"]))
    return values


METHODS = {"dp-boost": "DP-Boost", "dp-bag": "DP-Bag"}
"""The rivals beside DP-LR, in words."""

CLAIM_MAKERS = (
    _advantage_claims,
    _delta_claims,
    _round_claims,
    _logistic_claims,
    _tree_claims,
    _bound_claims,
    _rival_claims,
    _printed_tree_claims,
)
"""The functions (results, calibration) -> claims."""


def _accuracy_difference(line: Line, base: Line) -> Estimate:
    """A mean accuracy less that of another line, and the standard error over keys."""
    errors = [one["accuracy_sd"] / np.sqrt(one["keys"]) for one in (line, base)]
    return Estimate(line["accuracy_mean"] - base["accuracy_mean"], float(np.hypot(*errors)))


def _mean_in_points(gains: Sequence[Estimate]) -> Estimate:
    """The mean of differences in points, and its standard error."""
    mean = statistics.fmean(gain.value for gain in gains)
    error = float(np.linalg.norm([gain.standard_error for gain in gains])) / len(gains)
    return Estimate(100 * mean, 100 * error)


class DeltaPair(NamedTuple):
    """Two lines at one epsilon, with a delta and without one."""

    with_delta: Line
    pure: Line


def _pairs_by_delta(lines: Sequence[Line]) -> list[DeltaPair]:
    """The pair of each epsilon."""
    pure = {line["epsilon"]: line for line in lines if line["delta"] == 0}
    return [
        DeltaPair(line, pure[line["epsilon"]]) for line in lines if line["delta"] == SERIES_DELTA
    ]


def _gains_by_delta(lines: Sequence[Line]) -> list[Estimate]:
    """What a delta gains at each epsilon."""
    return [_accuracy_difference(pair.with_delta, pair.pure) for pair in _pairs_by_delta(lines)]


def _logistic_lines(results: Results, dataset: str) -> dict[float, Line]:
    """Epsilon -> the line of DP-LR, by the paper's protocol for the data set."""
    protocol = "test" if dataset == "adult" else "folds"
    return {
        line["epsilon"]: line
        for line in results["baselines"]
        if (line["dataset"], line["protocol"], line["method"]) == (dataset, protocol, "dp-lr")
    }


def _differences_to_logistic(results: Results, dataset: str, calibration: str) -> list[Estimate]:
    """Accuracies of LazyBB less those of DP-LR, at the epsilons of high privacy."""
    logistic = _logistic_lines(results, dataset)
    return [
        _accuracy_difference(line, logistic[line["epsilon"]])
        for line in where(results["table2"], calibration=calibration)
        if line["dataset"] == dataset
        and line["epsilon"] in logistic
        and line["epsilon"] <= HIGH_PRIVACY
    ]
