"""Imports point down, files stay short, nothing runs at import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dpbt

ROOT = Path(__file__).parent.parent
FLOORS = [
    {"arithmetic", "compiling", "privacy.measures", "privacy.tags", "public", "validate"},
    {"data.cells", "privacy.entries", "privacy.mechanism", "storage"},
    {"data.columns"},
    {"data.kinds"},
    {"data.targets"},
    {"base", "modelfiles", "scoring"},
    {
        "data.labels",
        "data.questions",
        "data.weights",
        "losses",
        "privacy.keys",
        "privacy.sensitivity",
        "privacy.slickness",
        "privacy.variates",
        "shapes",
        "sweeps.meshes",
        "sweeps.storage",
    },
    {"data.frames", "reweighting", "sweeps.fingerprints"},
    {"data.templates"},
    {"data.domains", "privacy.mechanisms"},
    {"data.declarations", "data.files", "data.tables", "privacy.accounting", "reader"},
    {"data.chunks", "privacy.draws"},
    {"privacy.boundary"},
    {"data.conversion", "data.owner"},
    {"learners", "privacy.filters", "privacy.pricing", "privacy.totals"},
    {"checkpoints", "privacy.pursefiles", "processes", "recipes", "statements"},
    {"checks"},
    {"rounds"},
    {"absent"},
    {"boosting", "memory", "postprocessing", "prediction"},
    {"passes"},
    {"chunked"},
    {"analysis", "forests", "onnx", "saving", "sweeps.definition", "tuning"},
    {"purse", "sklearn", "sweeps.plan"},
    {"sweeps.folders", "sweeps.programs"},
    {"sweeps.runner"},
    {"commands"},
    {"__main__"},
]
"""Modules import from lower floors."""
FILES = sorted(
    path
    for folder in ("dpbt", "experiments", "paper_figures", "tests")
    for path in ROOT.glob(f"{folder}/**/*.py")
)


PACKAGES = {"data", "privacy", "sweeps"}
"""Packages whose modules have floors of their own."""


def room(parts):
    """The module that has a floor: of a package's modules, or a whole package."""
    return ".".join(parts[: 2 if parts[0] in PACKAGES else 1])


def floor(name):
    return next(level for level, modules in enumerate(FLOORS) if name in modules)


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dpbt":
            parts = node.module.split(".")[1:]
            inside = parts and (ROOT / "dpbt" / "/".join(parts)).is_dir()
            names = [alias.name for alias in node.names] if inside or not parts else [""]
            yield from (room([part for part in (*parts, name) if part]) for name in names)


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "dpbt").glob("**/*.py")),
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_imports_point_down(path):
    parts = path.relative_to(ROOT / "dpbt").with_suffix("").parts
    if parts[-1] == "__init__" and (len(parts) == 1 or (parts[0] in PACKAGES and len(parts) == 2)):
        return
    name = room(parts)
    for other in imported(path):
        if other != name:
            assert floor(other) < floor(name), f"{name} imports {other}"


def test_importing_the_library_needs_no_jax():
    words = "import sys, dpbt; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], cwd=ROOT, check=False).returncode == 0


def test_importing_what_a_fit_needs_imports_no_accountant():
    """dp_accounting brings most of SciPy, and takes longer to import than all of the library."""
    words = (
        "import sys, dpbt; dpbt.fit, dpbt.recipes, dpbt.table, dpbt.keys\n"
        "assert 'jax' in sys.modules\n"
        "sys.exit(bool({'dp_accounting', 'scipy', 'optax', 'chex'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", words], cwd=ROOT, check=False).returncode == 0


def test_every_public_name_is_there():
    assert all(hasattr(dpbt, name) for name in dpbt.__all__)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_short(path):
    """With room for blank lines and comments; a longer file has more than one subject."""
    assert len(path.read_text().splitlines()) <= 600


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
    elif place.parts[0] == "experiments" and len(place.parts) > 2:
        allowed.add(".".join(place.parts[:2]))
    assert set(experiments_imported(path)) <= allowed


def test_each_paper_has_the_same_names():
    for folder in (ROOT / "experiments" / "papers").iterdir():
        if (folder / "__init__.py").exists():
            names = {path.stem for path in folder.glob("*.py")}
            assert {"settings", "run", "table"} <= names
            assert list((ROOT / "paper_figures" / folder.name).glob("*.py"))
