"""How command lines are parsed and run: errors, the parser, its commands, options and their types.

A command is a function of the parsed options with the decorator `as_command`, or a module with a
docstring, `add_arguments(parser)` and `run_command(options)`. The docstring's first line is its
summary. A module with `PROGRAMS` has sub-commands: the names of modules in a package, or commands
by name.

A wrong option, file or domain ends in one line and exit status 2. Any other error is a bug and
keeps its traceback. An interruption, by Ctrl-C or by a signal that asks the process to end, says
what it left behind.
"""

import argparse
import codecs
import contextlib
import functools
import importlib
import inspect
import math
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from dpbt.public_types import BOOSTED, FORESTS

BAD_INPUT, INTERRUPTED, NO_READER = 2, 130, 141
"""Exit statuses; the last two are those of shells for Ctrl-C and for a pipe that nobody reads."""

_STATUS_OF_SIGNAL = 128
"""The exit status after a signal, less its number."""


class InputError(ValueError):
    """An option, a file or a domain is not what the program expects."""


@contextlib.contextmanager
def as_input_error(path: str | Path | None = None) -> Iterator[None]:
    """Convert a ValueError of the block to an `InputError`.

    The block should do nothing but read or check the input of a person. An ImportError that says
    what to install is converted, too.

    Args:
        path: a file or folder: only errors that begin with its name are converted. None for all.

    Raises:
        InputError: with the words of the error.
    """
    try:
        yield
    except (ValueError, ImportError) as error:
        is_unrelated = path is not None and not str(error).startswith(str(path))
        if is_unrelated or isinstance(error, ModuleNotFoundError):
            raise
        raise InputError(str(error)) from error


class Interruption(KeyboardInterrupt):
    """An interruption, with words that say what it leaves behind."""


_received_signals: list[int] = []
"""The numbers of the signals that asked the running command to end."""


@contextlib.contextmanager
def say_on_interruption(describe: Callable[[], str]) -> Iterator[None]:
    """If the block is interrupted, say what is true of the files and the budget by then.

    The words of the innermost block count.

    Args:
        describe: () -> the words, which are asked for after the interruption.

    Raises:
        Interruption: in place of a KeyboardInterrupt, and of an error that one became in a library.
    """
    try:
        yield
    except Interruption:
        raise
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt) and not _received_signals:
            raise
        raise Interruption(describe()) from error


