"""Mechanisms have the densities of their laws, exact divergences and the prices of theory.

`redteam/test_samplers.py` has the laws of the samplers themselves.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpbt.audit import check_mechanism
from dpbt.privacy import keys, mechanisms
from dpbt.privacy.conversions import Cost
from dpbt.privacy.mechanism_prices import gdp_mu_of_pure_epsilon
from dpbt.privacy.mechanism_types import ROUNDING, Allowance
from tests.support.slow_cases import mark_slow_cases_except

NUM_DRAWS = 20_000
INTEGER_MECHANISMS = (mechanisms.discrete_laplace, mechanisms.rounded_gaussian)
FALSE_ALARM_PROBABILITY = 1e-6
"""Probability that a correct sampler fails one of the frequency tests below."""


@functools.partial(jax.jit, static_argnames=("mechanism", "draws"))
def _sample_many(mechanism, value, scale, seed, draws):
    keys = jax.random.split(jax.random.key(seed), draws)
    return jax.vmap(lambda key: mechanism.sample(key, value, scale))(keys)


def samples(mechanism, value, scale, seed=0, draws=NUM_DRAWS):
    return np.asarray(_sample_many(mechanism, value, scale, seed, draws))


# Compiled: an operation that JAX runs by itself takes as long to compile as one of these programs.
sample = jax.jit(lambda mechanism, *rest: mechanism.sample(*rest), static_argnums=0)
log_prob = jax.jit(lambda mechanism, *rest: mechanism.log_prob(*rest), static_argnums=0)
divergence = jax.jit(lambda mechanism, *rest: mechanism.divergence(*rest).pure, static_argnums=0)
rho = jax.jit(lambda mechanism, *rest: mechanism.divergence(*rest).rho, static_argnums=0)


def pmf_of_selection(mechanism, scores, scale):
    """The probability of every candidate of one draw."""
    candidates = jnp.arange(scores.shape[-1])
    log_probs = jax.vmap(lambda k: log_prob(mechanism, k, scores, scale))(candidates)
    return np.exp(np.asarray(log_probs, np.float64))


@pytest.mark.parametrize("scale", [0.3, 5.0, 2e6])
def test_log_probs_of_integer_noise_are_those_of_its_law(scale):
    """A rounded Gaussian has the mass of a bin of its public step, and none between two bins."""
    laplace, gaussian = INTEGER_MECHANISMS
    k = np.arange(-3, 4)
    log_probs = log_prob(laplace, jnp.asarray(k, jnp.int32), jnp.int32(0), jnp.float32(scale))
    np.testing.assert_allclose(log_probs, stats.dlaplace(1 / scale).logpmf(k), rtol=1e-5, atol=1e-5)

    step = float(mechanisms.rounded_gaussian_step(jnp.float32(scale)))
    assert step == max(2.0 ** np.floor(np.log2(scale) - 11), 1)
    value, width = np.int32(77), float(np.float32(scale))
    output = np.int32(np.round((value + scale * np.array([-6, -1.3, 0, 0.4, 5.0])) / step) * step)
    log_probs = log_prob(gaussian, jnp.asarray(output), jnp.int32(value), jnp.float32(scale))
    low, high = ((output + sign * step / 2 - value) / width for sign in (-1, 1))
    by_upper_tails = stats.norm.sf(low) - stats.norm.sf(high)
    by_lower_tails = stats.norm.cdf(high) - stats.norm.cdf(low)
    law = np.log(np.where(low > 0, by_upper_tails, by_lower_tails))
    np.testing.assert_allclose(log_probs, law, rtol=2e-6, atol=2e-6)
    if step > 1:
        between_bins = jnp.asarray(output[0] + 1)
        assert np.isneginf(log_prob(gaussian, between_bins, jnp.int32(value), jnp.float32(scale)))


def test_no_candidate_is_less_likely_than_e_to_the_minus_32_times_the_best():
    """The floor of scores holds in the law and in its density."""
    mechanism, scale = mechanisms.exponential, jnp.float32(1)
    scores = jnp.float32([0.0, -20.0, -100.0, -1e30])
    log_probs = np.log(pmf_of_selection(mechanism, scores, scale))
    np.testing.assert_allclose(
        log_probs, [0, -20, -mechanisms.MAX_SCALES_BEHIND, -mechanisms.MAX_SCALES_BEHIND], atol=1e-5
    )
    assert divergence(mechanism, scores, scale, scores.at[2].set(-1e5), scale) == 0


def test_a_selection_refuses_more_candidates_than_its_sampler_is_for():
    scores = jax.ShapeDtypeStruct((mechanisms.MAX_CANDIDATES + 1,), jnp.float32)
    for mechanism in (mechanisms.exponential, mechanisms.noisy_max):
        with pytest.raises(ValueError, match="at most 1048576 candidates"):
            jax.eval_shape(mechanism.sample, jax.random.key(0), scores, jnp.float32(1))


def test_wide_discrete_laplace_noise_saturates_with_the_mass_of_its_tail():
    value, scale, top = 2**30, 2.0**31, mechanisms.SATURATION
    args = jnp.int32(value), jnp.float32(scale)
    noisy = samples(mechanisms.discrete_laplace, *args).astype(np.int64)
    mass = np.exp(log_prob(mechanisms.discrete_laplace, jnp.int32([top, -top]), *args))
    distance = np.array([top - value, top + value])
    np.testing.assert_allclose(mass, 0.5 * np.exp(-distance / scale), rtol=1e-5)
    counts = np.array([(noisy == top).sum(), (noisy == -top).sum(), (abs(noisy) < top).sum()])
    assert (
        stats.chisquare(counts, np.array([*mass, 1 - mass.sum()]) * NUM_DRAWS).pvalue
        > FALSE_ALARM_PROBABILITY
    )


def test_noisy_max_of_two_candidates_follows_its_closed_form():
    for gap in np.float32([0.0, 0.4, 3.0, 20.0]):
        expected = 0.5 * np.exp(-gap) * (1 + gap / 2)
        pmf = pmf_of_selection(mechanisms.noisy_max, jnp.asarray([0.0, gap]), jnp.float32(1))
        assert pmf[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("mechanism", INTEGER_MECHANISMS, ids=lambda m: m.name)
def test_scale_zero_adds_no_noise(mechanism):
    value = jnp.arange(4, dtype=jnp.int32)
    key, zero = jax.random.key(0), jnp.float32(0)
    np.testing.assert_array_equal(sample(mechanism, key, value, zero), value)
    np.testing.assert_array_equal(log_prob(mechanism, value, value, zero), 0)
    assert np.all(np.isneginf(log_prob(mechanism, value + 1, value, zero)))
    assert float(divergence(mechanism, value, zero, value, zero)) == 0
    assert float(divergence(mechanism, value, zero, value + 1, zero)) == np.inf


@pytest.mark.parametrize("mechanism", INTEGER_MECHANISMS, ids=lambda m: m.name)
def test_integer_noise_refuses_values_that_it_would_truncate(mechanism):
    with pytest.raises(ValueError, match="whole numbers"):
        mechanism.sample(jax.random.key(0), jnp.float32([0.3]), jnp.float32(1))


def property_line(report, beginning):
    """The line of a report whose property has this beginning."""
    return next(line for line in report.lines if line.name.startswith(beginning))


VALUES_OF_NEIGHBOURS = {
    "discrete laplace": ([3, -2, 0], [4, -2, 3]),
    "rounded gaussian": ([3, -2, 0], [4, -2, 3]),
    "exponential": ([0.0, 1.0, 5.0], [1.0, 1.0, 3.0]),
    "noisy max": ([0.0, 1.0, 5.0], [1.0, 1.0, 3.0]),
}


@pytest.mark.parametrize(
    "mechanism",
    mark_slow_cases_except(
        [*INTEGER_MECHANISMS, mechanisms.exponential, mechanisms.noisy_max],
        fast=[mechanisms.exponential],
    ),
    ids=lambda mechanism: mechanism.name,
)
def test_samples_densities_and_prices_agree(mechanism):
    dtype = jnp.int32 if mechanism in INTEGER_MECHANISMS else jnp.float32
    pair = tuple(jnp.asarray(value, dtype) for value in VALUES_OF_NEIGHBOURS[mechanism.name])
    report = check_mechanism(mechanism, [pair], scales=[0.8, 5.0])
    # The divergence of pure mechanisms is attained by an outcome, and no upper bound alone.
    expected = 0.0 if mechanism is mechanisms.rounded_gaussian else pytest.approx(1, abs=0.01)
    assert property_line(report, "log ratios").figure == expected


def test_divergence_of_gaussians_is_that_of_their_distance():
    value, other_value, scale = (
        jnp.float32([0.0, 1.0, 5.0]),
        jnp.float32([1.0, 1.0, 3.0]),
        jnp.float32(2.0),
    )
    gaussian = mechanisms.rounded_gaussian
    assert float(divergence(gaussian, value, scale, value, scale)) == 0
    assert float(divergence(gaussian, value, scale, other_value, scale)) == np.inf
    expected = ((1 / 2) ** 2 + (2 / 2) ** 2) / 2
    assert float(rho(gaussian, value, scale, other_value, scale)) == pytest.approx(expected)


@pytest.mark.parametrize("scale", [7, 65_536, 100_003])
def test_uniform_integers_are_random_bits_modulo_the_scale(scale):
    """64 bits up to 2^16 values, whatever the remainders; 32 bits beyond."""
    key, shape = jax.random.key(scale), (500,)
    high, low = np.asarray(keys.random_words(key, 2, shape)).astype(np.uint64)
    random_bits = (high << np.uint64(32)) + low if scale <= 2**16 else low
    integers = sample(mechanisms.uniform, key, jnp.zeros(shape, jnp.int32), jnp.int32(scale))
    np.testing.assert_array_equal(integers, random_bits % np.uint64(scale))


# Prices.

PURE_MECHANISMS = (mechanisms.discrete_laplace, mechanisms.exponential, mechanisms.noisy_max)
GAUSSIAN_MECHANISMS = (mechanisms.rounded_gaussian,)
PRIVATE_MECHANISMS = (*PURE_MECHANISMS, *GAUSSIAN_MECHANISMS)
every_private_mechanism = pytest.mark.parametrize(
    "mechanism", PRIVATE_MECHANISMS, ids=lambda m: m.name
)


@every_private_mechanism
def test_costs_of_mechanisms_are_those_of_theory(mechanism):
    sensitivity, scale = np.array([0.0, 1.0, 127.0, 3.0]), np.array([2.0, 4.0, 50.0, 3e-3])
    ratio = sensitivity / scale
    cost = mechanism.cost_of_draw(sensitivity, scale)
    if mechanism in GAUSSIAN_MECHANISMS:
        np.testing.assert_array_equal(cost.epsilon, np.where(ratio > 0, np.inf, 0))
        np.testing.assert_allclose(cost.mu, ratio)
    else:
        np.testing.assert_allclose(cost.epsilon, ratio)
        np.testing.assert_allclose(cost.mu, gdp_mu_of_pure_epsilon(ratio))
    divisor = 8 if mechanism is mechanisms.exponential else 2
    np.testing.assert_allclose(cost.rho, ratio**2 / divisor)
    assert mechanism.cost_of_draw(1.0, 0.0) == Cost(epsilon=np.inf, rho=np.inf, mu=np.inf)
    assert mechanism.cost_of_draw(0.0, 0.0) == Cost(epsilon=0, rho=0, mu=0)
    assert mechanisms.uniform.cost_of_draw(0.0, 3.0) == Cost(epsilon=0, rho=0, mu=0)


@every_private_mechanism
def test_the_noise_multiplier_is_the_least_within_an_allowance(mechanism):
    """The inverse of `cost`, with room for the roundings of a product in float32."""
    rng = np.random.default_rng(0)
    sensitivity = rng.uniform(0.1, 300, 500).astype(np.float32)
    allowed, nothing = np.exp(rng.uniform(-7, 5, 500)), np.zeros(500)
    allowances = [("rho", Allowance(nothing, allowed))]
    if mechanism in PURE_MECHANISMS:
        allowances.append(("epsilon", Allowance(allowed, nothing)))
    for currency, allowance in allowances:
        multiplier = mechanism.noise_multiplier(allowance)
        assert multiplier.dtype == np.float32
        cost = getattr(mechanism.cost_of_draw(sensitivity, sensitivity * multiplier), currency)
        assert np.all(cost <= allowed)
        slightly_less = multiplier / ROUNDING * (1 - 2.0**-22)
        assert np.all(getattr(mechanism.cost_of_draw(1.0, slightly_less), currency) > allowed)


@every_private_mechanism
def test_of_two_allowances_the_one_that_needs_less_noise_counts(mechanism):
    one, nothing, infinite = np.float64(1), np.float64(0), np.float64(np.inf)
    pure, zcdp = Allowance(one, nothing), Allowance(nothing, one)
    multiplier = mechanism.noise_multiplier(Allowance(one, one))
    assert multiplier == min(mechanism.noise_multiplier(pure), mechanism.noise_multiplier(zcdp))
    assert mechanism.noise_multiplier(Allowance(infinite, nothing)) == 0
    assert mechanism.noise_multiplier(Allowance(nothing, infinite)) == 0
    if mechanism in GAUSSIAN_MECHANISMS:
        assert np.isinf(mechanism.noise_multiplier(pure))  # no Gaussian noise is pure


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 20.0])
def test_mu_of_a_pure_epsilon_is_the_least(epsilon):
    """The trade-off curve of mu lies below the lines of epsilon; that of a smaller mu does not."""
    corner = 1 / (1 + np.exp(epsilon))
    type_one_error = np.unique(
        [*np.linspace(1e-9, 1 - 1e-9, 20_001), corner, *np.geomspace(1e-12, 0.5, 500)]
    )
    steep, flat = 1 - np.exp(epsilon) * type_one_error, np.exp(-epsilon) * (1 - type_one_error)
    trade_off_of_epsilon = np.maximum(np.maximum(steep, flat), 0)

    def trade_off_of_mu(mu):
        return stats.norm.cdf(stats.norm.isf(type_one_error) - mu)

    mu = float(gdp_mu_of_pure_epsilon(epsilon))
    assert np.all(trade_off_of_mu(mu) <= trade_off_of_epsilon + 1e-12)
    assert np.any(trade_off_of_mu(mu * 0.999) > trade_off_of_epsilon * (1 + 1e-9) + 1e-15)
    assert gdp_mu_of_pure_epsilon(0.0) == 0
    tiny = np.array([1e-18, 9e-7, 1.1e-6, 1e-4])
    np.testing.assert_allclose(gdp_mu_of_pure_epsilon(tiny) / tiny, np.sqrt(np.pi / 2), rtol=1e-8)
    assert gdp_mu_of_pure_epsilon(np.inf) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(mechanisms.exponential, id="exponential"),
        pytest.param(mechanisms.noisy_max, id="noisy max"),
    ],
)
def test_a_selection_costs_by_the_range_of_the_change_of_scores(mechanism):
    """Changes in [shared, shared + range]: pure and Renyi losses are within the price.

    One pair attains it, so one-signed changes in [0, range] need no factor of two.
    """
    key, width, scale = jax.random.key(4), 1.4, jnp.float32(0.6)
    scores = jax.random.normal(key, (60, 6)) * 2
    shared = jax.random.normal(jax.random.fold_in(key, 1), (60, 1)) * 3
    is_raised = jax.random.bernoulli(jax.random.fold_in(key, 2), 0.5, (60, 6))
    change = width * is_raised.astype(jnp.float32) + shared
    cost = mechanism.cost_of_draw(width, 0.6)
    loss = jax.vmap(lambda value, other: divergence(mechanism, value, scale, other, scale))(
        scores, scores + change
    )
    assert float(loss.max()) <= cost.epsilon + 1e-3
    pairs = list(zip(scores[:10], (scores + change)[:10], strict=True))

    # Of two candidates far apart, the worse one gains the range while the better one stays.
    before = jnp.float32([0.0, -12.0])
    pairs.append((before, before + jnp.float32([0.0, width])))
    report = check_mechanism(mechanism, pairs, scales=[0.6], num_draws=2000)
    attained_share = 0.99 if mechanism is mechanisms.exponential else 0.9
    assert property_line(report, "divergence / price").figure >= attained_share
