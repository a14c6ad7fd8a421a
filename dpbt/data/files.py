"""A private text file, read so that one line is one row.

Private rows never raise an error and never touch each other. A line that cannot be read is a row
without any value, and the lines around it are read as if it were not there.
"""

import csv
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpbt.data.domains import Boolean, Domain, Label, check, missing_cells
from dpbt.validate import as_path

Cells = list[str | None]
"""The cells of a column: text, or None in a malformed row."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """The rows of a file, all of them private.

    Row n is line n + 2 of the file and a function of it alone.

    Attributes:
        columns: for every column of the domain N cells: text, or None in a malformed row.
        labels: N cells of the label's column, likewise.
        malformed: bool[N]: the line could not be read.
        missing: for every column of the domain the number of cells without a value
            (`domains.missing_cells`), and for the label's column the number of cells of neither
            class.
    """

    columns: dict[str, Cells]
    labels: Cells
    malformed: np.ndarray
    missing: dict[str, int]

    def __repr__(self) -> str:
        return f"Rows(columns={list(self.columns)}, cells not shown)"


def read_csv(path: str | Path, domain: Domain, label: Label) -> Rows:
    """The rows of a CSV file: a header, then cells separated by commas, as UTF-8 text.

    Cells may be in double quotes. Each physical line is a row. A line break within quotes is not
    supported: the lines on its two sides are two rows, and as a rule both are malformed.

    A line is malformed in any of these cases:

    - it is blank, or has another number of cells than the header;
    - a quote is not closed, or is closed before the cell ends;
    - it holds a NUL or a byte that is not UTF-8;
    - a cell is longer than `csv.field_size_limit()`.

    All cells of a malformed row are missing, its label too, so the row is absent from `dpbt.table`
    by itself.

    Lines end with a line feed, with or without a carriage return before it. A byte order mark is
    dropped. Columns that neither the domain nor the label names are not read.

    The rows are private, and so are `malformed` and the counts in `missing`. They show the owner of
    the file whether the declaration fits it, and no ledger covers them.

    Args:
        path: the file.
        domain: the public domain.
        label: the label's column and classes.

    Raises:
        ValueError: for an argument of another kind, a label that is also in the domain, or an empty
            file. Also for a header that cannot be read, lacks a column or holds it twice; it names
            the file and line 1. No data row is an error.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    check(domain)
    if not isinstance(label, Label):
        raise ValueError(
            "label must be domains.Label(column, positive, negative), "
            f"got {type(label).__name__}; the order is path, domain, label"
        )
    if label.column in domain:
        raise ValueError(f"the label {label.column!r} is among the columns of the domain")
    with open(path, "rb") as file:
        lines = iter(file)
        width, indices = _header(path, next(lines, b""), (*domain, label.column))
        columns, malformed = _read(lines, width, indices)

    classes = Boolean(label.positive, label.negative)
    missing = missing_cells({**domain, label.column: classes}, columns)
    labels = columns.pop(label.column)
    return Rows(columns, labels, malformed, missing)


def _header(path: str | Path, line: bytes, names: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """The number of cells of a row, and the index of each named column."""
    if not line:
        raise ValueError(f"{path}: the file is empty")
    cells = _split(line.removeprefix(_BYTE_ORDER_MARK))
    if cells is None:
        raise ValueError(
            f"{path}, line 1: the header is no UTF-8 text with closed quotes and names of at most "
            f"{csv.field_size_limit()} characters"
        )
    header = [cell.strip() for cell in cells]
    for name in names:
        if name not in header:
            raise ValueError(f"{path}, line 1: no column {name!r}")
        if header.count(name) > 1:
            raise ValueError(f"{path}, line 1: more than one column {name!r}")
    return len(header), {name: header.index(name) for name in names}


def _read(
    lines: Iterator[bytes], width: int, indices: dict[str, int]
) -> tuple[dict[str, Cells], np.ndarray]:
    """The cells of each named column, and bool[N]: the line could not be read."""
    columns: dict[str, Cells] = {name: [] for name in indices}
    malformed = []
    for line in lines:
        cells = _split(line)
        if cells is not None and len(cells) != width:
            cells = None
        malformed.append(cells is None)
        for name, index in indices.items():
            columns[name].append(None if cells is None else cells[index])
    return columns, np.array(malformed, bool)


def _split(line: bytes) -> list[str] | None:
    """The cells of one line, by that line alone; None if it is malformed."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if b"\0" in line:
        return None
    try:
        text = line.decode("utf-8")
        return next(csv.reader([text], strict=True, skipinitialspace=True), None)
    except (UnicodeDecodeError, csv.Error):
        return None
