"""Print a saved model in words, such as its trees as rules."""

import argparse

import dpbt
from dpbt.cli import inputs
from dpbt.cli.errors import of_input


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")


def run(options: argparse.Namespace) -> None:
    """Print the words.

    Raises:
        InputError: for a file that is no saved model, or one that has no words.
    """
    model = inputs.saved(options.model)
    with of_input():
        print(dpbt.explain(model))
