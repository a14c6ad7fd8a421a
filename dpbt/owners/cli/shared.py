"""The shared parts of all command lines: errors, a parser, options, and files read and written.

A command is a function of the parsed options with the decorator `as_command`, or a module with a
docstring, `add_arguments(parser)` and `run_command(options)`. The docstring's first line is its
summary. A module with `PROGRAMS` has sub-commands: the names of modules in a package, or commands
by name.

A wrong option, file or domain ends in one line and exit status 2. Any other error is a bug and
keeps its traceback.
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
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import dpbt
from dpbt.common.progress import is_terminal
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


def run_command_line(parser: "Parser", words: list[str] | None = None) -> int:
    """Run a command line. Errors of input and Ctrl-C become one line on standard error.

    Args:
        parser: parses the options, one of which is the `program` to run.
        words: the words of the command line; None for those of this process. If there are none, a
            parser of commands shows its help.

    Returns:
        The program's own exit status, `BAD_INPUT`, `INTERRUPTED` or `NO_READER`.
    """

    def print_warning(message: Warning | str, *_: object, **__: object) -> None:
        print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = print_warning  # without the place in the code
            if words == [] and parser._commands:
                parser.print_help()
                return 0
            options = parser.parse_args(words)
            status = options.program(options) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # as of `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except (InputError, OSError) as error:
        reason = str(error)
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            reason = f"{error.filename}: {error.strerror}"
        print(f"error: {' '.join(reason.split(chr(10)))}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from what it saved", file=sys.stderr)
        return INTERRUPTED


# Commands and their options.


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
                add_commands(self, _sub_commands(command))
            else:
                for name, reading in getattr(command, "options", ()):
                    self.add_argument(name, **reading)
                if hasattr(command, "add_arguments"):
                    command.add_arguments(self)
                self.set_defaults(program=command.run_command)
        return super().parse_known_args(*arguments)

    def format_help(self) -> str:
        """The help, with a line for each sub-command."""
        lines = [
            f"  {name:{max(map(len, self._commands))}}  "
            + inspect.cleandoc(_import_command(command).__doc__ or "").splitlines()[0]
            for name, command in self._commands.items()
        ]
        return super().format_help() + "\n".join(["\ncommands:", *lines, ""] if lines else [])

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            InputError: always; it names the option, its value, and where help is.
        """
        words = message.removeprefix("argument ").replace(": ", " ", 1)
        raise InputError(f"{words} (see {self.prog} --help)")


def add_commands(parser: Parser, commands: Mapping[str, Any]) -> None:
    """Add sub-commands. The parsed options hold the function of the chosen one as `program`.

    Args:
        parser: the parser of the command.
        commands: each sub-command by name: a function or a module, or the full name of one.
    """
    parser._commands = commands
    parsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in commands.items():
        parsers.add_parser(name, command=command)


def _import_command(command: Any) -> Any:
    """A command, which is imported if it is a name: MODULE or MODULE:FUNCTION."""
    if not isinstance(command, str):
        return command
    module_name, _, function_name = command.partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, function_name) if function_name else module


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


