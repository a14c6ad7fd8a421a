"""What the owner of private rows may know of how a declaration reads them, and nobody else.

A report costs nothing because it is no release. It holds exact counts, so it is for the eyes of the
owner alone. To stop, or to change a declaration, after reading one is outside every guarantee.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping

import numpy as np

from dpbt.data import domains
from dpbt.data.convert import raw_rows
from dpbt.data.domains import Columns, Domain, Label
from dpbt.public_types import MAX_BINS

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
        constant: the columns whose values all lie in one bin, so that no split tells rows apart.
        label: the column of labels; a row without a declared label is absent.
        faults: how many lines of a file are malformed, by what is wrong with them.
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

        They are constant, or have no value in more than half of the rows; the label and the user in
        more than a twentieth. Without any row the label is.
        """
        found = [*self.constant]
        for name, count in self.unread.items():
            most = _MAX_UNLABELLED if name in (self.label, self.user) else _MAX_UNREAD
            if count > most * self.rows:
                found.append(name)
        return tuple(dict.fromkeys(found)) if self.rows else (self.label,)

    def __str__(self) -> str:
        """The counts, a line for each column, and the verdict."""
        lines = [OWNER, f"{self.rows} rows"]
        lines += [f"  {count} lines have {fault}" for fault, count in self.faults.items()]
        for name, count in self.unread.items():
            what = "have no declared label, and are absent" if name == self.label else "are missing"
            what = "have no id, and are absent" if name == self.user else what
            lines.append(f"  {name}: {count} {what}")
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


def _tenths(values: np.ndarray) -> np.ndarray:
    """u8[N]: classes as they are, and the tenth of [0, 1] that a number lies in."""
    number = values.dtype.kind == "f"
    return np.minimum(values * 10, 9).astype(np.uint8) if number else values.astype(np.uint8)


def report(
    domain: Domain,
    label: Label,
    blocks: Iterable[Columns],
    faults: Mapping[str, int] | None = None,
) -> OwnerReport:
    """How a declaration reads rows, as a table does; numbers beside columns are read in tenths.

    Rows beyond the limit of their user are among those that are counted.

    Args:
        domain: the public domain.
        label: the label's column, and those of weights and of users.
        blocks: the rows, some at a time, with the columns of the domain and of the label.
        faults: what reading the blocks counts of malformed lines (`files.blocks_of_file`).

    Raises:
        ValueError: as `domains.encode`.
    """
    names = (*domain, *label.columns)
    rows = 0
    missing = np.zeros(len(names), int)
    seen = np.zeros((len(names), MAX_BINS), bool)  # whether a value lies in a bin
    for block in itertools.chain([{name: [] for name in names}], blocks):
        given = raw_rows(label, block)
        read = domains.read_columns(domain, block)
        pairs = [kind.read(read[name]) for name, kind in domain.items()]
        target, present, weight = label.read(given.labels, given.sample_weight, len(pairs[0][0]))
        pairs.append((_tenths(target), ~present))
        if given.sample_weight is not None and weight is not None:
            pairs.append((_tenths(weight), weight == 0))
        if (ids := label.ids(given.users, len(target))) is not None:
            first = np.array([(each or b"\0")[0] for each in ids], np.uint8)
            pairs.append((first, np.array([each is None for each in ids], bool)))
        rows += len(pairs[0][0])
        missing += [np.count_nonzero(none) for _, none in pairs]
        seen |= np.stack([np.bincount(bins[~none], minlength=MAX_BINS) > 0 for bins, none in pairs])

    unread = dict(zip(names, missing.tolist(), strict=True))
    alike = tuple(name for name, each in zip(names, seen, strict=True) if each.sum() == 1)
    user = None if label.user is None else label.user.column
    return OwnerReport(rows, unread, alike, label.column, dict(faults or {}), user)
