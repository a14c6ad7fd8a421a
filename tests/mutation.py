"""What a mutant is, and the names of test files."""

from typing import NamedTuple


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


def attack(file: str, test: str) -> str:
    return f"tests/redteam/test_{file}.py::test_{test}"


def epilogue(test: str) -> str:
    return f"tests/test_epilogue.py::test_{test}"


def statement(test: str) -> str:
    return f"tests/test_statement.py::test_{test}"


def gdp(test: str) -> str:
    return f"tests/test_gdp.py::test_{test}"


def oblivious(test: str) -> str:
    return f"tests/test_oblivious.py::test_{test}"
