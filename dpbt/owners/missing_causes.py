"""Why cells of private rows have no value, in words for their owner, and which option reads them.

It looks at cells, so that only the owner may see what it returns. An option is named only if the
cells are read with it: each is tried on the cell itself.
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
    read_text,
)
from dpbt.data.column_types import Boolean, Column, Nominal, Numeric
from dpbt.data.domains import Label

EMPTY = "empty"
"""The cause of cells that hold nothing, or a word that means so. Nothing is wrong with them."""

OTHER_CAPITALS, OTHER_TEXT, OTHER_CELLS = "other capitals", "other text", "other cells"

MAX_DISTINCT_TEXTS = 2000
"""How many texts of a column are looked at; cells with others are counted together."""

_MAX_CHARACTERS = 100
"""Longer text is no number, so that nobody waits for patterns that search it."""

MORE_TEXTS = "\0"
"""What stands for all texts beyond those that are looked at."""


class Cause(NamedTuple):
    """Why a cell is missing.

    Attributes:
        words: the cause, such as "decimal comma".
        options: (name, value) of the options of the column that read the cell; empty if none do.
    """

    words: str
    options: tuple[tuple[str, Any], ...] = ()


class CountedCause(NamedTuple):
    """A cause, and the number of cells that are missing for it."""

    words: str
    num_cells: int

    @property
    def is_empty(self) -> bool:
        """Whether the cells hold nothing, so that nothing is wrong with them."""
        return self.words == EMPTY


class MissingCauses(NamedTuple):
    """Why the cells of a column are missing.

    Attributes:
        causes: the most frequent cause first.
        remedy: options of the column that read some of the cells, as a domain's file states them;
            empty if no option does.
        num_read: how many of the cells are read with the remedy.
        num_skipped: how many cells were not looked at, as there are too many different texts.
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
        """How many of the cells hold nothing."""
        return sum(cause.num_cells for cause in self.causes if cause.is_empty)


def explain_missing_cells(texts: Mapping[str | None, int], kind: Column | None) -> MissingCauses:
    """The causes of the missing cells of a column, and the options that read those cells.

    Args:
        texts: the number of missing cells by their text (`cells.read_text`).
        kind: the declared kind of the column; None for weights and ids.
    """
    cause_of_text = {text: _cause_of_text(text, kind) for text in texts}
    counts: Counter[str] = Counter()
    votes: dict[str, Counter[Any]] = {}
    for text, cause in cause_of_text.items():
        counts[cause.words] += texts[text]
        for name, value in cause.options:
            values = value if isinstance(value, tuple) else (value,)
            votes.setdefault(name, Counter()).update(dict.fromkeys(values, texts[text]))
    causes = [CountedCause(words, count) for words, count in counts.most_common()]
    if kind is None or not votes:
        return MissingCauses(causes)

    # One declaration for all cells; which of them it reads is tried.
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
        decimal = options.get("decimal", getattr(kind, "decimal", None) or ".")
        signs = dict.fromkeys((*getattr(kind, "strip", ()), *votes["strip"]))
        options["strip"] = tuple(sign for sign in signs if sign != decimal)
        if options["strip"] == getattr(kind, "strip", ()):
            del options["strip"]
    mended = _kind_with_options(kind, options)
    if mended is None:
        return MissingCauses(causes)
    listed = [text for text, cause in cause_of_text.items() if cause.options and text is not None]
    is_missing = mended.read_bins(listed).missing.tolist()
    num_read = sum(
        texts[text] for text, missing in zip(listed, is_missing, strict=True) if not missing
    )
    remedy = _options_in_words(options) if num_read else ""
    units = [sign for sign in options.get("strip", ()) if sign not in THOUSANDS_SIGNS]
    return MissingCauses(
        causes,
        remedy,
        num_read,
        num_skipped=texts.get(MORE_TEXTS, 0),
        mixes_units=bool(remedy) and len(units) > 1,
    )


def _kind_with_options(kind: Column, options: Mapping[str, Any]) -> Column | None:
    """The column with further options; None where it cannot have them."""
    changes = dict(options)
    if "date" in changes:
        changes |= {"decimal": None, "strip": ()}
    try:
        return msgspec.structs.replace(kind, **changes)
    except ValueError:
        return None


def _options_in_words(options: Mapping[str, Any]) -> str:
    """Options as a domain's file states them."""
    texts = [
        f'"{name}": {json.dumps(value, ensure_ascii=False)}' for name, value in options.items()
    ]
    if "date" in options and options["unit"] == "days":
        texts.append('with dates as "low" and "high"')
    return ", ".join(texts)


