"""Kinds of columns: their declared values, their bins, and their splits.

A column has at most 256 public bins: intervals of numbers, listed values, or true and false. A
column that distinguishes missing or unlisted values has one more bin for them. Each kind encodes
values as bins, lists the public splits with their words, and is stored as a JSON object of its
attributes.

This module also declares targets: several classes by `Nominal`, and a number in a range by
`Numeric`.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from jaxtyping import Float, UInt32

from dpbt.common.arithmetic import array_namespace, portable_exp
from dpbt.common.validate import (
    check_boolean,
    check_choice,
    check_interval,
    check_positive_integer,
    show_value,
)
from dpbt.data.cell_forms import (
    PLAIN_NUMBERS,
    DateForm,
    NumberForm,
    ReadingOptions,
    declared_signs,
    form_of_reading_options,
)
from dpbt.data.cells import (
    ColumnCells,
    Words,
    cells_of_declared_list,
    declared_word,
    fold_case,
    is_sequence,
    read_booleans,
    read_numbers,
    read_word_indices,
)
from dpbt.public_types import BINARY, MAX_BINS, NUMBER, AnyArray, Response, redacted_repr

if TYPE_CHECKING:
    Word: TypeAlias = str
    Real: TypeAlias = float
else:
    Word = str | int | float
    Real = int | float
"""Declared values. A column turns the numbers among its words into text; integers stay integers."""

if TYPE_CHECKING:
    Spellings: TypeAlias = Words
    Bound: TypeAlias = Any
else:
    Spellings = Word | tuple[Word, ...]
    Bound = Real | str
"""A declared word or its spellings, and a declared number, which may be a date as text."""


def field_written_even_if_default(default: Any) -> Any:
    """A field that files state even where it has its default.

    Files stated it before there were other fields with a default.

    The other fields with a default are options on how cells are read. Files leave them out where
    they are not declared, so that they are the same bytes as before there were such options.
    """
    return msgspec.field(default_factory=lambda: default)


class Split(NamedTuple):
    """A public split of a column: the bins that satisfy it, and its words.

    Attributes:
        low: the first bin that satisfies it.
        high: the last bin that satisfies it.
        column: the name of the column.
        yes: the words for rows that satisfy it.
        no: the words for rows that do not.
    """

    low: int
    high: int
    column: str
    yes: str
    no: str


class ColumnBins(NamedTuple):
    """The bin of each cell of a column, and which cells are missing; private.

    Attributes:
        bins: u8[N]: the bin of each cell.
        missing: bool[N]: whether the cell is missing.
    """

    bins: np.ndarray
    missing: np.ndarray

    __repr__ = redacted_repr


class RangePositions(NamedTuple):
    """The position of each number of a column in its range; private.

    Attributes:
        position: f32[N]: from 0 at the lower end to 1 at the upper end; 0 if missing.
        missing: bool[N]: whether the cell is missing.
    """

    position: np.ndarray
    missing: np.ndarray

    __repr__ = redacted_repr


class ScoreUnits(NamedTuple):
    """The line from a score to the units of its target: scale * score + offset.

    Attributes:
        scale: units of the target for each unit of the score.
        offset: the number of a score of 0.
        words: the name of the result.
    """

    scale: float
    offset: float
    words: str


class _ColumnKind(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag=str.lower,
    omit_defaults=True,
):
    """The base of all kinds of columns.

    The JSON object of a kind has a "type", and its attributes by name.
    """

    def __repr__(self) -> str:
        """The name of the kind with its attributes.

        Options on how cells are read are left out where they are not declared.
        """
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = (f"{name}={value!r}" for name, value in fields if self._is_declared(name, value))
        return f"{type(self).__name__}({', '.join(shown)})"

    @staticmethod
    def _is_declared(name: str, value: Any) -> bool:
        return name not in READING_OPTIONS or value not in (None, (), False)

    def _set_fields(self, **fields: Any) -> None:
        """Set attributes of a frozen column, while it is constructed."""
        for name, value in fields.items():
            msgspec.structs.force_setattr(self, name, value)

    def describe_bins(self, bins: list[int]) -> str:
        """The words for the cells of any of these bins."""
        return " or ".join(self.bin_words[bin] for bin in bins)  # type: ignore[attr-defined]

    @property
    def num_thresholds(self) -> int:
        """The number of thresholds of one attribute, with which `splits` begins."""
        if isinstance(self, Numeric):
            return self.bins - 1
        return len(self.values) - 1 if isinstance(self, Nominal) and self.ordered else 0

    def read_bins(self, cells: ColumnCells) -> ColumnBins:
        """Read the bin of each cell, and whether the cell is missing.

        `_read_bins_or_negative` of each kind returns the bins, and negative numbers for missing
        cells.
        """
        codes = self._read_bins_or_negative(cells)  # type: ignore[attr-defined]
        missing = codes < 0
        bins = np.where(missing, self._bin_of_missing, codes)  # type: ignore[attr-defined]
        return ColumnBins(bins.astype(np.uint8), missing)


READING_OPTIONS = ("decimal", "strip", "date", "unit", "spellings", "ignore_case")
"""The names of the attributes that say how cells are read, of all kinds together."""


class _NumberReading(_ColumnKind, frozen=True, kw_only=True):
    """The options of `Numeric` on how its cells are read.

    They are declared by name.
    """

    decimal: str | None = None
    strip: str | tuple[str, ...] = ()
    date: str | None = None
    unit: str | None = None

    @property
    def reading_options(self) -> dict[str, Any]:
        """The reading options by name, as arguments of `Numeric`."""
        return {name: getattr(self, name) for name in _NumberReading.__struct_fields__}

    @property
    def form(self) -> NumberForm | DateForm:
        """The form of numbers or dates by which a cell is read."""
        return form_of_reading_options(
            ReadingOptions(self.decimal, declared_signs(self.strip), self.date, self.unit)
        )

    def _read_numbers(self, cells: ColumnCells) -> np.ndarray:
        """float64[N]: the number in each cell, by the declared form."""
        form = self.form
        has_numbers = isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf"
        if form == PLAIN_NUMBERS or (self.date is None and has_numbers):
            return read_numbers(cells)
        return read_numbers(cells, form.read_number)


class Numeric(_NumberReading, frozen=True):
    """Numbers in [low, high], cut into intervals at public thresholds.

    The thresholds are the declared `cuts`, or those of a grid of `bins` intervals. There is a split
    "x > threshold" for each. The bin of a number is how many of the thresholds it exceeds. Values
    outside the range, also infinite ones, count as its nearer end.

    A cell in which `cells.read_number` finds no number is missing, and satisfies no threshold. With
    `missing` it has a bin of its own, and there is one more split, "x is missing". The options
    `decimal` and `strip` declare another form of numbers (`cell_forms.NumberForm`), and `date` and
    `unit` declare dates that count as numbers (`cell_forms.DateForm`). They are given by name.

    Attributes:
        low: the lower end of the range. Of dates it may be an ISO date, such as "2015-01-31", which
            is stored as its number.
        high: the upper end, likewise.
        bins: the number of intervals: 10 by default, and len(cuts) + 1 with cuts.
        missing: whether there is a split for missing cells.
        cuts: the thresholds, strictly increasing and inside (low, high), instead of a grid.
        scale: "linear" for bins of equal width. "log" for bins of equal width in log(x), or in
            log(1 + x) where low is 0.
        decimal: the decimal mark of text, "." or ","; None for ".".
        strip: the signs that are left out of text, such as ("€", "%") or the sign of thousands.
        date: the format of dates: "iso", "unix", "unix ms", or one such as "%d.%m.%Y".
        unit: what the number of a date counts: "days", "hours", "minutes" or "seconds" since 1970,
            or the part of the date that it is: "year", "month", "weekday" or "hour".

    Raises:
        ValueError: unless low < high are finite numbers, bins is an integer of at least 2,
            bins * (high - low) is finite, missing is a Boolean, and there are at most 256 bins.
            Also for cuts out of order or outside the range, and for cuts with another number of
            bins or with scale="log". Also for scale="log" with low < 0, and for bins that are too
            narrow for float64.
    """

    low: Bound
    high: Bound
    bins: int = None  # type: ignore[assignment]
    missing: bool = field_written_even_if_default(False)
    cuts: tuple[Bound, ...] | None = field_written_even_if_default(None)
    scale: Literal["linear", "log"] = field_written_even_if_default("linear")

    def __post_init__(self):
        form = self.form
        self._set_fields(strip=declared_signs(self.strip))

        def as_number(name: str, bound: Any) -> float:
            if isinstance(form, DateForm):
                bound = form.parse_bound(name, bound)
            return check_number(name, bound)

        low, high = as_number("Numeric: low", self.low), as_number("Numeric: high", self.high)
        check_boolean("Numeric: missing", self.missing)
        check_choice("Numeric: scale", self.scale, ("linear", "log"))
        cuts = self.cuts
        bins = 10 if self.bins is None else self.bins
        if cuts is not None:
            cuts = tuple(
                float(as_number("Numeric: a cut", cut)) for cut in _as_list("Numeric: cuts", cuts)
            )
            bins = len(cuts) + 1
            if self.bins not in (None, bins) or self.scale != "linear":
                raise ValueError(
                    f"Numeric: cuts make {bins} bins of no other scale, got "
                    f"bins={show_value(self.bins)} and scale={self.scale!r} beside them"
                )
        bins = check_positive_integer("Numeric: bins", bins, MAX_BINS - bool(self.missing))
        self._set_fields(low=low, high=high, cuts=cuts, bins=bins, missing=bool(self.missing))

        with np.errstate(all="ignore"):
            in_order = np.all(np.diff([low, *self.thresholds, high]) > 0)
        if bins < 2 or not in_order or (self.scale == "log" and low < 0):
            raise ValueError(
                "Numeric: low, the thresholds of 2 bins or more, and high must be strictly "
                "increasing numbers of float64, from 0 on if the scale is log, got low "
                f"{show_value(low)}, high {show_value(high)} and "
                + (f"{bins} bins" if cuts is None else f"cuts {show_value(list(cuts))}")
            )

    @property
    def response(self) -> Response:
        """The response that a model predicts for a target of this range."""
        return NUMBER

    @property
    def score_units(self) -> ScoreUnits:
        """The line from scores to the units of the range."""
        return ScoreUnits(float(self.high) - float(self.low), float(self.low), "prediction")

    @property
    def n_bins(self) -> int:
        """The number of bins of the column."""
        return self.bins + self.missing

    @property
    def thresholds(self) -> np.ndarray:
        """float64[bins - 1]: the thresholds between bins, ascending.

        They are the declared cuts, or the interior points of the grid.
        """
        if self.cuts is not None:
            return np.array(self.cuts, np.float64)
        low, high = float(self.low), float(self.high)
        if self.scale == "log" and low >= 0:
            shift = 1.0 if low == 0 else 0.0
            return np.geomspace(low + shift, high + shift, self.bins + 1)[1:-1] - shift
        return low + (high - low) * np.arange(1, self.bins) / self.bins

    @property
    def bin_words(self) -> list[str]:
        """The words for each bin, such as an interval or missing cells.

        The interval is of numbers up to a threshold, or above the last.
        """
        digits = 4 if self.cuts is None else 15
        ends = [self.words_of_date(end) for end in self.thresholds]
        if self.date is None:
            ends = [f"{float(f'{end:.{digits}g}'):.15g}" for end in self.thresholds]
        return [*(f"<= {end}" for end in ends), f"> {ends[-1]}"] + ["missing"] * self.missing

    def describe_bins(self, bins: list[int]) -> str:
        """The words for the cells of these adjacent bins, and of no bins before them."""
        words = self.bin_words
        last = bins[-1]
        if last == self.bins:
            numbers = [self.describe_bins(bins[:-1])] if bins[1:] else []
            return " or ".join([*numbers, words[last]])
        if last + 1 < self.bins:
            return words[last]
        return words[bins[0] - 1].replace("<=", ">") if bins[0] else "any number"

    def splits(self, name: str) -> list[Split]:
        """The public splits of a column of this name: thresholds, and missing cells if declared."""
        digits = 6 if self.cuts is None else 15
        thresholds = [self.words_of_date(threshold) for threshold in self.thresholds]
        if self.date is None:
            thresholds = [f"{threshold:.{digits}g}" for threshold in self.thresholds]
        above = [
            Split(bin, self.bins - 1, name, f"{name} > {threshold}", f"{name} <= {threshold}")
            for bin, threshold in enumerate(thresholds, 1)
        ]
        return [*above, _missing_split(name, self.bins)] if self.missing else above

    def words_of_date(self, number: float) -> str:
        """Write a number as a date, where the column holds dates.

        Otherwise it is the number itself.
        """
        form = self.form
        return form.text_of_number(number) if isinstance(form, DateForm) else f"{number:.6g}"

    @property
    def _bin_of_missing(self) -> int:
        return self.bins if self.missing else 0

    def _read_bins_or_negative(self, cells: ColumnCells) -> np.ndarray:
        numbers = self._read_numbers(cells)
        num_exceeded = np.searchsorted(self.thresholds, numbers, side="left")
        return np.where(np.isnan(numbers), np.int16(-1), num_exceeded.astype(np.int16))

    def read_positions(self, cells: ColumnCells) -> RangePositions:
        """Read the position of each cell's number in the range, and whether it is missing."""
        numbers = self._read_numbers(cells)
        with np.errstate(all="ignore"):  # a warning would tell of some row's large number
            low, high = float(self.low), float(self.high)
            position = np.clip((numbers - low) / (high - low), 0, 1)
            position = np.nan_to_num(position, nan=0.0).astype(np.float32)
            return RangePositions(position, np.isnan(numbers))


