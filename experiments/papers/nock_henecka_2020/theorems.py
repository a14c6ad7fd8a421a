"""Theorems 3, 10, 12 and 13, Lemmas 4 and 5, and Corollary 7, on small tables.

A line has the value of a claim and the number that the paper sets beside it. Where a claim fails,
one line has a table on which it does, and another one what the proof covers.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np

from dpbt import losses
from dpbt.losses import ProperLoss
from experiments.common.results import Line

ROWS = (2, 10, 100)
"""The values of m of the sensitivities."""

ALPHAS = (0.0, 0.1, 0.5, 1.0)
BAYES_RISKS = {
    "Matsushita": (losses.matsushita, lambda m: 2 * math.sqrt(m)),
    "log": (losses.log, lambda m: (1 + math.log(m + 1)) / math.log(2)),
    "Gini": (losses.square, lambda m: 4 * m / (m + 1)),
    "0/1": (losses.zero_one, lambda m: 2.0),
}
"""Bayes risk -> its loss, and what Lemma 5 has for m rows."""

DRAWS, ROUNDS = 200, 100


def claim_lines() -> list[Line]:
    """All claims, in the order of the paper."""
    lines: list[Line] = []
    for name, (loss, star) in BAYES_RISKS.items():

        def theorem_3(m: int, loss: ProperLoss = loss) -> float:
            return max(3.0, 1 + float(loss.perspective(1.0, float(m))))

        def lemma_5(m: int, star: Callable = star) -> float:
            return max(3.0, 1 + star(m))

        for claim, bound in (("Theorem 3", theorem_3), ("Lemma 5", lemma_5)):
            lines.append(_claim_line(f"{claim}, {name}", _largest_share_of_bound(loss, bound), 1))
    for alpha in ALPHAS:
        share = _largest_share_of_bound(
            losses.m_alpha(alpha), lambda m, alpha=alpha: 3 + 2 * alpha * (math.sqrt(m) - 1)
        )
        lines.append(_claim_line(f"Corollary 7, alpha = {alpha:g}", share, 1))
    lines += [
        _claim_line(f"Lemma 4, {name}", *values) for name, values in _lemma_4_values(10).items()
    ]
    rng = np.random.default_rng(0)
    lines.append(
        _claim_line("Theorem 10, all leaves are split", _ratio_where_all_leaves_split(rng), 1)
    )
    lines.append(_claim_line("Theorem 10, a leaf is left", _ratio_where_a_leaf_is_left(), 1))
    lines.append(_claim_line("Theorem 12, weights of (13)", _excess_by_equation_13(), 0))
    lines.append(_claim_line("Theorem 12, weights of the sum", _excess_by_sums(rng), 0))
    lines += [
        _claim_line(f"Theorem 13, {name}", values, 1 - XI)
        for name, values in _selection_probabilities().items()
    ]
    return lines


def _claim_line(name: str, value: float, formula: float) -> Line:
    return {"name": name, "value": float(value), "formula": float(formula)}


def _largest_share_of_bound(loss: ProperLoss, bound: Callable[[int], float]) -> float:
    """The largest change of a leaf's score over its bound; m is in ROWS."""
    return max(_largest_score_change(loss, m) / bound(m) for m in ROWS)


def _largest_score_change(loss: ProperLoss, m: int) -> float:
    """By how much a leaf's score moves if one of m rows is replaced, at most.

    The weights of the other rows of each class, and of both rows, are multiples of 1/2. A row of
    weight 0 is in another leaf.
    """
    halves = np.arange(2 * (m - 1) + 1) / 2
    others = np.stack(np.meshgrid(halves, halves), -1).reshape(-1, 2)
    others = others[others.sum(1) <= m - 1]
    rows = np.array([(0, 0), (0.5, 0), (1, 0), (0, 0.5), (0, 1)])
    score = np.stack([np.asarray(loss.perspective(*(others + row).T)) for row in rows])
    return float(np.max(score.max(0) - score.min(0)))


def _lemma_4_values(m: int) -> dict[str, tuple[float, float]]:
    """Bayes risk -> (the perspective's derivative times (m + 1)^2, the least -L'').

    The least is over shares up to 1 / (m + 1), where the lemma has the former.
    The perspectives at (1, v) are 2 (v - 1)^(1/2), v times the entropy of 1 / v, and 4 (1 - 1 / v).
    """
    v = m + 1
    derivatives = 1 / math.sqrt(m), math.log2(v / m), 4 / v**2
    curvatures = v**3 / (2 * m**1.5), v**2 / (m * math.log(2)), 8.0
    both = zip(("Matsushita", "log", "Gini"), derivatives, curvatures, strict=True)
    return {name: (v**2 * slope, curvature) for name, slope, curvature in both}


def _ratio_where_all_leaves_split(rng: np.random.Generator) -> float:
    """Theorem 10's error over its bound, at most, where leaves are split level by level.

    Splits have random shares of the rows, and edges of gamma to 0.9. Alpha is 0.1, 1, or (16).
    """
    max_ratio = 0.0
    for way, gamma in itertools.product((0.1, 1.0, "objective"), (0.2, 0.5, 0.9)):
        leaves, total = [(1.0, rng.uniform(0.2, 0.8))], 0.0
        start = now = _error(leaves)
        for _ in range(2**9 - 1):
            weight, q = leaves.pop(0)
            edge = rng.uniform(gamma, max(gamma, 0.9))
            right = rng.uniform(edge * q, 1 - edge * (1 - q))
            gap = edge * q * (1 - q) / (right * (1 - right))
            leaves += [(weight * (1 - right), q - right * gap)]
            leaves += [(weight * right, q + (1 - right) * gap)]
            total += weight * (now / start if way == "objective" else way)
            now = _error(leaves)
            max_ratio = max(max_ratio, now * math.exp(gamma**2 / 16 * total))
    return max_ratio


