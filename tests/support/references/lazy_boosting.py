"""LazyBB as plain loops in float64, written from the paper and not from dpbt.

The caller chooses the rule of each round.
"""

import math
from typing import NamedTuple

import numpy as np

GRID = 127
STEPS = 2**12


def capped_scaling(weight, total, cap=1.0):
    """The measure min(cap, c w) with sum `total`, exactly, by sorting.

    All entries are the cap if even that is not enough.
    """
    if len(weight) * cap <= total:
        return np.full(len(weight), cap)
    order = np.argsort(-weight)
    tail = np.cumsum(weight[order][::-1])[::-1]
    for capped in range(len(weight)):
        c = (total - capped * cap) / tail[capped]
        if c * weight[order[capped]] <= cap:
            return np.minimum(cap, c * weight)
    raise AssertionError("no factor")


def divergence(mu, weight):
    """KL of two measures, Bun et al. (2020), Definition 4."""
    return float(
        np.sum(np.where(mu > 0, mu * np.log(np.maximum(mu, 1e-300) / weight), 0) + weight - mu)
    )


def grid_levels(weight, total):
    """Integers 0..GRID: the first `total` unit steps in order of the factor, and then of the row.

    Factors are rounded up to relative steps of 2**-12. Row j takes its l-th unit where the factor c
    reaches (l - 1/2) / w_j.
    """
    rows = np.repeat(np.arange(len(weight)), GRID)
    needed = (np.tile(np.arange(GRID), len(weight)) + 0.5) / weight[rows]
    exponent = np.floor(np.log2(needed))
    code = exponent * STEPS + np.ceil((needed / 2.0**exponent - 1) * STEPS)
    level = np.lexsort((rows, code))[: int(total)]
    return np.bincount(rows[level], minlength=len(weight))


class ChosenRules(NamedTuple):
    """The index of the rule of each round, and the margin of each row after all rounds."""

    best_rules: list[int]
    margins: np.ndarray


def lazybb(splits, label, present, *, rounds, density, rate, rows, bounded, choose):
    """Rounds of 1-rules; `choose(t, errors)` picks one of the 2 S + 2 by errors in levels."""
    y = np.where(label, 1, -1)
    margins = np.zeros(len(y))
    best_rules = []
    for t in range(rounds):
        cap = min(1.0, density * math.exp(2 * rate * t)) if bounded else 1.0
        levels = np.zeros(len(y), int)
        levels[present] = grid_levels(
            np.exp(-rate * margins[present]), round(rows * density / cap * GRID)
        )
        rules = [np.ones(len(y), int), -np.ones(len(y), int)]
        for s in range(splits.shape[1]):
            literal = np.where(splits[:, s], 1, -1)
            rules += [literal, -literal]
        errors = np.array([levels[h != y].sum() for h in rules])
        best = choose(t, errors)
        margins += y * rules[best]
        best_rules.append(best)
    return ChosenRules(best_rules, margins)
