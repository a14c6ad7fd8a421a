"""Kinds of columns: what each may hold, the cells that it tells apart, and what is asked of them.

A column has at most 256 public cells. They are intervals of numbers, listed values, or true and
false. Values that are missing or not listed have one more cell where they are told apart.
"""

import dataclasses
import math
import numbers
from collections.abc import Iterable, Mapping

import numpy as np

from dpbt.base import CELLS
from dpbt.data import cells
from dpbt.data.columns import ColumnCells, read_codes, read_numbers, read_truths


def boolean(name: str, value: object) -> bool:
    """`value`, if it is a Boolean.

    Raises:
        ValueError: naming the option and what was given.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return bool(value)


def _check_finite(name: str, value: object) -> None:
    """Check an end of a numeric range.

    Raises:
        ValueError: naming the end and what was given, unless it is one finite number.
    """
    finite = False
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            finite = math.isfinite(value)
        except OverflowError:  # its digits are too many to print
            raise ValueError(f"Numeric: {name} must be a finite number, got a larger one") from None
    if not finite:
        raise ValueError(f"Numeric: {name} must be a finite number, got {value!r}")


def _check_count(kind: str, count: int) -> None:
    """Check the number of cells of a column.

    Raises:
        ValueError: naming the kind, if there are more than 256 cells.
    """
    if count > CELLS:
        raise ValueError(
            f"{kind}: a column has at most {CELLS} cells, counting missing or unlisted values that "
            f"have a cell of their own; got {count if count < 10**9 else 'many more'}"
        )


@dataclasses.dataclass(frozen=True)
class Numeric:
    """Numbers in [low, high], cut by a regular grid into `bins` intervals.

    There are bins - 1 splits, "x > threshold". The cell of a number is how many of the thresholds
    it exceeds. Values outside the range count as its nearer end, infinite ones too.

    A cell in which `cells.number` finds no number is missing, and satisfies no threshold. With
    `missing` it has a cell of its own, and there is one more split, "x is missing".

    Attributes:
        low: the lower end of the range.
        high: the upper end.
        bins: how many intervals there are.
        missing: whether there is a split for missing cells.

    Raises:
        ValueError: unless low < high are finite numbers, bins is an integer of at least 2,
            bins * (high - low) is finite, missing is a Boolean, and there are at most 256 cells.
    """

    low: float
    high: float
    bins: int = 10
    missing: bool = False

    def __post_init__(self):
        whole = isinstance(self.bins, int | np.integer) and not isinstance(self.bins, bool)
        if not whole or self.bins < 2:
            raise ValueError(f"Numeric: bins must be an integer of at least 2, got {self.bins!r}")
        object.__setattr__(self, "bins", int(self.bins))
        for name in ("low", "high"):
            if isinstance(getattr(self, name), np.integer):  # their differences may overflow
                object.__setattr__(self, name, int(getattr(self, name)))
        object.__setattr__(self, "missing", boolean("Numeric: missing", self.missing))
        _check_count("Numeric", self.cells)

        _check_finite("low", self.low)
        _check_finite("high", self.high)
        ends = f"low={self.low!r} and high={self.high!r}"
        if not self.low < self.high:
            raise ValueError(f"Numeric: low must be less than high, got {ends}")
        if not math.isfinite((float(self.high) - float(self.low)) * self.bins):
            raise ValueError(f"Numeric: bins * (high - low) must be finite, got {ends}")

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return self.bins + self.missing

    @property
    def thresholds(self) -> np.ndarray:
        """float64[bins - 1], the interior points of the grid."""
        return self.low + (self.high - self.low) * np.arange(1, self.bins) / self.bins


@dataclasses.dataclass(frozen=True)
class Nominal:
    """One of the listed values: a split "x = value" for each.

    Declared values are kept as `cells.declared` reads them, so that 3, "3" and "3.0" are one value.

    Attributes:
        values: the listed values.
        other: the listed value that any other value, and a missing one, is read as. With None these
            have a cell of their own, which satisfies no split.

    Raises:
        ValueError: if there are no values, or two are read alike, or `other` is not one of them, or
            there are more than 256 cells.
    """

    values: tuple[str, ...]
    other: str | None = None

    def __post_init__(self):
        unordered = isinstance(self.values, str | bytes | set | frozenset | Mapping)
        if unordered or not isinstance(self.values, Iterable):
            raise ValueError(f"Nominal: values must be a list of values, got {self.values!r}")
        values = tuple(cells.declared(value, "Nominal: a listed value") for value in self.values)
        object.__setattr__(self, "values", values)
        if not values or len(set(values)) != len(values):
            raise ValueError(f"Nominal: values must be distinct values, got {list(values)}")

        if self.other is not None:
            object.__setattr__(self, "other", cells.declared(self.other, "Nominal: other"))
            if self.other not in values:
                raise ValueError(
                    f"Nominal: other must be one of {list(values)}, got {self.other!r}"
                )
        _check_count("Nominal", self.cells)

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return len(self.values) + (self.other is None)


@dataclasses.dataclass(frozen=True)
class Boolean:
    """True or false: one split, "x".

    Python and NumPy Booleans are themselves. Any other cell is true if it reads as the word `true`,
    false if it reads as the word `false`, and else missing. A missing cell does not satisfy "x".
    With `missing` it is told from false, by one more split, "x is missing". The words are kept as
    `cells.declared` reads them.

    Attributes:
        true: the word for true, "1" by default.
        false: the word for false. It is "0" where `true` is "1", and must be declared for any other
            `true`.
        missing: whether there is a split for missing cells.

    Raises:
        ValueError: if `true` is declared without `false`, the two are read alike, or missing is no
            Boolean.
    """

    true: str = "1"
    false: str = dataclasses.field(default=None)  # type: ignore[assignment]
    missing: bool = False

    def __post_init__(self):
        object.__setattr__(self, "missing", boolean("Boolean: missing", self.missing))
        true = cells.declared(self.true, "Boolean: true")
        if self.false is None and true != "1":
            raise ValueError(
                f"Boolean: a column with true={true!r} must declare its word for false, too"
            )
        false = "0" if self.false is None else cells.declared(self.false, "Boolean: false")
        if true == false:
            raise ValueError(
                f"Boolean: the words for true and false must differ, got {true!r} twice"
            )
        object.__setattr__(self, "true", true)
        object.__setattr__(self, "false", false)

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return 2 + self.missing


Column = Numeric | Nominal | Boolean


def check(name: str, kind: object) -> None:
    """Check that a column of a domain has a kind.

    What was given is not shown: a domain and the private columns may have been exchanged.

    Raises:
        ValueError: naming the column.
    """
    if not isinstance(kind, Column):
        given = type(kind).__name__
        raise ValueError(f"column {name!r} must be Numeric, Nominal or Boolean, got {given}")


def cells_of(kind: Column, values: ColumnCells) -> np.ndarray:
    """u8[N]: the cell of each value.

    A missing value without a cell of its own is in cell 0 of a numeric or a Boolean column.
    """
    match kind:
        case Numeric():
            number = read_numbers(values)
            exceeded = np.searchsorted(kind.thresholds, number, side="left")
            cell = np.where(np.isnan(number), kind.bins if kind.missing else 0, exceeded)
        case Nominal():
            code = read_codes(values, kind.values)
            unlisted = len(kind.values) if kind.other is None else kind.values.index(kind.other)
            cell = np.where(code < 0, unlisted, code)
        case Boolean():
            truth = read_truths(values, kind.true, kind.false)
            cell = np.where(truth < 0, 2 if kind.missing else 0, truth)
    return cell.astype(np.uint8)


def splits_of(kind: Column) -> list[tuple[int, int]]:
    """The first and the last cell that satisfy each split of a column."""
    match kind:
        case Numeric():
            missing = [(kind.bins, kind.bins)] * kind.missing
            return [(k, kind.bins - 1) for k in range(1, kind.bins)] + missing
        case Nominal():
            return [(k, k) for k in range(len(kind.values))]
        case Boolean():
            return [(1, 1)] + [(2, 2)] * kind.missing


def positions_of(kind: Column, codes: bool) -> list[np.ndarray]:
    """f32[CELLS] for each attribute of a column: the position of each of its cells."""
    match kind:
        case Numeric():
            return [_grid(kind.bins)] + [_only(kind.bins)] * kind.missing
        case Nominal() if codes:
            return [_grid(len(kind.values))]
        case Nominal():
            return [_only(k) for k in range(len(kind.values))]
        case Boolean():
            return [_only(1)] + [_only(2)] * kind.missing


def _grid(count: int) -> np.ndarray:
    """f32[CELLS]: the first `count` cells at equal distances from 0 to 1, all others at 0."""
    position = np.zeros(CELLS, np.float32)
    position[:count] = np.arange(count, dtype=np.float32) / np.float32(max(count - 1, 1))
    return position


def _only(cell: int) -> np.ndarray:
    """f32[CELLS]: one cell at 1, all others at 0."""
    return (np.arange(CELLS) == cell).astype(np.float32)


def exact_position(kind: Numeric, values: ColumnCells) -> np.ndarray:
    """f32[N]: numbers in the range as parts of it; missing ones are at 0."""
    with np.errstate(all="ignore"):  # a warning would tell of some row's large number
        exact = (read_numbers(values) - kind.low) / (kind.high - kind.low)
    return np.nan_to_num(np.clip(exact, 0, 1), nan=0.0).astype(np.float32)
