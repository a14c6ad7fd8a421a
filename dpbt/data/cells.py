"""How the cells of private rows are read, each by itself alone.

`number`, `word` and `truth` are maps of one cell. No cell raises an error, whatever it is. No code
of a cell's own class runs: a cell of a subclass is read by the methods of the built-in class below
it. `cells_of`, `read_numbers`, `read_codes` and `read_truths` read whole columns, as fast as their
container allows, and give for every cell exactly what the function of one cell gives.

| kind of cell | as a number | as a word |
|---|---|---|
| `bool`, `np.bool_` | 0 or 1 | "True" or "False" |
| `int`, `np.integer` | nearest float64, or infinite | its digits, at most 400 |
| `float`, `np.floating` | itself, as float64 | whole below 1e16: as an int; else its text |
| `str`, `np.str_` | if Python's `float` reads it | a whole number: its digits; else itself |
| `bytes`, `Decimal` | as its text | as its text |
| `None`, NA, NaT, NaN, dates, anything else | missing | missing |

As a Boolean, a Boolean is itself, and any other cell is true or false if its word is the declared
word for it, and else missing.

Blanks around text are dropped. The text of bytes is UTF-8. The text of a float is the shortest that
gives it back, or "inf".

Text is a number if it is ASCII, has no underscore and Python's `float` reads it. So "1e3", "-.5"
and "inf" are numbers, and "1_000", "1,5", "0x10" and "1+2j" are missing. Signs of zero are kept in
numbers and dropped in words.

A whole number is one word, whatever its kind: 3, 3.0, "3", "3.0", Decimal("3.00") and np.int8(3)
are "3", and -0.0 is "0". Text of a whole number has an optional minus and digits without a leading
zero, and zeros after a point if there is a point. So "03", "+3" and "1e3" stay what they are, as
codes with leading zeros must. Other numbers are compared as text: the float 0.5 is the word "0.5",
and "0.50" is another word.

MISSING_WORDS are missing, in any mixture of capitals, unless the public domain lists them: where
"NA" is a listed value, the text "NA" is that value. None and NaN are never a listed value.
"""

import dataclasses
import functools
import hashlib
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set, Sized
from decimal import Decimal
from typing import Any

import numpy as np

from dpbt.common.validate import show_value

MISSING_WORDS = frozenset({"", "?", "na", "n/a", "<na>", "nan", "nat", "null", "none"})
"""Text that means a missing value unless the domain lists it; capitals do not matter."""

MAX_DIGITS = 400
"""Whole numbers of more digits, unless they are text, have no word. Every float64 has fewer."""

Cell = Any
"""One cell of a private file: anything at all."""

RawColumn = Any
"""A column as a caller has it: whatever `cells_of` takes."""

_WHOLE = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.0+)?", re.ASCII)


def number(cell: Cell) -> float:
    """The cell of a numeric column; NaN if it is missing. It may be infinite."""
    plain: Any = _plain(cell)
    if type(plain) is str:
        plain = plain.strip()
        if "_" in plain or not plain.isascii():
            return math.nan
    try:
        value = float(plain)
    except OverflowError:
        return math.inf if plain > 0 else -math.inf
    except (TypeError, ValueError):  # nothing, or text that is no number
        return math.nan
    return math.nan if value != value else value  # one NaN for all payloads


def word(cell: Cell, listed: Container[str] = ()) -> str | None:
    """The cell of a nominal column; None if it is missing.

    Args:
        cell: anything.
        listed: the declared words, each as `declared` gives it. They are words even where they are
            among MISSING_WORDS.
    """
    text = _text(_plain(cell))
    if text is None or text in listed:
        return text
    # Memory of NumPy may hold characters that are none; of such text no capitals can be told.
    return None if text.isascii() and text.lower() in MISSING_WORDS else text


