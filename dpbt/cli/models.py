"""Commands that show what a saved model says: its words, its privacy statement, a picture."""

import argparse
from typing import Any

import dpbt
from dpbt.cli import shared
from dpbt.cli.shared import add_out, free, of_input, whole
from dpbt.common.storage import write_whole


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
        model = shared.saved(options.model)
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
        model = shared.saved(options.model)
        assert model.kept is not None  # it was loaded
        if options.max_rows_per_user is None:
            print(model.kept.statement)
        else:
            print(dpbt.statement(model, max_rows_per_user=options.max_rows_per_user))
        if options.ledger:
            print(f"\n{model.kept.ledger}")


class Plot:
    """Draw how much a saved model depends on each column, or with --shape on the bins of one.

    A picture follows from what was released and what is public, so it costs no privacy. It needs
    the extra `figures`.
    """

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")
        parser.add_argument("--shape", metavar="NAME", help="draw the mean score by this column")
        words = "with --shape: the class that is drawn, for a model of several"
        parser.add_argument("--class", dest="class_", metavar="NAME", help=words)
        add_out(parser, "the picture, such as age.png", required=True)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Write the picture, whole or not at all.

        Raises:
            InputError: for a file that is no saved model, and for a picture that it cannot give.
        """
        path, model, name = free(options), shared.saved(options.model), options.shape
        with of_input():
            if name is None:
                ax = dpbt.plot.attributes(model)
            else:
                ax = dpbt.plot.shape(model, attribute=name, class_=options.class_)
            figure: Any = ax.get_figure()
            write_whole(path, lambda part: figure.savefig(part, dpi=150))
        print(f"wrote {path}")
