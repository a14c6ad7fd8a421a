"""Reads private files row by row: lines of a text file, or rows of a Parquet file.

No private row raises an error or changes how another row is read. A line that cannot be read
becomes a row without any value, and does not affect the lines around it.
"""

import codecs
import contextlib
import csv
import errno
import gzip
import importlib
import itertools
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dpbt.common.validate import as_path
from dpbt.data.cells import RawColumn

DELIMITERS = ",;\t|"
"""The characters that may separate cells. The header decides among them if the caller does not."""


class TextForm(NamedTuple):
    """The layout of a text file; public.

    Attributes:
        delimiter: the character between cells. None chooses of `DELIMITERS` the one with which the
            header has the columns to read, or else the most columns; without a header, a comma.
        names: the names of the columns of a file without a header, in order; None with a header.
        row_names: whether each line begins with a name of its row, for which the header has none.
        skip_lines: how many lines stand above the header, or above the rows of a file without one,
            such as a title; they are not read.
    """

    delimiter: str | None = None
    names: tuple[str, ...] | None = None
    row_names: bool = False
    skip_lines: int = 0


CSV_WITH_HEADER = TextForm()

HEADER_ADVICE = (
    "; is there a header line (else --no-header), is it the first line (else --skip-lines N), and "
    "are fields separated by one of , ; | or tabs (else --delimiter)?"
)
"""The end of an error on a header that lacks a name. It shows no name, which may be a cell."""


def column_names(path: str | Path, form: TextForm = CSV_WITH_HEADER) -> list[str]:
    """The names of the columns of a CSV or Parquet file.

    They are in the first line of a CSV file, and in the schema of a Parquet file.

    If `form` states the names, they are returned, and the file is not read.

    Raises:
        ValueError: for an empty file, and a header that cannot be read.
        ImportError: as `iter_column_blocks`.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    if path.suffix.lower() == ".parquet":
        with _open_parquet(path, ()) as parquet:
            return parquet.schema_arrow.names
    if form.names is not None:
        return [*form.names]
    with _open_lines(path) as file:
        return _read_header(path, file, (), form).names


def parquet_column_types(path: str | Path) -> dict[str, str]:
    """The name of the type of each column of a Parquet file.

    The names are Arrow's, and are read from the schema alone.

    Neither statistics nor dictionaries are read, because they hold values of rows. The type of a
    dictionary is that of its values.

    Raises:
        ValueError: for a file that is no Parquet file.
        ImportError: as `iter_column_blocks`.
        OSError: if the file cannot be read.
    """
    with _open_parquet(as_path("path", path), ()) as parquet:
        return {field.name: _type_name_of_values(field.type) for field in parquet.schema_arrow}


_UNREAD_TYPE_PREFIXES = (
    "time32",
    "time64",
    "duration",
    "list",
    "large_list",
    "fixed_size_list",
    "struct",
    "map",
)
"""The prefixes of Arrow's types whose cells are neither numbers nor words, Booleans or dates."""


def is_unreadable_type(type_name: str) -> bool:
    """Whether cells of this type, such as times and lists, are never read."""
    return type_name.startswith(_UNREAD_TYPE_PREFIXES)


def _type_name_of_values(arrow_type: Any) -> str:
    """The name of an Arrow type, or of the type of a dictionary's values."""
    values = (
        getattr(arrow_type, "value_type", None)
        if str(arrow_type).startswith("dictionary")
        else arrow_type
    )
    return str(values)


def read_columns(
    path: str | Path, names: Iterable[str], form: TextForm = CSV_WITH_HEADER
) -> dict[str, RawColumn]:
    """Read the named columns of a CSV or Parquet file, all rows at once.

    `iter_column_blocks` says how.
    """
    no_rows = {name: [] for name in names}
    return [no_rows, *iter_column_blocks(path, tuple(no_rows), None, form)][-1]


