"""A report to the owner of private rows, and to nobody else, on how a declaration reads them.

A report costs nothing because it is not a release. It contains exact counts, so only the owner may
see it. No guarantee covers an owner's decision to stop, or to change a declaration, after reading
a report.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import UInt8

from dpbt.data import domains
from dpbt.data.convert import raw_rows_of_columns
from dpbt.data.domains import Columns, Domain, Label
from dpbt.data.kinds import ColumnBins
from dpbt.public_types import MAX_BINS

OWNER = "private, not covered by the ledger: how the declaration reads the rows"

_MAX_UNREAD, _MAX_UNLABELLED = 0.5, 0.05
"""A column, or the labels, of which a larger share of rows has no value is doubtful."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OwnerReport:
    """Exact counts of private rows and cells; `str` shows them, and `repr` does not.

    Attributes:
        rows: the number of rows that were read.
        unread: for each column the number of cells without a value. Such is a cell of a numeric
            column that is not a number, and one of a Boolean column that is neither word. In a
            nominal column it is a cell without a word, or with one that is not listed if there is
            no `other`. A weight of 0 counts as no value.
        constant: the columns whose values all lie in one bin, so that no split tells rows apart.
        label: the column of labels; a row without a declared label is absent.
        faults: the number of malformed lines of a file, by what is wrong with them.
        user: the column of ids of users, if there is one; a row without an id is absent.
    """

    rows: int
    unread: Mapping[str, int]
    constant: tuple[str, ...]
    label: str
    faults: Mapping[str, int] = dataclasses.field(default_factory=dict)
    user: str | None = None

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The columns that may be declared wrongly.

        Such a column is constant, or lacks values in more than half of the rows, the label and the
        user in more than a twentieth. Without any row the label is doubtful.
        """
        doubtful = [*self.constant]
        for name, count in self.unread.items():
            max_share = _MAX_UNLABELLED if name in (self.label, self.user) else _MAX_UNREAD
            if count > max_share * self.rows:
                doubtful.append(name)
        return tuple(dict.fromkeys(doubtful)) if self.rows else (self.label,)

    def __str__(self) -> str:
        """The counts, a line for each column, and the verdict."""
        lines = [OWNER, f"{self.rows} rows"]
        lines += [f"  {count} lines have {fault}" for fault, count in self.faults.items()]
        for name, count in self.unread.items():
            words = {
                self.label: "have no declared label, and are absent",
                self.user: "have no id, and are absent",
            }.get(name, "are missing")
            lines.append(f"  {name}: {count} {words}")
        lines += [f"  {name}: all that are read lie in one bin" for name in self.constant]
        if not self.doubtful:
            return "\n".join([*lines, "nothing is doubtful"])
        lines.append(f"doubtful: {', '.join(self.doubtful)}; the domain may not fit the rows")
        if self.unread and min(self.unread.values()) > _MAX_UNREAD * self.rows:
            lines.append(
                "a line that is not as wide as the header is a row without any value; where lines "
                "begin with a name of their row, which the header lacks, give --row-names"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"OwnerReport(label={self.label!r}, counts not shown)"


def _tenth_of_range(values: np.ndarray) -> UInt8[np.ndarray, "N"]:
    """u8[N]: classes as they are, and the tenth of [0, 1] that a number lies in."""
    number = values.dtype.kind == "f"
    return np.minimum(values * 10, 9).astype(np.uint8) if number else values.astype(np.uint8)


def owner_report_of_rows(
    domain: Domain,
    label: Label,
    blocks: Iterable[Columns],
    faults: Mapping[str, int] | None = None,
) -> OwnerReport:
    """Count how a declaration reads rows, in the way in which a table reads them.

    Rows beyond the limit of their user are counted, too. Numbers of labels and weights are read in
    tenths of their range.

    Args:
        domain: the public domain.
        label: the label's column, and those of weights and of users.
        blocks: the rows, some at a time, with the columns of the domain and of the label.
        faults: the malformed lines by what is wrong with them, as `files.iter_column_blocks` counts
            them while it reads the blocks.

    Raises:
        ValueError: as `domains.encode`.
    """
    names = (*domain, *label.columns)
    num_rows = 0
    num_missing = np.zeros(len(names), int)
    is_occupied = np.zeros((len(names), MAX_BINS), bool)  # whether a value lies in a bin
    no_rows = {name: [] for name in names}
    for block in itertools.chain([no_rows], blocks):
        columns = _bins_of_declared_columns(domain, label, block)
        num_rows += len(columns[0].bins)
        num_missing += [np.count_nonzero(column.missing) for column in columns]
        is_occupied |= np.stack(
            [
                np.bincount(column.bins[~column.missing], minlength=MAX_BINS) > 0
                for column in columns
            ]
        )

    constant = tuple(name for name, bins in zip(names, is_occupied, strict=True) if bins.sum() == 1)
    return OwnerReport(
        rows=num_rows,
        unread=dict(zip(names, num_missing.tolist(), strict=True)),
        constant=constant,
        label=label.column,
        faults=dict(faults or {}),
        user=None if label.user is None else label.user.column,
    )


report = owner_report_of_rows
"""The former name of `owner_report_of_rows`."""


def _bins_of_declared_columns(domain: Domain, label: Label, block: Columns) -> list[ColumnBins]:
    """The bins of the attributes of some rows, of their labels, weights and ids, in this order."""
    raw = raw_rows_of_columns(label, block)
    cells = domains.cells_by_column(domain, block)
    columns = [kind.read_bins(cells[name]) for name, kind in domain.items()]
    num_rows = len(columns[0].bins)
    target, present, weight = label.read_labels(
        raw.labels, num_rows=num_rows, sample_weight=raw.sample_weight
    )
    columns.append(ColumnBins(_tenth_of_range(target), ~present))
    if raw.sample_weight is not None and weight is not None:
        columns.append(ColumnBins(_tenth_of_range(weight), weight == 0))
    if (ids := label.read_user_ids(raw.users, num_rows)) is not None:
        first_bytes = np.array([(user_id or b"\0")[0] for user_id in ids], np.uint8)
        columns.append(ColumnBins(first_bytes, np.array([one is None for one in ids], bool)))
    return columns
