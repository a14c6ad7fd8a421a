"""Commands about rows: write a domain to fill in, check how it reads them, and convert them."""

import argparse
import contextlib
import math
import sys
from typing import ClassVar

import dpbt
from dpbt.cli import shared
from dpbt.cli.shared import DOMAIN, ROWS, InputError, command, of_input, option, out
from dpbt.common.storage import write_whole
from dpbt.common.watching import working
from dpbt.data import domains, schemas
from dpbt.data.cells import number

_TYPES = domains.LABEL_TYPES


SOURCE = (
    option("file ROWS", f"{ROWS}, of which the names of columns are read", nargs="?"),
    option("--from-schema FILE", "a Parquet file, or a Table Schema in JSON, in place of rows"),
    *shared.FORM,
)


@command(
    *SOURCE,
    option("--label NAME", "the column of the label"),
    option("--label-type TYPE", "one of %(choices)s (%(default)s)", choices=_TYPES, default="two"),
    option("--user NAME", "the column of ids that say whose a row is, to limit rows per user"),
    option("--all KIND", "one declaration of all columns: %(choices)s", choices=domains.KINDS),
    *out("the file of the domain, in place of standard output"),
)
def template(options: argparse.Namespace) -> None:
    """Write a domain to fill in, from the names of columns.

    Of a file only the names of its columns are read, in the header of CSV, and of Parquet also the
    types in its schema. No value is read: kinds, ranges and categories are for you to fill in from
    what the columns mean. A Table Schema has declared some of them.
    """
    path = None if options.out is None else shared.free(options)
    columns = columns_of(options, options.label)
    with of_input():
        more = options.label_type, options.all, options.user
        text = domains.template(columns, options.label, *more)
    if path is None:
        sys.stdout.write(text)
        return
    write_whole(path, lambda part: part.write_bytes(text.encode()))
    print(f"wrote {path}; fill in what is null, empty or open")


def columns_of(
    options: argparse.Namespace, label: str | None = None, sure: bool = False
) -> dict[str, dict]:
    """What is known of the columns of a file of rows or of a schema, by their names.

    Args:
        options: of `SOURCE`.
        label: a name that is surely in a header.
        sure: whether the owner is asked about the header.

    Raises:
        InputError: for what is none, and for names that look like the cells of a row.
        OSError: if a file cannot be read.
    """
    if (options.file is None) == (options.from_schema is None):
        raise InputError("give either a file of rows or --from-schema")
    path = options.file or options.from_schema
    with of_input():
        if options.from_schema or path.lower().endswith(".parquet"):
            schema = schemas.columns_of(path)
            for name, kind in schema.left_out.items():
                print(f"left out: {name}, of type {kind}: no cell is read", file=sys.stderr)
            return schema.columns
        names = [*shared.names_in(options)]
    odd = any(not name or not math.isnan(number(name)) for name in names)
    if odd and not sure and options.no_header is None and label not in names:
        raise InputError(
            f"{path}, line 1: some names are numbers or empty; is there a header line? Else give "
            "the names by --no-header NAMES, or show by --label NAME that this is one"
        )
    return dict.fromkeys(names, domains.OPEN)


class Domains:
    """Write a domain to fill in, or answer questions about it."""

    PROGRAMS: ClassVar = {"template": template, "new": "dpbt.cli.asking:new"}


@command(option("file ROWS", ROWS), option("--domain FILE", DOMAIN, required=True), *shared.FORM)
def check(options: argparse.Namespace) -> None:
    """Show the owner of rows how a domain reads them, before a budget is spent on them.

    It counts rows whose label is not as declared, cells without a value, and columns whose values
    all lie in one bin. The counts are private, so they are shown on a terminal alone: standard
    output that goes elsewhere is refused, and the exit status says nothing of the rows. Nothing is
    learned and nothing is paid. `fit` and `convert` run the same check on a terminal.
    """
    if not shared.is_terminal(sys.stdout):
        raise InputError(
            "check prints exact counts of private rows, so it does so on a terminal alone"
        )
    try:
        domain, label = shared.declared(options.domain, options)
        form = shared.form_of(options, (*domain, *label.columns))
        print(shared.report(options.file, domain, label, form))
    except InputError:
        with contextlib.suppress(ValueError, OSError):  # there may be no line
            names = [] if options.file.endswith(".parquet") else [*shared.names_in(options)]
            print(f"private if there is no header: the names in the first line\n  {names}")
        raise


@command(
    option("domain DOMAIN", DOMAIN),
    option("file ROWS", ROWS),
    option("folder FOLDER", "the folder of the blocks; it must not exist"),
    option("--capacity N", "a public bound on the number of rows; without it that is public"),
    option("--rows-per-block K", "how many rows a block has (%(default)s)", default=2**20),
    shared.YES,
    shared.PROGRESS,
    *shared.FORM,
)
def convert(options: argparse.Namespace) -> None:
    """Write a file of rows to a folder of blocks, for tables that are larger than memory.

    Each row is read by itself, and no cell is an error, as in `fit`. The folder is as private as
    the rows, and only its owner may read it. `fit` then takes the folder in place of the file.
    """
    domain, label = shared.declared(options.domain, options)
    form = shared.form_of(options, (*domain, *label.columns))
    shared.ask(options.file, domain, label, options.yes, "Convert", form)
    with of_input(), working(f"reading {options.file}", options.progress):
        chosen = {"capacity": options.capacity, "rows_per_block": options.rows_per_block}
        dpbt.convert.convert_file(options.file, domain, label, options.folder, form, **chosen)
    print(f"wrote {options.folder}: private, as the rows are")