def iter_column_blocks(
    path: str | Path,
    names: tuple[str, ...],
    max_rows: int | None,
    form: TextForm = CSV_WITH_HEADER,
    faults: Counter[str] | None = None,
    *,
    skip_blank_lines: bool = False,
) -> Iterator[dict[str, RawColumn]]:
    """Read the named columns of a CSV or Parquet file, some rows at a time.

    A Parquet file is one named `.parquet`.

    A CSV file is UTF-8 text: a header, then rows of cells, separated by commas or as `form` says.
    It may be packed with gzip (`.gz`), or be the only file of a `.zip`. Cells may be in double
    quotes. Each physical line below the header is a row, which is a function of that line alone. A
    line break within quotes is not supported: the lines on its two sides are two rows, and as a
    rule both are malformed. A line is malformed in any of these cases:

    - it is blank, or has another number of cells than the header, in which a delimiter at the end
      makes no cell;
    - a quote is not closed, or is closed before the cell ends;
    - it holds a NUL or a byte that is not UTF-8;
    - a cell is longer than `csv.field_size_limit()`.

    All cells of a malformed row are None, also its label, so the row is absent from `dpbt.table`.
    Lines end with a line feed, with or without a carriage return before it. A byte order mark is
    dropped.

    A Parquet file declares the types of its columns, so there, too, each cell is read on its own. A
    column of times or lists is refused, since none of its cells would be read. Only the named
    columns of a file are read. The rows are private; `file_report.owner_report_of_rows` shows the
    owner of a file whether the declaration fits it.

    Args:
        path: the file.
        names: the names of the columns to read.
        max_rows: the largest number of rows of a block; None for one block of all rows.
        form: the layout of a CSV file.
        faults: malformed lines are counted here by what is wrong with them. The counts are private,
            and for the owner alone.
        skip_blank_lines: whether blank lines are no rows, as other readers have it. The number of
            rows then follows from them.

    Raises:
        ValueError: for a file that is empty or no table, lacks a column or holds it twice or as
            times, or for a damaged archive. It names the file, and line 1 for a header. No row is
            an error.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    if path.suffix.lower() == ".parquet":
        yield from _iter_parquet_blocks(path, names, max_rows)
        return

    with _open_lines(path) as file:
        header_form = _read_header(path, file, names, form)
        header = [*header_form.names]
        delimiter = header_form.delimiter
        if form.names is None:
            check_header_has_names(
                f"{path}, line {form.skip_lines + 1}", header, names, HEADER_ADVICE
            )
        else:
            check_header_has_names(f"{path}: the names that were given", header, names)
        header = [""] * form.row_names + header
        places = [header.index(name) for name in names]
        while lines := list(itertools.islice(file, max_rows)):
            columns: list[list[str | None]] = [[] for _ in names]
            for line in lines:
                if skip_blank_lines and not line.strip():
                    continue
                cells = _split_csv_line(line, delimiter)
                has_blank_end = cells is not None and len(cells) == len(header) + 1
                if has_blank_end and header_form.ends_with_delimiter and cells and not cells[-1]:
                    cells.pop()
                is_well_formed = cells is not None and len(cells) == len(header)
                if faults is not None and not is_well_formed:
                    faults[_describe_fault(line, cells, len(header))] += 1
                for column, place in zip(columns, places, strict=True):
                    column.append(cells[place] if cells is not None and is_well_formed else None)
            yield dict(zip(names, columns, strict=True))


def _iter_parquet_blocks(
    path: Path, names: tuple[str, ...], max_rows: int | None
) -> Iterator[dict[str, RawColumn]]:
    """Read the named columns of a Parquet file, some rows at a time.

    No block crosses the row groups of the file.
    """
    with _open_parquet(path, names) as parquet:
        if max_rows is None:
            table = parquet.read(columns=list(names))
            yield {name: table.column(name) for name in names}
            return
        for group in range(parquet.num_row_groups):
            # One iteration a group, as pyarrow holds what it read until the iteration ends.
            for batch in parquet.iter_batches(max_rows, row_groups=[group], columns=list(names)):
                yield {name: batch.column(name) for name in names}


@contextlib.contextmanager
def _open_lines(path: Path) -> Iterator[BinaryIO]:
    """Open a file, which may be packed, to read its lines.

    Raises:
        ValueError: for an archive that is damaged or has several files, also while it is read.
        OSError: if the file cannot be opened.
    """
    suffix = path.suffix.lower()
    with open(path, "rb") as file:
        try:
            if suffix == ".zip":
                with zipfile.ZipFile(file) as archive:
                    names = [
                        name
                        for name in archive.namelist()
                        if not name.endswith("/") and not name.startswith("__MACOSX/")
                    ]
                    if len(names) != 1:
                        raise ValueError(f"{path}: an archive must hold one file")
                    with archive.open(names[0]) as inner:
                        yield inner  # type: ignore[misc]
            elif suffix == ".gz":
                yield gzip.GzipFile(fileobj=file)  # type: ignore[misc]
            else:
                yield file
        except _ARCHIVE_ERRORS as error:
            if getattr(error, "errno", None) not in (None, errno.EINVAL):  # an error of the disk
                raise
            raise ValueError(f"{path}: an archive that is damaged or locked") from None


_ARCHIVE_ERRORS = OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError
"""The errors that damaged archives raise. Their messages may show contents."""


@contextlib.contextmanager
def _open_parquet(path: Path, names: tuple[str, ...]) -> Iterator[Any]:
    """Open a Parquet file that has each of the named columns exactly once.

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
    with open(path, "rb") as file:  # errors of opening stay as they are
        try:
            opened = parquet.ParquetFile(file)
            check_header_has_names(str(path), opened.schema_arrow.names, names)
            for name in names:
                kind = _type_name_of_values(opened.schema_arrow.field(name).type)
                if is_unreadable_type(kind):
                    raise ValueError(
                        f"{path}: column {name!r} is of type {kind}, of which no cell is read; "
                        "write it as numbers or text, such as years, or leave it out of the domain"
                    )
            yield opened
        except (arrow.ArrowException, OSError):  # their messages may show a value
            raise ValueError(f"{path}: no Parquet file that pyarrow can read") from None


