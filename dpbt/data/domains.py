"""Public domains: the declared values of each column, stated before anyone looks at the rows.

A domain is an ordered mapping from column names to `Numeric`, `Nominal` or `Boolean` (`kinds`). It
defines the public splits as splits of bins. They are the predicates "column > threshold",
"column = value" and "column >= value". Nothing here is ever fitted from data.

`encode` reads each row on its own, cell by cell (`cells`). No cell raises an error: the declaration
determines the bin of a cell outside of it.

Besides the attributes, a domain's file declares a label, and optionally weights and ids of users.
Two classes are declared by their words, several classes by `Nominal`, and a number in a range by
`Numeric`. Each label, weight and id is read on its own, as a cell of such a column.
"""

import codecs
import functools
import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypedDict

import msgspec
import numpy as np
from jaxtyping import Bool, Float32, Float64, UInt8

from dpbt.common import storage
from dpbt.common.validate import (
    as_path,
    check_boolean,
    check_choice,
    check_positive_integer,
    show_value,
)
from dpbt.data.cells import (
    ColumnCells,
    RawColumn,
    advice_for_lazy_data,
    column_cells,
    declared_word,
    frame_column_names,
    hash_ids,
    is_date_type,
    is_time_type,
    read_booleans,
    read_number,
    read_numbers,
    time_type_of_column,
)
from dpbt.data.kinds import (
    Boolean,
    Column,
    Nominal,
    Numeric,
    Real,
    Spellings,
    Split,
    Target,
    bin_positions_of_attributes,
    check_number,
    declared_spellings,
    field_always_written,
    name_of_spellings,
    response_of_target,
)
from dpbt.data.kinds import Objective as Objective
from dpbt.data.label_types import check_classes_can_occur
from dpbt.public_types import DeclaredDomain as DeclaredDomain
from dpbt.public_types import Splits, redacted_repr

Domain = Mapping[str, Column]
"""The declared columns by name; public."""


def check_domain(domain: object) -> None:
    """Check that a domain is a mapping from names to kinds of columns.

    Raises:
        ValueError: if it is something else or has no column. The error shows no value.
    """
    if not isinstance(domain, Mapping) or not domain:
        raise ValueError(
            "a domain must map column names to Numeric, Nominal or Boolean, and have at least one "
            f"column, got {type(domain).__name__}"
        )
    for name, kind in domain.items():
        if not isinstance(kind, Column):  # it may be private, if domain and columns were exchanged
            raise ValueError(
                f"column {name!r} must be Numeric, Nominal or Boolean, got {type(kind).__name__}"
            )
    if len({str(name) for name in domain}) < len(domain):
        raise ValueError("two columns of a domain have names of one text, such as 0 and '0'")


def as_declared_domain(domain: Domain) -> DeclaredDomain:
    """A domain in the immutable form in which tables, recipes and models carry it.

    Raises:
        ValueError: as `check_domain`.
    """
    check_domain(domain)
    return domain if isinstance(domain, DeclaredDomain) else DeclaredDomain(domain.items())


def check_same_domain(first: Domain | None, second: Domain | None, owner: str, other: str) -> None:
    """Check that two objects have the same domain, if both have one.

    Without this check another domain would pass unnoticed: bins are numbers, and the same number
    would stand for another interval, value or column.

    Args:
        first: the domain of the first object; None if it has none.
        second: the domain of the second object; None if it has none.
        owner: the first object in words, such as "the table".
        other: the second object in words, such as "the model".

    Raises:
        ValueError: naming the first difference (`describe_difference`).
    """
    if first is None or second is None:
        return
    words = describe_difference(first, second, owner, other)
    if words is not None:
        raise ValueError(f"another domain than that of {other}: {words}")


def describe_difference(
    first: Domain, second: Domain, owner: str = "the first", other: str = "the second"
) -> str | None:
    """The first difference of two domains in words; None if they are the same.

    Columns are compared in their order, by name, kind and attributes, and numbered from 1.

    Args:
        first: a domain.
        second: another domain.
        owner: the object that has the first domain, in words.
        other: the object that has the second domain, in words.
    """
    if first is second:
        return None
    pairs = zip(first.items(), second.items(), strict=False)
    for place, ((name, kind), (other_name, other_kind)) in enumerate(pairs, 1):
        if str(name) != str(other_name):
            return f"column {place} is {str(name)!r} in {owner} and {str(other_name)!r} in {other}"
        if kind != other_kind:
            words = _describe_difference_of_columns(kind, other_kind, owner, other)
            return f"column {str(name)!r} {words}"
    if len(first) != len(second):
        longer, longer_owner = (first, owner) if len(first) > len(second) else (second, other)
        extra = str([*longer][min(len(first), len(second))])
        return (
            f"there are {len(first)} columns in {owner} and {len(second)} in {other}; "
            f"column {extra!r} is in {longer_owner} alone"
        )
    return None


