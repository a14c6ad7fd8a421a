"""Differentially private boosted decision trees in JAX, with guarantees that can be checked.

Names are imported when they are first used, so that `import dpbt` itself needs no JAX.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbt import (
        boosting,
        forests,
        learners,
        losses,
        onnx,
        prediction,
        reader,
        recipes,
        reweighting,
        saving,
        statements,
        sweeps,
        tuning,
    )
    from dpbt.analysis import audit, diagnostics, effects, plot
    from dpbt.analysis.explain import explain
    from dpbt.base import Model, Questions, Recipe, Table, Transcript, Tree
    from dpbt.boosting import Boosted, boost, fit, replay
    from dpbt.chunked import fit_chunks
    from dpbt.data import cells, chunks, conversion, domains, files, owner, questions
    from dpbt.data.tables import table
    from dpbt.prediction import decision_function, predict, predict_proba
    from dpbt.privacy import accounting, boundary, keys, mechanisms
    from dpbt.privacy.keys import fresh_key
    from dpbt.privacy.pricing import ledger
    from dpbt.purse import Purse
    from dpbt.reader import SavedModel, load
    from dpbt.saving import save
    from dpbt.statements import statement
    from dpbt.tuning import tune

_MODULES = {
    "accounting": "dpbt.privacy.accounting",
    "audit": "dpbt.analysis.audit",
    "boosting": "dpbt.boosting",
    "boundary": "dpbt.privacy.boundary",
    "cells": "dpbt.data.cells",
    "chunks": "dpbt.data.chunks",
    "conversion": "dpbt.data.conversion",
    "diagnostics": "dpbt.analysis.diagnostics",
    "domains": "dpbt.data.domains",
    "effects": "dpbt.analysis.effects",
    "files": "dpbt.data.files",
    "forests": "dpbt.forests",
    "keys": "dpbt.privacy.keys",
    "learners": "dpbt.learners",
    "losses": "dpbt.losses",
    "mechanisms": "dpbt.privacy.mechanisms",
    "onnx": "dpbt.onnx",
    "owner": "dpbt.data.owner",
    "plot": "dpbt.analysis.plot",
    "prediction": "dpbt.prediction",
    "questions": "dpbt.data.questions",
    "reader": "dpbt.reader",
    "recipes": "dpbt.recipes",
    "reweighting": "dpbt.reweighting",
    "saving": "dpbt.saving",
    "statements": "dpbt.statements",
    "sweeps": "dpbt.sweeps",
    "tuning": "dpbt.tuning",
}
_NAMES = {
    "Boosted": "dpbt.boosting",
    "Model": "dpbt.base",
    "Purse": "dpbt.purse",
    "Questions": "dpbt.base",
    "Recipe": "dpbt.base",
    "SavedModel": "dpbt.reader",
    "Table": "dpbt.base",
    "Transcript": "dpbt.base",
    "Tree": "dpbt.base",
    "boost": "dpbt.boosting",
    "decision_function": "dpbt.prediction",
    "explain": "dpbt.analysis.explain",
    "fit": "dpbt.boosting",
    "fit_chunks": "dpbt.chunked",
    "fresh_key": "dpbt.privacy.keys",
    "ledger": "dpbt.privacy.pricing",
    "load": "dpbt.reader",
    "predict": "dpbt.prediction",
    "predict_proba": "dpbt.prediction",
    "replay": "dpbt.boosting",
    "save": "dpbt.saving",
    "statement": "dpbt.statements",
    "table": "dpbt.data.tables",
    "tune": "dpbt.tuning",
}

__version__ = metadata.version("dpbt")
"""The version of the installed package, which pyproject.toml states."""

__all__ = [
    "Boosted",
    "Model",
    "Purse",
    "Questions",
    "Recipe",
    "SavedModel",
    "Table",
    "Transcript",
    "Tree",
    "__version__",
    "boost",
    "decision_function",
    "explain",
    "fit",
    "fit_chunks",
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
