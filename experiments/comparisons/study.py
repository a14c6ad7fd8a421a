"""Data sets as all methods read them: rows, and splits into training and test rows."""

import dataclasses
from functools import cached_property
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from dpbt.data import tables
from dpbt.data.domains import Nominal, Numeric
from dpbt.types import Table
from experiments.common import data, peers
from experiments.common.data import fresh, people, targets

BINS = 64
"""Intervals of every number."""

FIRST = {"cod-rna": 59_535}
"""Data set -> how many of its first rows are used: the training file of Asadi et al. (2022)."""

OWN_TEST = ("adult",)
"""Data sets whose own test rows are used. Their splits differ in keys and splits alone."""


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
    """A data set, its splits into training and test rows, and the public bound on training rows.

    Attributes:
        data: its rows; of two classes, or with the public description of another target.
        tests: bool[K, N], the test rows of each split. All splits have as many.
        rows: the bound m that recipes get.
    """

    data: data.Dataset | targets.Targeted
    tests: np.ndarray
    rows: int

    @cached_property
    def target(self) -> np.ndarray:
        """bool[N] of two classes, i64[N] the places of several, or f64[N] numbers."""
        if isinstance(self.data, targets.Targeted):
            return self.data.target
        return np.asarray(self.data.label, bool)

    @cached_property
    def peer_rows(self) -> peers.Rows:
        """The rows as other libraries read them."""
        target = self.target.astype(int) if self.target.dtype.kind == "b" else self.target
        return peers.rows_of_columns(self.data.domain, self.data.columns, target)

    @property
    def has_classes(self) -> bool:
        """Whether the target is classes, and no number."""
        return self.target.dtype.kind != "f"

    @cached_property
    def _padded_table(self) -> Table:
        if not isinstance(self.data, data.Dataset):
            raise TypeError(f"{self.data.name} has a declared target")
        return tables.pad_rows_to_bucket(self.data.table)

    def training_table(self, split: int) -> Table:
        """The table of two classes, of the split's training rows; test rows are absent."""
        present = np.asarray(self._padded_table.present).copy()
        present[: len(self.target)] &= ~self.tests[split]
        return self._padded_table._replace(present=jnp.asarray(present))

    @property
    def target_kind(self) -> Nominal | Numeric:
        """The declared classes, or the declared range.

        Raises:
            TypeError: if no target was declared.
        """
        if not isinstance(self.data, targets.Targeted):
            raise TypeError(f"{self.data.name} has no declared target")
        return self.data.kind

    @property
    def objective(self) -> str | None:
        """The objective by which a number is learned; None for the default."""
        return self.data.objective if isinstance(self.data, targets.Targeted) else None

    @property
    def num_classes(self) -> int:
        """How many classes are declared; 2 if no target is."""
        if self.target.dtype.kind == "b":
            return 2
        assert isinstance(self.target_kind, Nominal)
        return len(self.target_kind.values)

    @property
    def target_bounds(self) -> tuple[float, float]:
        """The declared range of the target."""
        assert isinstance(self.target_kind, Numeric)
        return float(self.target_kind.low), float(self.target_kind.high)


def draw_test_rows(target: np.ndarray, split: int) -> np.ndarray:
    """bool[N]: a quarter of the rows; of each class, if the target is classes.

    A class of fewer than four rows has no test row.

    Args:
        target: as `Study.target`.
        split: the seed.
    """
    rng, test = np.random.default_rng(split), np.zeros(len(target), bool)
    group = np.zeros(len(target), int) if target.dtype.kind == "f" else target
    for label in np.unique(group):
        rows = rng.permutation(np.flatnonzero(group == label))
        test[rows[: len(rows) // 4]] = True
    return test


def load_two_classes(
    name: str, *, splits: int, bound: float, folder: str | Path | None = None
) -> Study:
    """Load a data set of two classes and split it.

    Args:
        name: the data set's name.
        splits: K.
        bound: m as a multiple of the training rows.
        folder: the folder of the data sets; see `data.load`.
    """
    if name in people.NAMES:
        dataset = people.load(name, folder)
    elif name in fresh.NAMES:
        dataset = fresh.load(name, BINS)
    else:
        dataset = data.load(name, bins=BINS, folder=folder)
    if name in FIRST:
        dataset = dataset.where(np.arange(FIRST[name]))
    if name in OWN_TEST and dataset.test is not None:
        tests = np.stack([dataset.test] * splits)
    else:
        label = np.asarray(dataset.label)
        tests = np.stack([draw_test_rows(label, split) for split in range(splits)])
    return Study(dataset, tests, int(bound * np.sum(~tests[0])))


def load_declared_target(
    name: str, *, splits: int, bound: float, folder: str | Path | None = None
) -> Study:
    """Load a data set with a declared target and split it; arguments as of `load_two_classes`."""
    if name in people.NUMBERS:
        loaded = people.load_number(name, folder)
    else:
        loaded = targets.load_target(name, BINS, folder)
    tests = np.stack([draw_test_rows(loaded.target, split) for split in range(splits)])
    return Study(loaded, tests, int(bound * np.sum(~tests[0])))
