"""Reads the cells of private rows, each cell on its own.

`read_number`, `read_word` and `read_boolean` read one cell each. They never raise, whatever the
cell is. They never run code of a cell's own class: they read a cell of a subclass with the methods
of its built-in base class. `column_cells`, `read_numbers`, `read_word_indices` and `read_booleans`
read whole columns as fast as their container allows. For every cell they return exactly what the
function for one cell returns.

| kind of cell | as a number | as a word |
|---|---|---|
| `bool`, `np.bool_` | 0 or 1 | "True" or "False" |
| `int`, `np.integer` | nearest float64, or infinite | its digits, at most 400 |
| `float`, `np.floating` | itself, as float64 | whole below 1e16: as an int; else its text |
| `str`, `np.str_` | if Python's `float` reads it | a whole number: its digits; else itself |
| `bytes`, `Decimal` | as its text | as its text |
| `None`, NA, NaT, NaN, dates, anything else | missing | missing |

A domain may declare a form of the numbers of a column: another decimal mark, signs to strip, or
dates (`cell_forms`). It may also declare several spellings of a word, and that capitals do not
count. Each of these is a function of one cell alone, too.

In a Boolean column a Boolean is itself. Any other cell is true or false if its word is the word
declared for that, and missing otherwise.

Blanks around text are dropped. Bytes are decoded as UTF-8. The text of a float is the shortest text
that reads as the same float of its own type, or "inf". The type of a column counts, whatever holds
it: a column of float32 in NumPy, pandas, polars, Arrow or JAX has the words of its float32 numbers.

Text is a number if it is ASCII, has no underscore and Python's `float` reads it. So "1e3", "-.5"
and "inf" are numbers, and "1_000", "1,5", "0x10" and "1+2j" are missing. Signs of zero are kept in
numbers and dropped in words.

A whole number is one word, whatever its kind: 3, 3.0, "3", "3.0", Decimal("3.00") and np.int8(3)
are "3", and -0.0 is "0". Text of a whole number has an optional minus and digits without a leading
zero, and zeros after a point if there is a point. So "03", "+3" and "1e3" stay what they are, as
codes with leading zeros must. Other numbers are compared as text: the float 0.5 is the word "0.5",
and "0.50" is another word.

Text in MISSING_WORDS is missing, in any mixture of capitals, unless the public domain lists it:
where "NA" is a listed value, the text "NA" is that value. None and NaN are never a listed value.
"""

import dataclasses
import functools
import hashlib
import math
import re
from collections.abc import (
    Callable,
    Container,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
    Sized,
)
from decimal import Decimal
from typing import Any

import numpy as np
from jaxtyping import Int8, Int32

from dpbt.common.validate import show_value

MISSING_WORDS = frozenset({"", "?", "na", "n/a", "<na>", "nan", "nat", "null", "none"})
"""Text that means a missing value unless the domain lists it; capitals do not matter."""

MAX_DIGITS = 400
"""A whole number of more digits has no word, unless it is text. Every float64 has fewer digits."""

Cell = Any
"""One cell of a private file: any object."""

Words = str | tuple[str, ...]
"""A declared word, or the spellings of one, of which the first is its name."""

RawColumn = Any
"""A column in the caller's container: whatever `column_cells` takes."""

_WHOLE_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.0+)?", re.ASCII)


def read_number(cell: Cell) -> float:
    """Read the number in a cell of a numeric column, as a float.

    It is NaN if the number is missing, and may be infinite.
    """
    builtin: Any = _as_builtin_text_or_number(cell)
    if type(builtin) is str:
        builtin = builtin.strip()
        if "_" in builtin or not builtin.isascii():
            return math.nan
    try:
        value = float(builtin)
    except OverflowError:
        return math.inf if builtin > 0 else -math.inf
    except (TypeError, ValueError):  # nothing, or text that is not a number
        return math.nan
    return math.nan if value != value else value  # one NaN for all payloads


