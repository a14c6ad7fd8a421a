"""Public domains: the declared values of each column, stated before anyone looks at the rows.

A domain is an ordered mapping from column names to `Numeric`, `Nominal` or `Boolean`. It
defines the public splits as splits of bins. They are the predicates "column > threshold",
"column = value" and "column >= value". Nothing here is ever fitted from data.

`encode` reads each row on its own, cell by cell (`cells`). No cell raises an error: the declaration
determines the bin of a cell outside of it.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float32, UInt8

from dpbt.common.validate import (
    show_value,
)
from dpbt.data.cells import (
    ColumnCells,
    RawColumn,
    advice_for_lazy_data,
    column_cells,
    frame_column_names,
)
from dpbt.data.column_types import (
    Column,
    Numeric,
    Split,
    bin_positions_of_attributes,
)
from dpbt.data.date_checks import refuse_undeclared_dates
from dpbt.public_types import DeclaredDomain, Splits

Domain = Mapping[str, Column]
"""The declared columns by name; public."""


def check_domain(domain: object) -> None:
    """Refuse a domain that is no mapping from names to kinds of columns.

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
    """Convert a domain to the immutable form in which tables, recipes and models carry it.

    Raises:
        ValueError: as `check_domain`.
    """
    check_domain(domain)
    return domain if isinstance(domain, DeclaredDomain) else DeclaredDomain(domain.items())


def check_same_domain(first: Domain | None, second: Domain | None, owner: str, other: str) -> None:
    """Refuse two objects that have different domains.

    An object without a domain passes.

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
    """Describe the first difference of two domains; None if they are the same.

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
    """Describe the first attribute in which two columns differ, with both values."""
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
    """The public splits of all columns of a domain, with their words.

    They are in the order of `splits`.

    Raises:
        ValueError: as `check_domain`.
    """
    check_domain(domain)
    return [split for name, column in domain.items() for split in column.splits(name)]


Columns = Mapping[str, RawColumn]
"""Raw columns by name, of N cells each: a mapping or a data frame of what `cells.RawColumn` is."""


def encode(domain: Domain, columns: Columns) -> UInt8[np.ndarray, "N F"]:
    """u8[N, F]: the bin of each cell of raw rows, by the domain.

    There is one feature for each column of the domain.

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
    """The splits and attributes of the bins that `encode` returns, as arrays.

    They are in the order of `predicates`.

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
    """f32[N, A]: the exact position, in [0, 1], of each row in the range of each attribute.

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


def cells_by_column(domain: Domain, columns: Columns) -> dict[str, ColumnCells]:
    """The cells of the domain's columns, N each, by the name of the column.

    They are as `cells.column_cells` returns them.

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


def select_columns(columns: Columns, names: Iterable[Hashable], owner: str) -> dict[Any, RawColumn]:
    """The raw columns of these names, each found exactly once.

    They are in the order of the names. No other column is read.

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
