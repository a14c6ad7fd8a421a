"""Padding: few shapes are compiled for, and nothing that is learned or predicted depends on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import boosting, recipes
from dpbt.common.types import MAX_ROWS
from dpbt.data import tables
from dpbt.data.splits import of_splits
from dpbt.release import scoring as prediction
from dpbt.training import fit as training_fit


def table_of(rows, splits=4, seed=0):
    rng = np.random.default_rng(seed)
    here = np.ones(rows, bool)
    return of_splits(rng.random((rows, splits)) < 0.5, rng.random(rows) < 0.4, here)


def test_buckets_are_few_and_waste_at_most_a_quarter():
    counts = np.arange(1, 100_000)
    sizes = np.array([tables.bucket(int(count)) for count in counts])
    assert np.all(sizes >= counts)
    assert np.all(sizes <= 1.25 * counts)
    assert np.all(np.diff(sizes) >= 0)
    assert len(set(sizes.tolist())) <= 4 * 15 + 8
    assert [tables.bucket(count) for count in range(1, 12)] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12]
    assert tables.row_bucket(1) == tables.MIN_ROWS
    most = tables.MAX_PADDED_ROWS
    assert tables.row_bucket(most) == tables.row_bucket(most - 1) == most
    assert tables.row_bucket(most + 1) == most + 1
    assert tables.row_bucket(MAX_ROWS - 1) == MAX_ROWS - 1


MAKERS = {
    "bdpe": lambda rows, rounds: recipes.bdpe(epsilon=2.0, rows=rows, rounds=rounds, depth=1),
    "rules": lambda rows, rounds: recipes.lazybb_rules(epsilon=2.0, rows=rows, rounds=rounds),
    "forest": lambda rows, rounds: recipes.random_forest(
        epsilon=2.0, rows=rows, rounds=rounds, depth=3
    ),
    "disjoint": lambda rows, rounds: recipes.random_forest(
        epsilon=2.0, rows=rows, rounds=rounds, depth=3, disjoint=True
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_fit_is_what_boost_learns_without_padding(name):
    table, recipe = table_of(75), MAKERS[name](75, 9)
    keys = jax.random.split(jax.random.key(3))
    model = dpbt.fit(keys[0], table, recipe, keys[1])
    bare = jax.jit(dpbt.boost)(keys[0], table, recipe, keys[1])
    kept = boosting.without_withheld(bare.transcript, recipe.learner)
    jax.tree.map(np.testing.assert_array_equal, model.hypotheses, bare.hypotheses)
    jax.tree.map(np.testing.assert_array_equal, model.transcript, kept)


def test_rows_and_rounds_of_one_bucket_share_a_program():
    compiled = training_fit._compiled._cache_size
    key, make = jax.random.key(0), MAKERS["bdpe"]
    dpbt.fit(key, table_of(90), make(90, 10))
    before = compiled()
    for rows, rounds in ((81, 9), (88, 10), (96, 9)):
        model = dpbt.fit(key, table_of(rows), make(rows, rounds))
        assert model.hypotheses.leaf.shape[0] == rounds
    assert compiled() == before
    dpbt.fit(key, table_of(97), make(97, 10))
    assert compiled() == before + 1


def test_batches_of_one_bucket_share_a_program_of_prediction():
    model = dpbt.fit(jax.random.key(0), table_of(90), MAKERS["bdpe"](90, 3))
    batch = np.asarray(table_of(128).bins)
    everyone = np.asarray(dpbt.decision_function(model, batch))
    before = prediction.compiled(prediction.scores)._cache_size()
    for count in (113, 120, 128):
        found = dpbt.decision_function(model, batch[:count])
        np.testing.assert_array_equal(found, everyone[:count])
    assert prediction.compiled(prediction.scores)._cache_size() == before


def test_padding_leaves_a_full_table_as_it_is():
    table = table_of(96)
    assert tables.padded(table) is table
    more = tables.padded(table_of(95))
    assert more.bins.shape[0] == 96
    assert int(jnp.sum(more.present)) == 95
