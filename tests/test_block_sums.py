"""Sums over parts of a table, stages of programs that draw from them, and draws of large sums."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.privacy import boundary, draws_from_sums, mechanisms, pass_stages, program_interpreters
from dpbt.privacy.draw_dependencies import trace_draw_dependencies
from dpbt.privacy.mechanisms import SATURATION
from dpbt.types import GRID, Noise, Prologue, View
from tests.support.recipe_noise import draw_spec

KEY, PUBLIC = jax.random.key(3), jax.random.key(6)

# Stages.


LAPLACE = mechanisms.discrete_laplace
ONE = {"sensitivity": 1.0, "moved_outputs": 1, "theorem": "none", "scale": 1.0}


def stages_of(program):
    def make(weights):
        return View(None, weights, Noise({}), None)

    return pass_stages.group_draws_into_stages(trace_draw_dependencies(program, make, jnp.ones(3)))


def test_stages_follow_from_what_sums_read():
    """Through functions compiled on their own, which are looked into, and through loops."""

    @jax.jit
    def both(weights, first):
        return jnp.sum(weights), jnp.sum(weights >> jnp.clip(first, 0, 6))

    def program(draw, table, weights, params, public):
        whole = weights.astype(jnp.int32)
        alone = draw("alone", LAPLACE, boundary.Total(jnp.sum(whole)), **ONE)
        plain, after = both(whole, alone)
        draw("plain", LAPLACE, boundary.Total(plain), **ONE)
        second = draw("after", LAPLACE, boundary.Total(after), **ONE)
        looped = jax.lax.fori_loop(0, 3, lambda k, total: total + second * whole[k], 0)
        draw("looped", LAPLACE, boundary.Total(looped), **ONE)
        draw("last", LAPLACE, boundary.Total(plain), **ONE)

    assert stages_of(program) == (("alone", "plain"), ("after",), ("looped", "last"))


def test_sums_of_a_level_wait_for_the_splits_above():
    recipe = recipes.bdpe(epsilon=3, rows=700, rounds=3, depth=2)
    stages_of_recipe = ("error_0", "split_0"), ("error_1", "split_1"), ("leaf",)
    assert pass_stages.stages_of_phase(recipe, recipe.learner.round) == stages_of_recipe
    published = recipes.bdpe(epsilon=1, rows=10, calibration="published")
    with pytest.raises(ValueError, match=r"'leaf' is of no boundary\.Total"):
        pass_stages.stages_of_phase(published, published.learner.round)


def coin_of_a_sum(draw, table, weights, params, public):
    total = draw("total", LAPLACE, boundary.Total(jnp.sum(weights).astype(jnp.int32)), **ONE)
    sides = jnp.maximum(total, 2)
    draw("coin", mechanisms.uniform, jnp.zeros(1, jnp.int32), scale=sides, theorem="none")


def scale_of_rows(draw, table, weights, params, public):
    total = boundary.Total(jnp.sum(weights).astype(jnp.int32))
    draw("sum", LAPLACE, total, **{**ONE, "scale": jnp.max(weights)})


def no_total(draw, table, weights, params, public):
    draw("sum", LAPLACE, jnp.sum(weights).astype(jnp.int32), **ONE)


def narrow_numbers(draw, table, weights, params, public):
    draw("sum", LAPLACE, boundary.Total(jnp.sum(weights).astype(jnp.int16)), **ONE)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (coin_of_a_sum, r"'coin' asks for follows from \['total'\]"),
        (scale_of_rows, r"'sum' asks for follows from \['the private rows'\]"),
        (no_total, r"'sum' is of no boundary.Total"),
        (narrow_numbers, r"int32, got \['int16'\]"),
    ],
)
def test_programs_that_need_all_rows_at_once_are_refused(program, words):
    with pytest.raises(ValueError, match=words):
        stages_of(program)


def test_a_prologue_has_one_pass():
    def program(draw, table, weights, params, public):
        whole = weights.astype(jnp.int32)
        first = draw("first", LAPLACE, boundary.Total(jnp.sum(whole)), **ONE)
        draw("second", LAPLACE, boundary.Total(jnp.sum(whole * first)), **ONE)

    start = lambda release, params: jnp.float32(0)  # noqa: E731
    prologue = Prologue(program=program, initial_score=start, identity="two passes")
    recipe = recipes.bdpe(epsilon=3, rows=700, rounds=3, depth=1)
    learner = dataclasses.replace(recipe.learner, prologue=prologue)
    with pytest.raises(ValueError, match="the prologue has sums that follow from its own draws"):
        pass_stages.check_can_run_in_blocks(dataclasses.replace(recipe, learner=learner))


def test_public_randomness_for_each_row_is_refused():
    """One row stands for all where it is drawn, so all rows of a block would share one coin."""

    def program(draw, table, weights, params, public):
        del params, public
        two = {"scale": np.int32(2), "theorem": "none"}
        coin = draw("coin", mechanisms.uniform, jnp.zeros(weights.shape, jnp.int32), **two)
        total = boundary.Total(jnp.sum(jnp.where(coin == 1, weights, 0)).astype(jnp.int32))
        noise = {"sensitivity": 1.0, "moved_outputs": 1, "theorem": "none", "scale": 1.0}
        draw("total", mechanisms.discrete_laplace, total, **noise)

    one, nine = (View(None, jnp.ones(rows), dpbt.types.Noise({}), None) for rows in (1, 9))
    sites = program_interpreters.sample_public_draws(program, PUBLIC, one)
    given = dpbt.types.StageInputs(sites, KEY, jnp.zeros(2, jnp.uint32))
    assert program_interpreters.sum_rows_of_stage(program, ("total",), given, one).keys() == {
        "total"
    }
    with pytest.raises(ValueError, match="'coin' is public randomness for each row"):
        program_interpreters.sum_rows_of_stage(program, ("total",), given, nine)


# Draws.


@pytest.mark.parametrize("first", [3, 2**32 - 3])
@pytest.mark.parametrize("key", [KEY, dpbt.fresh_key()], ids=["research", "release"])
def test_a_place_has_its_part_in_every_block(key, first):
    drawn, places = jax.jit(mechanisms.assignment.sample_at_row_indices), jnp.zeros(7, jnp.int32)

    def at(place):
        words = jnp.array([place >> 32, place % 2**32], jnp.uint32)
        return np.asarray(drawn(key, places, jnp.int32(1000), words))

    np.testing.assert_array_equal(at(first)[3:], at(first + 3)[:4])
    assert len(set(at(first))) > 3
    if first < 10:
        of_table = mechanisms.assignment.sample(key, jnp.zeros(10, jnp.int32), jnp.int32(1000))
        np.testing.assert_array_equal(at(first), np.asarray(of_table)[first : first + 7])
    else:  # other places than those whose low word is the same
        assert np.any(at(first + 3) != at((first + 3) % 2**32))


@pytest.mark.parametrize("mechanism", [mechanisms.discrete_laplace, mechanisms.rounded_gaussian])
@pytest.mark.parametrize("scale", [pytest.param(0.0, marks=pytest.mark.slow), 2.0**20])
def test_large_totals_have_the_noise_of_small_ones(mechanism, scale):
    key, scale = jax.random.key(1), jnp.float32(scale)
    small = np.array([0, 1, -1, 12345, -(2**24) * GRID, 2**24 * GRID, 77], np.int64)
    spec = draw_spec(
        "sums",
        mechanism,
        jax.ShapeDtypeStruct(small.shape, np.int32),
        after=lambda total: total,
        scale=scale,
        max_sensitivity=scale,
        has_stated_scale=True,
    )
    asked = {"sums": spec}
    found = draws_from_sums.draw_from_sums(key, {"sums": small}, asked, has_small_sums=True)["sums"]
    site_key = dpbt.boundary.site_key(key, "sums")
    expected = mechanism.sample(site_key, jnp.asarray(small.astype(np.int32)), scale)
    np.testing.assert_array_equal(found, np.asarray(expected))
    assert found.dtype == np.int32

    # Steps of the grid divide 2^30, so a shift by multiples of it shifts the output.
    shift = np.arange(-3, 4) * 2**43
    large = draws_from_sums.draw_from_sums(
        key, {"sums": small + shift}, asked, has_small_sums=False
    )["sums"]
    near = draws_from_sums.draw_from_sums(key, {"sums": small}, asked, has_small_sums=False)["sums"]
    np.testing.assert_array_equal(large - shift, near)
    assert large.dtype == np.int64
    assert np.abs(near).max() <= SATURATION


def test_sums_go_beyond_int32():
    """A learner sees float32 of releases of 64 bits, and leaves are those of their ratio."""
    part = {"sums": np.array([2**31 - 1, -(2**31)], np.int32)}
    found = None
    for _ in range(100):
        found = draws_from_sums.add_block_sums(found, part)
    assert found["sums"].tolist() == [100 * (2**31 - 1), -100 * 2**31]
    read = draws_from_sums.round_int64_release_to_float32({"sums": found["sums"]})["sums"]
    assert read.dtype == jnp.float32
    assert float(read[0]) == pytest.approx(100 * 2.0**31, rel=1e-6)


@pytest.mark.slow
def test_splits_are_drawn_from_sums_beyond_int32():
    """A draw from 2^39 rows under a bound of 2^40 has the law of the exponential mechanism.

    A share differs by more than the tolerance with a chance below 10^-4.
    """
    rows = 2**40
    recipe = recipes.bdpe(rows=rows, criterion="gini", epsilon=8, rounds=1, depth=1)
    assert dpbt.ledger(recipe).rows == rows
    learner, public = recipe.learner, recipe.public()
    example = learner.training.prepare(learner.training.example_table())
    view = View(example, jnp.zeros(1), recipe.params, public)
    asked = program_interpreters.describe_draws(learner.round.program, view)["split_0"]

    # Three splits of one node; the first two differ by two rows' weight in the score.
    negative, positive = np.int64(2**38) * GRID, np.int64(2**38) * GRID + 12345
    right = np.array([[2**37, 2**37 + 1, 2**36], [2**36, 2**36, 2**36]], np.int64) * GRID
    sums = right[None], np.array([[negative, positive]])
    keys = jax.random.split(KEY, 1500)
    drawn = [
        draws_from_sums.draw_from_sums(
            key, {"split_0": sums}, {"split_0": asked}, has_small_sums=False
        )
        for key in keys
    ]
    shares = np.bincount([int(each["split_0"][0]) for each in drawn], minlength=3) / len(keys)

    def gini(one, other):
        return 4 * one * other / (one + other)

    left = np.array([[negative], [positive]]) - right
    wide = [(part.astype(np.longdouble) / GRID) for part in (right, left)]
    scores = -sum(gini(part[1], part[0]) for part in wide)
    logits = np.maximum((scores - scores.max()) / np.longdouble(asked.scale), -32)
    law = np.exp(logits) / np.exp(logits).sum()
    assert 0.05 < float(law[1]) < 0.95
    np.testing.assert_allclose(shares, law.astype(float), atol=4 * 0.5 / np.sqrt(len(keys)))
