"""What the owner of private rows may know of how a declaration reads them, and nobody else.

A report costs nothing because it is no release. It holds exact counts, so it is for the eyes of the
owner alone. To stop, or to change a declaration, after reading one is outside every guarantee.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpbt.data import domains
from dpbt.data.blocks import BlockTable, Rows
from dpbt.data.cells import RawColumn
from dpbt.data.domains import Columns, Domain, Label
from dpbt.data.targets import Labels
from dpbt.public import CELLS, without_values

OWNER = "private, not covered by the ledger: how the declaration reads the rows"

_MAX_UNREAD, _MAX_UNLABELLED = 0.5, 0.05
"""The largest shares of rows without a value in a column, and without a label, that are usual."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OwnerReport:
    """Exact counts of private rows and cells; `str` shows them, and `repr` does not.

    Attributes:
        rows: how many rows were read.
        unread: for each column how many of its cells have no value. In a numeric column that is no
            number, and in a Boolean one neither word. In a nominal one it is no word, or one that
            is not listed if there is no `other`. A weight has none if it is 0.
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
            most = _MAX_UNLABELLED if name == self.label else _MAX_UNREAD
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
        if self.unread and min(self.unread.values()) > _MAX_UNREAD * self.rows:
            lines.append("a line that is not as wide as the header is a row without any value")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"OwnerReport(label={self.label!r}, counts not shown)"


class RawRows(NamedTuple):
    """Some rows of a source, as `dpbt.table` takes them.

    Attributes:
        columns: for every column of the domain n cells.
        labels: n cells.
        sample_weight: n weights, or None.
    """

    columns: Columns
    labels: RawColumn
    sample_weight: RawColumn | None = None

    __repr__ = without_values


class Counts(NamedTuple):
    """What is counted of rows, for each column, for the label and, if there are any, for weights.

    Attributes:
        rows: how many there are.
        missing: i64[C]: how many of the cells have no value.
        seen: bool[C, CELLS]: whether a value lies in a cell; of numbers beside columns, in a tenth.
    """

    rows: int
    missing: np.ndarray
    seen: np.ndarray

    __repr__ = without_values

    def joined(self, other: "Counts") -> "Counts":
        """Those of two tables."""
        return Counts(self.rows + other.rows, self.missing + other.missing, self.seen | other.seen)

    @property
    def constant(self) -> list[bool]:
        """Whether all values lie in one cell."""
        return (self.seen.sum(axis=1) == 1).tolist()


def encoded(domain: Domain, labels: Labels, given: RawRows) -> tuple[Rows, Counts]:
    """Rows as `dpbt.table` encodes them, each by itself, and what is counted of them.

    Raises:
        ValueError: as `dpbt.table`.
    """
    read = domains.read_columns(domain, given.columns)
    pairs = [kind.read(read[name]) for name, kind in domain.items()]
    count = len(pairs[0][0])
    target, present, weight = labels.read(given.labels, given.sample_weight, count)
    rows = Rows(np.stack([cells for cells, _ in pairs]), target, present, weight)

    pairs.append((_tenths(target), ~present))
    if given.sample_weight is not None and weight is not None:
        pairs.append((_tenths(weight), weight == 0))
    missing = np.array([np.count_nonzero(none) for _, none in pairs])
    seen = [np.bincount(cells[~none], minlength=CELLS) > 0 for cells, none in pairs]
    return rows, Counts(count, missing, np.stack(seen))


def _tenths(values: np.ndarray) -> np.ndarray:
    """u8[N]: classes as they are, and the tenth of [0, 1] that a number lies in."""
    number = values.dtype.kind == "f"
    return np.minimum(values * 10, 9).astype(np.uint8) if number else values.astype(np.uint8)


def report(domain: Domain, label: Label, blocks: Iterable[Columns]) -> OwnerReport:
    """How a declaration reads rows.

    Args:
        domain: the public domain.
        label: the label's column, and that of weights.
        blocks: the rows, some at a time, with the columns of the domain and of the label.

    Raises:
        ValueError: as `domains.encode`.
    """
    labels = Labels.declared(**label.options)
    nothing: Columns = {name: [] for name in (*domain, *label.columns)}
    counts = encoded(domain, labels, raw_rows(label, nothing))[1]
    for block in blocks:
        counts = counts.joined(encoded(domain, labels, raw_rows(label, block))[1])
    return _reported(domain, label, counts.rows, counts.missing.tolist(), counts.constant)


def raw_rows(label: Label, columns: Columns) -> RawRows:
    """Rows by columns, of which some are those of the label."""
    if absent := [name for name in label.columns if name not in columns]:
        raise ValueError(f"the data lacks columns {absent} of the label")
    return RawRows(columns, *(columns[name] for name in label.columns))


def report_of_blocks(table: BlockTable, label: Label) -> OwnerReport:
    """How the rows of a table in blocks were read when they were converted."""
    found = table.manifest
    return _reported(table.domain, label, found.rows, found.missing, found.constant)


def _reported(
    domain: Domain, label: Label, rows: int, missing: Sequence[int], constant: Sequence[bool]
) -> OwnerReport:
    """The report of counts."""
    names = (*domain, *label.columns)[: len(missing)]
    unread = dict(zip(names, missing, strict=True))
    alike = tuple(name for name, one in zip(names, constant, strict=True) if one)
    return OwnerReport(rows, unread, alike, label.column)
