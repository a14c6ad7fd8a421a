"""Write a domain: a file to fill in, or one by answers to questions.

Of a file of rows the names of columns are read, and nothing else. A schema says more: their kinds
and ranges, which were declared beforehand. Of a Parquet file it is the types. Of a Table Schema
(Frictionless) it is the fields and their constraints, also within a Data Package.
"""

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dpbt.common import storage
from dpbt.common.storage import write_whole
from dpbt.data import domains, files
from dpbt.data.cells import number
from dpbt.data.domains import COLUMN_TEMPLATES, Label
from dpbt.data.kinds import Column
from dpbt.owners.cli import shared
from dpbt.owners.cli.shared import ROWS, InputError, command, of_input, option, out

SOURCE = (
    option("file ROWS", f"{ROWS}, of which the names of columns are read", nargs="?"),
    option("--from-schema FILE", "a Parquet file, or a Table Schema in JSON, in place of rows"),
    *shared.FORM,
)


@command(
    *SOURCE,
    option("--label NAME", "the column of the label"),
    option(
        "--label-type TYPE",
        "one of %(choices)s (%(default)s)",
        choices=domains.LABEL_TYPES,
        default="two",
    ),
    option("--user NAME", "the column of ids that say whose a row is, to limit rows per user"),
    option(
        "--all KIND",
        "one declaration of all columns: %(choices)s",
        choices=domains.COLUMN_TEMPLATES,
    ),
    *out("the file of the domain, in place of standard output"),
)
def template(options: argparse.Namespace) -> None:
    """Write a domain to fill in, from the names of columns.

    Of a file only the names of its columns are read, in the header of CSV, and of Parquet also the
    types in its schema. No value is read: kinds, ranges and categories are for you to fill in from
    what the columns mean. A Table Schema has declared some of them.
    """
    path = None if options.out is None else shared.path_to_write(options)
    columns = columns_of(options, options.label)
    with of_input():
        stated = options.label, options.label_type, options.all, options.user
        text = domains.template(columns, *stated)
    if path is None:
        sys.stdout.write(text)
        return
    write_whole(path, lambda part: part.write_bytes(text.encode()))
    print(f"wrote {path}; fill in what is null, empty or open")


def columns_of(
    options: argparse.Namespace, label: str | None = None, sure: bool = False
) -> dict[str, dict]:
    """What is known of the columns of a file of rows or of a schema, by their names.

    Args:
        options: of `SOURCE`.
        label: a name that is surely in a header.
        sure: whether the owner is asked about the header.

    Raises:
        InputError: for what is none, and for names that look like the cells of a row.
        OSError: if a file cannot be read.
    """
    if (options.file is None) == (options.from_schema is None):
        raise InputError("give either a file of rows or --from-schema")
    path = options.file or options.from_schema
    with of_input():
        if options.from_schema or path.lower().endswith(".parquet"):
            return _of_schema(Path(path))
        names = [*shared.names_in(options)]
    odd = any(not name or not math.isnan(number(name)) for name in names)
    if odd and not sure and options.no_header is None and label not in names:
        raise InputError(
            f"{path}, line 1: some names are numbers or empty; is there a header line? Else give "
            "the names by --no-header NAMES, or show by --label NAME that this is one"
        )
    return dict.fromkeys(names, domains.UNDECLARED_COLUMN)


# What a schema says.


def _of_schema(path: Path) -> dict[str, dict[str, Any]]:
    """The columns of a Parquet file, or of a Table Schema in JSON, and what to fill in of each.

    Columns of which no cell would be read, such as dates, are left out, and standard error says so.

    Raises:
        ValueError: for a file that is neither.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if the file cannot be read.
    """
    if path.suffix.lower() == ".parquet":
        fields = {name: (kind, {}) for name, kind in files.column_types(path).items()}
    else:
        fields = _fields(path)
    columns = {}
    for name, (kind, more) in fields.items():
        if files.is_unread_type(kind):
            print(f"left out: {name}, of type {kind}: no cell is read", file=sys.stderr)
        else:
            columns[name] = _declared(kind, more)
    return columns


_ARROW = {"bool": "boolean", "string": "nominal", "large_string": "nominal", "binary": "nominal"}
_NUMBERS = "int", "uint", "half", "float", "double", "decimal", "number", "year"


