"""Differentially private boosted decision trees in JAX, with guarantees that can be checked.

Names are imported when they are first used, so that `import dpbt` itself needs no JAX.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbt import audit, learners, losses, recipes, sweeps, tuning, weighting
    from dpbt.data import blocks, cells, convert, domains, files, splits
    from dpbt.data.tables import table
    from dpbt.models import onnx, treelite
    from dpbt.models.model import (
        Model,
        decision_function,
        explain,
        ledger,
        load,
        predict,
        predict_proba,
        save,
        statement,
    )
    from dpbt.owners import effects, file_report, plot, preview
    from dpbt.owners.privacy_filter import Filter
    from dpbt.privacy import accounting, boundary, keys, mechanisms
    from dpbt.privacy.keys import fresh_key
    from dpbt.training.blocks import processes
    from dpbt.training.boost import Boosted, BoostedByProgram, boost
    from dpbt.training.fit import fit
    from dpbt.training.replay import replay
    from dpbt.tuning import tune
    from dpbt.types import Recipe, Splits, Table, Transcript, Tree

_MODULES = {
    "dpbt": "audit learners losses recipes sweeps tuning weighting",
    "dpbt.data": "blocks cells convert domains files splits",
    "dpbt.models": "onnx treelite",
    "dpbt.owners": "effects file_report plot preview",
    "dpbt.privacy": "accounting boundary keys mechanisms",
    "dpbt.training.blocks": "processes",
}
"""Package -> the modules of it that are attributes of `dpbt`."""

_CLASSES_AND_FUNCTIONS = {
    "dpbt.data.tables": "table",
    "dpbt.models.model": "Model decision_function explain ledger "
    "load predict predict_proba save statement",
    "dpbt.owners.privacy_filter": "Filter",
    "dpbt.privacy.keys": "fresh_key",
    "dpbt.training.boost": "Boosted BoostedByProgram boost",
    "dpbt.training.fit": "fit",
    "dpbt.training.replay": "replay",
    "dpbt.tuning": "tune",
    "dpbt.types": "Splits Recipe Table Transcript Tree",
}
"""Module -> the classes and functions of it that are attributes of `dpbt`."""


def _version() -> str:
    """The version of the installed package, or else that of the checkout."""
    try:
        return metadata.version("dpbt")
    except metadata.PackageNotFoundError:
        import tomllib
        from pathlib import Path

        try:
            project = Path(__file__).resolve().parent.parent / "pyproject.toml"
            content = tomllib.loads(project.read_text("utf-8"))["project"]
            return content["version"] if content["name"] == "dpbt" else "unknown"
        except (OSError, ValueError, LookupError):  # such as an archive without it
            return "unknown"


__version__ = _version()
"""The version of the installed package, which pyproject.toml states; "unknown" without both."""

__all__ = [
    "Boosted",
    "BoostedByProgram",
    "Filter",
    "Model",
    "Recipe",
    "Splits",
    "Table",
    "Transcript",
    "Tree",
    "__version__",
    "boost",
    "decision_function",
    "explain",
    "fit",
    "fresh_key",
    "ledger",
    "load",
    "predict",
    "predict_proba",
    "replay",
    "save",
    "statement",
    "table",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import a module, class or function of the package when it is first used."""
    for package, modules in _MODULES.items():
        if name in modules.split():
            return import_module(f"{package}.{name}")
    for module, names in _CLASSES_AND_FUNCTIONS.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'dpbt' has no attribute {name!r}")


def __dir__() -> list[str]:
    names = [*_MODULES.values(), *_CLASSES_AND_FUNCTIONS.values()]
    return sorted({*__all__, *" ".join(names).split()})
