"""Whether the names, files and tests that README and docs put between backticks exist."""

import functools
import re
from pathlib import Path

from tests.pages import PAGES

ROOT = Path(__file__).parent.parent

SHORT = {"np": "numpy", "df": "pandas", "cat": "pandas"}
FOREIGN = ("functools", "jax", "numpy", "pandas", "pyarrow", "scipy", "sklearn")
"""Packages whose names are not checked."""

ELSEWHERE = {
    "BaggingClassifier": "scikit-learn",
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
    if SHORT.get(first, first) in FOREIGN:
        return True
    known = _words() | _results() | set(ELSEWHERE)
    return (first in known | set(SHORT) and set(rest) <= known) or _is_written(found[1])


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
