"""What the README and the docs say is true: code runs, names, links and commands exist."""

import importlib
import re
import runpy
import tomllib
import warnings
from pathlib import Path

import pytest

import dpbt
from dpbt.base import relation_name
from dpbt.privacy import accounting
from dpbt.privacy.keys import ResearchKeyWarning
from experiments.__main__ import COMMANDS, PAPERS
from paper_figures.__main__ import NAMES as FIGURES
from tests import prose

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = {path.name: path for path in sorted((ROOT / "docs" / "examples").glob("*.py"))}


def blocks(text: str, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in fenced if name == language]


def anchor(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


@pytest.fixture
def quiet_folder(tmp_path, monkeypatch):
    """An empty folder to run in, with figures that open no window."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("DPBT_SECRET", str(tmp_path / "secret"))
    return tmp_path


def test_the_quickstart_prints_what_the_readme_shows(quiet_folder, capsys):
    scope: dict = {}
    (block,) = blocks(README, "python")
    exec(compile(block, "README.md", "exec"), scope)

    printed = capsys.readouterr().out
    (shown,) = [text for text in blocks(README, "") if "total: epsilon" in text]
    ledger = str(dpbt.ledger(scope["recipe"]))
    assert printed.startswith(ledger)
    assert shown.startswith(ledger)
    assert printed.count("tree ") >= 1
    assert shown.count("tree ") >= 1
    assert len(scope["model"].hypotheses.leaf) == scope["model"].recipe.rounds


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page.name, marks=[pytest.mark.slow] if page.name == "estimators.md" else [])
        for page in PAGES
        if page.name != "README.md"
    ],
)
def test_code_of_the_docs_is_of_an_example_or_runs(page, quiet_folder):
    examples = [path.read_text() for path in EXAMPLES.values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        for block in blocks((ROOT / "docs" / page).read_text(), "python"):
            if not any(block in example for example in examples):
                exec(compile(block, page, "exec"), {})


TUTORIAL = ("income.py", "read_model.py")
"""These take files, and are run by `tests/test_tutorial.py`."""


SLOW = ("sweep.py", "pictures.py")
"""These write pictures to a folder."""

APART = ("several_processes.py",)
"""These are run by tests of their own, `tests/test_processes.py`."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in EXAMPLES
        if name not in (*TUTORIAL, *APART)
    ],
)
def test_examples_run(name, quiet_folder, monkeypatch, capsys):
    arguments = ["results"] if name in SLOW else []
    monkeypatch.setattr("sys.argv", [name, *arguments])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        runpy.run_path(str(EXAMPLES[name]), run_name="__main__")
    printed = capsys.readouterr().out
    if name == "sweep.py":
        assert (quiet_folder / "results" / "sweep.png").stat().st_size > 10_000
        assert "fits=750" in printed
    else:
        assert "total: epsilon" in printed
    if name == "pictures.py":
        drawn = {path.name for path in (quiet_folder / "results").glob("*.png")}
        shown = re.findall(r"\]\((picture_\w+\.png)\)", (ROOT / "docs/pictures.md").read_text())
        assert drawn == set(shown) == {path.name for path in (ROOT / "docs").glob("picture_*")}


def test_readme_ledger_and_pages_name_one_relation_one_rows_one_sampler_and_one_key():
    """In the same words, which the ledger prints."""
    named = [ROOT / "docs" / "guarantees.md", ROOT / "docs" / "threats.md"]
    pages = [" ".join(page.read_text().replace("`", "").split()) for page in named]
    readme = " ".join(README.replace("`", "").split())
    for relation, words in accounting.RELATION_WORDS.items():
        book = dpbt.ledger(
            dpbt.recipes.bdpe(epsilon=1.0, rows=50, relation=relation), dpbt.fresh_key()
        )
        printed = str(book)
        assert words.replace("rows is", "rows = 50 is") in printed
        assert accounting.EXACT_WORDS in printed
        assert "against adversaries of bounded computation" in printed
        for page in (*pages, readme):
            assert f"{relation_name(relation)}: {words}" in page
            assert "against adversaries" in page
        for page in pages:
            assert accounting.EXACT_WORDS in page


def test_commands_and_figures_exist():
    text = " ".join("\n".join(page.read_text() for page in PAGES).split())
    for name, program in re.findall(r"python -m experiments (\w+)(?: (\w+))?", text):
        assert name in COMMANDS
        if name in PAPERS and program:
            assert program in importlib.import_module(COMMANDS[name]).PROGRAMS
    for name in re.findall(r"paper_figures ([\w/]+)`", text):
        assert name in FIGURES or name in PAPERS
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for name in re.findall(r"`make ([\w-]+)`", text):
        assert name in targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_exist(page):
    for target in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        linked = page if not path else page.parent / path
        assert linked.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)", linked.read_text(), re.MULTILINE)
            assert heading in map(anchor, headings), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_the_library_exist(page):
    for name in set(re.findall(r"`dpbt\.([\w.]+)", page.read_text())):
        found: object = dpbt
        for part in name.split("."):
            if not hasattr(found, part):
                module = getattr(found, "__name__", "dpbt")
                importlib.import_module(f"{module}.{part}")
            found = getattr(found, part)


def test_the_readme_is_short_and_lines_and_sentences_are():
    assert len(README.splitlines()) <= 120
    for page in PAGES:
        prose_alone = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for line in prose_alone.splitlines():
            assert len(line) <= 100 or line.startswith("|") or "](" in line, (page.name, line)
    for place in ("README.md", "CHANGELOG.md", "docs"):
        assert prose.long_sentences(ROOT / place) == []


def test_sentences_are_found_and_counted():
    text = "One. Two is `a b c` long.\n\n- An item; it goes\n  on.\n\n| a | table |\n\n# Head\n"
    assert prose.sentences(text) == ["One.", "Two is `a b c` long.", "- An item; it goes on."]
    assert prose.words("Two is `a b c` long, see [a page](of/a/long/path.md).") == 7
    entry = "Do it.\n\nArgs:\n    first: one fact.\n    second: another\n        fact.\n"
    assert prose.sentences(entry, docstring=True) == ["Do it.", "one fact.", "another fact."]


def test_the_version_is_stated_once():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert dpbt.__version__ == stated
    assert stated not in (ROOT / "dpbt" / "__init__.py").read_text()
    for file in ("CHANGELOG.md", "CITATION.cff", "docs/citing.md"):
        assert stated in (ROOT / file).read_text()


@pytest.mark.slow
def test_the_reference_is_written(tmp_path):
    """In a process of its own, as it sets names of the package."""
    import subprocess
    import sys

    command = [sys.executable, str(ROOT / "docs" / "api.py"), str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    assert "criterion" in (tmp_path / "dpbt" / "recipes.html").read_text()
