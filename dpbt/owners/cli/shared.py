"""What all command lines share: errors, a parser, types of arguments, what is read and written.

A command is a function of the parsed options, which `command` says. It is also a module with a
docstring, `arguments(parser)` and `run(options)`. The docstring's first line is its summary. One
with `PROGRAMS` has sub-commands: the names of modules in a package, or commands by name.

An option, a file or a domain that a person got wrong is one line and exit status 2. Any other error
is a bug and keeps its traceback.
"""

import argparse
import contextlib
import functools
import importlib
import inspect
import math
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import dpbt
from dpbt.common.watching import is_terminal
from dpbt.data import domains, files, kinds
from dpbt.data.domains import Domain, Label
from dpbt.models.scoring import BLOCK_ROWS
from dpbt.owners import file_report
from dpbt.owners.cli import programs
from dpbt.public_types import BOOSTED, FORESTS

if TYPE_CHECKING:
    from dpbt.types import Recipe

BAD_INPUT, INTERRUPTED, NO_READER = 2, 130, 141
"""Exit statuses; the last two are those of shells for Ctrl-C and for a pipe that nobody reads."""


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


def status_of(parser: "Parser", given: list[str] | None = None) -> int:
    """Run a command line; errors of input and Ctrl-C become one line on standard error.

    Args:
        parser: of the options, which hold the `program` to run.
        given: the words of the command line; None for those of this process. Without any, a parser
            of commands shows its help.

    Returns:
        The program's own exit status, `BAD_INPUT`, `INTERRUPTED` or `NO_READER`.
    """

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = show  # without the place in the code
            if given == [] and parser._commands:
                parser.print_help()
                return 0
            options = parser.parse_args(given)
            status = options.program(options) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # as of `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except (InputError, OSError) as error:
        words = str(error)
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            words = f"{error.filename}: {error.strerror}"
        print(f"error: {' '.join(words.split(chr(10)))}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from what it saved", file=sys.stderr)
        return INTERRUPTED


# Commands and their options.


class Parser(argparse.ArgumentParser):
    """A parser that raises an error instead of printing its usage and exiting.

    Args:
        command: what it reads the options of, which is imported when there are some to read.
        **options: of `argparse.ArgumentParser`.
    """

    def __init__(self, command: Any = None, **options):
        lines = functools.partial(
            argparse.RawDescriptionHelpFormatter, max_help_position=24, width=96
        )
        super().__init__(formatter_class=lines, allow_abbrev=False, **options)
        self._command = command
        self._commands: Mapping[str, Any] = {}

    def parse_known_args(self, *given):  # type: ignore[override]
        """As `argparse.ArgumentParser` does, after the options were added."""
        if self._command is not None:
            command, self._command = _found(self._command), None
            self.description = inspect.cleandoc(command.__doc__ or "")
            if hasattr(command, "PROGRAMS"):
                names, below = command.PROGRAMS, command.__name__
                more = isinstance(names, Mapping)
                add_commands(self, names if more else {one: f"{below}.{one}" for one in names})
            else:
                for name, more in getattr(command, "options", ()):
                    self.add_argument(name, **more)
                if hasattr(command, "arguments"):
                    command.arguments(self)
                self.set_defaults(program=command.run)
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


def add_commands(parser: Parser, commands: Mapping[str, Any]) -> None:
    """Add sub-commands; the parsed options hold the `run` of one as `program`.

    Args:
        parser: the parser of the command.
        commands: each sub-command by name: a function or a module, or the full name of one.
    """
    parser._commands = commands
    added = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in commands.items():
        added.add_parser(name, command=command)


def _found(command: Any) -> Any:
    """A command, which is imported if it is a name: MODULE or MODULE:FUNCTION."""
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


def number(words: str, good: Callable[[float], bool]) -> Callable[[str], float]:
    """The type of an argument that is a number of which something holds. It is never NaN."""

    def read(text: str) -> float:
        if "_" in text or not text.isascii() or math.isnan(found := float(text)):
            raise ValueError
        if not good(found):
            raise argparse.ArgumentTypeError(f"must be {words}, got {text}")
        return found

    read.__name__ = "number"
    return read


finite = number("greater than 0 and finite", lambda number: 0 < number < math.inf)
"""The type of an argument that is a finite number above 0."""

share = number("at least 0 and less than 1", lambda number: 0 <= number < 1)
"""The type of an argument that is a number in [0, 1)."""


def direction(text: str) -> tuple[str, int]:
    """The type of an argument NAME=+1 or NAME=-1."""
    name, _, number = text.rpartition("=")
    if not name or number not in ("1", "+1", "-1"):
        raise argparse.ArgumentTypeError(f"must be NAME=+1 or NAME=-1, got {text!r}")
    return name, int(number)


