"""Data sets as all methods read them: rows, training and test sets, and scores of predictions."""

import dataclasses
from functools import cached_property
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from dpbt import shapes
from dpbt.base import Table
from experiments.common import data, peers
from experiments.common.protocols import auroc
from experiments.frontier.settings import BINS, FIRST, OWN_TEST

LEAST_PROBABILITY = 1e-6
"""Probabilities below it count as this in a log loss."""


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
    """A data set, its splits into training and test rows, and the public bound on training rows.

    Attributes:
        name: the data set's name.
        dataset: its rows.
        tests: bool[K, N], the test rows of each split. All splits have as many.
        rows: the bound m that recipes get.
    """

    name: str
    dataset: data.Dataset
    tests: np.ndarray
    rows: int

    @cached_property
    def target(self) -> np.ndarray:
        """bool[N]: the labels."""
        return np.asarray(self.dataset.label, bool)

    @cached_property
    def numbers(self) -> peers.Rows:
        """The rows as other libraries read them."""
        return peers.rows_of(self.dataset)

    @cached_property
    def _padded(self) -> Table:
        return shapes.padded(self.dataset.table)

    def taught(self, split: int) -> Table:
        """The table of the split's training rows, with its test rows absent, padded."""
        present = np.asarray(self._padded.present).copy()
        present[: len(self.target)] &= ~self.tests[split]
        return self._padded._replace(present=jnp.asarray(present))


def test_rows(target: np.ndarray, split: int) -> np.ndarray:
    """bool[N]: a stratified quarter of the rows."""
    rng, test = np.random.default_rng(split), np.zeros(len(target), bool)
    for label in (False, True):
        rows = rng.permutation(np.flatnonzero(target == label))
        test[rows[: len(rows) // 4]] = True
    return test


def study_of(name: str, splits: int, bound: float, folder: str | Path | None = None) -> Study:
    """Load a data set and split it.

    Args:
        name: the data set's name.
        splits: K.
        bound: m as a multiple of the training rows.
        folder: of the data sets; see `data.load`.
    """
    dataset = data.load(name, bins=BINS, folder=folder)
    if name in FIRST:
        dataset = dataset.where(np.arange(FIRST[name]))
    if name in OWN_TEST and dataset.test is not None:
        tests = np.stack([dataset.test] * splits)
    else:
        tests = np.stack([test_rows(np.asarray(dataset.label), split) for split in range(splits)])
    return Study(name, dataset, tests, int(bound * np.sum(~tests[0])))


def log_loss(probability: np.ndarray, target: np.ndarray) -> float:
    """The mean log loss in nats."""
    clipped = np.clip(probability, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return float(-np.mean(np.log(np.where(target, clipped, 1 - clipped))))


def scored(
    target: np.ndarray, score: np.ndarray, probability: np.ndarray | None
) -> dict[str, float | None]:
    """Accuracy, AUROC and log loss of predictions.

    Args:
        target: bool[M].
        score: f[M]; above 0 means the positive class.
        probability: f[M], of the positive class, or None where a method has none.
    """
    return {
        "accuracy": float(np.mean((score > 0) == target)),
        "auroc": float(auroc(jnp.asarray(score, jnp.float32), jnp.asarray(target))),
        "log_loss": None if probability is None else log_loss(probability, target),
    }
