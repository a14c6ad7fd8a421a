"""`python -m experiments bun_2020`: its rows have the margin, its rounds are counted."""

import csv
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from experiments import __main__ as command_line
from experiments.common import diagnostics
from experiments.papers.bun_2020 import errors, rounds, settings
from paper_figures import __main__ as figures


def test_rows_have_their_margin_on_the_unit_ball():
    table, target = errors.sample((0, 1), 300, 0.2, 0.0, tests=50)
    rows, sign = np.asarray(table.bins, np.float64), np.where(table.target, 1, -1)
    assert table.bins.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert np.all(sign * (rows @ target) >= 0.2 - 1e-6)


def test_label_noise_is_of_training_rows_only():
    """5,000 rows at rate 0.1; a false alarm has probability below 1e-6."""
    clean, target = errors.sample((0, 2), 5000, 0.1, 0.0, tests=500)
    noisy, same = errors.sample((0, 2), 5000, 0.1, 0.1, tests=500)
    np.testing.assert_array_equal(target, same)
    flipped = np.asarray(clean.target != noisy.target)
    assert not flipped[5000:].any()
    assert 0.079 < flipped[:5000].mean() < 0.121


def test_curves_end_in_the_models_own_error():
    table, _ = errors.sample((0, 3), 400, 0.2, 0.0, tests=0)
    recipe = recipes.halfspace_boost(rows=400, epsilon=1.0, rounds=6)
    key = jax.random.key(0)
    error, small, advantage = rounds.curves(key, table, recipe)
    model = dpbt.fit(key, table, recipe)
    assert error.shape == small.shape == advantage.shape == (6,)
    assert float(error[-1]) == pytest.approx(np.mean(dpbt.predict(model, table) != table.target))
    margin = diagnostics.margins(model, table, table.target)
    least = 2 * float(recipe.weighting.learning_rate)
    assert float(small[-1]) == pytest.approx(np.mean(margin <= least), abs=0.005)


def test_the_printed_advantage_of_a_centre_does_not_hold():
    """Bun et al., Theorem 26, has tau / 4 for h(x) = z . x; rows +-tau u give tau^2 / 2."""
    tau, sign = 0.2, np.where(np.arange(40) % 2, 1, -1)
    rows = np.zeros((40, 3), np.float32)
    rows[:, 0] = tau * sign
    table = dpbt.Table(jnp.asarray(rows), jnp.asarray(sign > 0), jnp.ones(40, bool))
    for normalized, expected in ((False, tau**2 / 2), (True, tau / 2)):
        recipe = recipes.halfspace_boost(rows=40, epsilon=np.inf, rounds=1, normalized=normalized)
        advantage = rounds.curves(jax.random.key(0), table, recipe)[2]
        assert float(advantage[0]) == pytest.approx(
            expected, rel=1e-3
        )  # rows are multiples of 2^-14
    assert tau**2 / 2 < tau / 4 < tau / 2


@pytest.mark.slow
def test_the_smallest_axes_run_and_are_drawn(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--smoke", "--samples", "1", "--keys", "2", "--out", "results/bun_2020"]
    assert command_line.main(["bun_2020", "run", *small, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {line["axis"] for line in found["errors"]} == set(settings.AXES)
    assert all(
        0 <= line["test_error_mean"] <= 0.6 and line["fits"] == 2 for line in found["errors"]
    )
    assert all(
        line["rows_for_tight"] * 2 in (line["rows_for_published"], line["rows_for_published"] + 1)
        for line in found["rounds"]
    )
    with open(tmp_path / "results/bun_2020/errors.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(found["errors"])
    assert command_line.main(["bun_2020", "table", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert command_line.main(["bun_2020", "aggregate"]) == 0
    assert figures.main(["bun_2020"]) == 0
