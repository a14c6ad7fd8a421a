"""Commands about rows: check how a domain reads them, and convert them."""

import argparse
import contextlib
import sys

import dpbt
from dpbt.cli import shared
from dpbt.cli.shared import DOMAIN, ROWS, InputError, command, of_input, option
from dpbt.common.watching import working


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
