"""Oblivious trees as plain loops over rows, levels and leaves, in float64, without JAX.

The splits of a tree are public and are given. All else follows from them and from the release.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from scipy import stats

GRID = 127
LN2 = math.log(2)


def leaf_of_row(feature, right, row):
    """The leaf of one row; the first split is the highest bit."""
    leaf = 0
    for split_feature, side in zip(feature, right, strict=True):
        leaf = 2 * leaf + int(side[row[split_feature]])
    return leaf


class GridWeights(NamedTuple):
    """Weights on a grid.

    Attributes:
        levels: the integer weight of each row.
        unit: the weight of one level.
    """

    levels: list[int]
    unit: float


def weights(scores, target, present, bound, clip):
    """The weights min(1 / (1 + 2^(y H)), clip) of all rows, in grid units."""
    cap = min(1 / (1 + 2.0**-bound), clip)
    integer_weights = []
    for score, label, is_present in zip(scores, target, present, strict=True):
        weight = min(1 / (1 + 2.0 ** (score if label else -score)), cap)
        integer_weights.append(min(max(round(weight / cap * GRID), 1), GRID) if is_present else 0)
    return GridWeights(integer_weights, cap / GRID)


def signed_sums(feature, right, bins, target, weight):
    sums = [0] * 2 ** len(feature)
    for row, label, w in zip(bins, target, weight, strict=True):
        sums[leaf_of_row(feature, right, row)] += w if label else -w
    return np.array(sums)


def histograms(counts, bins, target, present):
    """Counts by feature, bin and class, for features of so many bins."""
    class_counts = np.zeros((len(counts), max(counts), 2), int)
    for row, label, is_present in zip(bins, target, present, strict=True):
        for f in range(len(counts)):
            if is_present and row[f] < max(counts):
                class_counts[f, row[f], int(label)] += 1
    return class_counts


def class_totals(counts, histogram):
    """The classes' numbers of rows: medians over features of sums over the bins they have."""
    by_feature = [[sum(h[:k, y]) for y in (0, 1)] for k, h in zip(counts, histogram, strict=True)]
    return np.maximum(np.median(np.array(by_feature, float), axis=0), 10)


def log_odds(counts, histogram, scale, deviation):
    noise = deviation * math.sqrt(np.mean(counts) / len(counts)) * scale
    negative, positive = class_totals(counts, histogram) + 3 * noise
    return math.log2(positive / negative)


class EstimatedRows(NamedTuple):
    """What a noisy histogram says of the rows.

    Attributes:
        shares: the share of rows in each bin of each feature.
        num_rows: the number of rows.
    """

    shares: list[list[float]]
    num_rows: float


def bin_shares(counts, histogram, scale, deviation):
    """The estimated share of rows in each bin of each feature, and the estimated rows."""
    noise = deviation * math.sqrt(2) * scale
    shares = []
    for bins, class_counts in zip(counts, histogram, strict=True):
        above = [max(sum(class_counts[c]) - noise, 0) for c in range(bins)]
        total = sum(above)
        measured = [a / total if total else 1 / bins for a in above]
        shares.append([0.9 * m + 0.1 / bins for m in measured])
    return EstimatedRows(shares, sum(class_totals(counts, histogram)))


def leaf_shares(feature, right, mass):
    """For each leaf the product over features of the mass of the bins that give its answers."""
    depth = len(feature)
    shares = []
    for leaf in range(2**depth):
        answers = [leaf >> (depth - 1 - level) & 1 for level in range(depth)]
        share = 1.0
        for f in sorted(set(map(int, feature))):
            levels = [level for level in range(depth) if feature[level] == f]
            share *= sum(
                m
                for c, m in enumerate(mass[f])
                if all(right[level][c] == answers[level] for level in levels)
            )
        shares.append(share)
    return shares


def leaf_values(sums, unit, rows, setting):
    """clip(s G / max(sigma + m h / 3, 10), -v, v) in bits, where leaves near each other share.

    A leaf that differs in b answers counts with weight smoothing^b.
    """
    values = []
    for leaf in range(len(sums)):
        similarities = [
            setting["smoothing"] ** (leaf ^ other_leaf).bit_count()
            for other_leaf in range(len(sums))
        ]
        signal = sum(n * g for n, g in zip(similarities, sums, strict=True)) * unit
        noise = setting["deviation"] * setting["sum_scale"] * unit * math.hypot(*similarities)
        mass = sum(n * m for n, m in zip(similarities, rows, strict=True))
        steep = max(noise + mass * setting["curvature"] / 3, 10.0)
        nats = setting["step"] * signal / steep
        values.append(min(max(nats, -setting["limit"]), setting["limit"]) / LN2)
    return values


