"""A private file, read so that each row is read by itself: a line of text, or a row of Parquet.

Private rows never raise an error and never touch each other. A line that cannot be read is a row
without any value, and the lines around it are read as if it were not there.
"""

import codecs
import contextlib
import csv
import importlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dpbt.common.validate import as_path
from dpbt.data.cells import RawColumn


def names_of(path: str | Path) -> list[str]:
    """The names in the first line of a CSV file, or in the schema of a Parquet file.

    Raises:
        ValueError: for an empty file, and a header that cannot be read.
        ImportError: as `blocks_of_file`.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    if path.suffix.lower() == ".parquet":
        with _opened_parquet(path, ()) as given:
            return given.schema_arrow.names
    with open(path, "rb") as file:
        return _names(path, file.readline())


def read_columns(path: str | Path, names: Iterable[str]) -> dict[str, RawColumn]:
    """The cells of the named columns of a file, all at once; see `blocks_of_file`."""
    nothing = {name: [] for name in names}
    return [nothing, *blocks_of_file(path, tuple(nothing), None)][-1]


def blocks_of_file(
    path: str | Path, names: tuple[str, ...], rows: int | None
) -> Iterator[dict[str, RawColumn]]:
    """The cells of the named columns of a CSV file, or of a Parquet file (`.parquet`).

    A CSV file has a header, then cells separated by commas, as UTF-8 text. Cells may be in double
    quotes. Each physical line is a row, and row n is line n + 2 and a function of it alone. A line
    break within quotes is not supported: the lines on its two sides are two rows, and as a rule
    both are malformed. A line is malformed in any of these cases:

    - it is blank, or has another number of cells than the header;
    - a quote is not closed, or is closed before the cell ends;
    - it holds a NUL or a byte that is not UTF-8;
    - a cell is longer than `csv.field_size_limit()`.

    All cells of a malformed row are None, its label too, so the row is absent from `dpbt.table` by
    itself. Lines end with a line feed, with or without a carriage return before it. A byte order
    mark is dropped.

    A Parquet file declares the types of its columns, so each cell is read by itself there, too. Of
    a file only the named columns are read. The rows are private; `owner.report` shows the owner of
    a file whether the declaration fits it.

    Args:
        path: the file.
        names: of the columns.
        rows: how many rows a block has at most; None for one block of all of them.

    Raises:
        ValueError: for a file that is empty or no table, or lacks a column or holds it twice. It
            names the file, and of a CSV file line 1. No row is an error.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    if path.suffix.lower() == ".parquet":
        with _opened_parquet(path, names) as given:
            if rows is None:
                table = given.read(columns=list(names))
                yield {name: table.column(name) for name in names}
                return
            for group in range(given.num_row_groups):
                # pyarrow keeps what it read of a file until the iteration ends.
                for batch in given.iter_batches(rows, row_groups=[group], columns=list(names)):
                    yield {name: batch.column(name) for name in names}
        return

    with open(path, "rb") as file:
        header = _names(path, file.readline())
        _check_names(f"{path}, line 1", header, names)
        places = [header.index(name) for name in names]
        while lines := list(itertools.islice(file, rows)):
            columns: list[list[str | None]] = [[] for _ in names]
            for line in lines:
                cells = _split(line)
                whole = cells is not None and len(cells) == len(header)
                for column, place in zip(columns, places, strict=True):
                    column.append(cells[place] if cells is not None and whole else None)
            yield dict(zip(names, columns, strict=True))


@contextlib.contextmanager
def _opened_parquet(path: Path, names: tuple[str, ...]) -> Iterator[Any]:
    """The open Parquet file, with the names checked.

    Raises:
        ValueError: for a file that is no Parquet, or lacks a column, also while it is read.
        ImportError: if pyarrow is not installed.
        OSError: if the file cannot be opened.
    """
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError(
            f"{path}: reading Parquet needs pyarrow: pip install 'dpbt[parquet]'"
        ) from None
    with open(path, "rb") as file:  # its errors are those of every file
        try:
            given = parquet.ParquetFile(file)
            _check_names(str(path), given.schema_arrow.names, names)
            yield given
        except (arrow.ArrowException, OSError):  # their words may show a value
            raise ValueError(f"{path}: no Parquet file that pyarrow can read") from None


def _names(path: str | Path, line: bytes) -> list[str]:
    """The names of a header."""
    if not line:
        raise ValueError(f"{path}: the file is empty")
    cells = _split(line.removeprefix(codecs.BOM_UTF8))
    if cells is None:
        raise ValueError(
            f"{path}, line 1: the header is no UTF-8 text with closed quotes and names of at most "
            f"{csv.field_size_limit()} characters"
        )
    return [cell.strip() for cell in cells]


def _check_names(place: str, header: list[str], names: tuple[str, ...]) -> None:
    """Refuse a header that does not have each name once."""
    for name in names:
        if header.count(name) != 1:
            count = "more than one" if name in header else "no"
            raise ValueError(f"{place}: {count} column {name!r}")


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
