"""`docs/map.md`: every numbered item of the papers has a row, whose code and tests exist."""

import ast
import functools
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.import_layers import ROOT

PAGE = ROOT / "docs" / "map.md"
FOLDERS = ("dpbt", "experiments", ".")
"""Where the paths of code begin."""

PAPERS = {
    "Nock & Henecka (2020)": {
        "Algorithm": "1",
        "Theorem": "3 8 10 12 13",
        "Lemma": "4 5 15 16 18 19 20 21 23",
        "Definition": "6",
        "Corollary": "7",
        "Remark": "14",
        "Equation": "13 15 16 17 19",
        "Section": "17.2",
        "Table": "1-4",
        "Figure": "1-62",
    },
    "Bun et al. (2020)": {
        "Algorithm": "1-9",
        "Theorem": "1 2 8 19 22 23 24 26 27 28 30 33",
        "Lemma": "9 14-17 25 29 31 32 34 35 37 38 40-44",
        "Definition": "11",
        "Proposition": "36",
        "Claim": "1-5",
    },
    "Asadi et al. (2022)": {
        "Algorithm": "1-3",
        "Theorem": "2.8 2.9 2.13 2.14 3.1 4.1 4.2 4.3 4.4 4.5 8.2 8.3 8.4",
        "Lemma": "9.1 9.2",
        "Definition": "2.5 2.12",
        "Observation": "8.1",
        "Remark": "9.3",
        "Table": "1-11",
        "Figure": "1-3",
    },
    "Bojarski et al. (2013), the draft": {
        "Algorithm": "1-2",
        "Theorem": "3.1 3.2 5.1 5.2 5.3 5.4 5.5 5.6 8.1 8.2 8.3",
        "Lemma": "8.1",
        "Table": "1",
        "Figure": "1-16",
    },
    "Bojarski et al. (2014)": {
        "Algorithm": "1-2",
        "Theorem": "3.1 3.2 5.1 5.2 5.3 5.4 5.5 5.6 5.7 5.8 5.9",
        "Lemma": "9.1",
        "Table": "1",
        "Figure": "1-3",
    },
}
"""Paper -> kind -> the numbers of its items, of which "1-4" are four.

Algorithms, theorems, lemmas, claims, tables and figures are all that the papers number so.
Definitions, equations and sections are those of which there is code.
"""

STATEMENTS = ("Theorem", "Lemma", "Definition", "Corollary", "Proposition", "Observation", "Remark")
ORDER = ("Algorithm", "statement", "Claim", "Equation", "Section", "Table", "Figure")
MAX_NAME_LENGTH, MAX_DESCRIPTION_LENGTH = 85, 50
"""Beyond these a row is wider than the page of the site in a window of 1,280 pixels."""

Item = tuple[str, str]
"""A kind and a number, such as ("Theorem", "4.2")."""


class Row(NamedTuple):
    """A row of the page.

    Attributes:
        items: what it is a row of: several tables or figures, or one of anything else.
        description: what that is.
        code: FILE:NAME of its code.
        tests: (file, function).
        rest: what else its last cell has: "not built: ...", or "no test".
    """

    items: list[Item]
    description: str
    code: list[str]
    tests: list[tuple[str, str]]
    rest: list[str]