def is_empty(text: str | None) -> bool:
    """Whether text is one that means a missing cell."""
    return text is not None and (not text or (text.isascii() and text.lower() in MISSING_WORDS))


def _cause_of_text(text: str | None, kind: Column | None) -> Cause:
    if is_empty(text):
        return Cause(EMPTY)
    if text is None:
        return Cause(OTHER_CELLS)
    if text == MORE_TEXTS:
        return Cause(f"not looked at, beyond {MAX_DISTINCT_TEXTS} different texts")
    match kind:
        case Numeric():
            return _cause_in_numeric_column(text, kind)
        case Nominal():
            words = [word for words in kind.words_by_bin for word in words]
            return _cause_if_other_capitals(text, words) or Cause("a value that is not listed")
        case Boolean():
            words = [*_as_word_list(kind.true), *_as_word_list(kind.false)]
            is_usual = fold_case(text) in _TRUE_AND_FALSE_WORDS
            other = "another spelling of true or false" if is_usual else "another word than the two"
            return _cause_if_other_capitals(text, words) or Cause(other)
        case None:
            return Cause(OTHER_TEXT)


def _as_word_list(words: Any) -> list[str]:
    return [words] if isinstance(words, str) else list(words)


_TRUE_AND_FALSE_WORDS = frozenset(
    {"1", "0", "true", "false", "yes", "no", "y", "n", "t", "f", "on", "off"}
    | {"ja", "nein", "wahr", "falsch", "oui", "non", "vrai", "faux", "si", "s\u00ed"}
)
"""Words that may be one of true and false, for which a Boolean column can be declared."""


def _cause_if_other_capitals(text: str, declared_words: Iterable[str]) -> Cause | None:
    """The cause where text is a declared word but for its capitals; None for other text."""
    if fold_case(text) in map(fold_case, declared_words):
        return Cause(OTHER_CAPITALS, (("ignore_case", True),))
    return None


# Numbers.

_SIGNS = ("EUR", "USD", "GBP", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "kr.", "kr", "Fr.", "Rs.")
"""Signs of currencies that are words."""

_THOUSANDS = (" ", ",", ".", "'", "\u2019")
"""Signs of thousands."""


_UNIT = re.compile(r"[0-9]\s*([^\W\d_]+[^\s\d.,]*)$")
"""The unit behind a number, such as kg."""


_GROUPED_BY_COMMAS = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9.,])")


def _cause_in_numeric_column(text: str, kind: Numeric) -> Cause:
    """The cause where text is no number: the fewest signs and marks with which it is one."""
    if len(text) > _MAX_CHARACTERS:
        return Cause(OTHER_TEXT)
    if formats := _date_formats_matching(text):
        unit = kind.unit or (
            "year" if 1000 <= float(kind.low) < float(kind.high) < 3000 else "days"
        )
        words = "a date" if kind.date is None else "a date of another format"
        return Cause(words, (("date", formats), ("unit", unit)))
    if kind.unit in (None, "hour") and (formats := _time_formats_of(text)):
        words = "a time of the day" if kind.date is None else "a time of another format"
        return Cause(words, (("date", formats), ("unit", "hour")))
    if kind.date is not None:
        return Cause(OTHER_TEXT)
    normal = "".join(" " if character.isspace() else character for character in text)
    signs = {sign: "currency sign" for sign in _SIGNS if sign in normal}
    for character in normal:
        if unicodedata.category(character) == "Sc":
            signs[character] = "currency sign"
        if character in "%\u2030":
            signs[character] = "percent sign"
    if not signs and (unit_match := _UNIT.search(normal)):
        signs[unit_match[1]] = "unit"
    thousands = [sign for sign in _THOUSANDS if sign in normal]
    candidates = list(itertools.product(_subsets_by_size(thousands), DECIMAL_MARKS))
    if _GROUPED_BY_COMMAS.search(normal):  # 1,234 is rather a thousand than a decimal number
        candidates.sort(key=lambda both: "," not in both[0] or both[1] != ".")
    for marks, decimal in candidates:
        strip = tuple(dict.fromkeys((*kind.strip, *signs, *marks)))
        if decimal in strip:
            continue
        form = NumberForm(decimal=decimal, strip=strip)
        if np.isnan(form.read_number(text)):
            continue
        names = dict.fromkeys(signs.values())
        if decimal == "," and "," in normal and kind.decimal != ",":
            names["decimal comma"] = None
        if decimal == "." and "." in normal and kind.decimal == ",":
            names["decimal point"] = None
        if marks:
            names["sign of thousands"] = None
        options: list[tuple[str, Any]] = []
        if decimal != (kind.decimal or ".") and decimal in normal:
            options.append(("decimal", decimal))
        if new_signs := tuple(sign for sign in strip if sign not in kind.strip):
            options.append(("strip", new_signs))
        return Cause(" and ".join(names) or OTHER_TEXT, tuple(options))
    return Cause(_describe_unreadable_text(normal))


