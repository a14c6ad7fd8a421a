"""Explain to the owner of private rows why cells have no value, and which option would read them.

The functions look at private cells, so only the owner may see what they return. Each option that
they name was tried on the cells: it reads some of them.
"""

import functools
import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dpbt.data.cell_forms import DECIMAL_MARKS, THOUSANDS_SIGNS, DateForm, NumberForm
from dpbt.data.cells import (
    MISSING_WORDS,
    Cell,
    ColumnCells,
    DictionaryCells,
    fold_case,
    read_text_or_number_word,
)
from dpbt.data.column_types import Boolean, Column, Nominal, Numeric
from dpbt.data.domains import Label

EMPTY = "empty"
"""The cause of cells that hold nothing, or a word that means so. Nothing is wrong with them."""

OTHER_CAPITALS, OTHER_TEXT, OTHER_CELLS = "other capitals", "other text", "other cells"

MAX_DISTINCT_TEXTS = 2000
"""The most distinct texts of a column that are examined; others are counted together."""

_MAX_CHARACTERS = 100
"""Longer text is no number, so that nobody waits for patterns that search it."""

MORE_TEXTS = "\0"
"""The text that stands for all texts beyond those that are examined."""


class Cause(NamedTuple):
    """Why a cell is missing, and what would read it.

    Attributes:
        text: the cause, such as "decimal comma".
        options: (name, value) of the options of the column that read the cell; empty if none do.
    """

    text: str
    options: tuple[tuple[str, Any], ...] = ()


class CountedCause(NamedTuple):
    """A cause for which cells are missing, and the number of these cells."""

    text: str
    num_cells: int

    @property
    def is_of_empty_cells(self) -> bool:
        """Whether the cells with this cause hold nothing, so that nothing is wrong with them."""
        return self.text == EMPTY


class MissingCauses(NamedTuple):
    """Why the cells of a column are missing, and which options would read them.

    Attributes:
        causes: the most frequent cause first.
        remedy: options of the column that read some of the cells, as a domain's file states them;
            empty if no option does.
        num_read: the number of cells that are read with the remedy.
        num_skipped: the number of cells that were not examined, as the texts are too many.
        mixes_units: whether the remedy leaves out several signs of currencies, percentages or
            units, which may mean that the numbers have several units.
    """

    causes: list[CountedCause]
    remedy: str = ""
    num_read: int = 0
    num_skipped: int = 0
    mixes_units: bool = False

    @property
    def num_empty(self) -> int:
        """The number of missing cells that hold nothing, or a word such as NA."""
        return sum(cause.num_cells for cause in self.causes if cause.is_of_empty_cells)


def explain_missing_cells(
    num_cells_by_text: Mapping[str | None, int], column: Column | None
) -> MissingCauses:
    """The causes for which cells of a column are missing, and the options that read those cells.

    Args:
        num_cells_by_text: the number of missing cells by their text
            (`cells.read_text_or_number_word`).
        column: the declaration of the column; None for weights and ids.
    """
    cause_by_text = {text: _cause_of_missing_text(text, column) for text in num_cells_by_text}
    num_cells_by_cause: Counter[str] = Counter()
    for text, cause in cause_by_text.items():
        num_cells_by_cause[cause.text] += num_cells_by_text[text]
    causes = [CountedCause(text, count) for text, count in num_cells_by_cause.most_common()]
    if column is None or not any(cause.options for cause in cause_by_text.values()):
        return MissingCauses(causes)
    options = _choose_options_that_read_most(cause_by_text, num_cells_by_text, column)
    mended = _column_with_options(column, options)
    if mended is None:
        return MissingCauses(causes)

    texts = [text for text, cause in cause_by_text.items() if cause.options and text is not None]
    is_missing = mended.read_bins(texts).missing.tolist()
    num_read = sum(
        num_cells_by_text[text]
        for text, missing in zip(texts, is_missing, strict=True)
        if not missing
    )
    remedy = _options_as_json_text(options) if num_read else ""
    units = [sign for sign in options.get("strip", ()) if sign not in THOUSANDS_SIGNS]
    return MissingCauses(
        causes,
        remedy,
        num_read,
        num_skipped=num_cells_by_text.get(MORE_TEXTS, 0),
        mixes_units=bool(remedy) and len(units) > 1,
    )


