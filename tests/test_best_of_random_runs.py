"""The best of a random number of runs: the law of the number, and the cost of the best run."""

import math

import jax
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from dpbt import tuning
from dpbt.privacy import conversions
from dpbt.privacy.conversions import RunCountLaw
from tests.support import tuning_examples

MEANS_AND_ETAS = [(5.0, -0.5), (10.0, 0.0), (4.0, 1.0), (3.0, 3.0)]
every_law = pytest.mark.parametrize(
    "count", [conversions.run_count_law_of_mean(mean, eta) for mean, eta in MEANS_AND_ETAS], ids=str
)


def count_probabilities(count, max_count=4000):
    """P(K = k) for k = 1..max_count, by the recursion of its definition."""
    ratios = [1.0]
    for k in range(1, max_count):
        ratios.append(ratios[-1] * (1 - count.gamma) * (k + count.eta) / (k + 1))
    weights = np.array(ratios)
    return weights / weights.sum()


# The number of runs.


@every_law
def test_the_number_that_is_drawn_has_its_law_and_no_bound(count):
    """Every position of 12 bits is drawn once, so the counts are exact to one position."""
    bits = 12
    drawn = [
        tuning.quantile_of_run_count(count, position=position, num_bits=bits)
        for position in range(2**bits)
    ]
    frequencies, pmf = np.bincount(drawn, minlength=60)[1:60], count_probabilities(count)
    np.testing.assert_allclose(frequencies, 2**bits * pmf[:59], atol=1)
    k = np.arange(1, len(pmf) + 1)
    assert np.sum(k * pmf) == pytest.approx(count.mean, rel=1e-6)
    for x in (1, 0.99, 0.7, 0.01):
        assert tuning_examples.generating_function(count, x) == pytest.approx(
            np.sum(pmf * x**k), rel=1e-6
        )

    # The position leaves a tail of 2^-200.
    top = tuning.quantile_of_run_count(count, position=2**256 - 2**56, num_bits=256)
    log_tail = math.log(2) * 200
    assert top > 0.5 * log_tail / -math.log1p(-count.gamma)


def test_the_number_depends_on_the_key_alone_and_varies():
    count = conversions.run_count_law_of_mean(10.0, 0.0)
    keys = jax.random.split(jax.random.key(3), 300)
    drawn = np.array([tuning.draw_run_count(key, count) for key in keys])
    assert tuning.draw_run_count(keys[0], count) == drawn[0]
    # The median of the law is 4; a binomial count of 300 is outside with probability below 1e-6.
    cdf = np.cumsum(count_probabilities(count))
    for k in (1, 4, 20):
        low, high = stats.binom.interval(1 - 1e-7, 300, cdf[k - 1])
        assert low <= np.sum(drawn <= k) <= high


# What the best run costs.


def pair_of_laws_on_three_outputs(above, epsilon):
    """The laws of an epsilon-DP run on two neighbours, over a good, a rare and a bad output."""
    rare = 1e-7
    law_with_row = np.array([above, rare * math.exp(epsilon), 0])
    law_without_row = np.array([above * math.exp(epsilon), rare, 0])
    for law in (law_with_row, law_without_row):
        law[2] = 1 - law.sum()
    return law_with_row, law_without_row


def largest_loss(generating_function, epsilon):
    """The largest loss of the best run, over pairs as `pair_of_laws_on_three_outputs`."""
    value, max_loss = np.array([2.0, 1.0, 0.0]), 0.0
    for above in np.geomspace(1e-4, 1 / (1 + math.exp(epsilon)), 60):
        pair = pair_of_laws_on_three_outputs(above, epsilon)
        assert tuning_examples.largest_log_ratio(*pair) <= epsilon + 1e-9
        laws = [
            tuning_examples.probabilities_of_best(law, value, generating_function) for law in pair
        ]
        max_loss = max(max_loss, tuning_examples.largest_log_ratio(*laws))
    return max_loss


@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0, 3.0])
def test_the_pure_bound_holds_and_is_attained_nearly(eta):
    count, epsilon = RunCountLaw(1e-4, eta), 0.5
    max_loss = largest_loss(lambda x: tuning_examples.generating_function(count, x), epsilon)
    bound = conversions.best_run_pure_epsilon(epsilon, count)
    assert 0.96 * bound <= max_loss <= bound + 1e-6


@pytest.mark.slow
def test_planted_numbers_of_runs_are_caught():
    """K fixed, K truncated, and K in full batches instead of a random number of runs."""
    epsilon, count = 0.5, RunCountLaw(1e-3, 0.0)
    bound = conversions.best_run_pure_epsilon(epsilon, count)
    pmf = count_probabilities(count)
    k = np.arange(1, len(pmf) + 1)[:, None]

    def truncated(x):
        return np.sum(pmf[:, None] * np.atleast_1d(x) ** np.minimum(k, 10), axis=0)

    def in_full_batches(x, lanes=16):
        rounded = np.bincount(-(-k[:, 0] // lanes) * lanes, pmf)
        return np.polynomial.polynomial.polyval(np.asarray(x), rounded)

    assert largest_loss(lambda x: tuning_examples.generating_function(count, x), epsilon) <= bound
    assert largest_loss(in_full_batches, epsilon) > 1.5 * bound
    assert largest_loss(lambda x: np.asarray(x) ** 10, epsilon) > 1.5 * bound
    assert largest_loss(truncated, epsilon) > 1.2 * bound


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.5])
@every_law
def test_the_gaussian_bound_holds_and_renyi_is_never_better(count, mu):
    """The best of K Gaussian outputs, ordered by the output, by minus it, and by its distance."""
    z = np.linspace(-12, 14, 20001)
    step = z[1] - z[0]
    with_row, without_row = stats.norm.pdf(z) * step, stats.norm.pdf(z, mu) * step
    delta = 1e-6
    epsilon = conversions.best_run_gdp_epsilon(mu, delta, count)
    for value in (z, -z, np.abs(z - mu / 2), -np.abs(z - mu / 2)):
        laws = [
            tuning_examples.probabilities_of_best(
                law / law.sum(), value, lambda x: tuning_examples.generating_function(count, x)
            )
            for law in (with_row, without_row)
        ]
        for first, second in (laws, laws[::-1]):
            assert np.sum(np.maximum(first - math.exp(epsilon) * second, 0)) <= delta
    assert epsilon <= conversions.best_run_zcdp_epsilon(mu**2 / 2, delta, count) + 1e-6


@pytest.mark.parametrize(("mean", "eta"), [(10.0, 0.0), (4.0, 1.0), (3.0, 3.0)])
def test_renyi_agrees_with_dp_accounting(mean, eta):
    count, mu, delta = conversions.run_count_law_of_mean(mean, eta), 0.4, 1e-6
    accountant = RdpAccountant(orders=(1 + np.geomspace(1e-2, 200, 900)).tolist())
    accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1 / mu), mean, eta))
    epsilon_of_dp_accounting = accountant.get_epsilon(delta)
    epsilon = conversions.best_run_zcdp_epsilon(mu**2 / 2, delta, count)
    assert epsilon_of_dp_accounting * 0.98 <= epsilon <= epsilon_of_dp_accounting * (1 + 1e-4)
