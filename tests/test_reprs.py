"""What Python shows of objects that hold private rows: no cell, no label and no number of rows."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data import blocks, convert, declarations
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.learners import trees
from dpbt.learners.bins.rows import lay_out_rows_by_feature
from dpbt.learners.forests import learner as forests
from dpbt.learners.halfspaces import learner as halfspaces
from dpbt.learners.model_parts import EncodedRows
from dpbt.learners.trees.model import BinsAndSplits
from dpbt.privacy.boundary import RowSum
from dpbt.privacy.mechanisms import behind_best, discrete_laplace
from dpbt.sklearn import PrivateBoostingClassifier
from dpbt.training import run_keys
from dpbt.types import StageInputs, WeightsAndCap
from tests.support.leak_watch import BOUND, NUM_ROWS, find_private_words, private_task
from tests.support.random_models import random_model
from tests.support.recipe_noise import draw_spec

DOMAIN = {"age": Numeric(0, 100, 3), "job": Nominal(("clerk", "zqxother")), "in": Boolean()}
CELLS = {
    "age": np.full(NUM_ROWS, 31337.7719),
    "job": ["zqxcell"] * NUM_ROWS,
    "in": [True] * NUM_ROWS,
}
LABELS = ["zqxlabel"] + ["1"] * (NUM_ROWS - 1)


def request(exact):
    """What a program asks `draw` for."""
    return draw_spec("a", discrete_laplace, exact)


def objects():
    """Name -> an object that holds private rows, or exact sums of them."""
    task = private_task()
    table, exact = task.table, jnp.full((4,), NUM_ROWS, jnp.int32)
    numbers = table._replace(bins=jnp.full((NUM_ROWS, 2), 31337.7719), splits=None)
    recipe = recipes.bdpe(epsilon=1.0, rows=NUM_ROWS, rounds=1, depth=1, relation="replace_one")
    block = convert.RawRows(CELLS, LABELS, np.ones(NUM_ROWS))
    keys = run_keys.derive_phase_keys(jax.random.key(NUM_ROWS), recipe)
    rows = blocks.BlockRows(*(np.full(NUM_ROWS, NUM_ROWS) for _ in range(4)))
    return {
        "table": table,
        "table of numbers": numbers,
        "table of a domain": dpbt.table(DOMAIN, CELLS, LABELS, positive="1", negative="0"),
        "rows for trees": trees.evaluate_splits_of_rows(table),
        "rows for halfspaces": halfspaces.BallRows(
            *(jnp.full((NUM_ROWS,), 31337.7719) for _ in range(4))
        ),
        "rows for forests": forests.PositionRows(
            *(jnp.full((NUM_ROWS,), NUM_ROWS) for _ in range(3))
        ),
        "rows for oblivious trees": lay_out_rows_by_feature((), table),
        "bins": BinsAndSplits(*(jnp.full((NUM_ROWS,), NUM_ROWS) for _ in range(4))),
        "weights": WeightsAndCap(jnp.full((NUM_ROWS,), 31337.7719), jnp.float32(1)),
        "sums given": StageInputs({"a": exact}, keys.prologue, exact),
        "sum over rows": RowSum(exact),
        "request": request(exact),
        "scores": behind_best(exact.astype(jnp.float32)),
        "keys": keys,
        "boosted": dpbt.Boosted({}, {}, jnp.full((NUM_ROWS,), 31337.7719)),
        "block": block,
        "chunk": blocks.Block(BOUND, NUM_ROWS, "zqxcell"),
        "rows of a chunk": rows,
        "scored": EncodedRows(np.full((NUM_ROWS, 2), 31337.7719), None),
        "frame": declarations.rows_by_column(list(zip(*CELLS.values(), strict=True))),
        "filter": dpbt.Filter(epsilon=1, rows=BOUND),
    }


def every_text_form(value):
    """All that Python shows of an object."""
    html = getattr(value, "_repr_html_", lambda: "")
    return f"{value!r}\n{value!s}\n{value}\n{[value]}\n{(value, 1)}\n{html()}"


def test_no_object_shows_its_rows():
    for name, value in objects().items():
        text_forms = every_text_form(value)
        assert find_private_words(text_forms) == [], name
        assert not re.search(r"31337|\[\s*(\d|True|False)", text_forms), name
        assert len(text_forms) < 12_000, name


def test_the_search_finds_what_python_would_show():
    """The words are found in the plain values of the same fields."""
    for name in ("chunk", "block"):
        assert find_private_words(repr(tuple(objects()[name]))), name
    assert find_private_words(repr(vars(objects()["sum over rows"])))


def test_a_model_shows_its_claim_and_escapes_names(tmp_path):
    domain = {"<b>": Numeric(0, 1, bins=4), "y": Boolean()}
    recipe = recipes.bdpe(epsilon=1.0, rows=BOUND, rounds=2, depth=1)
    model = random_model(recipe, 1, domain)
    dpbt.save(model, tmp_path / "m.json", domain=domain, classes=("no", "yes"))
    loaded = dpbt.load(tmp_path / "m.json")
    for shown_model in (model, loaded):
        text = shown_model._repr_html_()
        assert "bdpe, 2 of Tree, 2 columns of uint8" in text
        assert "epsilon = 1 and delta = " in text
    assert "&lt;b&gt;, y (2)" in text
    assert "no or yes" in text


@pytest.mark.slow
def test_a_fitted_estimator_shows_no_rows():
    estimator = PrivateBoostingClassifier(  # with a seed, as a noisy count may be N by chance
        epsilon=1.0, rows=BOUND, domain=DOMAIN, classes=["0", "1"], random_state=1
    )
    estimator.fit([list(row) for row in zip(*CELLS.values(), strict=True)], LABELS)
    assert find_private_words(every_text_form(estimator) + every_text_form(estimator.model_)) == []
