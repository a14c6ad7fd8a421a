"""Diagnostics: against direct counts, and against what they are used for."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from experiments.common import diagnostics
from tests.support.example_tables import random_table
from tests.support.references import lazy_boosting


@pytest.fixture(scope="module")
def model_and_table():
    table = random_table(0, rows=120, splits=5)
    recipe = recipes.lazybb_rules(epsilon=6.0, rows=120, rounds=15, density=0.4, learning_rate=0.3)
    return dpbt.fit(jax.random.key(0), table, recipe), table


def test_advantages_are_those_of_the_exact_measure(model_and_table):
    model, table = model_and_table
    advantages = jax.jit(diagnostics.advantages)(model.transcript, table, model.recipe)
    y, x = np.where(table.target, 1, -1), np.where(table.bins, 1, -1)
    margins = np.zeros(len(y))
    for t, chosen in enumerate(np.asarray(model.releases["rule"])):
        h = (1 - 2 * (chosen % 2)) * (x[:, chosen // 2 - 1] if chosen > 1 else np.ones(len(y)))
        measure = lazy_boosting.capped_scaling(np.exp(-0.3 * margins), 0.4 * len(y))
        assert advantages[t] == pytest.approx(0.5 - measure[h != y].sum() / measure.sum(), abs=0.01)
        margins += y * h
    margins_of_model = diagnostics.margins(model, table, table.target)
    np.testing.assert_allclose(margins_of_model, margins / 15, atol=1e-6)


def test_rademacher_is_the_mean_over_all_signs():
    rng = np.random.default_rng(0)
    splits = rng.random((9, 3)) < 0.5
    rules = np.concatenate([np.ones((9, 1)), np.where(splits, 1, -1)], axis=1)
    exact = np.mean(
        [np.abs(np.array(sign) @ rules).max() / 9 for sign in itertools.product([-1, 1], repeat=9)]
    )
    estimate, error = diagnostics.rademacher_complexity(
        jax.random.key(0), jnp.asarray(splits), draws=4000
    )
    assert (
        abs(estimate - exact) < 5 * error < 0.02
    )  # five standard errors: a false alarm once in 1.7 million
