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
from dpbt.owners.cli.parsing import InputError

LineReader = Callable[[str], list[str]]
"""From a line of a file to its cells."""


def separated_line_reader(separator: str | None = ",", remark: str = "") -> LineReader:
    """The reader of cells between separators (None: runs of blanks).

    It drops the blanks and quotes around a cell, and a remark at the end of a line.
    """

    def split(line: str) -> list[str]:
        text = line.rstrip().removesuffix(remark) if remark else line
        return [cell.strip(' \t"') for cell in text.split(separator)]

    return split


def libsvm_line_reader(features: int) -> LineReader:
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


def read_rows(path: Path, layout: Layout, domain: Domain, max_rows: int | None = None) -> Rows:
    """The columns that the domain names, and the label.

    Args:
        path: a text file, compressed if its name ends in .gz.
        layout: how the file holds the table.
        domain: the public domain; its columns must be among the layout's.
        max_rows: read only the first rows, this many; None for all.

    Raises:
        InputError: naming the file, the line and the column. The header or the length of a line
            differs from the layout. A cell is neither a finite number nor a declared missing one. A
            value or a label is not listed. The file has no rows, or fewer than `max_rows`.
    """
    numbers: list[int] = []
    lines: list[list[str]] = []
    for number, cells_of_line in _row_lines(path, layout):
        numbers.append(number)
        lines.append(cells_of_line)
        if len(lines) == max_rows:
            break
    if len(lines) < (max_rows or 1):
        raise InputError(f"{path}: {len(lines)} rows, expected {max_rows or 'at least one'}")
    cells = dict(zip(layout.names, zip(*lines, strict=True), strict=True))

    def refuse(name: str, row: int, reason: str) -> InputError:
        return InputError(
            f"{path}, line {numbers[row]}, column {name!r}: {reason}, got {cells[name][row]!r}"
        )

    columns = {}
    for name, column in domain.items():
        converted = _convert_cells(column, cells[name], layout)
        if converted.bad_row is not None:
            raise refuse(name, converted.bad_row, converted.reason)
        columns[name] = converted.values
    unknown = [row for row, cell in enumerate(cells[layout.label]) if cell not in layout.classes]
    if unknown:
        raise refuse(layout.label, unknown[0], f"the label must be one of {list(layout.classes)}")
    return Rows(columns, np.array([layout.classes[cell] for cell in cells[layout.label]]))


def _row_lines(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line that is a row."""
    expected = len(layout.names)
    open_text = gzip.open if path.suffix == ".gz" else open
    is_header = layout.header
    try:
        with open_text(path, "rt", encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip() or line.startswith(layout.comments):
                    continue
                try:
                    cells = layout.split(line.rstrip("\r\n"))
                    if len(cells) != expected:
                        raise ValueError(f"{len(cells)} cells, expected {expected}")
                    if is_header and tuple(cells) != layout.names:
                        wrong = next(k for k in range(expected) if cells[k] != layout.names[k])
                        raise ValueError(
                            f"the header has {cells[wrong]!r}, expected {layout.names[wrong]!r}"
                        )
                except ValueError as error:
                    raise InputError(f"{path}, line {number}: {error}") from None
                if not is_header:
                    yield number, cells
                is_header = False
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a UTF-8 text file: {error.reason}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: a broken gzip file: {error}") from None


class _Converted(NamedTuple):
    """The values of a column, and the first bad row (None without one) with its reason."""

    values: np.ndarray
    bad_row: int | None
    reason: str


def _convert_cells(column: Column, cells: Sequence[str], layout: Layout) -> _Converted:
    """The values of a column of cells."""
    text = np.array(cells)
    match column:
        case Numeric():
            is_missing = (text == layout.missing) & column.missing
            try:
                values = np.where(is_missing, "nan", text).astype(np.float64)
            except ValueError:
                missing_cell = layout.missing if column.missing else None
                return _Converted(text, _first_bad_number(cells, missing_cell), "not a number")
            is_bad, reason = ~(np.isfinite(values) | is_missing), "not a finite number"
            if column.missing:
                values[np.isin(values, layout.missing_numbers)] = np.nan
        case Nominal():
            values, reason = text, f"not one of {list(column.values)}"
            is_bad = ~np.isin(text, column.values) & (column.other is None)
        case Boolean():
            values, reason = text == "1", "neither 0 nor 1"
            is_bad = ~np.isin(text, ("0", "1"))
    return _Converted(values, int(np.argmax(is_bad)) if is_bad.any() else None, reason)


def _first_bad_number(cells: Sequence[str], missing: str | None) -> int:
    """The row of the first cell that is neither a number nor the one of missing numbers."""
    for row, cell in enumerate(cells):
        try:
            float("nan" if cell == missing else cell)
        except ValueError:
            return row
    raise AssertionError("unreachable: NumPy refused what Python accepts")
