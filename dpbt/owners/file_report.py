"""A report to the owner of private rows, and to nobody else, on how a domain and a label read them.

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
    add_missing_cells_to_counts_by_text,
    column_of_label,
    explain_missing_cells,
)
from dpbt.public_types import MAX_BINS

REPORT_HEADING = "private, not covered by the ledger: how the declaration reads the rows"

_MAX_SHARE_UNREAD, _MAX_SHARE_UNLABELLED = 0.5, 0.05
"""A column, or the labels, without a value in a larger share of rows may be declared wrongly."""

_MAX_SHARE_MISREAD = 0.05
"""So may a column of which a larger share of cells holds text that is no value of it."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OwnerReport:
    """Exact counts of private rows and cells, by how a domain and a label read them.

    `str` shows the counts, and `repr` does not.

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
    def suspect_columns(self) -> tuple[str, ...]:
        """The names of the columns that may be declared wrongly.

        The text of the report calls them doubtful. Such a column is constant, or lacks values in
        more than half of the rows, the label and the user in more than a twentieth. Empty cells do
        not count in a column that is declared to have missing ones, unless it has no other. A
        column is suspect, too, if more than a twentieth of its cells hold text that is no value;
        values that a nominal column does not list count only where an option would read them.
        Without any row the label is suspect.
        """
        suspect = [*self.constant]
        for name, count in self.unread.items():
            max_share = (
                _MAX_SHARE_UNLABELLED if name in (self.label, self.user) else _MAX_SHARE_UNREAD
            )
            if name in self.may_be_missing and count < self.rows and name in self.causes:
                count -= self.causes[name].num_empty
            if (
                count > max_share * self.rows
                or self._num_cells_readable_if_redeclared(name) > _MAX_SHARE_MISREAD * self.rows
            ):
                suspect.append(name)
        if not self.rows:
            return () if self.label is None else (self.label,)
        return tuple(dict.fromkeys(suspect))

    def _num_cells_readable_if_redeclared(self, name: str) -> int:
        """The number of cells of a column whose text another declaration of it might read.

        Of a nominal column these are the cells that some option would read; of any other column all
        cells with text.
        """
        if name not in self.causes:
            return 0
        causes = self.causes[name]
        if name in self.nominal:
            return causes.num_read
        return self.unread[name] - causes.num_empty

    def __str__(self) -> str:
        """The text of the report: all counts, and which columns may be declared wrongly.

        There is a line for each column.
        """
        lines = [REPORT_HEADING, f"{self.rows} rows"]
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
        if not self.suspect_columns:
            return "\n".join([*lines, "nothing is doubtful"])
        lines.append(
            f"doubtful: {', '.join(self.suspect_columns)}; the domain may not fit the rows"
        )
        if sum(self.faults.values()) > _MAX_SHARE_UNREAD * self.rows:
            lines.append(
                "a line that is not as wide as the header is a row without any value; where lines "
                "begin with a name of their row, which the header lacks, give --row-names"
            )
        return "\n".join(lines)

    def describe_suspect_columns(self) -> str:
        """Text on the columns that may be declared wrongly and on malformed lines.

        It is empty if there are none.
        """
        if not self.suspect_columns:
            return ""
        lines = [f"  {count} lines have {fault}" for fault, count in self.faults.items()]
        for name in self.suspect_columns:
            lines += self._describe_missing_cells(name) if self.unread.get(name) else []
        lines += [f"  {name}: all that are read lie in one bin" for name in self.constant]
        return "\n".join(lines)

    def _describe_missing_cells(self, name: str) -> list[str]:
        """Lines on how many cells of a column have no value, why, and what would read them."""
        consequence = {
            self.label: "have no declared label, and are absent",
            self.user: "have no id, and are absent",
        }.get(name, "are missing")
        lines = [f"  {name}: {self.unread[name]} {consequence}"]
        if name in self.causes:
            causes = self.causes[name]
            lines += [f"    {cause.num_cells}: {cause.text}" for cause in causes.causes]
            if causes.remedy:
                looked_at = "them" if causes.num_skipped == 0 else "those that were looked at"
                lines.append(f"    {causes.remedy} reads {causes.num_read} of {looked_at}")
            if causes.mixes_units:
                lines.append("    numbers are not converted: are these of one unit?")
        return lines

    def __repr__(self) -> str:
        return f"OwnerReport(label={self.label!r}, counts not shown)"


def _bins_of_labels_or_weights(values: np.ndarray) -> UInt8[np.ndarray, "N"]:
    """The bin of each label or weight: u8[N].

    Of a class it is the class itself, and of a number its tenth of [0, 1].
    """
    are_numbers = values.dtype.kind == "f"
    return np.minimum(values * 10, 9).astype(np.uint8) if are_numbers else values.astype(np.uint8)


class OwnerReportBuilder:
    """Counts, block by block, how a domain and a label read rows, and builds the report of them.

    Args:
        domain: the public domain.
        label: the label's column, and those of weights and of users; None to read no label.
        names: the names of the columns that the rows have; None for all that are declared. Those of
            the label may be lacking.
    """

    def __init__(self, domain: Domain, label: Label | None, names: Collection[str] | None = None):
        columns_beside = () if label is None else label.columns
        self._domain = domain
        self._label = label
        self._not_in_file = tuple(
            name for name in columns_beside if names is not None and name not in names
        )
        self._names = (
            *domain,
            *(name for name in columns_beside if name not in self._not_in_file),
        )
        self._num_rows = 0
        self._num_missing = np.zeros(len(self._names), int)
        self._has_values_in_bin = np.zeros((len(self._names), MAX_BINS), bool)
        self._counts_of_missing_texts: dict[str, Counter[str | None]] = {
            name: Counter() for name in self._names
        }
        self._counts_of_unlisted_texts = {
            name: Counter()
            for name, kind in domain.items()
            if isinstance(kind, Nominal) and kind.other is not None
        }
        self.add_rows({name: [] for name in self._names})

    def add_rows(self, block: Columns) -> None:
        """Read a block of rows, and add its counts to those of the blocks before.

        Args:
            block: their columns, of the domain and of the label.

        Raises:
            ValueError: as `domains.encode`.
        """
        cells = domains.cells_by_column(self._domain, block)
        bins_by_column = {name: kind.read_bins(cells[name]) for name, kind in self._domain.items()}
        num_rows = len(next(iter(bins_by_column.values())).bins)
        bins_by_column |= self._read_bins_of_label_weights_and_ids(block, num_rows)
        for name in self._names[len(cells) :]:
            cells[name] = column_cells(block[name], f"{name}: ")

        self._num_rows += num_rows
        for number, name in enumerate(self._names):
            bins, missing = bins_by_column[name]
            self._num_missing[number] += np.count_nonzero(missing)
            self._has_values_in_bin[number] |= np.bincount(bins[~missing], minlength=MAX_BINS) > 0
            add_missing_cells_to_counts_by_text(
                self._counts_of_missing_texts[name], cells[name], missing
            )
        for name, texts in self._counts_of_unlisted_texts.items():
            kind = msgspec.structs.replace(self._domain[name], other=None)
            add_missing_cells_to_counts_by_text(
                texts, cells[name], kind.read_bins(cells[name]).missing
            )

    def _read_bins_of_label_weights_and_ids(
        self, block: Columns, num_rows: int
    ) -> dict[str, ColumnBins]:
        """Read the labels, weights and ids of users of a block into bins, by column.

        Columns that the rows lack are left out.
        """
        label = self._label
        columns = {}
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
            columns[label.column] = ColumnBins(_bins_of_labels_or_weights(target), ~present)
        elif weights is not None:
            weight = label.read_labels(
                [None] * num_rows, num_rows=num_rows, sample_weight=weights
            ).weight
        if label.weight is not None and weight is not None:
            columns[label.weight.column] = ColumnBins(
                _bins_of_labels_or_weights(weight), weight == 0
            )
        if label.user is not None and has(label.user):
            ids = label.read_user_ids(block[label.user.column], num_rows)
            assert ids is not None
            first_bytes = np.array([(user_id or b"\0")[0] for user_id in ids], np.uint8)
            missing = np.array([user_id is None for user_id in ids], bool)
            columns[label.user.column] = ColumnBins(first_bytes, missing)
        return columns

    def build_report(self, faults: Mapping[str, int] | None = None) -> OwnerReport:
        """Build the report of all rows that were added.

        Args:
            faults: the malformed lines by what is wrong with them, as `files.iter_column_blocks`
                counts them while it reads the rows.
        """
        label = self._label
        not_in_file = self._not_in_file
        kinds: dict[str, Column] = {**self._domain}
        if label is not None:
            kinds[label.column] = column_of_label(label)
        constant = tuple(
            name
            for name, bins in zip(self._names, self._has_values_in_bin, strict=True)
            if bins.sum() == 1
        )
        other_capitals = {
            name: explain_missing_cells(
                texts, msgspec.structs.replace(self._domain[name], other=None)
            ).num_read
            for name, texts in self._counts_of_unlisted_texts.items()
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
                for name, texts in self._counts_of_missing_texts.items()
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
    """Report to the owner of rows how a domain and a label read them.

    A table reads them alike. Rows beyond the limit of their user are counted, too. Numbers of
    labels and weights are read in tenths of their range.

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
        builder.add_rows(block)
    return builder.build_report(faults)


report = owner_report_of_rows
"""The former name of `owner_report_of_rows`."""
