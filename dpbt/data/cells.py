"""How one cell of a private file is read, by that cell alone.

Every function here is a map of one cell. No cell raises an error, whatever it is. No code of a
cell's own class runs: a cell of a subclass is read by the methods of the built-in class below it.
`columns` reads whole columns and gives exactly the same answers.

| kind of cell | as a number | as a word | as a Boolean |
|---|---|---|---|
| `bool`, `np.bool_` | 0 or 1 | "True" or "False" | itself |
| `int`, `np.integer` | nearest float64, or infinite | its digits, at most 400 | as its word |
| `float`, `np.floating` | itself, as float64 | whole: as an int; else its text | as its word |
| `str`, `np.str_` | if Python's `float` reads it | whole: as an int; else itself | as its word |
| `bytes`, `np.bytes_` | as its UTF-8 text | as its UTF-8 text | as its word |
| `Decimal`, `Fraction` | nearest float64 | whole: as an int; else its text | as its word |
| `date`, `datetime`, `datetime64` | missing | its text in ISO 8601 | as its word |
| `None`, NA, NaT, NaN | missing | missing | missing |
| anything else | missing | missing | missing |

Blanks around text are dropped. The text of a float is the shortest that gives it back, or "inf".
Decimals and fractions have the text that Python writes. Bytes that are no UTF-8 text are missing.
An integer of more than 400 digits is a missing word, unless it is text.

As a Boolean, a word is true or false if it is the declared word for it, and else missing.

Text is a number if it is ASCII, has no underscore and Python's `float` reads it. So "1e3", "-.5"
and "inf" are numbers, and "1_000", "1,5", "0x10" and "1+2j" are missing. Signs of zero are kept in
numbers and dropped in words.

A whole number is one word, whatever its kind: 3, 3.0, "3", "3.0", Decimal("3.00") and np.int8(3)
are "3", and -0.0 is "0". Text of a whole number has one of two forms. The first is an optional
minus and digits without a leading zero, and zeros after a point if there is a point. The second is
the form in which Python writes floats from 1e16 on; such a float is the whole number that this form
names. So "03", "+3" and "1E3" stay what they are, as codes with leading zeros must. Other numbers
are compared as text: the float 0.5 is the word "0.5", and "0.50" is another word.

MISSING_WORDS are missing, in any mixture of capitals, unless the public domain lists them: where
"NA" is a listed value, the text "NA" is that value. None and NaN are never a listed value.

A datetime is missing if its time zone is not a `datetime.timezone`, because another zone may be
anyone's code. Times finer than a microsecond are cut to microseconds. A subclass of datetime that
is called NaTType is pandas' NaT.
"""

import datetime
import decimal
import fractions
import math
import re
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from dpbt.validate import shown

MISSING_WORDS = frozenset({"", "?", "na", "n/a", "<na>", "nan", "nat", "null", "none"})
"""Text that means a missing value unless the domain lists it; capitals do not matter."""

MOST_DIGITS = 400
"""Whole numbers of more digits, unless they are text, have no word. Every float64 has fewer."""

Cell = Any
"""One cell of a private file: anything at all."""

_MOST_BITS = int(MOST_DIGITS * math.log2(10))
_WHOLE = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.0+)?", re.ASCII)
_LARGE_FLOAT = re.compile(r"-?[1-9](?:\.[0-9]+)?e\+[0-9]{2,3}", re.ASCII)
_NUMPY_FLOATS = (np.float16, np.float32, np.float64, np.longdouble)
_NUMPY_INTEGERS = (
    *(np.int8, np.int16, np.int32, np.int64, np.longlong),
    *(np.uint8, np.uint16, np.uint32, np.uint64, np.ulonglong),
)


def number(cell: Cell) -> float:
    """The cell of a numeric column; NaN if it is missing. It may be infinite."""
    readers, plain = _readers(cell)
    return readers[0](plain)


def word(cell: Cell, listed: Container[str] = ()) -> str | None:
    """The cell of a nominal column; None if it is missing.

    Args:
        cell: anything.
        listed: the declared words, each as `declared` gives it. They are words even where they are
            among MISSING_WORDS.
    """
    readers, plain = _readers(cell)
    text = readers[1](plain)
    if text is None or text in listed:
        return text
    return None if text.lower() in MISSING_WORDS else text


