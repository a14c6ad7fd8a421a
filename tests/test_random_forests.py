"""The experiment on random forests: its grid is what the library learns, its table and JSON are whole."""

import csv
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import forests, recipes
from dpbt.learners import random_tree
from experiments import __main__ as command_line
from experiments import data, random_forests
from experiments.random_forests import grid as grids


@pytest.fixture(scope="module")
def rows():
    """400 rows of three continuous attributes, 100 of them held out."""
    rng = np.random.default_rng(0)
    position = rng.random((400, 3)).astype(np.float32)
    label = (position[:, 0] > 0.5) ^ (rng.random(400) < 0.1)
    train = np.arange(400) < 300
    return dpbt.Table(jnp.asarray(position), jnp.asarray(label), jnp.asarray(train)), np.arange(300, 400)


def test_the_grid_is_a_loop_over_trees_but_for_rows_in_empty_leaves(rows):
    table, held = rows
    key, heights, sizes = jax.random.key(4), (2, 4), (1, 3)
    masks = np.stack([held < 350, held >= 350])
    found = grids.grid_errors(key, table, held, masks, np.zeros(2, np.float32), heights=heights, sizes=sizes)
    shares = np.full((3, 2, 100), np.nan)
    for j, tree_key in enumerate(jax.random.split(jax.random.split(key, 3)[0], 3)):
        tree = forests.structure(tree_key, 4, 3)
        heap, count = forests.weights_at_all_heights(tree, random_tree.prepare(table))
        for h, height in enumerate(heights):
            counts = np.asarray(count)[np.asarray(heap[height])[held]]
            with np.errstate(invalid="ignore"):
                shares[j, h] = counts[:, 1] / counts.sum(axis=1)
    label = np.asarray(table.label)[held]
    for s, k in enumerate(sizes):
        for h in range(2):
            certain = ~np.isnan(shares[:k, h]).any(axis=0)
            for v, answer in enumerate([(shares[:k, h] > 0.5).sum(axis=0) > k / 2, shares[:k, h].mean(axis=0) > 0.5]):
                for mask, errors in zip(masks, (found.validation, found.test), strict=True):
                    wrong = np.sum((answer != label) & certain & mask)
                    doubt = np.sum(~certain & mask)
                    for error in errors[:, v, s, h]:
                        assert wrong - 0.01 <= float(error) * 50 <= wrong + doubt + 0.01
    assert np.isnan(shares).mean() < 0.2
    assert np.all((found.accuracy >= 0.5) & (found.accuracy <= 1))


def test_private_errors_of_the_grid_are_those_of_the_library_on_average(rows):
    """400 forests each way; a false alarm (six comparisons) has probability below 1e-5."""
    table, held = rows
    keys, masks = jax.random.split(jax.random.key(0), 400), np.ones((2, 100), bool)
    scales = grids.grid_scales(0.5, (3,), 400)
    assert scales == pytest.approx(3 / 0.5)

    @jax.jit
    def grid(keys):
        def one(key):
            return grids.grid_errors(key, table, held, masks, scales, heights=(4,), sizes=(3,)).test[..., 0, 0]

        return jax.lax.map(one, keys, batch_size=50)

    found = np.asarray(grid(keys))
    for n, negative in enumerate(random_tree.NEGATIVE):
        recipe = recipes.random_forest(
            epsilon=0.5, rows=400, rounds=3, depth=4, calibration="published", negative=negative
        )

        @jax.jit
        def library(keys, recipe=recipe):
            def one(key):
                trees = forests.grow(key, table, recipe, 1)[1]
                theta = forests.theta(trees, table.splits[held])
                answers = [forests.vote(theta, voting, jax.random.fold_in(key, 9)) for voting in forests.VOTINGS]
                return jnp.stack([jnp.mean(answer != table.label[held]) for answer in answers])

            return jax.lax.map(one, keys, batch_size=50)

        expected = np.asarray(library(keys))
        spread = np.sqrt((expected.var(axis=0) + found[:, n].var(axis=0)) / 400)
        z = (expected.mean(axis=0) - found[:, n].mean(axis=0)) / spread
        assert np.all(np.abs(z) < 5), z
    assert found[:, 0, 0].mean() < found[:, 1, 0].mean() - 0.03  # clamping is worth having


def test_splits_are_disjoint_and_whole():
    label = np.random.default_rng(0).random(237) < 0.3
    runs = grids.split(label, 10, 0)
    tested = np.zeros(237, int)
    for run in runs:
        test, validation = run.held[run.test], run.held[run.validation]
        tested[test] += 1
        assert len(set(test) & set(validation)) == 0
        assert not run.train[test].any()
        assert not run.train[validation].any()
        assert run.train.sum() + len(test) + len(validation) == 237
        assert len(validation) == round((237 - len(test)) / 10)
    assert np.all(tested == 1)


def test_the_command_prints_table_1_and_saves_the_series(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "load", lambda name: data.breast_cancer())
    words = ["random_forests", "--smoke", "--dataset", "banknote", "--eta", "--out", str(tmp_path)]
    assert command_line.main([*words, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [set(line) for line in lines] == [set(random_forests.FIELDS)] * 6
    assert [(line["private"], line["voting"]) for line in lines] == [
        (private, voting) for private in (False, True) for voting in forests.VOTINGS
    ]
    assert [line["paper_error"] for line in lines] == [3.09, 3.46, None, 5.44, 5.22, None]
    assert all(0 < line["error"] < 60 and 0 < line["interval"] < 10 for line in lines)
    with open(tmp_path / "banknote.csv") as file:
        series = list(csv.DictReader(file))
    assert len(series) == (1 + 2) * 3 * 2 * 2
    assert {"bound", "bound_probability", "commit", "seed", "jax"} <= set(series[0])
    assert (tmp_path / "banknote_eta.csv").exists()
    assert command_line.main(words) == 0
    assert "cart" in capsys.readouterr().out


@pytest.mark.parametrize("runs", ["0", "11"])
def test_runs_out_of_range_are_refused(runs, capsys):
    assert command_line.main(["random_forests", "--runs", runs]) == 2
    assert "--runs must be in 1..10" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["random-forest", "rf-l", "rf-e"])
def test_the_audit_command_knows_forests(algorithm, capsys):
    words = ["audit", "--algorithm", algorithm, "--rounds", "3", "--depth", "2", "--transcripts", "2", "--json"]
    assert command_line.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["largest_loss"] <= found["claimed_epsilon"] + 2e-3
