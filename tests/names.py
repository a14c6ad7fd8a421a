"""Whether the names, files and tests that README and docs put between backticks exist."""

import ast
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import dpbt
import experiments
import paper_figures
from dpbt.base import Table
from dpbt.data.domains import Label
from dpbt.privacy.accounting import Ledger
from dpbt.sklearn import PrivateBoostingClassifier
from tests.pages import PAGES

ROOT = Path(__file__).parent.parent

VARIABLES = {
    "estimator": PrivateBoostingClassifier,
    "boosted": dpbt.Boosted,
    "label": Label,
    "ledger": Ledger,
    "loaded": dpbt.Model,
    "model": dpbt.Model,
    "budget": dpbt.Filter,
    "table": Table,
}
"""Variables of the docs, and what they hold."""

SHORT = {"np": "numpy", "df": "pandas", "cat": "pandas"}
FOREIGN = ("functools", "jax", "numpy", "pandas", "pyarrow", "scipy", "sklearn")
"""Packages whose names are checked where they are installed."""

ELSEWHERE = {
    "VotingClassifier": "scikit-learn",
    "check_estimator": "scikit-learn",
    "JAX_LOG_COMPILES": "jax",
    "factorize": "pandas",
    "keep_default_na": "pandas",
    "merge": "pandas",
    "read_json": "pandas",
    "reindex": "pandas",
    "column_types": "pyarrow",
}
"""Names of other packages that stand alone."""

FILES = re.compile(r"(?:[\w.-]+/)*[\w.-]*\.(?:cff|csv|jsonl?|key|lock|md|npz|onnx|pdf|png|py|toml)")
FOLDERS = re.compile(r"(?:docs|dpbt|experiments|paper_figures|reproduction|tests)(?:/\w+)*/?")


def is_there(part: str) -> bool:
    """Whether what stands between backticks exists, where it looks like a name, file or test."""
    path, of_test, test = part.partition("::")
    if of_test:
        return _is_file(path) and f"def {test}(" in (ROOT / path).read_text()
    if FILES.fullmatch(part) and part.split(".")[0] not in FOREIGN:
        return _is_file(part) or _is_written(Path(part).name)
    if "/" in part and FOLDERS.fullmatch(part):
        return (ROOT / part).exists()
    found = re.fullmatch(r"([A-Za-z_]\w*(?:\.\w+)*)(?:\(.*\)|\[.*\]|=.*)?", part)
    if found is None:
        return True
    first, *rest = found[1].split(".")
    if not rest:
        return first in _words() | _results() or first in ELSEWHERE or _is_written(first)
    first = SHORT.get(first, first)
    if first in FOREIGN:
        if importlib.util.find_spec(first) is None or found[1].split(".")[0] != first:
            return True
        return _has(importlib.import_module(first), rest)
    return any(_has(start, rest) for start in _starts(first))


def _is_file(path: str) -> bool:
    if (ROOT / path).is_file():
        return True
    folders = ("docs", "dpbt", "experiments", "paper_figures", "tests")
    return any(found for folder in folders for found in (ROOT / folder).glob(f"**/{path}"))


def _is_written(name: str) -> bool:
    """Whether the code or a block of a page has the name of a file; NAME stands for any part."""
    name = name.replace("NAME", "").removesuffix(".lock")
    return name in _text() or any(
        name in block
        for page in PAGES
        for block in re.findall(r"^```.*?^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    )


@functools.cache
def _text() -> str:
    folders = ("dpbt", "experiments", "paper_figures", "docs/examples", "tests")
    names = {"names.py", "test_docs.py"}  # these have names that do not exist
    paths = [path for folder in folders for path in sorted(ROOT.glob(f"{folder}/**/*.py"))]
    return "\n".join(path.read_text() for path in paths if path.name not in names)


@functools.cache
def _words() -> set[str]:
    return set(re.findall(r"\w+", _text()))


@functools.cache
def _results() -> set[str]:
    """The names of the aggregated results."""
    return {path.stem for path in ROOT.glob("reproduction/*/*.json")}


@functools.cache
def _modules() -> dict[str, list[str]]:
    """The full names of all modules, by their last part and by the last two."""
    found: dict[str, list[str]] = {}
    for package in (dpbt, experiments, paper_figures):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            parts = module.name.split(".")
            found.setdefault(parts[-1], []).append(module.name)
    return found


def _starts(name: str) -> list[Any]:
    """What the first part of a dotted name may mean: a module, a class or a variable."""
    starts: list[Any] = [VARIABLES[name]] if name in VARIABLES else []
    if name in ("dpbt", "experiments", "paper_figures"):
        starts.append(importlib.import_module(name))
    starts += map(importlib.import_module, _modules().get(name, ()))
    for path in _classes().get(name, ()):
        starts.append(getattr(importlib.import_module(path), name))
    return starts


@functools.cache
def _classes() -> dict[str, list[str]]:
    """The modules of each class of the library, by the name of the class."""
    found: dict[str, list[str]] = {}
    for module in pkgutil.walk_packages(dpbt.__path__, "dpbt."):
        path = ROOT.joinpath(*module.name.split("."))
        source = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
        for node in ast.parse(source.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module.name)
    return found


def _has(found: Any, parts: list[str]) -> bool:
    """Whether an attribute of an attribute, and so on, is there."""
    for part in parts:
        if isinstance(found, type) and part in inspect.get_annotations(found):
            return True
        if not hasattr(found, part) and isinstance(found, ModuleType):
            try:
                importlib.import_module(f"{found.__name__}.{part}")
            except ImportError:
                return False
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
