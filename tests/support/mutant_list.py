"""The mutants of `mutants.toml`: what is taken away, where, and the tests that must see it."""

import tomllib
from typing import NamedTuple

from tests.support import ROOT


class Mutant(NamedTuple):
    """One change and the tests of which at least one must fail.

    Attributes:
        name: what is taken away.
        path: the file.
        old: text that is in it exactly once.
        new: what takes its place.
        tests: nodes to run.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


_PAGE = ROOT / "tests" / "mutants.toml"
MUTANTS = [
    Mutant(**{**entry, "tests": tuple(entry["tests"])})
    for entry in tomllib.loads(_PAGE.read_text())["mutant"]
]
