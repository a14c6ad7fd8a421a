"""Show the owner of rows how a domain reads them, before a budget is spent on them.

It counts rows whose label is not as declared, cells without a value, and columns whose values all
lie in one bin. The counts are private, so they are shown on a terminal alone: standard output that
goes elsewhere is refused, and the exit status says nothing of the rows. Nothing is learned and
nothing is paid. `fit` and `convert` run the same check on a terminal.
"""

import argparse
import sys
from pathlib import Path

from dpbt.cli import inputs, output
from dpbt.cli.errors import InputError, of_input
from dpbt.data.domains import Domain, Label
from dpbt.data.owner import OwnerReport
from dpbt.release.scoring import BLOCK_ROWS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "a CSV file with a header, or a Parquet file"
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
    if not output.is_terminal(sys.stdout):
        raise InputError(
            "check prints exact counts of private rows, so it does so on a terminal alone"
        )
    domain, label = inputs.declared(options.domain)
    print(report(options.file, domain, label))


def report(file: str, domain: Domain, label: Label) -> OwnerReport:
    """The report of the owner on a file of rows.

    Raises:
        InputError: for what is none.
        OSError: if it cannot be read.
    """
    from dpbt.data import files, owner

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
        yes: go on without a split.
        what: would be done.

    Raises:
        InputError: if the owner stops, and as `report`.
        OSError: as `report`.
    """
    asked = output.is_terminal(sys.stdin, sys.stderr) and not yes
    if not asked or not Path(file).is_file():  # a pipe is read once
        return
    found = report(file, domain, label)
    if not found.doubtful:
        return
    print(f"{found}\n{what} all the same? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("stopped; nothing was written, and nothing was paid")