def _declared(kind: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration of a column of a type, as far as it is stated."""
    stated = more.get("constraints") or {}
    if "enum" in stated:
        return {**COLUMN_TEMPLATES["nominal"], "values": stated["enum"]}
    if kind.startswith(_NUMBERS):
        ends = {"low": stated.get("minimum"), "high": stated.get("maximum")}
        return {**COLUMN_TEMPLATES["numeric"], **ends}
    if kind == "boolean":  # one word for each, of several that the schema may list
        words = {"true": "trueValues", "false": "falseValues"}
        return {"type": kind, **{word: (more.get(key) or [word])[0] for word, key in words.items()}}
    return dict(COLUMN_TEMPLATES[_ARROW.get(kind, "nominal")])


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


# Questions.


_PUBLIC = """A domain says what each column may hold. It is public: whoever gets the model may read
it. Answer from what the columns mean, as a form or a code book says it, and never from the rows:
a range or a list that was read off them is a release, which no ledger covers.
"""

T = TypeVar("T")


def _ask(question: str, read: Callable[[str], T]) -> T:
    """The answer to a question, which is asked until it can be read.

    Raises:
        InputError: if there is no more answer.
    """
    while True:
        print(question, end=" ", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise InputError("stopped; nothing was written")
        try:
            return read(line.strip())
        except (ValueError, LookupError) as error:
            reason = str(error) if isinstance(error, ValueError) else "one of the answers, please"
            print(f"  {reason}")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _two(text: str) -> list[str]:
    """Two answers, with a comma or a blank between them."""
    words = _words(text) if "," in text else text.split()
    if len(words) != 2:
        raise ValueError("two answers, please, with a comma between them")
    return words


def _range(text: str) -> dict[str, Any]:
    low, high = (int(word) if word.lstrip("-").isdigit() else float(word) for word in _two(text))
    return {"type": "numeric", "low": low, "high": high}


def _truths(text: str) -> dict[str, Any]:
    true, false = _two(text or "1 0")
    return {"type": "boolean", "true": true, "false": false}


_KINDS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "n": ("  the lowest and the highest number that it may be, such as 0 100:", _range),
    "c": (
        "  the values, with commas between them:",
        lambda text: {"type": "nominal", "values": _words(text)},
    ),
    "b": ("  the words for true and for false [1 0]:", _truths),
}


def _column(name: str, known: Any, last: Any) -> tuple[str, Any]:
    """(answer, declaration) of one column; None for one that is not read."""
    hint = f", a schema says {known['type']}" if known != domains.UNDECLARED_COLUMN else ""
    again = ", =: as the last one, *: all others as the last one" if last else ""
    question = f"{name!r}{hint} (n: number, c: categories, b: Boolean, s: skip{again})?"
    answer = _ask(question, _one_of((*_KINDS, "s", *("=*" if last else ""))))
    if answer not in _KINDS:
        return answer, None if answer == "s" else last

    words, read = _KINDS[answer]

    def checked(text: str) -> dict[str, Any]:
        column = read(text)
        msgspec.convert(column, Column)  # type: ignore[arg-type]
        return column

    return answer, _ask(words, checked)


def _label(names: list[str]) -> dict[str, Any]:
    """What is predicted."""
    column = _ask(f"Which column is predicted, of {', '.join(names)}?", _one_of(names))

    def two(text: str) -> dict[str, Any]:
        return dict(zip(("positive", "negative"), _two(text), strict=True))

    asked = {
        "2": ("  the words of the positive and of the negative class:", two),
        "c": _KINDS["c"],
        "n": _KINDS["n"],
    }
    words, read = asked[
        _ask("Is it one of 2 classes, of several (c), or a number (n)?", _one_of(asked))
    ]

    def checked(text: str) -> dict[str, Any]:
        entry = read(text)
        target = {"target": entry} if "type" in entry else entry
        msgspec.convert({"column": column, **target}, Label)
        return {"column": column, **entry}

    return _ask(words, checked)


def _one_of(known: Any) -> Callable[[str], str]:
    return {each: each for each in known}.__getitem__


@command(*SOURCE, *out("the file of the domain", required=True))
def new(options: argparse.Namespace) -> None:
    """Write a domain by answers to questions, one column after the other.

    The names of columns are those of a header or of a schema. They are shown, so this needs a
    terminal. Everything that you answer is public. `template` writes a file to fill in instead.
    """
    if not shared.is_terminal(sys.stdin, sys.stdout):
        raise InputError("new asks on a terminal alone; `dpbt domain template` needs none")
    path, columns = shared.path_to_write(options), columns_of(options, sure=True)
    print(_PUBLIC)
    if options.from_schema is None and options.no_header is None:
        print(f"The names: {', '.join(map(repr, columns))}")
        if _ask("Are these names, and no values of a row (y, n)?", _one_of("yn")) == "n":
            raise InputError("stopped; give the names of the columns by --no-header NAMES")
    label = _label(list(columns))
    declared: dict[str, Any] = {}
    last, answer = None, ""
    for name, known in columns.items():
        if name == label["column"]:
            continue
        if answer != "*":
            answer, found = _column(name, known, last)
            last = found or last
        if answer != "s":
            declared[name] = last
    if not declared:
        raise InputError("stopped; a domain needs at least one column")
    text = domains.domain_file_text({"columns": declared, "label": label})
    write_whole(path, lambda part: part.write_bytes(text.encode()))
    print(f"wrote {path}; `dpbt check ROWS --domain {path}` shows you how it reads the rows")


PROGRAMS = {"template": template, "new": new}
