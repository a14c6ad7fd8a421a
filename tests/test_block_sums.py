"""Sums over parts of a table, the stages of programs, and draws from sums of many rows."""

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
UNIT_NOISE = {"sensitivity": 1.0, "moved_outputs": 1, "theorem": "none", "scale": 1.0}


def stages_of_program(program):
    def make_view(weights):
        return View(None, weights, Noise({}), None)

    return pass_stages.group_draws_into_stages(
        trace_draw_dependencies(program, make_view, jnp.ones(3))
    )


def test_stages_of_draws_follow_from_the_draws_that_sums_read():
    """Dependencies are followed into compiled functions and into loops."""

    @jax.jit
    def sum_and_shifted_sum(weights, first):
        return jnp.sum(weights), jnp.sum(weights >> jnp.clip(first, 0, 6))

    def program(draw, table, weights, params, public):
        integer_weights = weights.astype(jnp.int32)
        total_alone = draw(
            "alone", LAPLACE, boundary.RowSum(jnp.sum(integer_weights)), **UNIT_NOISE
        )
        plain_sum, later_sum = sum_and_shifted_sum(integer_weights, total_alone)
        draw("plain", LAPLACE, boundary.RowSum(plain_sum), **UNIT_NOISE)
        second = draw("after", LAPLACE, boundary.RowSum(later_sum), **UNIT_NOISE)
        sum_of_loop = jax.lax.fori_loop(
            0, 3, lambda k, total: total + second * integer_weights[k], 0
        )
        draw("looped", LAPLACE, boundary.RowSum(sum_of_loop), **UNIT_NOISE)
        draw("last", LAPLACE, boundary.RowSum(plain_sum), **UNIT_NOISE)

    assert stages_of_program(program) == (("alone", "plain"), ("after",), ("looped", "last"))


def test_sums_of_a_level_wait_for_the_splits_above():
    recipe = recipes.bdpe(epsilon=3, rows=700, rounds=3, depth=2)
    stages_of_recipe = ("error_0", "split_0"), ("error_1", "split_1"), ("leaf",)
    assert pass_stages.stages_of_phase(recipe, recipe.learner.round) == stages_of_recipe
    published = recipes.bdpe(epsilon=1, rows=10, calibration="published")
    with pytest.raises(ValueError, match=r"'leaf' is of no boundary\.RowSum"):
        pass_stages.stages_of_phase(published, published.learner.round)


def coin_whose_sides_follow_a_sum(draw, table, weights, params, public):
    total = draw(
        "total", LAPLACE, boundary.RowSum(jnp.sum(weights).astype(jnp.int32)), **UNIT_NOISE
    )
    sides = jnp.maximum(total, 2)
    draw("coin", mechanisms.uniform, jnp.zeros(1, jnp.int32), scale=sides, theorem="none")


def scale_that_follows_the_rows(draw, table, weights, params, public):
    total = boundary.RowSum(jnp.sum(weights).astype(jnp.int32))
    draw("sum", LAPLACE, total, **{**UNIT_NOISE, "scale": jnp.max(weights)})


def sum_without_total(draw, table, weights, params, public):
    draw("sum", LAPLACE, jnp.sum(weights).astype(jnp.int32), **UNIT_NOISE)


def total_of_narrow_integers(draw, table, weights, params, public):
    draw("sum", LAPLACE, boundary.RowSum(jnp.sum(weights).astype(jnp.int16)), **UNIT_NOISE)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (coin_whose_sides_follow_a_sum, r"'coin' depend on \['total'\]"),
        (scale_that_follows_the_rows, r"'sum' depend on \['the private rows'\]"),
        (sum_without_total, r"'sum' is of no boundary.RowSum"),
        (total_of_narrow_integers, r"of sums of \['int16'\], but .* of int32"),
    ],
)
def test_programs_that_need_all_rows_at_once_are_refused(program, message):
    with pytest.raises(ValueError, match=message):
        stages_of_program(program)


def test_a_prologue_has_one_pass():
    def program(draw, table, weights, params, public):
        integer_weights = weights.astype(jnp.int32)
        first = draw("first", LAPLACE, boundary.RowSum(jnp.sum(integer_weights)), **UNIT_NOISE)
        draw("second", LAPLACE, boundary.RowSum(jnp.sum(integer_weights * first)), **UNIT_NOISE)

    start = lambda release, params: jnp.float32(0)  # noqa: E731
    prologue = Prologue(program=program, initial_score=start, identity="two passes")
    recipe = recipes.bdpe(epsilon=3, rows=700, rounds=3, depth=1)
    learner = dataclasses.replace(recipe.learner, prologue=prologue)
    with pytest.raises(ValueError, match="the prologue has sums that follow from its own draws"):
        pass_stages.check_can_run_in_blocks(dataclasses.replace(recipe, learner=learner))


def test_public_randomness_for_each_row_is_refused():
    """Public randomness is drawn on one row, so all rows of a block would share one coin."""

    def program(draw, table, weights, params, public):
        del params, public
        coin_options = {"scale": np.int32(2), "theorem": "none"}
        coin = draw("coin", mechanisms.uniform, jnp.zeros(weights.shape, jnp.int32), **coin_options)
        total = boundary.RowSum(jnp.sum(jnp.where(coin == 1, weights, 0)).astype(jnp.int32))
        noise = {"sensitivity": 1.0, "moved_outputs": 1, "theorem": "none", "scale": 1.0}
        draw("total", mechanisms.discrete_laplace, total, **noise)

    view_of_one_row, view_of_nine_rows = (
        View(None, jnp.ones(rows), dpbt.types.Noise({}), None) for rows in (1, 9)
    )
    sites = program_interpreters.sample_public_draws(program, PUBLIC, view_of_one_row)
    stage_inputs = dpbt.types.StageInputs(sites, KEY, jnp.zeros(2, jnp.uint32))
    sums = program_interpreters.sum_rows_of_stage(
        program, ("total",), stage_inputs, view_of_one_row
    )
    assert sums.keys() == {"total"}
    with pytest.raises(ValueError, match="'coin' is public randomness for each row"):
        program_interpreters.sum_rows_of_stage(program, ("total",), stage_inputs, view_of_nine_rows)