def _choose_options_that_read_most(
    cause_by_text: Mapping[str | None, Cause],
    num_cells_by_text: Mapping[str | None, int],
    column: Column,
) -> dict[str, Any]:
    """Choose one value for each option that causes name: the one that reads the most cells.

    A column has one declaration, so its options must go together: it holds dates or other numbers,
    and a sign is the decimal mark or is left out.
    """
    votes: dict[str, Counter[Any]] = {}  # option -> its values -> cells
    for text, cause in cause_by_text.items():
        for name, value in cause.options:
            values = value if isinstance(value, tuple) else (value,)
            votes.setdefault(name, Counter()).update(dict.fromkeys(values, num_cells_by_text[text]))
    options: dict[str, Any] = {
        name: max(values, key=lambda value: values[value]) for name, values in sorted(votes.items())
    }
    if "date" in votes:  # a column has dates or other numbers: what more cells have
        num_dates = max(votes["date"].values())
        others = [votes[name] for name in ("decimal", "strip") if name in votes]
        if others and max(max(values.values()) for values in others) > num_dates:
            dropped = ("date", "unit")
        else:
            dropped = ("decimal", "strip")
        for name in dropped:
            votes.pop(name, None)
            options.pop(name, None)
    if "strip" in votes and "decimal" in options:
        mark = options["decimal"]
        if votes["strip"][mark] > votes["decimal"][mark]:  # rather a sign of thousands
            del options["decimal"]
    if "strip" in votes:
        decimal = options.get("decimal", getattr(column, "decimal", None) or ".")
        signs = dict.fromkeys((*getattr(column, "strip", ()), *votes["strip"]))
        options["strip"] = tuple(sign for sign in signs if sign != decimal)
        if options["strip"] == getattr(column, "strip", ()):
            del options["strip"]
    return options


def _column_with_options(column: Column, options: Mapping[str, Any]) -> Column | None:
    """The declaration of a column with further options added.

    It is None if the column cannot have them.
    """
    changes = dict(options)
    if "date" in changes:
        changes |= {"decimal": None, "strip": ()}
    try:
        return msgspec.structs.replace(column, **changes)
    except ValueError:
        return None


def _options_as_json_text(options: Mapping[str, Any]) -> str:
    """Options of a column as the JSON text with which a domain's file states them."""
    texts = [
        f'"{name}": {json.dumps(value, ensure_ascii=False)}' for name, value in options.items()
    ]
    if "date" in options and options["unit"] == "days":
        texts.append('with dates as "low" and "high"')
    return ", ".join(texts)


def means_missing_cell(text: str | None) -> bool:
    """Whether text means that a cell has no value.

    Such text is empty, or a word such as NA.
    """
    return text is not None and (not text or (text.isascii() and text.lower() in MISSING_WORDS))


def _cause_of_missing_text(text: str | None, column: Column | None) -> Cause:
    """Why a cell with this text is missing in a column.

    The text None stands for a cell that has none.
    """
    if means_missing_cell(text):
        return Cause(EMPTY)
    if text is None:
        return Cause(OTHER_CELLS)
    if text == MORE_TEXTS:
        return Cause(f"not looked at, beyond {MAX_DISTINCT_TEXTS} different texts")
    match column:
        case Numeric():
            return _cause_of_text_in_numeric_column(text, column)
        case Nominal():
            words = [word for words in column.words_by_bin for word in words]
            return _cause_if_capitals_differ(text, words) or Cause("a value that is not listed")
        case Boolean():
            words = [*_words_as_list(column.true), *_words_as_list(column.false)]
            is_usual = fold_case(text) in _TRUE_AND_FALSE_WORDS
            other = "another spelling of true or false" if is_usual else "another word than the two"
            return _cause_if_capitals_differ(text, words) or Cause(other)
        case None:
            return Cause(OTHER_TEXT)


def _words_as_list(words: Any) -> list[str]:
    return [words] if isinstance(words, str) else list(words)


_TRUE_AND_FALSE_WORDS = frozenset(
    {"1", "0", "true", "false", "yes", "no", "y", "n", "t", "f", "on", "off"}
    | {"ja", "nein", "wahr", "falsch", "oui", "non", "vrai", "faux", "si", "s\u00ed"}
)
"""Words that may be one of true and false, for which a Boolean column can be declared."""


def _cause_if_capitals_differ(text: str, declared_words: Iterable[str]) -> Cause | None:
    """The cause of text that differs from a declared word in capitals alone.

    It is None for other text.
    """
    if fold_case(text) in map(fold_case, declared_words):
        return Cause(OTHER_CAPITALS, (("ignore_case", True),))
    return None


# Numbers.

