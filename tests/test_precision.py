"""Under `jax_enable_x64` runs are refused, and what is released is read as without it."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

import dpbt
from dpbt import audit, recipes, sweeps, tuning
from dpbt.data import convert
from dpbt.data.domains import Boolean
from dpbt.sklearn import PrivateBoostingClassifier
from tests.support.budget_examples import recipe_by_name
from tests.support.slow_cases import mark_slow_cases_except

DOMAIN = {name: Boolean() for name in "abcd"}
REFUSED = "jax_enable_x64 is on"
KEYS = jax.random.key(3), jax.random.key(4)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """What the entries read, made without the flag."""
    folder = tmp_path_factory.mktemp("given")
    bins = {name: np.arange(40) % (2 + k) == 0 for k, name in enumerate(DOMAIN)}
    labels = np.arange(40) % 3 == 0
    table = dpbt.table(DOMAIN, bins, labels)
    train = np.arange(40)[None] < 20
    recipe = recipes.bdpe(epsilon=1.0, rows=40, rounds=1, depth=1)
    return SimpleNamespace(
        folder=folder,
        bins=bins,
        labels=labels,
        table=table,
        chunked=convert.convert_columns(DOMAIN, bins, labels, folder / "chunks"),
        recipe=recipe,
        auto=recipes.oblivious_boost(epsilon=1.0, rows=40, domain=DOMAIN, rounds=2),
        transcript=dpbt.boost(KEYS[0], table, recipe).transcript,
        near=audit.neighbours(table, "add_remove"),
        sweep=sweeps.Sweep("s", recipes.bdpe, {"epsilon": 1.0, "rounds": 1}),
        task=sweeps.Task("t", table, train, ~train, {"rows": 40}),
        budget=dpbt.Filter(9.0, rows=40),
    )


KEY, PUBLIC = KEYS
ENTRIES = {
    "fit": lambda on: dpbt.fit(KEY, on.table, on.auto, PUBLIC),
    "boost": lambda on: dpbt.boost(KEY, on.table, on.auto, PUBLIC),
    "replay": lambda on: dpbt.replay(on.transcript, on.table, on.recipe),
    "fit in blocks": lambda on: dpbt.fit(KEY, on.chunked, on.auto, PUBLIC),
    "filter": lambda on: dpbt.fit(KEY, on.table, on.auto, PUBLIC, filter=on.budget),
    "filter in blocks": lambda on: dpbt.fit(KEY, on.chunked, on.recipe, filter=on.budget),
    "tune": lambda on: dpbt.tune(KEY, on.table, [on.recipe], tuning.selection()),
    "audit": lambda on: audit.audit_transcripts(KEY, on.near, on.recipe, 1),
    "pair_loss": lambda on: audit.largest_loss_between_tables(
        KEY, on.table, on.table, on.recipe, 1
    ),
    "search": lambda on: audit.search_worst_table(
        KEY, on.recipe, num_rows=4, num_splits=2, num_tables=1, num_proposals=1
    ),
    "sweeps.run": lambda on: sweeps.run(on.sweep, on.task, on.folder / "sweep"),
    "an estimator": lambda on: PrivateBoostingClassifier(
        epsilon=1.0, rows=40, domain=DOMAIN, random_state=0
    ).fit(np.stack(list(on.bins.values()), axis=1), on.labels),
}
"""Every entry that draws for private rows, or reads them as a run does."""


@pytest.mark.parametrize("name", ENTRIES)
def test_no_entry_runs_under_other_flags(inputs, name):
    """So two runs that differ in a flag alone never have one noise on different sums.

    With other random bits for threefry keys, the public structure is another.
    """
    with jax.enable_x64(True), pytest.raises(ValueError, match=REFUSED):
        ENTRIES[name](inputs)
    refused = pytest.raises(ValueError, match="jax_threefry_partitionable is off")
    with jax.threefry_partitionable(False), refused:
        ENTRIES[name](inputs)
    assert inputs.budget.spent == dpbt.Filter(9.0, rows=40).spent
    assert not (inputs.folder / "sweep").exists()


def are_equal_trees(value, expected):
    pairs = zip(jax.tree.leaves(value), jax.tree.leaves(expected), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    "name",
    mark_slow_cases_except(["auto", "bdpe", "halfspace_boost", "rf_e"], fast=["rf_e"]),
)
def test_recipes_and_ledgers_are_the_same_under_the_flag(name):
    delta = 1e-6 if name == "halfspace_boost" else 0.0
    recipe = recipe_by_name(name, delta=delta)
    ledger_text = str(dpbt.ledger(recipe_by_name(name, delta=delta)))
    jax.clear_caches()
    with jax.enable_x64(True):
        assert are_equal_trees(recipe_by_name(name, delta=delta), recipe)
        assert str(dpbt.ledger(recipe)) == ledger_text


@pytest.mark.slow
def test_models_are_read_alike_under_the_flag(inputs):
    model = ENTRIES["fit"](inputs)
    dpbt.save(model, inputs.folder / "kept.json", domain=DOMAIN)

    def read():
        loaded = dpbt.load(inputs.folder / "kept.json")
        answers = [
            np.asarray(dpbt.predict(model_read, inputs.table)) for model_read in (model, loaded)
        ]
        return (
            *answers,
            str(dpbt.explain(loaded)),
            str(dpbt.ledger(loaded)),
            str(dpbt.ledger(model)),
        )

    readings = read()
    with jax.enable_x64(True):
        for without_flag, with_flag in zip(readings, read(), strict=True):
            np.testing.assert_array_equal(without_flag, with_flag)
