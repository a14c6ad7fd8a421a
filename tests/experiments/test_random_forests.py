"""The experiment on random forests: its grid is what the library learns; tables are whole."""

import csv
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.learners.forests import learner as forests
from dpbt.learners.forests.model import positive_shares_by_tree
from dpbt.models import scoring as prediction
from experiments import __main__ as command_line
from experiments.common import aggregated, data
from experiments.papers.bojarski_2014 import draft, tables
from experiments.papers.bojarski_2014 import grid as grids


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
    """Six comparisons of 400 forests have a false alarm below 1e-5, and other noise is seen."""
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

    errors_of_grid = np.asarray(grid(keys, scales))
    errors_of_wider_noise = np.asarray(grid(keys, 2 * scales))
    for n, negative in enumerate(forests.NEGATIVE_WEIGHT_RULES):
        recipe = recipes.random_forest(
            epsilon=0.5, rows=400, rounds=3, depth=4, calibration="published", negative=negative
        )

        @jax.jit
        def library(keys, recipe=recipe):
            tested = forests.attribute_positions_of_rows(
                dpbt.Table(*(array[held] for array in table[:3]))
            )

            def one(key):
                noise_key, public_key = dpbt.keys.pair(key)
                trees = dpbt.boost(noise_key, table, recipe, public_key).hypotheses
                theta = positive_shares_by_tree(trees, tested.position)
                coins = jax.random.fold_in(key, 9)
                answers = [
                    prediction.predictions_of_votes(theta, rule, coins)
                    for rule in prediction.VOTINGS
                ]
                return jnp.stack([jnp.mean(answer != tested.target) for answer in answers])

            return jax.lax.map(one, keys, batch_size=50)

        expected = np.asarray(library(keys))
        for errors, is_same_noise in ((errors_of_grid, True), (errors_of_wider_noise, False)):
            spread = np.sqrt((expected.var(axis=0) + errors[:, n].var(axis=0)) / 400)
            z = (expected.mean(axis=0) - errors[:, n].mean(axis=0)) / spread
            assert (np.max(np.abs(z)) < 5) == is_same_noise, z
    # Clamping is worth having.
    assert errors_of_grid[:, 0, 0].mean() < errors_of_grid[:, 1, 0].mean() - 0.015


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
    arguments = ["bojarski_2014", "run", "--smoke", "--dataset", "banknote", "--eta"]
    arguments += ["--out", str(tmp_path)]
    assert command_line.main([*arguments, "--json"]) == 0
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
    assert command_line.main(arguments) == 0
    assert "cart" in capsys.readouterr().out
    assert command_line.main(["bojarski_2014", "tables", "--results", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == lines


def test_forests_of_the_draft_are_those_of_a_loop():
    """Leaves, counts and shares of test rows, against a plain loop over trees and rows."""
    rng = np.random.default_rng(0)
    position = rng.random((40, 3), dtype=np.float32)
    label, is_test = rng.random(40) < 0.5, np.arange(40) % 4 == 0
    trees, height = 3, 2
    leaf = draft.assign_random_leaves(
        np.random.default_rng(1),
        np.ascontiguousarray(position.T),
        num_trees=trees,
        height=height,
    )
    uniform = np.random.default_rng(1).random(trees * 3) * 3
    attribute, threshold = uniform.astype(int).reshape(3, 3), (uniform % 1).reshape(3, 3)
    for tree in range(trees):
        for row in range(40):
            node = 0
            for _ in range(height):
                value = position[row, attribute[tree, node]]
                node = 2 * node + 1 + int(value > threshold[tree, node])
            assert leaf[tree, row] == node - 3 + 4 * tree
    shares = draft.shares_of_test_rows(
        np.random.default_rng(2), leaf, label=label, is_test=is_test, noise_unit=1e-9
    )
    assert shares.shape == (len(draft.RULES), trees, 10)
    for tree in range(trees):
        for test_index, row in enumerate(np.flatnonzero(is_test)):
            is_in_leaf = (leaf[tree] == leaf[tree, row]) & ~is_test
            if is_in_leaf.any():
                assert shares[0, tree, test_index] == pytest.approx(label[is_in_leaf].mean())
                assert shares[2, tree, test_index] == pytest.approx(
                    label[is_in_leaf].mean(), abs=1e-6
                )


def test_noise_of_the_draft_has_the_scale_of_its_rule():
    """A leaf of 1,000 rows of each class, for a scale of 50 rows and its 0.7071."""
    label, is_test = np.arange(2001) % 2 == 1, np.arange(2001) == 2000
    leaf = np.repeat(np.arange(4000, dtype=np.int32)[:, None], 2001, axis=1)
    rng = np.random.default_rng(0)
    shares = draft.shares_of_test_rows(rng, leaf, label=label, is_test=is_test, noise_unit=50.0)
    assert np.all(shares[0] == 0.5)
    spread = shares[:, :, 0].std(axis=1)
    for rule, deviation in list(zip(draft.RULES, spread, strict=True))[1:]:
        # theta is (1000 + g1) / (2000 + g0 + g1), and g has the deviation sqrt(2) scale.
        assert deviation == pytest.approx(rule.noise * 50 * 2**0.5 * 2**0.5 / 4000, rel=0.06)


def test_the_draft_repeats_table_1_and_compares_it_jointly(tmp_path, capsys, monkeypatch):
    if not data.is_available("voting"):
        pytest.skip("the data set voting is not there")
    monkeypatch.chdir(tmp_path)
    small = ["--dataset", "voting", "--repeats", "4", "--smoke", "--json"]
    assert command_line.main(["bojarski_2014", "draft", *small, "--out", "saved"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert {line["repeats"] for line in lines} == {4}
    assert command_line.main(["bojarski_2014", "aggregate", "--results", "saved"]) == 0
    joint = aggregated.read_result("bojarski_2014", "draft_joint", Path("results/reproduction"))
    assert len(joint) == 2 * (len(draft.RULES) - 1)
    assert all(20 <= line["percent"] <= 100 for line in joint)


def test_a_table_of_another_rule_is_farther_than_any_repeat():
    rng = np.random.default_rng(0)
    errors = rng.normal(5, 0.3, (30, 4))
    lines = [
        {"dataset": "banknote", "noise": noise, "negative": negative, "voting": voting}
        | {"error": errors[repeat, 2 * (noise > 0) + (voting == "threshold")], "repeat": repeat}
        for repeat in range(30)
        for noise, negative in draft.RULES
        for voting in ("majority", "threshold")
    ]
    (line, *_) = draft.joint_lines(lines)
    assert line["percent"] == pytest.approx(100 / 31)  # 3.09 is 6 deviations away
    assert line["mean_distance"] == pytest.approx(1.1, abs=0.2)
