"""What a schema says of columns: their names, kinds and ranges, which were declared beforehand.

Nothing here follows from rows. Of a Parquet file the names and types are read. Of a Table Schema
(Frictionless) the fields and their constraints are, also within a Data Package.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpbt.common import storage
from dpbt.common.validate import as_path
from dpbt.data import files
from dpbt.data.domains import KINDS


class Schema(NamedTuple):
    """The columns of a schema.

    Attributes:
        columns: what is known of each column, with null or nothing for what is to be filled in.
        left_out: the columns of which no cell would be read, such as dates, with their types.
    """

    columns: dict[str, dict[str, Any]]
    left_out: dict[str, str]


def columns_of(path: str | Path) -> Schema:
    """The columns of a Parquet file, or of a Table Schema in JSON, for `domains.template`.

    Raises:
        ValueError: for a file that is neither.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    if path.suffix.lower() == ".parquet":
        fields = {name: (kind, {}) for name, kind in files.types_of(path).items()}
    else:
        fields = _fields(path)
    columns, left_out = {}, {}
    for name, (kind, more) in fields.items():
        if files.is_unread(kind):
            left_out[name] = kind
        else:
            columns[name] = _column(kind, more)
    return Schema(columns, left_out)


_ARROW = {"bool": "boolean", "string": "nominal", "large_string": "nominal", "binary": "nominal"}
_NUMBERS = "int", "uint", "half", "float", "double", "decimal", "number", "year"


def _column(kind: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration of a column of a type, as far as it is stated."""
    stated = more.get("constraints") or {}
    if "enum" in stated:
        return {**KINDS["nominal"], "values": stated["enum"]}
    if kind.startswith(_NUMBERS):
        ends = {"low": stated.get("minimum"), "high": stated.get("maximum")}
        return {**KINDS["numeric"], **ends}
    if kind == "boolean":  # one word for each, of several that the schema may list
        words = {"true": "trueValues", "false": "falseValues"}
        return {"type": kind, **{word: (more.get(key) or [word])[0] for word, key in words.items()}}
    return dict(KINDS[_ARROW.get(kind, "nominal")])


def _fields(path: Path) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """(type, all that is stated) of each field of a Table Schema.

    Raises:
        ValueError: for what is none.
    """
    try:
        content = storage.parse(path.read_bytes(), "the schema")
        if "resources" in content:
            content = content["resources"][0]["schema"]
        return {each["name"]: (str(each.get("type", "string")), each) for each in content["fields"]}
    except (ValueError, TypeError, LookupError, AttributeError):
        raise ValueError(
            f"{path}: no Parquet file and no Table Schema, a JSON object with fields"
        ) from None