def truth(cell: Cell, true: str, false: str) -> bool | None:
    """The cell of a Boolean column; None if it is no Boolean and neither declared word.

    Args:
        cell: anything. A Python or NumPy Boolean is itself, whatever the words.
        true: the word that is true, as `declared` gives it.
        false: the word that is false, likewise.
    """
    kind = type(cell)
    if kind is bool or kind is np.bool_:
        return bool(cell)
    readers, plain = _readers(cell)
    text = readers[1](plain)
    return True if text == true else False if text == false else None


def declared(value: Cell, name: str = "a declared value") -> str:
    """A declared word as cells are read: without blanks around it, a whole number by its digits.

    Args:
        value: public: text, a number, a Boolean or a date.
        name: what an error calls it.

    Raises:
        ValueError: if the value is no word, such as None, NaN or a list. Text always is a word.
    """
    readers, plain = _readers(value)
    text = readers[1](plain)
    if text is None:
        raise ValueError(f"{name} must be text or a number, got {shown(value)}")
    return text


Readers = tuple[Callable[[Cell], float], Callable[[Cell], str | None]]
"""A cell of one kind as a number and as text."""


def _readers(cell: Cell) -> tuple[Readers, Cell]:
    """How cells of this kind are read, and the cell as its built-in kind.

    The type is found by `type` and looked up by identity, because `isinstance`, hashes and
    comparisons may run code of the cell's class.
    """
    kind = type(cell)
    readers = _BY_KIND.get(id(kind))
    if readers is not None:
        return readers, cell
    for base, base_readers, to_base in _BY_BASE:
        if issubclass(kind, base):
            if base is datetime.datetime and _name_of(kind) == "NaTType":
                break
            return base_readers, to_base(cell)
    return _ABSENT, None


def _name_of(kind: type) -> str:
    return type.__dict__["__name__"].__get__(kind)


def _nan(cell: Cell) -> float:
    del cell
    return math.nan


def _no_text(cell: Cell) -> None:
    del cell


def _number_of_int(cell: Cell) -> float:
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def _digits(cell: Cell) -> str | None:
    whole = int(cell)
    return str(whole) if whole.bit_length() <= _MOST_BITS else None


def _number_of_float(cell: Cell) -> float:
    value = float(cell)
    return math.nan if value != value else value  # one NaN for all payloads


def _text_of_float(cell: Cell) -> str | None:
    value = float(cell)
    if value != value:
        return None
    if abs(value) < 1e16 and cell == int(cell):
        return str(int(cell))
    return _canonical(str(cell))


def _number_of_text(cell: str) -> float:
    text = cell.strip()
    if "_" in text or not text.isascii():
        return math.nan
    try:
        return _number_of_float(text)
    except ValueError:
        return math.nan


def _canonical(cell: str) -> str:
    """The text without blanks around it; a whole number by its digits."""
    text = cell.strip()
    whole = _WHOLE.fullmatch(text)
    if whole:
        sign, digits = whole.groups()
        return digits if digits == "0" else sign + digits
    if _LARGE_FLOAT.fullmatch(text):
        return _text_of_decimal(decimal.Decimal(text), text)
    return text


def _decoded(cell: bytes) -> str | None:
    try:
        return bytes.decode(cell, "utf-8")
    except UnicodeDecodeError:
        return None


def _number_of_bytes(cell: bytes) -> float:
    text = _decoded(cell)
    return math.nan if text is None else _number_of_text(text)


def _text_of_bytes(cell: bytes) -> str | None:
    text = _decoded(cell)
    return None if text is None else _canonical(text)


def _number_of_decimal(cell: decimal.Decimal) -> float:
    return math.nan if cell.is_nan() else float(cell)


def _word_of_decimal(cell: decimal.Decimal) -> str | None:
    if cell.is_nan():
        return None
    return _canonical(str(float(cell))) if cell.is_infinite() else _text_of_decimal(cell, str(cell))


