"""A run under vmap is bit for bit the run alone, whatever the number of lanes."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.common import arithmetic
from dpbt.training import table_preparation
from tests.support.contract_rows import ROWS
from tests.support.whole_recipes import RESPONSES, recipe_and_table

PUBLIC_KEY = jax.random.key(1)

LANES = [3, 64]

# The functions that lanes share with single runs.


def points_between(start, stop):
    return np.linspace(start, stop, 100_001).astype(np.float32)


PORTABLE_FUNCTIONS = {
    "portable_exp2": (arithmetic.portable_exp2, np.exp2, points_between(-120, 127)),
    "portable_exp": (arithmetic.portable_exp, np.exp, points_between(-80, 88)),
    "portable_log2": (arithmetic.portable_log2, np.log2, np.exp2(points_between(-125, 127))),
    "portable_log": (arithmetic.portable_log, np.log, np.exp2(points_between(-1, 1))),
}


@pytest.mark.parametrize("name", PORTABLE_FUNCTIONS)
def test_portable_functions_are_within_four_units_in_the_last_place(name):
    function, reference, points = PORTABLE_FUNCTIONS[name]
    exact = reference(points.astype(np.float64))
    assert np.all(np.abs(function(points) - exact) <= 4 * 2.0**-24 * np.abs(exact) + 1e-30)


@pytest.mark.parametrize("length", [1, 5, 15])
@pytest.mark.parametrize("name", PORTABLE_FUNCTIONS)
def test_portable_functions_round_alike_in_numpy_and_in_programs_of_any_length(name, length):
    function, _, points = PORTABLE_FUNCTIONS[name]
    points = points[:: len(points) // 15][:length]
    np.testing.assert_array_equal(np.asarray(jax.jit(function)(points)), function(points))


def test_portable_powers_end_at_zero_and_infinity():
    exponents = np.array([-np.inf, -127, 128, np.inf, np.nan], np.float32)
    for powers in (
        arithmetic.portable_exp2(exponents),
        jax.jit(arithmetic.portable_exp2)(exponents),
    ):
        np.testing.assert_array_equal(powers, np.array([0, 0, np.inf, np.inf, np.nan], np.float32))


def test_portable_functions_have_gradients():
    x = jnp.float32(1.7)
    np.testing.assert_allclose(jax.grad(arithmetic.portable_exp)(x), np.exp(1.7), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(arithmetic.portable_exp2)(x), np.log(2) * 2**1.7, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(arithmetic.portable_log)(x), 1 / 1.7, rtol=1e-6)


# Whole runs.


def check_lanes_are_single_runs(recipe, table, lanes):
    """The release, the hypotheses and the scores of eight lanes are those of eight single runs."""
    keys = jax.random.split(jax.random.key(7), lanes)
    run = functools.partial(dpbt.boost, table=table, recipe=recipe, public_key=PUBLIC_KEY)
    side_by_side = jax.vmap(run)(keys)
    for lane in np.unique(np.linspace(0, lanes - 1, 8).astype(int)):
        single_run = run(keys[lane])
        lane_of_batch = jax.tree.map(lambda array, lane=lane: array[lane], side_by_side)
        for (path, expected), array in zip(
            jax.tree.leaves_with_path(single_run), jax.tree.leaves(lane_of_batch), strict=True
        ):
            name = jax.tree_util.keystr(path)
            np.testing.assert_array_equal(np.asarray(array), np.asarray(expected), name)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_lane_of_each_learner_is_the_run_alone(row, lanes):
    recipe = row.recipe("add_remove", epsilon=8.0, rows=700, rounds=8, depth=3)
    table = row.table(seed=3, rows=700, splits=3, absent=5)
    check_lanes_are_single_runs(recipe, table, lanes)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("make", [recipes.auto, recipes.additive], ids=lambda make: make.__name__)
def test_a_lane_of_a_whole_recipe_is_the_run_alone(make, delta, response, lanes):
    recipe, table = recipe_and_table(make, delta, response)
    check_lanes_are_single_runs(recipe, table, lanes)


def test_three_lanes_of_oblivious_trees_are_the_runs_alone():
    row = next(row for row in ROWS if row.name == "oblivious")
    recipe = row.recipe("add_remove", epsilon=8.0, rows=100, rounds=3, depth=2)
    check_lanes_are_single_runs(recipe, row.table(seed=3, rows=100, splits=3), 3)


@pytest.mark.slow
def test_lanes_of_several_settings_are_the_settings_alone():
    """Numbers of a recipe with an axis of lanes are broadcast otherwise than single numbers.

    `tests/test_multi_program_recipes.py` tests the same for `auto` and `additive`.
    """
    make_recipe, lanes = functools.partial(recipes.oblivious_boost, rounds=3), []
    for epsilon in (1.0, 3.0, 8.0):
        recipe, table = recipe_and_table(make_recipe, 1e-6, "three classes", epsilon=epsilon)
        lanes.append(table_preparation.without_domain(recipe))
    key = jax.random.key(7)

    def run(recipe):
        return dpbt.boost(key, table._replace(domain=None), recipe, PUBLIC_KEY)

    side_by_side = jax.vmap(run)(jax.tree.map(lambda *leaves: np.stack(leaves), *lanes))
    for lane, recipe in enumerate(lanes):
        lane_of_batch = jax.tree.map(lambda array, lane=lane: array[lane], side_by_side)
        chex.assert_trees_all_equal(run(recipe), lane_of_batch)
