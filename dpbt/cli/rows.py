"""Commands about rows: write a domain to fill in, check how it reads them, and convert them."""

import argparse
import sys
from typing import ClassVar

import dpbt
from dpbt.cli import shared
from dpbt.cli.shared import DOMAIN, ROWS, InputError, command, of_input, option, out
from dpbt.common.storage import write_whole
from dpbt.common.watching import working
from dpbt.data import domains, files

_TYPES = domains.LABEL_TYPES


@command(
    option("file ROWS", ROWS),
    option("--label NAME", "the column of the label"),
    option("--label-type TYPE", "one of %(choices)s (%(default)s)", choices=_TYPES, default="two"),
    option("--user NAME", "the column of ids that say whose a row is, to limit rows per user"),
    *out("the file of the domain, in place of standard output"),
)
def template(options: argparse.Namespace) -> None:
    """Write a domain to fill in, from the names of columns.

    Of a file only the names of its columns are read, in the header of CSV. No value is read: kinds,
    ranges and categories are for you to fill in from what the columns mean.
    """
    path = None if options.out is None else shared.free(options)
    with of_input():
        names = files.names_of(options.file)
        text = domains.template(names, options.label, options.label_type, options.user)
    if path is None:
        sys.stdout.write(text)
        return
    write_whole(path, lambda part: part.write_bytes(text.encode()))
    print(f"wrote {path}; fill in what is null, empty or open")


class Domains:
    """Write a domain to fill in."""

    PROGRAMS: ClassVar = {"template": template}


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
    domain, label = shared.declared(options.domain)
    form = shared.form_of(options, (*domain, *label.columns))
    print(shared.report(options.file, domain, label, form))


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
    domain, label = shared.declared(options.domain)
    form = shared.form_of(options, (*domain, *label.columns))
    shared.ask(options.file, domain, label, options.yes, "Convert", form)
    with of_input(), working(f"reading {options.file}", options.progress):
        chosen = {"capacity": options.capacity, "rows_per_block": options.rows_per_block}
        dpbt.convert.convert_file(options.file, domain, label, options.folder, form, **chosen)
    print(f"wrote {options.folder}: private, as the rows are")