def _text_of_decimal(cell: decimal.Decimal, otherwise: str) -> str:
    """The digits of a whole number of at most MOST_DIGITS digits, else `otherwise`.

    Arithmetic of decimals depends on a context that may raise, so the digits are moved by hand.
    """
    sign, digits, exponent = cell.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "0"
    power = int(exponent)
    if len(text) + power > MOST_DIGITS:
        return otherwise
    if power < 0:
        if text[power:].strip("0") or len(text) <= -power:
            return otherwise
        text = text[:power]
    return "-" * sign + text + "0" * max(power, 0)


def _parts(cell: fractions.Fraction) -> tuple[int, int] | None:
    """Numerator and denominator; None if they are no plain integers."""
    try:
        above, below = cell.numerator, cell.denominator
    except AttributeError:
        return None
    return (above, below) if type(above) is int and type(below) is int and below > 0 else None


def _number_of_fraction(cell: fractions.Fraction) -> float:
    parts = _parts(cell)
    if parts is None:
        return math.nan
    try:
        return parts[0] / parts[1]
    except OverflowError:
        return math.inf if parts[0] > 0 else -math.inf


def _text_of_fraction(cell: fractions.Fraction) -> str | None:
    parts = _parts(cell)
    if parts is None or max(part.bit_length() for part in parts) > _MOST_BITS:
        return None
    return str(parts[0]) if parts[1] == 1 else f"{parts[0]}/{parts[1]}"


def _text_of_datetime(cell: datetime.datetime) -> str | None:
    zone = type(datetime.datetime.tzinfo.__get__(cell))  # type: ignore[attr-defined]
    if zone is not type(None) and zone is not datetime.timezone:
        return None
    return datetime.datetime.isoformat(cell)


def _text_of_datetime64(cell: np.datetime64) -> str | None:
    if np.isnat(cell):
        return None
    resolution = np.datetime_data(cell.dtype)[0]
    if resolution in ("Y", "M"):
        return str(cell)
    too_fine = resolution in ("ns", "ps", "fs", "as")
    value: Any = (cell.astype("datetime64[us]") if too_fine else cell).item()
    return value.isoformat() if isinstance(value, datetime.date) else None


_ABSENT: Readers = (_nan, _no_text)
_BOOLEAN: Readers = (float, str)
_INTEGER: Readers = (_number_of_int, _digits)
_FLOAT: Readers = (_number_of_float, _text_of_float)
_TEXT: Readers = (_number_of_text, _canonical)
_BYTES: Readers = (_number_of_bytes, _text_of_bytes)
_DECIMAL: Readers = (_number_of_decimal, _word_of_decimal)
_DATE: Readers = (_nan, datetime.date.isoformat)
_DATETIME: Readers = (_nan, _text_of_datetime)

_KINDS: list[tuple[type, Readers]] = [
    (type(None), _ABSENT),
    (str, _TEXT),
    (bytes, _BYTES),
    (datetime.date, _DATE),
    (datetime.datetime, _DATETIME),
    (np.datetime64, (_nan, _text_of_datetime64)),
    (decimal.Decimal, _DECIMAL),
    (fractions.Fraction, (_number_of_fraction, _text_of_fraction)),
    *((kind, _BOOLEAN) for kind in (bool, np.bool_)),
    *((kind, _INTEGER) for kind in (int, *_NUMPY_INTEGERS)),
    *((kind, _FLOAT) for kind in (float, *_NUMPY_FLOATS)),
]
_BY_KIND = {id(kind): readers for kind, readers in _KINDS}
_BY_BASE: list[tuple[type, Readers, Callable[[Cell], Cell]]] = [
    (str, _TEXT, str.__str__),
    (bytes, _BYTES, lambda cell: cell),
    (decimal.Decimal, _DECIMAL, decimal.Decimal),
    (int, _INTEGER, int.__int__),
    (float, _FLOAT, float.__float__),
    (datetime.datetime, _DATETIME, lambda cell: cell),
    (datetime.date, _DATE, lambda cell: cell),
]
"""How a subclass, such as np.str_ or pandas' Timestamp, is read: by its built-in base class."""
