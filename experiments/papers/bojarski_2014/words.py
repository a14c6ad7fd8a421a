"""The claims in words of Bojarski et al. (2014), each as one number."""

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.common.results import Line

RULES = ("majority", "threshold", "probabilistic")


def measures(series: Mapping[str, Sequence[Line]], by_eta: Mapping[str, Sequence[Line]]) -> list:
    """Lines of name and value, over the data sets that are there.

    Args:
        series: data set -> the lines of its grid.
        by_eta: data set -> the lines of its series by eta.
    """
    found: dict[str, float] = {}
    spreads = {name: _over(lines, np.std) for name, lines in series.items()}
    least = {name: _chosen(lines) for name, lines in series.items()}
    count = len(series)
    found["data sets where majority varies least over k and h, percent"] = (
        100 * sum(min(own, key=own.__getitem__) == RULES[0] for own in spreads.values()) / count
    )
    gaps = [own[RULES[0]] - own[RULES[1]] for own in least.values()]
    found["majority above threshold averaging, points"] = 100 * float(np.mean(gaps))
    worst = [own[RULES[2]] >= max(own[RULES[0]], own[RULES[1]]) for own in least.values()]
    found["data sets where probabilistic averaging is last, percent"] = 100 * float(np.mean(worst))
    wins = [win for lines in by_eta.values() for win in _threshold_wins(lines)]
    if wins:
        found["settings of Figure 2a where threshold averaging is best, percent"] = 100 * float(
            np.mean(wins)
        )
    bound = [line for lines in (*series.values(), *by_eta.values()) for line in lines]
    told = [line for line in bound if line["bound"] is not None]
    found["settings where a theorem at the paper's constants says something, percent"] = (
        100 * len(told) / len(bound)
    )
    return [{"name": name, "value": value, "datasets": count} for name, value in found.items()]


def _private(lines: Sequence[Line], rule: str) -> list[Line]:
    return [line for line in lines if line["private"] and line["voting"] == rule]


def _over(lines: Sequence[Line], measure) -> dict[str, float]:
    """A measure of the test errors over all k and h, by rule."""
    return {
        rule: float(measure([line["test_error"] for line in _private(lines, rule)]))
        for rule in RULES
    }


def _chosen(lines: Sequence[Line]) -> dict[str, float]:
    """The test error of the forest that validation chooses, by rule."""
    return {
        rule: min(_private(lines, rule), key=lambda line: line["validation_error"])["test_error"]
        for rule in RULES
    }


def _threshold_wins(lines: Sequence[Line]) -> list[bool]:
    """For each eta and height, whether threshold averaging has the smallest chosen error."""
    cells = dict.fromkeys((line["eta"], line["height"]) for line in lines if line["private"])
    wins = []
    for eta, height in cells:
        here = [line for line in lines if (line["eta"], line["height"]) == (eta, height)]
        errors = _chosen(here)
        wins.append(errors[RULES[1]] <= min(errors.values()))
    return wins