def _error(leaves: list[tuple[float, float]]) -> float:
    """The error of leaves of a weight and a share of positives."""
    return sum(weight * min(q, 1 - q) for weight, q in leaves)


def _ratio_where_a_leaf_is_left() -> float:
    """The same where one leaf cannot be split, and all splits of the tree have an edge of 0.9.

    Half of the weight is in a leaf of equal rows of both classes. The other half has a negative row
    of weight 1, and positive ones, each of which weighs a tenth of the one before. A split takes
    the heaviest away: nine tenths of the positives, and no negative.
    """
    positives, total, gamma = 10.0 ** -np.arange(1.0, 91), 0.0, 0.9
    negative, max_ratio = 1.0, 0.0
    total_weight = 2 * (negative + float(positives.sum()))
    for k in range(len(positives) - 1):
        total += (negative + positives[k:].sum()) / total_weight
        bound = math.exp(-(gamma**2) / 16 * total)
        error = 0.25 + min(negative, positives[k + 1 :].sum()) / total_weight
        max_ratio = max(max_ratio, error / bound)
    return max_ratio


def _excess_by_equation_13() -> float:
    """The error less what Theorem 12 promises, for weights by equation (13) at alpha = 0.1.

    A rule of size 1 is right on three of five rows.
    """
    loss, margin, alpha = losses.m_alpha(0.1), np.array([1, 1, 1, -1, -1]), 0.1
    weights, scores, total = np.full(5, 0.5), np.zeros(5), 0.0
    for _ in range(1800):
        total += weights.mean() ** 2
        step = alpha * (weights @ margin) / 5 * margin
        scores = scores + step
        weights = np.asarray(loss.inverse_link(-step + loss.link(weights)), float)
    promised = 1 - total * float(margin.mean()) ** 2 * alpha / 2
    return float(np.mean(scores <= 0)) - promised


def _excess_by_sums(rng: np.random.Generator) -> float:
    """The same with weights by the sum of all steps, at most over random tables and rounds.

    Each round takes the best of twelve rules on eight rows; gamma is the least edge so far.
    """
    max_excess = -1.0
    for alpha in (0.1, 0.5, 1.0):
        loss = losses.m_alpha(alpha)
        rules = rng.choice([-1.0, 1.0], (DRAWS, 12, 8))
        scores, total, gamma = np.zeros((DRAWS, 8)), np.zeros(DRAWS), np.ones(DRAWS)
        for _ in range(ROUNDS):
            weights = np.asarray(loss.inverse_link(-scores), float)
            edges = np.einsum("irm,im->ir", rules, weights) / 8
            best = np.abs(edges).argmax(1)
            edge = np.take_along_axis(edges, best[:, None], 1)
            mean = weights.mean(1)
            gamma = np.minimum(gamma, np.abs(edge[:, 0]) / np.maximum(mean, 1e-9))
            scores += alpha * edge * rules[np.arange(DRAWS), best]
            total += mean**2
            promised = np.maximum(1 - gamma**2 * alpha * total / 2, 0)
            max_excess = max(max_excess, float(np.max(np.mean(scores <= 0, axis=1) - promised)))
    return max_excess


XI = 0.1
"""The failure probability of Theorem 13 that is tried."""


def _selection_probabilities() -> dict[str, float]:
    """The probability that one selection takes a split that satisfies the assumption.

    There are as many splits that gain nothing. m is the smallest power of 2 at which (189) holds,
    with epsilon = 1, beta_tree = 1/2, T = 1, delta = 1/2, gamma = 1/2, and weights of 1/2. One
    split is that of a root with three tenths of positives. Half of them, and no negative, go to one
    side. The other is of a leaf at depth 1 of a tree whose other leaf is half positive. It has one
    positive row, which goes to one side with half of the negatives.
    """
    beta, gamma, delta, mean_weight = 0.5, 0.5, 0.5, 0.5
    constant = beta * mean_weight * (1 - delta**2) * gamma**2 / 256
    probabilities = {}
    for name, depth, efficiency in (("root", 0, 8 * 0.3**2), ("nearly pure leaf", 1, 1 / 8)):
        m = next(
            m
            for m in (2.0**k for k in itertools.count(4))
            if constant * efficiency * math.sqrt(m) / math.log(m) >= math.log(1 / XI)
        )
        weight = m * mean_weight
        if depth:
            half = weight / 2
            score, after = _matsushita(0.5, half), _matsushita(0.5, half / 2)
        else:
            score = _matsushita(0.3 * weight, 0.7 * weight)
            after = _matsushita(0.15 * weight, 0.7 * weight)
        exponent = beta / ((depth + 1) * 2**depth) / (2 * (1 + 2 * math.sqrt(m))) * (score - after)
        probabilities[name] = 1 / (1 + math.exp(-exponent))
    return probabilities


def _matsushita(positive: float, negative: float) -> float:
    """The perspective of Matsushita's loss, whose alpha is 1."""
    return 2 * math.sqrt(positive * negative)
