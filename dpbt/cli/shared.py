"""What all command lines share: errors, a parser, types of arguments, what is read and written.

A command is a module or a class with a docstring, `arguments(parser)` and `run(options)`. The
docstring's first line is its summary. One with `PROGRAMS` has sub-commands: the names of modules in
a package, or commands by name.

An option, a file or a domain that a person got wrong is one line and exit status 2. Any other error
is a bug and keeps its traceback.
"""

import argparse
import contextlib
import importlib
import inspect
import math
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import dpbt
from dpbt.common.public import BOOSTED, FORESTS
from dpbt.data import domains, files, owner
from dpbt.data.domains import Domain, Label
from dpbt.release.model import Model
from dpbt.release.scoring import BLOCK_ROWS

if TYPE_CHECKING:
    from dpbt.common.types import Recipe
    from dpbt.data.blocks import BlockTable
    from dpbt.privacy.filter import Filter

BAD_INPUT, INTERRUPTED, NO_READER = 2, 130, 141
"""Exit statuses; the last two are those of shells for Ctrl-C and for a pipe that nobody reads."""

STOPPED = (
    "interrupted; the files written so far are kept, and what has a checkpoint or a folder of "
    "results goes on with the same command"
)
"""What Ctrl-C says."""


class InputError(ValueError):
    """An option, a file or a domain is not what the program expects."""


@contextlib.contextmanager
def of_input(path: str | Path | None = None) -> Iterator[None]:
    """Make a ValueError within the block an `InputError`.

    The block should do nothing but read or check what a person gave. An ImportError that says what
    to install becomes one, too.

    Args:
        path: a file or folder. If given, only errors that begin with its name are converted.

    Raises:
        InputError: with the words of the error.
    """
    try:
        yield
    except (ValueError, ImportError) as error:
        other = path is not None and not str(error).startswith(str(path))
        if other or isinstance(error, ModuleNotFoundError):
            raise
        raise InputError(str(error)) from error


def status_of(program: Callable[[], int]) -> int:
    """Run a program; errors of input and Ctrl-C become one line on standard error.

    Returns:
        The program's own exit status, `BAD_INPUT`, `INTERRUPTED` or `NO_READER`.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show
            status = program()
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # as of `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except (InputError, OSError) as error:
        print(f"error: {_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"\n{STOPPED}", file=sys.stderr)
        return INTERRUPTED


def _show(message: Warning | str, *where: object, **more: object) -> None:
    """A warning on one line of standard error, without the place in the code."""
    del where, more
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


def _line(error: Exception) -> str:
    """The error in one line, which begins with the file if it is about one."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split("\n"))


# Options.

LARGEST_SEED = 2**31 - 1


class Parser(argparse.ArgumentParser):
    """A parser that raises an error instead of printing its usage and exiting.

    Args:
        command: what it reads the options of, which is imported when there are some to read.
        **options: of `argparse.ArgumentParser`.
    """

    def __init__(self, command: Any = None, **options):
        super().__init__(**{"formatter_class": _Formatter, "allow_abbrev": False, **options})
        self._command = command
        self._commands: Mapping[str, Any] = {}

    def parse_known_args(self, *given):  # type: ignore[override]
        """As `argparse.ArgumentParser` does, after the options were added."""
        if self._command is not None:
            command, self._command = _found(self._command), None
            self.description = inspect.cleandoc(command.__doc__ or "")
            programs = getattr(command, "PROGRAMS", None)
            if programs is None:
                command.arguments(self)
                self.set_defaults(program=command.run)
            elif isinstance(programs, Mapping):
                add_commands(self, programs)
            else:
                add_commands(self, {one: f"{command.__name__}.{one}" for one in programs})
        return super().parse_known_args(*given)

    def format_help(self) -> str:
        """The help, with a line for each sub-command."""
        lines = [
            f"  {name:{max(map(len, self._commands))}}  "
            + inspect.cleandoc(_found(command).__doc__ or "").splitlines()[0]
            for name, command in self._commands.items()
        ]
        return super().format_help() + "\n".join(["\ncommands:", *lines, ""] if lines else [])

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            InputError: always; it names the option, what was given, and where help is.
        """
        words = message.removeprefix("argument ").replace(": ", " ", 1)
        raise InputError(f"{words} (see {self.prog} --help)")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of descriptions."""

    def __init__(self, prog: str, **options):
        super().__init__(prog, **{**options, "max_help_position": 24, "width": 96})


