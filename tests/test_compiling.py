"""Few shapes are compiled for, some sooner; and nothing that is learned depends on either."""

import contextlib
import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import boosting, recipes
from dpbt.common.types import MAX_ROWS
from dpbt.data import tables
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.data.splits import of_splits
from dpbt.release import scoring as prediction
from dpbt.training import fit as training_fit

# Shapes.


def bits_of(rows, splits=4, seed=0):
    rng = np.random.default_rng(seed)
    here = np.ones(rows, bool)
    return of_splits(rng.random((rows, splits)) < 0.5, rng.random(rows) < 0.4, here)


def test_buckets_are_few_and_waste_at_most_a_quarter():
    counts = np.arange(1, 10_000)
    sizes = np.array([tables.bucket(int(count)) for count in counts])
    assert np.all((sizes >= counts) & (sizes <= 1.25 * counts))
    assert np.all(np.diff(sizes) >= 0)
    assert len(set(sizes.tolist())) <= 4 * 12 + 8
    assert [tables.bucket(count) for count in range(1, 12)] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12]
    most = tables.MAX_PADDED_ROWS
    assert tables.row_bucket(1) == tables.MIN_ROWS
    assert tables.row_bucket(most) == tables.row_bucket(most - 1) == most
    assert all(tables.row_bucket(rows) == rows for rows in (most + 1, MAX_ROWS - 1))


def greedy(rows, rounds):
    return recipes.bdpe(epsilon=2.0, rows=rows, rounds=rounds, depth=1)


@pytest.mark.parametrize(
    "disjoint", [False, *(pytest.param(each, marks=pytest.mark.slow) for each in (None, True))]
)
def test_a_fit_is_what_boost_learns_without_padding(disjoint):
    """Of greedy trees, or of a forest."""
    table, recipe = bits_of(75), greedy(75, 9)
    if disjoint is not None:
        options = {"rounds": 9, "depth": 3, "disjoint": disjoint}
        recipe = recipes.random_forest(epsilon=2.0, rows=75, **options)
    keys = jax.random.split(jax.random.key(3))
    model = dpbt.fit(keys[0], table, recipe, keys[1])
    bare = jax.jit(dpbt.boost)(keys[0], table, recipe, keys[1])
    kept = boosting.without_withheld(bare.transcript, recipe.learner)
    jax.tree.map(np.testing.assert_array_equal, model.hypotheses, bare.hypotheses)
    jax.tree.map(np.testing.assert_array_equal, model.transcript, kept)


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


# Which fits are compiled sooner, and that it changes no release.

DOMAIN = {"size": Numeric(0, 1, bins=12), "age": Numeric(0, 1, bins=64), "on": Boolean()}
TARGETS = {
    "two classes": None,
    "three classes": Nominal(("a", "b", "c")),
    "four classes": Nominal(("a", "b", "c", "d")),
    "numbers": Numeric(0, 2),
}


@contextlib.contextmanager
def optimizations() -> Iterator[None]:
    """The compiler as a user has it, which these tests otherwise run without optimizations."""
    asked = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", asked)


def table_of(rows: int, target) -> dpbt.Table:
    rng = np.random.default_rng(rows)
    columns = {"size": rng.random(rows), "age": rng.random(rows), "on": rng.random(rows) < 0.5}
    labels = columns["size"] + columns["age"] * columns["on"]
    if target is None:
        labels = labels > 0.6
    elif isinstance(target, Nominal):
        labels = np.array(target.values)[(labels * len(target.values) / 2).astype(int)]
    return dpbt.table(DOMAIN, columns, labels, target=target)


def test_who_chooses_how_programs_are_compiled(monkeypatch):
    with optimizations():
        assert training_fit.may_choose("cpu")
        assert not training_fit.may_choose("gpu")
        monkeypatch.setattr(training_fit, "_KNOWN_VERSIONS", ((0, 1), (0, 2)))
        assert not training_fit.may_choose("cpu")
        monkeypatch.undo()
        jax.config.update("jax_disable_most_optimizations", True)  # the user's choice goes first
        assert not training_fit.may_choose("cpu")


def test_what_is_compiled_sooner(small_table):
    """Of greedy trees another emitter gives other releases, so they are compiled in full."""
    common = {"epsilon": 1.0, "rows": 90, "rounds": 2}
    sums = recipes.oblivious_boost(depth=2, domain=DOMAIN, **common)
    numbers = recipes.oblivious_boost(domain=DOMAIN, target=TARGETS["numbers"], **common)
    table, sooner = table_of(90, TARGETS["numbers"]), training_fit._compiled_sooner
    with optimizations():
        for rows, recipe, expected in (
            (small_table, sums, True),
            (small_table, recipes.random_forest(depth=2, **common), True),
            (small_table, dataclasses.replace(sums, capacity=2**20), False),
            (small_table, recipes.bdpe(depth=2, **common), False),
            (small_table, recipes.lazybb_rules(density=0.3, learning_rate=0.1, **common), False),
            (table, numbers, False),
        ):
            assert (training_fit._compiled_for(rows, recipe) is sooner) == expected


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", [kind for kind in TARGETS if kind != "numbers"])
def test_both_ways_have_the_same_releases(kind, delta):
    """Bit for bit, as fits and replays may be compiled in different ways."""
    target = TARGETS[kind]
    table = table_of(3_000, target)
    for shares in ({}, {"marginals_fraction": 0.3}, {"scores_fraction": 0.2}):
        recipe = recipes.oblivious_boost(
            epsilon=2.0,
            delta=delta,
            rows=3_000,
            rounds=60,
            domain=DOMAIN,
            target=target,
            **shares,
        )
        assert_same_both_ways(table, recipe)


@pytest.mark.slow
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("negative", ["zero", "uniform"])
def test_both_ways_have_the_same_forest(disjoint, negative):
    recipe = recipes.random_forest(
        epsilon=2.0, rows=3_000, rounds=20, depth=6, disjoint=disjoint, negative=negative
    )
    assert_same_both_ways(table_of(3_000, None), recipe)


def assert_same_both_ways(table, recipe):
    with optimizations():
        first, again = (
            run(jax.random.key(7), table, recipe, jax.random.key(8))
            for run in (training_fit._compiled, training_fit._compiled_sooner)
        )
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
