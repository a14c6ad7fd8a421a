"""Open a budget for many fits of the same rows, or show what is left of it."""

import argparse

from dpbt.cli import shared
from dpbt.cli.shared import finite, of_input, share, whole
from dpbt.privacy.accounting import MEASURES


class New:
    """Open a budget for many fits of the same rows, in a file that `fit --filter` spends from.

    The file is the budget. Do not copy it, and keep it where no backup puts an old one in its
    place: what an old copy says was not spent could be spent again.
    """

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        words = "the file of the filter; it must not exist"
        parser.add_argument("filter", metavar="FILE", help=words)
        words = "the budget of all fits together, such as 2"
        parser.add_argument("--epsilon", type=finite, required=True, help=words)
        words = "of all fits together; 0 for a pure guarantee (%(default)s)"
        parser.add_argument("--delta", type=share, default=0.0, help=words)
        words = "a public bound on the number of rows of the file of rows, which every fit must "
        words += "have; under replace_one their public number"
        parser.add_argument("--rows", type=whole(1), required=True, metavar="N", help=words)
        shared.add_relation(parser)
        words = "what is added up: epsilon without a delta; rho with one, for all recipes; mu for "
        words += "fits of auto with a delta alone, of which it allows more"
        parser.add_argument("--measure", choices=tuple(MEASURES), help=words)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Write the file, and print the filter.

        Raises:
            InputError: for numbers out of range, or a file that exists.
        """
        from dpbt.privacy.filter import Filter  # needs JAX

        names = ("epsilon", "delta", "rows", "relation", "max_rows_per_user", "measure")
        with of_input():
            print(Filter(**{name: getattr(options, name) for name in names}, path=options.filter))
        print(f"wrote {options.filter}")


class Show:
    """Show what a budget was spent on, and what is left; --ledger adds every draw that was paid."""

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("filter", metavar="FILE", help="a file that `filter new` wrote")
        words = "print the ledger of all fits, too"
        parser.add_argument("--ledger", action="store_true", help=words)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Print the filter.

        Raises:
            InputError: for a file that is no filter.
        """
        opened = shared.filter_of(options.filter)
        print(opened)
        if options.ledger:
            with of_input():
                print(f"\n{opened.ledger}")


PROGRAMS = {"new": New, "show": Show}