@contextlib.contextmanager
def _signals_as_interruptions() -> Iterator[None]:
    """Let the signals that ask a process to end interrupt the block, in the main thread.

    A signal that the process ignores, as under `nohup`, stays ignored.
    """

    def interrupt(number: int, _: object) -> None:
        _received_signals.append(number)
        raise KeyboardInterrupt

    _received_signals.clear()
    former_handlers = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) in (
                signal.SIG_DFL,
                signal.default_int_handler,
            ):
                former_handlers[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in former_handlers.items():
            signal.signal(number, handler)


class _EscapeCounter:
    """Writes escapes for characters that a terminal lacks, and counts these."""

    name = "dpbt-escape"

    def __init__(self, former_errors: str) -> None:
        self.num_escapes, self._former_handler = 0, codecs.lookup_error(former_errors)

    def __call__(self, error: UnicodeError) -> tuple[str | bytes, int]:
        try:
            return self._former_handler(error)
        except UnicodeError:
            self.num_escapes += 1
            return codecs.backslashreplace_errors(error)


@contextlib.contextmanager
def _escape_unknown_characters() -> Iterator[None]:
    """Let standard output take every text: as escapes of Python where its encoding lacks it.

    Standard error of Python does so by itself. A warning names the encoding.
    """
    stream, former_errors = sys.stdout, getattr(sys.stdout, "errors", None)
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is None or former_errors not in ("strict", "surrogateescape"):
        yield
        return
    counter = _EscapeCounter(former_errors)
    codecs.register_error(counter.name, counter)
    reconfigure(errors=counter.name)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it is closed
            reconfigure(errors=former_errors)
        if counter.num_escapes:
            print(
                f"warning: standard output is in {stream.encoding}, which lacks some characters; "
                "these are escapes such as \\u65e5, and PYTHONIOENCODING=utf-8 shows them",
                file=sys.stderr,
            )


def run_command_line(
    parser: "Parser",
    words: list[str] | None = None,
    *,
    words_on_interruption: str = "the output may be incomplete",
) -> int:
    """Run a command line. Errors of input and interruptions become one line on standard error.

    Args:
        parser: parses the options, one of which is the `program` to run.
        words: the words of the command line; None for those of this process. If there are none, a
            parser with sub-commands prints its help.
        words_on_interruption: what is true of all commands that say nothing else.

    Returns:
        The program's own exit status, `BAD_INPUT`, `INTERRUPTED` or `NO_READER`, or 128 and the
        number of the signal that ended it.
    """

    def print_warning(message: Warning | str, *_: object, **__: object) -> None:
        print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)

    try:
        with (
            _signals_as_interruptions(),
            _escape_unknown_characters(),
            warnings.catch_warnings(),
            say_on_interruption(lambda: words_on_interruption),
        ):
            warnings.simplefilter("default")
            warnings.showwarning = print_warning  # without the place in the code
            if words == [] and parser.has_commands:
                parser.print_help()
                return 0
            options = parser.parse_args(words)
            status = options.program(options) or 0
            if sys.stdout is not None:
                sys.stdout.flush()
        return status
    except BrokenPipeError:  # as of `... | head`
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except (InputError, OSError) as error:
        reason = str(error)
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            reason = f"{error.filename}: {error.strerror}"
        reason = _with_names_of_options(reason)
        print(f"error: {' '.join(reason.split(chr(10)))}", file=sys.stderr)
        return BAD_INPUT
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("jax", "jaxlib"):
            raise
        print("error: this command needs JAX: pip install jax", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as interruption:
        print(f"\ninterrupted{f'; {interruption}' * bool(str(interruption))}", file=sys.stderr)
        return _STATUS_OF_SIGNAL + (_received_signals or [signal.SIGINT])[0]


def was_interrupted(status: int) -> bool:
    """Whether an exit status is one of an interruption."""
    return status > _STATUS_OF_SIGNAL and status != NO_READER


_OPTIONS_BY_PATTERN = {
    r"\brecipe\(make, fraction=1\) takes what is left": "a smaller --epsilon fits",
    r"\bresolutions=\(2, 4, 8, 16\) makes rounds of all, at more noise": (
        "leave --pair out, or give a larger --epsilon or --rows"
    ),
    r"\bset rows to (?=their number, or choose relation=)": "set --rows to ",
    r"\b(objective|quantile|relation|rows)='?(\w+)'?": r"--\1 \2",
    r"\bdelta_anyway=True": "--delta-anyway",
    r"\bstate a smaller bound on the rows or more memory": (
        "give a smaller --rows or a larger --memory-mb"
    ),
    r"\bstate a smaller capacity": "give a smaller --capacity",
    r"^class_ ": "--class ",
    r"^attribute must": "--shape must",
    r"^the domain has no column (?=.*, it has )": "--shape: the domain has no column ",
    r"^pairs\b": "--pair",
    r"\btakes no pairs, as these do": "takes no --pair, as these do",
    r"\btakes no (?=(\w+), as these do)": "takes no --",
    r"^(?=(delta|depth|epsilon|monotone|quantile|repeats|rounds|rows|signal|trees) must )": "--",
    r"\bmax_rows_per_user\b": "--max-rows-per-user",
}
"""What errors of the library call an argument, and what commands call it instead."""


def _with_names_of_options(reason: str) -> str:
    """The reason of an error with options in place of the arguments of functions."""
    for pattern, words in _OPTIONS_BY_PATTERN.items():
        reason = re.sub(pattern, words, reason)
    return reason


# Commands and their options.


_METAVARS_OF_PATHS = ("FILE", "FOLDER", "ROWS", "MODEL", "DOMAIN", "PAGE")
"""The names of values that are paths, in the help."""


class Parser(argparse.ArgumentParser):
    """A parser that raises an error instead of printing its usage and exiting.

    Args:
        command: the command whose options it parses, or its name. It is imported when it is run.
        **options: the options of `argparse.ArgumentParser`.
    """

    def __init__(self, command: Any = None, **options):
        formatter = functools.partial(
            argparse.RawDescriptionHelpFormatter, max_help_position=24, width=96
        )
        super().__init__(formatter_class=formatter, allow_abbrev=False, **options)
        self._command = command
        self._commands: Mapping[str, Any] = {}

    def parse_known_args(self, *arguments):  # type: ignore[override]
        """As `argparse.ArgumentParser` does, once the options of the command are added."""
        if self._command is not None:
            command, self._command = _import_command(self._command), None
            self.description = inspect.cleandoc(command.__doc__ or "")
            if hasattr(command, "PROGRAMS"):
                self.add_commands(_sub_commands(command))
            else:
                for name, reading in getattr(command, "options", ()):
                    self.add_argument(name, **reading)
                if hasattr(command, "add_arguments"):
                    command.add_arguments(self)
                self.set_defaults(program=command.run_command)
        return super().parse_known_args(*arguments)

    def add_argument(self, *names, **options):  # type: ignore[override]
        """As `argparse.ArgumentParser` does; a leading `~` of a path is the home of a user.

        Shells leave the `~` of --out=~/model.json.
        """
        if options.get("metavar") in _METAVARS_OF_PATHS:
            options.setdefault("type", os.path.expanduser)
        return super().add_argument(*names, **options)

    def format_help(self) -> str:
        """The help, with a line for each sub-command."""
        lines = [
            f"  {name:{max(map(len, self._commands))}}  {_summary(command)}".rstrip()
            for name, command in self._commands.items()
        ]
        return super().format_help() + "\n".join(["\ncommands:", *lines, ""] if lines else [])

    def add_commands(self, commands: Mapping[str, Any]) -> None:
        """Add sub-commands. The parsed options hold the function of the chosen one as `program`.

        Args:
            commands: each sub-command by name: a function or a module, or the full name of one.
        """
        self._commands = commands
        parsers = self.add_subparsers(metavar="COMMAND", required=True)
        for name, command in commands.items():
            parsers.add_parser(name, command=command)

    @property
    def has_commands(self) -> bool:
        """Whether the parser has sub-commands."""
        return bool(self._commands)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            InputError: always; it names the option, its value, and where help is.
        """
        words = message.removeprefix("argument ").replace(": ", " ", 1)
        raise InputError(f"{words} (see {self.prog} --help)")


def _import_command(command: Any) -> Any:
    """A command, which is imported if it is a name: MODULE or MODULE:FUNCTION."""
    if not isinstance(command, str):
        return command
    module_name, _, function_name = command.partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, function_name) if function_name else module


def _summary(command: Any) -> str:
    """The first line of a command's help; empty under `python -OO`, which keeps no docstrings."""
    return inspect.cleandoc(_import_command(command).__doc__ or "").partition("\n")[0]


def _sub_commands(command: Any) -> Mapping[str, Any]:
    """The sub-commands of a command by name, each a command or the name of one."""
    if isinstance(command.PROGRAMS, Mapping):
        return command.PROGRAMS
    return {name: f"{command.__name__}.{name}" for name in command.PROGRAMS}


def whole_number_type(smallest: int, largest: int | None = None) -> Callable[[str], int]:
    """The type of an argument that is a whole number in smallest..largest; None for no largest."""

    def parse(text: str) -> int:
        if not re.fullmatch("[+-]?[0-9]+", text):  # int() reads "1_000", blanks and other digits
            raise ValueError
        number = int(text)
        if number < smallest or (largest is not None and number > largest):
            bounds = f"at least {smallest}" if largest is None else f"in {smallest}..{largest}"
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {number}")
        return number

    parse.__name__ = "whole number"
    return parse


def number_type(bounds: str, is_valid: Callable[[float], bool]) -> Callable[[str], float]:
    """The type of an argument that is a number within bounds. It is never NaN.

    Args:
        bounds: the bounds in words.
        is_valid: whether a number is within them.
    """

    def parse(text: str) -> float:
        if "_" in text or not text.isascii() or math.isnan(number := float(text)):
            raise ValueError
        if not is_valid(number):
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {text}")
        return number

    parse.__name__ = "number"
    return parse


positive_number = number_type("greater than 0 and finite", lambda number: 0 < number < math.inf)
"""The type of an argument that is a finite number above 0."""

share_below_one = number_type("at least 0 and less than 1", lambda number: 0 <= number < 1)
"""The type of an argument that is a number in [0, 1)."""


def parse_column_and_direction(text: str) -> tuple[str, int]:
    """The name and the direction of an argument NAME=+1 or NAME=-1."""
    name, _, number = text.rpartition("=")
    if not name or number not in ("1", "+1", "-1"):
        raise argparse.ArgumentTypeError(f"must be NAME=+1 or NAME=-1, got {text!r}")
    return name, int(number)


RECIPE_NAMES = (*BOOSTED, *FORESTS)
"""The recipes that commands know by name."""

_READING_BY_METAVAR: dict[str, dict[str, Any]] = {
    "N": {"type": whole_number_type(1)},
    "K": {"type": whole_number_type(1)},
    "SEED": {"type": whole_number_type(0, 2**31 - 1)},
    "EPSILON": {"type": positive_number, "required": True},
    "DELTA": {"type": share_below_one, "default": 0.0},
    "RECIPE": {"choices": RECIPE_NAMES, "default": RECIPE_NAMES[0]},
    "RELATION": {"choices": ("add_remove", "replace_one"), "default": "add_remove"},
    "Q": {"type": share_below_one},
    "SHARE": {"type": share_below_one},
    "OBJECTIVE": {"choices": ("squared", "poisson", "quantile")},
    "NAME=+1": {"type": parse_column_and_direction, "action": "append"},
}
"""How `argparse` reads the values of options, by their name in the help; all others are text."""

Option = tuple[str, dict[str, Any]]
"""The name of an option, and how `argparse` reads it."""


def option(name: str, help_text: str, **parser_options: Any) -> Option:
    """An option or an argument of a command.

    Args:
        name: "--name VALUE" for an option, "--name" for a flag, or "name VALUE" for an argument.
        help_text: its help.
        **parser_options: further arguments of `add_argument`.
    """
    name, _, value = name.partition(" ")
    by_value: dict[str, Any] = {"action": "store_true"}
    if value:
        by_value = {"metavar": value, **_READING_BY_METAVAR.get(value, {})}
    return name, {"help": help_text, **by_value, **parser_options}


def as_command(*options: Option) -> Callable[[Callable], Any]:
    """A decorator that makes a function of the parsed options a command.

    Its docstring is the help.
    """

    def add_attributes(function: Any) -> Any:
        function.options, function.run_command = options, function
        return function

    return add_attributes
