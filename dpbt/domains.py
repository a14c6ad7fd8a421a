"""Public domains: what each column may hold, declared before anyone looks at the rows.

A domain is an ordered mapping from column names to `Numeric`, `Nominal` or `Boolean`. It defines the public
splits: predicates "column > threshold", "column = value". Nothing here is ever fitted from data, and encoding never
raises on a private value: what lies outside the declaration has a declared place.
"""

import contextlib
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


@dataclasses.dataclass(frozen=True)
class Numeric:
    """Numbers in [low, high], cut by a regular grid into `bins` intervals: bins - 1 splits "x > threshold".

    Values outside are as good as the nearer end, infinite ones too. NaN satisfies no threshold; with `missing`
    there is one more split, "x is missing".

    Raises:
        ValueError: unless low < high are finite and bins is an integer of at least 2.
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

    @property
    def thresholds(self) -> np.ndarray:
        """float64[bins - 1], the interior points of the grid."""
        return self.low + (self.high - self.low) * np.arange(1, self.bins) / self.bins


@dataclasses.dataclass(frozen=True)
class Nominal:
    """One of the listed values: a split "x = value" for each.

    Any other value is read as `other`, which must be a listed value, or else satisfies no split.

    Raises:
        ValueError: if there are no values, or two are equal, or `other` is not one of them.
    """

    values: tuple[str, ...]
    other: str | None = None

    def __post_init__(self):
        object.__setattr__(self, "values", tuple(str(value) for value in self.values))
        if not self.values or len(set(self.values)) != len(self.values):
            raise ValueError(f"a nominal column needs distinct values, got {list(self.values)}")
        if self.other is not None and self.other not in self.values:
            raise ValueError(f"other must be one of {list(self.values)}, got {self.other!r}")


@dataclasses.dataclass(frozen=True)
class Boolean:
    """True or false: one split. Of text, `true` is true and everything else false."""

    true: str = "1"


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


def encode(domain: Domain, columns: Mapping[str, Sequence | np.ndarray]) -> np.ndarray:
    """bool[N, S]: which row satisfies which public split.

    Args:
        domain: the public domain.
        columns: for every column of the domain a sequence of N values: numbers, text, or booleans. Columns the
            domain does not name are not read.

    Raises:
        ValueError: if a column is missing, or lengths differ, or a numeric column does not hold numbers.
    """
    _check(domain, columns)
    blocks = [_encode_column(name, column, columns[name]) for name, column in domain.items()]
    return np.concatenate(blocks, axis=1)


def positions(
    domain: Domain, columns: Mapping[str, Sequence | np.ndarray], *, grid: bool = False, codes: bool = False
) -> np.ndarray:
    """f32[N, A]: where each row lies in the public range of each attribute, in [0, 1].

    A threshold t uniform in [0, 1) on "position > t" is a threshold uniform in the attribute's range; with `grid`
    it is uniform over the declared grid (a position is then a number of thresholds passed, over their number), and on a
    Boolean it is the Boolean itself.

    Args:
        domain: the public domain.
        columns: as `encode` reads them.
        grid: place numbers on the declared grid instead of exactly. Values outside the range count as its nearer end
            either way.
        codes: give a nominal column one attribute, the place of its value in the list over the last place, instead of
            one Boolean for each value. A value that is not listed is at 0.

    Returns:
        The attributes in the order of the columns. A missing number is at 0, and has a Boolean where declared.

    Raises:
        ValueError: as `encode`.
    """
    _check(domain, columns)
    blocks = [_position_of(name, column, columns[name], grid, codes) for name, column in domain.items()]
    return np.concatenate(blocks, axis=1)


def _check(domain: Domain, columns: Mapping[str, Sequence | np.ndarray]) -> None:
    if not domain:
        raise ValueError("a domain needs at least one column")
    absent = [name for name in domain if name not in columns]
    if absent:
        raise ValueError(f"the data lacks columns {absent} of the domain; it has {list(columns)}")
    lengths = {name: len(columns[name]) for name in domain}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must have the same length, those of {sorted(lengths)} do not")


def _position_of(name: str, column: Column, values, grid: bool, codes: bool) -> np.ndarray:
    block = _encode_column(name, column, values).astype(np.float32)
    match column:
        case Numeric():
            steps = column.bins - 1
            place = block[:, :steps].sum(axis=1) / np.float32(steps)
            if not grid:
                exact = (np.asarray(values, np.float64) - column.low) / (column.high - column.low)
                place = np.nan_to_num(np.clip(exact, 0, 1), nan=0.0).astype(np.float32)
            return np.concatenate([place[:, None], block[:, steps:]], axis=1)
        case Nominal() if codes:
            last = np.float32(max(len(column.values) - 1, 1))
            return np.argmax(block, axis=1).astype(np.float32)[:, None] / last
        case _:
            return block


def _array(name: str, values) -> np.ndarray:
    """The column as an array [N]; NumPy's own error of ragged values would show N."""
    array = None
    with contextlib.suppress(ValueError):
        array = np.asarray(values)
    if array is None or array.ndim != 1:
        raise ValueError(f"column {name!r} must hold one value for each row")
    return array


