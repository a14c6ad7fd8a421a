"""Write a file of rows to a folder of blocks, for tables that are larger than memory.

Each row is read by itself, and no cell is an error, as in `fit`. The folder is as private as the
rows, and only its owner may read it. `fit` then takes the folder in place of the file.
"""

import argparse

from dpbt.cli import check, inputs, output
from dpbt.cli import options as kinds
from dpbt.cli.errors import of_input


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "the public domain and the label, as JSON; `domain template` writes one to fill in"
    parser.add_argument("domain", metavar="DOMAIN", help=words)
    parser.add_argument("file", metavar="ROWS", help="a CSV file with a header, or a Parquet file")
    words = "the folder of the blocks; it must not exist"
    parser.add_argument("folder", metavar="FOLDER", help=words)
    words = "a public bound on the number of rows; without it their number is public"
    parser.add_argument("--capacity", type=kinds.whole(1), metavar="N", help=words)
    words = "how many rows a block has (%(default)s)"
    options = {"type": kinds.whole(1), "default": 2**20, "metavar": "K", "help": words}
    parser.add_argument("--rows-per-block", **options)
    check.add_yes(parser)


def run(options: argparse.Namespace) -> None:
    """Convert, and say where the table is.

    Raises:
        InputError: for a file, a folder or an option that is not as expected. No cell is shown, and
            no number of rows where a capacity hides it.
    """
    domain, label = inputs.declared(options.domain)
    check.ask(options.file, domain, label, options.yes, "Convert")
    from dpbt.data import convert

    with of_input(), output.working(f"reading {options.file}"):
        chosen = {"capacity": options.capacity, "rows_per_block": options.rows_per_block}
        convert.convert_file(options.file, domain, label, options.folder, **chosen)
    print(f"wrote {options.folder}: private, as the rows are")
