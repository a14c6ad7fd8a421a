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


def recipe_of(epsilon=3.0, **changes):
    settings = {"delta": 1e-6, "rounds": 5, "depth": 4, "rows": 60}
    shares = {"marginals_fraction": 0.3, "scores_fraction": 0.2}
    return recipes.oblivious_boost(
        epsilon=epsilon, domain=DOMAIN, **{**settings, **shares, **changes}
    )


GAUSSIAN = {
    "oblivious": recipe_of,
    "oblivious, replace-one": functools.partial(recipe_of, relation="replace_one"),
    "oblivious, sums alone": functools.partial(
        recipe_of, marginals_fraction=0.0, scores_fraction=0.0
    ),
    "forest": functools.partial(recipes.random_forest, rows=900, rounds=5),
    "halfspaces": functools.partial(recipes.halfspace_boost, rows=900, rounds=5),
}


@pytest.mark.filterwarnings("ignore:delta = 0.3")
@pytest.mark.parametrize("name", GAUSSIAN)
def test_all_of_epsilon_and_no_more_is_spent(name):
    """Also where delta is tiny or large, and for each setting of an array as for it alone."""
    epsilon, delta = np.array([[0.1], [5.0]]), np.array([1e-12, 0.3])
    several = GAUSSIAN[name](epsilon=epsilon, delta=delta, delta_anyway=True)
    for place in np.ndindex(2, 2):
        one = recipes.setting(several, place)
        request = epsilon[place[0], 0]
        assert request * (1 - 2e-6) <= dpbt.ledger(one).epsilon <= request
        alone = GAUSSIAN[name](epsilon=request, delta=delta[place[1]], delta_anyway=True)
        np.testing.assert_array_equal(one.params, alone.params)
        assert float(one.delta) == delta[place[1]]


def exact_delta(epsilon, mu):
    """The delta of mu-GDP, by quadrature of max(0, 1 - e^(epsilon - x)) over the privacy loss x.

    The loss is N(mu^2 / 2, mu^2). The integrand is positive, so no digits cancel.
    """
    start = epsilon / mu - mu / 2
    peak = max(-start, 0.0)

    def density(above):
        return -np.expm1(-mu * above) * np.exp(-start * above - above**2 / 2 - peak**2 / 2)

    places = [peak, *np.clip([1 / max(abs(start), 1e-3), 1 / mu], 0, peak + 40)]
    area, _ = integrate.quad(
        density, 0, peak + 40, points=places, epsabs=0, epsrel=1e-12, limit=400
    )
    return area * math.exp((peak**2 - start**2) / 2) / math.sqrt(2 * math.pi)


def test_gdp_conversions_are_exact():
    """Against quadrature, and against dp_accounting, from losses of 1e-6 to 100."""
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
