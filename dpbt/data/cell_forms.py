"""Declared forms of the numbers in a column: decimal marks, signs, and dates.

A form is public. It is a map of one cell alone: which number a cell holds follows from that cell
and the form, whatever the other cells are. As in `cells`, no cell raises an error, and no code of a
cell's own class is run.
"""

import dataclasses
import datetime
import functools
import math
import re
import zoneinfo
from typing import NamedTuple

import numpy as np

from dpbt.common.validate import check_choice, show_value
from dpbt.data.cells import (
    Cell,
    is_sequence,
    is_text,
    read_number,
    read_text_or_number_word,
    result_or_none_on_error,
)

DECIMAL_MARKS = (".", ",")
"""The marks that a decimal fraction may begin with."""

BLANKS = " \u00a0\u2009\u202f"
"""The characters that a blank among the stripped signs stands for: a person cannot tell them apart.

They are the blank, the one that no line is broken at, and the thin ones.
"""

THOUSANDS_SIGNS = frozenset(".,'\u2019_" + BLANKS)
"""The signs that may stand between the digits of a whole number."""

_GROUPED_DIGITS = re.compile(
    r"(?<![0-9.,\x00])[0-9]{1,3}(?:\x00[0-9]{2,3})++(?<=\x00[0-9]{3})(?![0-9])", re.ASCII
)
"""Digits with signs of thousands, each written as NUL: the last group has three digits.

It never goes back, so that the time for a cell grows as its length.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberForm:
    """Numbers with another decimal mark, or with signs such as those of a currency.

    Cells that are numbers already, as in a Parquet file, are themselves. In text all declared signs
    are left out. Between two digits a sign must be one that separates thousands, one of . , ' _ or
    a blank, and three digits must follow the last of them. So with a stripped comma "1,234" is
    1234, and "1,5" is missing. Then the decimal mark is read. With a decimal comma, text that still
    holds a point is missing. All else is as for plain numbers (`cells.read_number`).

    Attributes:
        decimal: the decimal mark, "." or ",".
        strip: the signs that are left out, such as "€", "%" or the sign of thousands. A blank
            stands for all of `BLANKS`. A percentage keeps its number: "5 %" is 5.

    Raises:
        ValueError: for another decimal mark, and for signs that are empty, are not text, or hold a
            digit, a plus, a minus or the decimal mark.
    """

    decimal: str = "."
    strip: tuple[str, ...] = ()

    def __post_init__(self):
        if not isinstance(self.decimal, str) or self.decimal not in DECIMAL_MARKS:
            raise ValueError(
                f'Numeric: decimal must be "." or ",", got {show_value(self.decimal)}; a sign of '
                "thousands is one of strip"
            )
        for sign in self.strip:
            if not isinstance(sign, str) or not sign or re.search(r"[0-9+\-\x00]", sign):
                raise ValueError(
                    "Numeric: strip must be a list of texts without digits, plus and minus, such "
                    f'as ["€", "%", " "], got {show_value(sign)}'
                )
            if self.decimal in sign:
                raise ValueError(
                    f"Numeric: strip has the decimal mark {self.decimal!r}, in {show_value(sign)}; "
                    'where it separates thousands, declare the other decimal mark, as decimal: ","'
                )

    @functools.cached_property
    def _signs(self) -> re.Pattern[str] | None:
        """The pattern of a run of declared signs; None without signs.

        A blank stands for all kinds of blanks.
        """
        signs = {*self.strip, *(BLANKS if " " in self.strip else "")}
        longest_first = sorted(signs, key=lambda sign: (-len(sign), sign))
        return re.compile(f"(?:{'|'.join(map(re.escape, longest_first))})+") if signs else None

    def read_number(self, cell: Cell) -> float:
        """Read the number in a cell, by the declared mark and signs.

        It is NaN if the number is missing, and may be infinite.
        """
        text = read_text_or_number_word(cell) if is_text(cell) else None
        return read_number(cell) if text is None else self._read_text(text)

    def _read_text(self, text: str) -> float:
        if "\0" in text:
            return math.nan
        if self._signs is not None:
            text = self._signs.sub(_replacement_of_signs, text).strip()
            if "\0" in text:
                text = _GROUPED_DIGITS.sub(lambda digits: digits[0].replace("\0", ""), text)
                if "\0" in text:
                    return math.nan
        if self.decimal == ",":
            if "." in text:
                return math.nan
            text = text.replace(",", ".")
        return read_number(text)


def _replacement_of_signs(signs: re.Match[str]) -> str:
    """The text that replaces a run of signs, before a number is read.

    It is empty for signs that are left out, NUL for a sign that may separate thousands, and text
    that is no number otherwise.
    """
    text, (start, end) = signs.string, signs.span()
    is_between_digits = text[start - 1 : start].isdigit() and text[end : end + 1].isdigit()
    if not is_between_digits:
        return ""
    return "\0" if signs[0] in THOUSANDS_SIGNS else "?"


PLAIN_NUMBERS = NumberForm()
"""Numbers as `cells.read_number` reads them."""

# Dates.

_MICROSECONDS_IN = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
}
"""Units of the time since the start of 1970, in UTC."""

_PARTS = ("year", "month", "weekday", "hour")
"""Units that are parts of a date."""

DATE_UNITS = (*_MICROSECONDS_IN, *_PARTS)
"""The units that the number of a date may have."""

_EPOCH_ORDINAL, _MAX_ORDINAL = datetime.date(1970, 1, 1).toordinal(), datetime.date.max.toordinal()

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_PATTERN_OF_DIRECTIVE = {
    "Y": "(?P<Y>[0-9]{4})",
    "y": "(?P<y>[0-9]{2})",
    "m": "(?P<m>[0-9]{1,2})",
    "d": "(?P<d>[0-9]{1,2})",
    "H": "(?P<H>[0-9]{1,2})",
    "I": "(?P<I>[0-9]{1,2})",
    "M": "(?P<M>[0-9]{2})",
    "S": "(?P<S>[0-9]{2})",
    "f": "(?P<f>[0-9]{1,6})",
    "p": "(?P<p>[AaPp][Mm])",
    "b": "(?P<b>[A-Za-z]{3})",
    "z": r"(?P<z>Z|[+-][0-9]{2}:?[0-9]{2})",
    "%": "%",
}
"""The regular expression of each directive, which are those of `datetime.strptime`.