def add_commands(parser: Parser, commands: Mapping[str, Any]) -> None:
    """Add sub-commands; the parsed options hold the `run` of one as `program`.

    Args:
        parser: the parser of the command.
        commands: each sub-command by name: a module or a class, or the full name of one.
    """
    parser._commands = commands
    added = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in commands.items():
        added.add_parser(name, command=command)


def _found(command: Any) -> Any:
    """A command, which is imported if it is a name: MODULE or MODULE:CLASS."""
    if not isinstance(command, str):
        return command
    module, _, name = command.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


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


# What commands write.


def add_out(parser: argparse.ArgumentParser, words: str, required: bool = False) -> None:
    """Add --out and --force; `free` reads them."""
    parser.add_argument("--out", metavar="FILE", required=required, help=words)
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def free(options: argparse.Namespace, more: str = "") -> Path:
    """The file of --out, if it may be written. Commands ask before they work.

    Args:
        options: of the command.
        more: what --force does besides.

    Raises:
        InputError: if it is a folder, or exists without --force, or its folder cannot be written.
    """
    path = Path(options.out)
    if path.is_dir():
        raise InputError(f"{path}: a folder, where --out needs the name of a file")
    if path.exists() and not options.force:
        raise InputError(f"{path}: the file exists; --force replaces it{more}")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path}: no file can be written in {folder}")
    return path


def keep(path: Path, save: Callable[[Path], object]) -> Path:
    """Save what was paid for: at the path or, if the disk does not take it there, elsewhere.

    Args:
        path: the file.
        save: writes the file of the path that it is called with.

    Returns:
        Where it is. Standard error says so if that is a temporary folder.

    Raises:
        OSError: naming the path, if the temporary folder does not take it either.
    """
    try:
        save(path)
        return path
    except OSError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="dpbt-")) / path.name
        try:
            save(elsewhere)
        except OSError:
            raise error from None
        print(f"warning: {path}: {error.strerror}; move {elsewhere} there", file=sys.stderr)
        return elsewhere


def is_terminal(*streams: TextIO | None) -> bool:
    """Whether all streams are a terminal; closed ones, which Python has as None, are none."""
    return all(stream is not None and stream.isatty() for stream in streams)


