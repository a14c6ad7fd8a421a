"""The same random rows as a table in memory and in blocks, and recipes that learn from both."""

from typing import NamedTuple

import chex
import jax
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.data import convert
from dpbt.data.domains import Nominal, Numeric
from dpbt.learners.trees import rule
from dpbt.training.blocks import fit_in_blocks
from dpbt.training.blocks.memory_plan import MemoryPlan
from dpbt.types import ADD_REMOVE

DOMAIN = {
    "age": Numeric(0, 100, bins=16, missing=True),
    "income": Numeric(0, 1, bins=8),
    "work": Nominal(["state", "private", "none"], other="none"),
}
CLASSES = Nominal(["low", "middle", "high"])
NUMBER = Numeric(0, 10)
KEY, PUBLIC = jax.random.key(5), jax.random.key(6)


def random_columns(rows, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(-10, 120, rows)
    age[rng.random(rows) < 0.1] = np.nan
    work = np.array(["state", "private", "none", "other", "?"])[rng.integers(0, 5, rows)]
    return {"age": age, "income": rng.random(rows), "work": work}


def random_labels(columns, kind, seed=1):
    rng = np.random.default_rng(seed)
    values = (
        np.nan_to_num(columns["age"]) / 20
        + 5 * columns["income"]
        + rng.normal(0, 1, len(columns["age"]))
    )
    if kind == "number":
        return np.where(rng.random(len(values)) < 0.05, np.nan, values)
    labels = ["low", "middle", "high", "?"] if kind == "classes" else ["no", "no", "yes", "?"]
    index = np.clip(values / 3, 0, 2).astype(int)
    return np.array(labels)[np.where(rng.random(len(values)) < 0.05, 3, index)]


TARGET_OPTIONS = {
    "two": {"negative": "no", "positive": "yes"},
    "classes": {"target": CLASSES},
    "number": {"target": NUMBER},
}


def table_and_blocks(folder, kind, rows=700, capacity=None, rows_per_block=256, weights=False):
    """The same rows in memory and in blocks."""
    columns = random_columns(rows)
    options = dict(TARGET_OPTIONS[kind], capacity=capacity)
    if weights:
        weight = np.random.default_rng(2).uniform(-1, 4, rows)
        options |= {"sample_weight": weight, "max_weight": 3.0}
    labels = random_labels(columns, kind)
    table = dpbt.table(DOMAIN, columns, labels, **options)
    block_table = convert.convert_columns(
        DOMAIN, columns, labels, folder, rows_per_block=rows_per_block, **options
    )
    return table, block_table


def oblivious_recipe(kind, rows, delta=1e-6, relation="add_remove", rounds=5, **changes):
    once = {} if changes.get("objective") == "quantile" else {"scores_fraction": 0.05}
    target = TARGET_OPTIONS[kind].get("target")
    common = {
        "domain": DOMAIN,
        "target": target,
        "relation": relation,
        "attributes_per_tree": (1, 2),
    }
    options = {**common, "marginals_fraction": 0.2, "depth": 3, **once, **changes}
    return recipes.oblivious_boost(epsilon=2, delta=delta, rows=rows, rounds=rounds, **options)


def additive_recipe(kind, rows=700, **changes):
    common = {"domain": DOMAIN, "target": TARGET_OPTIONS[kind].get("target"), "resolutions": (2, 4)}
    return recipes.additive(
        **{"epsilon": 2, "delta": 1e-6, "rounds": 5, **common, **changes}, rows=rows
    )


def forest_recipe(rows=700, **changes):
    return recipes.random_forest(**{"epsilon": 2, "rounds": 5, "depth": 3, **changes}, rows=rows)


def greedy_recipe(rows=700, **changes):
    return recipes.bdpe(**{"epsilon": 3, "rounds": 3, "depth": 2, **changes}, rows=rows)


def rule_recipe(rows=700, **changes):
    learner = rule.one_rule(ADD_REMOVE)
    return recipes.custom(learner, **{"epsilon": 3.0, "rounds": 3, **changes}, rows=rows)


def assert_same_fit(first, second):
    parts = [(fit.transcript, fit.hypotheses, fit.intercept) for fit in (first, second)]
    chex.assert_trees_all_equal(*parts, strict=True)


def shorten_passes(monkeypatch):
    """Let a pass have slices of 64 rows, and serve two rounds where it can."""

    def plan(table, recipe, **_):
        return MemoryPlan(64, 2, 2 if recipe.has_independent_rounds else 1)

    monkeypatch.setattr(fit_in_blocks, "plan_memory", plan)


class JoinedRows(NamedTuple):
    """The arrays of all rows of a table; the weights are None if it has none."""

    bins: np.ndarray
    target: np.ndarray
    present: np.ndarray
    weight: np.ndarray | None


def rows_in_blocks(table):
    """All rows of a table in blocks: bins, targets, which rows are present, and weights."""
    parts = []
    for index, block in enumerate(table.blocks):
        part = table.new_absent_rows(block.rows)
        table.read_rows(index, first=0, count=block.rows, into=part)
        parts.append(part)
    joined = [np.concatenate([part[k] for part in parts], axis=-1) for k in range(3)]
    weight = None if parts[0].weight is None else np.concatenate([part.weight for part in parts])
    return JoinedRows(joined[0].T, joined[1], joined[2], weight)


def assert_same_rows(table, block_table):
    rows = rows_in_blocks(block_table)
    for array, expected in zip(rows[:3], table[:3], strict=True):
        np.testing.assert_array_equal(array, np.asarray(expected))
        assert array.dtype == expected.dtype
    if table.weight is None:
        assert rows.weight is None
    else:
        np.testing.assert_array_equal(rows.weight, np.asarray(table.weight))
