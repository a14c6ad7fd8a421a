"""Data sets as all methods read them: rows, and splits into training and test rows."""

import dataclasses
from functools import cached_property
from pathlib import Path

import numpy as np

from dpbt.data.domains import Nominal, Numeric
from experiments.common import peers
from experiments.common.data import targets
from experiments.tasks.settings import BINS


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
    """A data set, its splits into training and test rows, and the public bound on training rows.

    Attributes:
        data: its rows and the public description of its target.
        tests: bool[K, N], the test rows of each split. All splits have as many.
        rows: the bound m that recipes get.
    """

    data: targets.Targeted
    tests: np.ndarray
    rows: int

    @cached_property
    def numbers(self) -> peers.Rows:
        """The rows as other libraries read them."""
        return peers.rows_by(self.data.domain, self.data.columns, self.data.target)

    @property
    def classes(self) -> int:
        """How many classes are declared.

        Raises:
            TypeError: if the target is a number.
        """
        if not isinstance(self.data.kind, Nominal):
            raise TypeError(f"{self.data.name} has no classes")
        return len(self.data.kind.names)

    @property
    def bounds(self) -> tuple[float, float]:
        """The declared range of the target.

        Raises:
            TypeError: if the target is a class.
        """
        if not isinstance(self.data.kind, Numeric):
            raise TypeError(f"{self.data.name} has no range")
        return float(self.data.kind.low), float(self.data.kind.high)


def test_rows(target: np.ndarray, split: int) -> np.ndarray:
    """bool[N]: a quarter of the rows; of each class, if the target is classes.

    A class of fewer than four rows has no test row.

    Args:
        target: i64[N], classes, or f64[N], numbers.
        split: the seed.
    """
    rng, test = np.random.default_rng(split), np.zeros(len(target), bool)
    group = target if target.dtype.kind == "i" else np.zeros(len(target), int)
    for label in np.unique(group):
        rows = rng.permutation(np.flatnonzero(group == label))
        test[rows[: len(rows) // 4]] = True
    return test


def study_of(name: str, splits: int, bound: float, folder: str | Path | None = None) -> Study:
    """Load a data set and split it.

    Args:
        name: the data set's name.
        splits: K.
        bound: m as a multiple of the training rows.
        folder: of the data sets; see `registry.load`.
    """
    data = targets.load_target(name, BINS, folder)
    tests = np.stack([test_rows(data.target, split) for split in range(splits)])
    return Study(data, tests, int(bound * np.sum(~tests[0])))
