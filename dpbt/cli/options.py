"""What all command lines share: a parser, types of arguments and sub-commands.

A command is a module or a class with a docstring, `arguments(parser)` and `run(options)`. The
docstring's first line is its summary. One with `PROGRAMS` has sub-commands: the names of modules in
a package, or commands by name.
"""

import argparse
import importlib
import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from dpbt.cli.errors import InputError

LARGEST_SEED = 2**31 - 1


class Parser(argparse.ArgumentParser):
    """A parser that raises an error instead of printing its usage and exiting."""

    def __init__(self, **options):
        super().__init__(**{"formatter_class": _Formatter, "allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            InputError: always; it names the option, what was given, and where help is.
        """
        words = message.removeprefix("argument ").replace(": ", " ", 1)
        raise InputError(f"{words} (see {self.prog} --help)")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of descriptions; the list of commands is one."""

    def __init__(self, prog: str, **options):
        super().__init__(prog, **{**options, "max_help_position": 24, "width": 96})


def add_commands(parser: argparse.ArgumentParser, modules: Mapping[str, str]) -> None:
    """Add a sub-command for each module; the parsed options hold its `run` as `program`.

    Args:
        parser: the parser of the command.
        modules: the name of each sub-command, and the full name of its module or package.
    """
    _add(parser, {name: importlib.import_module(path) for name, path in modules.items()})


def _add(parser: argparse.ArgumentParser, found: Mapping[str, Any]) -> None:
    """Add a sub-command for each module or class."""
    summaries = [(name, _words(command).splitlines()[0]) for name, command in found.items()]
    commands = parser.add_subparsers(
        title="commands", description=aligned(summaries), metavar="COMMAND", required=True
    )
    for name, command in found.items():
        below = commands.add_parser(name, description=_words(command))
        programs = getattr(command, "PROGRAMS", None)
        if programs is None:
            command.arguments(below)
            below.set_defaults(program=command.run)
        elif isinstance(programs, Mapping):
            _add(below, programs)
        else:
            add_commands(below, {one: f"{command.__name__}.{one}" for one in programs})


def aligned(pairs: list[tuple[str, str]]) -> str:
    """Names and what is said of them, a line for each pair."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name:{width}}  {summary}" for name, summary in pairs)


def _words(command: Any) -> str:
    return inspect.cleandoc(command.__doc__ or "")


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an argument that is a whole number in least..most, or at least `least`."""

    def read(text: str) -> int:
        if not re.fullmatch("[+-]?[0-9]+", text):  # int() reads "1_000", blanks and other digits
            raise ValueError
        number = int(text)
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"in {least}..{most}"
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {number}")
        return number

    read.__name__ = "whole number"
    return read


def real(text: str) -> float:
    """The type of an argument that is a number, which may be infinite.

    Raises:
        ValueError: for other text, and for NaN.
    """
    if "_" in text or not text.isascii() or math.isnan(number := float(text)):
        raise ValueError
    return number


real.__name__ = "number"


def _number(words: str, good: Callable[[float], bool]) -> Callable[[str], float]:
    """The type of an argument that is a number of which something holds."""

    def read(text: str) -> float:
        number = real(text)
        if not good(number):
            raise argparse.ArgumentTypeError(f"must be {words}, got {text}")
        return number

    read.__name__ = "number"
    return read


positive = _number("greater than 0", lambda number: number > 0)
"""The type of an argument that is a number above 0, which may be infinite."""

finite = _number("greater than 0 and finite", lambda number: 0 < number < math.inf)
"""The type of an argument that is a finite number above 0."""

share = _number("at least 0 and less than 1", lambda number: 0 <= number < 1)
"""The type of an argument that is a number in [0, 1)."""


def direction(text: str) -> tuple[str, int]:
    """The type of an argument NAME=+1 or NAME=-1."""
    name, _, number = text.rpartition("=")
    if not name or number not in ("1", "+1", "-1"):
        raise argparse.ArgumentTypeError(f"must be NAME=+1 or NAME=-1, got {text!r}")
    return name, int(number)


direction.__name__ = "direction"


def add_count(parser: argparse.ArgumentParser, name: str, default: int, words: str) -> None:
    """Add an option that is a count of at least 1."""
    parser.add_argument(name, type=whole(1), default=default, help=f"{words} (%(default)s)")


def add_seed(parser: argparse.ArgumentParser, words: str) -> None:
    """Add --seed, 0 by default; `words` name what it is the seed of."""
    kind = whole(0, LARGEST_SEED)
    parser.add_argument("--seed", type=kind, default=0, help=f"seed of {words} (%(default)s)")