def read_word(
    cell: Cell, declared_words: Container[str] = (), ignore_case: bool = False
) -> str | None:
    """Read the word in a cell of a nominal column; None if it is missing.

    Args:
        cell: any object.
        declared_words: the declared words, each as `declared_word` returns it. These are words even
            if MISSING_WORDS holds them.
        ignore_case: whether to return words as `fold_case` does. The declared words are folded,
            too.
    """
    text = _text_of_builtin(_as_builtin_text_or_number(cell))
    if text is not None and ignore_case:
        text = fold_case(text)
    if text is None or text in declared_words:
        return text
    # NumPy memory may hold invalid characters, and such text cannot be lowered.
    return None if text.isascii() and text.lower() in MISSING_WORDS else text


def fold_case(text: str) -> str:
    """Convert text to a form in which capitals do not count.

    Invalid text, which has no case, stays as it is.
    """
    folded = result_or_none_on_error(str.casefold, text)
    return text if folded is None else folded


def read_boolean(cell: Cell, true: Words, false: Words, ignore_case: bool = False) -> bool | None:
    """Read the truth value in a cell of a Boolean column; None if it is missing.

    Args:
        cell: any object. A Python or NumPy Boolean is itself, whatever the words. Any other cell
            is missing unless its word is one of the declared ones.
        true: the word for true, or several spellings of it, as `declared_word` returns them.
        false: the word for false, likewise.
        ignore_case: whether words that differ in capitals alone are one.
    """
    return _read_boolean_by_folded_words(
        cell, _truth_by_word(true, false, ignore_case), ignore_case
    )


def _truth_by_word(true: Words, false: Words, ignore_case: bool) -> dict[str, bool]:
    """Map each declared word to the truth value that it stands for.

    The words are folded if capitals do not count.
    """
    truth_by_word = {}
    for words, truth in ((true, True), (false, False)):
        for word in (words,) if isinstance(words, str) else words:
            truth_by_word[fold_case(word) if ignore_case else word] = truth
    return truth_by_word


def _read_boolean_by_folded_words(
    cell: Cell, truth_by_word: Mapping[str, bool], ignore_case: bool
) -> bool | None:
    """Read the truth value in a cell, by declared words that were folded before.

    It is None if the cell is missing, as in `read_boolean`.
    """
    builtin = _as_builtin_text_or_number(cell)
    if type(builtin) is bool or type(builtin) is np.bool_:
        return bool(builtin)
    text = _text_of_builtin(builtin) or ""
    return truth_by_word.get(fold_case(text) if ignore_case else text)


def read_text_or_number_word(cell: Cell) -> str | None:
    """Read the text in a cell, without blanks around it, or the word for a number.

    It is None for a cell that is neither text nor a number.
    """
    builtin = _as_builtin_text_or_number(cell)
    return builtin.strip() if type(builtin) is str else _text_of_builtin(builtin)


def is_text(cell: Cell) -> bool:
    """Whether a cell is text, of any class, or bytes."""
    return issubclass(type(cell), str | bytes)


def declared_word(value: Cell, name: str = "a declared value") -> str:
    """Read the word of a declared value, so that cells can be compared with it.

    It is read as cells are.

    Blanks around text are dropped, and a whole number is its digits.

    Args:
        value: text, a number or a Boolean. It is public.
        name: what an error calls the value.

    Raises:
        ValueError: if the value is not a word, such as None, NaN or a list. Text always is a word.
    """
    text = _text_of_builtin(_as_builtin_text_or_number(value))
    if text is None:
        raise ValueError(f"{name} must be text or a number, got {show_value(value)}")
    return text


def _as_builtin_text_or_number(cell: Cell) -> Cell:
    """Convert a cell to text, a Boolean or a number of a built-in class.

    It is None if the cell is none of these.

    A cell's type is read by `type` and looked up by identity, because `isinstance`, hashes and
    comparisons may run code of the cell's class.
    """
    kind = type(cell)
    if id(kind) in _BUILTIN_KIND_IDS:
        return cell
    for base, convert in _CONVERTERS.items():
        if issubclass(kind, base):
            return convert(cell)
    return None