_CURRENCY_WORDS = (
    "EUR",
    "USD",
    "GBP",
    "CHF",
    "SEK",
    "NOK",
    "DKK",
    "PLN",
    "CZK",
    "kr.",
    "kr",
    "Fr.",
    "Rs.",
)
"""Signs of currencies that are words."""

_THOUSANDS_MARKS = (" ", ",", ".", "'", "\u2019")
"""Signs of thousands."""


_UNIT = re.compile(r"[0-9]\s*([^\W\d_]+[^\s\d.,]*)$")
"""The unit behind a number, such as kg."""


_GROUPED_BY_COMMAS = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9.,])")


def _cause_of_text_in_numeric_column(text: str, column: Numeric) -> Cause:
    """Why text is no number of a numeric column, and the fewest options under which it is one."""
    if len(text) > _MAX_CHARACTERS:
        return Cause(OTHER_TEXT)
    if formats := _date_formats_that_read(text):
        unit = column.unit or (
            "year" if 1000 <= float(column.low) < float(column.high) < 3000 else "days"
        )
        cause = "a date" if column.date is None else "a date of another format"
        return Cause(cause, (("date", formats), ("unit", unit)))
    if column.unit in (None, "hour") and (formats := _time_formats_that_read(text)):
        cause = "a time of the day" if column.date is None else "a time of another format"
        return Cause(cause, (("date", formats), ("unit", "hour")))
    if column.date is not None:
        return Cause(OTHER_TEXT)
    return _cause_of_number_with_signs(text, column)


def _cause_of_number_with_signs(text: str, column: Numeric) -> Cause:
    """Why text with signs is no number, and the fewest options under which it is one.

    The options leave out signs, or state the decimal mark.
    """
    normal = "".join(" " if character.isspace() else character for character in text)
    signs = {sign: "currency sign" for sign in _CURRENCY_WORDS if sign in normal}
    for character in normal:
        if unicodedata.category(character) == "Sc":
            signs[character] = "currency sign"
        if character in "%\u2030":
            signs[character] = "percent sign"
    if not signs and (unit_match := _UNIT.search(normal)):
        signs[unit_match[1]] = "unit"
    thousands = [sign for sign in _THOUSANDS_MARKS if sign in normal]
    candidates = list(itertools.product(_subsets_smallest_first(thousands), DECIMAL_MARKS))
    if _GROUPED_BY_COMMAS.search(normal):  # 1,234 is rather a thousand than a decimal number
        candidates.sort(key=lambda both: "," not in both[0] or both[1] != ".")
    for marks, decimal in candidates:
        strip = tuple(dict.fromkeys((*column.strip, *signs, *marks)))
        if decimal in strip:
            continue
        form = NumberForm(decimal=decimal, strip=strip)
        if np.isnan(form.read_number(text)):
            continue
        names = dict.fromkeys(signs.values())
        if decimal == "," and "," in normal and column.decimal != ",":
            names["decimal comma"] = None
        if decimal == "." and "." in normal and column.decimal == ",":
            names["decimal point"] = None
        if marks:
            names["sign of thousands"] = None
        options: list[tuple[str, Any]] = []
        if decimal != (column.decimal or ".") and decimal in normal:
            options.append(("decimal", decimal))
        if new_signs := tuple(sign for sign in strip if sign not in column.strip):
            options.append(("strip", new_signs))
        return Cause(" and ".join(names) or OTHER_TEXT, tuple(options))
    return Cause(_describe_text_that_is_no_number(normal))


def _subsets_smallest_first(marks: list[str]) -> Iterable[tuple[str, ...]]:
    """All subsets of marks, the smallest first."""
    return itertools.chain.from_iterable(
        itertools.combinations(marks, size) for size in range(len(marks) + 1)
    )


_MINUS_SIGNS = "\u2212\u2012\u2013\u2014\ufe63\uff0d"
"""The minus of Unicode, and dashes that stand for it; no option reads them as a minus."""

_PATTERN_BY_NEGATIVE_FORM = {
    "a minus that is another sign than -, which no option reads": rf"[{_MINUS_SIGNS}](.*)",
    "a number in parentheses, which no option reads; if it is negative, write it with -": (
        r"[^\w\s]?\s*\((.*)\)\s*[^\w\s]?"
    ),
    "a minus behind the number, which no option reads": rf"(.*?)\s*[-{_MINUS_SIGNS}]",
}
"""How negative numbers are written that no option reads: the cause, and a regular expression."""


