"""The claims in words of Bojarski et al. (2014), each as one number."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.common.results import Line, where

RULES = ("majority", "threshold", "probabilistic")


FEW_TREES = 5
"""Far fewer trees than the 21 that the paper explores, in our reading."""


def claim_lines(
    series: Mapping[str, Sequence[Line]],
    by_eta: Mapping[str, Sequence[Line]],
    rows: Mapping[str, int],
) -> list[Line]:
    """Lines of name, value, its standard error or None, and the data sets or settings counted.

    Args:
        series: data set -> the lines of its grid.
        by_eta: data set -> the lines of its series by eta.
        rows: data set -> its rows. All of them are test rows once, over ten runs.
    """
    lines = _rule_claims(series, rows) + _few_trees_claims(series, rows)
    wins = [_is_threshold_best(found) for found in by_eta.values()]
    if wins:
        name = "settings of Figure 2a where threshold averaging alone is best, percent"
        shares = 100 * np.asarray([np.mean(own) for own in wins])
        error = float(np.std(shares, ddof=1) / math.sqrt(len(wins))) if len(wins) > 1 else None
        lines.append(_claim_line(name, float(np.mean(shares)), sum(map(len, wins)), error))
    bound = [line for found in (*series.values(), *by_eta.values()) for line in found]
    informative = [line for line in bound if line["bound"] is not None]
    name = "settings where a theorem at the paper's constants says something, percent"
    return [*lines, _claim_line(name, 100 * len(informative) / len(bound), len(bound))]


def _claim_line(name: str, value: float, count: int, error: float | None = None) -> Line:
    return {"name": name, "value": value, "error": error, "count": count}


def _rule_claims(series: Mapping[str, Sequence[Line]], rows: Mapping[str, int]) -> list[Line]:
    """How the rules of voting compare over the private grid."""
    count = len(series)
    claims = []
    for words, measure in (("varies least over k and h", np.std), ("has the least mean", np.mean)):
        values = [_measure_by_rule(lines, measure) for lines in series.values()]
        first = sum(min(by_rule, key=by_rule.__getitem__) == RULES[0] for by_rule in values)
        claims.append(
            _claim_line(f"data sets where majority {words}, percent", 100 * first / count, count)
        )
    least = {name: _validated_errors(lines) for name, lines in series.items()}
    pairs = [(by_rule[RULES[0]], by_rule[RULES[1]], rows[name]) for name, by_rule in least.items()]
    claims.append(_gap_line("majority above threshold averaging, points", pairs))
    worst = [
        by_rule[RULES[2]] >= max(by_rule[RULES[0]], by_rule[RULES[1]]) for by_rule in least.values()
    ]
    name = "data sets where probabilistic averaging is last, percent"
    claims.append(_claim_line(name, 100 * float(np.mean(worst)), count))
    clear = [
        _is_significantly_more(
            by_rule[RULES[2]], max(by_rule[RULES[0]], by_rule[RULES[1]]), rows[name]
        )
        for name, by_rule in least.items()
    ]
    name = "data sets where probabilistic averaging is significantly last, percent"
    return [*claims, _claim_line(name, 100 * float(np.mean(clear)), count)]


def _is_significantly_more(more: float, less: float, rows: int) -> bool:
    """Whether one error is above another by more than twice the standard error."""
    error = math.sqrt((more * (1 - more) + less * (1 - less)) / rows)
    return more - less > 2 * error


def _few_trees_claims(series: Mapping[str, Sequence[Line]], rows: Mapping[str, int]) -> list[Line]:
    """What forests of few trees lose against all forests of the grid."""
    claims = []
    for words, most in (
        ("log2 n trees", {name: math.log2(count) for name, count in rows.items()}),
        (f"{FEW_TREES} trees", dict.fromkeys(rows, FEW_TREES)),
    ):
        for private in (False, True):
            pairs = []
            for name, lines in series.items():
                few, all_ = (
                    _validated_errors(lines, private, most) for most in (most[name], math.inf)
                )
                pairs += [(few[rule], all_[rule], rows[name]) for rule in RULES[:2]]
            noise = "with" if private else "without"
            claims.append(_gap_line(f"at most {words} above all, {noise} privacy, points", pairs))
    return claims


def _gap_line(name: str, pairs: Sequence[tuple[float, float, int]]) -> Line:
    """The mean of differences of test errors in points; its error is as of independent rows."""
    gaps = [one - other for one, other, _ in pairs]
    squares = [(a * (1 - a) + b * (1 - b)) / count for a, b, count in pairs]
    error = math.sqrt(sum(squares)) / len(pairs)
    return _claim_line(name, 100 * float(np.mean(gaps)), len(pairs), 100 * error)


def _measure_by_rule(lines: Sequence[Line], measure) -> dict[str, float]:
    """A measure of the test errors over all k and h, by rule."""
    return {
        rule: float(
            measure([line["test_error"] for line in where(lines, voting=rule, private=True)])
        )
        for rule in RULES
    }


def _validated_errors(
    lines: Sequence[Line], private: bool = True, most: float = math.inf
) -> dict[str, float]:
    """The test error of the forest that validation chooses, by rule, of at most so many trees."""
    errors = {}
    for rule in RULES:
        candidates = [
            line for line in where(lines, voting=rule, private=private) if line["trees"] <= most
        ]
        errors[rule] = min(candidates, key=lambda line: line["validation_error"])["test_error"]
    return errors


def _is_threshold_best(lines: Sequence[Line]) -> list[bool]:
    """For each eta and height, whether threshold averaging alone has the least chosen error."""
    cells = dict.fromkeys((line["eta"], line["height"]) for line in lines if line["private"])
    wins = []
    for eta, height in cells:
        errors = _validated_errors(where(lines, eta=eta, height=height))
        wins.append(errors.pop(RULES[1]) < min(errors.values()))
    return wins
