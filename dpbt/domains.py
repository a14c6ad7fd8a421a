"""Public domains: what each column may hold, declared before anyone looks at the rows.

A domain is an ordered mapping from column names to `Numeric`, `Nominal` or `Boolean`. It defines
the public splits: predicates "column > threshold", "column = value". Nothing here is ever fitted
from data. Encoding is a map of each row alone, cell by cell as `cells` says, and never raises on a
cell: what lies outside the declaration has a declared place.
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpbt import cells
from dpbt.columns import cells_of, read_codes, read_numbers, read_truths


def _refuse_unless_bool(missing: Any) -> None:
    if not isinstance(missing, bool):
        raise ValueError(f"missing must be true or false, got {missing!r}")


@dataclasses.dataclass(frozen=True)
class Numeric:
    """Numbers in [low, high], cut by a regular grid into `bins` intervals.

    The splits are bins - 1, "x > threshold".

    Values outside are as good as the nearer end, infinite ones too. A missing number, which is
    every cell that `cells.number` finds no number in, satisfies no threshold; with `missing` there
    is one more split, "x is missing".

    Raises:
        ValueError: unless low < high are finite, bins is an integer of at least 2,
            bins * (high - low) is finite, and missing is a bool.
    """

    low: float
    high: float
    bins: int = 10
    missing: bool = False

    def __post_init__(self):
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"a numeric column needs finite low < high, got [{self.low}, {self.high}]")
        if not isinstance(self.bins, int) or isinstance(self.bins, bool) or self.bins < 2:
            raise ValueError(f"a numeric column needs at least 2 bins, got {self.bins!r}")
        _refuse_unless_bool(self.missing)
        if not math.isfinite((self.high - self.low) * self.bins):
            ends = f"[{self.low}, {self.high}]"
            raise ValueError(f"a numeric column needs a finite bins * (high - low), got {ends}")

    @property
    def thresholds(self) -> np.ndarray:
        """float64[bins - 1], the interior points of the grid."""
        return self.low + (self.high - self.low) * np.arange(1, self.bins) / self.bins


@dataclasses.dataclass(frozen=True)
class Nominal:
    """One of the listed values: a split "x = value" for each.

    Any other value, and a missing one, is read as `other`, which must be a listed value, or else
    satisfies no split. Declared values are kept as `cells.declared` reads them, so that 3, "3" and
    "3.0" are one value.

    Raises:
        ValueError: if there are no values, or two are read alike, or `other` is not one of them.
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
        if self.other is None:
            return
        object.__setattr__(self, "other", cells.declared(self.other))
        if self.other not in self.values:
            raise ValueError(f"other must be one of {list(self.values)}, got {self.other!r}")