def truth(cell: Cell, true: str, false: str) -> bool | None:
    """The cell of a Boolean column; None if it is no Boolean and neither declared word.

    Args:
        cell: anything. A Python or NumPy Boolean is itself, whatever the words.
        true: the word that is true, as `declared` gives it.
        false: the word that is false, likewise.
    """
    plain = _plain(cell)
    if type(plain) is bool or type(plain) is np.bool_:
        return bool(plain)
    return {true: True, false: False}.get(_text(plain) or "")


def declared(value: Cell, name: str = "a declared value") -> str:
    """A declared word as cells are read: without blanks around it, a whole number by its digits.

    Args:
        value: public: text, a number or a Boolean.
        name: what an error calls it.

    Raises:
        ValueError: if the value is no word, such as None, NaN or a list. Text always is a word.
    """
    text = _text(_plain(value))
    if text is None:
        raise ValueError(f"{name} must be text or a number, got {show_value(value)}")
    return text


def _plain(cell: Cell) -> Cell:
    """The cell as text, a Boolean or a number, of which none runs code of others; else None.

    Types are found by `type` and looked up by identity, because `isinstance`, hashes and
    comparisons may run code of the cell's class.
    """
    kind = type(cell)
    if id(kind) in _PLAIN:
        return cell
    for base, convert in _CONVERT.items():
        if issubclass(kind, base):
            return convert(cell)
    return None


_NUMPY = tuple(np.dtype(code).type for code in "?bhilqBHILQefdg")
_PLAIN = {id(kind) for kind in (str, bool, int, float, *_NUMPY)}
"""Kinds of cells that are read as they are."""


_CONVERT: dict[type, Callable[[Any], Cell]] = {
    str: str.__str__,
    bytes: lambda cell: tried(bytes.decode, cell, "utf-8"),
    Decimal: lambda cell: None if Decimal.is_nan(cell) else Decimal.__str__(cell),
    int: int.__int__,
    float: float.__float__,
}
"""How other kinds, and subclasses such as np.str_, become such a kind."""


