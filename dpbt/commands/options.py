"""What all command lines share: a parser, types of arguments and sub-commands.

A command or a program is a module with a docstring, `arguments(parser)` and `run(options)`. The
docstring's first line is its summary. A package whose `PROGRAMS` names such modules is a command
with sub-commands.
"""

import argparse
import importlib
import math
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NoReturn

from dpbt.commands.errors import InputError

LARGEST_SEED = 2**31 - 1


class Parser(argparse.ArgumentParser):
    """A parser that raises an error instead of printing its usage and exiting."""

    def __init__(self, **options):
        super().__init__(**{"formatter_class": _Formatter, **options})

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
    found = {name: importlib.import_module(path) for name, path in modules.items()}
    summaries = [(name, _words(module).splitlines()[0]) for name, module in found.items()]
    commands = parser.add_subparsers(
        title="commands", description=aligned(summaries), metavar="COMMAND", required=True
    )
    for name, module in found.items():
        _fill(commands.add_parser(name, description=_words(module)), module)


def aligned(pairs: list[tuple[str, str]]) -> str:
    """Names and what is said of them, a line for each pair."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name:{width}}  {summary}" for name, summary in pairs)


def _words(module: ModuleType) -> str:
    return (module.__doc__ or "").strip()


def _fill(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    programs = getattr(module, "PROGRAMS", None)
    if programs is not None:
        add_commands(parser, {name: f"{module.__name__}.{name}" for name in programs})
        return
    module.arguments(parser)
    parser.set_defaults(program=module.run)


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


def positive(text: str) -> float:
    """The type of an argument that is a number above 0, which may be infinite."""
    number = real(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"must be greater than 0, got {text}")
    return number


positive.__name__ = "number"


def finite(text: str) -> float:
    """The type of an argument that is a finite number above 0."""
    number = positive(text)
    if math.isinf(number):
        raise argparse.ArgumentTypeError(f"must be finite, got {text}")
    return number


finite.__name__ = "number"


def share(text: str) -> float:
    """The type of an argument that is a number in [0, 1)."""
    number = real(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 0 and less than 1, got {text}")
    return number


share.__name__ = "number"


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