ROWS_HELP = "a CSV file, which may be packed (.gz, .zip), or a Parquet file"
DOMAIN_HELP = "the public domain and the label, as JSON; `domain template` writes one"
BOUND_HELP = "a public bound on the number of rows; under replace_one their public number"
MODEL_ARGUMENT = option("model MODEL", "a file that `fit` wrote")
PROGRESS_OPTION = option(
    "--progress",
    "say what is done also in a log: stages and rounds, no rows and no time",
    default=None,
)
YES_OPTION = option(
    "--yes", "do not show on a terminal what is doubtful in the rows, and do not ask"
)
FORM_OPTIONS = (
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
"""The options on the layout of a text file."""

NEIGHBOUR_OPTIONS = (
    option("--relation RELATION", "what neighbours differ by: %(choices)s (%(default)s)"),
    option(
        "--max-rows-per-user K",
        "the most rows a person has, as you promise (1); a domain with a user column limits them",
        default=1,
    ),
)
"""The options on neighbouring tables."""

_TWO_NAMES: Any = {"nargs": 2, "metavar": "NAME", "action": "append"}

RECIPE_OPTIONS = (
    option("--domain FILE", DOMAIN_HELP, required=True),
    option("--rows N", BOUND_HELP, required=True),
    option("--epsilon EPSILON", "the total budget, such as 1"),
    option("--delta DELTA", "0 for a pure guarantee (%(default)s)"),
    *NEIGHBOUR_OPTIONS,
    option("--recipe RECIPE", "one of %(choices)s (%(default)s)"),
    option("--objective OBJECTIVE", "of a number: squared, poisson for a count, or quantile"),
    option("--quantile Q", "the level of a quantile, such as .9"),
    option("--rounds N", "the rounds of the recipe, where it takes a number of them"),
    option("--depth N", "the depth of the recipe, where it takes a number of them"),
    option("--monotone NAME=+1", "predictions must not fall (+1) or rise (-1) with it; for each"),
    option("--pair", "two columns that act together, for `additive`; for each", **_TWO_NAMES),
)
"""The options from which a recipe is made."""


# Files that commands write.


FORCE_OPTION = option("--force", "replace the file if it exists")


def output_options(help_text: str, required: bool = False) -> tuple[Option, Option]:
    """The options --out and --force, which `checked_output_path` reads."""
    return option("--out FILE", help_text, required=required), FORCE_OPTION


def checked_output_path(options: argparse.Namespace, name: str = "out") -> Path:
    """The path of --out or another option, where a file can be written.

    Commands call it before they start to work.

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


def save_or_use_temporary_folder(path: Path, save: Callable[[Path], object]) -> Path:
    """Save a release that was paid for, in a temporary folder if it cannot be written to the path.

    Args:
        path: the file.
        save: writes the release to the path that it is called with.

    Returns:
        The path of the file. If it is in a temporary folder, standard error says so.

    Raises:
        OSError: naming the path, if the temporary folder cannot be written either.
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


# Files that commands read.


def read_domain_and_label(
    path: str, options: argparse.Namespace | None = None
) -> domains.DomainFile:
    """The domain and the label of a JSON file.

    Args:
        path: the path of the file.
        options: the options of a command that reads rows, whose names the patterns of the file may
            cover.

    Raises:
        InputError: stating what is wrong with the file, or with the header of the rows.
        OSError: if a file cannot be read.
    """
    names_in_file: list[str] = []

    def read_names() -> Iterator[str]:
        assert options is not None
        names_in_file.extend(iter_column_names(options))
        yield from names_in_file

    with as_input_error():
        declared = domains.read_domain(path, None if options is None else read_names())
        if options is not None and names_in_file and not Path(options.file).is_dir():
            # Without a header these names are cells, so no later error may show one.
            files.check_header_has_names(
                f"{options.file}, line 1",
                names_in_file,
                declared.label.columns,
                files.HEADER_ADVICE,
            )
        return declared


def iter_column_names(options: argparse.Namespace) -> Iterator[str]:
    """The public names of the columns of the rows. The file is opened for the first of them.

    Raises:
        InputError: for a file without names, and for a pipe, which can be read only once.
        OSError: if it cannot be read.
    """
    path = Path(options.file)
    with as_input_error():
        if path.is_dir():
            yield from dpbt.blocks.open_folder(path).manifest.domain
            return
        form = text_form_from_options(options, ())
        if form.names == () or (form.names is None and path.exists() and not path.is_file()):
            raise InputError(f"{path}: its names are not known; give --no-header NAMES")
        yield from files.column_names(path, form)


def recipe_from_options(options: argparse.Namespace, domain: Domain, label: Label) -> "Recipe":
    """The recipe of the options `RECIPE_OPTIONS`. Its programs are cached on disk (`programs`).

    Args:
        options: the parsed options.
        domain: the public domain.
        label: the declared label.

    Raises:
        InputError: for numbers out of range, and for options and labels that the recipe does not
            take.
    """
    programs.cache_compiled_programs_for_user()
    names = "epsilon", "delta", "rows", "relation", "max_rows_per_user", "rounds", "depth"
    arguments = {name: getattr(options, name) for name in names}
    arguments["domain"] = domain
    if label.user is not None:
        limit = label.user.max_rows
        if options.max_rows_per_user not in (1, limit):
            raise InputError(f"--max-rows-per-user: the domain limits them to {limit}")
        arguments["max_rows_per_user"] = limit
    arguments["monotone"] = None if options.monotone is None else dict(options.monotone)
    arguments["pairs"] = options.pair
    objective = options.objective or (options.quantile and "quantile")
    with as_input_error():
        arguments["target"] = kinds.target_with_objective(label.target, objective, options.quantile)
        return dpbt.recipes.make_recipe(options.recipe, arguments, dpbt.recipes.NAMED)


def text_form_from_options(options: argparse.Namespace, names: Iterable[str]) -> files.TextForm:
    """The layout of a text file that the options `FORM_OPTIONS` state.

    Args:
        options: the parsed options.
        names: the names of the columns of a file without a header, if the options state none.

    Raises:
        InputError: for a delimiter that is no single character.
    """
    delimiter, header = options.delimiter, options.no_header
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        raise InputError(f"--delimiter must be one character, such as ; or \\t, got {delimiter!r}")
    if header is None:
        return files.TextForm(delimiter, row_names=options.row_names)
    stated_names = tuple(header.split(",")) if header else tuple(names)
    return files.TextForm(delimiter, stated_names, options.row_names)


class DeclaredRows(NamedTuple):
    """A file of rows, or a folder of their blocks, with what is declared of it.

    Attributes:
        path: the path of the file or the folder.
        domain: the public domain.
        label: the label of the rows.
        form: the layout of the file, if it is text.
    """

    path: str
    domain: Domain
    label: Label
    form: files.TextForm = files.CSV_WITH_HEADER

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns that are read: attributes, label, weights and ids of users."""
        return *self.domain, *self.label.columns


def declared_rows(options: argparse.Namespace) -> DeclaredRows:
    """The rows of a command with the options --domain and `FORM_OPTIONS`; none of them is read.

    Raises:
        InputError: as `read_domain_and_label` and `text_form_from_options`.
        OSError: as `read_domain_and_label`.
    """
    rows = DeclaredRows(options.file, *read_domain_and_label(options.domain, options))
    if Path(options.file).is_dir():
        return rows
    return rows._replace(form=text_form_from_options(options, rows.column_names))


def owner_report_of_file(rows: DeclaredRows) -> file_report.OwnerReport:
    """The report to the owner of a file of rows.

    Raises:
        InputError: for a file that is no table, and for a folder of blocks.
        OSError: if it cannot be read.
    """
    if Path(rows.path).is_dir():
        raise InputError(f"{rows.path}: a folder of blocks; check the rows before converting them")
    with as_input_error(rows.path):
        faults: Counter[str] = Counter()
        blocks = files.iter_column_blocks(
            rows.path, rows.column_names, BLOCK_ROWS, rows.form, faults
        )
        return file_report.owner_report_of_rows(rows.domain, rows.label, blocks, faults)


def confirm_doubtful_rows(rows: DeclaredRows, *, skip: bool, action: str) -> None:
    """On a terminal, show the owner which columns of the rows are doubtful, and ask to go on.

    If `skip` is set, without a terminal, or for a pipe, no row is read, and nothing depends on any.
    A folder of blocks was checked before it was converted.

    Args:
        rows: the file, or a folder of blocks.
        skip: go on without a question.
        action: what the command is about to do, for the question.

    Raises:
        InputError: if the owner stops, and as `owner_report_of_file`.
        OSError: as `owner_report_of_file`.
    """
    can_ask = is_terminal(sys.stdin, sys.stderr) and not skip
    if not can_ask or not Path(rows.path).is_file():  # a pipe can be read only once
        return
    report = owner_report_of_file(rows)
    if not report.doubtful:
        return
    print(f"{report}\n{action} all the same? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("stopped; nothing was written, and nothing was paid")
