"""What commands read: a domain, rows, a saved model, and the options that make a recipe."""

import argparse
import functools
import inspect
from typing import TYPE_CHECKING, Any

import dpbt
from dpbt.cli import options as kinds
from dpbt.cli.errors import InputError, of_input
from dpbt.common.public import BOOSTED, FORESTS
from dpbt.data import domains, files
from dpbt.data.domains import Domain, Label
from dpbt.release.model import Model

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


def columns_of(path: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The cells of the named columns of a CSV or Parquet file.

    Raises:
        InputError: if the file is no table or lacks a column, or pyarrow is not installed.
        OSError: if it cannot be read.
    """
    with of_input(path):
        return files.read_columns(path, names)


def opened(path: str, domain: Domain, label: Label) -> "BlockTable":
    """The table of a folder of blocks.

    Raises:
        InputError: for a folder that is none, or of another domain or label.
        OSError: if it cannot be read.
    """
    from dpbt.data import blocks

    with of_input():
        table = blocks.open_folder(path)
    if not table.has_domain(domain):
        raise InputError(f"{path}: converted with another domain")
    if table.target != label.target or (label.target is None and table.classes != label.classes):
        raise InputError(f"{path}: converted with another label")
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
    parser.add_argument("--rows", type=kinds.whole(1), required=True, metavar="N", help=words)
    words = "the total budget, such as 1"
    parser.add_argument("--epsilon", type=kinds.finite, required=True, help=words)
    words = "0 for a pure guarantee (%(default)s)"
    parser.add_argument("--delta", type=kinds.share, default=0.0, help=words)
    words = "the recipe (%(default)s); bdpe makes models that a person can read"
    if TUNED in more:
        words += "; tuned chooses among candidates around auto, and pays for it out of --epsilon"
    parser.add_argument("--recipe", choices=(*RECIPES, *more), default=RECIPES[0], help=words)
    add_relation(parser)
    for name in ("rounds", "depth"):
        words = f"the {name} of the recipe, where it takes a number of them"
        parser.add_argument(f"--{name}", type=kinds.whole(1), metavar="N", help=words)
    words = "predictions must not fall (+1) or rise (-1) with a column; once for each such column"
    options: Any = {"type": kinds.direction, "action": "append", "metavar": "NAME=+1"}
    parser.add_argument("--monotone", **options, help=words)


def add_relation(parser: argparse.ArgumentParser) -> None:
    """Add --relation and --max-rows-per-user: what neighbours differ in."""
    words = "the neighbouring relation (%(default)s)"
    parser.add_argument("--relation", choices=RELATIONS, default=RELATIONS[0], help=words)
    words = "the most rows that one person has, which is your promise (%(default)s)"
    kind = kinds.whole(1)
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
    from dpbt import recipes, tuning  # need JAX

    tuned = options.recipe == TUNED
    around = functools.partial(tuning.around_auto, tuning.selection())
    build: Any = around if tuned else recipes.named()[options.recipe]
    known = inspect.signature(build).parameters
    chosen: dict[str, Any] = {"domain": domain} if "domain" in known else {}
    for name in ("rounds", "depth", "monotone"):
        given = getattr(options, name)
        if given is not None and name not in known:
            raise InputError(f"--{name} is not an option of the recipe {options.recipe}")
        if given is not None:
            chosen[name] = dict(given) if name == "monotone" else given
    if label.target is not None and "target" not in known:
        raise InputError(
            f"--recipe {options.recipe} learns two classes alone; auto and oblivious_boost learn "
            "several classes and numbers"
        )
    if label.target is not None:
        chosen["target"] = label.target
    if label.weight is not None and tuned:
        raise InputError(
            f"--recipe {TUNED} scores every row alike, and the domain declares weights of rows; "
            "auto takes them"
        )
    for name in ("epsilon", "delta", "rows", "relation", "max_rows_per_user"):
        chosen[name] = getattr(options, name)
    with of_input():
        made = build(**chosen)
    return made if tuned else [made]
