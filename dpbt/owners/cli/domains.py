"""Write a domain: a file to fill in, or one by answers to questions.

From a file of rows the commands read only the names of the columns. A schema states more: the kinds
and ranges that were declared beforehand. The schema of a Parquet file states types. A Table Schema
(Frictionless) states fields and their constraints, also within a Data Package.
"""

import argparse
import contextlib
import functools
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
from dpbt.data.cell_forms import DATE_UNITS, ReadingOptions, form_of_reading_options
from dpbt.data.cells import read_number
from dpbt.data.domains import COLUMN_TEMPLATES, Label
from dpbt.owners.cli import inputs, outputs
from dpbt.owners.cli.inputs import ROWS_HELP
from dpbt.owners.cli.outputs import out_and_force_options
from dpbt.owners.cli.parsing import (
    InputError,
    as_command,
    as_input_error,
    option,
)

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
    *out_and_force_options("the file of the domain, instead of standard output"),
)
def write_domain_template(options: argparse.Namespace) -> None:
    """Write a domain to fill in, from the names of columns.

    The command reads only the names of the columns: from the header of a CSV file, or from the
    schema of a Parquet file, together with the types. It reads no value. You fill in kinds, ranges
    and categories from the meaning of the columns. A Table Schema declares some of them.
    """
    path = None if options.out is None else outputs.checked_output_path(options)
    columns = read_column_names_as_entries(options, options.label)
    with as_input_error():
        text = domains.template(
            columns,
            label=options.label,
            label_type=options.label_type,
            every=options.all,
            user=options.user,
        )
    if path is None:
        print(
            _escape_characters_not_in_encoding(text, getattr(sys.stdout, "encoding", None)), end=""
        )
        return
    content = _escape_characters_not_in_encoding(text).encode()
    with outputs.say_on_interruption_which_files_were_written(path):
        write_atomically(path, lambda part: part.write_bytes(content))
    outputs.print_note_on_output(path, f"wrote {path}; fill in what is null, empty or open")


def _escape_characters_not_in_encoding(json_text: str, encoding: str | None = "utf-8") -> str:
    """Escape JSON text for an encoding that lacks some of its characters.

    If the encoding has all of them, the text is unchanged. Else every character beyond ASCII
    becomes an escape of JSON.

    Then every character beyond ASCII becomes an escape of JSON.
    """
    try:
        json_text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return re.sub(r"[^\0-\x7f]", lambda match: json.dumps(match[0])[1:-1], json_text)
    return json_text


ColumnEntry = dict[str, Any]
"""The JSON object that declares a column in a domain's file; what is unknown is null or empty."""


def read_column_names_as_entries(
    options: argparse.Namespace, label_name: str | None = None, *, ask_if_header: bool = False
) -> dict[str, ColumnEntry]:
    """Read the names of columns, and make an entry of the domain's file for each: name -> entry.

    Rows tell names alone, so their entries are empty. A schema also tells kinds and ranges.

    Args:
        options: the parsed `SOURCE_OPTIONS`.
        label_name: a name that shows, if it is among the names, that these are a header.
        ask_if_header: whether the owner is asked later if the names are a header. Then names that
            look like cells are no error.

    Raises:
        InputError: for a file that is neither, and for names that look like the cells of a row.
        OSError: if a file cannot be read.
    """
    if (options.file is None) == (options.from_schema is None):
        raise InputError("give either a file of rows or --from-schema")
    path = options.file or options.from_schema
    with as_input_error():
        if options.from_schema or path.lower().endswith(".parquet"):
            return _read_entries_of_schema(Path(path))
        names = [*inputs.iter_column_names_of_rows(options)]
    if len(names) == 1 and options.no_header is None:
        raise InputError(
            f"{path}, line {options.skip_lines + 1}: one cell is no header of a table; is it a "
            "title (--skip-lines N skips the lines above the header), or are fields separated by "
            "something else than , ; | or tabs (--delimiter)?"
        )
    if len(names) > 2 and not names[0] and all(names[1:]):
        print("left out: the first column, which has no name, as of row numbers", file=sys.stderr)
        del names[0]
    look_like_cells = any(not name or not math.isnan(read_number(name)) for name in names)
    are_confirmed = ask_if_header or options.no_header is not None or label_name in names
    if look_like_cells and not are_confirmed:
        raise InputError(
            f"{path}, line {options.skip_lines + 1}: some names are numbers or empty; is there a "
            "header line? Else give the names by --no-header NAMES, or show by --label NAME that "
            "this is one"
        )
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if label_name in repeated:
        raise InputError(f"{path}: more than one column {label_name!r}; rename them")
    for name in repeated:
        print(f"left out: {name}, the name of several columns; rename them", file=sys.stderr)
    distinct = [name for name in names if name not in repeated]
    return dict.fromkeys(distinct, domains.UNDECLARED_COLUMN)


