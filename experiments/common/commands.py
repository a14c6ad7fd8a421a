"""What the command lines of the experiments share: a parser and common options.

`dpbt.owners.cli.parsing` says what a command is.
"""

import argparse
import math
from pathlib import Path

from dpbt import sweeps
from dpbt.owners.cli import parsing
from dpbt.owners.cli.parsing import positive_number as positive_number
from dpbt.owners.cli.parsing import share_below_one as share_below_one
from dpbt.owners.cli.parsing import whole_number_type as whole_number_type
from experiments.common.cache import NOTE


class Parser(parsing.Parser):
    """The parser whose help also says where compiled programs are kept."""

    def __init__(self, **options):
        super().__init__(**{"epilog": NOTE, **options})


positive = parsing.bounded_number_type("greater than 0", lambda number: number > 0)
"""The type of an argument that is a number above 0, which may be infinite."""

at_least_one = parsing.bounded_number_type("at least 1", lambda number: 1 <= number < math.inf)
"""The type of an argument that is a finite number of at least 1."""


def add_count(parser: argparse.ArgumentParser, name: str, default: int, words: str) -> None:
    """Add an option that is a count of at least 1."""
    parser.add_argument(
        name, type=whole_number_type(1), default=default, help=f"{words} (%(default)s)"
    )


def add_seed(parser: argparse.ArgumentParser, words: str) -> None:
    """Add --seed, 0 by default; `words` name what it is the seed of."""
    name, settings = parsing.option("--seed SEED", f"seed of {words} (%(default)s)", default=0)
    parser.add_argument(name, **settings)


def add_shared(
    parser: argparse.ArgumentParser,
    *,
    saved: Path | None = None,
    data: bool = False,
    out: Path | None = None,
    out_note: str = "",
    memory: bool = False,
    doc: bool = False,
    smoke: bool = False,
    json: str = "",
) -> None:
    """Add options that many programs have; each is left out by default.

    Args:
        parser: the parser of the program.
        saved: the default of --results, the folder from which saved results are read.
        data: add --data, the folder of the papers' data sets.
        out: the default of --out, where results are written; `out_folder` reads it.
        out_note: added to the help of --out, after "folder of the results".
        memory: add --memory-mb, the working memory of a sweep's programs.
        doc: add --doc, the page into which the tables of saved results are written.
        smoke: add --smoke.
        json: the help of --json.
    """
    if saved is not None:
        words = "folder of the saved results (%(default)s)"
        parser.add_argument("--results", metavar="FOLDER", default=str(saved), help=words)
    if data:
        words = "folder of the data sets; see `python -m experiments data`"
        parser.add_argument("--data", metavar="FOLDER", help=words)
    if out is not None:
        words = f"folder of the results{out_note} ({out})"
        parser.add_argument("--out", metavar="FOLDER", help=words)
        parser.set_defaults(default_out=out)
    if memory:
        words = "working memory of a program, in MB (%(default)s)"
        parser.add_argument(
            "--memory-mb", type=positive_number, default=sweeps.MEMORY_MB, help=words
        )
    if doc:
        words = "measure nothing; write the tables of saved results into this page, and a summary"
        parser.add_argument("--doc", metavar="PAGE", help=words)
    if smoke:
        words = "run the smallest setting, to check that it works; its folder of results is `smoke`"
        parser.add_argument("--smoke", action="store_true", help=words)
    if json:
        parser.add_argument("--json", action="store_true", help=json)


def out_folder(options: argparse.Namespace) -> Path:
    """The folder where results are written.

    It is --out, and else the program's own folder. Results of --smoke are in a folder below that,
    so that they never replace those of a full run.
    """
    if options.out is not None:
        return Path(options.out)
    smoke = getattr(options, "smoke", False)
    return options.default_out / "smoke" if smoke else options.default_out
