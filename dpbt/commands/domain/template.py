"""Write a domain to fill in, from the names of columns.

Of a CSV file only the header is read, so it must have one. Of a Parquet or Arrow file the schema is
read, which declares types. No value is read: ranges and categories are for you to fill in from what
the columns mean.
"""

import argparse
import sys
from pathlib import Path

from dpbt.commands import output
from dpbt.commands.errors import InputError, of_input
from dpbt.data import files
from dpbt.data.templates import DECLARE_TYPES, LABEL_TYPES, template


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "a CSV file with a header, or a Parquet or Arrow file"
    parser.add_argument("file", metavar="ROWS", nargs="?", help=words)
    words = "the names of the columns, in place of a file"
    parser.add_argument("--columns", nargs="+", metavar="NAME", help=words)
    parser.add_argument("--label", metavar="NAME", help="the column of the label")
    words = "the label is one of two classes, of several, or a number (%(default)s)"
    parser.add_argument("--label-type", choices=LABEL_TYPES, default=LABEL_TYPES[0], help=words)
    output.add_out(parser, "the file of the domain, in place of standard output")


def run(options: argparse.Namespace) -> None:
    """Print or write the template.

    Raises:
        InputError: for a file that has no names, or names that no domain can have.
    """
    if (options.file is None) == (options.columns is None):
        raise InputError("give either a file or --columns")
    path = None if options.out is None else output.free(options)
    try:
        with of_input():
            text = template(_columns(options), options.label, options.label_type)
    except ImportError as error:
        raise InputError(str(error)) from error
    if path is None:
        sys.stdout.write(text)
        return
    output.write(path, text)
    print(f"wrote {path}; fill in what is null, empty or open")


def _columns(options: argparse.Namespace):
    """What `template` takes: names, or a schema."""
    if options.file is None:
        return options.columns
    if Path(options.file).suffix.lower() in DECLARE_TYPES:
        open(options.file, "rb").close()  # a file that is not there has the usual error
        return options.file
    return files.names_of(options.file)