@dataclasses.dataclass(frozen=True)
class Boolean:
    """True or false: one split, "x".

    Python and NumPy Booleans are themselves. Any other cell is true if it reads as the word `true`,
    false if it reads as the word `false`, and else missing. A missing cell does not satisfy "x";
    with `missing` there is one more split, "x is missing". The words are kept as `cells.declared`
    reads them.

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
            words = f"a Boolean column with true={true!r}"
            raise ValueError(f"{words} must declare its word for false, too")
        false = "0" if self.false is None else cells.declared(self.false)
        if true == false:
            raise ValueError(f"the words for true and false must differ, got {true!r} twice")
        object.__setattr__(self, "true", true)
        object.__setattr__(self, "false", false)


Column = Numeric | Nominal | Boolean
Domain = Mapping[str, Column]


@dataclasses.dataclass(frozen=True)
class Predicate:
    """A public split, in words: `yes` where it holds, `no` where it does not."""

    column: str
    yes: str
    no: str


def _number(value: float) -> str:
    return f"{value:.6g}"


def predicates(domain: Domain) -> list[Predicate]:
    """The public splits of a domain, in the order of the columns of `encode`."""
    found: list[Predicate] = []
    for name, column in domain.items():
        match column:
            case Numeric():
                for threshold in column.thresholds:
                    at = _number(float(threshold))
                    found.append(Predicate(name, f"{name} > {at}", f"{name} <= {at}"))
                if column.missing:
                    found.append(Predicate(name, f"{name} is missing", f"{name} is given"))
            case Nominal():
                found += [Predicate(name, f"{name} = {value}", f"{name} is not {value}") for value in column.values]
            case Boolean():
                found.append(Predicate(name, f"{name}", f"not {name}"))
                if column.missing:
                    found.append(Predicate(name, f"{name} is missing", f"{name} is given"))
            case _:
                raise ValueError(f"column {name!r} must be Numeric, Nominal or Boolean, got {column!r}")
    return found


def describe(domain: Domain, split: int, satisfied: bool = True) -> str:
    """Split number `split` in words, as in "age > 37.5" (or its negation).

    Raises:
        ValueError: if the domain has no such split.
    """
    all_splits = predicates(domain)
    if not 0 <= split < len(all_splits):
        raise ValueError(f"the domain has splits 0..{len(all_splits) - 1}, got {split}")
    return all_splits[split].yes if satisfied else all_splits[split].no


Columns = Mapping[str, Any]
"""Raw columns by name, of N cells each: whatever `columns.cells_of` takes."""


def encode(domain: Domain, columns: Columns) -> np.ndarray:
    """bool[N, S]: which row satisfies which public split.

    Row n is a function of the cells of row n alone: the other rows of the result are the same
    whatever it holds.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells of any kind: a sequence, a NumPy array, a
            pandas Series, or an Arrow array. `cells` says how each cell is read. Columns the domain
            does not name are not read.

    Raises:
        ValueError: if the domain is empty, a column is missing or is no column, or lengths differ.
            No cell is an error.
    """
    read = read_columns(domain, columns)
    blocks = [_encode_column(kind, read[name]) for name, kind in domain.items()]
    return np.concatenate(blocks, axis=1)


def positions(
    domain: Domain,
    columns: Columns,
    *,
    grid: bool = False,
    codes: bool = False,
) -> np.ndarray:
    """f32[N, A]: where each row lies in the public range of each attribute, in [0, 1].

    A threshold t uniform in [0, 1) on "position > t" is a threshold uniform in the attribute's
    range; with `grid` it is uniform over the declared grid (a position is then a number of
    thresholds passed, over their number), and on a Boolean it is the Boolean itself.

    Args:
        domain: the public domain.
        columns: as `encode` reads them.
        grid: place numbers on the declared grid instead of exactly. Values outside the range count
            as its nearer end either way.
        codes: give a nominal column one attribute, the place of its value in the list over the last
            place, instead of one Boolean for each value. A value that is not listed is at 0.

    Returns:
        The attributes in the order of the columns. A missing number or Boolean is at 0, and has a
        Boolean of its own where declared. As in `encode`, a row of the result is a function of that
        row alone.

    Raises:
        ValueError: as `encode`.
    """
    read = read_columns(domain, columns)
    blocks = [_position_of(kind, read[name], grid, codes) for name, kind in domain.items()]
    return np.concatenate(blocks, axis=1)


def read_columns(domain: Domain, columns: Columns) -> dict[str, np.ndarray | list]:
    """The cells of the domain's columns, N each, as `columns.cells_of` gives them.

    Raises:
        ValueError: as `encode`. The number of rows is in no message.
    """
    if not domain:
        raise ValueError("a domain needs at least one column")
    if not hasattr(columns, "keys") or not hasattr(columns, "__getitem__"):
        raise ValueError(f"columns must map names to cells, got {type(columns).__name__}")
    absent = [name for name in domain if name not in columns]
    if absent:
        raise ValueError(f"the data lacks columns {absent} of the domain")
    read: dict[str, np.ndarray | list] = {}
    for name in domain:
        try:
            read[name] = cells_of(columns[name])
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from None

    first = next(iter(domain))
    unlike = [name for name in domain if len(read[name]) != len(read[first])]
    if unlike:
        raise ValueError(f"columns must have the same length; {unlike} differ from {first!r}")
    return read


def _position_of(kind: Column, values: np.ndarray | list, grid: bool, codes: bool) -> np.ndarray:
    block = _encode_column(kind, values).astype(np.float32)
    match kind:
        case Numeric():
            steps = kind.bins - 1
            place = block[:, :steps].sum(axis=1) / np.float32(steps)
            if not grid:
                with np.errstate(all="ignore"):  # a warning would tell of some row's large number
                    exact = (read_numbers(values) - kind.low) / (kind.high - kind.low)
                place = np.nan_to_num(np.clip(exact, 0, 1), nan=0.0).astype(np.float32)
            return np.concatenate([place[:, None], block[:, steps:]], axis=1)
        case Nominal() if codes:
            last = np.float32(max(len(kind.values) - 1, 1))
            return np.argmax(block, axis=1).astype(np.float32)[:, None] / last
        case _:
            return block


def _encode_column(kind: Column, values: np.ndarray | list) -> np.ndarray:
    """bool[N, splits of the column]."""
    match kind:
        case Numeric():
            number = read_numbers(values)
            block = number[:, None] > kind.thresholds[None, :]
            absent = np.isnan(number)
        case Nominal():
            code = read_codes(values, kind.values)
            if kind.other is not None:
                code = np.where(code < 0, kind.values.index(kind.other), code)
            return code[:, None] == np.arange(len(kind.values))
        case Boolean():
            truth = read_truths(values, kind.true, kind.false)
            block = (truth == 1)[:, None]
            absent = truth == -1
        case _:
            raise ValueError(f"a column must be Numeric, Nominal or Boolean, got {kind!r}")
    return np.concatenate([block, absent[:, None]], axis=1) if kind.missing else block


def missing_cells(domain: Domain, columns: Columns) -> dict[str, int]:
    """For each column the number of cells without a value. It is private, and no ledger covers it.

    A cell has no value if it is not a number in a numeric column, neither word in a Boolean one,
    and in a nominal one if its word is missing, or not listed where there is no `other`. A count
    near N says that a declaration does not fit its column.

    Raises:
        ValueError: as `encode`.
    """
    read = read_columns(domain, columns)
    return {name: _missing(kind, read[name]) for name, kind in domain.items()}


def _missing(kind: Column, values: np.ndarray | list) -> int:
    match kind:
        case Numeric():
            return int(np.isnan(read_numbers(values)).sum())
        case Nominal():
            code = read_codes(values, kind.values)
            return int((code < (0 if kind.other is None else -1)).sum())
        case Boolean():
            return int((read_truths(values, kind.true, kind.false) == -1).sum())


def column_from_json(name: str, entry: Mapping) -> Column:
    """A column from its JSON object: {"type": "numeric", "low": 0, "high": 1, "bins": 10}, ...

    Raises:
        ValueError: naming the column and what is wrong with it.
    """
    kinds = {"numeric": Numeric, "nominal": Nominal, "boolean": Boolean}
    if not isinstance(entry, Mapping) or entry.get("type") not in kinds:
        raise ValueError(f"column {name!r}: type must be one of {sorted(kinds)}, got {entry!r}")
    fields = {key: value for key, value in entry.items() if key != "type"}
    try:
        return kinds[entry["type"]](**fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r}: {error}") from error


@dataclasses.dataclass(frozen=True)
class Label:
    """The label's column and the words of its two classes, kept as `cells.declared` reads them.

    Raises:
        ValueError: if the two words are read alike.
    """

    column: str
    positive: str
    negative: str

    def __post_init__(self):
        object.__setattr__(self, "positive", cells.declared(self.positive))
        object.__setattr__(self, "negative", cells.declared(self.negative))
        if self.positive == self.negative:
            raise ValueError(f"the two classes must differ, got {self.positive!r} twice")


def read_domain(path: str | Path) -> tuple[Domain, Label]:
    """A domain and its label from a JSON file.

    The file holds {"columns": {name: column, ...}, "label": {"column": ..., "positive": ...,
    "negative": ...}}. A column holds its "type" ("numeric", "nominal" or "boolean") and the
    attributes of that class by name.

    Raises:
        ValueError: naming the file and what is wrong.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from error
    try:
        if not isinstance(content, dict) or not isinstance(content.get("columns"), dict) or not content["columns"]:
            raise ValueError('expected an object with "columns" and "label"')
        domain = {name: column_from_json(name, entry) for name, entry in content["columns"].items()}
        label = content.get("label")
        if not isinstance(label, dict) or set(label) != {"column", "positive", "negative"}:
            raise ValueError(f'"label" needs column, positive and negative, got {label!r}')
        words = Label(str(label["column"]), label["positive"], label["negative"])
        if words.column in domain:
            raise ValueError(f"the label {words.column!r} is among the columns")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return domain, words
