"""What the command lines of the experiments share: a parser and common options.

`dpbt.commands.options` says what a command is.
"""

import argparse
from pathlib import Path

from dpbt.commands import options as shared
from dpbt.commands.options import (
    LARGEST_SEED,
    add_commands,
    add_count,
    add_seed,
    finite,
    positive,
    real,
    share,
    whole,
)
from dpbt.sweeps import runner
from experiments.common.cache import NOTE

__all__ = [
    "LARGEST_SEED",
    "Parser",
    "add_commands",
    "add_count",
    "add_data",
    "add_json",
    "add_memory",
    "add_out",
    "add_results",
    "add_seed",
    "add_smoke",
    "at_least_one",
    "finite",
    "out_folder",
    "positive",
    "real",
    "share",
    "whole",
]


class Parser(shared.Parser):
    """The parser whose help also says where compiled programs are kept."""

    def __init__(self, **options):
        super().__init__(**{"epilog": NOTE, **options})


def add_out(parser: argparse.ArgumentParser, folder: Path, words: str = "") -> None:
    """Add --out, the folder where results are written; `out_folder` reads it.

    Args:
        parser: the parser of the program.
        folder: the default.
        words: more for the help, after "folder of the results".
    """
    more = f"folder of the results{words} ({folder})"
    parser.add_argument("--out", metavar="FOLDER", help=more)
    parser.set_defaults(default_out=folder)


def out_folder(options: argparse.Namespace) -> Path:
    """The folder where results are written.

    It is --out, and else the program's own folder. Results of --smoke are in a folder below that,
    so that they never replace those of a full run.
    """
    if options.out is not None:
        return Path(options.out)
    smoke = getattr(options, "smoke", False)
    return options.default_out / "smoke" if smoke else options.default_out


def add_results(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Add --results, the folder from which saved results are read."""
    words = "folder of the saved results (%(default)s)"
    parser.add_argument("--results", metavar="FOLDER", default=str(folder), help=words)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add --data, the folder of the papers' data sets."""
    words = "folder of the data sets; see `python -m experiments data`"
    parser.add_argument("--data", metavar="FOLDER", help=words)


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Add --memory-mb, the working memory of a sweep's programs."""
    words = "working memory of a program, in MB (%(default)s)"
    parser.add_argument("--memory-mb", type=finite, default=runner.MEMORY_MB, help=words)


def add_smoke(parser: argparse.ArgumentParser) -> None:
    """Add --smoke."""
    words = "run the smallest setting, to check that it works; without --out, its results are in "
    words += "the folder `smoke` below the default one"
    parser.add_argument("--smoke", action="store_true", help=words)


def add_json(parser: argparse.ArgumentParser, words: str = "print JSON") -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help=words)


def at_least_one(text: str) -> float:
    """The type of an argument that is a finite number of at least 1."""
    number = finite(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


at_least_one.__name__ = "number"
