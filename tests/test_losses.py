"""Proper losses against their definitions: conjugacy, duality, symmetry, perspectives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpbt import losses, recipes, weighting
from dpbt.types import ProperLoss

SMOOTH = {loss.name: loss for loss in (losses.matsushita, losses.square, losses.log)}
SMOOTH |= {f"m_{alpha}": losses.m_alpha(alpha) for alpha in (0.1, 0.5)}
ALL = {**SMOOTH, "zero_one": losses.zero_one}


@pytest.mark.parametrize("loss", SMOOTH.values(), ids=SMOOTH.keys())
def test_smoothness_is_the_largest_second_derivative(loss):
    z = np.linspace(-8.0013, 8, 3201, dtype=np.float32)
    second = jax.jit(jax.vmap(jax.grad(jax.grad(loss.surrogate))))(jnp.asarray(z))
    assert np.nanmax(second) == pytest.approx(float(loss.smoothness), rel=2e-2)


def test_the_inverse_link_has_a_flat_part():
    loss = losses.m_alpha(0.25)
    np.testing.assert_array_equal(loss.inverse_link(np.float32([-1.5, 0, 1.49])), 0.5)
    assert float(loss.inverse_link(np.float32(1.6))) > 0.5


SQUARE = losses.square


def own(**changes):
    return SQUARE._replace(**{"name": "own", **changes})


BEYOND = {"inverse_link": lambda z: (z + 4) / 8, "surrogate": lambda z: (z - 4) ** 2 / 16}
BAD_LOSSES = [
    ({"link": None}, "^link of own must be a function .*, got None$"),
    ({"link": lambda u: 1.0}, "^link of own must be a function that keeps"),
    ({"smoothness": np.nan}, "^smoothness of own must be in"),
    ({"smoothness": jnp.float32(0.125)}, "a loss of plain fields"),
    ({"inverse_link": lambda z: 0 * z}, "inverse_link must undo link$"),
    (BEYOND, r"inverse_link must be in \[0, 1\]$"),
    ({"surrogate": lambda z: 0 * z}, "the slope of surrogate at z must be"),
    ({"surrogate": lambda z: 1 + SQUARE.surrogate(z)}, "must be 1 at z = 0$"),
    ({"bayes_risk": lambda u: 8 * u * (1 - u)}, "bayes_risk must be 0 at"),
    ({"bayes_risk": lambda u: 4 * u * (1 - u) * (1.5 - u)}, "must be finite and symmetric"),
    ({"smoothness": 1000.0}, "smoothness must be .* about 0.125, got 1000.0$"),
    ({"link": lambda u: 4 - 8 * u}, "link must be minus the slope of bayes_risk$"),
    ({"probability": lambda z: -z}, "probability must be in"),
]


def test_inconsistent_losses_are_refused_where_they_are_boosted():
    for changes, words in BAD_LOSSES:
        bad = own(**changes)
        with pytest.raises(ValueError, match=words):
            weighting.mirror(bad)
    for loss in ({"criterion": bad}, {"criterion": "gini", "loss": bad}):
        with pytest.raises(ValueError, match="probability must be in"):
            recipes.bdpe(epsilon=1.0, rows=50, **loss)


def test_a_criterion_that_is_no_function_is_refused():
    for scored in (recipes.bdpe, recipes.lazybb_trees):
        with pytest.raises(ValueError, match=r"^perspective of own must be .*, got None$"):
            scored(epsilon=1.0, rows=50, criterion=own(perspective=None))


@pytest.mark.slow
def test_a_criterion_needs_no_link():
    bare = dict.fromkeys(("link", "inverse_link", "surrogate", "smoothness"))
    assert recipes.bdpe(epsilon=1.0, rows=50, criterion=own(**bare), loss="gini")
    assert recipes.lazybb_trees(epsilon=1.0, rows=50, criterion=own(**bare))


@pytest.mark.parametrize("loss", [*ALL.values(), losses.m_alpha(0.01)])
def test_the_losses_of_the_library_pass_the_checks_of_a_persons_own(loss):
    for family in (
        losses.constant_loss_family(loss._replace(name="own")),
        lambda alpha: losses.m_alpha(alpha),
    ):
        losses.check_links_of_family(family)
        losses.check_perspective_of_family(family)


@pytest.mark.parametrize(
    "wrong", [ProperLoss, lambda: losses.log, recipes.bdpe(epsilon=1.0, rows=50), 3, "x"]
)
def test_a_function_that_is_no_loss_is_refused_in_one_short_line(wrong):
    for name, take in (
        ("criterion", lambda: recipes.bdpe(epsilon=1.0, rows=50, criterion=wrong)),
        ("loss", lambda: recipes.bdpe(epsilon=1.0, rows=50, loss=wrong)),
        ("loss", lambda: weighting.mirror(wrong)),
    ):
        with pytest.raises(ValueError, match=f"^{name} must be one of .*, got "):
            take()


def in_float64(name, z):
    """The probability that a loss gives a score, by NumPy."""
    if name == "square":
        return np.clip((z + 4) / 8, 0, 1)
    if name == "log":
        return 1 / (1 + np.exp2(-z))
    return (1 + z / np.hypot(2, z)) / 2


@pytest.mark.parametrize(("name", "loss"), SMOOTH.items(), ids=SMOOTH)
def test_probabilities_are_those_of_float64(name, loss):
    huge = [-3e38, -1e20, -1e3, -30.0, 0.0, 30.0, 1e3, 1e20, 3e38]
    z = np.concatenate([np.linspace(-9, 9, 2001), huge]).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = in_float64(name, z.astype(np.float64))
    found = np.asarray(jax.jit(loss.probability or loss.inverse_link)(jnp.asarray(z)))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.all((found >= 0) & (found <= 1))