def _describe_text_that_is_no_number(text: str) -> str:
    """Say what kind of text it is that no option reads as a number, such as a bound."""
    for cause, pattern in _PATTERN_BY_NEGATIVE_FORM.items():
        number = re.fullmatch(pattern, text)
        if number is not None and re.fullmatch(r"[^\w-]*[0-9][0-9.,'\s]*[^\w-]*", number[1]):
            return cause
    if fold_case(text) in _TRUE_AND_FALSE_WORDS:
        return "a word for true or false"
    if not any(character.isdigit() for character in text):
        return "a word"
    if text[:1] in "<>\u2264\u2265~":
        return "a bound such as <5"
    return OTHER_TEXT


# Dates.

_DAY_FORMATS = (
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y/%m/%d",
    "%d.%m.%y",
    "%m/%d/%y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
)
_TIME_SUFFIXES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")

_DATE_FORMATS = (
    "iso",
    *("".join(both) for both in itertools.product(_DAY_FORMATS, _TIME_SUFFIXES)),
)
"""The formats that are tried on text that is no number."""


_TIME_FORMATS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
"""The formats that are tried on text that may be a time of the day."""


@functools.cache
def _time_forms() -> tuple[DateForm, ...]:
    return tuple(DateForm(format=name, unit="hour") for name in _TIME_FORMATS)


def _time_formats_that_read(text: str) -> tuple[str, ...]:
    """The tried formats that read the text as a time of the day."""
    if ":" not in text:
        return ()
    return tuple(form.format for form in _time_forms() if not np.isnan(form.read_number(text)))


@functools.cache
def _date_forms() -> tuple[DateForm, ...]:
    return tuple(DateForm(format=name, unit="days") for name in _DATE_FORMATS)


def _date_formats_that_read(text: str) -> tuple[str, ...]:
    """The tried formats that read the text as a date."""
    if not 6 <= len(text) <= 40 or not any(sign in text for sign in "-./ "):
        return ()
    return tuple(form.format for form in _date_forms() if not np.isnan(form.read_number(text)))


# Texts of missing cells.


def add_missing_cells_to_counts_by_text(
    counts: Counter[str | None], cells: ColumnCells, missing: np.ndarray
) -> None:
    """Add the missing cells of a column to a count of cells by text.

    Args:
        counts: the number of cells by text, which is changed; the key is None for cells that have
            no text. It has at most `MAX_DISTINCT_TEXTS` texts.
        cells: the column, as `cells.column_cells` returns it.
        missing: bool[N]: which of its cells are missing.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "f":
        counts[""] += int(np.count_nonzero(missing & np.isnan(cells)))
        missing = missing & ~np.isnan(cells)
    if isinstance(cells, DictionaryCells):
        distinct = list(cells.distinct)
        numbers, totals = np.unique(cells.index[missing], return_counts=True)
        pairs: Iterable[tuple[Cell, int]] = (
            (distinct[number], total)
            for number, total in zip(numbers.tolist(), totals.tolist(), strict=True)
        )
    else:
        pairs = ((cells[row], 1) for row in np.flatnonzero(missing).tolist())
    for cell, count in pairs:
        text = _text_of_missing_cell(cell)
        if text not in counts and len(counts) >= MAX_DISTINCT_TEXTS:
            text = MORE_TEXTS
        counts[text] += count
    if not counts[""]:
        del counts[""]


_MISSING_CLASSES = ("NoneType", "NAType", "NaTType")
"""The names of the classes of missing cells, of pandas among them."""


def _text_of_missing_cell(cell: Cell) -> str | None:
    """The text of a missing cell.

    It is "" for a cell that is empty, and None for an object without a text. The text of a date is
    its ISO form.

    As `cells` does, it runs no code of the cell's own class.
    """
    if (text := read_text_or_number_word(cell)) is not None:
        return text
    kind = type(cell)
    name = type.__dict__["__name__"].__get__(kind)
    if name in _MISSING_CLASSES or issubclass(kind, float | np.floating):
        return ""
    days = _iso_date_form().read_number(cell)
    if kind is np.datetime64 and np.isnan(days):
        return ""
    return None if np.isnan(days) else _iso_date_form().text_of_number(days)


@functools.cache
def _iso_date_form() -> DateForm:
    return DateForm(format="iso", unit="days")


def column_of_label(label: Label) -> Column:
    """Convert the declaration of a label to that of a column that reads the same cells."""
    if label.target is not None:
        return label.target
    true_and_false: Any = label.positive, label.negative
    return Boolean(*true_and_false, ignore_case=label.ignore_case)