_NUMPY_KINDS = tuple(np.dtype(code).type for code in "?bhilqBHILQefdg")
_BUILTIN_KIND_IDS = {id(kind) for kind in (str, bool, int, float, *_NUMPY_KINDS)}
"""The ids of the classes whose cells are read as they are."""


_CONVERTERS: dict[type, Callable[[Any], Cell]] = {
    str: str.__str__,
    bytes: lambda cell: result_or_none_on_error(bytes.decode, cell, "utf-8"),
    Decimal: lambda cell: None if Decimal.is_nan(cell) else Decimal.__str__(cell),
    int: int.__int__,
    float: float.__float__,
}
"""How cells of other classes, and of subclasses such as np.str_, are converted to such a class."""


def _text_of_builtin(builtin: Cell) -> str | None:
    """Write a value of a built-in class as text, as words are compared.

    A whole number is its digits. It is None for what has no text, such as NaN. The value is one
    that `_as_builtin_text_or_number` returned.
    """
    match builtin:
        case str():
            text = builtin.strip()
            if whole_number := _WHOLE_NUMBER.fullmatch(text):
                sign, digits = whole_number.groups()
                return digits if digits == "0" else sign + digits
            return text
        case bool() | np.bool_():
            return str(builtin)
        case int() | np.integer():
            integer = int(builtin)
            return str(integer) if abs(integer) < 10**MAX_DIGITS else None
        case float() | np.floating() if builtin == builtin:
            is_whole = abs(float(builtin)) < 1e16 and builtin == int(builtin)
            return str(int(builtin)) if is_whole else _shortest_text_of_float(builtin)
    return None


def _shortest_text_of_float(number: float | np.floating) -> str:
    """Write a float with the fewest digits that read as the same number of its type.

    The text is that of the Python float of these digits.

    So the float32 nearest to .1 is "0.1" and not "0.10000000149011612", and its text is written as
    Python writes it: "0.0001", which NumPy writes as "1e-04".
    """
    if isinstance(number, float):
        return str(float(number))
    shortest = float(np.format_float_scientific(number, unique=True))
    beyond_float64 = math.isinf(shortest) and not np.isinf(number)
    return str(number) if beyond_float64 else str(shortest)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class DictionaryCells:
    """A column in dictionary encoding, of which each distinct cell is read once.

    Attributes:
        distinct: the distinct cells.
        index: int[N]: the index in `distinct` of each row's cell.
    """

    distinct: Iterable
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)


ColumnCells = np.ndarray | list | DictionaryCells
"""The cells of a column, as `column_cells` returns them."""


def column_cells(values: RawColumn, name: str = "") -> ColumnCells:
    """Convert a column to an array of one dimension, or to a list of its cells.

    The cells of a list are unchanged.

    No cell is converted to suit another. A list stays a list, because NumPy would choose one type
    for all of its cells. Arrow arrays are read as their Python values, and a value that cannot be
    made is None. Columns of float16 and float32 become arrays of that type, since Python's float
    does not tell which of their digits count; there a missing cell is NaN, which is read alike.

    Args:
        values: a sequence, a NumPy or JAX array, a pandas Series or extension array, or an Arrow
            array.
        name: how an error message begins.

    Raises:
        ValueError: if it is not a column: text, a mapping, a set, a value without a length, an
            array that does not have one dimension or has records or numbers that NumPy does not
            know (bfloat16), or a data frame, of which Python's list would be the names.
    """
    if frame_column_names(values) is not None:
        raise ValueError(
            f"{name}a column must have one dimension, got a data frame ({type(values).__name__}); "
            "two columns of one name make one"
        )
    if hasattr(values, "to_pylist"):
        cells = result_or_none_on_error(_cells_of_arrow_array, values)
        if cells is not None:
            return cells
        cells = _read_all_cells_or_one_by_one(
            len(values), read_all=values.to_pylist, read_one=lambda row: values[row].as_py()
        )
        return _as_narrow_floats_if_declared(cells, values.type)
    if hasattr(values, "__array__") and isinstance(getattr(values, "dtype", None), np.dtype):
        array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        if array.ndim != 1:
            raise ValueError(f"{name}a column must have one dimension, got {array.ndim}")
        if isinstance(array, np.ma.MaskedArray) and array.dtype.kind == "M":
            return array.filled(np.datetime64("NaT"))  # a list would hold numbers
        if array.dtype.kind == "V":
            raise ValueError(
                f"{name}a column must have cells of text, numbers or objects, got {array.dtype}"
            )
        if isinstance(array, np.ma.MaskedArray):
            return _as_narrow_floats_if_declared(array.tolist(), array.dtype)
        return array
    if is_time_zone_type(getattr(values, "dtype", None)):  # of pandas: the same instants in UTC
        return np.asarray(values, np.dtype(f"datetime64[{values.dtype.unit}]"))
    if type(values) is list:  # which no reading changes
        return values
    if not is_sequence(values):
        description = f"{type(values).__name__}{advice_for_lazy_data(values)}"
        raise ValueError(f"{name}a column must be a sequence of cells, got {description}")
    cells = _read_all_cells_or_one_by_one(
        len(values), read_all=lambda: list(values), read_one=positional_view(values).__getitem__
    )
    return _as_narrow_floats_if_declared(cells, getattr(values, "dtype", None))


