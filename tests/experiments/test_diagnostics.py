"""Diagnostics: against direct counts, and against what they are used for."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean
from experiments.common import diagnostics
from tests import reference_smooth
from tests.tables import random_features, random_table

DOMAIN = {f"x{k}": Boolean() for k in range(5)}


@pytest.fixture(scope="module")
def fitted():
    table = random_table(0, rows=120, splits=5)
    recipe = recipes.lazybb_rules(epsilon=6.0, rows=120, rounds=15, density=0.4, learning_rate=0.3)
    return dpbt.fit(jax.random.key(0), table, recipe), table


def test_votes_are_the_model(fitted):
    model, table = fitted
    lines = diagnostics.votes(model, DOMAIN)
    x = np.where(table.bins, 1, -1)
    score = sum(vote.votes * (1 if vote.split < 0 else x[:, vote.split]) for vote in lines)
    np.testing.assert_array_equal(score, dpbt.decision_function(model, table))
    assert [abs(vote.votes) for vote in lines] == sorted(
        (abs(vote.votes) for vote in lines), reverse=True
    )
    assert all(vote.votes != 0 for vote in lines)
    assert "x0" in diagnostics.votes_table(lines)
    used = set(np.asarray(model.hypotheses.split).ravel().tolist()) - {-1}
    assert {vote.split for vote in lines} - {-1} <= used
    with pytest.raises(ValueError, match="the domain has 2 splits"):
        diagnostics.votes(model, {"a": Boolean(), "b": Boolean()})


def test_advantages_are_those_of_the_exact_measure(fitted):
    model, table = fitted
    found = jax.jit(diagnostics.advantages)(model.transcript, table, model.recipe)
    y, x = np.where(table.target, 1, -1), np.where(table.bins, 1, -1)
    margins = np.zeros(len(y))
    for t, chosen in enumerate(np.asarray(model.releases["rule"])):
        h = (1 - 2 * (chosen % 2)) * (x[:, chosen // 2 - 1] if chosen > 1 else np.ones(len(y)))
        measure = reference_smooth.capped_scaling(np.exp(-0.3 * margins), 0.4 * len(y))
        assert found[t] == pytest.approx(0.5 - measure[h != y].sum() / measure.sum(), abs=0.01)
        margins += y * h
    found = diagnostics.margins(model, table, table.target)
    np.testing.assert_allclose(found, margins / 15, atol=1e-6)


def test_margin_histograms_count_rows():
    shares, edges = diagnostics.margin_histogram(np.array([-1.0, -0.9, 0.1, 1.0, 3.0]), bins=4)
    assert shares.tolist() == [0.4, 0, 0.2, 0.4]
    assert edges.tolist() == [-1, -0.5, 0, 0.5, 1]


def test_rademacher_is_the_mean_over_all_signs():
    rng = np.random.default_rng(0)
    splits = rng.random((9, 3)) < 0.5
    rules = np.concatenate([np.ones((9, 1)), np.where(splits, 1, -1)], axis=1)
    exact = np.mean(
        [np.abs(np.array(sign) @ rules).max() / 9 for sign in itertools.product([-1, 1], repeat=9)]
    )
    estimate, error = diagnostics.rademacher(jax.random.key(0), jnp.asarray(splits), draws=4000)
    assert (
        abs(estimate - exact) < 5 * error < 0.02
    )  # five standard errors: a false alarm once in 1.7 million


def test_other_hypotheses_have_no_votes():
    features = random_features(0, rows=60, splits=3)
    halfspaces = recipes.halfspace_boost(epsilon=5, rows=60, rounds=3)
    with pytest.raises(ValueError, match="of trees, and halfspace_boost has none"):
        diagnostics.votes(dpbt.fit(jax.random.key(0), features, halfspaces))
    deep = recipes.lazybb_trees(epsilon=5, rows=60, rounds=3)
    table = random_table(1, rows=60, splits=4)
    with pytest.raises(ValueError, match="depth one"):
        diagnostics.votes(dpbt.fit(jax.random.key(0), table, deep))
