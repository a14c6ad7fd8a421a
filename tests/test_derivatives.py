"""`jax.grad` of a replay in the numbers of a recipe, against finite differences."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt.common.derivatives import with_derivative_in_64_bits
from dpbt.privacy import variates
from tests.support.contract_rows import ROWS

FAST = ("lazybb-rule", "halfspace")


def parameters_of_rows(names):
    marks = {name: [] if name in FAST else [pytest.mark.slow] for name in names}
    return [pytest.param(name, marks=mark) for name, mark in marks.items()]


def log_density_of_noise(name):
    """The log density of a release as a function of a noise multiplier, and all multipliers."""
    row = next(row for row in ROWS if row.name == name)
    recipe = row.recipe("add_remove", epsilon=1.0, rows=60, rounds=1, depth=2)
    table = row.table(seed=3, rows=60, splits=3, absent=5)
    boosted = dpbt.boost(jax.random.key(0), table, recipe, jax.random.key(1))

    def log_density(multiplier, group):
        noise = {**recipe.params.noise, group: multiplier}
        params = recipe.params._replace(noise=noise)
        replayed = dpbt.replay(
            boosted.transcript, table, dataclasses.replace(recipe, params=params)
        )
        # A histogram says where scores start, and sums over weighed rows are constant.
        sites = [site for site in replayed.log_prob if group != "histogram" or site == group]
        return sum((jnp.sum(replayed.log_prob[site]) for site in sites), jnp.float32(0))

    return log_density, recipe.params.noise


@pytest.mark.parametrize("name", parameters_of_rows(row.name for row in ROWS))
def test_a_replay_has_the_derivative_of_finite_differences(name):
    log_density, noise = log_density_of_noise(name)
    for group, multiplier in noise.items():
        step = np.float32(0.02) * multiplier
        above, below = (log_density(multiplier + s, group) for s in (step, -step))
        slope = (above - below) / (2 * step)
        derivative = jax.grad(log_density)(multiplier, group)
        assert np.isfinite(derivative)
        np.testing.assert_allclose(
            derivative * multiplier, slope * multiplier, rtol=2e-2, atol=2e-2, err_msg=group
        )


@pytest.mark.slow
def test_forward_and_backward_derivatives_agree_under_jit_and_vmap():
    log_density, noise = log_density_of_noise("bdpe-tight-objective")

    def log_density_of_leaf(multiplier):
        return log_density(multiplier, "leaf")

    multipliers = noise["leaf"] * np.float32([1, 2])
    backward = jax.vmap(jax.grad(log_density_of_leaf))(multipliers)
    np.testing.assert_allclose(
        jax.vmap(jax.jacfwd(log_density_of_leaf))(multipliers), backward, rtol=1e-4
    )
    derivative = jax.jit(jax.grad(log_density_of_leaf))(multipliers[1])
    np.testing.assert_allclose(derivative, backward[1], rtol=1e-4)


def test_a_scope_of_64_bits_in_a_program_of_32_has_its_derivative():
    def log_of_sum(numbers):
        with variates.double_precision():
            total = jnp.sum(jnp.exp(variates.to_float64(numbers)))
            return jax.scipy.special.log_ndtr(jnp.log(total)).astype(jnp.float32)

    numbers = jnp.arange(3, dtype=jnp.float32) / 4
    function = jax.jit(with_derivative_in_64_bits(log_of_sum))
    gradient = jax.grad(function)(numbers)
    for index in range(3):
        step = np.zeros(3, np.float32)
        step[index] = 1e-2
        slope = (function(numbers + step) - function(numbers - step)) / np.float32(2e-2)
        np.testing.assert_allclose(gradient[index], slope, rtol=1e-3)
