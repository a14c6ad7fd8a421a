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
    """The error for an option, a file or a domain that is not what the program expects."""


@contextlib.contextmanager
def as_input_error(path: str | Path | None = None) -> Iterator[None]:
    """Convert a ValueError of the block to an `InputError`.

    The block should do nothing but read or check the input of a person. An ImportError that says
    what to install is converted, too.

    Args:
        path: a file or folder: only errors that begin with its name are converted. None for all.

    Raises:
        InputError: with the text of the error.
    """
    try:
        yield
    except (ValueError, ImportError) as error:
        is_unrelated = path is not None and not str(error).startswith(str(path))
        if is_unrelated or isinstance(error, ModuleNotFoundError):
            raise
        raise InputError(str(error)) from error


class Interruption(KeyboardInterrupt):
    """An interruption of a command, whose text says what it leaves behind."""


_received_signals: list[int] = []
"""The numbers of the signals that asked the running command to end."""


@contextlib.contextmanager
def say_on_interruption(describe_state: Callable[[], str]) -> Iterator[None]:
    """Turn an interruption of the block into an error that says what is true of files and budget.

    Of nested blocks the innermost one that is interrupted says so.

    Args:
        describe_state: () -> what is true, in a sentence. It is called after the interruption.

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
        raise Interruption(describe_state()) from error


@contextlib.contextmanager
def _raise_keyboard_interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block on signals that ask the process to end.

    This is done in the main thread alone. A signal that the process ignores, as under `nohup`,
    stays ignored.
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
    """An error handler of codecs that escapes what an encoding lacks, and counts the characters."""

    name = "dpbt-escape"

    def __init__(self, former_errors: str) -> None:
        self.num_escapes = 0
        self._former_handler = codecs.lookup_error(former_errors)

    def __call__(self, error: UnicodeError) -> tuple[str | bytes, int]:
        try:
            return self._former_handler(error)
        except UnicodeError:
            self.num_escapes += 1
            return codecs.backslashreplace_errors(error)


@contextlib.contextmanager
def _escape_characters_that_stdout_lacks() -> Iterator[None]:
    """Print characters that the encoding of standard output lacks as escapes of Python.

    Standard error does so by itself. After the block a warning names the encoding.
    """
    stream = sys.stdout
    former_errors = getattr(sys.stdout, "errors", None)
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
    arguments: list[str] | None = None,
    *,
    default_interruption_text: str = "the output may be incomplete",
) -> int:
    """Run the program of a command line, and return its exit status.

    Errors of input and interruptions become one line on standard error.

    Args:
        parser: parses the options, one of which is the `program` to run.
        arguments: those of the command line; None for those of this process. If the list is empty,
            a parser with sub-commands prints its help.
        default_interruption_text: what an interruption says of commands that say nothing else.

    Returns:
        The program's own exit status, `BAD_INPUT`, `INTERRUPTED` or `NO_READER`, or 128 and the
        number of the signal that ended it.
    """

    def print_warning(message: Warning | str, *_: object, **__: object) -> None:
        print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)

    try:
        with (
            _raise_keyboard_interrupt_on_signals(),
            _escape_characters_that_stdout_lacks(),
            warnings.catch_warnings(),
            say_on_interruption(lambda: default_interruption_text),
        ):
            warnings.simplefilter("default")
            warnings.showwarning = print_warning  # without the place in the code
            if arguments == [] and parser.has_commands:
                parser.print_help()
                return 0
            options = parser.parse_args(arguments)
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
        reason = _replace_argument_names_by_options(reason)
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


def is_status_of_interruption(status: int) -> bool:
    """Whether an exit status means that the program was interrupted."""
    return status > _STATUS_OF_SIGNAL and status != NO_READER


_OPTION_TEXT_BY_PATTERN = {
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
"""How errors of the library name an argument, and the option that commands name instead."""


def _replace_argument_names_by_options(error_text: str) -> str:
    """Replace the names of arguments in the text of an error by those of options of commands."""
    for pattern, option_text in _OPTION_TEXT_BY_PATTERN.items():
        error_text = re.sub(pattern, option_text, error_text)
    return error_text


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
        """Parse arguments, after the options of the command are added.

        In all else it is as in `argparse.ArgumentParser`.
        """
        if self._command is not None:
            command = _import_command(self._command)
            self._command = None
            self.description = inspect.cleandoc(command.__doc__ or "")
            if hasattr(command, "PROGRAMS"):
                self.add_commands(_sub_commands_by_name(command))
            else:
                for name, reading in getattr(command, "options", ()):
                    self.add_argument(name, **reading)
                if hasattr(command, "add_arguments"):
                    command.add_arguments(self)
                self.set_defaults(program=command.run_command)
        return super().parse_known_args(*arguments)

    def add_argument(self, *names, **options):  # type: ignore[override]
        """Add an argument; the `~` that a path begins with will mean the home of a user.

        In all else it is as in `argparse.ArgumentParser`. Shells leave the `~` of
        --out=~/model.json.
        """
        if options.get("metavar") in _METAVARS_OF_PATHS:
            options.setdefault("type", os.path.expanduser)
        return super().add_argument(*names, **options)

    def format_help(self) -> str:
        """The text of the help, with a line for each sub-command."""
        lines = [
            f"  {name:{max(map(len, self._commands))}}  {_summary_of_command(command)}".rstrip()
            for name, command in self._commands.items()
        ]
        return super().format_help() + "\n".join(["\ncommands:", *lines, ""] if lines else [])

    def add_commands(self, commands: Mapping[str, Any]) -> None:
        """Add sub-commands to the parser.

        The parsed options hold the function of the chosen one as `program`.

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
        """Raise an error that says what is wrong with the command line, instead of exiting.

        Raises:
            InputError: always; it names the option, its value, and where help is.
        """
        reason = message.removeprefix("argument ").replace(": ", " ", 1)
        raise InputError(f"{reason} (see {self.prog} --help)")


