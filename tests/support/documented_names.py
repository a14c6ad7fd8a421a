"""Whether the names, files and tests that README and docs put between backticks exist."""

import functools
import re
from pathlib import Path

from tests.support import ROOT

_NAMES = """
functools jax numpy np pandas df cat pyarrow scipy sklearn BaggingClassifier VotingClassifier
FunctionTransformer JAX_LOG_COMPILES column_types factorize income keep_default_na read_json reindex
Approximate BudgetAccountant BudgetError ChangeOneDistance DMatrix GridSearchCV MaxDivergence
PrivacyLeakWarning SymmetricDistance XGBClassifier XGBRFClassifier ZeroConcentratedDivergence
atom_domain bin_budget_frac enable_categorical explain_global explain_local
interaction_constraints
interaction_cst load_model make_laplace make_privacy_filter max_bin max_bins max_iter
monotone_constraints monotonic_cst num_boost_round output_margin save_model unit_of xgboost
"""
ELSEWHERE = set(_NAMES.split())
"""Other packages, names of theirs that stand alone, and a file that an example writes."""

FILES = re.compile(r"(?:[\w.-]+/)*[\w.-]*\.(?:cff|csv|jsonl?|key|lock|md|npz|onnx|pdf|png|py|toml)")
FOLDERS = re.compile(r"(?:docs|dpbt|experiments|paper_figures|reproduction|tests)(?:/\w+)*/?")


def is_name_of_something(text: str) -> bool:
    """Whether the text between backticks names something that exists, if it looks like a name."""
    path, of_test, test = text.partition("::")
    if of_test:
        return _is_file(path) and f"def {test}(" in (ROOT / path).read_text()
    if FILES.fullmatch(text) and text.split(".")[0] not in ELSEWHERE:
        return _is_file(text) or _is_written(Path(text).name)
    if "/" in text and FOLDERS.fullmatch(text):
        return (ROOT / text).exists()
    target = re.fullmatch(r"([A-Za-z_]\w*(?:\.\w+)*)(?:\(.*\)|\[.*\]|=.*)?", text)
    if target is None:
        return True
    parts = target[1].split(".")
    return parts[0] in ELSEWHERE or set(parts) <= _words() or _is_written(target[1])


def _is_file(path: str) -> bool:
    if (ROOT / path).is_file():
        return True
    folders = ("docs", "dpbt", "experiments", "paper_figures", "tests")
    return any(match for folder in folders for match in (ROOT / folder).glob(f"**/{path}"))


def _is_written(name: str) -> bool:
    """Whether the code has the name of a file; NAME stands for any part."""
    return name.replace("NAME", "").removesuffix(".lock") in _text()


@functools.cache
def _text() -> str:
    folders = ("dpbt", "experiments", "paper_figures", "docs/examples", "tests")
    names = {"documented_names.py", "test_docs.py"}  # these have names that do not exist
    paths = [path for folder in folders for path in sorted(ROOT.glob(f"{folder}/**/*.py"))]
    return "\n".join(path.read_text() for path in paths if path.name not in names)


@functools.cache
def _words() -> set[str]:
    """The words of the code, and the names of the aggregated results."""
    results = {path.stem for path in ROOT.glob("reproduction/*/*.json")}
    return results | set(re.findall(r"\w+", _text()))