def _as_narrow_floats_if_declared(cells: list, column_type: Any) -> np.ndarray | list:
    """Convert cells to an array of float16 or float32 if their column is of that type.

    Cells of other columns are returned as they are.

    Containers give such numbers as Python floats, whose text has digits of float64. Each of them is
    exactly a number of the narrow type.

    Args:
        cells: the cells of the column.
        column_type: the type of the column in its container; public. None for a list.
    """
    float_type = result_or_none_on_error(_narrow_float_type, column_type)
    if float_type is None:
        return cells
    numbers = [cell if isinstance(cell, float | np.floating) else math.nan for cell in cells]
    return np.array(numbers, float_type)


_NARROW_FLOATS = {
    "halffloat": np.float16,
    "float16": np.float16,
    "float": np.float32,
    "float32": np.float32,
}
"""The narrow floats by the names that NumPy, pandas, polars and Arrow ("float") give them."""


def _narrow_float_type(column_type: Any) -> type[np.floating] | None:
    """The float type of a column's numbers if it is narrower than float64, else None.

    The numbers of a dictionary, of categories, of a sparse column and of runs are those inside.
    """
    for name in ("categories", "pyarrow_dtype", "value_type", "subtype"):
        inner = getattr(column_type, name, None)
        if inner is not None:
            return _narrow_float_type(getattr(inner, "dtype", inner))
    return _NARROW_FLOATS.get(str(column_type).lower())


def cells_of_declared_list(values: RawColumn, name: str) -> list:
    """The entries of a declared list in any container, each as a cell.

    They are read as cells of a column in such a container are.

    Raises:
        ValueError: as `column_cells`.
    """
    cells = column_cells(values, name)
    if isinstance(cells, DictionaryCells):
        distinct = list(cells.distinct)
        return [distinct[place] for place in cells.index]
    return list(cells)


def _cells_of_arrow_array(values: RawColumn) -> ColumnCells | None:
    """The numbers or the distinct texts of an Arrow array.

    They are equal to its Python values.

    It is None where NumPy cannot hold these values: with missing numbers an array is one of floats,
    which hold no integers beyond 2^53. It is None also where the dictionary is no smaller than the
    rows, as it may be that of many more rows.
    """
    kind = str(getattr(values.type, "value_type", values.type))  # that of a dictionary's values
    if kind in ("string", "large_string"):
        encoded = values.dictionary_encode()
        encoded = encoded.combine_chunks() if hasattr(encoded, "combine_chunks") else encoded
        index = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
        distinct = [*encoded.dictionary.to_pylist(), None]
        return DictionaryCells(distinct, index) if len(distinct) < len(index) else None
    if str(values.type).startswith(("timestamp", "date32", "date64")):
        return values.to_numpy(zero_copy_only=False)  # datetime64, of UTC if it has a time zone
    if not str(values.type).lstrip("u").startswith(("int", "halffloat", "float", "double")):
        return None
    numbers = values.to_numpy(zero_copy_only=False)
    if kind.endswith("int64") and values.null_count and np.any(np.abs(numbers) >= 2**53):
        return None
    return numbers


