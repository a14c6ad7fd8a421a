"""Commands that show what a saved model says: its words, its privacy statement, pictures."""

import argparse
import os

import dpbt
from dpbt.cli import inputs
from dpbt.cli.shared import InputError, add_out, free, of_input, whole
from dpbt.common.storage import write_whole

FORMATS = (".png", ".pdf", ".svg")
"""The endings of files that are written."""


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


class Plot:
    """Draw what a saved model makes of attributes.

    A picture is drawn from what was released and what is public, so it costs no privacy. It shows
    what the model says, noise included. The extra `figures` installs what this needs.
    """

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")
        what = parser.add_mutually_exclusive_group(required=True)
        words = "how much the score depends on each attribute"
        what.add_argument("--attributes", action="store_true", help=words)
        words = "the mean score by the bins of one attribute"
        what.add_argument("--shape", metavar="NAME", help=words)
        words = "with --shape: what is averaged (%(default)s)"
        parser.add_argument("--of", choices=("score", "probability"), default="score", help=words)
        words = "the class that is drawn, for a model of several classes"
        parser.add_argument("--class", dest="class_", metavar="NAME", help=words)
        add_out(parser, f"the picture; its name ends in {', '.join(FORMATS)}", required=True)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        """Write the picture, whole or not at all.

        Raises:
            InputError: for a file that is no saved model, or a picture that it cannot give. Also if
                matplotlib is not installed.
            OSError: if a file cannot be read or written.
        """
        path = free(options)
        if path.suffix.lower() not in FORMATS:
            raise InputError(f"{path}: the name of a picture must end in {', '.join(FORMATS)}")
        model = inputs.saved(options.model)
        by_name = {str(name): name for name in model.about.classes or ()}  # classes may be numbers
        class_ = by_name.get(options.class_, options.class_)
        os.environ["MPLBACKEND"] = "Agg"  # no window is opened
        try:
            with of_input():
                if options.attributes:
                    dpbt.plot.attributes(model)
                else:
                    dpbt.plot.shape(model, attribute=options.shape, of=options.of, class_=class_)
        except ImportError as error:
            raise InputError(str(error)) from error
        import matplotlib.pyplot as plt

        try:
            write_whole(path, lambda part: plt.savefig(part, dpi=150))
        finally:
            plt.close()
        print(f"wrote {path}")
