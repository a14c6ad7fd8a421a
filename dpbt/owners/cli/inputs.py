"""What commands read: the options on rows, domains and recipes, and the files that these name."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dpbt
from dpbt.common.progress import is_terminal
from dpbt.data import column_types, domains, files
from dpbt.data.column_types import Column
from dpbt.data.domains import Domain, Label
from dpbt.models.scoring import BLOCK_ROWS
from dpbt.owners import file_report
from dpbt.owners.cli import compilation_cache
from dpbt.owners.cli.parsing import InputError, as_input_error, option

if TYPE_CHECKING:
    from dpbt.types import Recipe

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
    option("--skip-lines N", "how many lines, such as a title, stand above the header", default=0),
)
"""The options on the layout of a text file."""

DELTA_ANYWAY_OPTION = option(
    "--delta-anyway", "accept a delta of 1 / rows or more, which protects nobody"
)

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
    DELTA_ANYWAY_OPTION,
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


def read_domain_and_label(path: str) -> domains.DomainFile:
    """Read the domain and the label from a JSON file that names every column.

    Args:
        path: the path of the file.

    Raises:
        InputError: stating what is wrong with the file.
        OSError: if the file cannot be read.
    """
    with as_input_error():
        return domains.read_domain(path)


def read_domain_and_expand_column_patterns(options: argparse.Namespace) -> domains.DomainFile:
    """Read the domain and the label of --domain, and replace its patterns by columns of the rows.

    A pattern stands for the names of several columns. The header of the rows is read only if there
    are patterns, and it must then have the columns of the label.

    Args:
        options: the parsed options of a command that reads rows.

    Raises:
        InputError: stating what is wrong with the file, or with the header of the rows.
        OSError: if a file cannot be read.
    """
    names_in_file: list[str] = []

    def read_names() -> Iterator[str]:
        names_in_file.extend(iter_column_names_of_rows(options))
        yield from names_in_file

    with as_input_error():
        declared = domains.read_domain(options.domain, read_names())
        if names_in_file and not Path(options.file).is_dir():
            # Without a header these names are cells, so no later error may show one.
            files.check_header_has_names(
                f"{options.file}, line {options.skip_lines + 1}",
                names_in_file,
                declared.label.columns,
                files.HEADER_ADVICE,
            )
        return declared


def iter_column_names_of_rows(options: argparse.Namespace) -> Iterator[str]:
    """Yield the public names of the columns of a file of rows.

    The file is opened for the first name.

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
    """Build the recipe that the options of a command state.

    These are the `RECIPE_OPTIONS`. From then on JAX keeps its compiled programs on disk
    (`compilation_cache`).

    Args:
        options: the parsed options.
        domain: the public domain.
        label: the declared label.

    Raises:
        InputError: for numbers out of range, and for options and labels that the recipe does not
            take.
    """
    compilation_cache.cache_compiled_programs_for_user()
    names = "epsilon", "delta", "rows", "relation", "max_rows_per_user", "rounds", "depth"
    arguments = {name: getattr(options, name) for name in names}
    arguments["domain"] = domain
    arguments["delta_anyway"] = options.delta_anyway or None
    if label.user is not None:
        limit = label.user.max_rows
        if options.max_rows_per_user not in (1, limit):
            raise InputError(f"--max-rows-per-user: the domain limits them to {limit}")
        arguments["max_rows_per_user"] = limit
    arguments["monotone"] = None if options.monotone is None else dict(options.monotone)
    arguments["pairs"] = options.pair
    objective = options.objective or (options.quantile and "quantile")
    with as_input_error():
        arguments["target"] = column_types.target_with_objective(
            label.target, objective, options.quantile
        )
        return dpbt.recipes.make_recipe(options.recipe, arguments, dpbt.recipes.NAMED)


def text_form_from_options(
    options: argparse.Namespace, default_names: Iterable[str]
) -> files.TextForm:
    """Make the layout of a text file that the options of a command state.

    These are the `FORM_OPTIONS`.

    Args:
        options: the parsed options.
        default_names: the names of the columns of a file without a header, where the options state
            none.

    Raises:
        InputError: for a delimiter that is not a single character.
    """
    delimiter = options.delimiter
    header = options.no_header
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        raise InputError(f"--delimiter must be one character, such as ; or \\t, got {delimiter!r}")
    stated_names = None
    if header is not None:
        stated_names = tuple(header.split(",")) if header else tuple(default_names)
    return files.TextForm(delimiter, stated_names, options.row_names, options.skip_lines)


