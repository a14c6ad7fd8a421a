"""Public domains: what each column may hold, declared before anyone looks at the rows.

A domain is an ordered mapping from column names to `Numeric`, `Nominal` or `Boolean` (`kinds`). It
defines the public splits as splits of bins. They are the predicates "column > threshold",
"column = value" and "column >= value". Nothing here is ever fitted from data.

Encoding is a map of each row alone, cell by cell as `cells` says. It never raises an error on a
cell: what lies outside the declaration has a declared place.
"""

import codecs
import functools
import json
import math
import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dpbt.common import storage
from dpbt.common.public import Splits
from dpbt.common.validate import as_path, one_of
from dpbt.data.cells import ColumnCells, RawColumn, cells_of, number
from dpbt.data.kinds import Boolean as Boolean
from dpbt.data.kinds import Column, Split, positions_of
from dpbt.data.kinds import Nominal as Nominal
from dpbt.data.kinds import Numeric as Numeric
from dpbt.data.kinds import Objective as Objective
from dpbt.data.labels import Label as Label
from dpbt.data.labels import UserColumn as UserColumn
from dpbt.data.labels import WeightColumn as WeightColumn

Domain = Mapping[str, Column]
"""The public columns by name."""


def check(domain: object) -> None:
    """Check that a domain is a mapping from names to kinds of columns.

    Raises:
        ValueError: if it is something else or has no column. What a column holds is not shown.
    """
    if not isinstance(domain, Mapping) or not domain:
        raise ValueError(
            "a domain must map column names to Numeric, Nominal or Boolean, and have at least one "
            f"column, got {type(domain).__name__}"
        )
    for name, kind in domain.items():
        if not isinstance(kind, Column):  # it may be private, if domain and columns were exchanged
            given = type(kind).__name__
            raise ValueError(f"column {name!r} must be Numeric, Nominal or Boolean, got {given}")


def predicates(domain: Domain) -> list[Split]:
    """The public splits of a domain, in the order of `splits`.

    Raises:
        ValueError: as `check`.
    """
    check(domain)
    return [split for name, column in domain.items() for split in column.splits(name)]


Columns = Mapping[str, RawColumn]
"""Raw columns by name, of N cells each, as `cells.cells_of` takes them."""


def encode(domain: Domain, columns: Columns) -> np.ndarray:
    """u8[N, F]: the public bin that each value lies in, one feature for each column of the domain.

    Row n is a function of the cells of row n alone, so no row changes how another is encoded.
    `splits` has the splits and attributes of the result.

    Args:
        domain: the public domain.
        columns: for every column of the domain N cells of any kind: a sequence, a NumPy array, a
            pandas Series, or an Arrow array. `cells` says how each cell is read. Columns that the
            domain does not name are not read.

    Raises:
        ValueError: if a column is missing or is no column, if lengths differ, and as `check`. No
            cell is an error.
    """
    read = read_columns(domain, columns)
    return np.stack([kind.read(read[name])[0] for name, kind in domain.items()], axis=1)


def splits(domain: Domain) -> Splits:
    """What is asked of the bins that `encode` gives: the splits in the order of `predicates`.

    The position of a number is the share of the column's thresholds that it exceeds. So a threshold
    t uniform in [0, 1) on "position > t" is uniform over the declared thresholds. The position of a
    bin of an ordered nominal column is likewise its place among the bins.

    Raises:
        ValueError: as `check`.
    """
    check(domain)
    splits, attributes = [], []
    for feature, kind in enumerate(domain.values()):
        splits += [(feature, split.low, split.high) for split in kind.splits("")]
        attributes += [(feature, position) for position in positions_of(kind)]

    of_split, low, high = zip(*splits, strict=True)
    of_attribute, position = zip(*attributes, strict=True)
    return Splits(
        feature=np.array(of_split, np.int32),
        low=np.array(low, np.uint8),
        high=np.array(high, np.uint8),
        attribute=np.array(of_attribute, np.int32),
        position=np.stack(position),
    )


