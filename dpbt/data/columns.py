"""Whole columns of a private file, read cell by cell as `cells` says, and as fast as their
container allows.

Each function gives exactly what the function of one cell gives for each of its cells.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set, Sized
from typing import Any

import numpy as np

from dpbt.data.cells import number, truth, word


def cells_of(values: Any) -> np.ndarray | list:
    """The cells of a column: an array of one dimension, or a list that holds the cells as they were
    given.

    No cell is converted to suit another. A list stays a list, as NumPy would find one type for all
    of its cells. Arrow arrays are asked for their Python values, and a value that has none is None.

    Args:
        values: a sequence, a NumPy or JAX array, a pandas Series or extension array, or an Arrow
            array.

    Raises:
        ValueError: if it is no column: text, a mapping, a set, a value without a length, or an
            array of another number of dimensions than one.
    """
    if isinstance(values, np.ma.MaskedArray):
        found: Any = values.tolist() if values.ndim == 1 else values
    elif isinstance(values, np.ndarray):
        found = np.asarray(values)
    elif hasattr(values, "to_pylist"):
        found = _arrow_cells(values)
    elif hasattr(values, "__array__") and isinstance(getattr(values, "dtype", None), np.dtype):
        found = np.asarray(values)
    elif not _is_sequence(values):
        raise ValueError(f"a column must be a sequence of cells, got {type(values).__name__}")
    else:
        found = list(values)
    if isinstance(found, np.ndarray) and found.ndim != 1:
        raise ValueError(f"a column must have one dimension, got {found.ndim}")
    return found


def _is_sequence(values: Any) -> bool:
    if isinstance(values, str | bytes | bytearray | Mapping | Set):
        return False
    return isinstance(values, Sized) and isinstance(values, Iterable)


def read_numbers(cells: np.ndarray | list) -> np.ndarray:
    """float64[N]: `number` of each cell of a column that `cells_of` gave."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # a warning would say that some row holds a large number
            found = cells.astype(np.float64)
        found[np.isnan(found)] = np.nan
        return found
    return np.array(_each(cells, number), np.float64)


def read_codes(cells: np.ndarray | list, listed: Sequence[str]) -> np.ndarray:
    """i32[N]: for each cell the place of its word in `listed`; -1 for another word, -2 for a
    missing one.

    Args:
        cells: a column that `cells_of` gave.
        listed: the declared words, each as `declared` gives it.
    """
    places = {text: place for place, text in enumerate(listed)}

    def code(cell: Any) -> int:
        text = word(cell, places)
        return -2 if text is None else places.get(text, -1)

    return np.array(_each(cells, code), np.int32)


def read_truths(cells: np.ndarray | list, true: str, false: str) -> np.ndarray:
    """i8[N]: `truth` of each cell of a column that `cells_of` gave: 1, 0, or -1 for missing."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "b":
        return cells.astype(np.int8)

    def code(cell: Any) -> int:
        found = truth(cell, true, false)
        return -1 if found is None else int(found)

    return np.array(_each(cells, code), np.int8)


def _each(cells: np.ndarray | list, read: Callable[[Any], Any]) -> list:
    """The reading of each cell.

    Equal cells of one plain kind are read once, which changes no answer.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        distinct, places = np.unique(cells, return_inverse=True)
        answers = [read(cell) for cell in distinct]
        return [answers[place] for place in places.tolist()]
    plain: np.ndarray | list = cells
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "U":
        plain = _text_cells(cells)
    known: dict[str, Any] = {}
    found = []
    for cell in plain:
        if type(cell) is not str:
            found.append(read(cell))
            continue
        if cell not in known:
            known[cell] = read(cell)
        found.append(known[cell])
    return found


def _text_cells(cells: np.ndarray) -> list:
    """Python text of an array; None where its memory holds no text."""
    try:
        return cells.tolist()
    except Exception:
        return [_text_cell(cells, place) for place in range(len(cells))]


def _text_cell(cells: np.ndarray, place: int) -> Any:
    try:
        return cells[place]
    except Exception:
        return None


def _arrow_cells(values: Any) -> list:
    """Python values of an Arrow array.

    A value that Python cannot hold, such as a date in the year 10000, is None.
    """
    try:
        return values.to_pylist()
    except Exception:  # it may be raised on one private value, so it must not be seen
        return [_arrow_cell(scalar) for scalar in values]


def _arrow_cell(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except Exception:
        return None