def rows_of_paper(paper: str) -> list[Row]:
    """The rows of the section of a paper."""
    section = PAGE.read_text().partition(f"\n## {paper}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert lines[:2] == ["| item | what it is | its code and its test |", "| --- | --- | --- |"]
    return [row_of_line(line) for line in lines[2:]]


def row_of_line(line: str) -> Row:
    """A row of a table, read cell by cell."""
    item, description, last = (cell.strip() for cell in line.strip("|").split(" | "))
    code, tests, rest = [], [], []
    for part in last.split("<br>"):
        if test := re.fullmatch(r"`(tests/[\w/]+\.py)` `(test_\w+)`", part):
            tests.append((test[1], test[2]))
        elif location := re.fullmatch(r"`([\w/]+\.py:[\w.]+)`", part):
            code.append(location[1])
        else:
            rest.append(part)
    return Row(items_of_cell(item), description=description, code=code, tests=tests, rest=rest)


def items_of_cell(text: str) -> list[Item]:
    """The items of a first cell, such as "Table 1" or "Figures 8 to 61"."""
    match = re.fullmatch(r"([A-Z][a-z]+?)s? ([\d.]+)(?: to (\d+))?", text)
    assert match, f"no item: {text}"
    kind, first, last = match.groups()
    assert (last is not None) == text.startswith(f"{kind}s "), text
    numbers = range(int(first), int(last) + 1) if last else [first]
    return [(kind, str(number)) for number in numbers]


def expected_items(paper: str) -> list[Item]:
    """The items of a paper that the page must have."""
    items = []
    for kind, numbers in PAPERS[paper].items():
        for number in numbers.split():
            first, _, last = number.partition("-")
            span = range(int(first), int(last) + 1) if last else [first]
            items += [(kind, str(number_in_span)) for number_in_span in span]
    return items


@functools.cache
def names_in_file(path: Path) -> frozenset[str]:
    """What a file defines: names of its first level, and `Class.name` of its classes."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        names |= names_of_statement(node)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{name}" for member in node.body for name in names_of_statement(member)
            }
    return frozenset(names)


def names_of_statement(node: ast.stmt) -> set[str]:
    """The names that a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def has_code(location: str) -> bool:
    """Whether FILE:NAME exists in just one of the folders."""
    file, _, name = location.partition(":")
    paths = [path for folder in FOLDERS if (path := ROOT / folder / file).is_file()]
    return len(paths) == 1 and name in names_in_file(paths[0])


def has_test(file: str, name: str) -> bool:
    return (ROOT / file).is_file() and name in names_in_file(ROOT / file)


every_paper = pytest.mark.parametrize("paper", PAPERS)


@every_paper
def test_every_item_of_a_paper_has_one_row(paper):
    rows = Counter(item for row in rows_of_paper(paper) for item in row.items)
    expected = Counter(expected_items(paper))
    assert rows - expected == Counter(), "a row twice, or of no item of the paper"
    assert expected - rows == Counter(), "items without a row"


@every_paper
def test_rows_are_in_the_order_of_the_numbers(paper):
    def position(item: Item) -> tuple[int, list[int]]:
        kind, number = item
        group = "statement" if kind in STATEMENTS else kind
        return ORDER.index(group), [int(part) for part in number.split(".")]

    positions = [position(item) for row in rows_of_paper(paper) for item in row.items]
    assert positions == sorted(positions)


@every_paper
def test_code_and_tests_of_the_rows_exist(paper):
    rows = rows_of_paper(paper)
    assert [location for row in rows for location in row.code if not has_code(location)] == []
    assert [test for row in rows for test in row.tests if not has_test(*test)] == []


@every_paper
def test_a_row_has_code_and_a_test_or_says_why_not(paper):
    for row in rows_of_paper(paper):
        name = " ".join(row.items[0])
        if row.code:
            assert row.rest == ([] if row.tests else ["no test"]), name
        else:
            assert len(row.rest) == 1, name
            assert re.fullmatch(r"not built: [^`]{10,}", row.rest[0]), name


@every_paper
def test_rows_fit_the_page_of_the_site(paper):
    for row in rows_of_paper(paper):
        names = [*row.code, *(name for test in row.tests for name in test)]
        assert max(map(len, names), default=0) <= MAX_NAME_LENGTH, row.items[0]
        assert len(row.description) <= MAX_DESCRIPTION_LENGTH, row.items[0]


def test_code_and_tests_that_do_not_exist_are_noticed():
    existing = "privacy/accounting.py:Ledger.rho", "paper_figures/style.py:make_sheet"
    assert all(map(has_code, existing))
    missing = (
        "privacy/accounting.py:Ledger.rho_of_nothing",
        "privacy/accounting.py:rho",
        "privacy/nothing.py:Ledger",
        "__init__.py:__version__",  # of more than one folder
    )
    assert not any(map(has_code, missing))
    assert has_test("tests/test_map.py", "test_code_and_tests_that_do_not_exist_are_noticed")
    assert not has_test("tests/test_map.py", "test_that_does_not_exist")
    with pytest.raises(AssertionError, match="no item"):
        items_of_cell("the first theorem")


def test_the_page_has_one_section_for_each_paper():
    headings = re.findall(r"^## (.*)", PAGE.read_text(), re.MULTILINE)
    assert headings == list(PAPERS)


def test_the_site_and_the_page_on_the_architecture_lead_to_the_map():
    assert "      - map.md\n" in (ROOT / "mkdocs.yml").read_text()
    assert "(map.md)" in (ROOT / "docs" / "architecture.md").read_text()
    assert "(map.md)" in (ROOT / "docs" / "index.md").read_text()
