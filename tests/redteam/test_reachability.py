"""Attacks on low bits: which outputs are reachable must not name the neighbour.

Noise in floating point takes finitely many values, so an output that one value cannot give names
the other. Against integer noise the attack has nothing: for every output words are constructed here
that give it from either of two neighbours.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import dpbt
from dpbt import recipes
from dpbt.privacy import mechanisms
from tests.support import contract_rows
from tests.support.attacks import (
    GRID,
    class_counts_by_side,
    exponential_words,
    gaussian_words,
    laplace_words,
    sampler_on_words,
    table_of_one_split,
)
from tests.support.recipe_noise import scale_by_site
from tests.support.slow_cases import mark_slow_cases_except

pytestmark = pytest.mark.unoptimized

NUM_FITS = 60
FALSE_ALARM = 1e-6
LIMIT = mechanisms.SATURATION


def output_on_random_words(mechanism, random_words, *, value, scale):
    """The output of a mechanism of additive noise on chosen words."""
    output = sampler_on_words(mechanism)(
        random_words, np.asarray(value, np.int32), np.float32(scale)
    )
    return np.asarray(output, np.int64)


@functools.cache
def single_precision_normals() -> np.ndarray:
    """Every value of jax.random.normal in float32, sorted."""
    low = np.nextafter(np.float32(-1), np.float32(0))
    uniform = jnp.arange(2**23, dtype=jnp.float32) * np.float32(2.0**-23) * 2 + low
    normal = np.float32(np.sqrt(2)) * jax.lax.erf_inv(jnp.maximum(uniform, low))
    return np.sort(np.asarray(normal))


def is_reachable(output, value, scale) -> np.ndarray:
    """bool[...]: float32 noise on a value gives exactly this output."""
    all_outputs = np.float32(value) + np.float32(scale) * single_precision_normals()
    index = np.minimum(np.searchsorted(all_outputs, output), len(all_outputs) - 1)
    return all_outputs[index] == output


def test_the_attack_names_the_neighbour_of_single_precision_noise():
    """Twelve draws that a row moves by a grid unit's weight each, as a fit of rounds has them."""
    scale, value = np.float32(2000.0), np.float32(12 * GRID)
    num_named, num_fits = 0, 12
    for fit in range(num_fits):
        outputs = value + scale * jax.random.normal(jax.random.key(fit), (12,), jnp.float32)
        is_reached_from_table, is_reached_from_neighbour = (
            is_reachable(np.asarray(outputs), v, scale).all() for v in (value, value + GRID)
        )
        assert is_reached_from_table
        num_named += not is_reached_from_neighbour
    assert num_named > num_fits / 2  # each draw is out of reach of the other value with 0.1 or more


ROWS = {row.name: row for row in contract_rows.ROWS}
FAST_ROWS = ["bdpe-published-objective", "forest-disjoint", "halfspace", "lazybb-rule"]


@pytest.mark.parametrize("name", mark_slow_cases_except(ROWS, fast=FAST_ROWS))
def test_nothing_private_leaves_as_a_float(name):
    """Whatever reads the rows is released as integers; reals are public randomness."""
    row = ROWS[name]
    relation = "replace_one" if row.name.startswith(("lazybb", "halfspace")) else "add_remove"
    recipe = row.recipe(relation, epsilon=4.0, rows=20, rounds=3, depth=2)
    table = row.table(0, 20, 4)
    keys = jax.random.split(jax.random.key(0))
    boosted = jax.eval_shape(lambda: dpbt.boost(keys[0], table, recipe, keys[1]))
    release = boosted.transcript.rounds
    mechanism = {line.site: line.mechanism for line in dpbt.ledger(recipe).lines}
    private = {site for site in release if mechanism[site] != "uniform"}
    assert private
    assert all(jnp.issubdtype(release[site].dtype, jnp.integer) for site in private)
    assert dpbt.ledger(recipe).has_bounded_samplers


