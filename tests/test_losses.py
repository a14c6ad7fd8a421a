"""Proper losses against their definitions: conjugacy, duality, symmetry, perspectives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpbt import losses, recipes, weighting
from dpbt.types import ProperLoss

SMOOTH_LOSSES = {loss.name: loss for loss in (losses.matsushita, losses.square, losses.log)}
SMOOTH_LOSSES |= {f"m_{alpha}": losses.m_alpha(alpha) for alpha in (0.1, 0.5)}
ALL_LOSSES = {**SMOOTH_LOSSES, "zero_one": losses.zero_one}


@pytest.mark.parametrize("loss", SMOOTH_LOSSES.values(), ids=SMOOTH_LOSSES.keys())
def test_smoothness_is_the_largest_second_derivative(loss):
    z = np.linspace(-8.0013, 8, 3201, dtype=np.float32)
    second = jax.jit(jax.vmap(jax.grad(jax.grad(loss.surrogate))))(jnp.asarray(z))
    assert np.nanmax(second) == pytest.approx(float(loss.smoothness), rel=2e-2)


def test_the_inverse_link_has_a_flat_part():
    loss = losses.m_alpha(0.25)
    np.testing.assert_array_equal(loss.inverse_link(np.float32([-1.5, 0, 1.49])), 0.5)
    assert float(loss.inverse_link(np.float32(1.6))) > 0.5


SQUARE = losses.square


def custom_square_loss(**changes):
    return SQUARE._replace(**{"name": "own", **changes})


OUT_OF_RANGE = {"inverse_link": lambda z: (z + 4) / 8, "surrogate": lambda z: (z - 4) ** 2 / 16}
BAD_LOSSES = [
    ({"link": None}, "^link of own must be a function .*, got None$"),
    ({"link": lambda u: 1.0}, "^link of own must be a function that keeps"),
    ({"smoothness": np.nan}, "^smoothness of own must be in"),
    ({"smoothness": jnp.float32(0.125)}, "a loss of plain fields"),
    ({"inverse_link": lambda z: 0 * z}, "inverse_link must undo link$"),
    (OUT_OF_RANGE, r"inverse_link must be in \[0, 1\]$"),
    ({"surrogate": lambda z: 0 * z}, "the slope of surrogate at z must be"),
    ({"surrogate": lambda z: 1 + SQUARE.surrogate(z)}, "must be 1 at z = 0$"),
    ({"bayes_risk": lambda u: 8 * u * (1 - u)}, "bayes_risk must be 0 at"),
    ({"bayes_risk": lambda u: 4 * u * (1 - u) * (1.5 - u)}, "must be finite and symmetric"),
    ({"smoothness": 1000.0}, "smoothness must be .* about 0.125, got 1000.0$"),
    ({"link": lambda u: 4 - 8 * u}, "link must be minus the slope of bayes_risk$"),
    ({"probability": lambda z: -z}, "probability must be in"),
]


def test_inconsistent_losses_are_refused_where_they_are_boosted():
    for changes, message in BAD_LOSSES:
        inconsistent_loss = custom_square_loss(**changes)
        with pytest.raises(ValueError, match=message):
            weighting.mirror(inconsistent_loss)
    for loss in (
        {"criterion": inconsistent_loss},
        {"criterion": "gini", "loss": inconsistent_loss},
    ):
        with pytest.raises(ValueError, match="probability must be in"):
            recipes.bdpe(epsilon=1.0, rows=50, **loss)


def test_a_criterion_that_is_no_function_is_refused():
    for make_recipe in (recipes.bdpe, recipes.lazybb_trees):
        with pytest.raises(ValueError, match=r"^perspective of own must be .*, got None$"):
            make_recipe(epsilon=1.0, rows=50, criterion=custom_square_loss(perspective=None))


@pytest.mark.slow
def test_a_criterion_needs_no_link():
    missing_fields = dict.fromkeys(("link", "inverse_link", "surrogate", "smoothness"))
    assert recipes.bdpe(
        epsilon=1.0, rows=50, criterion=custom_square_loss(**missing_fields), loss="gini"
    )
    assert recipes.lazybb_trees(
        epsilon=1.0, rows=50, criterion=custom_square_loss(**missing_fields)
    )


@pytest.mark.parametrize(
    "loss", [*ALL_LOSSES.values(), losses.m_alpha(0.01)], ids=[*ALL_LOSSES, "m_0.01"]
)
def test_the_losses_of_the_library_pass_the_checks_of_custom_losses(loss):
    for family in (
        losses.constant_loss_family(loss._replace(name="own")),
        lambda alpha: losses.m_alpha(alpha),
    ):
        losses.check_links_of_family(family)
        losses.check_perspective_of_family(family)


@pytest.mark.parametrize(
    "value", [ProperLoss, lambda: losses.log, recipes.bdpe(epsilon=1.0, rows=50), 3, "x"]
)
def test_a_value_that_is_no_loss_is_refused_in_one_short_line(value):
    for name, make in (
        ("criterion", lambda: recipes.bdpe(epsilon=1.0, rows=50, criterion=value)),
        ("loss", lambda: recipes.bdpe(epsilon=1.0, rows=50, loss=value)),
        ("loss", lambda: weighting.mirror(value)),
    ):
        with pytest.raises(ValueError, match=f"^{name} must be one of .*, got "):
            make()


def probability_in_float64(name, z):
    """The probability that a loss gives to a score, computed by NumPy in float64."""
    if name == "square":
        return np.clip((z + 4) / 8, 0, 1)
    if name == "log":
        return 1 / (1 + np.exp2(-z))
    return (1 + z / np.hypot(2, z)) / 2


@pytest.mark.parametrize(("name", "loss"), SMOOTH_LOSSES.items(), ids=SMOOTH_LOSSES)
def test_probabilities_are_those_of_float64(name, loss):
    huge = [-3e38, -1e20, -1e3, -30.0, 0.0, 30.0, 1e3, 1e20, 3e38]
    z = np.concatenate([np.linspace(-9, 9, 2001), huge]).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = probability_in_float64(name, z.astype(np.float64))
    probabilities = np.asarray(jax.jit(loss.probability or loss.inverse_link)(jnp.asarray(z)))
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert np.all((probabilities >= 0) & (probabilities <= 1))
