"""Unpacking: a source's archive or workbook becomes the text file that is read."""

import csv
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpbt.owners.cli.parsing import InputError


def unpack_compressed_file(download: Path, file: Path) -> None:
    """Unpack a file of the Unix `compress` program (.Z) with the program gzip.

    Python's standard library cannot read this format.

    Raises:
        InputError: naming the file, if it is broken or gzip is not installed.
    """
    try:
        completed = subprocess.run(["gzip", "-dc", str(download)], capture_output=True, check=True)
    except FileNotFoundError:
        raise InputError(f"{download.name}: the program gzip is needed to unpack it") from None
    except subprocess.CalledProcessError as error:
        raise InputError(
            f"{download.name}: {error.stderr.decode(errors='replace').strip()}"
        ) from None
    file.write_bytes(completed.stdout)


def extract_from_tar(download: Path, file: Path, *, member: str) -> None:
    """Unpack the file called `member` from a tar archive.

    Raises:
        InputError: naming the archive, if it is broken or has no such file.
    """
    try:
        with tarfile.open(download) as archive:
            name = next((name for name in archive.getnames() if Path(name).name == member), None)
            content = None if name is None else archive.extractfile(name)
            if content is None:
                raise InputError(f"{download.name}: no file {member!r} in the archive")
            with open(file, "wb") as out:
                shutil.copyfileobj(content, out)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(f"{download.name}: a broken archive: {error}") from None


def convert_workbook(
    download: Path, file: Path, *, sheet: str | int, header: int, names: Sequence[str]
) -> None:
    """Write columns of a workbook's sheet (.xls) as CSV.

    Values stay as they are; whole numbers are written without ".0".

    Args:
        download: the workbook.
        file: the CSV file to write.
        sheet: the sheet's name or number.
        header: the line of the sheet, from 0, that holds the names; blanks in them become
            underscores.
        names: the columns to keep; if two have one name, the later one is kept. Lines without a
            value in the last of these columns (blank lines and totals) are left out.

    Raises:
        InputError: naming the file, if it is not a workbook, if it lacks the sheet or a column, or
            if the package xlrd is not installed.
    """
    try:
        import xlrd
    except ImportError:
        raise InputError(f"{download.name}: reading a workbook needs the package xlrd") from None
    try:
        book: Any = xlrd.open_workbook(str(download))
        content = (
            book.sheet_by_name(sheet) if isinstance(sheet, str) else book.sheet_by_index(sheet)
        )
        place = {
            str(cell).strip().replace(" ", "_"): k
            for k, cell in enumerate(content.row_values(header))
        }
    except (xlrd.biffh.XLRDError, IndexError) as error:
        raise InputError(f"{download.name}: {error}") from None
    absent = [name for name in names if name not in place]
    if absent:
        raise InputError(
            f"{download.name}, line {header + 1}: no column {absent[0]!r}; there are {list(place)}"
        )
    rows = (
        [content.cell_value(k, place[name]) for name in names]
        for k in range(header + 1, content.nrows)
    )
    with open(file, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_decode_text(cell) for cell in row] for row in rows if row[-1] != "")


def _decode_text(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
