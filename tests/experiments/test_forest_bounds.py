"""Calculators of Bojarski et al.: Theorems 5.1 to 5.3 hold of forests, formulas are the paper's,
k_opt is best.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbt
from dpbt import recipes
from dpbt.common.types import Table
from dpbt.data.domains import positions
from dpbt.learners import hypotheses
from experiments.common import data, forest_bounds


def by_loop(leaf, label, present):
    """Weight and correctness of each present row in one tree, and the tree's accuracy as the proofs
    define it.
    """
    here = np.flatnonzero(present)
    weight, right, correct = {}, {}, 0
    for one in set(leaf[here]):
        members = [i for i in here if leaf[i] == one]
        positive = sum(bool(label[i]) for i in members)
        majority = positive >= len(members) - positive
        for i in members:
            share = positive / len(members)
            weight[i] = share if label[i] else 1 - share
            right[i] = bool(label[i]) == majority
        correct += max(positive, len(members) - positive)
    return weight, right, correct / len(here)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**31 - 1),
    st.integers(1, 60),
    st.integers(1, 8),
    st.sampled_from([0.5, 0.1, 0.9]),
)
def test_theorems_5_1_and_5_2_hold_of_any_leaves(seed, rows, trees, share):
    rng = np.random.default_rng(seed)
    leaf = rng.integers(0, 8, (8, 64))
    label, present = rng.random(64) < share, np.arange(64) < rows
    found = forest_bounds.points(jnp.asarray(leaf), jnp.asarray(label), jnp.asarray(present), 8)
    accuracies = []
    for k in range(trees):
        weight, right, accuracy = by_loop(leaf[k], label, present)
        np.testing.assert_allclose(
            [found.weight[k, i] for i in weight], list(weight.values()), atol=1e-6
        )
        assert [bool(found.right[k, i]) for i in right] == list(right.values())
        accuracies.append(accuracy)
    found = jax.tree.map(lambda x: x[:trees], found)
    np.testing.assert_allclose(
        forest_bounds.accuracy(found, jnp.asarray(present)), accuracies, atol=1e-6
    )
    e = np.mean(accuracies)
    assert np.mean(forest_bounds.goodness(found)[:rows]) == pytest.approx(e, abs=1e-6)
    assert np.mean(forest_bounds.weight(found)[:rows]) >= e**2 + (1 - e) ** 2 - 1e-6
    assert e >= 0.5


def test_a_tie_breaks_theorem_5_1_read_by_the_word():
    leaf, label = jnp.zeros((1, 2), jnp.int32), jnp.array([True, False])
    found = forest_bounds.points(leaf, label, jnp.ones(2, bool), 1)
    assert np.mean(found.weight > 0.5) == 0 < 0.5 == np.mean(forest_bounds.goodness(found))


KEYS = jax.random.split(jax.random.key(0))
SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("transfusion", "voting", "mammographic", "mushroom")
]


@pytest.mark.parametrize("depth", [2, 6, 10])
@pytest.mark.parametrize("name", ["banknote", *SLOW])
def test_theorems_5_1_and_5_2_hold_on_real_data(data_folder, name, depth):
    """Of 31 random trees on the training rows; where DPBT_DATA is not set the test is skipped, and
    says so.
    """
    dataset = data.load(name, folder=data_folder)
    numbers = jnp.asarray(positions(dataset.domain, dataset.columns, codes=True))
    table = Table(numbers, dataset.table.target, dataset.table.present)
    recipe = recipes.random_forest(epsilon=np.inf, rows=len(dataset.label), rounds=31, depth=depth)
    model = dpbt.fit(KEYS[0], table, recipe, KEYS[1])
    trees = jax.tree.map(lambda x: x[:, 0], model.hypotheses)
    label, present = jnp.asarray(table.target), jnp.asarray(table.present)
    found = forest_bounds.points(hypotheses.routes(trees, table.bins), label, present, 2**depth)
    e = float(np.mean(forest_bounds.accuracy(found, present)))
    weight, goodness = forest_bounds.weight(found), forest_bounds.goodness(found)
    assert float(np.mean(goodness)) == pytest.approx(e, abs=1e-5)
    assert float(np.mean(weight)) >= e**2 + (1 - e) ** 2 - 1e-5
    assert 0.5 <= e < 1
    # Markov's steps of Theorem 5.4, and what they are about: few points have a margin below delta.
    for delta in (0.05, 0.2):
        by_goodness = forest_bounds.fraction_above(goodness, delta, present)
        by_weight = forest_bounds.fraction_above(weight, delta, present)
        assert 1 - float(by_goodness) <= (1 - e) / (0.5 - delta) + 1e-6
        assert 1 - float(by_weight) <= 2 * e * (1 - e) / (0.5 - delta) + 1e-6


def test_formulas_at_one_point():
    n, k, h, eta, delta, big_k, big_c, eps, c = 5000, 40, 3, 0.7, 0.2, 30, 0.5, 0.08, 0.1
    phi = delta / (2 * (4 + delta) * 2**h * big_k)
    exp, where = math.exp, {"height": h, "big_k": big_k}

    def same(bound, *expected):
        np.testing.assert_allclose([float(x) for x in bound], expected, rtol=1e-5)

    # Without privacy: seen rows, and unseen ones, which take 1/K and a smaller delta.
    for more, margin, light in (({}, delta, 0.0), (where, delta / 2, 1 / big_k)):
        trees = 1.5 * math.log(n) / (2 * margin**2)
        sure = 1 - n**-0.5
        lost = 2 ** (h + 3) * trees * exp(-2 * n * phi**2) if more else 0.0
        x = eps + light
        same(forest_bounds.by_points(0.9, n, delta, big_c, **more), trees, 0.1, sure - lost)
        for voting, error, coins in (
            ("majority", x / 0.3, 1.0),
            ("threshold", 2 * x * (1 - x) / 0.3, 1.0),
            ("probabilistic", 2 * x * (1 - x) + delta + c, 1 - exp(-2 * n * c**2)),
        ):
            found = forest_bounds.by_accuracy(voting, eps, n, delta, big_c, c=c, **more)
            same(found, trees, error, sure * coins - lost)

    # With privacy: what is printed, and what is proved.
    rate, luck = delta / (24 * big_k * 2**h), exp(-k * delta**2 / 2)
    printed = 1 - n * (luck + exp(-k / 2) + k * exp(-rate * n * eta / k))
    proved = 1 - n * (luck + exp(-n / 2) + 2 * k * exp(-rate * math.sqrt(n) * eta / k))
    lost = 2 ** (h + 3) * k * exp(-2 * n * phi**2)
    assert float(forest_bounds.overfitting(n, k, h, delta, big_k)) == pytest.approx(lost, rel=1e-5)
    given = (n, k, eta, delta)
    for unseen, light in ((False, 1 / big_k), (True, 2 / big_k)):
        left = lost * unseen
        more = {**where, "unseen": unseen}
        margin, x = 0.5 - delta - light, eps + light
        for voting, error in (
            ("majority", eps / margin),
            ("threshold", 2 * eps * (1 - eps) / margin),
        ):
            by_points = forest_bounds.private_by_points
            same(by_points(voting, 0.9, *given, **more), k, 0.1, printed - left)
            same(by_points(voting, 0.9, *given, **more, proved=True), k, 0.1, proved - left)
            found = forest_bounds.private_by_accuracy(voting, eps, *given, **more)
            same(found, k, error, printed - left)
        coins = 1 - exp(-2 * n * c**2)
        found = forest_bounds.private_by_accuracy("probabilistic", eps, *given, c=c, **more)
        same(found, k, 2 * x * (1 - x) + delta + c, printed * coins - left)
    narrow = forest_bounds.private_by_accuracy("majority", eps, n, k, eta, 0.49, **where)
    assert np.isinf(narrow.error)


def brute(n, eta, h, most=3000):
    """k_opt and the sum it minimises, by trying every k, on logarithms in float64."""
    g = math.sqrt(n) * eta / (9600 * 2**h)
    k = np.arange(1, most + 1, dtype=np.float64)
    value = np.logaddexp(-k / 200, np.log(2 * k) - g / k)
    return k, value


@pytest.mark.parametrize(
    ("n", "eta", "h"), [(1e4, 0.8, 5), (1e10, 1.0, 1), (1e12, 1, 1), (1e13, 2.0, 2), (1e15, 1, 3)]
)
def test_k_opt_minimises_the_papers_sum(n, eta, h):
    k, value = brute(n, eta, h)
    found = int(forest_bounds.best_trees(n, eta, h))
    assert value[found - 1] <= value.min() + 1e-5
    assert abs(found - int(k[np.argmin(value)])) <= 1
    assert found < 3000
    if n == 1e10:
        assert found == 1


def test_theorem_5_7_and_5_9_at_their_best():
    n, eta, h, eps = 1e15, 1.0, 1, 0.05
    k = int(forest_bounds.best_trees(n, eta, h))
    assert k > 100
    g = math.sqrt(n) * eta / (9600 * 2**h)
    lost = n * (math.exp(-k / 200) + 2 * k * math.exp(-g / k))
    threshold = forest_bounds.at_best_trees("threshold", eps, n, eta, h)
    np.testing.assert_allclose(threshold.error, 0.125 + 4.5 * eps - 5 * eps**2, rtol=1e-6)
    np.testing.assert_allclose(threshold.probability, 1 - lost, rtol=1e-3)
    chance = forest_bounds.at_best_trees("probabilistic", eps, n, eta, h)
    np.testing.assert_allclose(chance.error, 0.2 + 1.9 * eps - 2 * eps**2, rtol=1e-6)
    # Theorem 5.9 follows from 5.8 (K = 40, delta = 1/10, c = 1/20), rounded up; 5.7 does not follow
    # from 5.6's proof.
    general = forest_bounds.private_by_accuracy(
        "probabilistic", eps, n, k, eta, 0.1, height=h, big_k=40, c=0.05
    )
    assert 0 <= float(chance.error) - float(general.error) < 0.002
    x = eps + 1 / 40
    assert (2 * x - 2 * x**2) / 0.4 > float(threshold.error)