Names of months are English, whatever the machine's language, so that all machines read alike.
"""

_NUMBER_FORMATS = {"unix": 1_000_000, "unix ms": 1000}
"""Formats of numbers that count since the start of 1970, with their units in microseconds."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DateForm:
    """Dates and times that are read as numbers of a unit.

    A cell of a type of dates (`datetime.date`, `datetime.datetime`, `np.datetime64`, and columns of
    pandas, polars and Arrow) is itself, whatever the format. One with a time zone is converted to
    UTC, and one without is taken as UTC; the date of a day begins at 00:00. Any other cell is read
    by the format. If that does not fit, it is missing.

    Attributes:
        format: "iso" for ISO 8601, such as 2015-01-31 or 2015-01-31T12:30:00Z; "unix" for seconds
            since the start of 1970, and "unix ms" for milliseconds; or text with the directives
            %Y %y %m %d %H %I %M %S %f %p %b %z of `datetime.strptime`, such as "%d.%m.%Y". %y is
            in 1969..2068, and %b is English.
        unit: "days", "hours", "minutes" or "seconds" since the start of 1970; or a part of the
            date: "year", "month" (1 to 12), "weekday" (1 for Monday to 7), or "hour" of the day
            (0 to below 24, with a fraction).

    Raises:
        ValueError: for another format or unit.
    """

    format: str
    unit: str

    def __post_init__(self):
        check_choice("Numeric: the unit of a date", self.unit, DATE_UNITS)
        is_word = isinstance(self.format, str) and self.format in ("iso", *_NUMBER_FORMATS)
        directives = re.findall("%(.?)", str(self.format))
        names = [name for name in directives if name != "%"]
        has_year = bool({"Y", "y"} & set(names)) or self.unit == "hour"
        is_readable = set(directives) <= set(_PATTERN_OF_DIRECTIVE) and len(set(names)) == len(
            names
        )
        if not is_word and not (
            isinstance(self.format, str) and names and is_readable and has_year
        ):
            raise ValueError(
                'Numeric: date must be "iso", "unix", "unix ms", or a format with %Y or %y such as '
                f'"%d.%m.%Y", of the directives {" ".join("%" + d for d in _PATTERN_OF_DIRECTIVE)}'
                f", each once; got {show_value(self.format)}"
            )

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        pieces = re.split("%(.)", self.format)
        return re.compile(
            "".join(
                _PATTERN_OF_DIRECTIVE[piece] if place % 2 else re.escape(piece)
                for place, piece in enumerate(pieces)
            ),
            re.ASCII,
        )

    @property
    def counts_time(self) -> bool:
        """Whether numbers count the time since 1970, rather than state a part of a date."""
        return self.unit in _MICROSECONDS_IN

    def read_number(self, cell: Cell) -> float:
        """Read the date in a cell as a number of the unit.

        It is NaN if the date is missing.
        """
        number = result_or_none_on_error(self._number_of_cell, cell)
        return math.nan if number is None else number

    def _number_of_cell(self, cell: Cell) -> float | None:
        microseconds = _microseconds_of_date(cell)
        if microseconds is None:
            microseconds = self._microseconds_of_text(cell)
        return None if microseconds is None else self._number_of_time(microseconds)

    def _microseconds_of_text(self, cell: Cell) -> int | None:
        """Parse a cell by the format, as microseconds since 1970.

        Any other cell gives None or raises an error.
        """
        if self.format in _NUMBER_FORMATS:
            if type(cell) is bool or type(cell) is np.bool_:
                return None
            number = read_number(cell) * _NUMBER_FORMATS[self.format]
            return round(number) if math.isfinite(number) else None
        text = read_text_or_number_word(cell)
        if text is None or not text.isascii():
            return None
        if self.format == "iso":
            return _microseconds_of_date(datetime.datetime.fromisoformat(text))
        match = self._pattern.fullmatch(text)
        return (
            None if match is None else _microseconds_of_date(_date_of_directives(match.groupdict()))
        )

    def _number_of_time(self, microseconds: int) -> float | None:
        """Convert microseconds since 1970 to a number of the unit.

        It is None for a time beyond the calendar.
        """
        if self.counts_time:
            whole_units, rest = divmod(microseconds, _MICROSECONDS_IN[self.unit])
            return whole_units + rest / _MICROSECONDS_IN[self.unit]
        days, rest = divmod(microseconds, _MICROSECONDS_IN["days"])
        if self.unit == "hour":
            return rest / _MICROSECONDS_IN["hours"]
        ordinal = _EPOCH_ORDINAL + days
        if not 1 <= ordinal <= _MAX_ORDINAL:
            return None
        date = datetime.date.fromordinal(ordinal)
        return float(date.isoweekday() if self.unit == "weekday" else getattr(date, self.unit))

    def parse_bound(self, name: str, bound: object) -> object:
        """Convert a declared bound that is an ISO date to its number.

        Other bounds are returned as they are.

        Raises:
            ValueError: for text that is no ISO date, and for dates of a unit that is a part.
        """
        if not isinstance(bound, str | datetime.date):
            return bound
        number = DateForm(format="iso", unit=self.unit).read_number(bound)
        if not self.counts_time or math.isnan(number):
            raise ValueError(
                f"{name} must be an ISO date such as 2015-01-31, or a number of the unit"
                f"{'' if self.counts_time else ', which is a part of a date'}, "
                f"got {show_value(bound)}"
            )
        return number

    def text_of_number(self, number: float) -> str:
        """Write a number as a date, if numbers count the time since 1970.

        Other numbers are written as numbers.
        """
        if not self.counts_time:
            return f"{number:.6g}"
        microseconds = round(number * _MICROSECONDS_IN[self.unit])
        days, rest = divmod(microseconds, _MICROSECONDS_IN["days"])
        if not 1 <= _EPOCH_ORDINAL + days <= _MAX_ORDINAL:
            return f"{number:.6g} {self.unit} since 1970"
        date = datetime.date.fromordinal(_EPOCH_ORDINAL + days).isoformat()
        seconds = round(rest / 1_000_000)
        if seconds == 0:
            return date
        hour, minute = divmod(seconds // 60, 60)
        time = f"{hour:02d}:{minute:02d}" + (f":{seconds % 60:02d}" if seconds % 60 else "")
        return f"{date} {time}"


def _microseconds_of_date(cell: Cell) -> int | None:
    """Convert a cell of a type of dates to microseconds since 1970 in UTC.

    It is None for a cell of another type.

    Fields are read by the methods of the built-in classes, and a time zone must be one of the
    standard library. Parts of a microsecond are dropped.
    """
    kind = type(cell)
    if kind is np.datetime64:
        return _microseconds_of_datetime64(cell)
    # The class of a missing date of pandas derives from that of dates.
    is_missing = type.__dict__["__name__"].__get__(kind) == "NaTType"
    if not issubclass(kind, datetime.date) or is_missing:
        return None
    days = datetime.date.toordinal(cell) - _EPOCH_ORDINAL
    microseconds = days * _MICROSECONDS_IN["days"]
    if not issubclass(kind, datetime.datetime):
        return microseconds
    fields = datetime.datetime
    for descriptor, size in (
        (fields.hour, "hours"),
        (fields.minute, "minutes"),
        (fields.second, "seconds"),
    ):
        microseconds += descriptor.__get__(cell) * _MICROSECONDS_IN[size]  # type: ignore[attr-defined]
    microseconds += fields.microsecond.__get__(cell)  # type: ignore[attr-defined]
    zone = fields.tzinfo.__get__(cell)  # type: ignore[union-attr]
    if zone is None:
        return microseconds
    if type(zone) not in (datetime.timezone, zoneinfo.ZoneInfo):
        return None
    offset = fields.utcoffset(cell)
    return None if offset is None else microseconds - offset // datetime.timedelta(microseconds=1)


_EXPONENT_OF_UNIT = {"s": 0, "ms": -3, "us": -6, "ns": -9, "ps": -12, "fs": -15, "as": -18}
_SECONDS_OF_UNIT = {"W": 604_800, "D": 86_400, "h": 3600, "m": 60}


def _microseconds_of_datetime64(cell: np.datetime64) -> int | None:
    """Convert a NumPy date to microseconds since 1970.

    The result is exact but for parts of a microsecond, which are dropped.
    """
    unit, count = np.datetime_data(cell.dtype)
    if np.isnat(cell) or unit == "generic":
        return None
    if unit in ("Y", "M"):
        months = int(cell.astype(np.int64)) * count * (12 if unit == "Y" else 1)
        year, month = divmod(months, 12)
        date = datetime.date(1970 + year, 1 + month, 1)
        return (date.toordinal() - _EPOCH_ORDINAL) * _MICROSECONDS_IN["days"]
    value = int(cell.astype(np.int64)) * count
    if unit in _SECONDS_OF_UNIT:
        return value * _SECONDS_OF_UNIT[unit] * 1_000_000
    exponent = _EXPONENT_OF_UNIT[unit] + 6
    return value * 10**exponent if exponent >= 0 else value // 10**-exponent


def _date_of_directives(fields: dict[str, str | None]) -> datetime.datetime:
    """Make a date of the fields that the directives of a format matched.

    It raises an error for fields that are no date.
    """
    number = {name: int(text) for name, text in fields.items() if text and text.isdigit()}
    year = number.get("Y", 1970)
    if "y" in number:
        year = number["y"] + (2000 if number["y"] < 69 else 1900)
    month = number.get("m", 1)
    if name := fields.get("b"):
        month = _MONTHS.index(name.lower()) + 1
    hour = number.get("H", 0)
    if "I" in number:
        if not 1 <= number["I"] <= 12:
            raise ValueError
        hour = number["I"] % 12 + 12 * ((fields.get("p") or "am").lower() == "pm")
    fraction = (fields.get("f") or "").ljust(6, "0")
    zone = None
    if offset := fields.get("z"):
        digits = offset[1:].replace(":", "") or "0000"
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        sign = -1 if offset[0] == "-" else 1
        zone = datetime.timezone(sign * datetime.timedelta(minutes=minutes))
    return datetime.datetime(
        year,
        month,
        number.get("d", 1),
        hour,
        number.get("M", 0),
        number.get("S", 0),
        int(fraction),
        zone,
    )


class ReadingOptions(NamedTuple):
    """The declared options on how the numbers of a column are read.

    Attributes:
        decimal: the decimal mark; None for ".".
        strip: the signs that are left out.
        date: the format of dates; None for numbers.
        unit: the unit of dates.
    """

    decimal: str | None
    strip: tuple[str, ...]
    date: str | None
    unit: str | None


def form_of_reading_options(options: ReadingOptions) -> NumberForm | DateForm:
    """Make the form of numbers or dates that reading options declare.

    Raises:
        ValueError: as `NumberForm` and `DateForm`, for a date without a unit or a unit without a
            date, and for a decimal mark or signs beside a date. Also for options that are no text.
    """
    for name in ("decimal", "date", "unit"):
        value = getattr(options, name)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"Numeric: {name} must be text, got {show_value(value)}")
    return _cached_form_of_options(options)


@functools.lru_cache(maxsize=256)
def _cached_form_of_options(options: ReadingOptions) -> NumberForm | DateForm:
    decimal, strip, date, unit = options
    if date is None and unit is None:
        return NumberForm(decimal="." if decimal is None else decimal, strip=strip)
    if date is None or unit is None:
        raise ValueError(
            "Numeric: date and unit go together: the format of dates, and one of the units "
            f"{', '.join(DATE_UNITS)}; got date={show_value(date)} and unit={show_value(unit)}"
        )
    if decimal is not None or strip:
        raise ValueError("Numeric: decimal and strip are for numbers, and not for dates")
    return DateForm(format=date, unit=unit)


def declared_signs(strip: object) -> tuple[str, ...]:
    """The declared signs to strip, as a tuple.

    A single sign may be declared as text.

    Raises:
        ValueError: for anything but signs.
    """
    if isinstance(strip, str):
        return (strip,)
    if not is_sequence(strip) or not all(isinstance(sign, str) for sign in strip):  # type: ignore[attr-defined]
        raise ValueError(f"Numeric: strip must be a list of texts, got {show_value(strip)}")
    return tuple(strip)  # type: ignore[arg-type]
