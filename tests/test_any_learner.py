"""Audits of learners that are not of this library: bounds hold, and leaks are found."""

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
from dpbt.privacy import bounds
from dpbt.privacy.conversions import gdp_epsilon
from tests.support.example_tables import random_table

MANY, FEW = np.ones(5), np.ones(4)


def counted(scale=1.0, sensitivity=1.0):
    return lambda rows, noise: noise.laplace(len(rows), sensitivity, scale, "count")


def fitted(learn):
    return lambda rows, seed: learn(rows, audit.Hooks(seed))


# The bounds.


def test_chances_are_those_of_clopper_and_pearson():
    low, high = bounds.chance_bounds(np.array([0, 7, 20]), runs=20, confidence=0.975)
    exact = [stats.binomtest(k, 20).proportion_ci(0.95, "exact") for k in (0, 7, 20)]
    np.testing.assert_allclose(low, [each.low for each in exact], atol=1e-9)
    np.testing.assert_allclose(high, [each.high for each in exact], atol=1e-9)


@pytest.mark.parametrize("exact", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_bounds_are_below_the_truth_as_often_as_they_say_and_near_it(exact):
    """Of the Gaussian mechanism, whose mu and epsilon are known; log ratios are exact scores."""
    mu, delta, failures, found = 1.5, 1e-2, 0, []
    truth = gdp_epsilon(mu, delta)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        here, there = rng.normal(mu, 1, 2000), rng.normal(0, 1, 2000)
        ratio = [mu * each - mu**2 / 2 for each in (here, there)]
        scores = bounds.RunScores(*(ratio if exact else (here, there)))
        options = {"delta": delta, "confidence": 0.9, "exact": exact}
        lower = bounds.lower_bounds(*scores.split_in_halves(), **options)
        failures += (lower.mu > mu) + (lower.epsilon > truth)
        found.append((lower.mu / mu, lower.epsilon / truth))
    assert failures <= stats.binom(80, 0.1).ppf(0.999)
    near = np.mean(found, axis=0)
    assert near[0] > 0.75
    assert not exact or near[1] > 0.9


def test_one_run_refutes_what_a_binomial_refutes():
    def bound(correct, delta):
        common = {"guesses": 100, "canaries": 100, "failure_probability": 0.05}
        return bounds.one_run_epsilon_bound(correct=correct, delta=delta, **common)

    assert bound(50, 0.0) == 0
    found = bound(90, 0.0)
    chance = 1 / (1 + math.exp(-found))
    assert stats.binom(100, chance).sf(89) == pytest.approx(0.05, rel=1e-6)
    assert 0 < bound(90, 1e-4) < found


# Grey boxes.


def test_a_grey_box_has_the_exact_loss_of_each_mechanism():
    def learn(rows, noise):
        on = len(rows) > 4
        noise.integer_laplace(len(rows), 1.0, 2.0)
        noise.respond(on, 0.5)
        noise.choose([0.0, float(on)], 1.0, 0.5)
        custom = lambda out: math.log(0.6 if out == on else 0.4)  # noqa: E731
        noise.custom(on, lambda rng: on == (rng.random() < 0.6), custom)
        return noise.public.random()

    found = audit.grey_box_lower_bound(learn, MANY, FEW, claim=(2.0, 0.0))
    assert found.certain
    normed = 2 * math.log((1 + math.exp(0.25)) / 2)  # of the exponential mechanism
    most = 0.5 + 0.5 + max(0.25 - normed / 2, normed / 2) + math.log(1.5)
    assert found.epsilon == pytest.approx(most, rel=1e-6)
    assert not found.broken
    assert "nothing against the claim" in str(found)
    forest = recipes.random_forest(epsilon=1.0, rows=100)
    with pytest.raises(ValueError, match="of this very claim"):
        dpbt.statement(forest, audits=[found])
    book = dpbt.ledger(forest)
    found = found._replace(claim=(book.epsilon, book.delta))
    told = dpbt.statement(forest, audits=[found])
    assert f"made up\n- {found.words}" in told


def test_a_wrong_sensitivity_is_found_and_named():
    found = audit.grey_box_lower_bound(counted(0.5, 0.5), MANY, FEW, claim=(1.0, 0.0), num_runs=20)
    assert found.epsilon == pytest.approx(2.0)
    assert "moved 2 times its stated sensitivity" in found.where
    assert "THE CLAIM IS FALSE" in str(found)


def test_gaussian_draws_add_up_to_mu():
    def learn(rows, noise):
        return [noise.gaussian(len(rows), 1.0, 4.0) for _ in range(16)]

    assert not audit.grey_box_lower_bound(learn, MANY, FEW, claim=(5.0, 1e-5), num_runs=20).certain
    found = audit.grey_box_lower_bound(
        learn, MANY, FEW, claim=(5.0, 1e-5), num_runs=20, nonadaptive=True
    )
    assert found.certain
    assert found.mu == pytest.approx(1.0)
    assert found.epsilon == pytest.approx(gdp_epsilon(1.0, 1e-5))


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
    assert hooks.replay_pair(leak, FEW, MANY, 0).loss >= bounds.LARGE / 2


def test_a_learner_may_write_into_what_it_gave_and_was_given():
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
    right = audit.black_box_lower_bound(fitted(counted()), MANY, FEW, **common)
    assert 0.3 < right.epsilon <= 1
    wrong = audit.black_box_lower_bound(fitted(counted(0.25)), MANY, FEW, **common)
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
def test_a_recipe_on_its_worst_neighbour(delta):
    table, domain = random_table(0, 10, 2), {"a": Boolean(), "b": Boolean()}
    common = {"epsilon": 4.0, "delta": delta, "rows": 10, "rounds": 2, "depth": 1}
    recipe = recipes.oblivious_boost(domain=domain, attributes_per_tree=(1,), **common)
    near = audit.neighbours(table, recipe.relation)
    found = audit.exact_lower_bound(jax.random.key(0), near, recipe, 400)
    assert 0.2 < found.epsilon <= 4 + 1e-3
    assert not found.broken
    assert found.certain == (delta == 0)
    assert found.curve.shape[1] == 2


def test_pairs_differ_in_the_last_row():
    pairs = audit.make_worst_table_pairs([0.0, -1.0], [1.0, 1.0])
    for table, neighbour in pairs.values():
        np.testing.assert_array_equal(table[:-1], neighbour)
    assert len(pairs) == 6


def test_all_bounds_of_a_file_hold_together(tmp_path, capsys):
    text = "claim, pairs = (1.0, 0.0), {'a': (0, 1), 'b': (0, 1)}\n"
    (tmp_path / "own.py").write_text(f"{text}fit = lambda table, seed: [seed % 7]")
    main(["audit", "--module", str(tmp_path / "own.py"), "--runs", "80"])
    assert capsys.readouterr().out.count("with 97.5 % confidence") >= 2