# Draws.


@pytest.mark.parametrize("first", [3, 2**32 - 3])
@pytest.mark.parametrize("key", [KEY, dpbt.fresh_key()], ids=["research", "release"])
def test_a_row_has_the_same_part_whatever_block_holds_it(key, first):
    sample_parts, zeros = (
        jax.jit(mechanisms.assignment.sample_at_row_indices),
        jnp.zeros(7, jnp.int32),
    )

    def parts_from(first_row):
        words = jnp.array([first_row >> 32, first_row % 2**32], jnp.uint32)
        return np.asarray(sample_parts(key, zeros, jnp.int32(1000), words))

    np.testing.assert_array_equal(parts_from(first)[3:], parts_from(first + 3)[:4])
    assert len(set(parts_from(first))) > 3
    if first < 10:
        parts_of_table = mechanisms.assignment.sample(
            key, jnp.zeros(10, jnp.int32), jnp.int32(1000)
        )
        np.testing.assert_array_equal(
            parts_from(first), np.asarray(parts_of_table)[first : first + 7]
        )
    else:  # other places than those whose low word is the same
        assert np.any(parts_from(first + 3) != parts_from((first + 3) % 2**32))


@pytest.mark.parametrize(
    "mechanism",
    [mechanisms.discrete_laplace, mechanisms.rounded_gaussian],
    ids=lambda mechanism: mechanism.name,
)
@pytest.mark.parametrize("scale", [pytest.param(0.0, marks=pytest.mark.slow), 2.0**20])
def test_large_totals_have_the_noise_of_small_ones(mechanism, scale):
    key, scale = jax.random.key(1), jnp.float32(scale)
    small = np.array([0, 1, -1, 12345, -(2**24) * GRID, 2**24 * GRID, 77], np.int64)
    spec = draw_spec(
        "sums",
        mechanism,
        jax.ShapeDtypeStruct(small.shape, np.int32),
        to_statistic=lambda sums: sums,
        scale=scale,
        max_sensitivity=scale,
        has_stated_scale=True,
    )

    def draw_from(sums, *, has_small_sums):
        drawn = draws_from_sums.draw_from_sums(
            key, {"sums": sums}, {"sums": spec}, has_small_sums=has_small_sums
        )
        return drawn["sums"]

    drawn = draw_from(small, has_small_sums=True)
    site_key = dpbt.boundary.site_key(key, "sums")
    expected = mechanism.sample(site_key, jnp.asarray(small.astype(np.int32)), scale)
    np.testing.assert_array_equal(drawn, np.asarray(expected))
    assert drawn.dtype == np.int32

    # Steps of the grid divide 2^30, so a shift by multiples of it shifts the output.
    shift = np.arange(-3, 4) * 2**43
    large = draw_from(small + shift, has_small_sums=False)
    drawn_without_shift = draw_from(small, has_small_sums=False)
    np.testing.assert_array_equal(large - shift, drawn_without_shift)
    assert large.dtype == np.int64
    assert np.abs(drawn_without_shift).max() <= SATURATION


def test_sums_of_blocks_may_exceed_int32():
    """A learner sees float32 of releases of 64 bits, and leaves are those of their ratio."""
    part = {"sums": np.array([2**31 - 1, -(2**31)], np.int32)}
    sums = None
    for _ in range(100):
        sums = draws_from_sums.add_block_sums(sums, part)
    assert sums["sums"].tolist() == [100 * (2**31 - 1), -100 * 2**31]
    as_float32 = draws_from_sums.round_int64_release_to_float32({"sums": sums["sums"]})["sums"]
    assert as_float32.dtype == jnp.float32
    assert float(as_float32[0]) == pytest.approx(100 * 2.0**31, rel=1e-6)


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
    draw_spec_of_split = program_interpreters.describe_draws(learner.round.program, view)["split_0"]

    # Three splits of one node; the first two differ by two rows' weight in the score.
    negative, positive = np.int64(2**38) * GRID, np.int64(2**38) * GRID + 12345
    right = np.array([[2**37, 2**37 + 1, 2**36], [2**36, 2**36, 2**36]], np.int64) * GRID
    sums = right[None], np.array([[negative, positive]])
    keys = jax.random.split(KEY, 1500)
    drawn = [
        draws_from_sums.draw_from_sums(
            key, {"split_0": sums}, {"split_0": draw_spec_of_split}, has_small_sums=False
        )
        for key in keys
    ]
    shares = np.bincount([int(draws["split_0"][0]) for draws in drawn], minlength=3) / len(keys)

    def gini(positive_weight, negative_weight):
        return 4 * positive_weight * negative_weight / (positive_weight + negative_weight)

    left = np.array([[negative], [positive]]) - right
    class_weights_by_side = [
        (side_weights.astype(np.longdouble) / GRID) for side_weights in (right, left)
    ]
    scores = -sum(gini(side_weights[1], side_weights[0]) for side_weights in class_weights_by_side)
    logits = np.maximum((scores - scores.max()) / np.longdouble(draw_spec_of_split.scale), -32)
    law = np.exp(logits) / np.exp(logits).sum()
    assert 0.05 < float(law[1]) < 0.95
    np.testing.assert_allclose(shares, law.astype(float), atol=4 * 0.5 / np.sqrt(len(keys)))