SCALES = mark_slow_cases_except(
    [5.0, 254.0, 4096.0, 8191.0, 8192.0, 1e5, 2.0**23, 2.0**28, 2.0**32], fast=[254.0, 1e5, 2.0**32]
)
VALUES = [0, 127 * 16_000_000, -LIMIT]


@pytest.mark.parametrize("scale", SCALES)
def test_every_laplace_output_comes_from_both_neighbours(scale):
    """Outputs up to 30 scales away, odd and even ones, near the ends and at them."""
    rng = np.random.default_rng(0)
    for value in VALUES:
        far_from_value = rng.laplace(0, 4 * scale, 300).clip(-30 * scale, 30 * scale)
        near_value = rng.integers(-3, 4, 20)
        outputs = value + np.concatenate([far_from_value, near_value]).astype(np.int64)
        outputs = np.clip(outputs, -LIMIT, LIMIT)
        for start in (value, max(value - GRID, -LIMIT)):
            random_words = laplace_words(outputs - start, scale)
            outputs_on_words = output_on_random_words(
                mechanisms.discrete_laplace, random_words, value=np.full(320, start), scale=scale
            )
            np.testing.assert_array_equal(outputs_on_words, outputs)


@pytest.mark.parametrize("scale", SCALES)
def test_every_pair_of_gaussian_outputs_comes_from_both_neighbours(scale):
    """Both draws of a pair at once, up to seven standard deviations from the value."""
    rng = np.random.default_rng(0)
    step = max(2.0 ** (np.floor(np.log2(scale)) - 11), 1.0)
    for value in VALUES:
        noise = rng.normal(0, 2 * scale, (2, 200)).clip(-4.9 * scale, 4.9 * scale)
        outputs = np.round((value + noise) / step) * step
        inside = np.all(np.abs(outputs) < LIMIT, axis=0)
        is_clamped = scale > 1e8  # most of wider noise is clamped
        outputs = np.clip(outputs, -LIMIT, LIMIT) if is_clamped else outputs[:, inside]
        for start in (value, max(value - int(min(GRID, 2 * scale)), -LIMIT)):
            beyond = np.where(np.abs(outputs) == LIMIT, np.sign(outputs) * step, 0)
            random_words = gaussian_words(*((outputs + beyond - start) / scale))
            starts = np.full(outputs.size, start)
            outputs_on_words = output_on_random_words(
                mechanisms.rounded_gaussian, random_words, value=starts, scale=scale
            )
            np.testing.assert_array_equal(outputs_on_words, outputs.reshape(-1))