ColumnNames = tuple[Hashable, ...]
"""The names of the columns of a data frame, in their order."""


def frame_column_names(frame: Any) -> ColumnNames | None:
    """The names of the columns of a data frame or an Arrow table.

    They are None for any other object.

    A lazy frame, which has no length, has none.
    """
    if isinstance(frame, np.ndarray | Mapping):
        return None
    if not hasattr(frame, "__getitem__") or not hasattr(frame, "__len__"):
        return None
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    return None if names is None or callable(names) else tuple(names)


def is_time_zone_type(dtype: Any) -> bool:
    """Whether a dtype is that of pandas for instants with a time zone."""
    return getattr(dtype, "kind", "") == "M" and hasattr(dtype, "tz") and hasattr(dtype, "unit")


_TIME_TYPE_PREFIXES = ("date", "timestamp", "time", "duration", "period", "interval")
"""The beginnings of the names of types of dates, times, durations and intervals."""


def time_type_of_column(values: RawColumn) -> str | None:
    """The name of the type of a column of dates, times, durations or intervals.

    It is None for other columns.

    It reads the type that the container states, which is public, and no cell.
    """
    arrow_type = getattr(values, "type", None) if hasattr(values, "to_pylist") else None
    stated_type = getattr(values, "dtype", None) if arrow_type is None else arrow_type
    stated_type = getattr(stated_type, "value_type", stated_type)  # that of a dictionary's values
    stated_type = getattr(getattr(stated_type, "categories", None), "dtype", stated_type)
    name = str(stated_type)
    return name if is_time_type(name) else None


def is_time_type(type_name: str) -> bool:
    """Whether a type of this name is one of dates, times, durations or intervals."""
    return type_name.lower().startswith(_TIME_TYPE_PREFIXES)


def is_date_type(type_name: str) -> bool:
    """Whether cells of a type that `time_type_of_column` names are dates, perhaps with a time."""
    return type_name.lower().startswith(("date", "timestamp"))


def is_sequence(values: object) -> bool:
    """Whether a value is a sequence of items, rather than text, a mapping or a set.

    It has a length.
    """
    if isinstance(values, str | bytes | bytearray | Mapping | Set):
        return False
    return isinstance(values, Sized) and isinstance(values, Iterable)


def advice_for_lazy_data(values: object) -> str:
    """Advice on how to collect a value that holds no cells yet, for the end of an error.

    It is empty text for other values.

    Such values are lazy frames (polars, Spark, Dask, Ibis) and iterators, which have no length.
    """
    for method in ("toPandas", "collect", "compute", "execute"):
        if callable(getattr(type(values), method, None)):
            return f"; it holds a query and no cells yet, so give what its .{method}() returns"
    if isinstance(values, Iterator):
        return "; it gives its items once and has no length, so give a list of them"
    return ""


def positional_view(values: RawColumn) -> Any:
    """A view of a column that is indexed and sliced by position.

    A column with labels, such as a pandas Series, would be indexed by these.
    """
    return getattr(values, "iloc", values)