def _describe_difference_of_columns(first: Column, second: Column, owner: str, other: str) -> str:
    """The first attribute in which two columns differ, with both values, in words."""
    if type(first) is not type(second):
        return f"is {type(first).__name__} in {owner} and {type(second).__name__} in {other}"
    # The number of bins follows from cuts, so it comes last.
    fields = sorted(first.__struct_fields__, key=lambda field: field == "bins")
    field = next(name for name in fields if getattr(first, name) != getattr(second, name))
    values = getattr(first, field), getattr(second, field)
    if all(isinstance(value, tuple) for value in values):
        for place, entries in enumerate(zip(*values, strict=False), 1):
            if entries[0] != entries[1]:
                one, another = map(show_value, entries)
                return (
                    f"has number {place} of its {field} {one} in {owner} and {another} in {other}"
                )
        return f"has {len(values[0])} {field} in {owner} and {len(values[1])} in {other}"
    return f"has {field} {show_value(values[0])} in {owner} and {show_value(values[1])} in {other}"


def predicates(domain: Domain) -> list[Split]:
    """The public splits of a domain, in the order of `splits`.

    Raises:
        ValueError: as `check_domain`.
    """
    check_domain(domain)
    return [split for name, column in domain.items() for split in column.splits(name)]


Columns = Mapping[str, RawColumn]
"""Raw columns by name, of N cells each: a mapping or a data frame of what `cells.RawColumn` is."""


def encode(domain: Domain, columns: Columns) -> UInt8[np.ndarray, "N F"]:
    """u8[N, F]: the bin of each cell, one feature for each column of the domain.

    Row n is a function of the cells of row n alone, so no row changes how another is encoded.
    `splits` makes the splits and attributes of the result.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells of any kind: a sequence, a NumPy array, a
            pandas Series, or an Arrow array. It is a mapping or a data frame (pandas, polars,
            Arrow). `cells` says how each cell is read. Columns that the domain does not name are
            not read.

    Raises:
        ValueError: if a column is missing, is there twice or is not a column, if lengths differ,
            and as `check_domain`. Also for a column of a type of dates that is declared as no date.
            No cell is an error.
    """
    cells = cells_by_column(domain, columns)
    return np.stack([kind.read_bins(cells[name]).bins for name, kind in domain.items()], axis=1)


def splits(domain: Domain) -> Splits:
    """The splits and attributes of the bins that `encode` returns, in the order of `predicates`.

    The position of a number is the share of the column's thresholds that it exceeds. So a threshold
    t uniform in [0, 1) on "position > t" is uniform over the declared thresholds. The position of a
    bin of an ordered nominal column is likewise its place among the bins.

    Raises:
        ValueError: as `check_domain`.
    """
    check_domain(domain)
    column_splits = [
        (feature, split)
        for feature, kind in enumerate(domain.values())
        for split in kind.splits("")
    ]
    attributes = [
        (feature, position)
        for feature, kind in enumerate(domain.values())
        for position in bin_positions_of_attributes(kind)
    ]
    return Splits(
        feature=np.array([feature for feature, _ in column_splits], np.int32),
        low=np.array([split.low for _, split in column_splits], np.uint8),
        high=np.array([split.high for _, split in column_splits], np.uint8),
        attribute=np.array([feature for feature, _ in attributes], np.int32),
        position=np.stack([position for _, position in attributes]),
    )


def encode_positions(domain: Domain, columns: Columns) -> Float32[np.ndarray, "N A"]:
    """f32[N, A]: the exact position of each row in the range of each attribute, in [0, 1].

    A threshold t uniform in [0, 1) on "position > t" is uniform in the attribute's range. The
    position of a Boolean is the Boolean itself. The position of a number is linear in the number,
    whatever its cuts or scale. (`splits` has the same attributes, with the positions of numbers on
    the declared grid.)

    Args:
        domain: the public domain.
        columns: as `encode` reads them.

    Returns:
        The attributes in the order of the columns. A missing number or Boolean is at 0, and has a
        Boolean of its own where declared. Values outside the range count as its nearer end. As in
        `encode`, a row of the result is a function of that row alone.

    Raises:
        ValueError: as `encode`.
    """
    cells = cells_by_column(domain, columns)
    blocks = []
    for name, kind in domain.items():
        position_of_bin = np.stack(bin_positions_of_attributes(kind), axis=1)
        block = position_of_bin[kind.read_bins(cells[name]).bins]
        if isinstance(kind, Numeric):
            block[:, 0] = kind.read_positions(cells[name]).position
        blocks.append(block)
    return np.concatenate(blocks, axis=1)


