"""Commands about rows: write a domain to fill in, check how it reads them, and convert them."""

import argparse
import sys
from typing import ClassVar

from dpbt.cli import shared
from dpbt.cli.shared import InputError, add_out, free, is_terminal, of_input, whole, working
from dpbt.common.storage import write_whole
from dpbt.data import domains, files


class Template:
    """Write a domain to fill in, from the names of columns.

    Of a file only the names of its columns are read, in the header of CSV. No value is read: kinds,
    ranges and categories are for you to fill in from what the columns mean.
    """

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        words = "a CSV file with a header, or a Parquet file"
        parser.add_argument("file", metavar="ROWS", nargs="?", help=words)
        words = "the names of the columns, in place of a file"
        parser.add_argument("--columns", nargs="+", metavar="NAME", help=words)
        parser.add_argument("--label", metavar="NAME", help="the column of the label")
        words = "the label is one of two classes, of several, or a number (%(default)s)"
        chosen = {"choices": domains.LABEL_TYPES, "default": domains.LABEL_TYPES[0]}
        parser.add_argument("--label-type", **chosen, help=words)
        add_out(parser, "the file of the domain, in place of standard output")

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Print or write the template.

        Raises:
            InputError: for a file that has no names, or names that no domain can have.
        """
        if (options.file is None) == (options.columns is None):
            raise InputError("give either a file or --columns")
        path = None if options.out is None else free(options)
        columns = options.columns
        with of_input():
            if options.file is not None:
                columns = files.names_of(options.file)
            text = domains.template(columns, options.label, options.label_type)
        if path is None:
            sys.stdout.write(text)
            return
        write_whole(path, lambda part: part.write_bytes(text.encode()))
        print(f"wrote {path}; fill in what is null, empty or open")


class Domains:
    """Write a domain to fill in."""

    PROGRAMS: ClassVar = {"template": Template}


class Check:
    """Show the owner of rows how a domain reads them, before a budget is spent on them.

    It counts rows whose label is not as declared, cells without a value, and columns whose values
    all lie in one bin. The counts are private, so they are shown on a terminal alone: standard
    output that goes elsewhere is refused, and the exit status says nothing of the rows. Nothing is
    learned and nothing is paid. `fit` and `convert` run the same check on a terminal.
    """

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        words = "a CSV file with a header, or a Parquet file"
        parser.add_argument("file", metavar="ROWS", help=words)
        words = "the public domain and the label, as JSON"
        parser.add_argument("--domain", metavar="FILE", required=True, help=words)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Print the report of the owner.

        Raises:
            InputError: without a terminal, and for a file or a domain that is not as expected. No
                cell is an error.
            OSError: if a file cannot be read.
        """
        if not is_terminal(sys.stdout):
            raise InputError(
                "check prints exact counts of private rows, so it does so on a terminal alone"
            )
        domain, label = shared.declared(options.domain)
        print(shared.report(options.file, domain, label))


class Convert:
    """Write a file of rows to a folder of blocks, for tables that are larger than memory.

    Each row is read by itself, and no cell is an error, as in `fit`. The folder is as private as
    the rows, and only its owner may read it. `fit` then takes the folder in place of the file.
    """

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        words = "the public domain and the label, as JSON; `domain template` writes one to fill in"
        parser.add_argument("domain", metavar="DOMAIN", help=words)
        parser.add_argument(
            "file", metavar="ROWS", help="a CSV file with a header, or a Parquet file"
        )
        words = "the folder of the blocks; it must not exist"
        parser.add_argument("folder", metavar="FOLDER", help=words)
        words = "a public bound on the number of rows; without it their number is public"
        parser.add_argument("--capacity", type=whole(1), metavar="N", help=words)
        words = "how many rows a block has (%(default)s)"
        options = {"type": whole(1), "default": 2**20, "metavar": "K", "help": words}
        parser.add_argument("--rows-per-block", **options)
        shared.add_yes(parser)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Convert, and say where the table is.

        Raises:
            InputError: for a file, a folder or an option that is not as expected. No cell is shown,
                and no number of rows where a capacity hides it.
        """
        domain, label = shared.declared(options.domain)
        shared.ask(options.file, domain, label, options.yes, "Convert")
        from dpbt.data import convert

        with of_input(), working(f"reading {options.file}"):
            chosen = {"capacity": options.capacity, "rows_per_block": options.rows_per_block}
            convert.convert_file(options.file, domain, label, options.folder, **chosen)
        print(f"wrote {options.folder}: private, as the rows are")
