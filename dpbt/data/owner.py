"""What the owner of private rows may know of how a declaration reads them, and nobody else.

A report costs nothing because it is no release. It holds exact counts, so it is for the eyes of the
owner alone. To stop, or to change a declaration, after reading one is outside every guarantee.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dpbt.data import domains, kinds
from dpbt.data.chunks import ChunkedTable
from dpbt.data.domains import Columns, Domain, Label
from dpbt.public import CELLS

OWNER = "private, not covered by the ledger: how the declaration reads the rows"

_MOST_UNREAD, _MOST_UNLABELLED = 0.5, 0.05
"""The largest shares of rows without a value in a column, and without a label, that are usual."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OwnerReport:
    """Exact counts of private rows and cells; `str` shows them, and `repr` does not.

    Attributes:
        rows: how many rows were read.
        unread: for each column how many of its cells have no value. In a numeric column that is no
            number, and in a Boolean one neither word. In a nominal one it is no word, or one that
            is not listed if there is no `other`. Chunks do not tell, and have no counts.
        constant: the columns whose values all lie in one cell, so that no split tells rows apart.
        label: the column of labels; a row without a declared label is absent.
    """

    rows: int
    unread: Mapping[str, int]
    constant: tuple[str, ...]
    label: str

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The columns that may be declared wrongly.

        They are constant, or have no value in more than half of the rows; the label in more than a
        twentieth. Without any row the label is.
        """
        found = [*self.constant]
        for name, count in self.unread.items():
            most = _MOST_UNLABELLED if name == self.label else _MOST_UNREAD
            if count > most * self.rows:
                found.append(name)
        return tuple(dict.fromkeys(found)) if self.rows else (self.label,)

    def __str__(self) -> str:
        """The counts, a line for each column, and the verdict."""
        lines = [OWNER, f"{self.rows} rows"]
        for name, count in self.unread.items():
            what = "have no declared label, and are absent" if name == self.label else "are missing"
            lines.append(f"  {name}: {count} {what}")
        lines += [f"  {name}: all that are read lie in one cell" for name in self.constant]
        if not self.doubtful:
            return "\n".join([*lines, "nothing is doubtful"])
        lines.append(f"doubtful: {', '.join(self.doubtful)}; the domain may not fit the rows")
        if self.unread and min(self.unread.values()) > _MOST_UNREAD * self.rows:
            lines.append("a line that is not as wide as the header is a row without any value")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"OwnerReport(label={self.label!r}, counts not shown)"


def report(domain: Domain, label: Label, blocks: Iterable[Columns]) -> OwnerReport:
    """How a declaration reads rows.

    Args:
        domain: the public domain.
        label: the label's column, and that of weights.
        blocks: the rows, some at a time, with the columns of the domain and of the label.

    Raises:
        ValueError: as `domains.encode`.
    """
    rows, columns = 0, {**domain, **label.kinds}
    unread = dict.fromkeys(columns, 0)
    seen = {name: np.zeros(CELLS, bool) for name in columns}
    for block in blocks:
        given = domains.read_columns(columns, block)
        for name, kind in columns.items():
            cells, missing = kinds.read(kind, given[name])
            unread[name] += int(missing.sum())
            seen[name][cells[~missing]] = True
        rows += len(given[label.column])
    constant = tuple(name for name in columns if seen[name].sum() == 1)
    return OwnerReport(rows, unread, constant, label.column)


def report_of_chunks(table: ChunkedTable, label: str) -> OwnerReport:
    """How a table in chunks was read, as far as its cells tell: present rows, and constant columns.

    A column of which nothing was read is constant. Absent rows fill the capacity, so those without
    a label cannot be told from them; they do not count.

    Raises:
        ValueError: for a damaged chunk.
        OSError: if a chunk cannot be read.
    """
    seen = np.zeros((table.features, CELLS), bool)
    labels: set[Any] = set()
    present = 0
    for block in table.blocks(2**16):
        here = block.present
        present += int(here.sum())
        labels |= set(np.unique(block.target[here]).tolist())
        for feature, cells in enumerate(block.cells):
            seen[feature][cells[here]] = True
    names = [*table.domain, label]
    alike = [*(seen.sum(axis=1) == 1), len(labels) == 1]
    constant = tuple(name for name, one in zip(names, alike, strict=True) if one)
    return OwnerReport(present, {}, constant, label)
