"""Write a domain by answers to questions, one column after the other."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from dpbt.cli import rows, shared
from dpbt.cli.shared import InputError, command, out
from dpbt.common.storage import write_whole
from dpbt.data import domains
from dpbt.data.domains import Label
from dpbt.data.kinds import Column

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
    hint = f", a schema says {known['type']}" if known != domains.OPEN else ""
    again = ", =: as the last one, *: all others as the last one" if last else ""
    question = f"{name!r}{hint} (n: number, c: categories, b: Boolean, s: skip{again})?"
    answer = _ask(
        question, {key: key for key in (*_KINDS, "s", *("=*" if last else ""))}.__getitem__
    )
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


@command(*rows.SOURCE, *out("the file of the domain", required=True))
def new(options: argparse.Namespace) -> None:
    """Write a domain by answers to questions, one column after the other.

    The names of columns are those of a header or of a schema. They are shown, so this needs a
    terminal. Everything that you answer is public. `template` writes a file to fill in instead.
    """
    if not shared.is_terminal(sys.stdin, sys.stdout):
        raise InputError("new asks on a terminal alone; `dpbt domain template` needs none")
    path, columns = shared.free(options), rows.columns_of(options, sure=True)
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
    text = domains.written({"columns": declared, "label": label})
    write_whole(path, lambda part: part.write_bytes(text.encode()))
    print(f"wrote {path}; `dpbt check ROWS --domain {path}` shows you how it reads the rows")
