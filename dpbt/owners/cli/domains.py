"""Write a domain: a file to fill in, or one by answers to questions.

From a file of rows the commands read only the names of the columns. A schema states more: the kinds
and ranges that were declared beforehand. The schema of a Parquet file states types. A Table Schema
(Frictionless) states fields and their constraints, also within a Data Package.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from dpbt.common import storage
from dpbt.common.storage import write_atomically
from dpbt.data import domains, files
from dpbt.data.cells import read_number
from dpbt.data.domains import COLUMN_TEMPLATES, Label
from dpbt.data.kinds import Column
from dpbt.owners.cli import inputs, outputs
from dpbt.owners.cli.inputs import ROWS_HELP
from dpbt.owners.cli.outputs import output_options
from dpbt.owners.cli.parsing import InputError, as_command, as_input_error, option

SOURCE_OPTIONS = (
    option("file ROWS", f"{ROWS_HELP}, of which the names of columns are read", nargs="?"),
    option("--from-schema FILE", "a Parquet file, or a Table Schema in JSON, instead of rows"),
    *inputs.FORM_OPTIONS,
)


@as_command(
    *SOURCE_OPTIONS,
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
    *output_options("the file of the domain, instead of standard output"),
)
def write_domain_template(options: argparse.Namespace) -> None:
    """Write a domain to fill in, from the names of columns.

    The command reads only the names of the columns: from the header of a CSV file, or from the
    schema of a Parquet file, together with the types. It reads no value. You fill in kinds, ranges
    and categories from the meaning of the columns. A Table Schema declares some of them.
    """
    path = None if options.out is None else outputs.checked_output_path(options)
    columns = entries_of_columns(options, options.label)
    with as_input_error():
        text = domains.template(
            columns,
            label=options.label,
            label_type=options.label_type,
            every=options.all,
            user=options.user,
        )
    if path is None:
        print(_escape_unencodable(text, getattr(sys.stdout, "encoding", None)), end="")
        return
    content = _escape_unencodable(text).encode()
    with outputs.say_whether_written(path):
        write_atomically(path, lambda part: part.write_bytes(content))
    outputs.print_about_output(path, f"wrote {path}; fill in what is null, empty or open")


def _escape_unencodable(json_text: str, encoding: str | None = "utf-8") -> str:
    """JSON text that an encoding has: with escapes of JSON, if it lacks some characters."""
    try:
        json_text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return re.sub(r"[^\0-\x7f]", lambda match: json.dumps(match[0])[1:-1], json_text)
    return json_text


Entry = dict[str, Any]
"""The entry of a column in the file of a domain; values that are not known are null or empty."""


def entries_of_columns(
    options: argparse.Namespace, label: str | None = None, *, owner_confirms: bool = False
) -> dict[str, Entry]:
    """The entries of the columns of a file of rows or of a schema, by the names of the columns.

    Args:
        options: the parsed `SOURCE_OPTIONS`.
        label: a name that shows, if it is among the names, that these are a header.
        owner_confirms: whether the owner is asked if the names are a header.

    Raises:
        InputError: for a file that is neither, and for names that look like the cells of a row.
        OSError: if a file cannot be read.
    """
    if (options.file is None) == (options.from_schema is None):
        raise InputError("give either a file of rows or --from-schema")
    path = options.file or options.from_schema
    with as_input_error():
        if options.from_schema or path.lower().endswith(".parquet"):
            return _entries_of_schema(Path(path))
        names = [*inputs.iter_column_names(options)]
    look_like_cells = any(not name or not math.isnan(read_number(name)) for name in names)
    are_confirmed = owner_confirms or options.no_header is not None or label in names
    if look_like_cells and not are_confirmed:
        raise InputError(
            f"{path}, line 1: some names are numbers or empty; is there a header line? Else give "
            "the names by --no-header NAMES, or show by --label NAME that this is one"
        )
    return dict.fromkeys(names, domains.UNDECLARED_COLUMN)


# Entries from a schema.


def _entries_of_schema(path: Path) -> dict[str, Entry]:
    """The entries of the columns of a Parquet file, or of a Table Schema in JSON.

    Columns of which no cell would be read, such as dates, are left out, and standard error says so.

    Raises:
        ValueError: for a file that is neither.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if the file cannot be read.
    """
    if path.suffix.lower() == ".parquet":
        fields = {name: _Field(kind, {}) for name, kind in files.parquet_column_types(path).items()}
    else:
        fields = _fields_of_table_schema(path)
    entries = {}
    for name, field in fields.items():
        if files.is_unreadable_type(field.type_name):
            print(f"left out: {name}, of type {field.type_name}: no cell is read", file=sys.stderr)
        else:
            entries[name] = _entry_of_field(field)
    return entries


class _Field(NamedTuple):
    """A field of a schema.

    Attributes:
        type_name: the name of its type.
        properties: its other properties in a Table Schema, such as its constraints.
    """

    type_name: str
    properties: Mapping[str, Any]


_KIND_OF_TYPE = {
    "bool": "boolean",
    "string": "nominal",
    "large_string": "nominal",
    "binary": "nominal",
}
_NUMERIC_PREFIXES = "int", "uint", "half", "float", "double", "decimal", "number", "year"


def _entry_of_field(field: _Field) -> Entry:
    """The entry of a column, with the values that its field declares."""
    type_name, properties = field
    constraints = properties.get("constraints") or {}
    if "enum" in constraints:
        return {**COLUMN_TEMPLATES["nominal"], "values": constraints["enum"]}
    if type_name.startswith(_NUMERIC_PREFIXES):
        ends = {"low": constraints.get("minimum"), "high": constraints.get("maximum")}
        return {**COLUMN_TEMPLATES["numeric"], **ends}
    if type_name == "boolean":  # one word for each, of several that the schema may list
        true_words, false_words = (properties.get(key) for key in ("trueValues", "falseValues"))
        return {
            "type": "boolean",
            "true": (true_words or ["true"])[0],
            "false": (false_words or ["false"])[0],
        }
    return dict(COLUMN_TEMPLATES[_KIND_OF_TYPE.get(type_name, "nominal")])


def _fields_of_table_schema(path: Path) -> dict[str, _Field]:
    """The fields of a Table Schema by their names; ValueError for any other file."""
    try:
        content = storage.parse_json(path.read_bytes(), "the schema")
        if "resources" in content:
            content = content["resources"][0]["schema"]
        return {
            field["name"]: _Field(str(field.get("type", "string")), field)
            for field in content["fields"]
        }
    except (ValueError, TypeError, LookupError, AttributeError):
        raise ValueError(
            f"{path}: no Parquet file and no Table Schema, a JSON object with fields"
        ) from None


# Questions.


_INTRODUCTION = """\
A domain says what each column may hold. It is public: whoever gets the model may read
it. Answer from what the columns mean, as a form or a code book says it, and never from the rows:
a range or a list that was read off them is a release, which no ledger covers.
"""

T = TypeVar("T")


def _ask_until_valid(question: str, parse: Callable[[str], T]) -> T:
    """The parsed answer to a question, which is repeated until the answer can be parsed.

    Raises:
        InputError: at the end of the input.
    """
    while True:
        print(question, end=" ", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise InputError("stopped; nothing was written")
        try:
            return parse(line.strip())
        except (ValueError, LookupError) as error:
            reason = str(error) if isinstance(error, ValueError) else "one of the answers, please"
            print(f"  {reason}")


def _ask_for_choice(question: str, choices: Iterable[str]) -> str:
    """The answer to a question, which is repeated until it is one of the choices."""
    return _ask_until_valid(question, {choice: choice for choice in choices}.__getitem__)


def _split_words(text: str) -> list[str]:
    """The words between commas."""
    return [word.strip() for word in text.split(",")]


def _split_two_words(text: str) -> list[str]:
    """The two words of an answer, with a comma or a blank between them."""
    words = _split_words(text) if "," in text else text.split()
    if len(words) != 2:
        raise ValueError("two answers, please, with a comma between them")
    return words


def _parse_range(text: str) -> Entry:
    """The entry of a numeric column, from the ends of its range."""
    low, high = (
        int(word) if word.lstrip("-").isdigit() else float(word) for word in _split_two_words(text)
    )
    return {"type": "numeric", "low": low, "high": high}


def _parse_values(text: str) -> Entry:
    """The entry of a nominal column, from its values."""
    return {"type": "nominal", "values": _split_words(text)}


def _parse_words_of_boolean(text: str) -> Entry:
    """The entry of a Boolean column, from its words for true and false."""
    true, false = _split_two_words(text or "1 0")
    return {"type": "boolean", "true": true, "false": false}


def _parse_two_classes(text: str) -> Entry:
    """The entry of a label of two classes, from their words."""
    positive, negative = _split_two_words(text)
    return {"positive": positive, "negative": negative}


class _Question(NamedTuple):
    """A question about a column, and how its answer becomes an entry."""

    words: str
    parse: Callable[[str], Entry]


_QUESTION_OF_KIND = {
    "n": _Question(
        "  the lowest and the highest number that it may be, such as 0 100:", _parse_range
    ),
    "c": _Question("  the values, with commas between them:", _parse_values),
    "b": _Question("  the words for true and for false [1 0]:", _parse_words_of_boolean),
}
"""The question about a column by the answer that chooses its kind."""

_QUESTION_OF_LABEL = {
    "2": _Question("  the words of the positive and of the negative class:", _parse_two_classes),
    "c": _QUESTION_OF_KIND["c"],
    "n": _QUESTION_OF_KIND["n"],
}
"""The question about the label by the answer that chooses its type."""


class _ColumnAnswer(NamedTuple):
    """The answers about one column.

    Attributes:
        choice: the answer that chooses its kind, "s" to skip it, "=" for the entry of the last
            column, or "*" to give all others that entry.
        entry: the entry; None for a column that is skipped.
    """

    choice: str
    entry: Entry | None


def _ask_for_column(name: str, schema_entry: Entry, last_entry: Entry | None) -> _ColumnAnswer:
    """Ask for the entry of one column.

    Args:
        name: the name of the column.
        schema_entry: its entry by a schema, or `domains.UNDECLARED_COLUMN`.
        last_entry: the last entry; None for the first column.
    """
    is_declared = schema_entry != domains.UNDECLARED_COLUMN
    hint = f", a schema says {schema_entry['type']}" if is_declared else ""
    again = ", =: as the last one, *: all others as the last one" if last_entry else ""
    choice = _ask_for_choice(
        f"{name!r}{hint} (n: number, c: categories, b: Boolean, s: skip{again})?",
        (*_QUESTION_OF_KIND, "s", *("=*" if last_entry else "")),
    )
    if choice not in _QUESTION_OF_KIND:
        return _ColumnAnswer(choice, None if choice == "s" else last_entry)
    question = _QUESTION_OF_KIND[choice]

    def parse_and_check(text: str) -> Entry:
        entry = question.parse(text)
        msgspec.convert(entry, Column)  # type: ignore[arg-type]
        return entry

    return _ColumnAnswer(choice, _ask_until_valid(question.words, parse_and_check))


def _ask_for_label(names: list[str]) -> Entry:
    """Ask for the entry of the label, of one of the columns."""
    column = _ask_for_choice(f"Which column is predicted, of {', '.join(names)}?", names)
    label_type = _ask_for_choice(
        "Is it one of 2 classes, of several (c), or a number (n)?", _QUESTION_OF_LABEL
    )
    question = _QUESTION_OF_LABEL[label_type]

    def parse_and_check(text: str) -> Entry:
        entry = question.parse(text)
        declaration = {"target": entry} if "type" in entry else entry
        msgspec.convert({"column": column, **declaration}, Label)
        return {"column": column, **entry}

    return _ask_until_valid(question.words, parse_and_check)


@as_command(*SOURCE_OPTIONS, *output_options("the file of the domain", required=True))
def ask_for_domain(options: argparse.Namespace) -> None:
    """Write a domain by answers to questions, one column after the other.

    The names of columns are those of a header or of a schema. They are shown, so this needs a
    terminal. Everything that you answer is public. `template` writes a file to fill in instead.
    """
    if not inputs.is_terminal(sys.stdin, sys.stdout):
        raise InputError("new asks on a terminal alone; `dpbt domain template` needs none")
    path = outputs.checked_output_path(options)
    with outputs.say_whether_written(path):
        _ask_and_write_domain(options, path)
    advice = f"`dpbt check ROWS --domain {path}` shows you how it reads the rows"
    outputs.print_about_output(path, f"wrote {path}; {advice}")


def _ask_and_write_domain(options: argparse.Namespace, path: Path) -> None:
    """Ask for the domain of the options, and write it.

    Raises:
        InputError: if the owner stops, and as `entries_of_columns`.
        OSError: if a file cannot be read or written.
    """
    schema_entries = entries_of_columns(options, owner_confirms=True)
    print(_INTRODUCTION)
    if options.from_schema is None and options.no_header is None:
        print(f"The names: {', '.join(map(repr, schema_entries))}")
        if _ask_for_choice("Are these names, and no values of a row (y, n)?", "yn") == "n":
            raise InputError("stopped; give the names of the columns by --no-header NAMES")
    label = _ask_for_label(list(schema_entries))
    entries: dict[str, Entry | None] = {}
    last, choice = None, ""
    for name, schema_entry in schema_entries.items():
        if name == label["column"]:
            continue
        if choice != "*":
            choice, entry = _ask_for_column(name, schema_entry, last)
            last = entry or last
        if choice != "s":
            entries[name] = last
    if not entries:
        raise InputError("stopped; a domain needs at least one column")
    text = domains.domain_file_text({"columns": entries, "label": label})
    content = _escape_unencodable(text).encode()
    write_atomically(path, lambda part: part.write_bytes(content))


PROGRAMS = {"template": write_domain_template, "new": ask_for_domain}
