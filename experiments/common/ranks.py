"""Ranks of methods over data sets, from lines of results."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from experiments.common.results import Line


class Standing(NamedTuple):
    """How a method does at one budget.

    Attributes:
        rank: its mean rank over data sets; 1 is best, and ties share their mean.
        wins: on how many data sets it is best; ties count for all.
    """

    rank: float
    wins: int


class Standings(NamedTuple):
    """The methods that were measured at one budget on all data sets.

    Attributes:
        by_method: method -> its standing.
        datasets: how many data sets there are.
    """

    by_method: dict[str, Standing]
    datasets: int


def lines_that_hold(lines: Sequence[Line], delta: float) -> list[Line]:
    """The private lines that hold at a delta: its lines, and those of methods that are pure alone.

    A pure guarantee is one at every delta.

    Args:
        lines: with columns method, epsilon and delta.
        delta: the delta of the guarantee.
    """
    pure = methods_that_are_pure(lines)
    return [
        line
        for line in lines
        if line["epsilon"] is not None and line["delta"] == (0 if line["method"] in pure else delta)
    ]


def methods_that_are_pure(lines: Sequence[Line]) -> set[str]:
    """Methods that were measured at delta = 0 and at no other."""
    private = [line for line in lines if line["epsilon"] is not None]
    approximate = {line["method"] for line in private if line["delta"] > 0}
    return {line["method"] for line in private} - approximate


def lines_at_every_epsilon(lines: Sequence[Line]) -> list[Line]:
    """The private lines of methods that were measured at all epsilons that occur.

    Others would shift the ranks of all where they take part, so columns could not be compared.
    """
    private = [line for line in lines if line["epsilon"] is not None]
    measured = {(line["method"], line["epsilon"]) for line in private}
    epsilons = {epsilon for _, epsilon in measured}
    return [line for line in private if all((line["method"], e) in measured for e in epsilons)]


def critical_difference(methods: int, datasets: int, level: float = 0.05) -> float:
    """How far apart two mean ranks must be to differ at the level, by the test of Nemenyi (1963).

    Args:
        methods: how many are ranked.
        datasets: over how many data sets.
        level: the level of the test, over all pairs of methods.
    """
    quantile = stats.studentized_range.ppf(1 - level, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * datasets)))


def mean_ranks(lines: Sequence[Line], *, epsilon: float, delta: float, measure: str) -> Standings:
    """Rank private methods at a budget by a measure of which more is better.

    A method that lacks a data set is left out. `lines_that_hold` says which lines count.

    Args:
        lines: with columns dataset, method, epsilon, delta, and the measure.
        epsilon: the budget.
        delta: the budget.
        measure: the column.
    """
    pure = methods_that_are_pure(lines)
    values = {
        (line["method"], line["dataset"]): line[measure]
        for line in lines_that_hold(lines, delta)
        if line["epsilon"] == epsilon
    }
    datasets = sorted({name for method, name in values if method not in pure})
    methods = [
        method
        for method in dict.fromkeys(method for method, _ in values)
        if all((method, name) in values for name in datasets)
    ]

    ranks: dict[str, list[float]] = {method: [] for method in methods}
    wins = dict.fromkeys(methods, 0)
    for name in datasets:
        scores = {method: values[method, name] for method in methods}
        for method, score in scores.items():
            num_better = sum(other > score for other in scores.values())
            num_equal = sum(other == score for other in scores.values())
            ranks[method].append(num_better + (num_equal + 1) / 2)
            wins[method] += num_better == 0
    if not datasets:
        return Standings({}, 0)
    standings = {
        method: Standing(statistics.fmean(ranks[method]), wins[method]) for method in methods
    }
    return Standings(standings, len(datasets))
