"""Whole columns of a private file, read cell by cell as `cells` says.

Each function gives for every cell of a column exactly what the function of one cell gives. Columns
are read as fast as their container allows.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, Sized
from typing import Any

import numpy as np

from dpbt.data.cells import Cell, number, truth, word

RawColumn = Any
"""A column as a caller has it: whatever `cells_of` takes."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A column whose cells are read once for all rows that hold them.

    Attributes:
        distinct: the cells that occur, and perhaps others.
        index: int[N]: the place of each row's cell in `distinct`; -1 is the last one.
    """

    distinct: list
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)


ColumnCells = np.ndarray | list | Coded
"""The cells of a column, as `cells_of` gives them."""

_ARROW_NUMBERS = {
    *("halffloat", "float", "double"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}
_ARROW_CODED = {"bool", "string", "large_string"}
"""Types whose values are made once for all rows that hold them.

Not all types can be: of half floats, pyarrow joins the dictionaries of several chunks wrongly.
"""

_EXACT = 2**53
"""Integers of smaller magnitude are floats of 64 bits."""


def cells_of(values: RawColumn) -> ColumnCells:
    """The cells of a column: an array of one dimension, or a list of the cells as they were given.

    No cell is converted to suit another. A list stays a list, because NumPy would find one type for
    all of its cells. Arrow arrays are read as their Python values are, and a value that has none is
    None. Their numbers become an array, and other values are made once for all rows that hold them.

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
        return _of_arrow(values)
    if hasattr(values, "__array__") and isinstance(getattr(values, "dtype", None), np.dtype):
        return np.asarray(values)
    if not is_sequence(values):
        raise ValueError(f"a column must be a sequence of cells, got {type(values).__name__}")
    return _listed(values, lambda: list(values), by_position(values).__getitem__)


def is_sequence(values: object) -> bool:
    """Whether a value has a length and an order: no text, no mapping and no set."""
    if isinstance(values, str | bytes | bytearray | Mapping | Set):
        return False
    return isinstance(values, Sized) and isinstance(values, Iterable)


def by_position(values: RawColumn) -> Any:
    """A container whose indices and slices are places, also if it has labels, as in pandas."""
    return getattr(values, "iloc", values)


def tried(read: Callable[..., Any], *given: Any) -> Any:
    """What `read` returns, or None if it raises: the error may be of one private value."""
    try:
        return read(*given)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # errors of Rust, as in polars, are no Exception
        return None


def _listed(values: RawColumn, whole: Callable[[], list], cell: Callable[[int], Cell]) -> list:
    """The cells of a container as a list.

    If some cell cannot be made, such as a date in the year 10000, each is made by itself, and what
    cannot be is None.
    """
    found = tried(whole)
    return [tried(cell, k) for k in range(len(values))] if found is None else found


def read_numbers(cells: ColumnCells) -> np.ndarray:
    """float64[N]: `number` of each cell of a column that `cells_of` gave."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # a warning would say that some row holds a large number
            numbers = cells.astype(np.float64)
        numbers[np.isnan(numbers)] = np.nan
        return numbers
    return _each(cells, number, np.float64)


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

    return _each(cells, code, np.int32)


def read_truths(cells: ColumnCells, true: str, false: str) -> np.ndarray:
    """i8[N]: `truth` of each cell of a column that `cells_of` gave: 1, 0, or -1 for missing."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "b":
        return cells.astype(np.int8)

    def code(cell: Cell) -> int:
        value = truth(cell, true, false)
        return -1 if value is None else int(value)

    return _each(cells, code, np.int8)


def _each(cells: ColumnCells, read: Callable[[Cell], Any], dtype: type) -> np.ndarray:
    """dtype[N]: the reading of each cell.

    Equal cells of one plain kind are read once, which changes no answer.
    """
    if isinstance(cells, Coded):
        return _each(cells.distinct, read, dtype)[cells.index]
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        distinct, inverse = np.unique(cells, return_inverse=True)
        return np.array([read(cell) for cell in distinct], dtype)[inverse]

    plain = cells
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "U":
        text = cells  # its memory may hold no text
        plain = _listed(text, text.tolist, text.__getitem__)

    known: dict[str, Any] = {}
    readings: list[Any] = []
    for cell in plain:
        if type(cell) is not str:
            readings.append(read(cell))
            continue
        if cell not in known:
            known[cell] = read(cell)
        readings.append(known[cell])
    return np.array(readings, dtype)


def _of_arrow(values: RawColumn) -> ColumnCells:
    """The cells of an Arrow array, each read as its Python value is."""
    try:
        kind = getattr(values.type, "value_type", values.type)  # that of a dictionary's values
        if str(values.type) in _ARROW_NUMBERS:
            numbers = _arrow_numbers(values)
            return _arrow_cells(values) if numbers is None else numbers
        return _arrow_codes(values) if str(kind) in _ARROW_CODED else _arrow_cells(values)
    except Exception:  # a type that has no codes, or one private value: each cell by itself
        return _arrow_cells(values)


def _arrow_numbers(values: RawColumn) -> np.ndarray | None:
    """The numbers of an Arrow array, with NaN for missing ones.

    They are None if a missing one makes floats of integers that floats do not hold.
    """
    numbers = values.to_numpy(zero_copy_only=False)
    if str(values.type).endswith(("float", "double")):
        return numbers.astype(np.float64)  # Python's floats, also in words
    with np.errstate(all="ignore"):  # a warning would tell of some row
        exact = not values.null_count or not np.any(np.abs(numbers) >= _EXACT)
    return numbers if exact else None


def _arrow_codes(values: RawColumn) -> ColumnCells:
    """The distinct cells of an Arrow array, and None for missing ones."""
    encoded = values.dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    index = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    if len(encoded.dictionary) > len(index):  # it is that of many more rows
        return _arrow_cells(values)
    return Coded([*_arrow_cells(encoded.dictionary), None], index)


def _arrow_cells(values: RawColumn) -> list:
    """Python values of an Arrow array."""
    return _listed(values, values.to_pylist, lambda k: values[k].as_py())
