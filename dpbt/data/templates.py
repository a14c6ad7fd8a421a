"""A domain to fill in, written from the names of columns and never from what they hold."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpbt.common.validate import one_of
from dpbt.data.frames import names_of

_ANY = "numeric, nominal or boolean?"
"""Stands for a kind that nothing declares; no file with it is read as a domain."""

_OF_KIND: dict[str, dict[str, Any]] = {
    "numeric": {"type": "numeric", "low": None, "high": None, "bins": 64},
    "nominal": {"type": "nominal", "values": []},
    "boolean": {"type": "boolean"},
    "unknown": {"type": _ANY},
}

_LABELS: dict[str, dict[str, Any]] = {
    "two": {"positive": None, "negative": None},
    "nominal": {"type": "nominal", "values": []},
    "numeric": {"type": "numeric", "low": None, "high": None},
}

LABEL_TYPES = tuple(_LABELS)
"""What a label may be: one of two classes, one of several, or a number."""

_TYPES = re.compile(
    r"(?P<boolean>bool$)|(?P<numeric>u?int[0-9]|(half)?float|double|decimal)"
    r"|(?P<nominal>(large_)?string$|string_view$|dictionary<values=(large_)?string)"
)
"""The kinds that Arrow types declare, by their names."""

DECLARE_TYPES = (".parquet", ".arrow", ".feather")
"""The ends of the names of files that declare types."""


def template(columns: Any, label: str | None = None, label_type: str = "two") -> str:
    """A domain as JSON text to fill in and save, for `read_domain`.

    It holds names, and kinds where a schema declares them: those of an Arrow schema, or of a
    Parquet or Arrow file, which pyarrow reads. No value is ever read. What a column may hold is for
    you to fill in from what it means: `null`, empty lists and open kinds. `read_domain` refuses
    them, by the name of the column, until they are filled in.

    Args:
        columns: the names, an Arrow schema, or the path of a Parquet or Arrow file. Of a data
            frame or an Arrow table only the names are read, because such types may have been
            guessed from values.
        label: the name of the label's column, which is then no attribute.
        label_type: "two" classes, several ("nominal"), or a number ("numeric").

    Raises:
        ValueError: for no columns, names that are no text or repeat, a label that is no column or
            of another type, or another file.
        ImportError: for a file, if pyarrow is not installed.
    """
    one_of("label_type", label_type, LABEL_TYPES)
    kinds = _kinds(columns)
    if label is not None and kinds.pop(label, None) is None:
        raise ValueError(f"label must be one of the columns, got {label!r}")
    if not kinds:
        raise ValueError("a domain needs at least one column")

    entries = {name: _OF_KIND[kind] for name, kind in kinds.items()}
    stated = {"column": label, **_LABELS[label_type]}
    lines = [f"    {_text(name)}: {_text(entry)}" for name, entry in entries.items()]
    return '{\n  "columns": {\n' + ",\n".join(lines) + f'\n  }},\n  "label": {_text(stated)}\n}}\n'


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _kinds(columns: Any) -> dict[str, str]:
    """The name of each column, and its declared kind.

    Raises:
        ValueError: as `template`.
    """
    if isinstance(columns, str | os.PathLike):
        columns = _schema(Path(columns))
    if hasattr(columns, "names") and hasattr(columns, "types"):
        pairs = list(zip(columns.names, map(_kind, columns.types), strict=True))
    else:
        named = names_of(columns) or columns
        if not isinstance(named, Iterable):
            raise ValueError(f"columns must be names of columns, got {type(columns).__name__}")
        pairs = [(name, "unknown") for name in named]

    for name, _ in pairs:
        if not isinstance(name, str):
            raise ValueError(f"names of columns must be text, got {type(name).__name__}")
    if len(dict(pairs)) < len(pairs):
        raise ValueError("names of columns must not repeat")
    return dict(pairs)


def _kind(declared: Any) -> str:
    """The kind that an Arrow type declares."""
    found = re.match(_TYPES, str(declared))
    return "unknown" if found is None or found.lastgroup is None else found.lastgroup


def _schema(path: Path) -> Any:
    """The Arrow schema that a file declares.

    Raises:
        ValueError: for a file without a schema.
        ImportError: if pyarrow is not installed.
    """
    form = path.suffix.lower()
    if form not in DECLARE_TYPES:
        raise ValueError(
            f"{path}: only Parquet and Arrow files declare types ({', '.join(DECLARE_TYPES)}); "
            "give the names of the columns instead"
        )
    try:
        from pyarrow import dataset  # type: ignore[import-not-found]
    except ImportError:
        raise ImportError(
            "reading the schema of a file needs pyarrow: pip install 'dpbt[parquet]'; or give the "
            "names of the columns"
        ) from None
    try:
        return dataset.dataset(str(path), format=form.removeprefix(".")).schema
    except ValueError as error:  # pyarrow's errors of broken files
        raise ValueError(f"{path}: no schema can be read: {error}") from None