def result_or_none_on_error(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, and return None if it raises.

    One private value may cause the error.
    """
    try:
        return function(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # errors of Rust, as in polars, are no Exception
        return None


def _read_all_cells_or_one_by_one(
    count: int, *, read_all: Callable[[], list], read_one: Callable[[int], Cell]
) -> list:
    """Read the cells of a container into a list, at once or else one by one.

    If reading all of them raises, as for a date in the year 10000, each cell is read on its own,
    and one that cannot be read is None.
    """
    cells = result_or_none_on_error(read_all)
    return (
        [result_or_none_on_error(read_one, row) for row in range(count)] if cells is None else cells
    )


def read_numbers(
    cells: ColumnCells, read_cell: Callable[[Cell], float] = read_number
) -> np.ndarray:
    """float64[N]: the number in each cell of a column, or NaN.

    Args:
        cells: the column.
        read_cell: returns the number in one cell, or NaN: `read_number`, or the `read_number` of a
            form of numbers or dates (`cell_forms`).
    """
    is_plain = read_cell is read_number
    if is_plain and isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # a warning would say that some row holds a large number
            numbers = cells.astype(np.float64)
        numbers[np.isnan(numbers)] = np.nan
        return numbers
    return _read_each_cell(cells, read_cell, np.float64)


def read_word_indices(
    cells: ColumnCells, declared_words: Sequence[Words], ignore_case: bool = False
) -> Int32[np.ndarray, "N"]:
    """i32[N]: the index of each cell's word among the declared words.

    It is -1 for another word, and -2 for no word.

    Args:
        cells: a column that `column_cells` returned.
        declared_words: the declared words, each as `declared_word` returns it, or its spellings.
        ignore_case: whether words that differ in capitals alone are one.
    """
    index_of_word = {
        fold_case(text) if ignore_case else text: index
        for index, words in enumerate(declared_words)
        for text in ((words,) if isinstance(words, str) else words)
    }

    def read_code(cell: Cell) -> int:
        text = read_word(cell, index_of_word, ignore_case)
        return -2 if text is None else index_of_word.get(text, -1)

    return _read_each_cell(cells, read_code, np.int32)


def hash_ids(cells: ColumnCells, ignore_case: bool = False) -> np.ndarray:
    """object[N]: a hash of 16 bytes of the word in each cell.

    It is None for a cell without a word.

    The hash is BLAKE2b. The probability that two of 2^32 words have the same is below 2^-64.

    Args:
        cells: a column that `column_cells` returned.
        ignore_case: whether words that differ in capitals alone have the same hash.
    """

    def hash_word(text: str) -> bytes:
        text = text.casefold() if ignore_case else text
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def read_id(cell: Cell) -> bytes | None:
        text = read_word(cell)
        return None if text is None else result_or_none_on_error(hash_word, text)

    return _read_each_cell(cells, read_id, object)


def read_booleans(
    cells: ColumnCells, true: Words, false: Words, ignore_case: bool = False
) -> Int8[np.ndarray, "N"]:
    """i8[N]: the truth value in each cell of a column; -1 where it is missing.

    `read_boolean` reads each cell of a column from `column_cells`.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "b":
        return cells.astype(np.int8)
    read_cell = functools.partial(
        _read_boolean_by_folded_words,
        truth_by_word=_truth_by_word(true, false, ignore_case),
        ignore_case=ignore_case,
    )
    truths = _read_each_cell(cells, read_cell, np.float64)
    return np.nan_to_num(truths, nan=-1).astype(np.int8)


def _read_each_cell(
    cells: ColumnCells, read_cell: Callable[[Cell], Any], dtype: type
) -> np.ndarray:
    """dtype[N]: the result of `read_cell` for each cell of a column.

    Equal cells of one built-in class are read once, which changes no result.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biufM":
        cells = DictionaryCells(*np.unique(cells, return_inverse=True))
    if isinstance(cells, DictionaryCells):
        return np.array([read_cell(cell) for cell in cells.distinct], dtype)[cells.index]
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "U":
        cells = _read_all_cells_or_one_by_one(  # NumPy memory may hold invalid text
            len(cells), read_all=cells.tolist, read_one=cells.__getitem__
        )

    result_of_text: dict[str, Any] = {}
    results: list[Any] = []
    for cell in cells:
        if type(cell) is not str:
            results.append(read_cell(cell))
            continue
        if cell not in result_of_text:
            result_of_text[cell] = read_cell(cell)
        results.append(result_of_text[cell])
    return np.array(results, dtype)
