"""Show what a budget was spent on, and what is left; --ledger adds every draw that was paid for."""

import argparse

from dpbt.commands import inputs
from dpbt.commands.errors import of_input


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("filter", metavar="FILE", help="a file that `filter new` wrote")
    parser.add_argument("--ledger", action="store_true", help="print the ledger of all fits, too")


def run(options: argparse.Namespace) -> None:
    """Print the filter.

    Raises:
        InputError: for a file that is no filter.
    """
    opened = inputs.filter_of(options.filter)
    print(opened)
    if options.ledger:
        with of_input():
            print(f"\n{opened.ledger}")