class ReplayedRun(NamedTuple):
    """What each draw of a recorded run read on a table, and what follows from the releases."""

    histogram: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    leaves: np.ndarray
    scores: np.ndarray


def replay(splits, release, table, setting):
    """A recorded run on a table.

    Args:
        splits: (feature, right) of each round.
        release: the recorded "histogram", "sums" and "scores".
        table: (bins, target, present).
        setting: counts (bins of each feature) and the numbers of the recipe.
    """
    bins, target, present = table
    counts, scale, deviation = (setting[k] for k in ("counts", "histogram_scale", "deviation"))
    start = log_odds(counts, release["histogram"], scale=scale, deviation=deviation)
    mass, rows = bin_shares(counts, release["histogram"], scale=scale, deviation=deviation)
    scores, bound = [start] * len(bins), abs(start)

    sums, leaves = [], []
    for (feature, right), noisy in zip(splits, release["sums"], strict=True):
        weight, unit = weights(scores, target, present, bound=bound, clip=setting["clip"])
        sums.append(signed_sums(feature, right, bins, target, weight))
        in_leaf = [rows * share for share in leaf_shares(feature, right, mass)]
        leaf = leaf_values(noisy, unit=unit, rows=in_leaf, setting=setting)
        leaves.append(leaf)
        scores = [
            score + leaf[leaf_of_row(feature, right, row)]
            for score, row in zip(scores, bins, strict=True)
        ]
        bound += max(map(abs, leaf))

    slope, intercept = score_line(release["scores"], deviation * setting["score_scale"], start)
    return ReplayedRun(
        histogram=histograms(counts, bins, target, present),
        sums=np.array(sums),
        counts=score_counts(scores, target, present),
        leaves=slope * np.array(leaves),
        scores=intercept + slope * (np.array(scores) - start),
    )


def log_gaussian(output, value, scale):
    """The log probability of outputs of rounded Gaussian noise, for a scale below 2^12."""
    distance = np.abs(np.asarray(output, float) - value)
    log_upper = stats.norm.logcdf((0.5 - distance) / scale)
    log_lower = stats.norm.logcdf((-0.5 - distance) / scale)
    return float(np.sum(log_upper + np.log1p(-np.exp(log_lower - log_upper))))


def log_laplace(output, value, scale):
    """The log probability of outputs of discrete Laplace noise."""
    distance = np.abs(np.asarray(output, float) - value)
    return float(np.sum(math.log(math.tanh(0.5 / scale)) - distance / scale))


EDGES = (-4, -2.5, -1.5, -0.75, 0, 0.75, 1.5, 2.5, 4)
MIDDLES = (-5, -3.2, -2, -1.1, -0.375, 0.375, 1.1, 2, 3.2, 5)


def score_counts(scores, target, present):
    """How many present rows of each class have scores (bits) in each interval (nats)."""
    class_counts = np.zeros((len(MIDDLES), 2), int)
    for score, label, is_present in zip(scores, target, present, strict=True):
        if is_present:
            class_counts[sum(score * LN2 >= edge for edge in EDGES), int(label)] += 1
    return class_counts


class ScoreLine(NamedTuple):
    """A line that maps scores to scores, both in bits."""

    slope: float
    intercept: float


def score_line(counts, deviation, start):
    """The mean over a grid of lines, each as likely as the counts say."""
    return _score_line(tuple(map(tuple, np.asarray(counts).tolist())), deviation, start)


@functools.cache  # all tables on which a run is replayed have the line of its release
def _score_line(counts, deviation, start):
    begin, lines = start * LN2, []
    for shift in np.linspace(-1.5, 1.5, 61):
        for log_slope in np.linspace(math.log(0.05), math.log(4), 45):
            misfit = ((log_slope - math.log(0.5)) / 0.7) ** 2 + (shift / 0.3) ** 2
            for (zeros, ones), middle in zip(counts, MIDDLES, strict=True):
                odds = begin + shift + math.exp(log_slope) * (middle - begin)
                p = 1 / (1 + math.exp(-odds))
                q = 1 - p
                rows = max((ones * p + zeros * q) / (p * p + q * q), 0)
                variance = deviation**2 * (p * p + q * q) + rows * p * q + 1
                misfit += (ones * q - zeros * p) ** 2 / variance
            lines.append((misfit / 2, log_slope, shift))
    cost, log_slopes, shifts = np.array(lines).T
    weight = np.exp(cost.min() - cost) / np.exp(cost.min() - cost).sum()
    return ScoreLine(math.exp(weight @ log_slopes), start + weight @ shifts / LN2)