def positions(domain: Domain, columns: Columns) -> np.ndarray:
    """f32[N, A]: where each row lies exactly in the public range of each attribute, in [0, 1].

    A threshold t uniform in [0, 1) on "position > t" is uniform in the attribute's range. The
    position of a Boolean is the Boolean itself. The position of a number is linear in the number,
    whatever its cuts or scale. (`splits` has the same attributes with numbers on the declared
    grid.)

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
    read = read_columns(domain, columns)
    blocks = []
    for name, kind in domain.items():
        block = np.stack(positions_of(kind), axis=1)[kind.read(read[name])[0]]
        if isinstance(kind, Numeric):
            block[:, 0] = kind.position(read[name])[0]
        blocks.append(block)
    return np.concatenate(blocks, axis=1)


def read_columns(domain: Domain, columns: Columns) -> dict[str, ColumnCells]:
    """The cells of the domain's columns, N each, as `cells.cells_of` gives them.

    Raises:
        ValueError: as `encode`. The number of rows is in no message.
    """
    check(domain)
    if not hasattr(columns, "keys") or not hasattr(columns, "__getitem__"):
        raise ValueError(f"columns must map names to cells, got {type(columns).__name__}")

    absent = [name for name in domain if name not in columns]
    if absent:
        raise ValueError(f"the data lacks columns {absent} of the domain")
    read = {name: cells_of(columns[name], f"column {name!r}: ") for name in domain}
    first = next(iter(domain))
    unlike = [name for name in domain if len(read[name]) != len(read[first])]
    if unlike:
        raise ValueError(f"columns must have the same length; {unlike} differ from {first!r}")
    return read


Names = tuple[Hashable, ...]


def names_of(frame: Any) -> Names | None:
    """The names of the columns of a data frame or an Arrow table; None for what is neither."""
    if isinstance(frame, np.ndarray | Mapping) or not hasattr(frame, "__getitem__"):
        return None
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    return None if names is None or callable(names) else tuple(names)


def read_domain(path: str | Path, names: Iterable[Hashable] | None = None) -> tuple[Domain, Label]:
    """A domain and its label from a JSON file, UTF-8 text with or without a byte order mark.

    The file holds {"columns": {name: column, ...}, "label": {"column": ..., "positive": ...,
    "negative": ...}}. A column holds its "type" ("numeric", "nominal" or "boolean") and the
    attributes of that class by name. No name may occur twice in one object.

    A label of several classes holds {"column": ..., "type": "nominal", "values": [...]}, and one
    that is a number {"column": ..., "type": "numeric", "low": ..., "high": ...}. The file may also
    hold "weight": {"column": ..., "most": ...}, the weights of rows and the public bound on them,
    and "user": {"column": ..., "most": ...}, the ids of users and how many rows of each count, with
    "ignore_case" if capitals do not matter. And it may hold "names", a list. It holds nothing else.

    A name with a star, such as "x*" or "*", is a pattern. It stands for all names that fit it, but
    for those of the label, the weights and the ids, and those that are declared themselves. The
    first pattern that fits counts. The columns are in the order of the names, which are public:
    those that the file lists as "names", or else `names`.

    Args:
        path: the file.
        names: public names of columns, such as a header, that patterns may cover.

    Raises:
        ValueError: naming the file and what is wrong; and for something that is no path. Also for a
            pattern without names, or that covers none. Also for one that covers numbers which the
            file does not list: where a header was forgotten, they are cells.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        content = storage.parse(text, "the domain")
        given = content if isinstance(content, dict) else {}
        columns, entry, listed = map(given.get, ("columns", "label", "names"))
        beside = {name: given[name] for name in ("weight", "user") if given.get(name) is not None}
        known = {"columns", "label", *beside, *(key for key in ("names",) if key in given)}
        if not isinstance(columns, dict) or not isinstance(entry, dict) or set(given) != known:
            words = '"columns" and "label", and perhaps "weight", "user" and "names"'
            raise ValueError(f"expected an object with {words}")

        place, domain = "", {}
        try:
            for name, column in columns.items():
                place = f"column {name!r}"
                domain[name] = msgspec.convert(column, Column)  # type: ignore[arg-type]
            check(domain)
            if "type" in entry:
                target = {name: value for name, value in entry.items() if name != "column"}
                entry = {"column": entry.get("column"), "target": target}
            place = "label"
            if {"weight", "user"} & set(entry):
                raise ValueError('"weight" and "user" stand beside "label", and not in it')
            label = msgspec.convert({**entry, **beside}, Label)
            place = "names"
            listed = msgspec.convert(listed, list[str] | None)
        except msgspec.ValidationError as error:
            raise ValueError(f"{place}: {error}") from error
        for what, column in zip(("label", *beside), label.columns, strict=True):
            if column in domain:
                raise ValueError(f"the {what} {column!r} is among the columns")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return _covered(path, domain, label, listed, names), label


