"""Few shapes are compiled for, and nothing that is learned depends on them."""

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.data import tables
from dpbt.data.splits import of_splits
from dpbt.models import scoring as prediction
from dpbt.training import fit as training_fit
from dpbt.types import MAX_ROWS

# Shapes.


def bits_of(rows, splits=4, seed=0):
    rng = np.random.default_rng(seed)
    here = np.ones(rows, bool)
    return of_splits(rng.random((rows, splits)) < 0.5, rng.random(rows) < 0.4, here)


def test_buckets_are_few_and_waste_at_most_a_quarter():
    counts = np.arange(1, 10_000)
    sizes = np.array([tables.bucket(int(count)) for count in counts])
    assert np.all((sizes >= counts) & (sizes <= 1.25 * counts))
    assert len(set(sizes.tolist())) <= 4 * 12 + 8
    most = tables.MAX_PADDED_ROWS
    assert tables.row_bucket(1) == tables.MIN_ROWS
    assert tables.row_bucket(most) == tables.row_bucket(most - 1) == most
    assert all(tables.row_bucket(rows) == rows for rows in (most + 1, MAX_ROWS - 1))


def greedy(rows, rounds):
    return recipes.bdpe(epsilon=2.0, rows=rows, rounds=rounds, depth=1)


def test_what_is_of_one_bucket_shares_programs_of_fits_and_of_prediction():
    compiled, key = training_fit._compiled._cache_size, jax.random.key(0)
    model = dpbt.fit(key, bits_of(90), greedy(90, 10))
    before = compiled()
    for rows, rounds in ((81, 9), (96, 9)):
        found = dpbt.fit(key, bits_of(rows), greedy(rows, rounds))
        assert found.hypotheses.leaf.shape[0] == rounds
    assert compiled() == before

    batch = np.asarray(bits_of(128).bins)
    everyone = np.asarray(dpbt.decision_function(model, batch))
    before = prediction.compiled(prediction.scores)._cache_size()
    for count in (113, 120, 128):
        found = dpbt.decision_function(model, batch[:count])
        np.testing.assert_array_equal(found, everyone[:count])
    assert prediction.compiled(prediction.scores)._cache_size() == before


def test_padding_leaves_a_full_table_as_it_is():
    table = bits_of(96)
    assert tables.padded(table) is table
    more = tables.padded(bits_of(95))
    assert more.bins.shape[0] == 96
    assert int(jnp.sum(more.present)) == 95
