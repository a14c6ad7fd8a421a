"""Write a domain to fill in."""

import argparse
import sys

from dpbt.cli import output
from dpbt.cli.errors import InputError, of_input
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
        output.add_out(parser, "the file of the domain, in place of standard output")

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Print or write the template.

        Raises:
            InputError: for a file that has no names, or names that no domain can have.
        """
        if (options.file is None) == (options.columns is None):
            raise InputError("give either a file or --columns")
        path = None if options.out is None else output.free(options)
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


PROGRAMS = {"template": Template}
