"""A report to the owner of private rows, and to nobody else, on how a declaration reads them.

A report costs nothing because it is not a release. It contains exact counts, so only the owner may
see it. No guarantee covers an owner's decision to stop, or to change a declaration, after reading
a report.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from jaxtyping import UInt8

from dpbt.data import domains
from dpbt.data.cells import column_cells
from dpbt.data.column_types import Column, ColumnBins, Nominal
from dpbt.data.convert import raw_rows_of_columns
from dpbt.data.domains import Columns, Domain, Label
from dpbt.owners.missing_causes import (
    MissingCauses,
    count_texts_of_missing_cells,
    explain_missing_cells,
    label_as_column,
)
from dpbt.public_types import MAX_BINS

OWNER = "private, not covered by the ledger: how the declaration reads the rows"

_MAX_UNREAD, _MAX_UNLABELLED = 0.5, 0.05
"""A column, or the labels, of which a larger share of rows has no value is doubtful."""

_MAX_MISREAD = 0.05
"""A column is doubtful, too, if a larger share of its cells holds text that is no value."""


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
        label: the column of labels; a row without a declared label is absent. None where the rows
            are not read for labels.
        faults: the number of malformed lines of a file, by what is wrong with them.
        user: the column of ids of users, if there is one; a row without an id is absent.
        causes: why cells of a column have no value, and which options read them.
        may_be_missing: the columns that are declared to have missing cells. Empty cells of these
            are not doubtful.
        nominal: the columns of which a cell may have a value that is not listed.
        not_in_file: the columns of the label, the weight and the user that the rows lack.
        other_capitals: for a column with `other` how many cells are read as that and differ from a
            listed value in capitals alone.
    """

    rows: int
    unread: Mapping[str, int]
    constant: tuple[str, ...]
    label: str | None
    faults: Mapping[str, int] = dataclasses.field(default_factory=dict)
    user: str | None = None
    causes: Mapping[str, MissingCauses] = dataclasses.field(default_factory=dict)
    may_be_missing: frozenset[str] = frozenset()
    nominal: frozenset[str] = frozenset()
    not_in_file: tuple[str, ...] = ()
    other_capitals: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The columns that may be declared wrongly.

        Such a column is constant, or lacks values in more than half of the rows, the label and the
        user in more than a twentieth. Empty cells do not count in a column that is declared to have
        missing ones, unless it has no other. A column is doubtful, too, of which more than a
        twentieth of the cells hold text that is no value; values that a nominal column does not
        list count only where an option would read them. Without any row the label is doubtful.
        """
        doubtful = [*self.constant]
        for name, count in self.unread.items():
            max_share = _MAX_UNLABELLED if name in (self.label, self.user) else _MAX_UNREAD
            if name in self.may_be_missing and count < self.rows and name in self.causes:
                count -= self.causes[name].num_empty
            if count > max_share * self.rows or self._num_misread(name) > _MAX_MISREAD * self.rows:
                doubtful.append(name)
        no_rows = () if self.label is None else (self.label,)
        return tuple(dict.fromkeys(doubtful)) if self.rows else no_rows

    def _num_misread(self, name: str) -> int:
        """How many cells of a column hold text that it seems to be declared wrongly for."""
        if name not in self.causes:
            return 0
        causes = self.causes[name]
        if name in self.nominal:
            return causes.num_read
        return self.unread[name] - causes.num_empty

    def __str__(self) -> str:
        """The counts, a line for each column, and the verdict."""
        lines = [OWNER, f"{self.rows} rows"]
        lines += [f"  {count} lines have {fault}" for fault, count in self.faults.items()]
        for name in self.unread:
            lines += self._describe_missing_cells(name)
        lines += [f"  {name}: all that are read lie in one bin" for name in self.constant]
        lines += [
            f"  {name}: {count} are read as the other value, and differ from a listed one in "
            'capitals alone; "ignore_case": true reads them'
            for name, count in self.other_capitals.items()
        ]
        lines += [f"  {name}: no such column, so it is not checked" for name in self.not_in_file]
        if not self.doubtful:
            return "\n".join([*lines, "nothing is doubtful"])
        lines.append(f"doubtful: {', '.join(self.doubtful)}; the domain may not fit the rows")
        if sum(self.faults.values()) > _MAX_UNREAD * self.rows:
            lines.append(
                "a line that is not as wide as the header is a row without any value; where lines "
                "begin with a name of their row, which the header lacks, give --row-names"
            )
        return "\n".join(lines)

    def summary_of_doubtful(self) -> str:
        """The lines of the columns that are doubtful, and the malformed lines; empty for none."""
        if not self.doubtful:
            return ""
        lines = [f"  {count} lines have {fault}" for fault, count in self.faults.items()]
        for name in self.doubtful:
            lines += self._describe_missing_cells(name) if self.unread.get(name) else []
        lines += [f"  {name}: all that are read lie in one bin" for name in self.constant]
        return "\n".join(lines)

    def _describe_missing_cells(self, name: str) -> list[str]:
        """How many cells of a column have no value, and why."""
        words = {
            self.label: "have no declared label, and are absent",
            self.user: "have no id, and are absent",
        }.get(name, "are missing")
        lines = [f"  {name}: {self.unread[name]} {words}"]
        if name in self.causes:
            causes = self.causes[name]
            lines += [f"    {cause.num_cells}: {cause.words}" for cause in causes.causes]
            if causes.remedy:
                looked_at = "them" if causes.num_skipped == 0 else "those that were looked at"
                lines.append(f"    {causes.remedy} reads {causes.num_read} of {looked_at}")
            if causes.mixes_units:
                lines.append("    numbers are not converted: are these of one unit?")
        return lines

    def __repr__(self) -> str:
        return f"OwnerReport(label={self.label!r}, counts not shown)"


def _class_or_tenth_of_range(values: np.ndarray) -> UInt8[np.ndarray, "N"]:
    """u8[N]: classes as they are, and the tenth of [0, 1] that a number lies in."""
    number = values.dtype.kind == "f"
    return np.minimum(values * 10, 9).astype(np.uint8) if number else values.astype(np.uint8)


class OwnerReportBuilder:
    """Counts how a declaration reads rows that come in parts.

    Args:
        domain: the public domain.
        label: the label's column, and those of weights and of users; None to read no label.
        names: the names of the columns that the rows have; None for all that are declared. Those of
            the label may be lacking.
    """

    def __init__(self, domain: Domain, label: Label | None, names: Collection[str] | None = None):
        columns_beside = () if label is None else label.columns
        self._domain, self._label = domain, label
        self._not_in_file = tuple(
            name for name in columns_beside if names is not None and name not in names
        )
        self._names = (
            *domain,
            *(name for name in columns_beside if name not in self._not_in_file),
        )
        self._num_rows = 0
        self._num_missing = np.zeros(len(self._names), int)
        self._is_occupied = np.zeros((len(self._names), MAX_BINS), bool)  # whether a bin has values
        self._texts: dict[str, Counter[str | None]] = {name: Counter() for name in self._names}
        self._unlisted_texts = {
            name: Counter()
            for name, kind in domain.items()
            if isinstance(kind, Nominal) and kind.other is not None
        }
        self.count_rows({name: [] for name in self._names})

    def count_rows(self, block: Columns) -> None:
        """Add the counts of a block of rows to the report.

        Args:
            block: their columns, of the domain and of the label.

        Raises:
            ValueError: as `domains.encode`.
        """
        cells = domains.cells_by_column(self._domain, block)
        bins_by_column = {name: kind.read_bins(cells[name]) for name, kind in self._domain.items()}
        num_rows = len(next(iter(bins_by_column.values())).bins)
        bins_by_column |= self._bins_of_label_weights_and_ids(block, num_rows)
        for name in self._names[len(cells) :]:
            cells[name] = column_cells(block[name], f"{name}: ")

        self._num_rows += num_rows
        for number, name in enumerate(self._names):
            bins, missing = bins_by_column[name]
            self._num_missing[number] += np.count_nonzero(missing)
            self._is_occupied[number] |= np.bincount(bins[~missing], minlength=MAX_BINS) > 0
            count_texts_of_missing_cells(self._texts[name], cells[name], missing)
        for name, texts in self._unlisted_texts.items():
            kind = msgspec.structs.replace(self._domain[name], other=None)
            count_texts_of_missing_cells(texts, cells[name], kind.read_bins(cells[name]).missing)

    def _bins_of_label_weights_and_ids(
        self, block: Columns, num_rows: int
    ) -> dict[str, ColumnBins]:
        """The bins of the labels, weights and ids of users of some rows that have them."""
        label, columns = self._label, {}
        if label is None:
            return {}

        def has(column: Any) -> bool:
            return column is not None and column.column not in self._not_in_file

        weights = block[label.weight.column] if label.weight and has(label.weight) else None
        weight = None
        if has(label):
            target, present, weight = label.read_labels(
                block[label.column], num_rows=num_rows, sample_weight=weights
            )
            columns[label.column] = ColumnBins(_class_or_tenth_of_range(target), ~present)
        elif weights is not None:
            weight = label.read_labels(
                [None] * num_rows, num_rows=num_rows, sample_weight=weights
            ).weight
        if label.weight is not None and weight is not None:
            columns[label.weight.column] = ColumnBins(_class_or_tenth_of_range(weight), weight == 0)
        if label.user is not None and has(label.user):
            ids = label.read_user_ids(block[label.user.column], num_rows)
            assert ids is not None
            first_bytes = np.array([(user_id or b"\0")[0] for user_id in ids], np.uint8)
            missing = np.array([user_id is None for user_id in ids], bool)
            columns[label.user.column] = ColumnBins(first_bytes, missing)
        return columns

    def report(self, faults: Mapping[str, int] | None = None) -> OwnerReport:
        """The report of the rows so far.

        Args:
            faults: the malformed lines by what is wrong with them, as `files.iter_column_blocks`
                counts them while it reads the rows.
        """
        label, not_in_file = self._label, self._not_in_file
        kinds: dict[str, Column] = {**self._domain}
        if label is not None:
            kinds[label.column] = label_as_column(label)
        constant = tuple(
            name
            for name, bins in zip(self._names, self._is_occupied, strict=True)
            if bins.sum() == 1
        )
        other_capitals = {
            name: explain_missing_cells(
                texts, msgspec.structs.replace(self._domain[name], other=None)
            ).num_read
            for name, texts in self._unlisted_texts.items()
        }
        return OwnerReport(
            rows=self._num_rows,
            unread=dict(zip(self._names, self._num_missing.tolist(), strict=True)),
            constant=constant,
            label=None if label is None or label.column in not_in_file else label.column,
            faults=dict(faults or {}),
            user=None if label is None or label.user is None else label.user.column,
            causes={
                name: explain_missing_cells(texts, kinds.get(name))
                for name, texts in self._texts.items()
            },
            may_be_missing=frozenset(
                name
                for name, kind in self._domain.items()
                if not isinstance(kind, Nominal) and kind.missing
            ),
            nominal=frozenset(
                name for name, kind in self._domain.items() if isinstance(kind, Nominal)
            ),
            not_in_file=not_in_file,
            other_capitals={name: count for name, count in other_capitals.items() if count},
        )


def owner_report_of_rows(
    domain: Domain,
    label: Label,
    blocks: Iterable[Columns],
    faults: Mapping[str, int] | None = None,
    *,
    names: Collection[str] | None = None,
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
        names: the names of the columns that the rows have; None for all that are declared. Those of
            the label, the weights and the users may be lacking.

    Raises:
        ValueError: as `domains.encode`, and for a column of the label that rows lack.
    """
    builder = OwnerReportBuilder(domain, label, names)
    for block in blocks:
        if names is None:
            raw_rows_of_columns(label, block)  # raises if a column of the label is lacking
        builder.count_rows(block)
    return builder.report(faults)


report = owner_report_of_rows
"""The former name of `owner_report_of_rows`."""