def _subsets_by_size(marks: list[str]) -> Iterable[tuple[str, ...]]:
    """All sets of marks, the smallest first."""
    return itertools.chain.from_iterable(
        itertools.combinations(marks, size) for size in range(len(marks) + 1)
    )


_MINUS_SIGNS = "\u2212\u2012\u2013\u2014\ufe63\uff0d"
"""The minus of Unicode, and dashes that stand for it; no option reads them as a minus."""

_NEGATIVE_NUMBERS = {
    "a minus that is another sign than -, which no option reads": rf"[{_MINUS_SIGNS}](.*)",
    "a number in parentheses, which no option reads; if it is negative, write it with -": (
        r"[^\w\s]?\s*\((.*)\)\s*[^\w\s]?"
    ),
    "a minus behind the number, which no option reads": rf"(.*?)\s*[-{_MINUS_SIGNS}]",
}
"""How negative numbers are written that no option reads: the cause, and a regular expression."""


def _describe_unreadable_text(text: str) -> str:
    """What text is that no option reads as a number."""
    for words, pattern in _NEGATIVE_NUMBERS.items():
        number = re.fullmatch(pattern, text)
        if number is not None and re.fullmatch(r"[^\w-]*[0-9][0-9.,'\s]*[^\w-]*", number[1]):
            return words
    if fold_case(text) in _TRUE_AND_FALSE_WORDS:
        return "a word for true or false"
    if not any(character.isdigit() for character in text):
        return "a word"
    if text[:1] in "<>\u2264\u2265~":
        return "a bound such as <5"
    return OTHER_TEXT


# Dates.

_DAYS = (
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
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")

_DATE_FORMATS = ("iso", *("".join(both) for both in itertools.product(_DAYS, _TIMES)))
"""The formats that are tried on text that is no number."""


_TIME_FORMATS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
"""The formats that are tried on text that may be a time of the day."""


@functools.cache
def _forms_of_times() -> tuple[DateForm, ...]:
    return tuple(DateForm(format=name, unit="hour") for name in _TIME_FORMATS)


def _time_formats_of(text: str) -> tuple[str, ...]:
    """The formats of which text is a time of the day."""
    if ":" not in text:
        return ()
    return tuple(form.format for form in _forms_of_times() if not np.isnan(form.read_number(text)))


@functools.cache
def _forms_of_dates() -> tuple[DateForm, ...]:
    return tuple(DateForm(format=name, unit="days") for name in _DATE_FORMATS)


def _date_formats_matching(text: str) -> tuple[str, ...]:
    """The formats of which text is a date."""
    if not 6 <= len(text) <= 40 or not any(sign in text for sign in "-./ "):
        return ()
    return tuple(form.format for form in _forms_of_dates() if not np.isnan(form.read_number(text)))


# Texts of missing cells.


def count_texts_of_missing_cells(
    counts: Counter[str | None], cells: ColumnCells, missing: np.ndarray
) -> None:
    """Add the missing cells of a column to their counts by text; None for cells without a text.

    Args:
        counts: the counts so far, of at most `MAX_DISTINCT_TEXTS` texts.
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
    """The text of a cell, of a date its ISO form; empty for one that is missing; None for others.

    As `cells` does, it runs no code of the cell's own class.
    """
    if (text := read_text(cell)) is not None:
        return text
    kind = type(cell)
    name = type.__dict__["__name__"].__get__(kind)
    if name in _MISSING_CLASSES or issubclass(kind, float | np.floating):
        return ""
    days = _iso_days().read_number(cell)
    if kind is np.datetime64 and np.isnan(days):
        return ""
    return None if np.isnan(days) else _iso_days().text_of_number(days)


@functools.cache
def _iso_days() -> DateForm:
    return DateForm(format="iso", unit="days")


def label_as_column(label: Label) -> Column:
    """The label's declaration as that of a column, of which a missing cell is no declared label."""
    if label.target is not None:
        return label.target
    words: Any = label.positive, label.negative
    return Boolean(*words, ignore_case=label.ignore_case)
