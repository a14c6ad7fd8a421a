"""Refusals of private input show neither a bin nor the number of rows."""

import jax
import numpy as np
import pytest

import dpbt
from dpbt import audit, recipes
from dpbt.data import domains
from dpbt.data.domains import Boolean, Numeric
from dpbt.data.splits import table_of_splits
from dpbt.types import Table
from experiments.audit import label_flips
from experiments.common import protocols
from tests.support.leak_watch import BOUND, NUM_ROWS, Watch, find_private_words, private_task

KEY = jax.random.key(0)
SPLITS, LABEL = np.zeros((NUM_ROWS, 3), bool), np.zeros(NUM_ROWS, bool)
ZEROS = table_of_splits(SPLITS, LABEL, ~LABEL)
BINS, ASKED = np.zeros((NUM_ROWS, 3), np.uint8), ZEROS.splits
NAMES = np.array(["zqxbin"] * NUM_ROWS)
TREES = recipes.bdpe(epsilon=1.0, rows=BOUND, rounds=1, depth=1)
SMALL = recipes.bdpe(epsilon=1.0, rows=100, rounds=1, depth=1)
TREE_GROUP = recipes.random_forest(epsilon=1.0, rows=BOUND, rounds=2, depth=2)
BALLS = recipes.halfspace_boost(epsilon=1.0, delta=1e-6, rows=BOUND, rounds=1)
NUMBER, FLAG = {"a": Numeric(0, 1)}, {"a": Boolean(), "b": Boolean()}


@pytest.fixture
def watch(capfd, caplog, tmp_path):
    return Watch(capfd, caplog, tmp_path)


def fitting(recipe, *fields, fit=dpbt.fit, asked=ASKED):
    return lambda: fit(KEY, Table(*fields, asked), recipe)


REFUSALS = {
    "bound": fitting(SMALL, BINS, LABEL, np.ones(NUM_ROWS, bool)),
    "labels as text": fitting(TREES, BINS, NAMES, LABEL),
    "labels as objects": fitting(TREES, BINS, NAMES.astype(object), LABEL),
    "fewer present": fitting(TREES, BINS, LABEL, np.ones(NUM_ROWS, int)),
    "fewer labels": fitting(TREES, np.ones((5, 3), np.uint8), LABEL, LABEL),
    "bins in a list": fitting(TREES, BINS.tolist(), LABEL, LABEL),
    "bins as numbers": fitting(TREES, BINS.astype(np.float32), LABEL, LABEL, asked=None),
    "rows and features exchanged": fitting(TREES, BINS.T, LABEL, LABEL),
    "nothing asked": fitting(TREES, BINS, LABEL, LABEL, asked=None),
    "positions as text": fitting(TREE_GROUP, NAMES[:, None], LABEL, LABEL, fit=dpbt.fit),
    "features as bits": fitting(BALLS, SPLITS, LABEL, LABEL),
    "no numbers": fitting(BALLS, BINS[:, :0].astype(np.float32), LABEL, LABEL, asked=None),
    "columns of two lengths": lambda: domains.encode(FLAG, {"a": LABEL, "b": LABEL[:5]}),
    "numbers in a square": lambda: domains.encode_positions(NUMBER, {"a": np.zeros((NUM_ROWS, 2))}),
    "too many folds": lambda: protocols.stratified_folds(LABEL, NUM_ROWS + 1000, seed=0),
    "neighbours": lambda: audit.audit_transcripts(KEY, label_flips(ZEROS), SMALL, 1),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_show_no_cell_and_no_number_of_rows(name, watch):
    watch(REFUSALS[name])
    assert isinstance(watch.error, ValueError), watch.error
    assert find_private_words(watch.said) == []


@pytest.mark.slow
def test_rows_to_predict_are_not_shown_either(watch):
    table = private_task().table
    model = dpbt.fit(KEY, table, TREES)
    forest = dpbt.fit(KEY, table, TREE_GROUP, jax.random.key(2**31))
    for predict in (
        lambda rows: dpbt.predict(model, rows),
        lambda rows: dpbt.predict(forest, rows),
        lambda rows: dpbt.predict_proba(forest, rows),
    ):
        wrong = [NAMES[:, None], NAMES.tolist(), np.zeros((NUM_ROWS, 5), "datetime64[D]")]
        wrong += [
            np.zeros(shape, bool)
            for shape in ((5, NUM_ROWS), (NUM_ROWS, 4), (NUM_ROWS, 6), (NUM_ROWS,))
        ]
        wrong += [np.zeros((NUM_ROWS, 5), kind) for kind in (np.int32, np.float32, np.int8)]
        for rows in wrong:
            watch(lambda predict=predict, rows=rows: predict(rows))
            assert isinstance(watch.error, ValueError)
            assert find_private_words(watch.said) == []


@pytest.mark.parametrize("name", ["epsilon", "rows", "rounds"])
@pytest.mark.parametrize("over", [jax.jit, jax.vmap])
def test_a_recipe_is_built_outside_of_jit_and_vmap(over, name):
    numbers = {"epsilon": 1.0, "rows": 100, "rounds": 2}

    def made(number):
        return recipes.bdpe(**{**numbers, name: number}).rows

    with pytest.raises(ValueError, match=f"^{name} is traced.*outside of jit and vmap"):
        over(made)(np.array([1, 2], np.int32))


def test_a_fit_runs_outside_of_jit_and_vmap():
    for over, what in ((jax.vmap, jax.random.split(KEY, 2)), (jax.jit, KEY)):
        with pytest.raises(ValueError, match="outside of jit and vmap"):
            over(lambda key: dpbt.fit(key, ZEROS, SMALL).intercept)(what)
