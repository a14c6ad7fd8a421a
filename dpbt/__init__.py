"""Differentially private boosted decision trees in JAX, with guarantees that can be checked.

Names are imported when they are first used, so that `import dpbt` itself needs no JAX.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbt import learners, losses, recipes, sweeps, tuning, weighting
    from dpbt.audit import exact_loss as audit
    from dpbt.data import blocks, cells, convert, domains, files, splits
    from dpbt.data.tables import table
    from dpbt.models import onnx, registry, treelite
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
    from dpbt.owners import effects, plot, preview
    from dpbt.owners import file_report as owner
    from dpbt.owners.filter import Filter
    from dpbt.privacy import accounting, boundary, keys, mechanisms
    from dpbt.privacy.keys import fresh_key
    from dpbt.training import boosting, processes
    from dpbt.training.boosting import replay
    from dpbt.training.fit import Boosted, boost, fit
    from dpbt.tuning import tune
    from dpbt.types import Recipe, Splits, Table, Transcript, Tree

_NAMES = {
    "dpbt": "learners losses recipes sweeps tuning weighting",
    "dpbt.analysis": "audit effects plot preview",
    "dpbt.data": "blocks cells convert domains files owner splits",
    "dpbt.privacy": "accounting boundary keys mechanisms",
    "dpbt.release": "onnx registry treelite",
    "dpbt.training": "boosting processes",
    "dpbt.types": "Splits Recipe Table Transcript Tree",
    "dpbt.data.tables": "table",
    "dpbt.owners.filter": "Filter",
    "dpbt.privacy.keys": "fresh_key",
    "dpbt.models.model": "Model decision_function explain ledger "
    "load predict predict_proba save statement",
    "dpbt.training.boosting": "replay",
    "dpbt.training.fit": "Boosted boost fit",
    "dpbt.tuning": "tune",
}
"""Modules of the library by their package, and classes and functions by their module."""

__version__ = metadata.version("dpbt")
"""The version of the installed package, which pyproject.toml states."""

__all__ = [
    "Boosted",
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
    """The module or the name, imported when it is first asked for."""
    for where, names in _NAMES.items():
        if name in names.split():
            found = import_module(where)
            package = hasattr(found, "__path__")
            return import_module(f"{where}.{name}") if package else getattr(found, name)
    raise AttributeError(f"module 'dpbt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *" ".join(_NAMES.values()).split()})
