"""What the command lines share: a parser, types of arguments, options, and commands of programs.

A command or a program is a module with a docstring, whose first line is its summary, and with
`arguments(parser)` and `run(options)`. A package whose `PROGRAMS` names such modules is a command
with sub-commands.
"""

import argparse
import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NoReturn

from dpbt.sweeps import runner
from experiments.common.cache import NOTE
from experiments.common.tables import align


class Parser(argparse.ArgumentParser):
    """A parser that refuses by an exception, so that every command refuses in the same way."""

    def __init__(self, **options):
        super().__init__(**{"formatter_class": _Formatter, "epilog": NOTE, **options})

    def error(self, message: str) -> NoReturn:
        """Refuse.

        Raises:
            ValueError: always; it names the option, what was given, and where help is.
        """
        words = message.removeprefix("argument ").replace(": ", " ", 1)
        raise ValueError(f"{words} (see {self.prog} --help)")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions, of which the list of commands is one."""

    def __init__(self, prog: str, **options):
        super().__init__(prog, **{**options, "max_help_position": 24, "width": 96})


def add_commands(parser: argparse.ArgumentParser, modules: Mapping[str, str]) -> None:
    """Add a sub-command for each module; the parsed options hold its `run` as `program`.

    Args:
        parser: which gets the sub-commands.
        modules: the name of each sub-command, and the full name of its module or package.
    """
    found = {name: importlib.import_module(path) for name, path in modules.items()}
    summaries = [(name, _words(module).splitlines()[0]) for name, module in found.items()]
    commands = parser.add_subparsers(
        title="commands", description=align(summaries), metavar="COMMAND", required=True
    )
    for name, module in found.items():
        _fill(commands.add_parser(name, description=_words(module)), module)


def _words(module: ModuleType) -> str:
    return (module.__doc__ or "").strip()


def _fill(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    programs = getattr(module, "PROGRAMS", None)
    if programs is not None:
        add_commands(parser, {name: f"{module.__name__}.{name}" for name in programs})
        return
    module.arguments(parser)
    parser.set_defaults(program=module.run)


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an argument that is a whole number in least..most, or at least `least`."""

    def read(text: str) -> int:
        number = int(text)
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"in {least}..{most}"
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {number}")
        return number

    read.__name__ = "whole number"
    return read


def add_count(parser: argparse.ArgumentParser, name: str, default: int, words: str) -> None:
    """Add an option that counts something, so that it is at least 1."""
    parser.add_argument(name, type=whole(1), default=default, help=f"{words} (%(default)s)")


def add_seed(parser: argparse.ArgumentParser, words: str) -> None:
    """Add --seed, 0 by default; the words say what it is the seed of."""
    parser.add_argument("--seed", type=int, default=0, help=f"of {words} (%(default)s)")


def add_out(parser: argparse.ArgumentParser, folder: object, words: str = "") -> None:
    """Add --out, the folder where results are written."""
    more = f"folder of the results{words} (%(default)s)"
    parser.add_argument("--out", metavar="FOLDER", default=str(folder), help=more)


def add_results(parser: argparse.ArgumentParser, folder: object) -> None:
    """Add --results, the folder from which saved results are read."""
    words = "folder of the saved results (%(default)s)"
    parser.add_argument("--results", metavar="FOLDER", default=str(folder), help=words)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add --data, the folder of the papers' data sets."""
    words = "folder of data sets; see `python -m experiments data`"
    parser.add_argument("--data", metavar="FOLDER", help=words)


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Add --memory-mb, the working memory of a sweep's programs."""
    words = "working memory of a program (%(default)s)"
    parser.add_argument("--memory-mb", type=float, default=runner.MEMORY_MB, help=words)


def add_smoke(parser: argparse.ArgumentParser) -> None:
    """Add --smoke."""
    words = "the smallest setting, to see that it runs"
    parser.add_argument("--smoke", action="store_true", help=words)


def add_json(parser: argparse.ArgumentParser, words: str = "print JSON") -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help=words)