positions = encode_positions
"""The former name of `encode_positions`."""


def cells_by_column(domain: Domain, columns: Columns) -> dict[str, ColumnCells]:
    """The cells of the domain's columns by name, N each, as `cells.column_cells` returns them.

    Raises:
        ValueError: as `encode`. No message holds the number of rows.
    """
    check_domain(domain)
    raw_columns = select_columns(columns, domain, "the domain")
    for name, kind in domain.items():
        refuse_undeclared_dates(f"column {name!r}", raw_columns[name], kind)
    cells = {name: column_cells(raw_columns[name], f"column {name!r}: ") for name in domain}
    first = next(iter(domain))
    unlike = [name for name in domain if len(cells[name]) != len(cells[first])]
    if unlike:
        raise ValueError(f"columns must have the same length; {unlike} differ from {first!r}")
    return cells


def refuse_undeclared_dates(name: str, values: RawColumn, kind: Column | None) -> None:
    """Refuse a column whose container says that it holds dates, where no cell would be read.

    It reads the type that the container states, which is public, and no cell.

    Args:
        name: how the error calls the column.
        values: the column.
        kind: the declared kind of the column; None for labels, weights and ids of users.

    Raises:
        ValueError: as `refuse_undeclared_date_type`.
    """
    if (type_name := time_type_of_column(values)) is not None:
        refuse_undeclared_date_type(name, type_name, kind)


def refuse_undeclared_date_type(name: str, type_name: str, kind: Column | None) -> None:
    """Refuse a type of dates where no cell would be read.

    Args:
        name: how the error calls the column.
        type_name: the name of the type of its cells; others than those of dates pass.
        kind: the declared kind of the column; None for labels, weights and ids of users.

    Raises:
        ValueError: for dates that are not declared, and for times and durations.
    """
    is_date_column = isinstance(kind, Numeric) and kind.date is not None
    if not is_time_type(type_name) or (is_date_column and is_date_type(type_name)):
        return
    advice = "write them as numbers or text"
    if is_date_type(type_name) and kind is not None:
        advice = (
            'declare it as numeric with a date and a unit, such as Numeric("2015-01-01", '
            '"2024-12-31", date="iso", unit="days")'
        )
    raise ValueError(
        f"{name} is of the type {type_name}, of which no cell would be read as it is declared; "
        f"{advice}"
    )


def select_columns(columns: Columns, names: Iterable[Hashable], owner: str) -> dict[Any, RawColumn]:
    """The raw columns of these names, in the order of the names. No other column is read.

    Args:
        columns: a mapping of names to cells, or a data frame (pandas, polars, Arrow).
        names: the names.
        owner: whose names they are, for errors.

    Raises:
        ValueError: for anything else, for a name that there is not, and for one that there is more
            than once, since either of its columns could be meant.
    """
    is_keyed = hasattr(columns, "keys")  # as mappings are, and pandas
    names_of_data = tuple(columns.keys()) if is_keyed else frame_column_names(columns)
    if names_of_data is None or not hasattr(columns, "__getitem__"):
        description = f"{type(columns).__name__}{advice_for_lazy_data(columns)}"
        raise ValueError(f"columns must map names to cells, got {description}")
    names = list(names)
    present: Any = columns if is_keyed else names_of_data
    if absent := [name for name in names if name not in present]:
        raise ValueError(f"the data lacks columns {absent} of {owner}")
    counts = Counter(names_of_data)
    if repeated := [name for name in names if counts[name] > 1]:
        raise ValueError(f"the columns of the data must have distinct names, and {repeated} repeat")
    return {name: columns[name] for name in names}  # type: ignore[index]  # names may be numbers


# Labels, weights and ids of users.


class WeightColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of weights of rows, and the public bound on them.

    Attributes:
        column: the name of the column.
        max_weight: the largest weight that counts; larger ones are clipped. Files call it "most".
    """

    column: str
    max_weight: Real = msgspec.field(name="most")

    def __post_init__(self):
        max_weight = float(check_number("max_weight", self.max_weight, "(0, inf)"))
        msgspec.structs.force_setattr(self, "max_weight", max_weight)


class UserColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of ids, which state whose each row is, and the public limit on the rows of one user.

    Ids are compared as words (`cells.read_word`), so " 7 ", 7 and 7.0 are one. A row whose id is
    missing is absent, as is one beyond the first `max_rows` of its user.

    Attributes:
        column: the name of the column.
        max_rows: how many rows of a user count. Files call it "most".
        ignore_case: whether ids that differ in capitals alone are one.
    """

    column: str
    max_rows: int = msgspec.field(name="most")
    ignore_case: bool = False

    def __post_init__(self):
        max_rows = check_positive_integer("max_rows_per_user", self.max_rows)
        msgspec.structs.force_setattr(self, "max_rows", max_rows)
        check_boolean("ignore_case", self.ignore_case)

    def new_row_limiter(self) -> "RowLimiter":
        """A limiter of the rows of each user that has seen no row yet."""
        return RowLimiter(self.max_rows)


