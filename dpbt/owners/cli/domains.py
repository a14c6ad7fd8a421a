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
from dpbt.owners.cli.outputs import output_options
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
    are_confirmed = owner_confirms or options.no_header is not None or label in names
    if look_like_cells and not are_confirmed:
        raise InputError(
            f"{path}, line {options.skip_lines + 1}: some names are numbers or empty; is there a "
            "header line? Else give the names by --no-header NAMES, or show by --label NAME that "
            "this is one"
        )
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if label in repeated:
        raise InputError(f"{path}: more than one column {label!r}; rename them")
    for name in repeated:
        print(f"left out: {name}, the name of several columns; rename them", file=sys.stderr)
    distinct = [name for name in names if name not in repeated]
    return dict.fromkeys(distinct, domains.UNDECLARED_COLUMN)


# Entries from a schema.


def _entries_of_schema(path: Path) -> dict[str, Entry]:
    """The entries of the columns of a Parquet file, or of a Table Schema in JSON.

    Columns of which no cell would be read, such as durations, are left out, and standard error
    says so.

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
        if files.is_unreadable_type(field.type_name) or field.type_name == "time":
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

_KINDS_IN_WORDS = """\
  n  a number in a range, such as an age or an amount
  d  a date or a time, which is read as a number
  c  categories: one of a list of values, such as a job or a region; they may have an order
  b  Boolean: true or false, by two words
  s  skip it: the column is not in the domain
  <  back to the question before, also within a column"""
"""What the answers to the question on a kind mean, which `?` shows."""

T = TypeVar("T")


class _StepBack(Exception):  # noqa: N818  # it is an answer, and no error
    """The answer `<`, which goes back to the previous question."""


def _ask_until_valid(question: str, parse: Callable[[str], T]) -> T:
    """The parsed answer to a question, which is repeated until the answer can be parsed.

    Raises:
        _StepBack: if the answer is "<".
        InputError: at the end of the input.
    """
    while True:
        print(question, end=" ", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise InputError("stopped; nothing was written")
        if line.strip() == "<":
            raise _StepBack
        try:
            return parse(line.strip())
        except ValueError as error:
            print(f"  {error}")


def _ask_for_choice(
    question: str, choices: Iterable[str], default: str | None = None, explanation: str = ""
) -> str:
    """The answer to a question, which is repeated until it is one of the choices.

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
    """Whether the answer is yes; an empty answer is no."""
    return _ask_for_choice(f"  {question} (y, n) [n]?", "yn", default="n") == "y"


def _split_answer_into_words(text: str) -> list[str]:
    """The words between commas."""
    return [word.strip() for word in text.split(",")]


def _split_answer_into_two_words(text: str) -> list[str]:
    """The two words of an answer, with a comma or a blank between them."""
    words = _split_answer_into_words(text) if "," in text else text.split()
    if len(words) != 2:
        raise ValueError("two answers, please, with a comma or a blank between them")
    return words


def _parse_number_word(word: str) -> int | float:
    """A number of an answer.

    Raises:
        ValueError: for another word; also for one that may hold a sign of thousands, such as 1.000,
            and for a decimal comma.
    """
    if re.fullmatch(r"[+-]?[1-9][0-9]{0,2}([.,'\u2019][0-9]{3})+([.,][0-9]+)?", word):
        digits = re.sub(r"[^0-9+-]", "", word)
        raise ValueError(
            f"{word} may have a sign of thousands or of decimals: write {digits} without any, or "
            "decimals with a point and not three digits, such as 1.0"
        )
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", word):
        raise ValueError(f"write {word.replace(',', '.')}, with a decimal point, for {word}")
    if re.fullmatch(r"[+-]?[0-9]{1,300}", word):
        return int(word)
    number = read_number(word)
    if not math.isfinite(number):
        raise ValueError(f"{word!r} is no number")
    return number


def _split_range(text: str) -> list[str]:
    """The two ends of a range, such as 0 100, "0 to 100" or "0, 100"; ValueError for others."""
    words = re.split(r"\s*(?:;|,\s|\bto\b|\.\.)\s*|\s+", text.strip())
    may_be_thousands = re.fullmatch(r"-?[1-9][0-9]{0,2},[0-9]{3}", text)
    if len(words) == 1 and re.fullmatch(r"-?[0-9]+,-?[0-9]+", text) and not may_be_thousands:
        words = text.split(",")
    if len(words) == 1:
        _parse_number_word(words[0])  # may say why it is one word
    if len(words) != 2:
        raise ValueError("two numbers, please, with a blank between them, such as 0 100")
    return words


def _parse_range(text: str) -> Entry:
    """The entry of a numeric column, from the ends of its range."""
    low, high = map(_parse_number_word, _split_range(text))
    return {"type": "numeric", "low": low, "high": high}


