"""Kinds of columns: what each may hold, the cells that it tells apart, and what is asked of them.

A column has at most 256 public cells. They are intervals of numbers, listed values or groups of
them, or true and false. Values that are missing or not listed have one more cell where they are
told apart.
"""

import dataclasses
import itertools
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import TypeGuard

import numpy as np

from dpbt.data import cells
from dpbt.data.columns import ColumnCells, read_codes, read_numbers, read_truths
from dpbt.public import CELLS


def boolean(name: str, value: object) -> bool:
    """`value`, if it is a Boolean.

    Raises:
        ValueError: naming the option and what was given.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return bool(value)


def _entries(name: str, of: str, values: object) -> list:
    """The entries of a declared list.

    Args:
        name: what an error calls the list.
        of: what an error calls its entries.
        values: what was declared.

    Raises:
        ValueError: naming the list and what was given, if it is text, a set, a mapping, or not
            iterable.
    """
    unordered = isinstance(values, str | bytes | set | frozenset | Mapping)
    if unordered or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a list of {of}, got {values!r}")
    return list(values)


def _is_integer(value: object) -> TypeGuard[int | np.integer]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _check_finite(name: str, value: object) -> None:
    """Check an end of a numeric range, or a cut.

    Raises:
        ValueError: naming the number and what was given, unless it is one finite number.
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
    """Numbers in [low, high], cut into intervals at public thresholds.

    The thresholds are the declared `cuts`, or those of a grid of `bins` intervals. There is a split
    "x > threshold" for each. The cell of a number is how many of the thresholds it exceeds. Values
    outside the range count as its nearer end, infinite ones too.

    A cell in which `cells.number` finds no number is missing, and satisfies no threshold. With
    `missing` it has a cell of its own, and there is one more split, "x is missing".

    Attributes:
        low: the lower end of the range.
        high: the upper end.
        bins: how many intervals there are. It is 10 by default, and len(cuts) + 1 with cuts.
        missing: whether there is a split for missing cells.
        cuts: the thresholds, strictly increasing and inside (low, high), in place of a grid.
        scale: "linear" for bins of equal width. "log" for bins of equal width in log(x), or in
            log(1 + x) where low is 0.

    Raises:
        ValueError: unless low < high are finite numbers, bins is an integer of at least 2,
            bins * (high - low) is finite, missing is a Boolean, and there are at most 256 cells.
            Also for cuts out of order or outside the range, and for cuts with another number of
            bins or with scale="log". Also for scale="log" with low < 0 or with bins too narrow for
            float64.
    """

    low: float
    high: float
    bins: int = dataclasses.field(default=None)  # type: ignore[assignment]
    missing: bool = False
    _: dataclasses.KW_ONLY
    cuts: tuple[float, ...] | None = None
    scale: str = "linear"

    def __post_init__(self):
        # The range.
        for name in ("low", "high"):
            if isinstance(getattr(self, name), np.integer):  # their differences may overflow
                object.__setattr__(self, name, int(getattr(self, name)))
            _check_finite(name, getattr(self, name))
        ends = f"low={self.low!r} and high={self.high!r}"
        if not self.low < self.high:
            raise ValueError(f"Numeric: low must be less than high, got {ends}")

        # The intervals.
        if not isinstance(self.scale, str) or self.scale not in ("linear", "log"):
            raise ValueError(f'Numeric: scale must be "linear" or "log", got {self.scale!r}')
        if self.cuts is not None:
            self._set_cuts()
        bins = 10 if self.bins is None else self.bins
        if not _is_integer(bins) or bins < 2:
            raise ValueError(f"Numeric: bins must be an integer of at least 2, got {bins!r}")
        object.__setattr__(self, "bins", int(bins))
        object.__setattr__(self, "missing", boolean("Numeric: missing", self.missing))
        _check_count("Numeric", self.cells)
        if not math.isfinite((float(self.high) - float(self.low)) * self.bins):
            raise ValueError(f"Numeric: bins * (high - low) must be finite, got {ends}")
        if self.scale == "log":
            self._check_log()

    def _set_cuts(self) -> None:
        """Keep the cuts as numbers, and how many intervals they make.

        Raises:
            ValueError: naming what is wrong.
        """
        if self.scale != "linear":
            raise ValueError(f'Numeric: cuts must have scale="linear", got {self.scale!r}')
        cuts = _entries("Numeric: cuts", "numbers", self.cuts)
        for cut in cuts:
            _check_finite("a cut", cut)
        thresholds = tuple(float(cut) for cut in cuts)
        points = (float(self.low), *thresholds, float(self.high))
        if not thresholds or any(a >= b for a, b in itertools.pairwise(points)):
            raise ValueError(
                "Numeric: cuts must be one or more strictly increasing numbers inside "
                f"({self.low!r}, {self.high!r}), got {cuts!r}"
            )

        bins = len(thresholds) + 1
        if self.bins is not None and (not _is_integer(self.bins) or self.bins != bins):
            raise ValueError(f"Numeric: cuts make {bins} bins, got bins={self.bins!r} beside them")
        object.__setattr__(self, "cuts", thresholds)
        object.__setattr__(self, "bins", bins)

    def _check_log(self) -> None:
        """Check that the range has bins of equal width in its logarithm.

        Raises:
            ValueError: naming the argument and what was given.
        """
        if self.low < 0:
            raise ValueError(f'Numeric: low must be at least 0 with scale="log", got {self.low!r}')
        if not np.all(np.diff([self.low, *self.thresholds, self.high]) > 0):
            raise ValueError(
                f"Numeric: float64 must tell {self.bins} bins apart on a log scale, "
                f"got low={self.low!r} and high={self.high!r}"
            )

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return self.bins + self.missing

    @property
    def thresholds(self) -> np.ndarray:
        """float64[bins - 1], ascending: the declared cuts, or the interior points of the grid."""
        if self.cuts is not None:
            return np.array(self.cuts, np.float64)
        if self.scale == "log":
            low, high = float(self.low), float(self.high)
            shift = 1.0 if low == 0 else 0.0
            return np.geomspace(low + shift, high + shift, self.bins + 1)[1:-1] - shift
        return self.low + (self.high - self.low) * np.arange(1, self.bins) / self.bins

    @property
    def threshold_words(self) -> list[str]:
        """The thresholds in words: to 15 significant digits if declared, and to 6 of a grid."""
        digits = 6 if self.cuts is None else 15
        return [f"{threshold:.{digits}g}" for threshold in self.thresholds]


