"""How programs are compiled: which fits sooner, and with the same releases."""

import contextlib
import dataclasses
from collections.abc import Iterator

import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.training import compiling
from dpbt.training import fit as training_fit

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


def test_what_is_short():
    assert compiling.is_short(1_372, 1_000)
    assert not compiling.is_short(100_000, 1_000)
    assert not compiling.is_short(2**31, 1)


def test_who_chooses_how_programs_are_compiled(monkeypatch):
    with optimizations():
        assert compiling.may_choose("cpu")
        assert not compiling.may_choose("gpu")
        monkeypatch.setattr(compiling, "_KNOWN_VERSIONS", ((0, 1), (0, 2)))
        assert not compiling.may_choose("cpu")
        monkeypatch.undo()
        jax.config.update("jax_disable_most_optimizations", True)  # the user's choice goes first
        assert not compiling.may_choose("cpu")


def test_what_is_compiled_sooner(small_table):
    """Of greedy trees another emitter gives other releases, so they are compiled in full."""
    greedy = recipes.bdpe(epsilon=1.0, rows=90, rounds=2, depth=2)
    sums = recipes.oblivious_boost(epsilon=1.0, rows=90, rounds=2, depth=2, domain=DOMAIN)
    many = dataclasses.replace(sums, capacity=2**20)
    forest = recipes.random_forest(epsilon=1.0, rows=90, rounds=2, depth=2)
    rules = recipes.lazybb_rules(epsilon=1.0, rows=90, rounds=2, density=0.3, learning_rate=0.1)
    with optimizations():
        assert training_fit._compiled_for(small_table, sums) is training_fit._compiled_sooner
        assert training_fit._compiled_for(small_table, forest) is training_fit._compiled_sooner
        assert training_fit._compiled_for(small_table, many) is training_fit._compiled
        assert training_fit._compiled_for(small_table, greedy) is training_fit._compiled
        assert training_fit._compiled_for(small_table, rules) is training_fit._compiled
        number = {"rows": 90, "rounds": 2, "domain": DOMAIN, "target": TARGETS["numbers"]}
        numbers = recipes.oblivious_boost(epsilon=1.0, **number)
        assert (
            training_fit._compiled_for(table_of(90, TARGETS["numbers"]), numbers)
            is training_fit._compiled
        )


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