class RowLimiter:
    """Admits the first rows of each user, over all calls of `admit_rows`.

    The rows of one user keep their order whatever other rows there are, so which of them are
    admitted follows from them alone (docs/privacy.md, U1). The limiter keeps a count for each id,
    of about 110 to 150 bytes.
    """

    def __init__(self, max_rows: int):
        self._max_rows = max_rows
        self._num_admitted: dict[bytes | None, int] = {None: max_rows}  # no row without an id

    def admit_rows(self, ids: np.ndarray, present: Bool[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """bool[n]: which of the next rows count: those present, within the limit of their user.

        Args:
            ids: object[n], as `cells.hash_ids` returns them.
            present: bool[n]. Absent rows neither count nor use up the limit.
        """
        admitted = np.zeros(len(ids), bool)
        for row in np.flatnonzero(present).tolist():
            num_admitted = self._num_admitted.get(ids[row], 0)
            if num_admitted < self._max_rows:
                self._num_admitted[ids[row]] = num_admitted + 1
                admitted[row] = True
        return admitted


class RowLabels(NamedTuple):
    """The labels and weights of rows, as `dpbt.Table` holds them; private.

    Attributes:
        target: bool[N], u8[N] or f32[N]: the class, or the position in the range; 0 if absent.
        present: bool[N]: whether the label is as declared.
        weight: f32[N], in units of the largest possible weight; None if all rows weigh the same.
    """

    target: np.ndarray
    present: np.ndarray
    weight: np.ndarray | None

    __repr__ = redacted_repr


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The label's column, and what it may hold: two classes, several classes, or a number.

    Two classes have the words `positive` and `negative`, which are stored as `cells.declared_word`
    reads them. Several classes and numbers have a `target`.

    Attributes:
        column: the name of the column.
        positive: the word of the positive class, or a list of its spellings, of which the first is
            its name.
        negative: the word of the negative class, or a list of its spellings.
        target: `domains.Nominal` of two classes or more, or `domains.Numeric(low, high)`.
        weight: the column of weights of rows; None without weights.
        user: the column of ids of users; None without ids.
        ignore_case: whether words of the two classes that differ in capitals alone are one.

    Raises:
        ValueError: if the two words are read alike, or the column's name is not text. Also for a
            target that is not as described, or beside two classes, and for a bound on weights that
            is not positive and finite.
    """

    column: str
    # Files state these fields also where they are None.
    positive: Spellings | None = field_always_written(None)
    negative: Spellings | None = field_always_written(None)
    target: Nominal | Numeric | None = field_always_written(None)
    weight: WeightColumn | None = field_always_written(None)
    user: UserColumn | None = field_always_written(None)
    ignore_case: bool = False

    def __post_init__(self):
        check_boolean("Label: ignore_case", self.ignore_case)
        names = list(self.columns)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"Label: column must be a name, got {show_value(names)}")
        if len(set(names)) < len(names):
            raise ValueError(f"Label: labels, weights and ids of users must differ, got {names}")
        if self.target is not None:
            response_of_target(self.target)
            if self.positive is not None or self.negative is not None:
                raise ValueError("give target, or negative and positive, and not both")
            if self.ignore_case:
                raise ValueError(
                    "ignore_case of a label is for its two classes; several classes declare it in "
                    "their target"
                )
            return
        words = self.negative, self.positive
        booleans = [isinstance(word, bool | np.bool_) for word in words]
        if any(booleans) and not (all(booleans) and words == (False, True)):
            raise ValueError(
                "negative and positive must be declared together, and be False and True for "
                f"Boolean labels, got negative={show_value(words[0])} and "
                f"positive={show_value(words[1])}"
            )
        kind = Boolean(
            declared_spellings(words[1], "positive"),
            declared_spellings(words[0], "negative"),
            ignore_case=self.ignore_case,
        )
        msgspec.structs.force_setattr(self, "positive", kind.true)
        msgspec.structs.force_setattr(self, "negative", kind.false)

    @classmethod
    def from_options(
        cls,
        *,
        negative: Any = False,
        positive: Any = True,
        target: Target | None = None,
        max_weight: Any = None,
        max_rows_per_user: Any = None,
        ignore_case: bool = False,
        ignore_label_case: bool = False,
    ) -> Self:
        """The label that `LabelOptions` declare, of columns without names.

        Raises:
            ValueError: as `dpbt.table`.
        """
        weight = None if max_weight is None else WeightColumn("sample_weight", max_weight)
        user = None
        if max_rows_per_user is not None:
            user = UserColumn("users", max_rows_per_user, ignore_case)
        if target is not None and negative is False and positive is True:
            negative = positive = None  # the defaults
        words: Any = {"positive": positive, "negative": negative}
        return cls(
            "labels",
            target=target,
            weight=weight,
            user=user,
            ignore_case=ignore_label_case,
            **words,
        )

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The words of the classes in the order of scores, of two the negative one first.

        None for a number.
        """
        if self.target is None:
            words: Any = self.negative, self.positive
            return tuple(map(name_of_spellings, words))
        return self.target.values if isinstance(self.target, Nominal) else None

    @property
    def spellings_of_classes(self) -> list[tuple[str, ...]]:
        """The words that are read as each class, its name first; empty for a number."""
        if isinstance(self.target, Nominal):
            return self.target.words_by_bin
        if self.target is not None:
            return []
        words: Any = self.negative, self.positive
        return [(one,) if isinstance(one, str) else one for one in words]

    @property
    def options(self) -> "LabelOptions":
        """The arguments of `dpbt.table` that declare this label, its weights and its users."""
        options: LabelOptions = {"target": self.target}
        if self.target is None:
            words: Any = {"negative": self.negative, "positive": self.positive}
            options = words
            if self.ignore_case:
                options["ignore_label_case"] = True
        if self.weight is not None:
            options["max_weight"] = self.weight.max_weight
        if self.user is not None:
            options["max_rows_per_user"] = self.user.max_rows
            options["ignore_case"] = self.user.ignore_case
        return options

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns beside the attributes: of the label, of weights, of users."""
        declared = (self.weight, self.user)
        return (self.column, *(column.column for column in declared if column is not None))

    def read_labels(
        self,
        labels: RawColumn,
        *,
        num_rows: int,
        sample_weight: RawColumn | None = None,
        class_weight: Mapping[Any, float] | None = None,
    ) -> RowLabels:
        """The target, presence and weight of each row, each row read on its own.

        - The target of a class is its index in `Nominal.values`. A label that is not listed counts
          as the class `Nominal.other`; without one the row is absent.
        - A number is clipped to the range, and its target is its position there, from 0 to 1. The
          row of a label that is not a number is absent.
        - Weights are in units of the largest possible one.

        Args:
            labels: N cells.
            num_rows: N, the length of the columns.
            sample_weight: N weights, or None.
            class_weight: the public weight of each class by its word, or None.

        Raises:
            ValueError: for an argument that is not a column or has another length, for labels whose
                stated type, such as a dtype, cannot hold a declared class or a number, for weights
                without a public bound, and for weights of classes that are not as described. No
                cell is shown.
        """
        weight_of_class = None
        if class_weight is not None:
            weight_of_class = _relative_class_weights(self.classes, class_weight)
        other = self.target.other if isinstance(self.target, Nominal) else None
        check_classes_can_occur(
            labels, self.spellings_of_classes, other=other, are_two=self.target is None
        )
        cells = _cells_of_length("labels", labels, num_rows)
        match self.target:
            case Numeric():
                target, missing = self.target.read_positions(cells)
                present = ~missing
            case Nominal():
                bins = self.target.read_bins(cells).bins
                present = bins < len(self.target.values)
                target = np.where(present, bins, np.uint8(0))
            case _:
                words: Any = self.positive, self.negative
                truths = read_booleans(cells, *words, ignore_case=self.ignore_case)
                target, present = truths == 1, truths >= 0
        if sample_weight is None and weight_of_class is None:
            return RowLabels(target, present, None)
        weight = np.ones(num_rows)
        with np.errstate(all="ignore"):  # a warning would say that some row has a tiny weight
            if sample_weight is not None:
                if self.weight is None:
                    raise ValueError(
                        "sample_weight needs max_weight, a public bound on the weight of a row, "
                        "which is never read off the weights; larger ones are clipped to it"
                    )
                weight_cells = _cells_of_length("sample_weight", sample_weight, num_rows)
                stated_weight = np.nan_to_num(read_numbers(weight_cells))
                max_weight = self.weight.max_weight
                weight = np.clip(stated_weight, 0.0, max_weight) / max_weight
            if weight_of_class is not None:
                weight = weight * weight_of_class[target.astype(np.int64)]
            return RowLabels(target, present, weight.astype(np.float32))

    def read_user_ids(self, users: RawColumn | None, num_rows: int) -> np.ndarray | None:
        """object[N]: the id of each row's user (`cells.hash_ids`); None without users.

        Raises:
            ValueError: for ids without a declared limit or a limit without ids, for a value that is
                no column, and for a column of another length than `num_rows`.
        """
        if (self.user is None) != (users is None):
            raise ValueError(
                "users and max_rows_per_user go together: the ids of users, and how many rows of "
                "one user count; without ids, max_rows_per_user of the recipe is your promise"
            )
        if self.user is None:
            return None
        return hash_ids(_cells_of_length("users", users, num_rows), self.user.ignore_case)


class LabelOptions(TypedDict, total=False):
    """The arguments of `dpbt.table` and of conversions that declare labels, weights and users.

    Attributes:
        negative: the word or the number of the negative class, or a list of its spellings; False
            by default.
        positive: those of the positive class; True by default.
        target: the declared classes or range of labels that are not one of two classes.
        max_weight: a public bound on weights of rows, above 0, which weights need.
        max_rows_per_user: how many rows of each user count, which ids of users need.
        ignore_case: whether ids that differ in capitals alone are one.
        ignore_label_case: whether words of the two classes that differ in capitals alone are one.
    """

    negative: str | float | Sequence[str | float]
    positive: str | float | Sequence[str | float]
    target: Target | None
    max_weight: float | None
    max_rows_per_user: int | None
    ignore_case: bool
    ignore_label_case: bool


def _relative_class_weights(
    names: tuple[Any, ...] | None, class_weight: Mapping[Any, float]
) -> Float64[np.ndarray, "K"]:
    """f64[K]: the weights of classes in units of the largest.

    Raises:
        ValueError: unless each class has a positive and finite weight.
    """
    if names is None or not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must map each class to its public weight, got "
            f"{show_value(class_weight)}; it is not read off the labels, as their counts "
            "are private"
        )
    weight_of_word = {
        declared_word(name, "class_weight: a class"): weight
        for name, weight in class_weight.items()
    }
    if set(weight_of_word) != set(names):
        raise ValueError(
            f"class_weight must have a weight for each of {names}, got {list(weight_of_word)}"
        )
    weights = np.array(
        [
            check_number(f"class_weight of {word!r}", weight_of_word[word], "(0, inf)")
            for word in names
        ]
    )
    relative_weights = weights / weights.max()
    if not np.all(relative_weights.astype(np.float32) > 0):
        raise ValueError(
            f"class_weight must not differ beyond float32, got {show_value(weight_of_word)}"
        )
    return relative_weights


def _cells_of_length(name: str, values: RawColumn, num_rows: int) -> ColumnCells:
    """The cells of labels, weights or ids; ValueError unless it is a column of `num_rows` cells."""
    refuse_undeclared_dates(name, values, None)
    cells = column_cells(values, f"{name}: ")
    if len(cells) != num_rows:
        raise ValueError(f"{name} must have the same length as the columns")
    return cells


# Files of domains.


class DomainFile(NamedTuple):
    """The domain and the label that a file declares."""

    domain: Domain
    label: Label


def read_domain(path: str | Path, column_names: Iterable[Hashable] | None = None) -> DomainFile:
    """The domain and the label of a JSON file, UTF-8 text with or without a byte order mark.

    The file holds {"columns": {name: column, ...}, "label": {"column": ..., "positive": ...,
    "negative": ...}}. A column holds its "type" ("numeric", "nominal" or "boolean") and the
    attributes of that class by name. No name may occur twice in one object. The two words of a
    label may be lists of spellings, with "ignore_case" if capitals do not matter.

    A label of several classes holds {"column": ..., "type": "nominal", "values": [...]}, and one
    that is a number {"column": ..., "type": "numeric", "low": ..., "high": ...}. The file may also
    hold "weight": {"column": ..., "most": ...}, the weights of rows and the public bound on them,
    and "user": {"column": ..., "most": ...}, the ids of users and how many rows of each count, with
    "ignore_case" if capitals do not matter. And it may hold "names", a list. It holds nothing else.

    A name with a star, such as "x*" or "*", is a pattern. It declares all names that match it,
    except those of the label, the weights and the ids, and those that have a declaration of their
    own. Of several patterns that match, the first one counts. The columns are in the order of the
    names, which are public: those that the file lists as "names", or else
    `column_names`.

    Args:
        path: the file.
        column_names: public names of columns, such as a header, that patterns may cover.

    Raises:
        ValueError: naming the file and the reason; and for something that is not a path. Also for a
            pattern without names, or one that covers no name. Also for a pattern that covers names
            which are numbers and which the file does not list: where a header was forgotten, they
            are cells.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        declarations = _parse_declarations(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    domain = _columns_covered_by_patterns(path, declarations, column_names=column_names)
    return DomainFile(domain, declarations.label)


class _Declarations(NamedTuple):
    """What the file of a domain declares.

    Attributes:
        columns: the kind of each column, by its name or by a pattern of names.
        label: the label's column, and those of weights and of users.
        names: the names of columns that the file lists; None if it lists none.
    """

    columns: dict[str, Column]
    label: Label
    names: list[str] | None


def _parse_declarations(text: bytes) -> _Declarations:
    """The declarations in the text of a domain's file; ValueError with the reason for any other."""
    parsed = storage.parse_json(text, "the domain")
    content = parsed if isinstance(parsed, dict) else {}
    entries, label_entry = content.get("columns"), content.get("label")
    other_columns = {
        key: content[key] for key in ("weight", "user") if content.get(key) is not None
    }
    known_keys = {"columns", "label", *other_columns, *({"names"} & set(content))}
    if (
        not isinstance(entries, dict)
        or not isinstance(label_entry, dict)
        or set(content) != known_keys
    ):
        words = '"columns" and "label", and perhaps "weight", "user" and "names"'
        raise ValueError(f"expected an object with {words}")

    entry_name, columns = "", {}
    try:
        for name, entry in entries.items():
            entry_name = f"column {name!r}"
            columns[name] = column_of_entry(entry)
        check_domain(columns)
        entry_name = "label"
        if "type" in label_entry:
            target = {key: value for key, value in label_entry.items() if key != "column"}
            label_entry = {"column": label_entry.get("column"), "target": target}
        if {"weight", "user"} & set(label_entry):
            raise ValueError('"weight" and "user" stand beside "label", and not in it')
        label = msgspec.convert({**label_entry, **other_columns}, Label)
        entry_name = "names"
        names = msgspec.convert(content.get("names"), list[str] | None)
    except msgspec.ValidationError as error:
        raise ValueError(f"{entry_name}: {error}") from error
    for role, name in zip(("label", *other_columns), label.columns, strict=True):
        if name in columns:
            raise ValueError(f"the {role} {name!r} is among the columns")
    return _Declarations(columns, label, names)


def column_of_entry(entry: Any) -> Column:
    """The kind of column that an entry of a file declares.

    Raises:
        msgspec.ValidationError: a ValueError, for another entry; where its type is none, listing
            the kinds.
    """
    declared_type = entry.get("type") if isinstance(entry, dict) else None
    if declared_type not in tuple(COLUMN_TEMPLATES):
        got = f"its type is {show_value(declared_type)}"
        if not isinstance(entry, dict):
            got = f"it is {show_value(entry)}"
        elif "type" not in entry:
            got = "it has no type"
        elif entry == UNDECLARED_COLUMN:
            got = "its type is to be filled in"
        examples = "; ".join(json.dumps(example) for example in _EXAMPLES_OF_KINDS)
        raise msgspec.ValidationError(f"a column is one of these kinds, and {got}: {examples}")
    return msgspec.convert(entry, Column)  # type: ignore[arg-type]


_EXAMPLES_OF_KINDS = (
    {"type": "numeric", "low": 0, "high": 120},
    {"type": "nominal", "values": ["clerk", "smith"]},
    {"type": "boolean", "true": "yes", "false": "no"},
)
"""An entry of each kind, for errors."""


def _columns_covered_by_patterns(
    path: Path, declarations: _Declarations, *, column_names: Iterable[Hashable] | None
) -> Domain:
    """The domain of a file, with the columns that its patterns cover, in the order of the names.

    Args:
        path: the path of the file, for errors.
        declarations: the declarations of the file. No pattern covers the columns of its label.
        column_names: the names that the caller of `read_domain` knows. They are read only if the
            file has a pattern and lists no names.

    Raises:
        ValueError: for a pattern without names, or one that covers none.
    """
    columns, label, listed_names = declarations
    if listed_names is None and not any("*" in name for name in columns):
        return columns
    if listed_names is not None and len(set(listed_names)) < len(listed_names):
        raise ValueError(f'{path}: "names" must be distinct names of columns')
    candidates = listed_names or column_names
    names = [name for name in candidates or () if isinstance(name, str)]
    patterns = {
        name: re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)
        for name in columns
        if "*" in name and name not in names
    }
    if patterns and candidates is None:
        raise ValueError(
            f"{path}: column {next(iter(patterns))!r} is a pattern, and needs the names that it "
            'covers: a file with a header, or "names" beside "columns"'
        )
    domain, used = {}, set()
    for name in names:
        matching = [pattern for pattern, regex in patterns.items() if regex.fullmatch(name)]
        declared_as = name if name in columns else next(iter(matching), None)
        if declared_as is None or name in label.columns:
            continue
        if listed_names is None and declared_as in patterns and not math.isnan(read_number(name)):
            raise ValueError(
                f"{path}: column {declared_as!r} is a pattern that covers names that are numbers; "
                'is there a header line? If so, list the names as "names" in the file'
            )
        domain[name] = columns[declared_as]
        used.add(declared_as)
    if unused := [name for name in patterns if name not in used]:
        raise ValueError(
            f"{path}: column {unused[0]!r} is a pattern that covers none of the names; is there a "
            "header line, and what separates its fields?"
        )
    return {**domain, **{name: kind for name, kind in columns.items() if name not in patterns}}


UNDECLARED_COLUMN = {"type": "numeric, nominal or boolean?"}
"""The entry of a column whose kind is to be filled in. `read_domain` refuses it."""

_LABEL_TEMPLATES: dict[str, dict[str, Any]] = {
    "two": {"positive": None, "negative": None},
    "nominal": {"type": "nominal", "values": []},
    "numeric": {"type": "numeric", "low": None, "high": None},
}

LABEL_TYPES = tuple(_LABEL_TEMPLATES)
"""The types of a label: one of two classes, one of several classes, or a number."""

COLUMN_TEMPLATES: dict[str, dict[str, Any]] = {
    "numeric": {"type": "numeric", "low": None, "high": None},
    "nominal": {"type": "nominal", "values": []},
    "boolean": {"type": "boolean", "true": "1", "false": "0"},
}
"""The entry of a column of each kind, with the values that are to be filled in."""


def template(
    columns: Iterable[str] | Mapping[str, Mapping[str, Any]],
    label: str | None = None,
    label_type: str = "two",
    every: str | None = None,
    user: str | None = None,
) -> str:
    """A domain as JSON text, for you to fill in and save for `read_domain`.

    It holds the names of columns, and reads no value. Fill in the kind of each column, and its
    range or values, from what the column means. `read_domain` refuses a column that is left
    undeclared, by its name.

    Args:
        columns: the names of the columns, such as `files.column_names` or a data frame's `columns`.
            Or a mapping of them to declarations, in which some values may be null or empty.
        label: the name of the label's column, which is then no attribute.
        label_type: "two" classes, several ("nominal"), or a number ("numeric").
        every: "numeric", "nominal" or "boolean" for one declaration of all columns, whose names are
            listed beside it.
        user: the name of the column of ids of users, which is then no attribute.

    Raises:
        ValueError: for no columns, names that are not text or repeat, or a label or a user that is
            no column, or a label of another type.
    """
    check_choice("label_type", label_type, LABEL_TYPES)
    names = list(columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("names of columns must be text, and must not repeat")
    for role, name in (("label", label), ("user", user)):
        if name is not None and name not in names:
            raise ValueError(f"{role} must be one of the columns, got {name!r}")
    declarations = columns if isinstance(columns, Mapping) else {}
    entries = {
        name: declarations.get(name, UNDECLARED_COLUMN)
        for name in names
        if name not in (label, user)
    }
    if not entries:
        raise ValueError("a domain needs at least one column")
    beside: dict[str, Any] = {"label": {"column": label, **_LABEL_TEMPLATES[label_type]}}
    if user is not None:
        beside["user"] = {"column": user, "most": None}
    if every is not None:
        check_choice("every", every, tuple(COLUMN_TEMPLATES))
        return domain_file_text(
            {"columns": {"*": COLUMN_TEMPLATES[every]}, "names": list(entries), **beside}
        )
    return domain_file_text({"columns": entries, **beside})


def domain_file_text(content: Mapping[str, Any]) -> str:
    """The JSON text of a domain's file, with a line for each column.

    Args:
        content: the parsed content, as `read_domain` describes it.
    """
    text = functools.partial(json.dumps, ensure_ascii=False)
    columns = (f"    {text(name)}: {text(column)}" for name, column in content["columns"].items())
    rest = (f",\n  {text(key)}: {text(content[key])}" for key in content if key != "columns")
    return '{\n  "columns": {\n' + ",\n".join(columns) + "\n  }" + "".join(rest) + "\n}\n"
