"""Sweeps of every target and of weights: what is measured, single fits again, and data frames."""

import dataclasses
import sys
import types

import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes, sweeps
from dpbt.data.domains import Nominal, Numeric
from dpbt.models import measures
from tests.support import worker_process

NUM_ROWS = 90
DOMAIN = {"x": Numeric(0, 1, bins=6), "y": Numeric(0, 1, bins=6)}
RANGE = Numeric(0, 10, bins=8)

OPTIONS = {
    "two classes": {},
    "three classes": {"target": Nominal(("a", "b", "c"))},
    "number": {"target": RANGE},
    "count": {"target": RANGE, "objective": "poisson"},
    "quantile": {"target": RANGE, "objective": "quantile", "quantile": 0.3},
}
"""The options of a recipe for each target."""


def made_up_rows():
    rng = np.random.default_rng(0)
    columns = {name: rng.random(NUM_ROWS) for name in DOMAIN}
    return columns, columns["x"] + 0.2 * rng.normal(size=NUM_ROWS)


def task_of(target, **weights):
    columns, signal = made_up_rows()
    labels = {
        "two classes": signal > 0.5,
        "three classes": np.array(["a", "b", "c"])[np.digitize(signal, [0.3, 0.7])],
    }
    label = labels.get(target, np.clip(8 * signal, 0, 10))
    declared = {name: value for name, value in OPTIONS[target].items() if name == "target"}
    table = dpbt.table(DOMAIN, columns, label, **declared, **weights)
    test = np.arange(NUM_ROWS) % 3 == np.arange(2)[:, None]
    arguments = {"rows": NUM_ROWS, **OPTIONS[target]}
    return sweeps.Task(target.replace(" ", "_"), table, ~test, test, arguments)


def make(rows, epsilon, **options):
    return recipes.oblivious_boost(
        epsilon=epsilon, rows=rows, domain=DOMAIN, rounds=2, depth=2, delta=1e-6, **options
    )


SWEEP = sweeps.Sweep("targets", make, {"epsilon": (1.0, 8.0)}, repeats=2, seed=4)


def run(task, folder, sweep=SWEEP, **options):
    sweeps.run(sweep, task, folder, about={}, **options)
    return sweeps.load_columns(folder / f"{task.name}.jsonl").columns


def fits_of_columns(task, columns, sweep=SWEEP):
    """Each fit of the columns again, alone."""
    numbers = zip(columns["setting"], columns["evaluation"], columns["repeat"], strict=True)
    for setting, evaluation, repeat in numbers:
        yield sweeps.repeat_fit(sweep, task, str(setting), evaluation=evaluation, repeat=repeat)


def score_columns(fit):
    return {"score": fit.boosted.scores, "max_rounds": fit.recipe.max_rounds}
