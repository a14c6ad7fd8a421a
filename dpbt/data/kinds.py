"""Kinds of columns: what each may hold, the cells that it tells apart, and what is asked of them.

A column has at most 256 public cells. They are intervals of numbers, listed values or groups of
them, or true and false. Values that are missing or not listed have one more cell where they are
told apart. Each kind says how its values are encoded, which splits there are, in words too, and is
kept as JSON by the names of its attributes.
"""

import dataclasses
import itertools
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dpbt.data import cells
from dpbt.data.cells import ColumnCells, read_codes, read_numbers, read_truths
from dpbt.public import CELLS, NUMBER, Response, one_of_classes
from dpbt.validate import flag, one_of, shown


@dataclasses.dataclass(frozen=True)
class Predicate:
    """A public split, in words: `yes` where it holds, `no` where it does not."""

    column: str
    yes: str
    no: str


class Split(NamedTuple):
    """A public split of a column: the first and the last cell that satisfy it, and words."""

    low: int
    high: int
    words: Predicate


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

    response = NUMBER

    def __post_init__(self):
        # The range.
        low, high = (_finite(name, getattr(self, name)) for name in ("low", "high"))
        ends = f"low={self.low!r} and high={self.high!r}"
        if not low < high:
            raise ValueError(f"Numeric: low must be less than high, got {ends}")
        flag("Numeric: missing", self.missing)
        one_of("Numeric: scale", self.scale, ("linear", "log"))

        # The intervals.
        cuts, bins = self.cuts, self.bins
        if cuts is not None:
            cuts = tuple(float(_finite("a cut", cut)) for cut in _listed("Numeric: cuts", cuts))
            if not cuts or any(a >= b for a, b in itertools.pairwise((low, *cuts, high))):
                raise ValueError(
                    "Numeric: cuts must be one or more strictly increasing numbers inside "
                    f"({low!r}, {high!r}), got {shown(list(cuts))}"
                )
            if self.scale != "linear" or bins not in (None, len(cuts) + 1):
                raise ValueError(
                    f"Numeric: cuts make {len(cuts) + 1} bins of no other scale, "
                    f"got bins={shown(bins)} and scale={self.scale!r} beside them"
                )
            bins = len(cuts) + 1
        bins = 10 if bins is None else bins
        if not isinstance(bins, int | np.integer) or isinstance(bins, bool) or bins < 2:
            raise ValueError(f"Numeric: bins must be an integer of at least 2, got {shown(bins)}")
        _check_count("Numeric", bins + bool(self.missing))
        if not math.isfinite((float(high) - float(low)) * int(bins)):
            raise ValueError(f"Numeric: bins * (high - low) must be finite, got {ends}")
        _keep(self, low=low, high=high, cuts=cuts, bins=int(bins), missing=bool(self.missing))

        if self.scale == "log" and low < 0:
            raise ValueError(f'Numeric: low must be at least 0 with scale="log", got {low!r}')
        if self.scale == "log" and not np.all(np.diff([low, *self.thresholds, high]) > 0):
            raise ValueError(
                f"Numeric: float64 must tell {bins} bins apart on a log scale, got {ends}"
            )

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return self.bins + self.missing

    @property
    def steps(self) -> int:
        """How many of the first splits are thresholds of one attribute."""
        return self.bins - 1

    @property
    def thresholds(self) -> np.ndarray:
        """float64[bins - 1], ascending: the declared cuts, or the interior points of the grid."""
        if self.cuts is not None:
            return np.array(self.cuts, np.float64)
        low, high = float(self.low), float(self.high)
        if self.scale == "log":
            shift = 1.0 if low == 0 else 0.0
            return np.geomspace(low + shift, high + shift, self.bins + 1)[1:-1] - shift
        return low + (high - low) * np.arange(1, self.bins) / self.bins

    @property
    def threshold_words(self) -> list[str]:
        """The thresholds in words: to 15 significant digits if declared, and to 6 of a grid."""
        digits = 6 if self.cuts is None else 15
        return [f"{threshold:.{digits}g}" for threshold in self.thresholds]

    def splits(self, name: str) -> list[Split]:
        """The public splits, with the column called `name`."""
        words = [
            Predicate(name, f"{name} > {at}", f"{name} <= {at}") for at in self.threshold_words
        ]
        above = [Split(cell, self.bins - 1, said) for cell, said in enumerate(words, 1)]
        return above + [_missing(name, self.bins)] * self.missing

    def read(self, values: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
        """(u8[N], bool[N]): the cell of each value, and whether it is missing.

        A missing value without a cell of its own is in cell 0.
        """
        number = read_numbers(values)
        missing = np.isnan(number)
        exceeded = np.searchsorted(self.thresholds, number, side="left")
        cell = np.where(missing, self.bins if self.missing else 0, exceeded)
        return cell.astype(np.uint8), missing

    def position(self, values: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
        """(f32[N], bool[N]): numbers in the range as parts of it, and which are missing, at 0."""
        number = read_numbers(values)
        with np.errstate(all="ignore"):  # a warning would tell of some row's large number
            low, high = float(self.low), float(self.high)
            part = np.clip((number - low) / (high - low), 0, 1)
            return np.nan_to_num(part, nan=0.0).astype(np.float32), np.isnan(number)


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
    groups: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict, hash=False)
    ordered: bool = False

    def __post_init__(self):
        flag("Nominal: ordered", self.ordered)
        values = _words("Nominal: values", self.values)
        groups = _grouped(self.groups)
        values = values or tuple(value for members in groups.values() for value in members)
        _keep(self, values=values, groups=groups, ordered=bool(self.ordered))
        if not values or len(set(values)) != len(values):
            raise ValueError(
                f"Nominal: values must be one or more distinct values, got {shown(list(values))}"
            )
        self._check_groups()

        if self.other is not None:
            _keep(self, other=cells.declared(self.other, "Nominal: other"))
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
    def response(self) -> Response:
        """What is predicted of a row whose target these values declare."""
        return one_of_classes(len(self.names))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the cells of listed values: a group, or a value that is in none."""
        group_of = {value: name for name, members in self.groups.items() for value in members}
        return tuple(dict.fromkeys(group_of.get(value, value) for value in self.values))

    @property
    def cell_of(self) -> dict[str, int]:
        """The cell of each listed value and of each group."""
        cell = {name: number for number, name in enumerate(self.names)}
        members = {value: cell[name] for name, values in self.groups.items() for value in values}
        return cell | members

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return len(self.names) + (self.other is None)

    @property
    def steps(self) -> int:
        """How many of the first splits are thresholds of one attribute."""
        return len(self.names) - 1 if self.ordered else 0

    def splits(self, name: str) -> list[Split]:
        """The public splits, with the column called `name`."""
        last = len(self.names) - 1
        if self.ordered:
            return [
                Split(cell, last, Predicate(name, f"{name} >= {value}", f"{name} < {value}"))
                for cell, value in enumerate(self.names)
            ][1:]
        return [
            Split(cell, cell, Predicate(name, f"{name} = {value}", f"{name} is not {value}"))
            for cell, value in enumerate(self.names)
        ]

    def read(self, values: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
        """(u8[N], bool[N]): the cell of each value, and whether it is missing.

        Without `other` a value that is not listed is missing.
        """
        code, cell_of = read_codes(values, self.values), self.cell_of
        unlisted = len(self.names) if self.other is None else cell_of[self.other]
        of_code = np.array([*(cell_of[value] for value in self.values), unlisted], np.uint8)
        missing = code < (0 if self.other is None else -1)
        return of_code[np.maximum(code, -1)], missing  # a negative code is that of no listed value


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
        flag("Boolean: missing", self.missing)
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
        _keep(self, true=true, false=false, missing=bool(self.missing))

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return 2 + self.missing

    @property
    def steps(self) -> int:
        """How many of the first splits are thresholds of one attribute."""
        return 0

    def splits(self, name: str) -> list[Split]:
        """The public splits, with the column called `name`."""
        return [Split(1, 1, Predicate(name, name, f"not {name}")), _missing(name, 2)][
            : self.cells - 1
        ]

    def read(self, values: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
        """(u8[N], bool[N]): the cell of each value, and whether it is missing.

        A missing value without a cell of its own is in cell 0.
        """
        truth = read_truths(values, self.true, self.false)
        missing = truth < 0
        return np.where(missing, 2 if self.missing else 0, truth).astype(np.uint8), missing


Column = Numeric | Nominal | Boolean
_TYPES = {"numeric": Numeric, "nominal": Nominal, "boolean": Boolean}


def positions_of(kind: Column, codes: bool) -> list[np.ndarray]:
    """f32[CELLS] for each attribute of a column: the position of each of its cells.

    The thresholds of a column make one attribute, and each other split is one of its own. With
    `codes` a nominal column is one attribute.
    """
    if codes and isinstance(kind, Nominal):
        return [_grid(len(kind.names))]
    alone = [np.arange(CELLS) == split.low for split in kind.splits("")[kind.steps :]]
    ordered = [_grid(kind.steps + 1)] if kind.steps else []
    return ordered + [only.astype(np.float32) for only in alone]


def _grid(count: int) -> np.ndarray:
    """f32[CELLS]: the first `count` cells at equal distances from 0 to 1, all others at 0."""
    position = np.zeros(CELLS, np.float32)
    position[:count] = np.arange(count, dtype=np.float32) / np.float32(max(count - 1, 1))
    return position


def column_from_json(name: str, entry: Any) -> Column:
    """A column from its JSON object: {"type": "numeric", "low": 0, "high": 1, "bins": 10}, ...

    Raises:
        ValueError: naming the column and what is wrong with it.
    """
    kind = entry.get("type") if isinstance(entry, Mapping) else None
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ValueError(f"column {name!r}: type must be one of {sorted(_TYPES)}, got {entry!r}")
    given = {key: value for key, value in entry.items() if key != "type"}
    try:
        for key in ("values", "other", "groups", "true", "false"):
            refuse_truths(key, given.get(key))
        return _TYPES[kind](**given)
    except TypeError as error:  # names that are unknown or absent
        raise ValueError(f"column {name!r}: {str(error).partition(' ')[2]}") from None
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from error


def column_to_json(column: Column) -> dict[str, Any]:
    """The JSON object of a column, which `column_from_json` reads."""
    entry = {key: value for key, value in dataclasses.asdict(column).items() if value or value == 0}
    if isinstance(column, Numeric) and column.cuts is not None:
        del entry["bins"]  # the cuts say how many
    kind = next(word for word, known in _TYPES.items() if type(column) is known)
    return {"type": kind, **entry}


def refuse_truths(key: str, value: object) -> None:
    """Refuse true and false where a word is declared: cells of a file are text.

    Raises:
        ValueError: naming the key.
    """
    if isinstance(value, bool):
        raise ValueError(f'"{key}" must hold text or numbers as the cells have them, got a Boolean')
    if isinstance(value, list | dict):
        for word in value.values() if isinstance(value, dict) else value:
            refuse_truths(key, word)


def _keep(column: Any, **fields: Any) -> None:
    """Set attributes of a column in the making."""
    for name, value in fields.items():
        object.__setattr__(column, name, value)


def _missing(name: str, cell: int) -> Split:
    return Split(cell, cell, Predicate(name, f"{name} is missing", f"{name} is given"))


def _finite(name: str, value: object) -> float:
    """An end of a numeric range, or a cut, as a plain number; an integer stays one.

    Raises:
        ValueError: naming it and what was given, unless it is one finite number.
    """
    number = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # its digits are too many to print
            raise ValueError(f"Numeric: {name} must be a finite number, got a larger one") from None
    if not math.isfinite(number):
        raise ValueError(f"Numeric: {name} must be a finite number, got {value!r}")
    return int(value) if isinstance(value, numbers.Integral) else number


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


def _listed(name: str, values: Any) -> list:
    """The entries of a declared list.

    Raises:
        ValueError: naming the list and what was given, if it is text, a set, a mapping, or not
            iterable.
    """
    unordered = isinstance(values, str | bytes | set | frozenset | Mapping)
    if unordered or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a list, got {shown(values)}")
    return list(values)


def _words(name: str, values: object) -> tuple[str, ...]:
    """Declared values as `cells.declared` reads them.

    Raises:
        ValueError: naming the list if it is no list, or saying which value is no word.
    """
    given = _listed(name, values)
    return tuple(cells.declared(value, "Nominal: a listed value") for value in given)


def _grouped(given: object) -> dict[str, tuple[str, ...]]:
    """The values of each group, all as `cells.declared` reads them.

    Raises:
        ValueError: naming what is wrong, unless groups of at least one value have distinct names
            and no value is in two of them.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"Nominal: groups must map names to lists of values, got {given!r}")
    names = [cells.declared(name, "Nominal: the name of a group") for name in given]
    if len(set(names)) < len(names):
        raise ValueError(f"Nominal: groups must have distinct names, got {names}")
    listed = zip(names, given.values(), strict=True)
    groups = {name: _words(f"Nominal: group {name!r}", values) for name, values in listed}
    if not all(groups.values()):
        raise ValueError("Nominal: a group must hold at least one value")
    seen = list(itertools.chain(*groups.values()))
    if twice := sorted({value for value in seen if seen.count(value) > 1}):
        raise ValueError(f"Nominal: a value must be in at most one group, and {twice} are in two")
    return groups
