"""Commands that show what a saved model says: its words, and its privacy statement."""

import argparse

import dpbt
from dpbt.cli import inputs
from dpbt.cli.shared import of_input, whole


class Explain:
    """Print a saved model in words, such as its trees as rules."""

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Print the words.

        Raises:
            InputError: for a file that is no saved model, or one that has no words.
        """
        model = inputs.saved(options.model)
        with of_input():
            print(dpbt.explain(model))


class Statement:
    """Print the privacy statement of a saved model; --ledger adds what it cost line by line."""

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")
        words = "say what the same noise means for people with up to K rows"
        parser.add_argument("--max-rows-per-user", type=whole(1), metavar="K", help=words)
        parser.add_argument("--ledger", action="store_true", help="print the ledger, too")

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Print the statement; one for other people needs JAX.

        Raises:
            InputError: for a file that is no saved model.
        """
        model = inputs.saved(options.model)
        assert model.kept is not None  # it was loaded
        if options.max_rows_per_user is None:
            print(model.kept.statement)
        else:
            print(dpbt.statement(model, max_rows_per_user=options.max_rows_per_user))
        if options.ledger:
            print(f"\n{model.kept.ledger}")