class _SpellingsByValue(dict[str, tuple[str, ...]]):
    """A read-only dictionary of spellings by value.

    Nobody changes it, so that a column that has it can be hashed.
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


class _WordReading(_ColumnKind, frozen=True, kw_only=True):
    """The options of `Nominal` on how its cells are read.

    They are declared by name.
    """

    spellings: dict[str, Spellings] | None = None
    ignore_case: bool = False


class Nominal(_WordReading, frozen=True):
    """A column of listed values, with a split "x = value" for each.

    If it is `ordered`, the splits are "x >= value" instead.

    Declared values are stored as `cells.declared_word` reads them, so that 3, "3" and "3.0" are one
    value.

    Attributes:
        values: the listed values in order, each with a bin of its own.
        other: the listed value as which any other value, and a missing one, is read. With None
            these have a bin of their own, which satisfies no split.
        ordered: whether the order of the values means something. Then there is a split "x >= value"
            for each value but the first, and all values are positions of one attribute.
        spellings: further words that are read as a value, by the value, such as {"Bonn": ["BN"]};
            None without.
        ignore_case: whether words that differ in capitals alone are one.

    Raises:
        ValueError: if there are no values, or two are read alike, or `other` is none of them, or
            there are more than 256 bins. Also for spellings of a value that is not listed, or that
            are read as another value. If `ordered`, also for a single bin.
    """

    values: tuple[Word, ...] = ()
    other: Word | None = field_written_even_if_default(None)
    ordered: bool = field_written_even_if_default(False)

    def __post_init__(self):
        check_boolean("Nominal: ordered", self.ordered)
        check_boolean("Nominal: ignore_case", self.ignore_case)
        name = "Nominal: a declared value"
        values = tuple(declared_word(v, name) for v in _as_list("Nominal: values", self.values))
        self._set_fields(
            values=values, ordered=bool(self.ordered), ignore_case=bool(self.ignore_case)
        )
        if self.spellings is not None:
            self._set_fields(spellings=self._checked_spellings(self.spellings))
        _check_words_distinct(
            "Nominal: values",
            [word for words in self.words_by_bin for word in words],
            ignore_case=self.ignore_case,
        )
        if self.other is not None:
            self._set_fields(other=declared_word(self.other, name))
            if self.other not in values:
                raise ValueError(f"Nominal: other must be one of the values, got {self.other!r}")
        if len(self.values) < 1 + self.ordered or self.n_bins > MAX_BINS:
            raise ValueError(
                f"Nominal: a column has 1 to {MAX_BINS} bins, counting one for values that are not "
                f"listed, and 2 without it if ordered; got {self.n_bins}"
            )

    def _checked_spellings(self, spellings: Any) -> _SpellingsByValue | None:
        """The declared spellings by value, once they were checked; None for none.

        Raises:
            ValueError: as for the class.
        """
        if not isinstance(spellings, Mapping):
            raise ValueError(
                'Nominal: spellings must map values to lists of words, such as {"Bonn": ["BN"]}, '
                f"got {show_value(spellings)}"
            )
        checked = _SpellingsByValue()
        for value, words in spellings.items():
            name = declared_word(value, "Nominal: a value with spellings")
            if name not in self.values:
                raise ValueError(f"Nominal: {name!r} has spellings and is none of the values")
            listed = (words,) if isinstance(words, str) else _as_list("Nominal: spellings", words)
            checked[name] = tuple(declared_word(word, "Nominal: a spelling") for word in listed)
        return checked or None

    @property
    def words_by_bin(self) -> list[tuple[str, ...]]:
        """The words that are read as each value: its name, and its further spellings."""
        spellings: Any = self.spellings or {}
        return [(str(value), *spellings.get(value, ())) for value in self.values]

    @property
    def response(self) -> Response:
        """The response that a model predicts for a target of these classes."""
        return Response(target_dtype="uint8", num_classes=len(self.values))

    @property
    def n_bins(self) -> int:
        """The number of bins of the column."""
        return len(self.values) + (self.other is None)

    @property
    def bin_words(self) -> list[str]:
        """The words for each bin: a listed value, or any other."""
        return [*map(str, self.values)] + ["not listed"] * (self.other is None)

    def splits(self, name: str) -> list[Split]:
        """The public splits of a column of this name, by value or by order."""
        last = len(self.values) - 1
        if self.ordered:
            return [
                Split(bin, last, name, f"{name} >= {value}", f"{name} < {value}")
                for bin, value in enumerate(self.values)
            ][1:]
        return [
            Split(bin, bin, name, f"{name} = {value}", f"{name} is not {value}")
            for bin, value in enumerate(self.values)
        ]

    @property
    def _bin_of_missing(self) -> int:
        return len(self.values) if self.other is None else self.values.index(self.other)

    def _read_bins_or_negative(self, cells: ColumnCells) -> np.ndarray:
        """The bin of each cell, or a negative number where the cell is missing.

        Without `other` a value that is not listed is missing, too.
        """
        codes = read_word_indices(cells, self.words_by_bin, self.ignore_case)
        return codes if self.other is None else np.where(codes == -1, self._bin_of_missing, codes)


class _BooleanReading(_ColumnKind, frozen=True, kw_only=True):
    """The option of `Boolean` on how its cells are read.

    It is declared by name.
    """

    ignore_case: bool = False


class Boolean(_BooleanReading, frozen=True):
    """A column of true or false, with one split, "x".

    Python and NumPy Booleans are themselves. Any other cell is true if its word is `true`, false if
    its word is `false`, and missing otherwise. A missing cell does not satisfy "x". With `missing`
    it is told from false by one more split, "x is missing". The words are stored as
    `cells.declared_word` reads them.

    Attributes:
        true: the word for true, "1" by default, or a list of its spellings, of which the first is
            its name.
        false: the word for false, or a list of its spellings. It is "0" where `true` is "1", and
            must be declared for any other `true`.
        missing: whether there is a split for missing cells.
        ignore_case: whether words that differ in capitals alone are one.

    Raises:
        ValueError: if `true` is declared without `false`, two words are read alike, or missing or
            ignore_case is no Boolean.
    """

    true: Spellings = field_written_even_if_default("1")
    false: Spellings = None  # type: ignore[assignment]
    missing: bool = field_written_even_if_default(False)

    def __post_init__(self):
        check_boolean("Boolean: missing", self.missing)
        check_boolean("Boolean: ignore_case", self.ignore_case)
        true = declared_spellings(self.true, "Boolean: true")
        if self.false is None and true == "1":
            false = "0"
        else:
            false = declared_spellings(self.false, "Boolean: false")
        _check_words_distinct(
            "Boolean: true and false",
            [*_as_tuple(true), *_as_tuple(false)],
            ignore_case=self.ignore_case,
        )
        self._set_fields(
            true=true,
            false=false,
            missing=bool(self.missing),
            ignore_case=bool(self.ignore_case),
        )

    @property
    def n_bins(self) -> int:
        """The number of bins of the column."""
        return 2 + self.missing

    @property
    def bin_words(self) -> list[str]:
        """The words for each bin: those for false and true, or missing cells."""
        names = [name_of_spellings(words) for words in (self.false, self.true)]
        return names + ["missing"] * self.missing

    def splits(self, name: str) -> list[Split]:
        """The public splits of a column of this name: "x", and missing cells if declared."""
        is_true = Split(1, 1, name, name, f"not {name}")
        return [is_true, _missing_split(name, 2)] if self.missing else [is_true]

    @property
    def _bin_of_missing(self) -> int:
        return 2 if self.missing else 0

    def _read_bins_or_negative(self, cells: ColumnCells) -> np.ndarray:
        return read_booleans(cells, self.true, self.false, self.ignore_case)


def declared_spellings(words: Any, name: str) -> Words:
    """Read a declared word, or a declared list of spellings of one, as cells are read.

    A list of one word is that word.

    Args:
        words: a word, or a list of words.
        name: what an error calls them.

    Raises:
        ValueError: for an empty list, and as `cells.declared_word`.
    """
    if not is_sequence(words):
        return declared_word(words, name)
    spellings = tuple(declared_word(word, name) for word in words)
    if not spellings:
        raise ValueError(f"{name} must be a word or a list of words, got an empty list")
    return spellings if len(spellings) > 1 else next(iter(spellings))


def name_of_spellings(words: Words) -> str:
    """The name of a word: the first of its spellings."""
    return words if isinstance(words, str) else next(iter(words))


def _as_tuple(words: Words) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else words


def _check_words_distinct(name: str, words: list[str], *, ignore_case: bool) -> None:
    """Refuse words of which two are read alike.

    Raises:
        ValueError: naming what the words are.
    """
    folded = [fold_case(word) if ignore_case else word for word in words]
    repeated = [word for place, word in enumerate(folded) if word in folded[:place]]
    if repeated:
        raise ValueError(
            f"{name} must be distinct{', whatever their capitals' * ignore_case}, "
            f"got {show_value(repeated[0])} twice"
        )


Column = Numeric | Nominal | Boolean


def bin_positions_of_attributes(kind: Column) -> list[np.ndarray]:
    """f32[MAX_BINS] for each attribute of a column: the position of each of its bins.

    The thresholds of a column make one attribute, whose bins lie at equal distances from 0 to 1.
    Each other split is an attribute of its own.
    """
    other_splits = kind.splits("")[kind.num_thresholds :]
    positions = [np.arange(MAX_BINS) == split.low for split in other_splits]
    if kind.num_thresholds:
        ordered = np.zeros(MAX_BINS, np.float32)
        ordered[: kind.num_thresholds + 1] = np.arange(kind.num_thresholds + 1, dtype=np.float32)
        positions.insert(0, ordered / np.float32(kind.num_thresholds))
    return [position.astype(np.float32) for position in positions]


def _missing_split(name: str, bin: int) -> Split:
    """The split "is missing" of a column, whose missing cells are in one bin."""
    return Split(bin, bin, name, f"{name} is missing", f"{name} is given")


def check_number(name: str, value: Any, interval: str = "(-inf, inf)") -> int | float:
    """Convert `value` to an int or a float in an interval, or raise.

    An integer stays one.

    Raises:
        ValueError: for anything else, naming it.
    """
    if check_interval(name, value, interval).ndim > 0:
        raise ValueError(f"{name} must be one number, got {show_value(value)}")
    return np.asarray(value).item()


def _as_list(name: str, values: Any) -> list:
    """The entries of a declared list, as a list.

    Raises:
        ValueError: naming it, for text, a set or a mapping.
    """
    if not is_sequence(values):
        raise ValueError(f"{name} must be a list, got {show_value(values)}")
    return cells_of_declared_list(values, f"{name}: ")


class Objective(Numeric, frozen=True, kw_only=True):
    """A number in a declared range, predicted by another loss than the squared error.

    The objective is one of these:

    - "poisson": the mean of a count, through its logarithm. The score is the logarithm of the mean
      as a share of `high`. It is at most 0, which stands for `high` itself.
    - "quantile": the number that a share `level` of the rows with such columns does not exceed.

    Attributes:
        low: the lower end of the range; 0 for a count.
        high: the upper end.
        objective: "poisson" or "quantile".
        level: the level of a quantile, in [0.01, 0.99].

    Raises:
        ValueError: as `Numeric`; for counts that do not start at 0, for a level outside of its
            range, and for one beside a count.
    """

    objective: Literal["poisson", "quantile"]
    level: float | None = None

    def __post_init__(self):
        super().__post_init__()
        check_choice("objective", self.objective, ("poisson", "quantile"))
        if self.objective == "quantile":
            self._set_fields(
                level=check_number("the level of a quantile", self.level, "[0.01, 0.99]")
            )
        elif self.level is not None:
            raise ValueError(f"a level is for quantiles, got {show_value(self.level)} for a count")
        elif self.low != 0:
            raise ValueError(f"a count must be in a range from 0 on, got low={self.low:g}")

    @property
    def response(self) -> Response:
        """The response that a model predicts for a target with this objective."""
        return Response(
            target_dtype="float32",
            num_classes=0,
            objective=self.objective,
            level=self.level or 0.0,
        )

    @property
    def score_units(self) -> ScoreUnits:
        """The line from scores to the units of the target.

        It is as for `Numeric`, but the scores of a count are stated as the logarithm of the count.
        """
        if self.objective == "quantile":
            return super().score_units
        return ScoreUnits(1.0, math.log(self.high), "logarithm of the prediction")


Target = Nominal | Numeric | Objective
"""The declared classes, or the declared range of a number, perhaps with an objective."""


def target_with_objective(
    target: Target | None, objective: str | None, level: float | None
) -> Target | None:
    """The target with this objective and level.

    It is unchanged if both are None.

    Args:
        target: the declared classes or range; None for two classes.
        objective: "squared", "poisson" or "quantile"; None for that of the target.
        level: the level of a quantile.

    Raises:
        ValueError: for a target that is not a number, and as `Objective`.
    """
    if objective is None and level is None:
        return target
    check_choice("objective", objective, ("squared", "poisson", "quantile"))
    if not isinstance(target, Numeric):
        raise ValueError(
            f"objective={objective!r} is for a number in a declared range; the target is "
            f"{response_of_target(target).description}"
        )
    if objective == "squared" and level is None:
        if not isinstance(target, Objective):
            return target
        return Numeric(target.low, target.high, **target.reading_options)
    return Objective(
        target.low,
        target.high,
        objective=objective,  # type: ignore[arg-type]
        level=level,
        **target.reading_options,
    )


def response_of_target(target: Target | None) -> Response:
    """The response that a model predicts for a target: classes, a number or one by an objective.

    A target of None declares two classes.

    Raises:
        ValueError: showing the target, unless it declares several classes, or a range and no more.
    """
    if target is None:
        return BINARY
    has_several_classes = isinstance(target, Nominal) and len(target.values) > 1
    is_plain_range = isinstance(target, Numeric) and (
        (target.cuts, target.scale, target.missing, target.date) == (None, "linear", False, None)
    )
    if not has_several_classes and not is_plain_range:
        got = show_value(target)
        if isinstance(target, Nominal):
            got = f"{len(target.values)} class"
        elif isinstance(target, Numeric):
            got = "a number with a date, cuts, a scale or missing cells"
        raise ValueError(
            "a target must be nominal with two classes or more, numeric with low and high alone, "
            f"perhaps with decimal and strip, or None for two classes, got {got}"
        )
    return target.response


def target_fingerprint(target: Target) -> UInt32[np.ndarray, "2"]:
    """u32[2]: a hash of the declared classes or of the declared range.

    The order of classes counts.
    """
    if isinstance(target, Numeric):
        words = repr((float(target.low), float(target.high)))
    else:
        words = repr((target.values, target.other))
    return np.frombuffer(hashlib.sha256(words.encode()).digest()[:8], np.uint32)


def have_same_labels(first: Target | None, second: Target | None) -> bool:
    """Whether two targets declare the same classes or range, whatever their objectives."""
    if first is None or second is None:
        return first is second
    return np.array_equal(target_fingerprint(first), target_fingerprint(second))


def numbers_predicted_by_scores(target: Numeric, scores: AnyArray) -> Float[AnyArray, "..."]:
    """f[...]: the predicted numbers, in the units of the range and clipped to it.

    They are f32 with JAX.

    A score is a position in the range, or for a count the logarithm of the position.
    """
    low = float(target.low)
    high = float(target.high)
    xp = array_namespace(scores)
    position = scores.astype(np.float64) if xp is np else scores
    if target.response.objective == "poisson":
        position = portable_exp(xp.minimum(position, 0.0))
    return xp.clip(low + (high - low) * xp.clip(position, 0.0, 1.0), low, high)
