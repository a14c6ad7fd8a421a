"""Audits of learners from outside the library: bounds hold, and leaks are found."""

import math

import jax
import numpy as np
import pytest
from scipy import stats

import dpbt
from dpbt import audit, recipes
from dpbt.__main__ import main
from dpbt.audit import grey_box as hooks
from dpbt.data.domains import Boolean
from dpbt.privacy import audit_bounds
from dpbt.privacy.conversions import gdp_epsilon
from tests.support.example_tables import random_table

MANY, FEW = np.ones(5), np.ones(4)


def noisy_row_count(scale=1.0, sensitivity=1.0):
    return lambda rows, noise: noise.laplace(len(rows), sensitivity, scale, "count")


def learner_of_seed(learn):
    return lambda rows, seed: learn(rows, audit.Hooks(seed))


# The bounds.


def test_bounds_on_probabilities_are_those_of_clopper_and_pearson():
    low, high = audit_bounds.clopper_pearson_bounds(
        np.array([0, 7, 20]), num_runs=20, confidence=0.975
    )
    exact = [stats.binomtest(k, 20).proportion_ci(0.95, "exact") for k in (0, 7, 20)]
    np.testing.assert_allclose(low, [interval.low for interval in exact], atol=1e-9)
    np.testing.assert_allclose(high, [interval.high for interval in exact], atol=1e-9)


