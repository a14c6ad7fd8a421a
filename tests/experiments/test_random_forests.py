"""The experiment on random forests: its grid is what the library learns, its table and JSON are
whole.
"""

import csv
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.learners.forests import learner as forests
from dpbt.learners.forests.model import stated_shares
from dpbt.models import scoring as prediction
from experiments import __main__ as command_line
from experiments.common import data
from experiments.papers.bojarski_2014 import grid as grids
from experiments.papers.bojarski_2014 import tables


@pytest.fixture(scope="module")
def rows():
    """400 rows of three continuous attributes, 100 of them held out."""
    rng = np.random.default_rng(0)
    position = rng.random((400, 3)).astype(np.float32)
    label = (position[:, 0] > 0.5) ^ (rng.random(400) < 0.1)
    train = np.arange(400) < 300
    return dpbt.Table(jnp.asarray(position), jnp.asarray(label), jnp.asarray(train)), np.arange(
        300, 400
    )


@pytest.mark.slow
def test_private_errors_of_the_grid_are_those_of_the_library_on_average(rows):
    """400 forests each way; a false alarm (six comparisons) has probability below 1e-5. Other noise
    is told apart.
    """
    table, held = rows
    keys, masks = jax.random.split(jax.random.key(0), 400), np.ones((2, 100), bool)
    scales = grids.noise_scales(0.5, (3,), 400)
    assert scales == pytest.approx(3 / 0.5)

    @jax.jit
    def grid(keys, scales):
        def one(key):
            return grids.grid_errors(
                key, table, held_out=held, masks=masks, scales=scales, heights=(4,), sizes=(3,)
            ).test[..., 0, 0]

        return jax.lax.map(one, keys, batch_size=50)

    found, wider = np.asarray(grid(keys, scales)), np.asarray(grid(keys, 2 * scales))
    for n, negative in enumerate(forests.NEGATIVE_WEIGHT_RULES):
        recipe = recipes.random_forest(
            epsilon=0.5, rows=400, rounds=3, depth=4, calibration="published", negative=negative
        )

        @jax.jit
        def library(keys, recipe=recipe):
            tested = forests.prepare_position_rows(
                dpbt.Table(*(array[held] for array in table[:3]))
            )

            def one(key):
                noise_key, public_key = dpbt.keys.pair(key)
                trees = dpbt.boost(noise_key, table, recipe, public_key).hypotheses
                theta, coins = (
                    stated_shares(trees, tested.position),
                    jax.random.fold_in(key, 9),
                )
                answers = [
                    prediction.predictions_of_votes(theta, rule, coins)
                    for rule in prediction.VOTINGS
                ]
                return jnp.stack([jnp.mean(answer != tested.target) for answer in answers])

            return jax.lax.map(one, keys, batch_size=50)

        expected = np.asarray(library(keys))
        for errors, same in ((found, True), (wider, False)):
            spread = np.sqrt((expected.var(axis=0) + errors[:, n].var(axis=0)) / 400)
            z = (expected.mean(axis=0) - errors[:, n].mean(axis=0)) / spread
            assert (np.max(np.abs(z)) < 5) == same, z
    assert found[:, 0, 0].mean() < found[:, 1, 0].mean() - 0.015  # clamping is worth having


def test_splits_are_disjoint_and_whole():
    label = np.random.default_rng(0).random(237) < 0.3
    runs = grids.split_runs(label, 10, 0)
    tested = np.zeros(237, int)
    for run in runs:
        test, validation = run.held_out[run.test], run.held_out[run.validation]
        tested[test] += 1
        assert len(set(test) & set(validation)) == 0
        assert not run.train[test].any()
        assert not run.train[validation].any()
        assert run.train.sum() + len(test) + len(validation) == 237
        assert len(validation) == round((237 - len(test)) / 10)
    assert np.all(tested == 1)


@pytest.mark.slow
def test_the_command_prints_table_1_and_saves_the_series(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "load", lambda name: data.breast_cancer())
    words = ["bojarski_2014", "run", "--smoke", "--dataset", "banknote", "--eta"]
    words += ["--out", str(tmp_path)]
    assert command_line.main([*words, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [set(line) for line in lines] == [set(tables.FIELDS)] * 6
    assert [(line["private"], line["voting"]) for line in lines] == [
        (private, voting) for private in (False, True) for voting in prediction.VOTINGS
    ]
    assert [line["paper_error"] for line in lines] == [3.09, 3.46, None, 5.44, 5.22, None]
    assert all(0 < line["error"] < 60 and 0 < line["interval"] < 10 for line in lines)
    with open(tmp_path / "banknote.csv") as file:
        series = list(csv.DictReader(file))
    assert len(series) == (1 + 2) * 3 * 2 * 2
    assert {"bound", "bound_probability", "commit", "seed", "jax"} <= set(series[0])
    with open(tmp_path / "banknote_eta.csv") as file:
        assert {line["eta"] for line in csv.DictReader(file)} == {series[-1]["eta"], "inf"}
    assert command_line.main(words) == 0
    assert "cart" in capsys.readouterr().out
    assert command_line.main(["bojarski_2014", "tables", "--results", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == lines
