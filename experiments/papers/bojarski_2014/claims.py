"""The claims in words of Bojarski et al. (2014), each as one number."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.common.results import Line, where

MAJORITY, THRESHOLD, PROBABILISTIC = RULES = ("majority", "threshold", "probabilistic")

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
    wins = [_is_threshold_best(eta_lines) for eta_lines in by_eta.values()]
    if wins:
        name = "settings of Figure 2a where threshold averaging alone is best, percent"
        shares = 100 * np.asarray([np.mean(wins_of_set) for wins_of_set in wins])
        error = float(np.std(shares, ddof=1) / math.sqrt(len(wins))) if len(wins) > 1 else None
        lines.append(_claim_line(name, float(np.mean(shares)), sum(map(len, wins)), error))
    all_lines = [*itertools.chain(*series.values(), *by_eta.values())]
    informative = [line for line in all_lines if line["bound"] is not None]
    name = "settings where a theorem at the paper's constants says something, percent"
    return [*lines, _claim_line(name, 100 * len(informative) / len(all_lines), len(all_lines))]


def _claim_line(name: str, value: float, count: int, error: float | None = None) -> Line:
    return {"name": name, "value": value, "error": error, "count": count}


def _rule_claims(series: Mapping[str, Sequence[Line]], rows: Mapping[str, int]) -> list[Line]:
    """How the rules of voting compare over the private grid."""
    count = len(series)
    claims = []
    for words, measure in (("varies least over k and h", np.std), ("has the least mean", np.mean)):
        values = [_measure_by_rule(lines, measure) for lines in series.values()]
        first = sum(min(by_rule, key=by_rule.__getitem__) == MAJORITY for by_rule in values)
        claims.append(
            _claim_line(f"data sets where majority {words}, percent", 100 * first / count, count)
        )
    errors = {name: _validated_errors(lines) for name, lines in series.items()}
    pairs = [
        ErrorPair(by_rule[MAJORITY], by_rule[THRESHOLD], rows[name])
        for name, by_rule in errors.items()
    ]
    claims.append(_gap_line("majority above threshold averaging, points", pairs))
    pairs = [
        ErrorPair(by_rule[PROBABILISTIC], by_rule[THRESHOLD], rows[name])
        for name, by_rule in errors.items()
    ]
    claims.append(_gap_line("probabilistic above threshold averaging, points", pairs))
    pairs = [
        ErrorPair(by_rule[PROBABILISTIC], max(by_rule[MAJORITY], by_rule[THRESHOLD]), rows[name])
        for name, by_rule in errors.items()
    ]
    share_last = float(np.mean([pair.error >= pair.base for pair in pairs]))
    name = "data sets where probabilistic averaging is last, percent"
    claims.append(_claim_line(name, 100 * share_last, count))
    share_clear = float(np.mean([_is_significantly_above(pair) for pair in pairs]))
    name = "data sets where probabilistic averaging is significantly last, percent"
    return [*claims, _claim_line(name, 100 * share_clear, count)]


class ErrorPair(NamedTuple):
    """Two test errors on the same rows.

    Attributes:
        error: one of them.
        base: the one that it is compared with.
        rows: on how many rows they were measured.
    """

    error: float
    base: float
    rows: int

    @property
    def squared_error_of_gap(self) -> float:
        """The square of the standard error of the difference, as of independent rows."""
        variances = self.error * (1 - self.error) + self.base * (1 - self.base)
        return variances / self.rows


def _is_significantly_above(pair: ErrorPair) -> bool:
    """Whether the error is above the other by more than twice the standard error."""
    return pair.error - pair.base > 2 * math.sqrt(pair.squared_error_of_gap)


def _few_trees_claims(series: Mapping[str, Sequence[Line]], rows: Mapping[str, int]) -> list[Line]:
    """What forests of few trees lose against all forests of the grid, and what one tree does."""
    claims = []
    max_trees_by_words = {
        "log2 n trees": {name: math.log2(count) for name, count in rows.items()},
        f"{FEW_TREES} trees": dict.fromkeys(rows, FEW_TREES),
    }
    for words, max_trees in max_trees_by_words.items():
        for private in (False, True):
            pairs = []
            for name, lines in series.items():
                few = _validated_errors(lines, private=private, max_trees=max_trees[name])
                all_sizes = _validated_errors(lines, private=private)
                pairs += [
                    ErrorPair(few[rule], all_sizes[rule], rows[name])
                    for rule in (MAJORITY, THRESHOLD)
                ]
            noise = "with" if private else "without"
            claims.append(_gap_line(f"at most {words} above all, {noise} privacy, points", pairs))
    pairs = [
        ErrorPair(
            _validated_errors(lines, private=private, max_trees=1)[rule],
            _validated_errors(lines, private=private)[rule],
            rows[name],
        )
        for name, lines in series.items()
        for private in (False, True)
        for rule in (MAJORITY, THRESHOLD)
    ]
    return [*claims, _gap_line("at most 1 tree above all, with and without privacy, points", pairs)]


def _gap_line(name: str, pairs: Sequence[ErrorPair]) -> Line:
    """The mean of differences of test errors in points; its error is as of independent rows."""
    gaps = [pair.error - pair.base for pair in pairs]
    error = math.sqrt(sum(pair.squared_error_of_gap for pair in pairs)) / len(pairs)
    return _claim_line(name, 100 * float(np.mean(gaps)), len(pairs), 100 * error)


def _measure_by_rule(
    lines: Sequence[Line], measure: Callable[[Sequence[float]], Any]
) -> dict[str, float]:
    """A measure of the test errors over all k and h, by rule."""
    return {
        rule: float(
            measure([line["test_error"] for line in where(lines, voting=rule, private=True)])
        )
        for rule in RULES
    }


def _validated_errors(
    lines: Sequence[Line], *, private: bool = True, max_trees: float = math.inf
) -> dict[str, float]:
    """The test error of the forest that validation chooses, by rule, of at most so many trees."""
    errors = {}
    for rule in RULES:
        candidates = [
            line
            for line in where(lines, voting=rule, private=private)
            if line["trees"] <= max_trees
        ]
        errors[rule] = min(candidates, key=lambda line: line["validation_error"])["test_error"]
    return errors


def _is_threshold_best(lines: Sequence[Line]) -> list[bool]:
    """For each eta and height, whether threshold averaging alone has the least chosen error."""
    cells = dict.fromkeys((line["eta"], line["height"]) for line in lines if line["private"])
    wins = []
    for eta, height in cells:
        errors = _validated_errors(where(lines, eta=eta, height=height))
        wins.append(errors.pop(THRESHOLD) < min(errors.values()))
    return wins
