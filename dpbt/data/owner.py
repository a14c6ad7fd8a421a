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
from dpbt.data.domains import Columns, Domain
from dpbt.public import CELLS

OWNER = "private, not covered by the ledger: how the declaration reads the rows"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OwnerReport:
    """Exact counts of private rows and cells; `str` shows them, and `repr` does not.

    Attributes:
        rows: how many rows were read.
        empty: how many of them have no value at all, as lines of another width than the header's.
        unread: for each column how many of its cells have no value (`domains.missing_cells`).
        constant: the columns whose values all lie in one cell, so that no split tells rows apart.
        label: the column of labels; a row without a declared label is absent.
    """

    rows: int
    empty: int
    unread: Mapping[str, int]
    constant: tuple[str, ...]
    label: str

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The columns that are unread in more than half of the rows, or constant."""
        mostly = [name for name, count in self.unread.items() if 2 * count > self.rows]
        return tuple(dict.fromkeys([*mostly, *self.constant]))

    def __str__(self) -> str:
        """The counts, a line for each column."""
        lines = [OWNER, f"{self.rows} rows, of which {self.empty} have no value at all"]
        for name, count in self.unread.items():
            what = "have no declared label, and are absent" if name == self.label else "are missing"
            alike = "; all that are read lie in one cell" if name in self.constant else ""
            lines.append(f"  {name}: {count} {what}{alike}")
        if self.empty:
            lines.append("a line that is not as wide as the header is a row without a value")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"OwnerReport(columns={list(self.unread)}, counts not shown)"


def report(columns: Domain, label: str, blocks: Iterable[Columns]) -> OwnerReport:
    """How a declaration reads rows.

    Args:
        columns: every declared column, those of the label and of weights among them.
        label: which of them has the labels.
        blocks: the rows, some at a time.

    Raises:
        ValueError: as `domains.encode`.
    """
    rows, empty = 0, 0
    unread = dict.fromkeys(columns, 0)
    seen = {name: np.zeros(CELLS, bool) for name in columns}
    for block in blocks:
        missing = domains.missing_masks(columns, block)
        read = domains.read_columns(columns, block)
        for name, kind in columns.items():
            unread[name] += int(missing[name].sum())
            seen[name][kinds.cells_of(kind, read[name])[~missing[name]]] = True
        rows += len(missing[label])
        empty += int(np.logical_and.reduce(list(missing.values())).sum())
    constant = tuple(name for name in columns if seen[name].sum() == 1)
    return OwnerReport(rows, empty, unread, constant, label)


def report_of_chunks(table: ChunkedTable, label: str) -> OwnerReport:
    """How a table in chunks was read, as far as its cells tell.

    Absent rows fill its capacity, so those without a label cannot be told from them. They count
    only where no row is present. A column of which nothing was read is constant.

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
    rows, absent = (present, 0) if present else (table.capacity, table.capacity)
    return OwnerReport(rows, absent, {**dict.fromkeys(names, 0), label: absent}, constant, label)
