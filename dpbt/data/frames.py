"""The rows that estimators are given: a data frame, an array, or a list of rows, column by column.

No container is converted as a whole, because one odd cell would then change how others are read.
"""

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from dpbt.data.cells import RawColumn, is_sequence, tried

Names = tuple[Hashable, ...]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows by columns. The cells and the number of rows are private.

    Attributes:
        count: N, the number of rows.
        width: F, the number of columns.
        names: the names of a data frame's columns; None for an array or a list.
        column: the cells of column j in 0..F - 1.
    """

    count: int
    width: int
    names: Names | None
    column: Callable[[int], RawColumn]


def names_of(frame: Any) -> Names | None:
    """The names of the columns of a data frame or an Arrow table; None for what is neither."""
    if isinstance(frame, np.ndarray | Mapping) or not hasattr(frame, "__getitem__"):
        return None
    names = getattr(frame, "column_names", None)
    if names is None:
        names = getattr(frame, "columns", None)
    return None if names is None or callable(names) else tuple(names)


def rows_of(data: Any, width: int | None = None) -> Rows:
    """The rows of a data frame (pandas, polars, Arrow), an array N x F, or a list of N rows.

    A row of a list is a sequence of cells, read in its order. With a public `width`, a row of
    another width is a row without any value, as a malformed line of a file is. So is what is no
    sequence, and a row that raises an error.

    Args:
        data: the rows.
        width: the declared number of columns, if there is one. It is read for lists only.

    Raises:
        TypeError: for a sparse matrix.
        ValueError: for something else, or an array that does not have two axes. Also for a frame
            that has two columns of one name. Also for a list without a declared width whose rows
            differ in theirs, or that is empty. No cell and no length is shown.
    """
    if hasattr(data, "tocsr"):
        raise TypeError("X must be dense, got a sparse matrix; X.toarray() gives a dense one")
    names = names_of(data)
    if names is not None:
        if twins := sorted({str(name) for name in names if names.count(name) > 1}):
            raise ValueError(f"the columns of X must have distinct names, and {twins} repeat")
        return Rows(len(data), len(names), names, lambda j: data[names[j]])
    if not hasattr(data, "__array__"):  # NumPy would show how many cells a list has
        if not is_sequence(data):
            raise ValueError(_not_rows(type(data).__name__))
        return _of_list(list(data), width)

    array = data if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
    if array.ndim != 2:
        raise ValueError(_not_rows(f"a {array.ndim}D array of {type(data).__name__}"))
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers, text or objects")
    return Rows(len(array), array.shape[1], None, lambda j: array[:, j])


def _not_rows(got: str) -> str:
    return (
        f"Expected 2D array or a data frame of rows, got {got} instead. Reshape your data: "
        "X.reshape(-1, 1) has one column, X.reshape(1, -1) has one row"
    )


def _of_list(data: list[Any], width: int | None) -> Rows:
    """The rows of a list."""
    if width is None:
        widths = {tried(_width, row) for row in data}
        if widths == {None}:
            raise ValueError(_not_rows("a list of what are no rows"))
        if len(widths) != 1:
            raise ValueError(
                "a list of rows must have one width; declare the domain as a dict of columns, and "
                "rows of another width count as rows without values"
            )
        (width,) = widths
    assert width is not None
    rows = [tried(_cells, row, width) or [None] * width for row in data]
    return Rows(len(rows), width, None, lambda j: [row[j] for row in rows])


def _width(row: Any) -> int | None:
    """How many cells a row has; None for what is no row."""
    is_row = row.ndim == 1 if isinstance(row, np.ndarray) else is_sequence(row)
    return len(row) if is_row else None


def _cells(row: Any, width: int) -> list | None:
    """The cells of a row in their order, whatever its labels; None for another width."""
    if _width(row) != width:
        return None
    cells = list(itertools.islice(row, width + 1))  # its length may be a lie
    return cells if len(cells) == width else None
