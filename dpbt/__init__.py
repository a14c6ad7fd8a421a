"""Differentially private boosted decision trees in JAX, with guarantees that can be checked."""

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
from dpbt.boosting import boost, decision_function, fit, predict, predict_proba, replay
from dpbt.keys import fresh_key
from dpbt.pricing import ledger
from dpbt.rules import explain
from dpbt.tables import table

__all__ = [
    "Model",
    "Questions",
    "Recipe",
    "Table",
    "Tree",
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