def _parse_values(text: str) -> Entry:
    """The entry of a nominal column, from its values."""
    return {"type": "nominal", "values": _split_answer_into_words(text)}


def _parse_words_of_boolean(text: str) -> Entry:
    """The entry of a Boolean column, from its words for true and false."""
    true, false = _split_answer_into_two_words(text or "1 0")
    return {"type": "boolean", "true": true, "false": false}


def _parse_two_classes(text: str) -> Entry:
    """The entry of a label of two classes, from their words."""
    positive, negative = _split_answer_into_two_words(text)
    return {"positive": positive, "negative": negative}


def _checked_entry(entry: Entry) -> Entry:
    """The entry of a column itself; ValueError, without words of Python, if it is no column."""
    domains.column_of_entry(entry)
    return entry


_RANGE_QUESTION = "  the lowest and the highest number that it may be, such as 0 100:"
_VALUES_QUESTION = "  the values, with commas between them:"


def _ask_for_number() -> Entry:
    """Ask for the entry of a numeric column."""
    entry = _ask_until_valid(_RANGE_QUESTION, lambda text: _checked_entry(_parse_range(text)))
    return _ask_for_bins_and_missing(entry)


def _ask_for_bins_and_missing(entry: Entry) -> Entry:
    """Ask for the bins, the scale and the missing cells of a numeric column that has a range."""

    def parse_bins(text: str) -> Entry:
        if not text:
            return entry
        if not re.fullmatch("[0-9]{1,3}", text):
            raise ValueError("a whole number of bins, please, from 2 to 256")
        return _checked_entry({**entry, "bins": int(text)})

    default = entry.get("bins", 10)
    entry = _ask_until_valid(f"  how many bins [{default}]:", parse_bins)
    if "date" not in entry and entry["low"] >= 0:
        scale = _ask_for_choice("  bins of even width, or of a log scale (e, l) [e]?", "el", "e")
        if scale == "l":
            entry = {**entry, "scale": "log"}
    return _ask_for_missing(entry)


def _ask_for_missing(entry: Entry) -> Entry:
    """Ask whether missing cells have a split of their own."""
    if _ask_yes_or_no("may cells be missing, and may that tell something"):
        return _checked_entry({**entry, "missing": True})
    return entry


_RANGE_OF_PART: dict[str, Entry] = {
    "month": {"low": 0.5, "high": 12.5, "bins": 12},
    "weekday": {"low": 0.5, "high": 7.5, "bins": 7},
    "hour": {"low": 0, "high": 24, "bins": 24},
}
"""The range of parts of dates that have only one, with a bin for each."""


def _ask_for_date() -> Entry:
    """Ask for the entry of a column of dates."""

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
    if unit in _RANGE_OF_PART:
        entry: Entry = {"type": "numeric", **_RANGE_OF_PART[unit], **declared}
        return _ask_for_missing(_checked_entry(entry))

    def parse_dates(text: str) -> Entry:
        words = re.split(r"\s*(?:;|,|\bto\b)\s*|\s+", text.strip())
        if len(words) != 2:
            raise ValueError("two dates, please, with a blank between them")
        ends = dict(zip(("low", "high"), words, strict=True))
        return _checked_entry({"type": "numeric", **ends, **declared})

    if unit == "year":
        entry = _ask_until_valid(
            "  the first and the last year that it may be, such as 2010 2024:",
            lambda text: _checked_entry({**_parse_range(text), **declared}),
        )
    else:
        entry = _ask_until_valid(
            "  the first and the last day that it may be, such as 2015-01-01 2024-12-31:",
            parse_dates,
        )
    return _ask_for_bins_and_missing(entry)


def _ask_for_categories() -> Entry:
    """Ask for the entry of a nominal column."""
    entry = _ask_until_valid(_VALUES_QUESTION, lambda text: _checked_entry(_parse_values(text)))
    if len(entry["values"]) > 2 and _ask_yes_or_no("have they an order, the lowest first"):
        return _checked_entry({**entry, "ordered": True})
    return entry


def _ask_for_boolean() -> Entry:
    """Ask for the entry of a Boolean column."""
    entry = _ask_until_valid(
        "  the words for true and for false [1 0]:",
        lambda text: _checked_entry(_parse_words_of_boolean(text)),
    )
    return _ask_for_missing(entry)


_QUESTIONS_OF_KIND: dict[str, Callable[[], Entry]] = {
    "n": _ask_for_number,
    "d": _ask_for_date,
    "c": _ask_for_categories,
    "b": _ask_for_boolean,
}
"""The questions about a column by the answer that chooses its kind."""


