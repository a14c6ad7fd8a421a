"""Kinds of columns: what each may hold, the cells that it tells apart, and what is asked of them.

A column has at most 256 public cells: intervals of numbers, listed values, or true and false; and
one for what is missing or not listed, where it is told apart.
"""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from dpbt.base import CELLS
from dpbt.data import cells
from dpbt.data.columns import ColumnCells, read_codes, read_numbers, read_truths


def _refuse_unless_bool(missing: object) -> None:
    if not isinstance(missing, bool):
        raise ValueError(f"missing must be true or false, got {missing!r}")


def _refuse_too_many(count: int) -> None:
    if count > CELLS:
        raise ValueError(
            f"a column has at most {CELLS} cells, counting missing or unlisted values that have a "
            f"cell of their own; got {count}"
        )


@dataclasses.dataclass(frozen=True)
class Numeric:
    """Numbers in [low, high], cut by a regular grid into `bins` intervals.

    The splits are bins - 1, "x > threshold". The cell of a number is how many of the thresholds it
    exceeds.

    Values outside are as good as the nearer end, infinite ones too. A missing number, which is
    every cell that `cells.number` finds no number in, satisfies no threshold; with `missing` it has
    a cell of its own, and there is one more split, "x is missing".

    Raises:
        ValueError: unless low < high are finite, bins is an integer of at least 2,
            bins * (high - low) is finite, missing is a bool, and there are at most 256 cells.
    """

    low: float
    high: float
    bins: int = 10
    missing: bool = False

    def __post_init__(self):
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            ends = f"[{self.low}, {self.high}]"
            raise ValueError(f"a numeric column needs finite low < high, got {ends}")
        if not isinstance(self.bins, int) or isinstance(self.bins, bool) or self.bins < 2:
            raise ValueError(f"a numeric column needs at least 2 bins, got {self.bins!r}")
        _refuse_unless_bool(self.missing)
        if not math.isfinite((self.high - self.low) * self.bins):
            ends = f"[{self.low}, {self.high}]"
            raise ValueError(f"a numeric column needs a finite bins * (high - low), got {ends}")
        _refuse_too_many(self.cells)

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

    Any other value, and a missing one, is read as `other`, which must be a listed value, or else
    has a cell of its own, which satisfies no split. Declared values are kept as `cells.declared`
    reads them, so that 3, "3" and "3.0" are one value.

    Raises:
        ValueError: if there are no values, or two are read alike, or `other` is not one of them, or
            there are more than 256 cells.
    """

    values: tuple[str, ...]
    other: str | None = None

    def __post_init__(self):
        unordered = isinstance(self.values, str | bytes | set | frozenset)
        if unordered or not isinstance(self.values, Iterable):
            raise ValueError(f"a nominal column needs a list of values, got {self.values!r}")
        object.__setattr__(self, "values", tuple(cells.declared(value) for value in self.values))
        if not self.values or len(set(self.values)) != len(self.values):
            raise ValueError(f"a nominal column needs distinct values, got {list(self.values)}")
        if self.other is not None:
            object.__setattr__(self, "other", cells.declared(self.other))
            if self.other not in self.values:
                raise ValueError(f"other must be one of {list(self.values)}, got {self.other!r}")
        _refuse_too_many(self.cells)

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return len(self.values) + (self.other is None)


@dataclasses.dataclass(frozen=True)
class Boolean:
    """True or false: one split, "x".

    Python and NumPy Booleans are themselves. Any other cell is true if it reads as the word `true`,
    false if it reads as the word `false`, and else missing. A missing cell does not satisfy "x";
    with `missing` it is told from false, by one more split, "x is missing". The words are kept as
    `cells.declared` reads them.

    Attributes:
        true: the word for true, "1" by default.
        false: the word for false: "0" where `true` is "1", and to be declared for any other `true`.
        missing: whether there is a split for missing cells.

    Raises:
        ValueError: if `true` is declared without `false`, or the two are read alike, or missing is
            no bool.
    """

    true: str = "1"
    false: str = dataclasses.field(default=None)  # type: ignore[assignment]
    missing: bool = False

    def __post_init__(self):
        _refuse_unless_bool(self.missing)
        true = cells.declared(self.true)
        if self.false is None and true != "1":
            raise ValueError(
                f"a Boolean column with true={true!r} must declare its word for false, too"
            )
        false = "0" if self.false is None else cells.declared(self.false)
        if true == false:
            raise ValueError(f"the words for true and false must differ, got {true!r} twice")
        object.__setattr__(self, "true", true)
        object.__setattr__(self, "false", false)

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return 2 + self.missing


Column = Numeric | Nominal | Boolean


def _unknown(kind: object) -> ValueError:
    return ValueError(f"a column must be Numeric, Nominal or Boolean, got {kind!r}")


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
        case _:
            raise _unknown(kind)
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
        case _:
            raise _unknown(kind)


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
        case _:
            raise _unknown(kind)


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
