"""`auto` of dpbt for several classes and for numbers: every call to the library is here."""

import hashlib
import inspect
import json
import time
import warnings
from typing import Any

import jax
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.base import Recipe, Table
from dpbt.data.domains import Nominal
from dpbt.privacy import keys
from experiments.tasks.study import Study


def check() -> None:
    """Check that this dpbt learns several classes and numbers.

    Raises:
        ImportError: if it does not.
    """
    if "target" not in inspect.signature(dpbt.table).parameters:
        raise ImportError("this dpbt learns neither several classes nor numbers")


def table_of(study: Study, rows: np.ndarray) -> Table:
    """The table of some rows; `rows` is bool[N]."""
    some = study.data.where(rows)
    kind: dict[str, Any] = {"target": some.kind}
    return dpbt.table(some.domain, some.columns, some.cells, **kind)


def recipe_of(study: Study, split: int, epsilon: float, delta: float) -> Recipe:
    """The untuned recipe of a split, whose number is the seed of its public questions."""
    kind: dict[str, Any] = {"target": study.data.kind}
    domain, rows = study.data.domain, study.rows
    return recipes.auto(epsilon=epsilon, delta=delta, rows=rows, domain=domain, seed=split, **kind)


def predictions(
    study: Study, split: int, epsilon: float, delta: float
) -> tuple[np.ndarray, np.ndarray | None, float]:
    """A fit on the training rows of a split, and its predictions of the test rows.

    Returns:
        i64[M] classes or f64[M] numbers; f[M, K] probabilities of classes, or None for numbers; and
        the seconds of the fit.
    """
    test = study.tests[split]
    table, recipe = table_of(study, ~test), recipe_of(study, split, epsilon, delta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", keys.ResearchKeyWarning)
        start = time.perf_counter()
        model = jax.block_until_ready(dpbt.fit(jax.random.key(split), table, recipe))
        seconds = time.perf_counter() - start

    held = table_of(study, test)
    predicted = np.asarray(dpbt.predict(model, held))
    if not isinstance(study.data.kind, Nominal):
        return predicted.astype(np.float64), None, seconds
    return predicted.astype(np.int64), np.asarray(dpbt.predict_proba(model, held)), seconds


def setting(study: Study, epsilon: float, delta: float) -> str:
    """All numbers of the recipe, as JSON; "auto" where this dpbt does not know the task.

    The static parts of its learner are there as a fingerprint.
    """
    try:
        check()
    except ImportError:
        return "auto"
    recipe = recipe_of(study, 0, epsilon, delta)
    leaves, _ = jax.tree_util.tree_flatten_with_path(recipe)
    numbers = {jax.tree_util.keystr(path).strip("."): _digits(leaf) for path, leaf in leaves}
    learner = hashlib.sha256(recipe.learner.tag.encode()).hexdigest()[:8]
    return json.dumps({"setting": recipe.setting, "learner": learner, **numbers})


def _digits(number: Any) -> float:
    """The number with six digits."""
    return float(f"{float(number):.6g}")
