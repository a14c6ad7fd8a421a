"""One interface of prediction, and models in words, for all hypotheses."""

import dataclasses

import jax
import numpy as np
import pytest

import dpbt
from dpbt import forests, prediction, recipes
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.learners.random_tree import shares as leaf_shares
from dpbt.reweighting import lazy_bregman

DOMAIN = {"age": Numeric(0, 100, bins=10), "job": Nominal(("a", "b")), "member": Boolean()}
ROWS = 120


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    return {
        "age": rng.uniform(0, 100, ROWS),
        "job": rng.choice(["a", "b"], ROWS),
        "member": rng.random(ROWS) < 0.5,
    }


@pytest.fixture(scope="module")
def table(columns):
    return dpbt.table(DOMAIN, columns, columns["age"] > 55, negative="0", positive="1")


MAKERS = {
    "bdpe": lambda: recipes.bdpe(epsilon=np.inf, rows=ROWS, rounds=3, depth=2),
    "rules": lambda: recipes.lazybb_rules(epsilon=np.inf, rows=ROWS, rounds=3),
    "halfspace": lambda: recipes.halfspace_boost(epsilon=np.inf, rows=ROWS, rounds=3),
    "forest": lambda: recipes.random_forest(epsilon=np.inf, rows=ROWS, rounds=9, depth=4),
}


@pytest.fixture(scope="module", params=MAKERS)
def model(request, table):
    keys = jax.random.split(jax.random.key(0))
    return dpbt.fit(keys[0], table, MAKERS[request.param](), keys[1])


def test_answers_are_signs_of_scores_or_votes(model, table):
    score = np.asarray(dpbt.decision_function(model, table))
    answers = np.asarray(dpbt.predict(model, table))
    np.testing.assert_array_equal(answers, score > 0)
    if model.recipe.name != "random_forest":
        with pytest.raises(ValueError, match="no shares"):
            dpbt.predict(model, table, "majority")
        return
    np.testing.assert_array_equal(dpbt.predict(model, table, "majority"), answers)
    stated = np.asarray(prediction.shares(model, table))
    assert stated.shape == (9, ROWS)
    np.testing.assert_allclose(dpbt.predict_proba(model, table), stated.mean(axis=0), rtol=1e-6)
    by_mean = np.asarray(dpbt.predict(model, table, "threshold"))
    np.testing.assert_array_equal(by_mean, np.asarray(dpbt.predict_proba(model, table)) > 0.5)


def walked(lines, row):
    """What the words of one tree say of a row: they are read as a person would."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    first = lines[0].strip()
    if not first.startswith("if "):
        return float(first.split()[-1])
    depth = " " * indent
    otherwise = lines.index(f"{depth}else:")
    return walked(lines[1:otherwise] if holds(first[3:-1], row) else lines[otherwise + 1 :], row)


def holds(predicate, row):
    if " > " in predicate:
        column, threshold = predicate.split(" > ")
        return row[column] > float(threshold)
    if " = " in predicate:
        column, value = predicate.split(" = ")
        return row[column] == value
    return bool(row[predicate])


def test_the_words_of_a_model_are_what_it_computes(model, table, columns):
    """Each tree's words, read row by row, give its scores, or the shares that it states."""
    words = dpbt.explain(model, DOMAIN)
    if model.recipe.name == "halfspace_boost":
        assert words.splitlines()[0].split("  ")[1] == "age"
        assert len(words.splitlines()) == 1 + 2 + 1
        return
    said = np.zeros((ROWS,))
    blocks = words.split("tree ")[1:]
    assert len(blocks) == int(model.recipe.rounds)
    for n in range(ROWS):
        row = {name: cells[n] for name, cells in columns.items()}
        said[n] = sum(walked(block.splitlines()[1:], row) for block in blocks)
    if model.recipe.name == "random_forest":
        expected = np.asarray(prediction.shares(model, table)).sum(axis=0)
    else:
        expected = np.asarray(dpbt.decision_function(model, table))
    np.testing.assert_allclose(said, expected, atol=1e-3)


def test_words_are_refused_for_another_domain_and_for_exact_numbers(model, table):
    with pytest.raises(ValueError, match="other questions"):
        dpbt.explain(model, {**DOMAIN, "age": Numeric(0, 100, bins=11)})
    with pytest.raises(ValueError, match="a model and a domain"):
        dpbt.explain(DOMAIN, model)
    exact = dataclasses.replace(model, questions=None)
    with pytest.raises(ValueError, match="exact numbers"):
        dpbt.explain(exact, DOMAIN)


def test_words_are_refused_where_attributes_are_codes(columns):
    """A nominal column as one number has no words for its thresholds."""
    words = {"negative": "0", "positive": "1"}
    coded = dpbt.table(DOMAIN, columns, columns["age"] > 55, codes=True, **words)
    keys = jax.random.split(jax.random.key(0))
    forest = dpbt.fit(keys[0], coded, MAKERS["forest"](), keys[1])
    with pytest.raises(ValueError, match="as codes"):
        dpbt.explain(forest, DOMAIN)
    boosted = dpbt.fit(keys[0], coded, MAKERS["bdpe"]())
    assert dpbt.explain(boosted, DOMAIN).startswith("tree 1")


def test_forests_side_by_side_refuse_rounds_that_wait_for_each_other(table):
    recipe = MAKERS["forest"]()
    keys = jax.random.split(jax.random.key(0))
    coupled = recipe.learner._replace(coupled=True)
    waits = dataclasses.replace(recipe, learner=coupled, reweighter=lazy_bregman())
    with pytest.raises(ValueError, match="wait for each other"):
        forests.fit(keys[0], table, waits, keys[1])


def test_a_leaf_that_says_nothing_states_its_fallback():
    weights, fallback = np.array([[0, 0], [-1, -2], [3, 1]], np.int32), np.full(3, 0.25, np.float32)
    np.testing.assert_allclose(leaf_shares(weights, fallback, "zero"), [0.25, 0.25, 0.25])
    weights = np.array([[1, 3]], np.int32)
    np.testing.assert_allclose(leaf_shares(weights, fallback[:1], "zero"), [0.75])


def test_arguments_in_another_order_are_refused_by_name(table):
    recipe = MAKERS["bdpe"]()
    with pytest.raises(ValueError, match="key, table, recipe"):
        dpbt.fit(jax.random.key(0), recipe, table)
    with pytest.raises(ValueError, match="key, table, recipe"):
        dpbt.fit(jax.random.key(0), {"cells": table.cells}, recipe)
    for other in (None, table):
        with pytest.raises(ValueError, match="needs a recipe or a model"):
            dpbt.ledger(other)
