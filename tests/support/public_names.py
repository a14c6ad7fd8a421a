"""The public names and options that README, changelog and docs state, and whether they exist."""

import argparse
import contextlib
import functools
import importlib
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dpbt.__main__
from dpbt.owners.cli.parsing import Parser
from tests.support import ROOT

PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))

OTHER_OPTIONS = {"--no-deps"}
"""Options of programs that are not of this project."""


def current_text(page: Path) -> str:
    """The text of a page on what there is now: without names that the changelog says are gone."""
    text = page.read_text()
    if page.name != "CHANGELOG.md":
        return text
    before, _, rest = text.partition("\n### Removed\n")
    lines = (before + rest.partition("\n### ")[2]).splitlines()
    return "\n".join(line.split("|")[2] if line.startswith("|") else line for line in lines)


# Names.


@functools.cache
def roots() -> dict[str, Any]:
    """What a stated name may begin with: `dpbt`, its modules and its public classes."""
    modules = " ".join(dpbt._MODULES.values()).split()
    classes = [name for name in dpbt.__all__ if inspect.isclass(getattr(dpbt, name))]
    return {"dpbt": dpbt, **{name: getattr(dpbt, name) for name in (*modules, *classes)}}


def stated_names(text: str) -> Iterator[str]:
    """The names with a point in a text that begin with a root, such as `Model.encode`."""
    pattern = rf"(?<![\w./-])(?:{'|'.join(roots())})(?:\.[A-Za-z_]\w*)+"
    for match in re.finditer(pattern, text):
        if Path(match[0]).suffix not in (".md", ".png", ".py"):
            yield match[0]


def exists(name: str) -> bool:
    """Whether a name with points is there. What an instance alone has is found by its class."""
    root, *attributes = name.split(".")
    value = roots()[root]
    for attribute in attributes:
        if inspect.isclass(value):
            annotations = map(inspect.get_annotations, value.__mro__)
            if not hasattr(value, attribute) and not any(
                attribute in names_of_class for names_of_class in annotations
            ):
                return False
            value = getattr(value, attribute, None)
        elif inspect.ismodule(value):
            module_name = f"{value.__name__}.{attribute}"
            if not hasattr(value, attribute):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module_name)
            if not hasattr(value, attribute):
                return False
            value = getattr(value, attribute)
        else:
            return hasattr(value, attribute) or value is None
    return True


def owners() -> dict[str, tuple[type, ...]]:
    """What a sentence may say has a name: "a model has `encode`"."""
    from dpbt.privacy.accounting import Ledger

    estimators: tuple[type, ...] = ()
    with contextlib.suppress(ImportError):  # without scikit-learn nothing is said of estimators
        from dpbt.sklearn import PrivateBoostingClassifier, PrivateForestClassifier

        estimators = PrivateBoostingClassifier, PrivateForestClassifier
    return {
        "model": (dpbt.Model,),
        "filter": (dpbt.Filter,),
        "ledger": (Ledger,),
        "recipe": (dpbt.Recipe,),
        "table": (dpbt.Table,),
        **({"estimator": estimators} if estimators else {}),
    }


def stated_attributes(text: str) -> Iterator[tuple[str, str]]:
    """(owner, attribute) of sentences that say that a thing has an attribute."""
    pattern = (
        rf"\b(?:an?|every|each|the) ({'|'.join(owners())})\s+(?:also\s+)?has\s+`(\w+)(?:\(.*?\))?`"
    )
    yield from re.findall(pattern, text, re.IGNORECASE)


def has_attribute(owner: str, attribute: str) -> bool:
    """Whether a thing of this name has the attribute, perhaps once it was fitted."""
    return any(
        hasattr(kind, attribute)
        or attribute in getattr(kind, "__annotations__", {})
        or re.search(rf"^\s+{attribute}:", kind.__doc__ or "", re.MULTILINE)
        for kind in owners()[owner.lower()]
    )


# Options.


@functools.cache
def options_by_command() -> dict[str, frozenset[str]]:
    """The options of each command of dpbt, such as "dpbt filter new", and of each group."""
    parser = Parser(prog="dpbt")
    parser.add_argument("--version", action="store_true")
    parser.add_commands(dpbt.__main__.COMMANDS)
    return dict(_iter_options(parser))


def _iter_options(parser: Parser) -> Iterator[tuple[str, frozenset[str]]]:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        parser.parse_known_args(["--help"])  # which adds the options
    names = {name for action in parser._actions for name in action.option_strings}
    yield parser.prog, frozenset(names)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _iter_options(command)


@functools.cache
def options_of_all_programs() -> frozenset[str]:
    """The options of all commands of dpbt, and those that the other programs of a checkout read."""
    options = set().union(*options_by_command().values()) | OTHER_OPTIONS
    for folder in ("experiments", "paper_figures", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            options |= set(re.findall(r"""["'](--[a-z][\w-]*)""", path.read_text()))
    return frozenset(options)


_OPTION = re.compile(r"(?<![\w=-])--[a-z][a-z-]*")


def stated_options(text: str) -> Iterator[str]:
    """The options in a text, but for those of other programs in a variable, as in X=--option."""
    yield from _OPTION.findall(text)


def commands_with_options(text: str) -> Iterator[tuple[str, list[str]]]:
    """(command, its options) of the calls of dpbt in blocks and between backticks."""
    code_blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    inline_code = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.DOTALL))
    lines = [line for block in code_blocks for line in block.replace("\\\n", " ").splitlines()]
    for line in (*lines, *(" ".join(part.split()) for part in inline_code)):
        arguments = line.partition("#")[0].removeprefix("$ ").split()
        if arguments[:1] != ["dpbt"]:
            continue
        command = max(
            (
                name
                for name in options_by_command()
                if arguments[: len(name.split())] == name.split()
            ),
            key=len,
        )
        yield command, [*_OPTION.findall(" ".join(arguments))]
