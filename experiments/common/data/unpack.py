"""Unpacking: a source's archive or workbook becomes the text file that is read."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpbt.cli.errors import InputError


def workbook(
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
        writer.writerows([_text(cell) for cell in row] for row in rows if row[-1] != "")


def _text(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