def _covered(
    path: Path,
    domain: Domain,
    label: Label,
    listed: Iterable[str] | None,
    names: Iterable[Hashable] | None,
) -> Domain:
    """A domain of a file with the columns that its patterns cover, in the order of the names.

    Args:
        path: of the file.
        domain: kinds by names and patterns.
        label: whose columns no pattern covers.
        listed: the names that the file lists.
        names: those of its reader, if it lists none; they are read only if there is a pattern.

    Raises:
        ValueError: for a pattern without names, or one that covers none.
    """
    if listed is None and not any("*" in name for name in domain):
        return domain
    told = listed or names
    known = [name for name in told or () if isinstance(name, str)]
    wild = {
        name: re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)
        for name in domain
        if "*" in name and name not in known
    }
    if wild and told is None:
        raise ValueError(
            f"{path}: column {next(iter(wild))!r} is a pattern, and needs the names that it "
            'covers: a file with a header, or "names" beside "columns"'
        )
    found, covering = {}, set()
    for name in known:
        covers = [pattern for pattern, words in wild.items() if words.fullmatch(name)]
        by = name if name in domain else next(iter(covers), None)
        if by is None or name in label.columns:
            continue
        if listed is None and by in wild and not math.isnan(number(name)):
            raise ValueError(
                f"{path}: column {by!r} is a pattern that covers names that are numbers; is there "
                'a header line? If so, list the names as "names" in the file'
            )
        found[name] = domain[by]
        covering.add(by)
    if idle := [name for name in wild if name not in covering]:
        raise ValueError(
            f"{path}: column {idle[0]!r} is a pattern that covers none of the names; is there a "
            "header line, and what separates its fields?"
        )
    return {**found, **{name: kind for name, kind in domain.items() if name not in wild}}


OPEN = {"type": "numeric, nominal or boolean?"}
"""Stands for a kind that is to be filled in; no file with it is read as a domain."""

_LABELS: dict[str, dict[str, Any]] = {
    "two": {"positive": None, "negative": None},
    "nominal": {"type": "nominal", "values": []},
    "numeric": {"type": "numeric", "low": None, "high": None},
}

LABEL_TYPES = tuple(_LABELS)
"""What a label may be: one of two classes, one of several, or a number."""

KINDS: dict[str, dict[str, Any]] = {
    "numeric": {"type": "numeric", "low": None, "high": None},
    "nominal": {"type": "nominal", "values": []},
    "boolean": {"type": "boolean", "true": "1", "false": "0"},
}
"""What of each kind is to be filled in."""


def template(
    columns: Iterable[str] | Mapping[str, Mapping[str, Any]],
    label: str | None = None,
    label_type: str = "two",
    every: str | None = None,
    user: str | None = None,
) -> str:
    """A domain as JSON text to fill in and save, for `read_domain`.

    It holds the names of columns, and no value is ever read. What a column may hold is for you to
    fill in from what it means: its kind and its range or values. `read_domain` refuses what is left
    open, by the name of the column.

    Args:
        columns: the names of the columns, such as `files.names_of` or a data frame's `columns`. Or
            what is known of each by its name, as `schemas.columns_of` has it.
        label: the name of the label's column, which is then no attribute.
        label_type: "two" classes, several ("nominal"), or a number ("numeric").
        every: "numeric", "nominal" or "boolean" for one declaration of all columns, whose names are
            listed beside it.
        user: the name of the column of ids of users, which is then no attribute.

    Raises:
        ValueError: for no columns, names that are no text or repeat, or a label or a user that is
            no column, or a label of another type.
    """
    one_of("label_type", label_type, LABEL_TYPES)
    names = list(columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("names of columns must be text, and must not repeat")
    for what, name in (("label", label), ("user", user)):
        if name is not None and name not in names:
            raise ValueError(f"{what} must be one of the columns, got {name!r}")
    known = columns if isinstance(columns, Mapping) else {}
    content = {name: known.get(name, OPEN) for name in names if name not in (label, user)}
    if not content:
        raise ValueError("a domain needs at least one column")
    entry: dict[str, Any] = {"label": {"column": label, **_LABELS[label_type]}}
    if user is not None:
        entry["user"] = {"column": user, "most": None}
    if every is not None:
        one_of("every", every, tuple(KINDS))
        return written({"columns": {"*": KINDS[every]}, "names": list(content), **entry})
    return written({"columns": content, **entry})


def written(content: Mapping[str, Any]) -> str:
    """The text of a domain's file: a line for each column."""
    text = functools.partial(json.dumps, ensure_ascii=False)
    columns = (f"    {text(name)}: {text(column)}" for name, column in content["columns"].items())
    rest = (f",\n  {text(key)}: {text(content[key])}" for key in content if key != "columns")
    return '{\n  "columns": {\n' + ",\n".join(columns) + "\n  }" + "".join(rest) + "\n}\n"
