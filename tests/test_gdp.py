"""Budgets of recipes whose draws are all Gaussian: GDP composes them exactly."""

import functools
import math

import dp_accounting
import numpy as np
import pytest
from scipy import integrate

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Numeric
from dpbt.privacy import conversions

DOMAIN = {"size": Numeric(0, 1, bins=6), "on": Boolean()}


def gaussian_oblivious_recipe(epsilon=3.0, **changes):
    settings = {"delta": 1e-6, "rounds": 5, "depth": 4, "rows": 60}
    shares = {"marginals_fraction": 0.3, "scores_fraction": 0.2}
    return recipes.oblivious_boost(
        epsilon=epsilon, domain=DOMAIN, **{**settings, **shares, **changes}
    )


GAUSSIAN_RECIPES = {
    "oblivious": gaussian_oblivious_recipe,
    "oblivious, replace-one": functools.partial(gaussian_oblivious_recipe, relation="replace_one"),
    "oblivious, sums alone": functools.partial(
        gaussian_oblivious_recipe, marginals_fraction=0.0, scores_fraction=0.0
    ),
    "forest": functools.partial(recipes.random_forest, rows=900, rounds=5),
    "halfspaces": functools.partial(recipes.halfspace_boost, rows=900, rounds=5),
}


@pytest.mark.filterwarnings("ignore:delta = 0.3")
@pytest.mark.parametrize("name", GAUSSIAN_RECIPES)
def test_all_of_epsilon_and_no_more_is_spent(name):
    """It holds for a tiny or a large delta, and for a setting of an array as for it alone."""
    epsilon, delta = np.array([[0.1], [5.0]]), np.array([1e-12, 0.3])
    recipes_of_all_settings = GAUSSIAN_RECIPES[name](
        epsilon=epsilon, delta=delta, delta_anyway=True
    )
    for index in np.ndindex(2, 2):
        recipe_of_setting = recipes.setting(recipes_of_all_settings, index)
        requested_epsilon = epsilon[index[0], 0]
        assert (
            requested_epsilon * (1 - 2e-6)
            <= dpbt.ledger(recipe_of_setting).epsilon
            <= requested_epsilon
        )
        recipe_alone = GAUSSIAN_RECIPES[name](
            epsilon=requested_epsilon, delta=delta[index[1]], delta_anyway=True
        )
        np.testing.assert_array_equal(recipe_of_setting.params, recipe_alone.params)
        assert float(recipe_of_setting.delta) == delta[index[1]]


def exact_delta(epsilon, mu):
    """The delta of mu-GDP, by quadrature of max(0, 1 - e^(epsilon - x)) over the privacy loss x.

    The loss is N(mu^2 / 2, mu^2). The integrand is positive, so no digits cancel.
    """
    start = epsilon / mu - mu / 2
    peak = max(-start, 0.0)

    def density(excess):
        return -np.expm1(-mu * excess) * np.exp(-start * excess - excess**2 / 2 - peak**2 / 2)

    breakpoints = [peak, *np.clip([1 / max(abs(start), 1e-3), 1 / mu], 0, peak + 40)]
    area, _ = integrate.quad(
        density, 0, peak + 40, points=breakpoints, epsabs=0, epsrel=1e-12, limit=400
    )
    return area * math.exp((peak**2 - start**2) / 2) / math.sqrt(2 * math.pi)


def test_gdp_conversions_are_exact():
    """They agree with quadrature and with dp_accounting, for losses of 1e-6 to 100."""
    for epsilon in (1e-6, 0.01, 1.0, 100.0):
        for delta in (1e-15, 1e-6, 0.3):
            mu = float(conversions.gdp_mu(epsilon, delta))
            assert delta * (1 - 1.1e-9) <= exact_delta(epsilon, mu) <= delta
            back = conversions.gdp_epsilon(mu, delta)
            assert back <= epsilon
            assert exact_delta(back, mu) <= delta
    for mu, delta in ((0.05, 1e-6), (0.5, 1e-5), (3.0, 1e-9), (10.0, 0.1)):
        epsilon = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
        assert conversions.gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-9)
        sigma = dp_accounting.get_sigma_gaussian(1.0, delta)
        assert conversions.gdp_mu(1.0, delta) == pytest.approx(1 / sigma, rel=1e-8)
