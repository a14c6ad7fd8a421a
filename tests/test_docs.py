"""The README's example runs, and its names exist."""

import re
from pathlib import Path

import dpbt
from experiments.__main__ import NAMES
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


def test_commands_and_links_exist():
    root = Path(__file__).parent.parent
    for name in re.findall(r"python -m experiments (\w+)", README):
        assert name in NAMES
    for name in re.findall(r"python -m paper_figures (\w+)", README):
        assert name in FIGURES
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (root / target).exists(), target
    for name in re.findall(r"`dpbt\.(\w+)", README):
        assert hasattr(dpbt, name) or (root / "dpbt" / f"{name}.py").exists() or (root / "dpbt" / name).is_dir(), name
