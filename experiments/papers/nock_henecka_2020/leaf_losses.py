"""What the noise of a leaf costs when one row changes, in units of the leaf's budget.

A leaf's value is the link of its share of class 1, clamped to [-M, M]. Noise of scale s / epsilon
costs |value - value'| / s times epsilon, where value' is that of the neighbour. It is the exact
loss of the release, also of one that is clamped again to [-M, M]: if value = M and value' = -M,
then the released M has probability 1/2 and exp(-2 M epsilon / s) / 2.

A leaf of one row moves from M to -M where the row's label is flipped. So a scale of 2 M / m costs m
times what it claims, and so does one of 1 / m on the share. The splits are held fixed here.
"""

from collections.abc import Iterator

import numpy as np

from dpbt import losses
from dpbt.data.splits import satisfied_splits
from experiments.common import data
from experiments.common.results import Line
from experiments.papers.nock_henecka_2020.options import PAPER_CLIP, Reading, leaf_noise_scale
from experiments.papers.nock_henecka_2020.simulation import (
    MAX_DEPTH,
    Simulation,
    settings_of_reading,
)

SCALES = ("2M", "2M/m", "1/m on q")
CHANGES = {"removed": (-1, 0), "flipped": (-1, 1)}
"""Kind of neighbour -> what it does to the numbers of rows of the row's class and of the other."""

ZETA = 1e-4
_EXACT = Reading(option="second", noisy_splits=False, noisy_leaves=False)


def leaf_loss(
    reading: Reading, before: tuple[float, float], after: tuple[float, float], *, rows: int
) -> float:
    """The exact loss of a leaf between two pairs of class weights, in units of its budget.

    Args:
        reading: the scale of the noise, and what has it.
        before: the weights of classes 1 and 0 in the leaf. Not both are 0.
        after: the same of a neighbour.
        rows: m.
    """
    moved = abs(_value_with_noise(reading, *before) - _value_with_noise(reading, *after))
    return moved / float(leaf_noise_scale(reading, rows, PAPER_CLIP))


def _value_with_noise(reading: Reading, positive: float, negative: float) -> float:
    """The number that the noise is added to: the share of class 1, or its clamped link."""
    share = positive / (positive + negative)
    if reading.is_noise_on_shares:
        return share
    link = float(losses.matsushita.link(np.clip(share, ZETA, 1 - ZETA)))
    return float(np.clip(link, -PAPER_CLIP, PAPER_CLIP))


def leaf_loss_lines(dataset: data.Dataset) -> Iterator[Line]:
    """One line for each depth: the largest losses of the leaves of one tree, over its rows.

    The tree is the first one of a fit with the best splits. Its weights are all equal.
    """
    right, label = satisfied_splits(dataset.table), np.asarray(dataset.label)
    simulation, rows = Simulation.of_dataset(dataset), len(label)
    for depth in range(1, MAX_DEPTH + 1):
        fit = settings_of_reading(_EXACT, [(1.0, 1.0, 0.5, 1, depth)], rows)[0]
        splits = simulation.boost_once(fit, np.ones(rows, bool), seed=0).splits[0]
        leaf = np.zeros(rows, np.int64)
        for _ in range(depth):
            leaf = 2 * leaf + 1 + np.asarray(right)[np.arange(rows), splits[leaf]]
        leaf -= 2**depth - 1
        counts = np.stack(
            [np.bincount(leaf[label == value], minlength=2**depth) for value in (1, 0)], axis=1
        )
        line: Line = {"kind": "loss", "depth": depth}
        in_leaf = counts.sum(axis=1)
        line["fewest_rows"] = int(in_leaf[in_leaf > 0].min())
        for scale in SCALES:
            reading = Reading(option="second", leaf_scale=scale)
            for change, moves in CHANGES.items():
                found = [
                    leaf_loss(reading, before, after, rows=rows)
                    for before, after in _changes_of_leaves(counts, moves)
                ]
                line[f"{change}, {scale}"] = max(found)
        yield line


def _changes_of_leaves(
    counts: np.ndarray, moves: tuple[int, int]
) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """The class weights of leaves before and after a change of one of their rows."""
    for positive, negative in counts.tolist():
        for is_positive in (True, False):
            own, other = (positive, negative) if is_positive else (negative, positive)
            after = own + moves[0], other + moves[1]
            if own and sum(after):
                changed = after if is_positive else after[::-1]
                yield (positive, negative), changed
