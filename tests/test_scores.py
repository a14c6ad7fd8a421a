"""Scores of selections as pairs: as near to double precision as sensitivities assume."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpbt import losses, mechanisms
from dpbt.common.types import ADD_REMOVE, GRID, MAX_ROWS, Noise, Public, View
from dpbt.data.splits import of_splits
from dpbt.learners import lazybb, trees
from dpbt.privacy import boundary, variates
from tests.test_top_down import exact_perspective

MOST = GRID * MAX_ROWS - 1
"""The largest weight of a class, in grid units."""

CRITERIA = [losses.square, losses.log, losses.matsushita]
each = pytest.mark.parametrize("criterion", CRITERIA, ids=lambda loss: loss.name)


def paired(values, allowed=None):
    """(high, low) as a compiled program makes them, in float64."""
    with variates.double_precision():
        pair = jax.jit(mechanisms.behind_best)(jnp.asarray(values), allowed)
    assert pair.high.dtype == pair.low.dtype == jnp.float32
    return np.asarray(pair.high, np.float64), np.asarray(pair.low, np.float64)


def test_a_pair_holds_48_bits():
    rng = np.random.default_rng(0)
    values = -np.exp(rng.uniform(-10, 17, (50, 400)))
    high, low = paired(values)
    exact = values - values.max(axis=1, keepdims=True)
    assert np.all(np.abs(high + low - exact) <= 2.0**-48 * np.abs(exact))
    assert np.mean(np.abs(high - exact) > 2.0**-30 * np.abs(exact)) > 0.9  # one number does not


def test_whole_numbers_are_exact_up_to_the_most_rows():
    rng = np.random.default_rng(1)
    values = rng.integers(0, MOST + 1, (50, 40)).astype(np.int32)
    values[0, :2] = 0, MOST
    high, low = paired(values)
    np.testing.assert_array_equal(high + low, values - values.max(axis=1, keepdims=True))
    assert np.any(high != high + low)


def test_forbidden_candidates_and_draws_without_any():
    values = np.array([[5.0, 7.0, 6.0], [1.0, 2.0, 3.0]])
    high, low = paired(values, jnp.asarray([[True, False, True], [False] * 3]))
    np.testing.assert_array_equal(high, [[-1, -np.inf, 0], [-np.inf] * 3])
    np.testing.assert_array_equal(low, 0)
    scores = mechanisms.Scores(jnp.asarray(high, jnp.float32), jnp.asarray(low, jnp.float32))
    drawn = jax.jit(mechanisms.exponential.sample)(jax.random.key(0), scores, jnp.float32(1))
    assert int(drawn[0]) in (0, 2)
    assert int(drawn[1]) == -1
    log_prob = jax.jit(mechanisms.exponential.log_prob)(jnp.array([1, -1]), scores, jnp.float32(1))
    np.testing.assert_array_equal(log_prob, [-np.inf, 0])


@pytest.mark.parametrize("mechanism", [mechanisms.exponential, mechanisms.noisy_max])
@pytest.mark.parametrize("scale", [0.0, 0.7, np.inf])
def test_mechanisms_read_a_pair_as_they_read_the_same_numbers(mechanism, scale):
    """Small whole numbers are the same as an array and as a pair."""
    values = np.random.default_rng(2).integers(-9, 9, (6, 5))
    array = jnp.asarray(values - values.max(axis=1, keepdims=True), jnp.float32)
    pair = mechanisms.behind_best(jnp.asarray(values, jnp.int32))
    noise = jnp.float32(scale)
    drawn = [
        jax.jit(mechanism.sample)(jax.random.key(3), scores, noise) for scores in (array, pair)
    ]
    np.testing.assert_array_equal(*drawn)
    density = [jax.jit(mechanism.log_prob)(drawn[0], scores, noise) for scores in (array, pair)]
    np.testing.assert_array_equal(*density)
    if scale > 0:
        loss = jax.jit(mechanism.divergence)(array, noise, pair, noise)
        assert tuple(map(float, loss)) == (0, 0)


def test_samples_and_densities_read_both_numbers():
    """Two candidates that differ in what float32 leaves of them."""
    pair = mechanisms.Scores(jnp.full(2, 2.0**28, jnp.float32), jnp.asarray([0, 1], jnp.float32))
    first, second = (
        float(jax.jit(mechanisms.exponential.log_prob)(jnp.int32(k), pair, jnp.float32(1)))
        for k in range(2)
    )
    assert second - first == pytest.approx(1, abs=1e-6)
    for mechanism in (mechanisms.exponential, mechanisms.noisy_max):
        assert int(jax.jit(mechanism.sample)(jax.random.key(0), pair, jnp.float32(0))) == 1
        assert float(jax.jit(mechanism.log_prob)(jnp.int32(1), pair, jnp.float32(0))) == 0


@each
def test_perspectives_are_right_to_what_the_allowance_assumes(criterion):
    """2**-43 of the weight, against long doubles, for counts of every size."""
    rng = np.random.default_rng(4)
    counts = np.floor(np.exp(rng.uniform(0, np.log(MOST), (2000, 2)))).astype(np.int64)
    counts = counts[counts.sum(axis=1) <= MOST]
    with variates.double_precision():
        found = np.asarray(
            jax.jit(lambda counts: trees.perspectives(criterion, counts))(
                jnp.asarray(counts, jnp.int32)
            )
        )
    for value, count in zip(found, counts, strict=True):
        error = abs(value - exact_perspective(criterion, count))
        assert error <= 2.0**-43 * float(count.sum()) / GRID


def test_a_perspective_in_float32_is_refused():
    square = losses.square
    coarse = square._replace(
        name="own",
        perspective=lambda w1, w0: square.perspective(
            w1.astype(jnp.float32), w0.astype(jnp.float32)
        ),
    )
    hidden = coarse._replace(perspective=lambda w1, w0: coarse.perspective(w1, w0).astype(w1.dtype))
    for bad in (coarse, hidden):
        with pytest.raises(ValueError, match="the perspective is not"):
            losses.check_criterion(losses.fixed(bad))
    losses.check_criterion(losses.fixed(square._replace(name="own")))


def test_errors_of_rules_are_exact_beyond_float32():
    """Two rules that differ by a row of the least weight, where float32 has no odd numbers."""
    rows = 150_000
    weights = np.full(rows, GRID, np.float32)
    weights[0] = 1
    satisfied = np.zeros((rows, 2), bool)
    satisfied[0, 1] = True
    table = trees.prepare(of_splits(satisfied, np.ones(rows, bool), np.ones(rows, bool)))
    public = Public(np.float32(rows), np.float32(1), (), {})
    view = View(table, jnp.asarray(weights), Noise({"rule": jnp.float32(1)}), public)
    program = lazybb.one_rule(ADD_REMOVE).program
    value = boundary.replayed(program, {"rule": jnp.int32(0)}, view)["rule"].value
    errors = -(np.asarray(value.high, np.float64) + np.asarray(value.low, np.float64))
    total = GRID * (rows - 1) + 1
    np.testing.assert_array_equal(errors, [0, total, total, 0, total - 1, 1])
