"""Draw a saved model: its trees, or what it makes of attributes.

A picture is drawn from what was released and what is public, so it costs no privacy. It shows what
the model says, noise included. The extra `figures` installs what this needs.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpbt
from dpbt.cli import inputs, output
from dpbt.cli import options as kinds
from dpbt.cli.errors import InputError, of_input
from dpbt.release.model import Model
from dpbt.storage import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".pdf", ".svg")
"""The endings of files that are written."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a file that `fit` wrote")
    what = parser.add_mutually_exclusive_group(required=True)
    words = "how much the score depends on each attribute"
    what.add_argument("--attributes", action="store_true", help=words)
    words = "the mean score by the cells of one attribute, or of two"
    what.add_argument("--shape", metavar="NAME", nargs="+", help=words)
    words = "one tree; N counts from 1, as `explain` does"
    what.add_argument("--tree", metavar="N", type=kinds.whole(1), help=words)
    words = "with --shape: what is averaged (%(default)s)"
    parser.add_argument("--of", choices=("score", "probability"), default="score", help=words)
    words = "the class that is drawn, for a model of several classes"
    parser.add_argument("--class", dest="class_", metavar="NAME", help=words)
    words = "with --tree: how many levels of questions are shown (all)"
    parser.add_argument("--levels", metavar="N", type=kinds.whole(1), help=words)
    output.add_out(parser, f"the picture; its name ends in {', '.join(FORMATS)}", required=True)


def run(options: argparse.Namespace) -> None:
    """Write the picture.

    Raises:
        InputError: for a file that is no saved model, or a picture that it cannot give. Also if
            matplotlib is not installed.
        OSError: if a file cannot be read or written.
    """
    path = output.free(options)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: the name of a picture must end in {', '.join(FORMATS)}")
    model = inputs.saved(options.model)
    try:
        import matplotlib

        matplotlib.use("Agg")  # no window is opened
        with of_input():
            drawn = _drawn(model, options)
    except ImportError as error:
        raise InputError(
            "pictures need matplotlib, which the extra `figures` installs: "
            "pip install 'dpbt[figures]'"
        ) from error
    _write(drawn, path)
    print(f"wrote {path}")


def _drawn(model: Model, options: argparse.Namespace) -> "Axes":
    if options.attributes:
        return dpbt.plot.attributes(model)
    if options.shape is not None:
        shape = {"attribute": options.shape, "of": options.of, "class_": _class_of(model, options)}
        return dpbt.plot.shape(model, **shape)
    drawn = {"round": options.tree - 1, "levels": options.levels}
    return dpbt.plot.tree(model, **drawn, class_=_class_of(model, options))


def _class_of(model: Model, options: argparse.Namespace) -> Any:
    """The class that the option names, as the model has it: classes may be numbers."""
    by_name = {str(name): name for name in model.about.classes or ()}
    return by_name.get(options.class_, options.class_)


def _write(drawn: "Axes", path: Path) -> None:
    """Write the figure of a panel, whole or not at all, and close it.

    Raises:
        OSError: naming the path, if it cannot be written.
    """
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    figure = drawn.figure
    assert isinstance(figure, Figure)
    try:
        write_whole(path, lambda part: figure.savefig(part, dpi=150))
    finally:
        plt.close(figure)