class DeclaredRows(NamedTuple):
    """The path of a file or folder of rows, with the domain, label and layout that it is read by.

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


def declared_rows_from_options(options: argparse.Namespace) -> DeclaredRows:
    """Make the path, domain, label and layout of the rows that the options name.

    No row is read.

    Raises:
        InputError: as `read_domain_and_expand_column_patterns` and `text_form_from_options`.
        OSError: as `read_domain_and_expand_column_patterns`.
    """
    rows = DeclaredRows(options.file, *read_domain_and_expand_column_patterns(options))
    if Path(options.file).is_dir():
        return rows
    check_parquet_dates_are_declared(
        rows.path, {**dict.fromkeys(rows.label.columns), **rows.domain}
    )
    return rows._replace(form=text_form_from_options(options, rows.column_names))


def check_parquet_dates_are_declared(
    rows_path: str, kind_by_column: Mapping[str, Column | None]
) -> None:
    """Refuse a Parquet file with a column of dates that the domain does not declare as dates.

    Args:
        rows_path: a file of rows; any but a Parquet file passes.
        kind_by_column: the declared kind of each column; None for labels, weights and ids of users.

    Raises:
        InputError: naming the file and the column.
        OSError: if the file cannot be read.
    """
    if not rows_path.lower().endswith(".parquet"):
        return
    with as_input_error():
        for name, type_name in files.parquet_column_types(rows_path).items():
            if name in kind_by_column:
                domains.refuse_undeclared_date_type(
                    f"{rows_path}: column {name!r}", type_name, kind_by_column[name]
                )


def make_owner_report_of_file(rows: DeclaredRows) -> file_report.OwnerReport:
    """Read a file of rows, and report to its owner how the domain reads them.

    A file without the label, such as one of rows to predict, is read without it.

    Raises:
        InputError: for a file that is not a table, and for a folder of blocks.
        OSError: if it cannot be read.
    """
    if Path(rows.path).is_dir():
        raise InputError(f"{rows.path}: a folder of blocks; check the rows before converting them")
    with as_input_error(rows.path):
        faults: Counter[str] = Counter()
        names = rows.column_names
        if Path(rows.path).is_file():  # a pipe can be read only once
            in_file = files.column_names(rows.path, rows.form)
            if set(rows.domain) <= set(in_file):  # the label may be lacking, as in rows to predict
                names = tuple(name for name in names if name in in_file)
        blocks = files.iter_column_blocks(rows.path, names, BLOCK_ROWS, rows.form, faults)
        return file_report.owner_report_of_rows(
            rows.domain, rows.label, blocks, faults, names=names
        )


def warn_owner_of_suspect_columns(report: file_report.OwnerReport) -> None:
    """Print a warning of columns that the domain may not read as meant, for the owner of the rows.

    Callers make sure that standard error, to which it goes, is a terminal.
    """
    lines = report.describe_suspect_columns().splitlines()
    if not report.suspect_columns:
        lines = [f"  {count} lines have {fault}" for fault, count in report.faults.items()]
    if lines:
        heading = "warning, for the owner of the rows alone: the domain may not read them as meant"
        print("\r\033[K" + "\n".join([heading, *lines]), file=sys.stderr)


def ask_owner_about_suspect_columns(
    rows: DeclaredRows, *, skip_question: bool, action: str
) -> None:
    """Show the owner which columns the domain may not fit, and ask whether to go on.

    This is done on a terminal alone. No row is read if `skip_question` is set, without a terminal,
    or for a pipe, so that nothing depends on any row. A folder of blocks was checked before it was
    converted.

    Args:
        rows: the file, or a folder of blocks.
        skip_question: whether to go on without a question.
        action: what the command is about to do, for the question.

    Raises:
        InputError: if the owner stops, and as `make_owner_report_of_file`.
        OSError: as `make_owner_report_of_file`.
    """
    can_ask = is_terminal(sys.stdin, sys.stderr) and not skip_question
    if not can_ask or not Path(rows.path).is_file():  # a pipe can be read only once
        return
    report = make_owner_report_of_file(rows)
    if not report.suspect_columns:
        return
    print(f"{report}\n{action} all the same? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("stopped; nothing was written, and nothing was paid")
