"""Differentially private boosted decision trees in JAX, with guarantees that can be checked."""

from importlib import metadata

from dpbt import (
    audit,
    cells,
    diagnostics,
    domains,
    files,
    forest_bounds,
    forests,
    keys,
    losses,
    mechanisms,
    questions,
    recipes,
    runs,
    storage,
    sweeps,
)
from dpbt.base import Model, Questions, Recipe, Table, Tree
from dpbt.boosting import boost, fit, replay
from dpbt.explain import explain
from dpbt.keys import fresh_key
from dpbt.prediction import decision_function, predict, predict_proba
from dpbt.pricing import ledger
from dpbt.tables import table

__version__ = metadata.version("dpbt")
"""The version of the installed package, which pyproject.toml states."""

__all__ = [
    "Model",
    "Questions",
    "Recipe",
    "Table",
    "Tree",
    "__version__",
    "audit",
    "boost",
    "cells",
    "decision_function",
    "diagnostics",
    "domains",
    "explain",
    "files",
    "fit",
    "forest_bounds",
    "forests",
    "fresh_key",
    "keys",
    "ledger",
    "losses",
    "mechanisms",
    "predict",
    "predict_proba",
    "questions",
    "recipes",
    "replay",
    "runs",
    "storage",
    "sweeps",
    "table",
]
