"""A data set in memory: raw columns, labels, and the public domain that turns them into splits."""

import dataclasses
from collections.abc import Mapping
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import Table
from dpbt.data.domains import Domain, encode, questions
from dpbt.data.questions import splits_of


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A named data set with its public domain.

    Attributes:
        name: for titles.
        domain: the public domain; its columns are the features.
        columns: the raw cells of every column of the domain, [N] each. They are float64 with NaN
            for a missing number, bool, or text. Those of a person's own file are text or None.
        label: bool[N].
        test: bool[N], the rows of the canonical test file, or None if there is no such file.
        lines: the number of rows of the file, with those that have no class; None if all have one.
    """

    name: str
    domain: Domain
    columns: Mapping[str, np.ndarray]
    label: np.ndarray
    test: np.ndarray | None = None
    lines: int | None = None

    @cached_property
    def table(self) -> Table:
        """All rows, present, with the test rows (`experiments.common.protocols` makes masks)."""
        cells = jnp.asarray(encode(self.domain, self.columns))
        everyone = jnp.ones(len(self.label), bool)
        asked = jax.tree.map(jnp.asarray, questions(self.domain))
        return Table(cells, jnp.asarray(self.label), everyone, asked)

    @property
    def splits(self) -> np.ndarray:
        """bool[N, S]: whether a row satisfies a public split."""
        return np.asarray(splits_of(self.table))

    def where(self, rows: np.ndarray) -> "Dataset":
        """The data set with only some rows; `rows` is bool[N], such as `~dataset.test`, or i[M]."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        test = None if self.test is None else self.test[rows]
        return dataclasses.replace(self, columns=columns, label=self.label[rows], test=test)