class _Header(NamedTuple):
    """The header of a CSV file.

    Attributes:
        names: the names of the columns in order.
        delimiter: the character that separates them.
        ends_with_delimiter: whether a delimiter stands behind the last name, as behind the last
            cell of a line. It makes no column.
    """

    names: list[str]
    delimiter: str
    ends_with_delimiter: bool = False


def _read_header(path: Path, file: BinaryIO, names: tuple[str, ...], form: TextForm) -> _Header:
    """Read the header of an open file, or take the names that its form states.

    The header stands behind the lines that are skipped.

    Raises:
        ValueError: for a header that cannot be read, saying what the file seems to be.
    """
    if path.suffix.lower() in _WORKBOOK_SUFFIXES:
        raise ValueError(f"{path}: {_WORKBOOK}")
    for _ in range(form.skip_lines):
        file.readline()
    if form.names is not None:
        return _Header([*form.names], form.delimiter or ",")
    place = f"{path}, line {form.skip_lines + 1}"
    line = file.readline()
    if not line:
        where = f", below the {form.skip_lines} lines that are skipped" * bool(form.skip_lines)
        raise ValueError(f"{path}: the file is empty{where}")
    if form.skip_lines == 0:
        line = line.removeprefix(codecs.BOM_UTF8)
        for magic, words in _OTHER_FORMATS.items():
            if line.lstrip().lower().startswith(magic):
                raise ValueError(f"{path}: {words}")
    if not line.strip():
        raise ValueError(
            f"{place}: a blank line, where the header was expected; --skip-lines N skips the lines "
            "above it"
        )
    if re.fullmatch(rb"\s*\"?sep=.\"?\s*", line):
        raise ValueError(
            f"{place}: `sep=`, a note to Excel, where the header was expected; "
            f"--skip-lines {form.skip_lines + 1} skips it"
        )
    return _parse_header(place, line, names, form.delimiter)


_WORKBOOK_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".ods")

_WORKBOOK = "a workbook, as of Excel, and no CSV file; save its sheet there as `CSV UTF-8`"

