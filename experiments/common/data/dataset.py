"""A data set in memory: raw columns, labels, and the public domain that turns them into splits."""

import dataclasses
from collections.abc import Mapping
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import Table
from dpbt.data.domains import Boolean, Domain, encode, questions
from dpbt.data.questions import splits_of


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A named data set with its public domain.

    Attributes:
        name: for titles.
        domain: the public domain; its columns are the features.
        columns: the raw cells of every column of the domain, [N] each: float64 with NaN for a
            missing number, bool, text, or of a person's own file text and None.
        label: bool[N].
        test: bool[N], the rows of the canonical test file, or None where there is none.
        lines: the rows of the file, those without a class too; None where they are the same.
    """

    name: str
    domain: Domain
    columns: Mapping[str, np.ndarray]
    label: np.ndarray
    test: np.ndarray | None = None
    lines: int | None = None

    @cached_property
    def table(self) -> Table:
        """All rows, present, test rows included (`experiments.common.protocols` makes masks)."""
        cells = jnp.asarray(encode(self.domain, self.columns))
        everyone = jnp.ones(len(self.label), bool)
        asked = jax.tree.map(jnp.asarray, questions(self.domain))
        return Table(cells, jnp.asarray(self.label), everyone, asked)

    @property
    def splits(self) -> np.ndarray:
        """bool[N, S]: which row satisfies which public split."""
        return np.asarray(splits_of(self.table))

    def where(self, rows: np.ndarray) -> "Dataset":
        """The data set of some rows only, such as `~dataset.test`; rows is bool[N] or i[M]."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        test = None if self.test is None else self.test[rows]
        return dataclasses.replace(self, columns=columns, label=self.label[rows], test=test)


def from_splits(name: str, splits: np.ndarray, label: np.ndarray) -> Dataset:
    """A data set whose columns are its splits, such as a synthetic one.

    Args:
        name: for titles.
        splits: bool[N, S], label: bool[N].
        label: bool[N].
    """
    columns = {f"split {s}": column for s, column in enumerate(np.asarray(splits, bool).T)}
    return Dataset(name, dict.fromkeys(columns, Boolean()), columns, label)
