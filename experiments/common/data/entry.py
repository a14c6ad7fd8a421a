"""The entries of the registry, which `datasets.toml` declares.

A table of the file is a data set, with the attributes of `Entry` and `Layout` as its keys. `like`
takes all other keys from another data set. Numbers in braces, as in `band {1..60}`, stand for many
names, and so do words in braces. A column of the file has

- `[low, high]`, or `[low, high, "missing"]` where numbers can be missing;
- words, the values of a nominal column; or a table with `values` and `other`;
- `true` for a Boolean column, and `false` for a column that is not read;
- a table with `positive` and `negative`, the values of the label.
"""

import dataclasses
import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dpbt.data.domains import Boolean, Column, Domain, Nominal, Numeric
from experiments.common.data import unpack
from experiments.common.data.reading import Layout, libsvm_line_reader, separated_line_reader

UCI = "https://archive.ics.uci.edu"


@dataclasses.dataclass(frozen=True)
class File:
    """One file of a data set.

    Attributes:
        name: the file that is read, as its source calls it (after unpacking).
        sha256: SHA-256 of the file; "" if it is not known.
        url: the address of the file, or of the archive or workbook that holds it; "" if it cannot
            be downloaded. In `datasets.toml`, `uci` has its folder and name at the UCI repository.
        exact: whether the sha256 is known to be that of the source's file. If not, it is that of
            the registry's copy, and another download is kept, with a note, if it can be read.
        unpack: (download, file) -> None, for an archive or a workbook.
        download_sha256: SHA-256 of the archive or workbook; "" if it is not known.
        copies: name -> SHA-256 of other forms of the file that the folder may hold.
    """

    name: str
    sha256: str = ""
    url: str = ""
    exact: bool = True
    unpack: Callable[[Path, Path], object] | None = None
    download_sha256: str = ""
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def hashes(self) -> dict[str, str]:
        """Name -> SHA-256 of all forms of the file that the folder may hold, preferred first."""
        return {self.name: self.sha256, **self.copies}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A data set of the registry.

    Attributes:
        name: the data set's name.
        title: the source's title, with a note of what was left out.
        page: the source's page; in `datasets.toml` its address, or its number at UCI's repository.
        citation: the work to cite.
        files: the files whose rows make the data set, in order. If there are two, the second is the
            canonical test set.
        rows: the number of rows, N.
        rule: how the label is made binary, and why.
        domain: from the number of intervals of a numeric column to the public domain.
        layout: how the files hold the table.
        missing: how missing values are written, in words.
        licence: the licence that the source states.
        folder: the data set's folder.
        first: whether only the first N rows are read.
        note: what to know before comparing results.
        unavailable: why the data set cannot be downloaded, and what to do.
    """

    name: str
    title: str
    page: str
    citation: str
    files: tuple[File, ...]
    rows: int
    rule: str
    domain: Callable[[int], Domain]
    layout: Layout
    missing: str = "none"
    licence: str = "CC BY 4.0"
    folder: str = ""
    first: bool = False
    note: str = ""
    unavailable: str = ""


def read_entries() -> dict[str, Entry]:
    """Name -> entry, in the order of `datasets.toml`."""
    tables = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text())
    return {
        name: _read_entry(name, {**tables.get(table.pop("like", ""), {}), **table})
        for name, table in tables.items()
    }


def _read_entry(name: str, declared: dict[str, Any]) -> Entry:
    """The entry that a table of the file declares."""
    columns = {
        column: kind
        for pattern, kind in declared["columns"].items()
        for column in expand_pattern(pattern)
    }
    layout = _read_layout(columns, declared)
    if isinstance(declared["page"], int):
        declared["page"] = f"{UCI}/dataset/{declared['page']}"
    fields = [field.name for field in dataclasses.fields(Entry)]
    values = {key: declared[key] for key in fields if key in declared}
    values |= {"name": name, "folder": declared.get("folder", name)}
    values["files"] = tuple(_read_file(file, layout.names) for file in declared["files"])
    return Entry(**values, domain=partial(_domain_of_columns, columns), layout=layout)


def _read_layout(columns: Mapping[str, Any], declared: Mapping[str, Any]) -> Layout:
    """How the files hold the columns; lines have commas, a separator, or LIBSVM's form."""
    (label,) = (name for name, kind in columns.items() if _is_label(kind))
    kind = columns[label]
    classes = dict.fromkeys(_expand_words(kind["positive"]), True)
    classes |= dict.fromkeys(_expand_words(kind["negative"]), False)
    separator, remark = declared.get("separator", ",").strip(), declared.get("remark", "")
    is_libsvm = declared.get("libsvm")
    return Layout(
        tuple(columns),
        label,
        classes,
        libsvm_line_reader(len(columns) - 1)
        if is_libsvm
        else separated_line_reader(separator or None, remark),
        header=declared.get("header", False),
        comments=tuple(declared.get("comments", ())),
        missing=declared.get("missing_cell", "?"),
        missing_numbers=tuple(declared.get("missing_numbers", ())),
    )


def _read_file(declared: Mapping[str, Any], names: Sequence[str]) -> File:
    """The file that a table declares; `names` are the columns of the layout."""
    values = {key: value for key, value in declared.items() if key not in ("uci", "unpack")}
    if "uci" in declared:
        values.setdefault("name", declared["uci"].rpartition("/")[2])
        values["url"] = f"{UCI}/ml/machine-learning-databases/{quote(declared['uci'])}"
    if "unpack" in declared:
        options = dict(declared["unpack"])
        by = options.pop("by")
        if by == "convert_workbook":
            options["names"] = names
        values["unpack"] = partial(getattr(unpack, by), **options)
    return File(**values)


def _domain_of_columns(columns: Mapping[str, Any], bins: int) -> Domain:
    domain = {
        name: _read_column(kind, bins) for name, kind in columns.items() if not _is_label(kind)
    }
    return {name: column for name, column in domain.items() if column is not None}


def _is_label(kind: Any) -> bool:
    return isinstance(kind, dict) and "positive" in kind


def _read_column(kind: Any, bins: int) -> Column | None:
    """The column of the domain that a kind declares, or None if it is not read."""
    match kind:
        case bool():
            return Boolean() if kind else None
        case [low, high, *missing]:
            return Numeric(float(low), float(high), bins, bool(missing))
        case {"values": values, "other": other}:
            return Nominal(_expand_words(values), other=other)
        case _:
            return Nominal(_expand_words(kind))


def _expand_words(text: str) -> tuple[str, ...]:
    return tuple(word for pattern in text.split() for word in expand_pattern(pattern))


def expand_pattern(pattern: str) -> list[str]:
    """The names that a pattern stands for, such as "band {1..60}" or "{left,right} ear"."""
    choices: list[Iterable[str]] = []
    for piece in re.split(r"(\{.*?\})", pattern):
        words = piece.strip("{}")
        first, dots, last = words.partition("..")
        if not piece.startswith("{"):
            choices.append([piece])
        elif dots:
            choices.append(map(str, range(int(first), int(last) + 1)))
        else:
            choices.append(words.split(","))
    return ["".join(pieces) for pieces in itertools.product(*choices)]