RECIPES = (*BOOSTED, *FORESTS)

_VALUES: dict[str, dict[str, Any]] = {
    "N": {"type": whole(1)},
    "K": {"type": whole(1)},
    "SEED": {"type": whole(0, 2**31 - 1)},
    "EPSILON": {"type": finite, "required": True},
    "DELTA": {"type": share, "default": 0.0},
    "RECIPE": {"choices": RECIPES, "default": RECIPES[0]},
    "RELATION": {"choices": ("add_remove", "replace_one"), "default": "add_remove"},
    "Q": {"type": share},
    "SHARE": {"type": share},
    "OBJECTIVE": {"choices": ("squared", "poisson", "quantile")},
    "NAME=+1": {"type": direction, "action": "append"},
}
"""How values are read, by what the help calls them; all others are texts."""

Option = tuple[str, dict[str, Any]]
"""The name of an option, and how `argparse` reads it."""


def option(name: str, words: str, **more: Any) -> Option:
    """An option of a command, or an argument.

    Args:
        name: "--name VALUE", or "--name" for what is given or not, or "name VALUE" for an argument.
        words: its help.
        **more: of `add_argument`.
    """
    name, _, value = name.partition(" ")
    read = {"metavar": value, **_VALUES.get(value, {})} if value else {"action": "store_true"}
    return name, {"help": words, **read, **more}


def command(*options: Option) -> Callable[[Callable], Any]:
    """Make a function of the parsed options a command, whose help is its docstring."""

    def declared(run: Any) -> Any:
        run.options, run.run = options, run
        return run

    return declared


ROWS = "a CSV file, which may be packed (.gz, .zip), or a Parquet file"
DOMAIN = "the public domain and the label, as JSON; `domain template` writes one"
BOUND = "a public bound on the number of rows; under replace_one their public number"
MODEL = option("model MODEL", "a file that `fit` wrote")
PROGRESS = option(
    "--progress",
    "say what is done also in a log: stages and rounds, no rows and no time",
    default=None,
)
YES = option("--yes", "do not show on a terminal what is doubtful in the rows, and do not ask")
FORM = (
    option("--delimiter CHAR", "between cells; by default that of the header"),
    option(
        "--no-header NAMES",
        "the file has no header line: its columns are the domain's, the label, the weight and the "
        "user, or these names, separated by commas",
        nargs="?",
        const="",
    ),
    option("--row-names", "each line begins with a name of its row, which the header lacks"),
)
"""How a file of text is laid out."""

PEOPLE = (
    option("--relation RELATION", "what neighbours differ by: %(choices)s (%(default)s)"),
    option(
        "--max-rows-per-user K",
        "the most rows a person has, as you promise (1); a domain with a user column limits them",
        default=1,
    ),
)
"""What neighbours differ in."""

_TWO: Any = {"nargs": 2, "metavar": "NAME", "action": "append"}

RECIPE = (
    option("--domain FILE", DOMAIN, required=True),
    option("--rows N", BOUND, required=True),
    option("--epsilon EPSILON", "the total budget, such as 1"),
    option("--delta DELTA", "0 for a pure guarantee (%(default)s)"),
    *PEOPLE,
    option("--recipe RECIPE", "one of %(choices)s (%(default)s)"),
    option("--objective OBJECTIVE", "of a number: squared, poisson for a count, or quantile"),
    option("--quantile Q", "the level of a quantile, such as .9"),
    option("--rounds N", "the rounds of the recipe, where it takes a number of them"),
    option("--depth N", "the depth of the recipe, where it takes a number of them"),
    option("--monotone NAME=+1", "predictions must not fall (+1) or rise (-1) with it; for each"),
    option("--pair", "two columns that act together, for `additive`; for each", **_TWO),
)
"""What a recipe is made of."""


# What commands write.


FORCE = option("--force", "replace the file if it exists")


def out(words: str, required: bool = False) -> tuple[Option, Option]:
    """--out and --force, which `path_to_write` reads."""
    return option("--out FILE", words, required=required), FORCE


def path_to_write(options: argparse.Namespace, name: str = "out") -> Path:
    """The file of --out or another option, if it may be written. Commands ask before they work.

    Raises:
        InputError: if it is a folder, or exists without --force, or its folder cannot be written.
    """
    path = Path(getattr(options, name))
    if path.is_dir():
        raise InputError(f"{path}: a folder, where --{name} needs the name of a file")
    if path.exists() and not options.force:
        raise InputError(f"{path}: the file exists; --force replaces it")
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


# What commands read.


