"""The README's example runs, and its names exist."""

import re
from pathlib import Path

import dpbt
from dpbt import accounting
from dpbt.base import relation_name
from experiments.__main__ import COMMANDS
from paper_figures.__main__ import NAMES as FIGURES

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    scope: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), scope)
    assert scope["model"].trees.split.shape[0] == scope["model"].recipe.rounds


def test_readme_ledger_and_threats_name_one_relation_one_rows_one_sampler_and_one_key():
    """In the same words, which the ledger prints."""
    threats = (Path(__file__).parent.parent / "docs" / "threats.md").read_text()
    pages = [" ".join(text.replace("`", "").split()) for text in (README, threats)]
    for relation, words in accounting.RELATION_WORDS.items():
        book = dpbt.ledger(dpbt.recipes.bdpe(epsilon=1.0, rows=50, relation=relation), dpbt.fresh_key())
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
    for name in re.findall(r"python -m experiments (\w+)", README):
        assert name in COMMANDS
    for name in re.findall(r"python -m paper_figures ([\w/]+)", README):
        assert name in FIGURES
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (root / target).exists(), target
    for name in re.findall(r"`dpbt\.(\w+)", README):
        assert hasattr(dpbt, name) or (root / "dpbt" / f"{name}.py").exists() or (root / "dpbt" / name).is_dir(), name
