"""Show the owner of rows how a domain reads them, before a budget is spent on them.

It counts rows whose label is not as declared, cells without a value, and columns whose values all
lie in one cell. The counts are private, so they are shown on a terminal alone: standard output that
goes elsewhere is refused, and the exit status says nothing of the rows. Nothing is learned and
nothing is paid. `fit` runs the same check on a terminal.
"""

import argparse
import sys
from pathlib import Path

from dpbt.commands import inputs
from dpbt.commands.errors import InputError, of_input
from dpbt.data.domains import Domain, Label, Numeric
from dpbt.data.owner import OwnerReport
from dpbt.reader import BLOCK_ROWS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "a CSV file with a header, a Parquet file, or a folder that `convert` wrote"
    parser.add_argument("file", metavar="ROWS", help=words)
    words = "the public domain and the label, as JSON"
    parser.add_argument("--domain", metavar="FILE", required=True, help=words)


def run(options: argparse.Namespace) -> None:
    """Print the report of the owner.

    Raises:
        InputError: without a terminal, and for a file or a domain that is not as expected. No cell
            is an error.
        OSError: if a file cannot be read.
    """
    if not sys.stdout.isatty():
        raise InputError(
            "check prints exact counts of private rows, so it does so on a terminal alone"
        )
    domain, label = inputs.declared(options.domain)
    print(report(options.file, domain, label))


def report(file: str, domain: Domain, label: Label) -> OwnerReport:
    """The report of the owner on a file of rows, or on a folder of chunks.

    Raises:
        InputError: for what is neither, and for a folder of another domain.
        OSError: if it cannot be read.
    """
    from dpbt.data import files, owner

    if Path(file).is_dir():
        from dpbt.data import chunks

        with of_input():
            table = chunks.open_folder(file)
            if not table.has_domain(domain):
                raise InputError(f"{file}: converted with another domain")
            return owner.report_of_chunks(table, label.column)
    columns = {**domain, **label.kinds}
    if label.weight is not None:
        columns[label.weight.column] = Numeric(0, label.weight.most)
    try:
        with of_input(file):
            blocks = files.blocks_of_file(file, tuple(columns), BLOCK_ROWS)
            return owner.report(columns, label.column, blocks)
    except ImportError as error:
        raise InputError(str(error)) from error


def ask(file: str, domain: Domain, label: Label, yes: bool) -> None:
    """On a terminal, show the owner what is doubtful in the rows, and ask whether to go on.

    With `yes`, or without a terminal, no row is read, and nothing depends on any.

    Raises:
        InputError: if the owner stops, and as `report`.
        OSError: as `report`.
    """
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    found = report(file, domain, label)
    if not found.doubtful:
        return
    print(f"{found}\nThe domain may not fit: {', '.join(found.doubtful)}.", file=sys.stderr)
    print("Learn all the same, and pay for it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("stopped; nothing was learned, and nothing was paid")