@contextlib.contextmanager
def working(words: str) -> Iterator[None]:
    """Say on a terminal what is being done; elsewhere say nothing.

    It shows no time and no count. They would tell how many rows there are, or how many runs
    `dpbt.tune` made.
    """
    if not is_terminal(sys.stderr):
        yield
        return
    print(f"{words} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


# What commands read.

RECIPES = (*BOOSTED, *FORESTS)
RELATIONS = ("add_remove", "replace_one")


def declared(path: str) -> tuple[Domain, Label]:
    """The domain and the label of a JSON file.

    Raises:
        InputError: saying what is wrong with it.
        OSError: if it cannot be read.
    """
    with of_input(path):
        return domains.read_domain(path)


def opened(path: str, domain: Domain, label: Label, rows: int) -> "BlockTable":
    """The table of a folder of blocks.

    Raises:
        InputError: for a folder that is none, or of another domain or label, or with room for more
            rows than their bound.
        OSError: if it cannot be read.
    """
    from dpbt.data import blocks

    with of_input():
        table = blocks.open_folder(path)
    if not table.has_domain(domain):
        raise InputError(f"{path}: converted with another domain")
    if table.target != label.target or (label.target is None and table.classes != label.classes):
        raise InputError(f"{path}: converted with another label")
    if table.capacity > rows:
        raise InputError(
            f"{path}: has room for {table.capacity} rows, more than --rows {rows}, the stated "
            "bound on their number"
        )
    return table


def saved(path: str) -> Model:
    """A saved model.

    Raises:
        InputError: if the file is no whole saved model.
        OSError: if it cannot be read.
    """
    with of_input(path):
        return dpbt.load(path)


def filter_of(path: str) -> "Filter":
    """The filter of a file.

    Raises:
        InputError: if the file is no whole filter.
        OSError: if it cannot be read.
    """
    from dpbt.privacy.filter import Filter  # needs JAX

    with of_input():
        return Filter.open(path)


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """Add --domain, --rows and the other public quantities that a recipe is made of."""
    words = "the public domain and the label, as JSON; `domain template` writes one to fill in"
    parser.add_argument("--domain", metavar="FILE", required=True, help=words)
    words = "a public bound on the number of rows; under replace_one their public number"
    parser.add_argument("--rows", type=whole(1), required=True, metavar="N", help=words)
    words = "the total budget, such as 1"
    parser.add_argument("--epsilon", type=finite, required=True, help=words)
    words = "0 for a pure guarantee (%(default)s)"
    parser.add_argument("--delta", type=share, default=0.0, help=words)
    words = "the recipe (%(default)s); bdpe makes models that a person can read"
    parser.add_argument("--recipe", choices=RECIPES, default=RECIPES[0], help=words)
    add_relation(parser)
    for name in ("rounds", "depth"):
        words = f"the {name} of the recipe, where it takes a number of them"
        parser.add_argument(f"--{name}", type=whole(1), metavar="N", help=words)
    words = "predictions must not fall (+1) or rise (-1) with a column; once for each such column"
    options: Any = {"type": direction, "action": "append", "metavar": "NAME=+1"}
    parser.add_argument("--monotone", **options, help=words)


def add_relation(parser: argparse.ArgumentParser) -> None:
    """Add --relation and --max-rows-per-user: what neighbours differ in."""
    words = "the neighbouring relation (%(default)s)"
    parser.add_argument("--relation", choices=RELATIONS, default=RELATIONS[0], help=words)
    words = "the most rows that one person has, which is your promise (%(default)s)"
    kind = whole(1)
    parser.add_argument("--max-rows-per-user", type=kind, default=1, metavar="K", help=words)


def recipe_of(options: argparse.Namespace, domain: Domain, label: Label) -> "Recipe":
    """The recipe of the options that `add_recipe` adds.

    Args:
        options: the options.
        domain: the public domain.
        label: what is predicted.

    Raises:
        InputError: for numbers out of range, and for options and labels that the recipe does not
            take.
    """
    from dpbt import recipes  # needs JAX

    names = "epsilon", "delta", "rows", "relation", "max_rows_per_user", "rounds", "depth"
    given = {name: getattr(options, name) for name in names}
    given |= {"domain": domain, "target": label.target}
    given["monotone"] = None if options.monotone is None else dict(options.monotone)
    with of_input():
        return recipes.build(options.recipe, given, recipes.named())


def report(file: str, domain: Domain, label: Label) -> owner.OwnerReport:
    """The report of the owner on a file of rows.

    Raises:
        InputError: for what is none.
        OSError: if it cannot be read.
    """
    if Path(file).is_dir():
        raise InputError(f"{file}: a folder of blocks; check the rows before converting them")
    with of_input(file):
        blocks = files.blocks_of_file(file, (*domain, *label.columns), BLOCK_ROWS)
        return owner.report(domain, label, blocks)


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add --yes."""
    words = "do not ask; on a terminal the owner of rows that the domain may not fit is shown how "
    words += "it reads them, and asked whether to go on"
    parser.add_argument("--yes", action="store_true", help=words)


def ask(file: str, domain: Domain, label: Label, yes: bool, what: str) -> None:
    """On a terminal, show the owner what is doubtful in the rows, and ask whether to go on.

    With `yes`, without a terminal, or from a pipe no row is read, and nothing depends on any. A
    folder of blocks was checked before it was converted.

    Args:
        file: of the rows, or a folder of blocks.
        domain: the public domain.
        label: of the rows.
        yes: go on without a question.
        what: would be done.

    Raises:
        InputError: if the owner stops, and as `report`.
        OSError: as `report`.
    """
    asked = is_terminal(sys.stdin, sys.stderr) and not yes
    if not asked or not Path(file).is_file():  # a pipe is read once
        return
    found = report(file, domain, label)
    if not found.doubtful:
        return
    print(f"{found}\n{what} all the same? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("stopped; nothing was written, and nothing was paid")