# Entries from a schema.


def _read_entries_of_schema(schema_path: Path) -> dict[str, ColumnEntry]:
    """Read the entries of columns from a Parquet file, or from a Table Schema in JSON.

    Columns of which no cell would be read, such as durations, are left out, and standard error
    says so.

    Raises:
        ValueError: for a file that is neither.
        ImportError: for a Parquet file, if pyarrow is not installed.
        OSError: if the file cannot be read.
    """
    if schema_path.suffix.lower() == ".parquet":
        fields = {
            name: _SchemaField(kind, {})
            for name, kind in files.parquet_column_types(schema_path).items()
        }
    else:
        fields = _read_fields_of_table_schema(schema_path)
    entries = {}
    for name, field in fields.items():
        if files.is_unreadable_type(field.type_name) or field.type_name == "time":
            print(f"left out: {name}, of type {field.type_name}: no cell is read", file=sys.stderr)
        else:
            entries[name] = _entry_of_schema_field(field)
    return entries


class _SchemaField(NamedTuple):
    """A field of a schema: its type and other properties.

    Attributes:
        type_name: the name of its type.
        properties: its other properties in a Table Schema, such as its constraints.
    """

    type_name: str
    properties: Mapping[str, Any]


_KIND_BY_SCHEMA_TYPE = {
    "bool": "boolean",
    "string": "nominal",
    "large_string": "nominal",
    "binary": "nominal",
}
_NUMERIC_PREFIXES = "int", "uint", "half", "float", "double", "decimal", "number", "year"


def _entry_of_schema_field(field: _SchemaField) -> ColumnEntry:
    """Convert a field of a schema to the entry of a column.

    The entry has the range or the values that the field declares.
    """
    type_name, properties = field
    constraints = properties.get("constraints") or {}
    if type_name.startswith(("date", "timestamp")):
        date_format = str(properties.get("format", "default"))
        return {
            **COLUMN_TEMPLATES["numeric"],
            "low": constraints.get("minimum"),
            "high": constraints.get("maximum"),
            "date": date_format if "%" in date_format else "iso",
            "unit": "days",
        }
    if "enum" in constraints:
        return {**COLUMN_TEMPLATES["nominal"], "values": constraints["enum"]}
    if type_name.startswith(_NUMERIC_PREFIXES):
        ends = {"low": constraints.get("minimum"), "high": constraints.get("maximum")}
        return {**COLUMN_TEMPLATES["numeric"], **ends}
    if type_name == "boolean":
        words = {
            "true": properties.get("trueValues") or ["true"],
            "false": properties.get("falseValues") or ["false"],
        }
        return {
            "type": "boolean",
            **{key: value if value[1:] else value[0] for key, value in words.items()},
        }
    return dict(COLUMN_TEMPLATES[_KIND_BY_SCHEMA_TYPE.get(type_name, "nominal")])


