"""Proper losses against their definitions: conjugacy, duality, symmetry, perspectives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbt import losses

SMOOTH = {
    "matsushita": losses.matsushita,
    "square": losses.square,
    "log": losses.log,
    "m_0.1": losses.m_alpha(0.1),
    "m_0.5": losses.m_alpha(0.5),
}
ALL = {**SMOOTH, "zero_one": losses.zero_one}
U = np.linspace(0.0, 1.0, 4001, dtype=np.float32)
INSIDE = U[40:-40]
Z = np.linspace(-8.0, 8.0, 321, dtype=np.float32)

each = pytest.mark.parametrize("loss", ALL.values(), ids=ALL.keys())
each_smooth = pytest.mark.parametrize("loss", SMOOTH.values(), ids=SMOOTH.keys())


@each
def test_bayes_risk_is_fair_normalised_symmetric_and_concave(loss):
    risk = np.asarray(loss.bayes_risk(U), np.float64)
    assert risk[0] == pytest.approx(0, abs=1e-6)
    assert risk[-1] == pytest.approx(0, abs=1e-6)
    assert risk[2000] == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(risk, risk[::-1], atol=1e-5)
    assert np.all(np.diff(risk, 2) < 1e-6)


@each_smooth
def test_inverse_link_undoes_the_link(loss):
    u = INSIDE[np.abs(INSIDE - 0.5) > 1e-3]
    np.testing.assert_allclose(loss.inverse_link(loss.link(u)), u, atol=2e-4)


@each
def test_link_is_minus_the_slope_of_the_bayes_risk(loss):
    u = INSIDE[np.abs(INSIDE - 0.5) > 1e-2]
    slope = jax.vmap(jax.grad(loss.bayes_risk))(jnp.asarray(u))
    np.testing.assert_allclose(loss.link(u), -slope, rtol=1e-3, atol=1e-3)


@each
def test_inverse_link_is_minus_the_slope_of_the_surrogate(loss):
    kinks = 2.0 if loss.name == "zero_one" else 2 * (1 - 0.1)
    z = Z[(np.abs(np.abs(Z) - kinks) > 0.05) & (np.abs(Z) > 0.02)]
    slope = jax.vmap(jax.grad(loss.surrogate))(jnp.asarray(z))
    np.testing.assert_allclose(loss.inverse_link(-z), -slope, atol=1e-4)


@each
def test_surrogate_is_the_conjugate_of_minus_the_bayes_risk(loss):
    conjugate = np.max(-Z[:, None] * U[None, :] + np.asarray(loss.bayes_risk(U))[None, :], axis=1)
    np.testing.assert_allclose(loss.surrogate(Z), conjugate, atol=2e-3)


@each_smooth
def test_smoothness_is_the_largest_second_derivative(loss):
    z = np.linspace(-8.0013, 8, 3201, dtype=np.float32)
    second = jax.vmap(jax.grad(jax.grad(loss.surrogate)))(jnp.asarray(z))
    assert np.nanmax(second) == pytest.approx(float(loss.smoothness), rel=2e-2)


@each
@given(w1=st.floats(0, 1e4), w0=st.floats(0, 1e4), more=st.floats(0, 10))
def test_perspective_is_homogeneous_monotone_and_superadditive(loss, w1, w0, more):
    def f(a, b):
        return float(loss.perspective(jnp.float32(a), jnp.float32(b)))

    slack = 1e-3 + 1e-5 * (w1 + w0)
    assert f(0.0, 0.0) == 0
    if min(w1, w0) > 0.01 * (
        w1 + w0
    ):  # elsewhere 1 - u loses the digits that the perspective keeps
        by_definition = (w1 + w0) * float(loss.bayes_risk(jnp.float32(w1 / (w1 + w0))))
        assert f(w1, w0) == pytest.approx(by_definition, rel=2e-3, abs=slack)
    assert f(w1, w0) == pytest.approx(f(w0, w1), rel=1e-5, abs=slack)
    assert f(2 * w1, 2 * w0) == pytest.approx(2 * f(w1, w0), rel=1e-4, abs=slack)
    gain = f(w1 + more, w0) - f(w1, w0)
    assert -slack <= gain <= f(more, w0) + slack
    half = f(w1 / 2 + more / 2, w0)
    assert half >= (f(w1, w0) + f(more, w0)) / 2 - slack


def test_m_alpha_interpolates_and_takes_a_traced_alpha():
    u = jnp.asarray(INSIDE)
    mixed = jax.jit(lambda alpha: losses.m_alpha(alpha).bayes_risk(u))(jnp.float32(0.3))
    expected = 0.3 * losses.matsushita.bayes_risk(u) + 0.7 * losses.zero_one.bayes_risk(u)
    np.testing.assert_allclose(mixed, expected, atol=1e-5)


def test_flat_part_of_the_inverse_link():
    loss = losses.m_alpha(0.25)
    np.testing.assert_array_equal(loss.inverse_link(np.float32([-1.5, 0, 1.49])), 0.5)
    assert float(loss.inverse_link(np.float32(1.6))) > 0.5


def test_a_fixed_family_is_one_object_per_loss():
    assert losses.fixed(losses.square) is losses.fixed(losses.square)
    assert losses.fixed(losses.square)(0.3) is losses.square