def _text(plain: Cell) -> str | None:
    """The text of a cell that `_plain` gave, of whole numbers the digits; None if it is missing."""
    match plain:
        case str():
            text = plain.strip()
            if whole := _WHOLE.fullmatch(text):
                sign, digits = whole.groups()
                return digits if digits == "0" else sign + digits
            return text
        case bool() | np.bool_():
            return str(plain)
        case int() | np.integer():
            whole = int(plain)
            return str(whole) if abs(whole) < 10**MAX_DIGITS else None
        case float() | np.floating() if plain == plain:
            is_whole = abs(float(plain)) < 1e16 and plain == int(plain)
            return str(int(plain)) if is_whole else str(plain)
    return None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A column whose cells are read once for all rows that hold them.

    Attributes:
        distinct: the cells that occur.
        index: int[N]: the place of each row's cell in `distinct`.
    """

    distinct: Iterable
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)


ColumnCells = np.ndarray | list | Coded
"""The cells of a column, as `cells_of` gives them."""


def cells_of(values: RawColumn, name: str = "") -> ColumnCells:
    """The cells of a column: an array of one dimension, or a list of the cells as they were given.

    No cell is converted to suit another. A list stays a list, because NumPy would find one type for
    all of its cells. Arrow arrays are read as their Python values are, and a value that has none is
    None.

    Args:
        values: a sequence, a NumPy or JAX array, a pandas Series or extension array, or an Arrow
            array.
        name: how an error begins.

    Raises:
        ValueError: if it is no column: text, a mapping, a set, a value without a length, or an
            array that does not have one dimension.
    """
    if hasattr(values, "to_pylist"):
        found = tried(_arrow_cells, values)
        each = values.to_pylist, lambda place: values[place].as_py()
        return _listed(values, *each) if found is None else found
    if hasattr(values, "__array__") and isinstance(getattr(values, "dtype", None), np.dtype):
        array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        if array.ndim != 1:
            raise ValueError(f"{name}a column must have one dimension, got {array.ndim}")
        return array.tolist() if isinstance(array, np.ma.MaskedArray) else array
    if type(values) is list:  # which no reading changes
        return values
    if not is_sequence(values):
        given = f"{type(values).__name__}{eager_advice(values)}"
        raise ValueError(f"{name}a column must be a sequence of cells, got {given}")
    return _listed(values, lambda: list(values), by_position(values).__getitem__)


def _arrow_cells(values: RawColumn) -> ColumnCells | None:
    """The numbers or the distinct texts of an Arrow array, as its Python values are.

    None where an array does not hold them: missing numbers are NaN among floats, which hold no
    integers beyond 2^53, and a dictionary may be that of many more rows.
    """
    kind = str(getattr(values.type, "value_type", values.type))  # that of a dictionary's values
    if kind in ("string", "large_string"):
        encoded = values.dictionary_encode()
        encoded = encoded.combine_chunks() if hasattr(encoded, "combine_chunks") else encoded
        index = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
        distinct = [*encoded.dictionary.to_pylist(), None]
        return Coded(distinct, index) if len(distinct) < len(index) else None
    if not str(values.type).lstrip("u").startswith(("int", "halffloat", "float", "double")):
        return None
    numbers = values.to_numpy(zero_copy_only=False)
    if kind.endswith("int64") and values.null_count and np.any(np.abs(numbers) >= 2**53):
        return None
    return numbers.astype(np.float64) if numbers.dtype.kind == "f" else numbers


def is_sequence(values: object) -> bool:
    """Whether a value has a length and an order: no text, no mapping and no set."""
    if isinstance(values, str | bytes | bytearray | Mapping | Set):
        return False
    return isinstance(values, Sized) and isinstance(values, Iterable)


def eager_advice(values: object) -> str:
    """What to do with a value that holds no cells yet, as the end of an error; else nothing.

    Such are lazy frames (polars, Spark, Dask, Ibis) and iterators, which have no length.
    """
    for method in ("toPandas", "collect", "compute", "execute"):
        if callable(getattr(type(values), method, None)):
            return f"; it holds a query and no cells yet, so give what its .{method}() returns"
    if isinstance(values, Iterator):
        return "; it gives its items once and has no length, so give a list of them"
    return ""


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


def read_ids(cells: ColumnCells, ignore_case: bool = False) -> np.ndarray:
    """object[N]: for each cell 16 bytes that follow from its word, or None if it has no word.

    They are of BLAKE2b. That two of 2^32 words have the same has a probability below 2^-64.

    Args:
        cells: a column that `cells_of` gave.
        ignore_case: whether words that differ in capitals alone are one.
    """

    def digest(text: str) -> bytes:
        text = text.casefold() if ignore_case else text
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def read(cell: Cell) -> bytes | None:
        text = word(cell)
        return None if text is None else tried(digest, text)

    return _each(cells, read, object)


def read_truths(cells: ColumnCells, true: str, false: str) -> np.ndarray:
    """i8[N]: `truth` of each cell of a column that `cells_of` gave: 1, 0, or -1 for missing."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "b":
        return cells.astype(np.int8)
    found = _each(cells, functools.partial(truth, true=true, false=false), np.float64)
    return np.nan_to_num(found, nan=-1).astype(np.int8)


def _each(cells: ColumnCells, read: Callable[[Cell], Any], dtype: type) -> np.ndarray:
    """dtype[N]: the reading of each cell.

    Equal cells of one plain kind are read once, which changes no answer.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        cells = Coded(*np.unique(cells, return_inverse=True))
    if isinstance(cells, Coded):
        return np.array([read(cell) for cell in cells.distinct], dtype)[cells.index]
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "U":
        cells = _listed(cells, cells.tolist, cells.__getitem__)  # its memory may hold no text

    known: dict[str, Any] = {}
    readings: list[Any] = []
    for cell in cells:
        if type(cell) is not str:
            readings.append(read(cell))
            continue
        if cell not in known:
            known[cell] = read(cell)
        readings.append(known[cell])
    return np.array(readings, dtype)
