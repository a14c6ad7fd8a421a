"""JSON files that declare a domain and a label, and templates of them to fill in.

Besides the columns, a file declares a label, and optionally weights and ids of users (`labels`).
"""

import codecs
import functools
import json
import math
import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dpbt.common import storage
from dpbt.common.validate import (
    as_path,
    check_choice,
    show_value,
)
from dpbt.data.cells import (
    read_number,
)
from dpbt.data.column_types import (
    Column,
)
from dpbt.data.column_types import Objective as Objective
from dpbt.data.encoding import Domain, check_domain
from dpbt.data.labels import Label
from dpbt.public_types import DeclaredDomain as DeclaredDomain


class DomainFile(NamedTuple):
    """The domain and the label that a JSON file declares."""

    domain: Domain
    label: Label


def read_domain(path: str | Path, column_names: Iterable[Hashable] | None = None) -> DomainFile:
    """Read the domain and the label that a JSON file declares.

    It is UTF-8 text with or without a byte order mark.

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
    """The content of a domain file: columns or patterns of them, label and names.

    Attributes:
        columns: the kind of each column, by its name or by a pattern of names.
        label: the label's column, and those of weights and of users.
        names: the names of columns that the file lists; None if it lists none.
    """

    columns: dict[str, Column]
    label: Label
    names: list[str] | None


def _parse_declarations(text: bytes) -> _Declarations:
    """Parse the text of a domain file.

    Raises:
        ValueError: with the reason, for text that declares no domain.
    """
    parsed = storage.parse_json(text, "the domain")
    content = parsed if isinstance(parsed, dict) else {}
    entries = content.get("columns")
    label_entry = content.get("label")
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

    entry_name = ""
    columns = {}
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
    """Make the kind of column that an entry of a domain file declares.

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
    """The domain of a file, where its patterns are replaced by the columns that they cover.

    The columns are in the order of the names.

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
    domain = {}
    used = set()
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
    """Write a domain file, as JSON text, for you to fill in.

    `read_domain` reads it once it is filled in and saved.

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
    """Write the content of a domain file as JSON text, with a line for each column.

    Args:
        content: the parsed content, as `read_domain` describes it.
    """
    text = functools.partial(json.dumps, ensure_ascii=False)
    columns = (f"    {text(name)}: {text(column)}" for name, column in content["columns"].items())
    rest = (f",\n  {text(key)}: {text(content[key])}" for key in content if key != "columns")
    return '{\n  "columns": {\n' + ",\n".join(columns) + "\n  }" + "".join(rest) + "\n}\n"