def _read_fields_of_table_schema(path: Path) -> dict[str, _SchemaField]:
    """Read the fields of a Table Schema, by name.

    Raises:
        ValueError: for any other file.
    """
    try:
        content = storage.parse_json(path.read_bytes(), "the schema")
        if "resources" in content:
            content = content["resources"][0]["schema"]
        return {
            field["name"]: _SchemaField(str(field.get("type", "string")), field)
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

_HELP_ON_KINDS = """\
  n  a number in a range, such as an age or an amount
  d  a date or a time, which is read as a number
  c  categories: one of a list of values, such as a job or a region; they may have an order
  b  Boolean: true or false, by two words
  s  skip it: the column is not in the domain
  <  back to the question before, also within a column"""
"""What the answers to the question on a kind mean, which `?` shows."""

T = TypeVar("T")


class _BackToLastQuestion(Exception):  # noqa: N818  # it is an answer, and no error
    """The answer `<`, by which the owner goes back to the previous question."""


def _ask_until_valid(question: str, parse: Callable[[str], T]) -> T:
    """Ask a question again until its answer can be parsed, and return the parsed answer.

    Raises:
        _BackToLastQuestion: if the answer is "<".
        InputError: at the end of the input.
    """
    while True:
        print(question, end=" ", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise InputError("stopped; nothing was written")
        if line.strip() == "<":
            raise _BackToLastQuestion
        try:
            return parse(line.strip())
        except ValueError as error:
            print(f"  {error}")


def _ask_for_choice(
    question: str, choices: Iterable[str], default: str | None = None, explanation: str = ""
) -> str:
    """Ask a question again until the answer is one of the choices, and return the choice.

    Args:
        question: the question.
        choices: the answers that there are.
        default: what an empty answer means; None if there must be one.
        explanation: what `?` shows, before the question is repeated.
    """
    choices = list(choices)

    def parse(text: str) -> str:
        if text == "?" and explanation:
            raise ValueError(f"the answers are:\n{explanation}")
        if not text and default is not None:
            return default
        if text not in choices:
            raise ValueError(f"one of these answers, please: {', '.join(choices)}")
        return text

    return _ask_until_valid(question, parse)


def _ask_yes_or_no(question: str) -> bool:
    """Ask a question, and return whether the answer is yes.

    An empty answer is no.
    """
    return _ask_for_choice(f"  {question} (y, n) [n]?", "yn", default="n") == "y"


def _split_at_commas(text: str) -> list[str]:
    """Split text at its commas, without blanks around the parts."""
    return [word.strip() for word in text.split(",")]


def _split_into_two_words(text: str) -> list[str]:
    """Split an answer into two words, at a comma or a blank between them."""
    words = _split_at_commas(text) if "," in text else text.split()
    if len(words) != 2:
        raise ValueError("two answers, please, with a comma or a blank between them")
    return words


def _parse_unambiguous_number(text: str) -> int | float:
    """Parse a number that can be read in one way only.

    Raises:
        ValueError: for other text; also for what may hold a sign of thousands, such as 1.000, and
            for a decimal comma. It says how to write the number.
    """
    if re.fullmatch(r"[+-]?[1-9][0-9]{0,2}([.,'\u2019][0-9]{3})+([.,][0-9]+)?", text):
        digits = re.sub(r"[^0-9+-]", "", text)
        raise ValueError(
            f"{text} may have a sign of thousands or of decimals: write {digits} without any, or "
            "decimals with a point and not three digits, such as 1.0"
        )
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", text):
        raise ValueError(f"write {text.replace(',', '.')}, with a decimal point, for {text}")
    if re.fullmatch(r"[+-]?[0-9]{1,300}", text):
        return int(text)
    number = read_number(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is no number")
    return number


def _split_into_ends_of_range(text: str) -> list[str]:
    """Split the text of a range, such as 0 100, "0 to 100" or "0, 100", into its two ends.

    Raises:
        ValueError: for other text.
    """
    ends = re.split(r"\s*(?:;|,\s|\bto\b|\.\.)\s*|\s+", text.strip())
    may_be_thousands = re.fullmatch(r"-?[1-9][0-9]{0,2},[0-9]{3}", text)
    if len(ends) == 1 and re.fullmatch(r"-?[0-9]+,-?[0-9]+", text) and not may_be_thousands:
        ends = text.split(",")
    if len(ends) == 1:
        _parse_unambiguous_number(ends[0])  # may say why it is one text
    if len(ends) != 2:
        raise ValueError("two numbers, please, with a blank between them, such as 0 100")
    return ends


def _parse_numeric_entry(text: str) -> ColumnEntry:
    """Parse the ends of a range into the entry of a numeric column."""
    low, high = map(_parse_unambiguous_number, _split_into_ends_of_range(text))
    return {"type": "numeric", "low": low, "high": high}


def _parse_nominal_entry(text: str) -> ColumnEntry:
    """Parse values with commas between them into the entry of a nominal column."""
    return {"type": "nominal", "values": _split_at_commas(text)}


def _parse_boolean_entry(text: str) -> ColumnEntry:
    """Parse the words for true and false into the entry of a Boolean column.

    Without words they are 1 and 0.
    """
    true, false = _split_into_two_words(text or "1 0")
    return {"type": "boolean", "true": true, "false": false}


def _parse_two_class_label(text: str) -> ColumnEntry:
    """Parse the words of the positive and the negative class into the entry of a label."""
    positive, negative = _split_into_two_words(text)
    return {"positive": positive, "negative": negative}


def _checked_column_entry(entry: ColumnEntry) -> ColumnEntry:
    """Return an entry, once it is clear that it declares a column.

    Raises:
        ValueError: if it does not, saying what is wrong in the terms of a domain.
    """
    domains.column_of_entry(entry)
    return entry


_RANGE_QUESTION = "  the lowest and the highest number that it may be, such as 0 100:"
_VALUES_QUESTION = "  the values, with commas between them:"


def _ask_for_numeric_entry() -> ColumnEntry:
    """Ask for a numeric column's range, bins, scale and missing cells, and make its entry."""
    entry = _ask_until_valid(
        _RANGE_QUESTION, lambda text: _checked_column_entry(_parse_numeric_entry(text))
    )
    return _ask_for_bins_scale_and_missing(entry)


def _ask_for_bins_scale_and_missing(entry: ColumnEntry) -> ColumnEntry:
    """Ask for the bins, the scale and missing cells of a column, and add them to its entry.

    Args:
        entry: of a numeric column that has a range.
    """

    def parse_bins(text: str) -> ColumnEntry:
        if not text:
            return entry
        if not re.fullmatch("[0-9]{1,3}", text):
            raise ValueError("a whole number of bins, please, from 2 to 256")
        return _checked_column_entry({**entry, "bins": int(text)})

    default = entry.get("bins", 10)
    entry = _ask_until_valid(f"  how many bins [{default}]:", parse_bins)
    if "date" not in entry and entry["low"] >= 0:
        scale = _ask_for_choice("  bins of even width, or of a log scale (e, l) [e]?", "el", "e")
        if scale == "l":
            entry = {**entry, "scale": "log"}
    return _ask_about_missing_cells(entry)


def _ask_about_missing_cells(entry: ColumnEntry) -> ColumnEntry:
    """Ask about the missing cells of a column, and add the answer to its entry.

    It is one question: whether cells may be missing, and may tell something by that.
    """
    if _ask_yes_or_no("may cells be missing, and may that tell something"):
        return _checked_column_entry({**entry, "missing": True})
    return entry


_RANGE_BY_DATE_UNIT: dict[str, ColumnEntry] = {
    "month": {"low": 0.5, "high": 12.5, "bins": 12},
    "weekday": {"low": 0.5, "high": 7.5, "bins": 7},
    "hour": {"low": 0, "high": 24, "bins": 24},
}
"""The range and bins of parts of a date that can have no other range."""


def _ask_for_date_entry() -> ColumnEntry:
    """Ask for the format, unit, range and bins of a column of dates, and make its entry."""

    def parse_format(text: str) -> str:
        form_of_reading_options(
            ReadingOptions(None, (), text or "iso", "hour")
        )  # raises for another
        return text or "iso"

    date = _ask_until_valid(
        "  how it is written: iso (as 2015-01-31), unix (seconds), or such as %d.%m.%Y [iso]:",
        parse_format,
    )
    unit = _ask_for_choice(
        f"  what of it counts: {', '.join(DATE_UNITS)} [days]?", DATE_UNITS, default="days"
    )
    declared = {"date": date, "unit": unit}
    if unit in _RANGE_BY_DATE_UNIT:
        entry: ColumnEntry = {"type": "numeric", **_RANGE_BY_DATE_UNIT[unit], **declared}
        return _ask_about_missing_cells(_checked_column_entry(entry))

    def parse_dates(text: str) -> ColumnEntry:
        words = re.split(r"\s*(?:;|,|\bto\b)\s*|\s+", text.strip())
        if len(words) != 2:
            raise ValueError("two dates, please, with a blank between them")
        ends = dict(zip(("low", "high"), words, strict=True))
        return _checked_column_entry({"type": "numeric", **ends, **declared})

    if unit == "year":
        entry = _ask_until_valid(
            "  the first and the last year that it may be, such as 2010 2024:",
            lambda text: _checked_column_entry({**_parse_numeric_entry(text), **declared}),
        )
    else:
        entry = _ask_until_valid(
            "  the first and the last day that it may be, such as 2015-01-01 2024-12-31:",
            parse_dates,
        )
    return _ask_for_bins_scale_and_missing(entry)


def _ask_for_nominal_entry() -> ColumnEntry:
    """Ask for a nominal column's values, and whether they are ordered, and make its entry."""
    entry = _ask_until_valid(
        _VALUES_QUESTION, lambda text: _checked_column_entry(_parse_nominal_entry(text))
    )
    if len(entry["values"]) > 2 and _ask_yes_or_no("have they an order, the lowest first"):
        return _checked_column_entry({**entry, "ordered": True})
    return entry


def _ask_for_boolean_entry() -> ColumnEntry:
    """Ask for a Boolean column's words and missing cells, and make its entry."""
    entry = _ask_until_valid(
        "  the words for true and for false [1 0]:",
        lambda text: _checked_column_entry(_parse_boolean_entry(text)),
    )
    return _ask_about_missing_cells(entry)


_QUESTIONS_BY_KIND: dict[str, Callable[[], ColumnEntry]] = {
    "n": _ask_for_numeric_entry,
    "d": _ask_for_date_entry,
    "c": _ask_for_nominal_entry,
    "b": _ask_for_boolean_entry,
}
"""The questions about a column by the answer that chooses its kind."""


class _LabelQuestion(NamedTuple):
    """A question about the label, and the function that parses its answer into an entry."""

    text: str
    parse: Callable[[str], ColumnEntry]


_LABEL_QUESTION_BY_TYPE = {
    "2": _LabelQuestion(
        "  the words of the positive and of the negative class:", _parse_two_class_label
    ),
    "c": _LabelQuestion(_VALUES_QUESTION, _parse_nominal_entry),
    "n": _LabelQuestion(_RANGE_QUESTION, _parse_numeric_entry),
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
    entry: ColumnEntry | None


def _ask_for_column_entry(
    name: str, schema_entry: ColumnEntry, last_entry: ColumnEntry | None
) -> _ColumnAnswer:
    """Ask what one column is, and make its entry.

    Args:
        name: the name of the column.
        schema_entry: its entry by a schema, or `domains.UNDECLARED_COLUMN`.
        last_entry: the last entry; None for the first column.

    Raises:
        _BackToLastQuestion: if the column before is to be asked for again.
    """
    is_declared = schema_entry != domains.UNDECLARED_COLUMN
    kind_in_schema = "a date" if "date" in schema_entry else schema_entry["type"]
    hint = f", a schema says {kind_in_schema}" if is_declared else ""
    again = ", =: as the last one, *: all others as the last one" if last_entry else ""
    while True:
        choice = _ask_for_choice(
            f"{name!r}{hint} (n: number, d: date, c: categories, b: Boolean, s: skip{again}, "
            "<: back, ?: help)?",
            (*_QUESTIONS_BY_KIND, "s", *("=*" if last_entry else "")),
            explanation=_HELP_ON_KINDS,
        )
        if choice not in _QUESTIONS_BY_KIND:
            return _ColumnAnswer(choice, None if choice == "s" else last_entry)
        with contextlib.suppress(_BackToLastQuestion):  # to the question on the kind
            return _ColumnAnswer(choice, _QUESTIONS_BY_KIND[choice]())


def _ask_for_label_entry(names: list[str]) -> ColumnEntry:
    """Ask which column is the label, and what it holds, and make its entry.

    The answer `<` begins anew.
    """
    while True:
        with contextlib.suppress(_BackToLastQuestion):
            column = _ask_for_choice(f"Which column is predicted, of {', '.join(names)}?", names)
            label_type = _ask_for_choice(
                "Is it one of 2 classes (2), of several (c), or a number (n)?",
                _LABEL_QUESTION_BY_TYPE,
            )
            question = _LABEL_QUESTION_BY_TYPE[label_type]
            return _ask_until_valid(
                question.text, functools.partial(_parse_label_entry, question, column)
            )


def _parse_label_entry(question: _LabelQuestion, column: str, text: str) -> ColumnEntry:
    """Parse the answer to a question about the label into the label's entry.

    Raises:
        ValueError: for an answer that declares no label.
    """
    entry = question.parse(text)
    declaration = {"target": entry} if "type" in entry else entry
    msgspec.convert({"column": column, **declaration}, Label)
    return {"column": column, **entry}


class _LabelAndColumnEntries(NamedTuple):
    """The entry of the label, and the entries of the columns by name."""

    label: ColumnEntry
    columns: dict[str, ColumnEntry]


def _ask_for_label_and_column_entries(
    schema_entries: Mapping[str, ColumnEntry],
) -> _LabelAndColumnEntries:
    """Ask for the label and then for each other column, and make their entries.

    The answer `<` asks for the last one again.

    Args:
        schema_entries: the entry of each column by a schema, or `domains.UNDECLARED_COLUMN`.
    """
    label = _ask_for_label_entry([*schema_entries])
    answers: list[_ColumnAnswer] = []
    while True:
        names = [name for name in schema_entries if name != label["column"]]
        if len(answers) == len(names):
            entries = zip(names, (answer.entry for answer in answers), strict=True)
            return _LabelAndColumnEntries(label, {name: entry for name, entry in entries if entry})
        name = names[len(answers)]
        last_entry = next((answer.entry for answer in reversed(answers) if answer.entry), None)
        try:
            answer = _ask_for_column_entry(name, schema_entries[name], last_entry)
        except _BackToLastQuestion:
            if answers:
                answers.pop()
            else:
                label = _ask_for_label_entry([*schema_entries])
            continue
        num_columns = len(names) - len(answers) if answer.choice == "*" else 1
        answers += [answer] * num_columns


@as_command(*SOURCE_OPTIONS, *out_and_force_options("the file of the domain", required=True))
def ask_for_domain_file(options: argparse.Namespace) -> None:
    """Write a domain by answers to questions, one column after the other.

    The names of columns are those of a header or of a schema. They are shown, so this needs a
    terminal. It asks what a column is, and for its range, bins, scale, order and missing cells; `<`
    goes a question back. Everything that you answer is public. `template` writes a file to fill in
    instead.
    """
    if not inputs.is_terminal(sys.stdin, sys.stdout):
        raise InputError("new asks on a terminal alone; `dpbt domain template` needs none")
    path = outputs.checked_output_path(options)
    with outputs.say_on_interruption_which_files_were_written(path):
        _ask_and_write_domain(options, path)
    advice = f"`dpbt check ROWS --domain {path}` shows you how it reads the rows"
    outputs.print_note_on_output(path, f"wrote {path}; {advice}")


def _ask_and_write_domain(options: argparse.Namespace, path: Path) -> None:
    """Ask for the label and the columns, and write them as a domain's file.

    The names of the columns are those of the rows, or of a schema.

    Raises:
        InputError: if the owner stops, and as `read_column_names_as_entries`.
        OSError: if a file cannot be read or written.
    """
    schema_entries = read_column_names_as_entries(options, ask_if_header=True)
    try:
        print(_INTRODUCTION)
        if options.from_schema is None and options.no_header is None:
            print(f"The names: {', '.join(map(repr, schema_entries))}")
            if _ask_for_choice("Are these names, and no values of a row (y, n)?", "yn") == "n":
                raise InputError("stopped; give the names of the columns by --no-header NAMES")
        label, entries = _ask_for_label_and_column_entries(schema_entries)
    except _BackToLastQuestion:
        raise InputError("stopped; nothing was written") from None
    if not entries:
        raise InputError("stopped; a domain needs at least one column")
    text = domains.domain_file_text({"columns": entries, "label": label})
    content = _escape_characters_not_in_encoding(text).encode()
    write_atomically(path, lambda part: part.write_bytes(content))


PROGRAMS = {"template": write_domain_template, "new": ask_for_domain_file}
