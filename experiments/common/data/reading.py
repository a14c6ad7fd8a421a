"""Reading a text file of a public data set as columns and labels.

Every error names the file, the line, the column and the reason.
"""

import dataclasses
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpbt.data.domains import Boolean, Column, Domain, Nominal, Numeric
from dpbt.owners.cli.shared import InputError

LineReader = Callable[[str], list[str]]
"""From a line of a file to its cells."""


def separated(separator: str | None = ",", remark: str = "") -> LineReader:
    """The reader of cells between separators (None: runs of blanks).

    It drops the blanks and quotes around a cell, and a remark at the end of a line.
    """

    def split(line: str) -> list[str]:
        text = line.rstrip().removesuffix(remark) if remark else line
        return [cell.strip(' \t"') for cell in text.split(separator)]

    return split


def libsvm(features: int) -> LineReader:
    """The reader of a dense LIBSVM line, `label 1:value 2:value ...`; the label is first."""
    indices = [str(k) for k in range(1, features + 1)]

    def split(line: str) -> list[str]:
        label, *pairs = line.replace(":", " ").split()
        if pairs[::2] != indices:
            raise ValueError(
                f"expected a label and the indices 1 to {features} in order, each as index:value"
            )
        return [label.removeprefix("+"), *pairs[1::2]]

    return split


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a text file holds a table.

    Attributes:
        names: all columns, in the file's order.
        label: the column that holds the label.
        classes: the class of each value of the label.
        split: the reader of a line.
        header: whether the first line holds the names.
        comments: lines that begin with one of these are not rows.
        missing: the cell that stands for a missing number.
        missing_numbers: numbers that stand for a missing number.
    """

    names: tuple[str, ...]
    label: str
    classes: Mapping[str, bool]
    split: LineReader
    header: bool = False
    comments: tuple[str, ...] = ()
    missing: str = "?"
    missing_numbers: tuple[float, ...] = ()


class Rows(NamedTuple):
    """Columns of the domain, [N] each, and label bool[N]."""

    columns: dict[str, np.ndarray]
    label: np.ndarray


def read(path: Path, layout: Layout, domain: Domain, rows: int | None = None) -> Rows:
    """The columns that the domain names, and the label.

    Args:
        path: a text file, compressed if its name ends in .gz.
        layout: how the file holds the table.
        domain: the public domain; its columns must be among the layout's.
        rows: read only this many rows, or all.

    Raises:
        InputError: naming the file, the line and the column. The header or the length of a line
            differs from the layout. A cell is neither a finite number nor a declared missing one. A
            value or a label is not listed. The file has no rows, or fewer than `rows`.
    """
    numbers: list[int] = []
    lines: list[list[str]] = []
    for number, cells in _cells(path, layout):
        numbers.append(number)
        lines.append(cells)
        if len(lines) == rows:
            break
    if len(lines) < (rows or 1):
        raise InputError(f"{path}: {len(lines)} rows, expected {rows or 'at least one'}")
    cells = dict(zip(layout.names, zip(*lines, strict=True), strict=True))

    def refuse(name: str, row: int, reason: str) -> InputError:
        return InputError(
            f"{path}, line {numbers[row]}, column {name!r}: {reason}, got {cells[name][row]!r}"
        )

    columns = {}
    for name, column in domain.items():
        columns[name], bad, reason = _convert(column, cells[name], layout)
        if bad is not None:
            raise refuse(name, bad, reason)
    unknown = [row for row, cell in enumerate(cells[layout.label]) if cell not in layout.classes]
    if unknown:
        raise refuse(layout.label, unknown[0], f"the label must be one of {list(layout.classes)}")
    return Rows(columns, np.array([layout.classes[cell] for cell in cells[layout.label]]))


def _cells(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of each line that is a row."""
    expected = len(layout.names)
    opened = gzip.open if path.suffix == ".gz" else open
    header = layout.header
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip() or line.startswith(layout.comments):
                    continue
                try:
                    cells = layout.split(line.rstrip("\r\n"))
                    if len(cells) != expected:
                        raise ValueError(f"{len(cells)} cells, expected {expected}")
                    if header and tuple(cells) != layout.names:
                        wrong = next(k for k in range(expected) if cells[k] != layout.names[k])
                        raise ValueError(
                            f"the header has {cells[wrong]!r}, expected {layout.names[wrong]!r}"
                        )
                except ValueError as error:
                    raise InputError(f"{path}, line {number}: {error}") from None
                if not header:
                    yield number, cells
                header = False
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a UTF-8 text file: {error.reason}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: a broken gzip file: {error}") from None


def _convert(
    column: Column, cells: Sequence[str], layout: Layout
) -> tuple[np.ndarray, int | None, str]:
    """The column's values, the first bad row or None, and the reason why it is bad."""
    text = np.array(cells)
    match column:
        case Numeric():
            absent = (text == layout.missing) & column.missing
            try:
                values = np.where(absent, "nan", text).astype(np.float64)
            except ValueError:
                return (
                    text,
                    _first_bad_number(cells, layout.missing if column.missing else None),
                    "not a number",
                )
            bad, reason = ~(np.isfinite(values) | absent), "not a finite number"
            if column.missing:
                values[np.isin(values, layout.missing_numbers)] = np.nan
        case Nominal():
            values, reason = text, f"not one of {list(column.values)}"
            bad = ~np.isin(text, column.values) & (column.other is None)
        case Boolean():
            values, reason = text == "1", "neither 0 nor 1"
            bad = ~np.isin(text, ("0", "1"))
    return values, int(np.argmax(bad)) if bad.any() else None, reason


def _first_bad_number(cells: Sequence[str], missing: str | None) -> int:
    for row, cell in enumerate(cells):
        try:
            float("nan" if cell == missing else cell)
        except ValueError:
            return row
    raise AssertionError("unreachable: NumPy refused what Python accepts")
