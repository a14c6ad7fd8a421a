"""The README's example runs, and its names exist."""

import importlib
import re
import tomllib
from pathlib import Path

import dpbt
from dpbt.base import relation_name
from dpbt.privacy import accounting
from experiments.__main__ import COMMANDS, PAPERS
from paper_figures.__main__ import NAMES as FIGURES

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    scope: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), scope)
    assert scope["model"].hypotheses.split.shape[0] == scope["model"].recipe.rounds


def test_readme_ledger_and_threats_name_one_relation_one_rows_one_sampler_and_one_key():
    """In the same words, which the ledger prints."""
    threats = (Path(__file__).parent.parent / "docs" / "threats.md").read_text()
    pages = [" ".join(text.replace("`", "").split()) for text in (README, threats)]
    for relation, words in accounting.RELATION_WORDS.items():
        book = dpbt.ledger(
            dpbt.recipes.bdpe(epsilon=1.0, rows=50, relation=relation), dpbt.fresh_key()
        )
        printed = str(book)
        assert words.replace("rows is", "rows = 50 is") in printed
        assert accounting.EXACT_WORDS in printed
        for page in pages:
            assert f"{relation_name(relation)}: {words}" in page
            assert accounting.EXACT_WORDS in page
            assert "against adversaries of bounded computation" in page
        assert "against adversaries of bounded computation" in printed


def test_commands_and_links_exist():
    root = Path(__file__).parent.parent
    pages = [README, *(page.read_text() for page in (root / "docs").glob("*.md"))]
    text = " ".join("\n".join(pages).split())
    for name, program in re.findall(r"python -m experiments (\w+)(?: (\w+))?", text):
        assert name in COMMANDS
        if name in PAPERS:
            assert program in importlib.import_module(COMMANDS[name]).PROGRAMS
    for name in re.findall(r"paper_figures ([\w/]+)`", text):
        assert name in FIGURES or name in PAPERS
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (root / target).exists(), target
    for name in re.findall(r"`dpbt\.(\w+)", README):
        assert (
            hasattr(dpbt, name)
            or (root / "dpbt" / f"{name}.py").exists()
            or (root / "dpbt" / name).is_dir()
        ), name


def test_the_version_is_stated_once():
    root = Path(__file__).parent.parent
    stated = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert dpbt.__version__ == stated
    assert stated not in (root / "dpbt" / "__init__.py").read_text()
    assert f"## {stated}" in (root / "CHANGELOG.md").read_text()
