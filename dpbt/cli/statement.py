"""Print the privacy statement of a saved model; --ledger adds what it cost line by line."""

import argparse

import dpbt
from dpbt.cli import inputs
from dpbt.cli import options as kinds


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")
    words = "say what the same noise means for people with up to K rows"
    parser.add_argument("--max-rows-per-user", type=kinds.whole(1), metavar="K", help=words)
    parser.add_argument("--ledger", action="store_true", help="print the ledger, too")


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