@pytest.mark.parametrize("exact", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_bounds_are_below_the_truth_as_often_as_they_say_and_near_it(exact):
    """The Gaussian mechanism has a known mu and epsilon; log ratios are exact scores."""
    mu, delta, failures, shares_of_truth = 1.5, 1e-2, 0, []
    truth = gdp_epsilon(mu, delta)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        outputs_with_row, outputs_without_row = rng.normal(mu, 1, 2000), rng.normal(0, 1, 2000)
        log_ratios = [
            mu * outputs - mu**2 / 2 for outputs in (outputs_with_row, outputs_without_row)
        ]
        scores = audit_bounds.RunScores(
            *(log_ratios if exact else (outputs_with_row, outputs_without_row))
        )
        options = {"delta": delta, "confidence": 0.9, "are_log_likelihood_ratios": exact}
        lower = audit_bounds.epsilon_and_mu_lower_bounds(*scores.split_in_halves(), **options)
        failures += (lower.mu > mu) + (lower.epsilon > truth)
        shares_of_truth.append((lower.mu / mu, lower.epsilon / truth))
    assert failures <= stats.binom(80, 0.1).ppf(0.999)
    mean_shares = np.mean(shares_of_truth, axis=0)
    assert mean_shares[0] > 0.75
    assert not exact or mean_shares[1] > 0.9


def test_the_bound_of_one_run_is_that_of_a_binomial_test():
    def bound(correct, delta):
        common = {"num_guesses": 100, "num_canaries": 100, "failure_probability": 0.05}
        return audit_bounds.one_run_epsilon_lower_bound(num_correct=correct, delta=delta, **common)

    assert bound(50, 0.0) == 0
    epsilon_bound = bound(90, 0.0)
    chance = 1 / (1 + math.exp(-epsilon_bound))
    assert stats.binom(100, chance).sf(89) == pytest.approx(0.05, rel=1e-6)
    assert 0 < bound(90, 1e-4) < epsilon_bound


# Grey boxes.


def test_a_grey_box_has_the_exact_loss_of_each_mechanism():
    def learn(rows, noise):
        has_extra_row = len(rows) > 4
        noise.integer_laplace(len(rows), 1.0, 2.0)
        noise.respond(has_extra_row, 0.5)
        noise.choose([0.0, float(has_extra_row)], 1.0, 0.5)

        def output_log_probability(out):
            return math.log(0.6 if out == has_extra_row else 0.4)

        noise.custom(
            has_extra_row, lambda rng: has_extra_row == (rng.random() < 0.6), output_log_probability
        )
        return noise.public.random()

    lower_bound = audit.grey_box_lower_bound(learn, MANY, FEW, claim=(2.0, 0.0))
    assert lower_bound.certain
    log_normalizer = 2 * math.log((1 + math.exp(0.25)) / 2)  # of the exponential mechanism
    expected_epsilon = (
        0.5 + 0.5 + max(0.25 - log_normalizer / 2, log_normalizer / 2) + math.log(1.5)
    )
    assert lower_bound.epsilon == pytest.approx(expected_epsilon, rel=1e-6)
    assert not lower_bound.broken
    assert "nothing against the claim" in str(lower_bound)
    forest = recipes.random_forest(epsilon=1.0, rows=100)
    with pytest.raises(ValueError, match="of this very claim"):
        dpbt.statement(forest, audits=[lower_bound])
    recipe_ledger = dpbt.ledger(forest)
    lower_bound = lower_bound._replace(claim=(recipe_ledger.epsilon, recipe_ledger.delta))
    statement = dpbt.statement(forest, audits=[lower_bound])
    assert f"made up\n- {lower_bound.words}" in statement


def test_a_wrong_sensitivity_is_found_and_named():
    lower_bound = audit.grey_box_lower_bound(
        noisy_row_count(0.5, 0.5), MANY, FEW, claim=(1.0, 0.0), num_runs=20
    )
    assert lower_bound.epsilon == pytest.approx(2.0)
    assert "moved 2 times its stated sensitivity" in lower_bound.where
    assert "THE CLAIM IS FALSE" in str(lower_bound)


def test_gaussian_draws_add_up_to_mu():
    def learn(rows, noise):
        return [noise.gaussian(len(rows), 1.0, 4.0) for _ in range(16)]

    assert not audit.grey_box_lower_bound(learn, MANY, FEW, claim=(5.0, 1e-5), num_runs=20).certain
    lower_bound = audit.grey_box_lower_bound(
        learn, MANY, FEW, claim=(5.0, 1e-5), num_runs=20, nonadaptive=True
    )
    assert lower_bound.certain
    assert lower_bound.mu == pytest.approx(1.0)
    assert lower_bound.epsilon == pytest.approx(gdp_epsilon(1.0, 1e-5))


@pytest.mark.parametrize(
    "leak",
    [
        lambda rows, noise: noise.exactly(len(rows)),
        lambda rows, noise: len(rows) > 4 and noise.laplace(0.0, 1.0, 1.0),
        lambda rows, noise: noise.laplace(np.zeros(len(rows)), 1.0, 1.0),
        lambda rows, noise: noise.laplace(np.nan if len(rows) > 4 else 0.0, 1.0, 1.0),
        lambda rows, noise: noise.laplace(np.inf if len(rows) > 4 else 0.0, 1.0, 1.0),
        lambda rows, noise: (noise.laplace(0.0, 1.0, 1.0), {"rows": len(rows)}),
    ],
    ids=["a number", "a draw", "a shape", "no number", "infinity", "a return"],
)
def test_the_grey_box_finds_what_follows_from_private_rows(leak):
    assert (
        audit.grey_box_lower_bound(leak, MANY, FEW, claim=(1.0, 0.0), num_runs=8).epsilon
        == math.inf
    )
    assert hooks.replay_pair(leak, FEW, MANY, 0).loss >= audit_bounds.IMPOSSIBLE_EVENT_LOG_RATIO / 2


def test_a_learner_may_write_into_arrays_that_it_passed_or_received():
    def learn(rows, noise):
        total = np.zeros(2)
        total[0] += len(rows)
        counts = noise.laplace(total, 1.0, 1.0)
        counts[counts < 0] = 0
        total += 5
        return counts / (1 + counts.sum())

    assert audit.grey_box_lower_bound(
        learn, MANY, FEW, claim=(1.0, 0.0), num_runs=40
    ).epsilon == pytest.approx(1.0)


# Black boxes, and one run.


def test_a_black_box_finds_a_leak_and_nothing_in_a_right_learner():
    common = {"claim": (1.0, 0.0), "num_runs": 1200}
    right = audit.black_box_lower_bound(learner_of_seed(noisy_row_count()), MANY, FEW, **common)
    assert 0.3 < right.epsilon <= 1
    wrong = audit.black_box_lower_bound(learner_of_seed(noisy_row_count(0.25)), MANY, FEW, **common)
    assert wrong.broken
    leaks = audit.black_box_lower_bound(
        lambda rows, seed: [seed % 2, len(rows)], MANY, FEW, **common
    )
    assert leaks.epsilon > 4
    alike = audit.black_box_lower_bound(lambda rows, seed: [1.0, np.nan], MANY, FEW, **common)
    assert (alike.epsilon, alike.mu) == (0, 0)


def test_one_run_finds_a_leak_and_nothing_in_a_right_learner():
    def fit(scale):
        return lambda coins, seed: coins + np.random.default_rng(seed).laplace(0, scale, coins.size)

    assert 0.5 < audit.one_run_lower_bound(fit(1.0), 4000, claim=(1.0, 0.0)).epsilon <= 1
    assert audit.one_run_lower_bound(fit(0.3), 4000, claim=(1.0, 1e-6)).broken


# Recipes, and the command.


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_bound_of_a_recipe_on_its_worst_neighbour_is_within_the_claim(delta):
    table, domain = random_table(0, 10, 2), {"a": Boolean(), "b": Boolean()}
    common = {"epsilon": 4.0, "delta": delta, "rows": 10, "rounds": 2, "depth": 1}
    recipe = recipes.oblivious_boost(domain=domain, attributes_per_tree=(1,), **common)
    neighbours = audit.neighbours(table, recipe.relation)
    lower_bound = audit.exact_lower_bound(jax.random.key(0), neighbours, recipe, 400)
    assert 0.2 < lower_bound.epsilon <= 4 + 1e-3
    assert not lower_bound.broken
    assert lower_bound.certain == (delta == 0)
    assert lower_bound.curve.shape[1] == 2


def test_worst_pairs_of_tables_differ_in_the_last_row():
    pairs = audit.make_worst_table_pairs([0.0, -1.0], [1.0, 1.0])
    for table, neighbour in pairs.values():
        np.testing.assert_array_equal(table[:-1], neighbour)
    assert len(pairs) == 6


def test_the_bounds_of_all_pairs_of_a_file_hold_together(tmp_path, capsys):
    text = "claim, pairs = (1.0, 0.0), {'a': (0, 1), 'b': (0, 1)}\n"
    (tmp_path / "own.py").write_text(f"{text}fit = lambda table, seed: [seed % 7]")
    main(["audit", "--module", str(tmp_path / "own.py"), "--runs", "80"])
    assert capsys.readouterr().out.count("with 97.5 % confidence") >= 2