def _encode_column(name: str, column: Column, values) -> np.ndarray:
    match column:
        case Numeric():
            array = _array(name, values)
            if array.dtype.kind not in "bifu":
                words = "must hold numbers, and holds text or objects"
                raise ValueError(f"numeric column {name!r} {words}")
            array = array.astype(np.float64)
            block = array[:, None] > column.thresholds[None, :]
            return np.concatenate([block, np.isnan(array)[:, None]], axis=1) if column.missing else block
        case Nominal():
            text = np.asarray([str(value) for value in values], dtype=object)
            if column.other is not None:
                known = np.isin(text.astype(str), column.values)
                text = np.where(known, text, column.other)
            return np.stack([text == value for value in column.values], axis=1).astype(bool)
        case Boolean():
            array = _array(name, values)
            if array.dtype.kind not in "bifu":
                array = np.asarray([str(value) == column.true for value in values])
            return (np.nan_to_num(array.astype(np.float64)) != 0)[:, None]
        case _:
            raise ValueError(f"column {name!r} must be Numeric, Nominal or Boolean, got {column!r}")


def column_from_json(name: str, entry: Mapping) -> Column:
    """A column from its JSON object: {"type": "numeric", "low": 0, "high": 1, "bins": 10}, ...

    Raises:
        ValueError: naming the column and what is wrong with it.
    """
    kinds = {"numeric": Numeric, "nominal": Nominal, "boolean": Boolean}
    if not isinstance(entry, Mapping) or entry.get("type") not in kinds:
        raise ValueError(f"column {name!r}: type must be one of {sorted(kinds)}, got {entry!r}")
    fields = {key: value for key, value in entry.items() if key != "type"}
    if "values" in fields:
        fields["values"] = tuple(fields["values"])
    try:
        return kinds[entry["type"]](**fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r}: {error}") from error


@dataclasses.dataclass(frozen=True)
class Label:
    """The label's column and the two values it may hold."""

    column: str
    positive: str
    negative: str


def read_domain(path: str | Path) -> tuple[Domain, Label]:
    """A domain and its label from a JSON file.

    The file holds {"columns": {name: column, ...}, "label": {"column": ..., "positive": ..., "negative": ...}}.

    Raises:
        ValueError: naming the file and what is wrong.
    """
    try:
        content = json.loads(Path(path).read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from error
    try:
        if not isinstance(content, dict) or not isinstance(content.get("columns"), dict) or not content["columns"]:
            raise ValueError('expected an object with "columns" and "label"')
        domain = {name: column_from_json(name, entry) for name, entry in content["columns"].items()}
        label = content.get("label")
        if not isinstance(label, dict) or set(label) != {"column", "positive", "negative"}:
            raise ValueError(f'"label" needs column, positive and negative, got {label!r}')
        words = Label(str(label["column"]), str(label["positive"]), str(label["negative"]))
        if words.positive == words.negative:
            raise ValueError(f"the two classes must differ, got {words.positive!r} twice")
        if words.column in domain:
            raise ValueError(f"the label {words.column!r} is among the columns")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return domain, words