def _import_command(command: Any) -> Any:
    """Import a command if it is a name, and return any other as it is.

    A name is MODULE or MODULE:FUNCTION.
    """
    if not isinstance(command, str):
        return command
    module_name, _, function_name = command.partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, function_name) if function_name else module


def _summary_of_command(command: Any) -> str:
    """The first line of a command's help.

    It is empty under `python -OO`, which keeps no docstrings.
    """
    return inspect.cleandoc(_import_command(command).__doc__ or "").partition("\n")[0]


def _sub_commands_by_name(command: Any) -> Mapping[str, Any]:
    """The sub-commands of a command by name, each a command or the name of one."""
    if isinstance(command.PROGRAMS, Mapping):
        return command.PROGRAMS
    return {name: f"{command.__name__}.{name}" for name in command.PROGRAMS}


def whole_number_type(min_number: int, max_number: int | None = None) -> Callable[[str], int]:
    """Make a parser, for `argparse`, of whole numbers from a minimum to a maximum.

    A maximum of None is no bound.
    """

    def parse(text: str) -> int:
        if not re.fullmatch("[+-]?[0-9]+", text):  # int() reads "1_000", blanks and other digits
            raise ValueError
        number = int(text)
        if number < min_number or (max_number is not None and number > max_number):
            bounds = (
                f"at least {min_number}" if max_number is None else f"in {min_number}..{max_number}"
            )
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {number}")
        return number

    parse.__name__ = "whole number"
    return parse


def bounded_number_type(
    bounds_text: str, is_within_bounds: Callable[[float], bool]
) -> Callable[[str], float]:
    """Make a parser, for `argparse`, of numbers within bounds.

    It never returns NaN.

    Args:
        bounds_text: the bounds, as errors state them.
        is_within_bounds: whether a number is within them.
    """

    def parse(text: str) -> float:
        if "_" in text or not text.isascii() or math.isnan(number := float(text)):
            raise ValueError
        if not is_within_bounds(number):
            raise argparse.ArgumentTypeError(f"must be {bounds_text}, got {text}")
        return number

    parse.__name__ = "number"
    return parse


positive_number = bounded_number_type(
    "greater than 0 and finite", lambda number: 0 < number < math.inf
)
"""The type of an argument that is a finite number above 0."""

share_below_one = bounded_number_type("at least 0 and less than 1", lambda number: 0 <= number < 1)
"""The type of an argument that is a number in [0, 1)."""


def parse_column_and_direction(text: str) -> tuple[str, int]:
    """Parse NAME=+1 or NAME=-1 into the name of a column and its direction."""
    name, _, number = text.rpartition("=")
    if not name or number not in ("1", "+1", "-1"):
        raise argparse.ArgumentTypeError(f"must be NAME=+1 or NAME=-1, got {text!r}")
    return name, int(number)


RECIPE_NAMES = (*BOOSTED, *FORESTS)
"""The recipes that commands know by name."""

_PARSER_OPTIONS_BY_METAVAR: dict[str, dict[str, Any]] = {
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
    """Describe an option or an argument of a command to `argparse`.

    Args:
        name: "--name VALUE" for an option, "--name" for a flag, or "name VALUE" for an argument.
        help_text: its help.
        **parser_options: further arguments of `add_argument`.
    """
    name, _, value = name.partition(" ")
    by_value: dict[str, Any] = {"action": "store_true"}
    if value:
        by_value = {"metavar": value, **_PARSER_OPTIONS_BY_METAVAR.get(value, {})}
    return name, {"help": help_text, **by_value, **parser_options}


def as_command(*options: Option) -> Callable[[Callable], Any]:
    """Make a decorator that turns a function of the parsed options into a command.

    The docstring of the function is the help.

    Its docstring is the help.
    """

    def add_attributes(function: Any) -> Any:
        function.options = options
        function.run_command = function
        return function

    return add_attributes
