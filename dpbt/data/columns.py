"""Whole columns of a private file, read cell by cell as `cells` says.

Each function gives for every cell of a column exactly what the function of one cell gives. Columns
are read as fast as their container allows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set, Sized
from typing import Any, TypeVar

import numpy as np

from dpbt.data.cells import Cell, number, truth, word

RawColumn = Any
"""A column as a caller has it: whatever `cells_of` takes."""

ColumnCells = np.ndarray | list
"""The cells of a column, as `cells_of` gives them."""

Reading = TypeVar("Reading")
"""What a cell is read as."""


def cells_of(values: RawColumn) -> ColumnCells:
    """The cells of a column: an array of one dimension, or a list of the cells as they were given.

    No cell is converted to suit another. A list stays a list, because NumPy would find one type for
    all of its cells. Arrow arrays are asked for their Python values, and a value that has none is
    None.

    Args:
        values: a sequence, a NumPy or JAX array, a pandas Series or extension array, or an Arrow
            array.

    Raises:
        ValueError: if it is no column: text, a mapping, a set, a value without a length, or an
            array that does not have one dimension.
    """
    cells = _unpacked(values)
    if isinstance(cells, np.ndarray) and cells.ndim != 1:
        raise ValueError(f"a column must have one dimension, got {cells.ndim}")
    return cells


def _unpacked(values: RawColumn) -> ColumnCells:
    """The cells of a container, of any number of dimensions; ValueError if it is no container."""
    if isinstance(values, np.ma.MaskedArray):
        return values.tolist() if values.ndim == 1 else values
    if isinstance(values, np.ndarray):
        return np.asarray(values)
    if hasattr(values, "to_pylist"):
        return _arrow_cells(values)
    if hasattr(values, "__array__") and isinstance(getattr(values, "dtype", None), np.dtype):
        return np.asarray(values)
    if not _is_sequence(values):
        raise ValueError(f"a column must be a sequence of cells, got {type(values).__name__}")
    return list(values)


def _is_sequence(values: RawColumn) -> bool:
    if isinstance(values, str | bytes | bytearray | Mapping | Set):
        return False
    return isinstance(values, Sized) and isinstance(values, Iterable)


def read_numbers(cells: ColumnCells) -> np.ndarray:
    """float64[N]: `number` of each cell of a column that `cells_of` gave."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # a warning would say that some row holds a large number
            numbers = cells.astype(np.float64)
        numbers[np.isnan(numbers)] = np.nan
        return numbers
    return np.array(_each(cells, number), np.float64)


def read_codes(cells: ColumnCells, listed: Sequence[str]) -> np.ndarray:
    """i32[N]: for each cell the index of its word in `listed`; -1 for another word, -2 for none.

    Args:
        cells: a column that `cells_of` gave.
        listed: the declared words, each as `declared` gives it.
    """
    codes = {text: index for index, text in enumerate(listed)}

    def code(cell: Cell) -> int:
        text = word(cell, codes)
        return -2 if text is None else codes.get(text, -1)

    return np.array(_each(cells, code), np.int32)


def read_truths(cells: ColumnCells, true: str, false: str) -> np.ndarray:
    """i8[N]: `truth` of each cell of a column that `cells_of` gave: 1, 0, or -1 for missing."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "b":
        return cells.astype(np.int8)

    def code(cell: Cell) -> int:
        value = truth(cell, true, false)
        return -1 if value is None else int(value)

    return np.array(_each(cells, code), np.int8)


def _each(cells: ColumnCells, read: Callable[[Cell], Reading]) -> list[Reading]:
    """The reading of each cell.

    Equal cells of one plain kind are read once, which changes no answer.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        distinct, inverse = np.unique(cells, return_inverse=True)
        distinct_readings = [read(cell) for cell in distinct]
        return [distinct_readings[index] for index in inverse.tolist()]

    plain = cells
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "U":
        plain = _text_cells(cells)

    known: dict[str, Reading] = {}
    readings: list[Reading] = []
    for cell in plain:
        if type(cell) is not str:
            readings.append(read(cell))
            continue
        if cell not in known:
            known[cell] = read(cell)
        readings.append(known[cell])
    return readings


def _text_cells(cells: np.ndarray) -> list:
    """Python text of an array; None where its memory holds no text."""
    try:
        return cells.tolist()
    except Exception:
        return [_text_cell(cells, index) for index in range(len(cells))]


def _text_cell(cells: np.ndarray, index: int) -> str | None:
    try:
        return cells[index]
    except Exception:
        return None


def _arrow_cells(values: RawColumn) -> list:
    """Python values of an Arrow array.

    A value that Python cannot hold, such as a date in the year 10000, is None.
    """
    try:
        return values.to_pylist()
    except Exception:  # it may be raised on one private value, so it must not be seen
        return [_arrow_cell(scalar) for scalar in values]


def _arrow_cell(scalar: Any) -> Cell:
    try:
        return scalar.as_py()
    except Exception:
        return None
