"""A process that was forked after JAX ran predicts, and refuses what would wait forever."""

import dataclasses
import multiprocessing
import warnings

import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data import domains
from tests.support.fitted_models import DOMAIN, random_raw_columns
from tests.support.random_models import random_model

if "fork" not in multiprocessing.get_all_start_methods():
    pytest.skip("this system forks no process", allow_module_level=True)

SECONDS = 30


def result_in_forked_process(function):
    """What a function returns, or the error that it raises, in a process that is forked here."""
    receiving, sending = multiprocessing.Pipe(duplex=False)

    def run():
        try:
            sending.send(function())
        except Exception as error:
            sending.send(error)

    process = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of the fork
        process.start()
    try:
        assert receiving.poll(SECONDS), "the forked process waits forever"
        return receiving.recv()
    finally:
        process.kill()
        process.join()


MAKERS = {
    "oblivious": lambda: recipes.oblivious_boost(epsilon=1, rows=60, rounds=3, domain=DOMAIN),
    "forest": lambda: recipes.random_forest(epsilon=1, rows=60, rounds=3, depth=3),
    "halfspace": lambda: recipes.halfspace_boost(epsilon=1, delta=1e-4, rows=60, rounds=3),
}


def fitted_model(name):
    model = random_model(MAKERS[name](), 3, DOMAIN)
    return dataclasses.replace(model, domain=domains.as_declared_domain(DOMAIN))


@pytest.mark.parametrize("name", MAKERS)
def test_a_fitted_model_predicts_with_numpy(name, tmp_path):
    model = fitted_model(name)
    columns = random_raw_columns(3, 50)
    bins = domains.encode(DOMAIN, columns)
    dpbt.save(model, tmp_path / "model.json")
    loaded = dpbt.load(tmp_path / "model.json")
    predictors = [
        lambda model: model.decision_function(columns),
        lambda model: model.predict_all(columns).answers,
        lambda model: np.asarray(dpbt.predict(model, bins)),
    ]
    if name == "forest":
        predictors.append(lambda model: np.asarray(dpbt.predict(model, bins, "majority")))
    for predict in predictors:
        np.testing.assert_array_equal(
            result_in_forked_process(lambda predict=predict: np.asarray(predict(model))),
            predict(loaded),
        )


def test_rows_of_jax_and_tables_are_predicted():
    model = fitted_model("oblivious")
    columns = random_raw_columns(3, 50)
    table = dpbt.table(DOMAIN, columns, [True] * 50)
    expected = dpbt.predict(model, table)
    for rows in (table, jax.numpy.asarray(table.bins)):
        answers = result_in_forked_process(lambda rows=rows: np.asarray(dpbt.predict(model, rows)))
        np.testing.assert_array_equal(answers, expected)


def test_functions_that_need_jax_are_refused_before_they_wait(tmp_path):
    """A fit that waits forever would have been paid for."""
    recipe = MAKERS["oblivious"]()
    table = dpbt.table(DOMAIN, random_raw_columns(3, 50), [True] * 50)
    model = fitted_model("oblivious")
    budget = dpbt.Filter(epsilon=1, rows=60, path=tmp_path / "filter.db")
    for function in (
        lambda: dpbt.fit(dpbt.fresh_key(), table, recipe, dpbt.fresh_key(), filter=budget),
        lambda: dpbt.ledger(recipe),
        lambda: dpbt.save(model, tmp_path / "model.json"),
        lambda: recipes.make_recipe("auto", {"epsilon": 1, "rows": 60}, recipes.NAMED),
    ):
        error = result_in_forked_process(function)
        assert isinstance(error, RuntimeError)
        assert "JAX does not run in a process that was forked" in str(error)
    assert budget.spent == 0
