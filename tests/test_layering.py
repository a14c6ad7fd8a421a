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