def declared(path: str, options: argparse.Namespace | None = None) -> tuple[Domain, Label]:
    """The domain and the label of a JSON file.

    Args:
        path: of the file.
        options: of rows, whose names its patterns may cover.

    Raises:
        InputError: saying what is wrong with it, or with the header.
        OSError: if a file cannot be read.
    """
    seen: list[str] = []

    def names() -> Iterator[str]:
        assert options is not None
        seen.extend(names_in(options))
        yield from seen

    with of_input():
        domain, label = domains.read_domain(path, None if options is None else names())
        if options is not None and seen and not Path(options.file).is_dir():
            # Without a header these names are cells, so no later error may show one.
            files.check_header_has_names(
                f"{options.file}, line 1", seen, label.column_names, files.HEADER_ADVICE
            )
        return domain, label


def names_in(options: argparse.Namespace) -> Iterator[str]:
    """The public names of the columns of the rows; the file is opened when the first is asked for.

    Raises:
        InputError: for a file without them, and a pipe, which can be read once.
        OSError: if it cannot be read.
    """
    path = Path(options.file)
    with of_input():
        if path.is_dir():
            yield from dpbt.blocks.open_folder(path).manifest.domain
            return
        form = form_of(options, ())
        if form.names == () or (form.names is None and path.exists() and not path.is_file()):
            raise InputError(f"{path}: its names are not known; give --no-header NAMES")
        yield from files.column_names(path, form)


def recipe_of(options: argparse.Namespace, domain: Domain, label: Label) -> "Recipe":
    """The recipe of the options `RECIPE`, whose programs are kept (`programs`).

    Args:
        options: the options.
        domain: the public domain.
        label: what is predicted.

    Raises:
        InputError: for numbers out of range, and for options and labels that the recipe does not
            take.
    """
    programs.keep_for_user()
    names = "epsilon", "delta", "rows", "relation", "max_rows_per_user", "rounds", "depth"
    given = {name: getattr(options, name) for name in names}
    given["domain"] = domain
    if label.user is not None:
        if options.max_rows_per_user not in (1, label.user.max_rows):
            raise InputError(
                f"--max-rows-per-user: the domain limits them to {label.user.max_rows}"
            )
        given["max_rows_per_user"] = label.user.max_rows
    given["monotone"] = None if options.monotone is None else dict(options.monotone)
    given["pairs"] = options.pair
    objective = options.objective or (options.quantile and "quantile")
    with of_input():
        given["target"] = kinds.target_with_objective(label.target, objective, options.quantile)
        return dpbt.recipes.make_recipe(options.recipe, given, dpbt.recipes.NAMED)


def form_of(options: argparse.Namespace, names: Iterable[str]) -> files.TextForm:
    """What the options `FORM` say of a file, whose columns have these names by default.

    Raises:
        InputError: for a delimiter that is none.
    """
    delimiter, header = options.delimiter, options.no_header
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        raise InputError(f"--delimiter must be one character, such as ; or \\t, got {delimiter!r}")
    if header is None:
        return files.TextForm(delimiter, row_names=options.row_names)
    stated = tuple(header.split(",")) if header else tuple(names)
    return files.TextForm(delimiter, stated, options.row_names)


def report(
    file: str, domain: Domain, label: Label, form: files.TextForm = files.CSV_WITH_HEADER
) -> file_report.OwnerReport:
    """The report of the owner on a file of rows.

    Raises:
        InputError: for what is none.
        OSError: if it cannot be read.
    """
    if Path(file).is_dir():
        raise InputError(f"{file}: a folder of blocks; check the rows before converting them")
    with of_input(file):
        faults: Counter[str] = Counter()
        blocks = files.iter_column_blocks(
            file, (*domain, *label.column_names), BLOCK_ROWS, form, faults
        )
        return file_report.report(domain, label, blocks, faults)


def ask(
    file: str,
    domain: Domain,
    label: Label,
    yes: bool,
    what: str,
    form: files.TextForm = files.CSV_WITH_HEADER,
) -> None:
    """On a terminal, show the owner what is doubtful in the rows, and ask whether to go on.

    With `yes`, without a terminal, or from a pipe no row is read, and nothing depends on any. A
    folder of blocks was checked before it was converted.

    Args:
        file: of the rows, or a folder of blocks.
        domain: the public domain.
        label: of the rows.
        yes: go on without a question.
        what: would be done.
        form: how the file is laid out.

    Raises:
        InputError: if the owner stops, and as `report`.
        OSError: as `report`.
    """
    asked = is_terminal(sys.stdin, sys.stderr) and not yes
    if not asked or not Path(file).is_file():  # a pipe is read once
        return
    found = report(file, domain, label, form)
    if not found.doubtful:
        return
    print(f"{found}\n{what} all the same? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("stopped; nothing was written, and nothing was paid")
