"""A private file, read so that each row is read by itself: a line of text, or a row of Parquet.

Private rows never raise an error and never touch each other. A line that cannot be read is a row
without any value, and the lines around it are read as if it were not there.
"""

import codecs
import contextlib
import csv
import errno
import gzip
import importlib
import itertools
import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dpbt.common.validate import as_path
from dpbt.data.cells import RawColumn

DELIMITERS = ",;\t|"
"""What separates cells; the header says which it is, if nothing else does."""


class Form(NamedTuple):
    """How a file of text is laid out; it is public.

    Attributes:
        delimiter: between cells, one character. None for that of `DELIMITERS` with which the header
            has the columns that are asked for, or else the most; a comma without a header.
        names: of the columns, in their order, of a file without a header; None with one.
        row_names: whether each line begins with a name of its row, for which the header has none.
    """

    delimiter: str | None = None
    names: tuple[str, ...] | None = None
    row_names: bool = False


CSV = Form()

HEADER = (
    "; is there a header line (else --no-header), and are fields separated by one of , ; | or tabs "
    "(else --delimiter)?"
)
"""What a header that lacks a name may mean; it shows no name, which may be a cell."""


def names_of(path: str | Path, form: Form = CSV) -> list[str]:
    """The names in the first line of a CSV file, or in the schema of a Parquet file.

    A file without a header has those that `form` states, and is not read.

    Raises:
        ValueError: for an empty file, and a header that cannot be read.
        ImportError: as `blocks_of_file`.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    if path.suffix.lower() == ".parquet":
        with _opened_parquet(path, ()) as given:
            return given.schema_arrow.names
    if form.names is not None:
        return [*form.names]
    with _opened(path) as file:
        return _names(path, file.readline(), (), form.delimiter)[0]


def types_of(path: str | Path) -> dict[str, str]:
    """The columns of a Parquet file and their types by Arrow's names, read off its schema alone.

    Neither its statistics nor its dictionaries are read, because they hold values of rows. The type
    of a dictionary is that of its values.

    Raises:
        ValueError: for what is no Parquet file.
        ImportError: as `blocks_of_file`.
        OSError: if the file cannot be read.
    """
    with _opened_parquet(as_path("path", path), ()) as given:
        return {field.name: _type(field.type) for field in given.schema_arrow}


_WITHOUT_WORDS = (
    "date",
    "time",
    "duration",
    "list",
    "large_list",
    "fixed_size_list",
    "struct",
    "map",
)
"""How types begin of which no cell is a number, a word or a Boolean."""


def is_unread(kind: str) -> bool:
    """Whether no cell of such a type is read, as of dates and lists."""
    return kind.startswith(_WITHOUT_WORDS)


def _type(kind: Any) -> str:
    values = getattr(kind, "value_type", None) if str(kind).startswith("dictionary") else kind
    return str(values)


def read_columns(path: str | Path, names: Iterable[str], form: Form = CSV) -> dict[str, RawColumn]:
    """The cells of the named columns of a file, all at once; see `blocks_of_file`."""
    nothing = {name: [] for name in names}
    return [nothing, *blocks_of_file(path, tuple(nothing), None, form)][-1]


def blocks_of_file(
    path: str | Path,
    names: tuple[str, ...],
    rows: int | None,
    form: Form = CSV,
    faults: Counter[str] | None = None,
) -> Iterator[dict[str, RawColumn]]:
    """The cells of the named columns of a CSV file, or of a Parquet file (`.parquet`).

    A CSV file has a header, then cells separated by commas or as `form` says, as UTF-8 text. It may
    be packed with gzip (`.gz`), or alone in a `.zip`. Cells may be in double quotes. Each physical
    line below the header is a row, which is a function of that line alone. A line
    break within quotes is not supported: the lines on its two sides are two rows, and as a rule
    both are malformed. A line is malformed in any of these cases:

    - it is blank, or has another number of cells than the header;
    - a quote is not closed, or is closed before the cell ends;
    - it holds a NUL or a byte that is not UTF-8;
    - a cell is longer than `csv.field_size_limit()`.

    All cells of a malformed row are None, its label too, so the row is absent from `dpbt.table` by
    itself. Lines end with a line feed, with or without a carriage return before it. A byte order
    mark is dropped.

    A Parquet file declares the types of its columns, so each cell is read by itself there, too. A
    column of dates or lists is refused, since none of its cells would be read. Of a file only the
    named columns are read. The rows are private; `file_report.report` shows the owner of
    a file whether the declaration fits it.

    Args:
        path: the file.
        names: of the columns.
        rows: how many rows a block has at most; None for one block of all of them.
        form: how the text of a CSV file is laid out.
        faults: counts malformed lines by what is wrong with them. That is private, and for their
            owner alone.

    Raises:
        ValueError: for a file that is empty or no table, lacks a column or holds it twice or as
            dates, or for a damaged archive. It names the file, and of a header line 1. No row is an
            error.
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

    with _opened(path) as file:
        if form.names is None:
            header, delimiter = _names(path, file.readline(), names, form.delimiter)
            check_names(f"{path}, line 1", header, names, HEADER)
        else:
            header, delimiter = [*form.names], form.delimiter or ","
            check_names("the names that were given", header, names)
        header = [""] * form.row_names + header
        places = [header.index(name) for name in names]
        while lines := list(itertools.islice(file, rows)):
            columns: list[list[str | None]] = [[] for _ in names]
            for line in lines:
                cells = _split(line, delimiter)
                whole = cells is not None and len(cells) == len(header)
                if faults is not None and not whole:
                    faults[_fault(line, cells, len(header))] += 1
                for column, place in zip(columns, places, strict=True):
                    column.append(cells[place] if cells is not None and whole else None)
            yield dict(zip(names, columns, strict=True))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The lines of a file, which may be packed.

    Raises:
        ValueError: for an archive that is damaged or has several files, also while it is read.
        OSError: if the file cannot be opened.
    """
    kind = path.suffix.lower()
    with open(path, "rb") as file:
        try:
            if kind == ".zip":
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
            elif kind == ".gz":
                yield gzip.GzipFile(fileobj=file)  # type: ignore[misc]
            else:
                yield file
        except _DAMAGED as error:
            if getattr(error, "errno", None) not in (None, errno.EINVAL):  # of the disk
                raise
            raise ValueError(f"{path}: an archive that is damaged or locked") from None


_DAMAGED = OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError
"""What archives raise, whose words may show what they hold."""


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
            check_names(str(path), given.schema_arrow.names, names)
            for name in names:
                kind = _type(given.schema_arrow.field(name).type)
                if is_unread(kind):
                    raise ValueError(
                        f"{path}: column {name!r} is of type {kind}, of which no cell is read; "
                        "write it as numbers or text, such as years, or leave it out of the domain"
                    )
            yield given
        except (arrow.ArrowException, OSError):  # their words may show a value
            raise ValueError(f"{path}: no Parquet file that pyarrow can read") from None


def _names(
    path: str | Path, line: bytes, names: tuple[str, ...], delimiter: str | None = None
) -> tuple[list[str], str]:
    """The names of a header, and what separates them."""
    if not line:
        raise ValueError(f"{path}: the file is empty")
    line, tried = line.removeprefix(codecs.BOM_UTF8), delimiter or DELIMITERS
    read = {each: _split(line, each) or [] for each in tried}
    found = {each: [cell.strip() for cell in cells] for each, cells in read.items()}
    best = max(found, key=lambda each: (set(names) <= set(found[each]), len(found[each])))
    if not read[best] or (len(read[best]) == 1 and not read[tried[0]]):
        raise ValueError(
            f"{path}, line 1: the header is no UTF-8 text with closed quotes and names of at most "
            f"{csv.field_size_limit()} characters"
        )
    return found[best], best


def check_names(place: str, header: list[str], names: tuple[str, ...], words: str = "") -> None:
    """Refuse a header that does not have each name once."""
    for name in names:
        if header.count(name) != 1:
            count = "more than one" if name in header else "no"
            raise ValueError(f"{place}: {count} column {name!r}{words * (name not in header)}")


def _fault(line: bytes, cells: list[str] | None, width: int) -> str:
    """What is wrong with a malformed line, for the eyes of its owner."""
    if cells:
        return f"{len(cells)} cells, where {width} have names"
    if not line.strip():
        return "nothing"
    if b"\0" in line or "\ufffd" in line.decode("utf-8", "replace"):
        return "a NUL or a byte that is not UTF-8: save the file as UTF-8"
    return "an open quote or an overlong cell; a line break within quotes makes several lines"


def _split(line: bytes, delimiter: str) -> list[str] | None:
    """The cells of one line, by that line alone; None if it is malformed."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if b"\0" in line:
        return None
    try:
        text = line.decode("utf-8")
        how: Any = {"delimiter": delimiter, "strict": True, "skipinitialspace": delimiter != "\t"}
        return next(csv.reader([text], **how), None)
    except (UnicodeDecodeError, csv.Error):
        return None