@dataclasses.dataclass(frozen=True)
class Nominal:
    """One of the listed values: a split "x = value" for each, or "x >= value" if `ordered`.

    Values of one group share a cell, which has the name of the group. A value of no group has a
    cell of its own. The cells are in the order of their first values in `values`.

    Declared values are kept as `cells.declared` reads them, so that 3, "3" and "3.0" are one value.

    Attributes:
        values: the listed values. They may be left out where `groups` holds them all, and are then
            in the order of the groups.
        other: the listed value or group that any other value, and a missing one, is read as. With
            None these have a cell of their own, which satisfies no split.
        groups: the listed values of each group by its name. A value is in at most one group. The
            name itself is read as the group only if it is one of the group's values.
        ordered: whether the order of the cells means something. Then splits are "x >= value" for
            each cell but the first, and all cells are positions of one attribute.

    Raises:
        ValueError: if there are no values, or two are read alike, or `other` is neither a value nor
            a group, or there are more than 256 cells. Also if a group is empty, or holds a value
            that is not listed or is in another group, or has the name of a value outside of it. If
            `ordered`, also for a single cell, or if the values of a group are not next to each
            other.
    """

    values: tuple[str, ...] = ()
    other: str | None = None
    _: dataclasses.KW_ONLY
    groups: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict, hash=False)
    ordered: bool = False

    def __post_init__(self):
        object.__setattr__(self, "ordered", boolean("Nominal: ordered", self.ordered))
        values = _words("Nominal: values", self.values)
        groups = _grouped(self.groups)
        values = values or tuple(value for members in groups.values() for value in members)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "groups", groups)
        if not values or len(set(values)) != len(values):
            raise ValueError(
                f"Nominal: values must be one or more distinct values, got {list(values)}"
            )
        self._check_groups()

        if self.other is not None:
            object.__setattr__(self, "other", cells.declared(self.other, "Nominal: other"))
            if self.other not in self.cell_of:
                raise ValueError(
                    f"Nominal: other must be one of {list(self.cell_of)}, got {self.other!r}"
                )
        _check_count("Nominal", self.cells)

    def _check_groups(self) -> None:
        """Check that groups hold listed values and that their order is that of the values.

        Raises:
            ValueError: naming what is wrong.
        """
        for name, members in self.groups.items():
            if unlisted := [value for value in members if value not in self.values]:
                raise ValueError(f"Nominal: group {name!r} must hold listed values, got {unlisted}")
            if name in self.values and name not in members:
                raise ValueError(
                    f"Nominal: group {name!r} must not have the name of a value outside of it"
                )
        if not self.ordered:
            return
        if len(self.names) < 2:
            raise ValueError(f"Nominal: ordered needs two cells or more, got {list(self.names)}")
        order = [self.cell_of[value] for value in self.values]
        if order != sorted(order):
            raise ValueError(
                "Nominal: values of a group must be next to each other if ordered, got values="
                f"{list(self.values)} and groups={self.groups}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the cells of listed values: a group, or a value that is in none."""
        group_of = {value: name for name, members in self.groups.items() for value in members}
        return tuple(dict.fromkeys(group_of.get(value, value) for value in self.values))

    @property
    def cell_of(self) -> dict[str, int]:
        """The cell of each listed value and of each group."""
        cell = {name: number for number, name in enumerate(self.names)}
        for name, members in self.groups.items():
            cell |= dict.fromkeys(members, cell[name])
        return cell

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return len(self.names) + (self.other is None)


def _words(name: str, values: object) -> tuple[str, ...]:
    """Declared values as `cells.declared` reads them.

    Raises:
        ValueError: naming the list if it is no list, or saying which value is no word.
    """
    listed = _entries(name, "values", values)
    return tuple(cells.declared(value, "Nominal: a listed value") for value in listed)


def _grouped(groups: object) -> dict[str, tuple[str, ...]]:
    """The values of each group, all as `cells.declared` reads them.

    Raises:
        ValueError: naming what is wrong, unless groups of at least one value have distinct names
            and no value is in two of them.
    """
    if not isinstance(groups, Mapping):
        raise ValueError(f"Nominal: groups must map names to lists of values, got {groups!r}")
    found: dict[str, tuple[str, ...]] = {}
    group_of: dict[str, str] = {}
    for given, values in groups.items():
        name = cells.declared(given, "Nominal: the name of a group")
        if name in found:
            raise ValueError(f"Nominal: groups must have distinct names, got {name!r} twice")
        found[name] = _words(f"Nominal: group {name!r}", values)
        if not found[name]:
            raise ValueError(f"Nominal: group {name!r} must hold at least one value, got none")
        for value in found[name]:
            if value in group_of:
                raise ValueError(
                    f"Nominal: a value must be in at most one group, got {value!r} in "
                    f"{group_of[value]!r} and {name!r}"
                )
            group_of[value] = name
    return found


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


def read(kind: Column, values: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
    """(u8[N], bool[N]): the cell of each value, and whether it is missing.

    A missing value without a cell of its own is in cell 0 of a numeric or a Boolean column. A value
    that is not listed is missing in a nominal column without `other`.
    """
    match kind:
        case Numeric():
            number = read_numbers(values)
            missing = np.isnan(number)
            exceeded = np.searchsorted(kind.thresholds, number, side="left")
            cell = np.where(missing, kind.bins if kind.missing else 0, exceeded)
        case Nominal():
            code = read_codes(values, kind.values)
            cell_of = kind.cell_of
            unlisted = len(kind.names) if kind.other is None else cell_of[kind.other]
            of_code = np.array([*(cell_of[value] for value in kind.values), unlisted])
            cell = of_code[np.maximum(code, -1)]  # a negative code is that of no listed value
            missing = code < (0 if kind.other is None else -1)
        case Boolean():
            truth = read_truths(values, kind.true, kind.false)
            missing = truth < 0
            cell = np.where(missing, 2 if kind.missing else 0, truth)
    return cell.astype(np.uint8), missing


def splits_of(kind: Column) -> list[tuple[int, int]]:
    """The first and the last cell that satisfy each split of a column."""
    match kind:
        case Numeric():
            missing = [(kind.bins, kind.bins)] * kind.missing
            return [(k, kind.bins - 1) for k in range(1, kind.bins)] + missing
        case Nominal(ordered=True):
            return [(k, len(kind.names) - 1) for k in range(1, len(kind.names))]
        case Nominal():
            return [(k, k) for k in range(len(kind.names))]
        case Boolean():
            return [(1, 1)] + [(2, 2)] * kind.missing


def positions_of(kind: Column, codes: bool) -> list[np.ndarray]:
    """f32[CELLS] for each attribute of a column: the position of each of its cells."""
    match kind:
        case Numeric():
            return [_grid(kind.bins)] + [_only(kind.bins)] * kind.missing
        case Nominal() if codes or kind.ordered:
            return [_grid(len(kind.names))]
        case Nominal():
            return [_only(k) for k in range(len(kind.names))]
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
