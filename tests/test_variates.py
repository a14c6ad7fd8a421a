"""Variates in double precision are as exact as samplers assume, at both ends of lattices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpbt.privacy import variates


def points(low, high, count=100_000):
    """Numbers of every magnitude between two bounds."""
    rng = np.random.default_rng(0)
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


MOST = 2.0**-50
"""What `variates` assumes of the error of an elementary function."""

LESS = 2.0**-48
"""What it assumes of those that no more than the choice of 0 and an offset are computed by."""

SMALL = points(2.0**-40, 2.0**-12)

extended = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 60,
    reason="long doubles are no wider than doubles on this machine",
)


def in_double(function, x):
    """The function of float64 numbers, as a compiled program computes it."""
    with variates.double_precision():
        numbers = jnp.asarray(x, x.dtype if x.dtype == np.uint32 else np.float64)
        return np.asarray(jax.jit(function)(numbers))


@extended
@pytest.mark.parametrize(
    ("function", "exact", "x", "max_error"),
    [
        (jnp.log, np.log, points(2.0**-129, 0.5), MOST),
        (variates.log1p_or_log_of_negated, np.log1p, -points(2.0**-129, 0.5), MOST),
        (variates.log1p_or_log_of_negated, np.log1p, -points(2.0**-60, 1 - 2.0**-20), MOST),
        (jnp.expm1, np.expm1, -points(2.0**-32, 40.0), LESS),
        (jnp.exp, np.exp, -points(2.0**-40, 32.0), MOST),
        (jnp.tanh, np.tanh, points(2.0**-33, 40.0), LESS),
        (jnp.sqrt, np.sqrt, points(2.0**-129, 132.0), MOST),
        (variates.one_minus_exp_of_small, lambda x: -np.expm1(-x), SMALL, 2.5 * 2.0**-53),
        (variates.minus_log_one_minus_small, lambda x: -np.log1p(-x), SMALL, 2.5 * 2.0**-53),
    ],
    ids=[
        "log",
        "log1p of small",
        "log1p",
        "expm1",
        "exp",
        "tanh",
        "sqrt",
        "1 - exp",
        "-log(1 - x)",
    ],
)
def test_elementary_functions_have_a_bounded_relative_error(function, exact, x, max_error):
    """Twice as right as is assumed, so that no other version of a compiler takes all of it."""
    true = exact(x.astype(np.longdouble))
    error = np.abs((in_double(function, x).astype(np.longdouble) - true) / true)
    room = 2 if max_error >= MOST else 1  # polynomials have a proof
    assert float(error.max()) < max_error / room


@extended
@pytest.mark.parametrize(("function", "exact"), [(jnp.cos, np.cos), (jnp.sin, np.sin)])
def test_angles_have_a_bounded_absolute_error(function, exact):
    x = np.random.default_rng(0).uniform(0, 2 * np.pi, 100_000)
    error = np.abs(in_double(function, x).astype(np.longdouble) - exact(x.astype(np.longdouble)))
    assert float(error.max()) < MOST


def exponential(*bits):
    return in_double(variates.exponential_variables, np.asarray(bits, np.uint32))


def test_exponential_variables_reach_both_ends():
    """The smallest and the largest of each half, and their lattice of 2**-127 there."""
    ones, half = 2**32 - 1, 2**31
    ends = [
        (0, 0, 0, 0, 128 * np.log(2)),  # U next to 0
        (half, 0, 0, 0, 2.0**-128),  # U next to 1
        (half - 1, ones, ones, ones, np.log(2)),
        (ones, ones, ones, ones, np.log(2)),
    ]
    variables = exponential(*np.array(ends, np.float64)[:, :4].T.astype(np.uint32))
    np.testing.assert_allclose(variables, [end[4] for end in ends], rtol=1e-12)
    near_zero = exponential([half, half], [0, 0], [0, 0], [0, 1])
    np.testing.assert_allclose(near_zero, [2.0**-128, 3 * 2.0**-128], rtol=1e-12)
