"""What commands read: a domain, rows, a saved model, and the options that make a recipe."""

import argparse
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpbt
from dpbt.cli.shared import InputError, direction, finite, is_terminal, of_input, share, whole
from dpbt.common.public import BOOSTED, FORESTS
from dpbt.data import domains, files, owner
from dpbt.data.domains import Domain, Label
from dpbt.release.model import Model
from dpbt.release.scoring import BLOCK_ROWS

if TYPE_CHECKING:
    from dpbt.common.types import Recipe
    from dpbt.data.blocks import BlockTable
    from dpbt.privacy.filter import Filter

RECIPES = (*BOOSTED, *FORESTS)
RELATIONS = ("add_remove", "replace_one")


def declared(path: str) -> tuple[Domain, Label]:
    """The domain and the label of a JSON file.

    Raises:
        InputError: saying what is wrong with it.
        OSError: if it cannot be read.
    """
    with of_input(path):
        return domains.read_domain(path)


def opened(path: str, domain: Domain, label: Label, rows: int) -> "BlockTable":
    """The table of a folder of blocks.

    Raises:
        InputError: for a folder that is none, or of another domain or label, or with room for more
            rows than their bound.
        OSError: if it cannot be read.
    """
    from dpbt.data import blocks

    with of_input():
        table = blocks.open_folder(path)
    if not table.has_domain(domain):
        raise InputError(f"{path}: converted with another domain")
    if table.target != label.target or (label.target is None and table.classes != label.classes):
        raise InputError(f"{path}: converted with another label")
    if table.capacity > rows:
        raise InputError(
            f"{path}: has room for {table.capacity} rows, more than --rows {rows}, the stated "
            "bound on their number"
        )
    return table


def saved(path: str) -> Model:
    """A saved model.

    Raises:
        InputError: if the file is no whole saved model.
        OSError: if it cannot be read.
    """
    with of_input(path):
        return dpbt.load(path)


def filter_of(path: str) -> "Filter":
    """The filter of a file.

    Raises:
        InputError: if the file is no whole filter.
        OSError: if it cannot be read.
    """
    from dpbt.privacy.filter import Filter  # needs JAX

    with of_input():
        return Filter.open(path)


TUNED = "tuned"
"""A choice among candidates around `auto`, for commands that learn."""


def add_recipe(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add --domain, --rows and the other public quantities that a recipe is made of.

    Args:
        parser: the parser of the program.
        more: further names that --recipe takes.
    """
    words = "the public domain and the label, as JSON; `domain template` writes one to fill in"
    parser.add_argument("--domain", metavar="FILE", required=True, help=words)
    words = "a public bound on the number of rows; under replace_one their public number"
    parser.add_argument("--rows", type=whole(1), required=True, metavar="N", help=words)
    words = "the total budget, such as 1"
    parser.add_argument("--epsilon", type=finite, required=True, help=words)
    words = "0 for a pure guarantee (%(default)s)"
    parser.add_argument("--delta", type=share, default=0.0, help=words)
    words = "the recipe (%(default)s); bdpe makes models that a person can read"
    if TUNED in more:
        words += "; tuned chooses among candidates around auto, and pays for it out of --epsilon"
    parser.add_argument("--recipe", choices=(*RECIPES, *more), default=RECIPES[0], help=words)
    add_relation(parser)
    for name in ("rounds", "depth"):
        words = f"the {name} of the recipe, where it takes a number of them"
        parser.add_argument(f"--{name}", type=whole(1), metavar="N", help=words)
    words = "predictions must not fall (+1) or rise (-1) with a column; once for each such column"
    options: Any = {"type": direction, "action": "append", "metavar": "NAME=+1"}
    parser.add_argument("--monotone", **options, help=words)


def add_relation(parser: argparse.ArgumentParser) -> None:
    """Add --relation and --max-rows-per-user: what neighbours differ in."""
    words = "the neighbouring relation (%(default)s)"
    parser.add_argument("--relation", choices=RELATIONS, default=RELATIONS[0], help=words)
    words = "the most rows that one person has, which is your promise (%(default)s)"
    kind = whole(1)
    parser.add_argument("--max-rows-per-user", type=kind, default=1, metavar="K", help=words)


def candidates_of(options: argparse.Namespace, domain: Domain, label: Label) -> "list[Recipe]":
    """The recipe of the options that `add_recipe` adds, or the candidates of a choice.

    Args:
        options: the options.
        domain: the public domain.
        label: what is predicted.

    Raises:
        InputError: for numbers out of range, and for options and labels that the recipe does not
            take.
    """
    from dpbt import (
        recipes,  # needs JAX
        tuning,
    )

    around = functools.partial(tuning.around_auto, tuning.selection())
    names = "epsilon", "delta", "rows", "relation", "max_rows_per_user", "rounds", "depth"
    given = {name: getattr(options, name) for name in names}
    given |= {"domain": domain, "target": label.target}
    given["monotone"] = None if options.monotone is None else dict(options.monotone)
    if options.recipe == TUNED and label.weight is not None:
        raise InputError(f"--recipe {TUNED} takes no weights of rows; auto takes them")
    with of_input():
        made = recipes.build(options.recipe, given, {**recipes.named(), TUNED: around})
    return made if isinstance(made, list) else [made]


def report(file: str, domain: Domain, label: Label) -> owner.OwnerReport:
    """The report of the owner on a file of rows.

    Raises:
        InputError: for what is none.
        OSError: if it cannot be read.
    """
    if Path(file).is_dir():
        raise InputError(f"{file}: a folder of blocks; check the rows before converting them")
    with of_input(file):
        blocks = files.blocks_of_file(file, (*domain, *label.columns), BLOCK_ROWS)
        return owner.report(domain, label, blocks)


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add --yes."""
    words = "do not ask; on a terminal the owner of rows that the domain may not fit is shown how "
    words += "it reads them, and asked whether to go on"
    parser.add_argument("--yes", action="store_true", help=words)


def ask(file: str, domain: Domain, label: Label, yes: bool, what: str) -> None:
    """On a terminal, show the owner what is doubtful in the rows, and ask whether to go on.

    With `yes`, without a terminal, or from a pipe no row is read, and nothing depends on any. A
    folder of blocks was checked before it was converted.

    Args:
        file: of the rows, or a folder of blocks.
        domain: the public domain.
        label: of the rows.
        yes: go on without a question.
        what: would be done.

    Raises:
        InputError: if the owner stops, and as `report`.
        OSError: as `report`.
    """
    asked = is_terminal(sys.stdin, sys.stderr) and not yes
    if not asked or not Path(file).is_file():  # a pipe is read once
        return
    found = report(file, domain, label)
    if not found.doubtful:
        return
    print(f"{found}\n{what} all the same? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("stopped; nothing was written, and nothing was paid")
