"""Lazy Bregman weights: the projection, its properties, and slickness between all neighbours of
small tables.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbt import audit, weighting
from dpbt.data.splits import table_of_splits
from dpbt.privacy import sensitivity
from dpbt.types import ADD_REMOVE, GRID, REPLACE_ONE, Public
from tests.support.references import lazy_boosting

levels_of = jax.jit(weighting.scale_and_cap_weights_to_total)
bounded = pytest.mark.parametrize("cap", [False, True], ids=["cap 1", "public cap"])


def given_numbers(rows, density=0.35, rate=0.45):
    numbers = weighting.LazyNumbers(jnp.float32(density), jnp.float32(rate))
    return Public(jnp.float32(rows), jnp.float32(1), numbers, {})


def weights_of(score, label, present, settings, bound, cap):
    table = table_of_splits(np.zeros((len(score), 1), bool), label, present)
    return weighting.lazy_bregman(cap).weigh(score, jnp.float32(bound), table, settings)


_weights = jax.jit(weights_of, static_argnums=5)


def levels_on(score, label, present, settings, bound, cap):
    return np.asarray(_weights(score, label, present, settings, bound, cap).weight).astype(int)


def levels(weight, total):
    return np.asarray(levels_of(jnp.asarray(weight, jnp.float32), jnp.int32(total)))


sizes = st.sampled_from((1, 2, 3, 8, 21, 60))  # each has programs of its own
seeds = st.integers(0, 10**6)


@given(rows=sizes, seed=seeds, density=st.floats(0.05, 0.95))
def test_levels_are_those_of_the_plain_reference(rows, seed, density):
    margins = np.random.default_rng(seed).integers(-12, 13, rows)
    weight = np.exp(-0.37 * margins).astype(np.float32)
    total = round(density * rows * GRID)
    np.testing.assert_array_equal(
        levels(weight, total), lazy_boosting.grid_levels(weight.astype(float), total)
    )


@pytest.mark.slow
@given(rows=st.integers(2, 7), seed=seeds, density=st.floats(0.1, 0.9))
def test_capped_scaling_is_the_divergence_projection(rows, seed, density):
    """The reference beats every feasible measure tried, near and far; the levels are within two
    units of it.
    """
    rng = np.random.default_rng(seed)
    weight, total = np.exp(-0.5 * rng.normal(0, 3, rows)), density * rows
    best = lazy_boosting.capped_scaling(weight, total)
    assert best.sum() == pytest.approx(total)
    floor = lazy_boosting.divergence(best, weight)
    for size in (1.0, 0.1, 0.01):
        for _ in range(200):
            other = np.clip(best + size * rng.normal(0, 1, rows), 0, 1)
            other = lazy_boosting.capped_scaling(np.maximum(other, 1e-12), total)
            assert lazy_boosting.divergence(other, weight) >= floor - 1e-9
    assert np.abs(levels(weight, round(total * GRID)) - best * GRID).max() <= 2


def test_losses_and_margins_are_one_measure():
    """Bun et al.'s 1 - |h - y| / 2 at rate lambda, and Asadi et al.'s y h at half of it."""
    rng = np.random.default_rng(1)
    y, h = rng.choice([-1, 1], 40), rng.uniform(-1, 1, (9, 40))
    loss = (1 - np.abs(h - y) / 2).sum(axis=0)
    by_loss = lazy_boosting.capped_scaling(np.exp(-0.6 * loss), 0.3 * 40)
    by_margin = lazy_boosting.capped_scaling(np.exp(-0.3 * y * h.sum(axis=0)), 0.3 * 40)
    np.testing.assert_allclose(by_loss, by_margin, rtol=1e-12)
    score = jnp.asarray(h.sum(axis=0), jnp.float32)
    everyone = jnp.ones(40, bool)
    settings = given_numbers(40, 0.3, 0.3)
    found = weights_of(score, jnp.asarray(y > 0), everyone, settings, 9, False)
    np.testing.assert_allclose(found.weight / GRID, by_loss, atol=1.5 / GRID)


@bounded
@given(
    seed=seeds,
    density=st.floats(0.15, 0.9),
    rate=st.floats(0.05, 1.0),
    relation=st.sampled_from([0, 1]),
)
def test_measures_of_all_neighbours_are_slick(cap, seed, density, rate, relation):
    """Mass of at most one cap leaves and at most one cap enters, and all unchanged rows move the
    same way.
    """
    relation = (ADD_REMOVE, REPLACE_ONE)[relation]
    rng = np.random.default_rng(seed)
    rows, bound = 12, 6
    score = jnp.asarray(rng.integers(-bound, bound + 1, 16), jnp.float32)
    nothing, target = np.zeros((rows, 1), bool), rng.random(rows) < 0.5
    table = table_of_splits(nothing, target, rng.random(rows) < 0.9)
    table = table._replace(present=table.present.at[0].set(True))
    near = audit.neighbours(table, relation, (np.zeros((4, 1), np.uint8), rng.random(4) < 0.5))
    settings = given_numbers(13 if relation is ADD_REMOVE else rows, density, rate)

    before = levels_on(score, near.table.target, near.table.present, settings, bound, cap)
    target = near.table.target
    after = np.stack([levels_on(score, target, m, settings, bound, cap) for m in near.present])
    change = after - before
    assert np.maximum(change, 0).sum(axis=1).max() <= GRID * sensitivity.PROPERTY_WEIGHT
    assert np.maximum(-change, 0).sum(axis=1).max() <= GRID * sensitivity.PROPERTY_WEIGHT
    same = np.asarray(near.present) & np.asarray(near.table.present)
    up, down = np.any((change > 0) & same, axis=1), np.any((change < 0) & same, axis=1)
    assert not np.any(up & down)


def test_slickness_is_attained_over_examples_and_not_over_positions():
    """A row at the cap is replaced by one at the cap: distance 1 / (kappa n) over examples, 0 over
    positions.
    """
    label = jnp.array([True] * 10 + [False])
    score = jnp.array([-3.0, *[2.0] * 9, 3.0])
    present = jnp.ones(11, bool).at[10].set(False)
    swapped = present.at[0].set(False).at[10].set(True)
    settings = given_numbers(10, 0.3, 0.5)
    before, after = (weights_of(score, label, p, settings, 3, False) for p in (present, swapped))
    mass = 0.3 * 10 * GRID
    distance = np.abs(np.asarray(before.weight - after.weight)).sum() / 2 / mass
    assert distance == pytest.approx(1 / (0.3 * 10), rel=1e-3)