class _Question(NamedTuple):
    """A question about the label, and how its answer becomes an entry."""

    words: str
    parse: Callable[[str], Entry]


_QUESTION_OF_LABEL = {
    "2": _Question("  the words of the positive and of the negative class:", _parse_two_classes),
    "c": _Question(_VALUES_QUESTION, _parse_values),
    "n": _Question(_RANGE_QUESTION, _parse_range),
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

    Raises:
        _StepBack: if the column before is to be asked for again.
    """
    is_declared = schema_entry != domains.UNDECLARED_COLUMN
    kind_in_schema = "a date" if "date" in schema_entry else schema_entry["type"]
    hint = f", a schema says {kind_in_schema}" if is_declared else ""
    again = ", =: as the last one, *: all others as the last one" if last_entry else ""
    while True:
        choice = _ask_for_choice(
            f"{name!r}{hint} (n: number, d: date, c: categories, b: Boolean, s: skip{again}, "
            "<: back, ?: help)?",
            (*_QUESTIONS_OF_KIND, "s", *("=*" if last_entry else "")),
            explanation=_KINDS_IN_WORDS,
        )
        if choice not in _QUESTIONS_OF_KIND:
            return _ColumnAnswer(choice, None if choice == "s" else last_entry)
        with contextlib.suppress(_StepBack):  # to the question on the kind
            return _ColumnAnswer(choice, _QUESTIONS_OF_KIND[choice]())


def _ask_for_label(names: list[str]) -> Entry:
    """Ask for the entry of the label, of one of the columns. A step back asks from the start."""
    while True:
        with contextlib.suppress(_StepBack):
            column = _ask_for_choice(f"Which column is predicted, of {', '.join(names)}?", names)
            label_type = _ask_for_choice(
                "Is it one of 2 classes (2), of several (c), or a number (n)?", _QUESTION_OF_LABEL
            )
            question = _QUESTION_OF_LABEL[label_type]
            return _ask_until_valid(
                question.words, functools.partial(_parse_label, question, column)
            )


def _parse_label(question: _Question, column: str, text: str) -> Entry:
    """The entry of the label by the answer to its question; ValueError for another answer."""
    entry = question.parse(text)
    declaration = {"target": entry} if "type" in entry else entry
    msgspec.convert({"column": column, **declaration}, Label)
    return {"column": column, **entry}


class _LabelAndColumns(NamedTuple):
    """The entries of the label, and of the columns by name."""

    label: Entry
    columns: dict[str, Entry]


def _ask_for_entries(schema_entries: Mapping[str, Entry]) -> _LabelAndColumns:
    """Ask for the label and then for one column after the other, with steps back.

    Args:
        schema_entries: the entry of each column by a schema, or `domains.UNDECLARED_COLUMN`.
    """
    label = _ask_for_label([*schema_entries])
    answers: list[_ColumnAnswer] = []
    while True:
        names = [name for name in schema_entries if name != label["column"]]
        if len(answers) == len(names):
            entries = zip(names, (answer.entry for answer in answers), strict=True)
            return _LabelAndColumns(label, {name: entry for name, entry in entries if entry})
        name = names[len(answers)]
        last_entry = next((answer.entry for answer in reversed(answers) if answer.entry), None)
        try:
            answer = _ask_for_column(name, schema_entries[name], last_entry)
        except _StepBack:
            if answers:
                answers.pop()
            else:
                label = _ask_for_label([*schema_entries])
            continue
        num_columns = len(names) - len(answers) if answer.choice == "*" else 1
        answers += [answer] * num_columns


@as_command(*SOURCE_OPTIONS, *output_options("the file of the domain", required=True))
def ask_for_domain(options: argparse.Namespace) -> None:
    """Write a domain by answers to questions, one column after the other.

    The names of columns are those of a header or of a schema. They are shown, so this needs a
    terminal. It asks what a column is, and for its range, bins, scale, order and missing cells; `<`
    goes a question back. Everything that you answer is public. `template` writes a file to fill in
    instead.
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
    try:
        print(_INTRODUCTION)
        if options.from_schema is None and options.no_header is None:
            print(f"The names: {', '.join(map(repr, schema_entries))}")
            if _ask_for_choice("Are these names, and no values of a row (y, n)?", "yn") == "n":
                raise InputError("stopped; give the names of the columns by --no-header NAMES")
        label, entries = _ask_for_entries(schema_entries)
    except _StepBack:
        raise InputError("stopped; nothing was written") from None
    if not entries:
        raise InputError("stopped; a domain needs at least one column")
    text = domains.domain_file_text({"columns": entries, "label": label})
    content = _escape_unencodable(text).encode()
    write_atomically(path, lambda part: part.write_bytes(content))


PROGRAMS = {"template": write_domain_template, "new": ask_for_domain}