_UTF_16 = (
    "text in UTF-16, which Excel calls Unicode; save it as `CSV UTF-8`, or convert it, as by "
    "iconv -f utf-16 -t utf-8"
)

_OTHER_FORMATS = {
    b"pk\x03\x04": f"{_WORKBOOK}; or a zip archive, whose name must end with .zip",
    b"\xd0\xcf\x11\xe0": _WORKBOOK,
    b"\x1f\x8b": "a file that is packed with gzip, so its name must end with .gz",
    b"par1\x15": "a Parquet file, so its name must end with .parquet",
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    b"<!doctype": "a page of HTML, and no table; download the data itself",
    b"<html": "a page of HTML, and no table; download the data itself",
    b"<?xml": "an XML file; save it as CSV",
    b"{": "a JSON file; save it as CSV",
}
"""What a file is whose first line begins so, in lower case, and what to do."""


def _parse_header(
    place: str, line: bytes, names: tuple[str, ...], delimiter: str | None = None
) -> _Header:
    """Split a line of a file into the names of a header.

    Without a `delimiter` it is split by the one of `DELIMITERS` with which it has all `names`, or
    else the most cells.
    """
    candidates = delimiter or DELIMITERS
    cells_by = {candidate: _split_csv_line(line, candidate) or [] for candidate in candidates}
    names_by = {
        candidate: [cell.strip() for cell in cells] for candidate, cells in cells_by.items()
    }
    best = max(names_by, key=lambda one: (set(names) <= set(names_by[one]), len(names_by[one])))
    if not cells_by[best] or (len(cells_by[best]) == 1 and not cells_by[candidates[0]]):
        raise ValueError(
            f"{place}: the header is no UTF-8 text with closed quotes and names of at most "
            f"{csv.field_size_limit()} characters; a file in Latin-1 can be converted by "
            "iconv -f latin1 -t utf-8"
        )
    if len(names_by[best]) == 1 and len(names) > 1:
        raise ValueError(
            f"{place}: one cell, where a header of several columns was expected; is it a title "
            "(--skip-lines N skips the lines above the header), or are fields separated by "
            "something else than , ; | or tabs (--delimiter)?"
        )
    ends_with_delimiter = len(names_by[best]) > 1 and not names_by[best][-1]
    found_names = names_by[best][:-1] if ends_with_delimiter else names_by[best]
    return _Header(found_names, best, ends_with_delimiter)


def check_header_has_names(
    place: str, header: list[str], names: tuple[str, ...], advice: str = ""
) -> None:
    """Refuse a header that does not have each name exactly once.

    Args:
        place: where the header is; the error begins with it.
        header: the names that there are.
        names: the names that there must be.
        advice: the end of the error if a name is missing.
    """
    for name in names:
        if header.count(name) != 1:
            if name in header:
                raise ValueError(
                    f"{place}: more than one column {name!r}; rename them, or leave them out"
                )
            raise ValueError(f"{place}: no column {name!r}{advice}")


def _describe_fault(line: bytes, cells: list[str] | None, width: int) -> str:
    """Describe what is wrong with a malformed line.

    The words are for its owner alone.
    """
    if cells and len(cells) == width + 1 and not cells[-1]:
        return (
            f"a delimiter at the end, where {width} cells have names; put one at the end of the "
            "header, too, or, if a name of its row begins each line, give --row-names"
        )
    if cells:
        return f"{len(cells)} cells, where {width} have names"
    if not line.strip():
        return "nothing"
    if b"\0" in line or "\ufffd" in line.decode("utf-8", "replace"):
        return "a NUL or a byte that is not UTF-8: save the file as UTF-8"
    return "an open quote or an overlong cell; a line break within quotes makes several lines"


def _split_csv_line(line: bytes, delimiter: str) -> list[str] | None:
    """Split one line of a CSV file into its cells; None if it is malformed."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if b"\0" in line:
        return None
    try:
        text = line.decode("utf-8")
        options: Any = {
            "delimiter": delimiter,
            "strict": True,
            "skipinitialspace": delimiter != "\t",
        }
        return next(csv.reader([text], **options), None)
    except (UnicodeDecodeError, csv.Error):
        return None
