"""Imports point down, files stay short, nothing runs at import."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = [
    {"base", "cells"},
    {"columns", "keys", "questions", "storage", "variates"},
    {"kinds"},
    {
        "domains",
        "fingerprints",
        "forest_bounds",
        "losses",
        "mechanisms",
        "sensitivity",
        "slickness",
        "smooth_bounds",
    },
    {"accounting", "boundary", "files", "tables", "trees"},
    {"reweighting", "rules", "learners"},
    {"pricing", "recipes"},
    {"checks"},
    {"boosting"},
    {"audit", "diagnostics", "forests", "sweeps"},
    {"runs"},
]
"""Modules import from lower floors."""
FILES = sorted(
    path for folder in ("dpbt", "experiments", "paper_figures", "tests") for path in ROOT.glob(f"{folder}/**/*.py")
)


def floor(name):
    return next(level for level, modules in enumerate(FLOORS) if name in modules)


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dpbt":
            parts = node.module.split(".")[1:]
            yield from [parts[0]] if parts else [alias.name for alias in node.names]


@pytest.mark.parametrize("path", sorted((ROOT / "dpbt").glob("**/*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    name = path.relative_to(ROOT / "dpbt").parts[0].removesuffix(".py")
    if name == "__init__":
        return
    for other in imported(path):
        if other != name:
            assert floor(other) < floor(name), f"{name} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= 420


ROOMS = {
    "dpbt": set(),
    "experiments/common": {"experiments.common"},
    "experiments": {"experiments.common"},
    "paper_figures": {"experiments.common", "paper_figures"},
}
"""What modules of a folder may import beside the library; papers import their own, too."""


def experiments_imported(path):
    """The folders of experiments and figures that a module imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = inside if node.module.count(".") < 2 else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "paper_figures":
                yield parts[0]
            if parts[0] == "experiments":
                yield ".".join(parts[: 3 if parts[1] == "papers" else 2])


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_papers_share_only_what_is_common(path):
    place = path.relative_to(ROOT)
    if place.parts[0] == "tests":
        return
    folders = [str(folder) for folder in place.parents if str(folder) in ROOMS]
    allowed = set(ROOMS[folders[0]])
    if place.parts[:2] == ("experiments", "papers") and len(place.parts) > 3:
        allowed.add(".".join(place.parts[:3]))
    assert set(experiments_imported(path)) <= allowed


def test_each_paper_has_the_same_names():
    for folder in (ROOT / "experiments" / "papers").iterdir():
        if (folder / "__init__.py").exists():
            names = {path.stem for path in folder.glob("*.py")}
            assert {"settings", "run", "table"} <= names
            assert list((ROOT / "paper_figures" / folder.name).glob("*.py"))
