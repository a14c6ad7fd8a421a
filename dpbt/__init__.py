"""Differentially private boosted decision trees in JAX, with guarantees that can be checked.

Names are imported when they are first used, so that `import dpbt` itself needs no JAX.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbt import (
        learners,
        losses,
        recipes,
        sweeps,
        tuning,
        weighting,
    )
    from dpbt.analysis import audit, effects, plot
    from dpbt.base import Questions, Recipe, Table, Transcript, Tree
    from dpbt.data import blocks, cells, convert, domains, files, owner, questions
    from dpbt.data.tables import table
    from dpbt.privacy import accounting, boundary, keys, mechanisms
    from dpbt.privacy.filter import Filter
    from dpbt.privacy.keys import fresh_key
    from dpbt.release import onnx
    from dpbt.release.model import (
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
    from dpbt.training import boosting, processes
    from dpbt.training.boosting import Boosted, boost, replay
    from dpbt.training.fit import fit
    from dpbt.tuning import tune

_MODULES = {
    "accounting": "dpbt.privacy.accounting",
    "audit": "dpbt.analysis.audit",
    "boosting": "dpbt.training.boosting",
    "boundary": "dpbt.privacy.boundary",
    "blocks": "dpbt.data.blocks",
    "cells": "dpbt.data.cells",
    "convert": "dpbt.data.convert",
    "domains": "dpbt.data.domains",
    "effects": "dpbt.analysis.effects",
    "files": "dpbt.data.files",
    "keys": "dpbt.privacy.keys",
    "learners": "dpbt.learners",
    "losses": "dpbt.losses",
    "mechanisms": "dpbt.privacy.mechanisms",
    "onnx": "dpbt.release.onnx",
    "owner": "dpbt.data.owner",
    "plot": "dpbt.analysis.plot",
    "processes": "dpbt.training.processes",
    "questions": "dpbt.data.questions",
    "recipes": "dpbt.recipes",
    "weighting": "dpbt.weighting",
    "sweeps": "dpbt.sweeps",
    "tuning": "dpbt.tuning",
}
_NAMES = {
    "Boosted": "dpbt.training.boosting",
    "Model": "dpbt.release.model",
    "Filter": "dpbt.privacy.filter",
    "Questions": "dpbt.base",
    "Recipe": "dpbt.base",
    "Table": "dpbt.base",
    "Transcript": "dpbt.base",
    "Tree": "dpbt.base",
    "boost": "dpbt.training.boosting",
    "decision_function": "dpbt.release.model",
    "explain": "dpbt.release.model",
    "fit": "dpbt.training.fit",
    "fresh_key": "dpbt.privacy.keys",
    "ledger": "dpbt.release.model",
    "load": "dpbt.release.model",
    "predict": "dpbt.release.model",
    "predict_proba": "dpbt.release.model",
    "replay": "dpbt.training.boosting",
    "save": "dpbt.release.model",
    "statement": "dpbt.release.model",
    "table": "dpbt.data.tables",
    "tune": "dpbt.tuning",
}

__version__ = metadata.version("dpbt")
"""The version of the installed package, which pyproject.toml states."""

__all__ = [
    "Boosted",
    "Filter",
    "Model",
    "Questions",
    "Recipe",
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
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'dpbt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