@pytest.mark.parametrize(
    "mechanism", [mechanisms.exponential, mechanisms.noisy_max], ids=["exponential", "noisy max"]
)
def test_every_candidate_can_win_on_both_neighbours(mechanism):
    """Words are chosen for which each candidate wins, however far behind its score is."""
    scores = np.float32([0, -3, -31, -33, -1e4, -1e7])
    neighbour_scores = scores + np.float32([0, 1, -1, 1, -1, 1])
    best = {True: exponential_words(np.array(1e-17)), False: exponential_words(np.array(3.0))}
    for winner in range(len(scores)):
        if mechanism is mechanisms.noisy_max:
            ahead, behind = exponential_words(np.array(40.0)), exponential_words(np.array(1.0))
            random_words = np.stack([ahead if k == winner else behind for k in range(6)], axis=1)
        else:  # two groups of three
            lanes = [best[k == winner // 3] for k in range(2)]
            lanes += [best[k == winner % 3] for k in range(3)]
            random_words = np.stack(lanes, axis=1)
        for scores_of_table in (scores, neighbour_scores):
            assert (
                int(sampler_on_words(mechanism)(random_words, scores_of_table, np.float32(1)))
                == winner
            )


def noise_under_both_hypotheses(release, counts):
    """The noise of a release of class weights under two hypotheses: as it is, and a row fewer."""
    noise = np.asarray(release, np.int64) - counts
    noise_of_neighbour = noise.copy()
    noise_of_neighbour[0, 0] += GRID
    return noise.reshape(-1), noise_of_neighbour.reshape(-1)


RECIPES = {
    "bdpe": (recipes.bdpe, {"alpha": 1.0}),
    "bdpe, delta": (recipes.bdpe, {"alpha": 1.0, "delta": 1e-6}),
    "forest": (recipes.random_forest, {}),
    "forest, delta": (recipes.random_forest, {"delta": 1e-6}),
    "forest, published": (recipes.random_forest, {"calibration": "published"}),
    "rf_l": (recipes.rf_l, {}),
    "rf_l, published": (recipes.rf_l, {"calibration": "published"}),
}


@pytest.mark.parametrize("name", mark_slow_cases_except(RECIPES, fast=["bdpe"]))
def test_sixty_fits_name_no_neighbour(name):
    """All leaves of a fit at once: words give the release from the table and from its neighbour."""
    make, settings = RECIPES[name]
    table = table_of_one_split()
    recipe = make(epsilon=0.5, rows=400, rounds=1, depth=1, **settings)
    keys = jax.random.split(jax.random.key(2), (NUM_FITS, 2))

    def rounds_of_fit(pair):
        return dpbt.boost(pair[0], table, recipe, pair[1]).transcript.rounds

    fits = jax.jit(jax.vmap(rounds_of_fit))(keys)
    scale = scale_by_site(recipe)["leaf"]

    num_named, digits = 0, []
    for fit in range(NUM_FITS):
        counts = class_counts_by_side(table) * GRID  # a position is 0 or 1, and no threshold is 1
        release = np.asarray(fits["leaf"][fit]).reshape(2, 2)
        hypotheses = noise_under_both_hypotheses(release, counts)
        for noise in hypotheses:
            start = release.reshape(-1) - noise
            if "delta" in settings:
                # Draws k and k + 2 are a pair.
                random_words = gaussian_words(*(noise.reshape(2, 2) / scale))
                output = output_on_random_words(
                    mechanisms.rounded_gaussian, random_words, value=start, scale=scale
                )
            else:
                random_words = laplace_words(noise, scale)
                output = output_on_random_words(
                    mechanisms.discrete_laplace, random_words, value=start, scale=scale
                )
            num_named += bool(np.any(output != release.reshape(-1)))
        digits.append([noise % 4 for noise in hypotheses])
    assert num_named == 0

    # Nor do parities and low digits: both hypotheses see them even.
    for noise in np.moveaxis(np.asarray(digits), 1, 0):
        digit_counts = np.bincount(noise.reshape(-1), minlength=4)
        assert stats.chisquare(digit_counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", [2.0**20, pytest.param(2.0**26, marks=pytest.mark.slow)])
def test_low_digits_of_noise_of_a_large_scale_do_not_depend_on_the_value(scale):
    """Each of four tests has a false alarm with probability 1e-6."""
    key, num_draws = jax.random.key(11), 40_000
    step = 2.0 ** (np.log2(scale) - 11)
    for mechanism, unit in ((mechanisms.discrete_laplace, 1), (mechanisms.rounded_gaussian, step)):
        digit_counts, sample = [], jax.jit(mechanism.sample)
        for value in (0, GRID):
            values = np.full(num_draws, value, np.int32)
            outputs = sample(jax.random.fold_in(key, value), values, np.float32(scale))
            inside = np.abs(np.asarray(outputs, np.int64)) < LIMIT
            steps, remainder = np.divmod(np.asarray(outputs, np.int64)[inside], int(unit))
            assert not remainder.any()
            digit_counts.append(np.bincount(steps % 16, minlength=16))
        assert stats.chi2_contingency(np.asarray(digit_counts))[1] > FALSE_ALARM
