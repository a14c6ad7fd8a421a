"""`python -m experiments bun_2020`: its rows have the margin, its rounds are counted."""

import csv
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.learners.halfspaces.learner import PUBLISHED_L2
from dpbt.privacy import conversions
from experiments import __main__ as command_line
from experiments.papers.bun_2020 import errors, label_noise, rounds, settings, sizes
from paper_figures import __main__ as figures


def test_rows_have_their_margin_on_the_unit_ball():
    table, target = errors.draw_sample((0, 1), rows=300, tau=0.2, noise=0.0, tests=50)
    rows, sign = np.asarray(table.bins, np.float64), np.where(table.target, 1, -1)
    assert table.bins.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert np.all(sign * (rows @ target) >= 0.2 - 1e-6)


def test_the_printed_advantage_of_a_centre_does_not_hold():
    """Bun et al., Theorem 26, has tau / 4 for h(x) = z . x; rows +-tau u give tau^2 / 2."""
    tau, sign = 0.2, np.where(np.arange(40) % 2, 1, -1)
    rows = np.zeros((40, 3), np.float32)
    rows[:, 0] = tau * sign
    table = dpbt.Table(jnp.asarray(rows), jnp.asarray(sign > 0), jnp.ones(40, bool))
    recipe = recipes.halfspace_boost(rows=40, epsilon=np.inf, rounds=1, normalized=False)
    advantage = rounds.measure_curves(jax.random.key(0), table, recipe, tau / 8).advantage
    assert float(advantage[0]) == pytest.approx(tau**2 / 2, rel=1e-3)  # rows: multiples of 2^-14
    assert tau**2 / 2 < tau / 4


def test_the_settings_of_hs_stl_are_those_of_algorithm_5():
    """At the rows for rho, T rounds of the paper's cost are rho-zCDP."""
    alpha, beta, tau = 0.1, 0.05, 0.2
    hs_stl = settings.halfspace_settings(alpha, beta, tau)
    log_kappa = np.log(4 / alpha)
    assert hs_stl.density == alpha / 4
    assert hs_stl.learning_rate == tau / 8
    assert hs_stl.rounds == np.ceil(1024 * log_kappa / tau**2)
    spread = np.log(3072 * log_kappa / (beta * tau**2))
    assert hs_stl.noise == pytest.approx(tau / (8 * np.sqrt(2) * np.sqrt(spread)))
    rows = settings.halfspace_rows_for(hs_stl, rho=0.01, l2_times_kappa_n=4)
    cost = hs_stl.rounds * 8 / (hs_stl.density * rows * hs_stl.noise) ** 2
    assert cost == pytest.approx(0.01, rel=1e-5)


def test_hs_stl_needs_245_million_rows_by_the_papers_own_lemmas():
    """Theorem 27 and Lemma 15, at tau = 0.1 and c = sqrt(2), where nu . u fails rarely enough."""
    hs_stl = settings.halfspace_settings(0.1, 0.05, 0.1)
    rho = float(conversions.published_zcdp_rho(1.0, 1e-6))
    rows = settings.halfspace_rows_for(hs_stl, rho, PUBLISHED_L2)
    assert rows == pytest.approx(244.95e6, rel=1e-4)
    total = hs_stl.rounds * 8 / (hs_stl.density * rows * hs_stl.noise) ** 2
    assert total + 2 * np.sqrt(total * np.log(1e6)) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.slow
def test_a_smoke_run_measures_and_draws_every_axis(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--smoke", "--samples", "1", "--keys", "2", "--out", "results/bun_2020"]
    assert command_line.main(["bun_2020", "run", *small, "--json"]) == 0
    lines_by_table = json.loads(capsys.readouterr().out)
    assert {line["axis"] for line in lines_by_table["errors"]} == set(settings.AXES)
    for line in lines_by_table["errors"]:
        assert 0 <= line["test_error_mean"] <= 0.6
        assert line["fits"] == 2
    for line in lines_by_table["rounds"]:
        # Half of the sensitivity, and GDP in place of Lemma 15.
        assert line["rows_for_published"] / line["rows_for_tight"] == pytest.approx(2.533, abs=1e-3)
    with open(tmp_path / "results/bun_2020/errors.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(lines_by_table["errors"])
    assert command_line.main(["bun_2020", "tables", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == lines_by_table
    assert command_line.main(["bun_2020", "sizes", *small]) == 0
    assert command_line.main(["bun_2020", "aggregate"]) == 0
    assert figures.main(["bun_2020", "--results", "results/reproduction"]) == 0


def test_the_rows_of_an_error_are_interpolated_in_logarithms():
    rows = (100, 200, 400)
    assert sizes.rows_for_error(rows, (0.2, 0.05, 0.01), 0.1) == pytest.approx(100 * 2**0.5)
    assert sizes.rows_for_error(rows, (0.05, 0.2, 0.05), 0.1) == pytest.approx(200 * 2**0.5)
    assert sizes.rows_for_error(rows, (0.1, 0.05, 0.01), 0.1) == 100
    assert sizes.rows_for_error(rows, (0.2, 0.2, 0.2), 0.1) is None


def test_algorithm_3_flips_by_position_alone_and_returns_the_query_of_clean_rows():
    table, _ = errors.draw_sample((0, 2), rows=400, tau=0.3, noise=0.0, tests=0)
    neighbour = table._replace(target=table.target.at[7].set(~table.target[7]))
    key = jax.random.key(5)
    flipped, flipped_neighbour = (
        label_noise.flip_labels(key, any_table, 0.2) for any_table in (table, neighbour)
    )
    assert np.flatnonzero(flipped.target != flipped_neighbour.target).tolist() == [7]
    assert 0.1 < np.mean(flipped.target != table.target) < 0.3

    recipe = recipes.halfspace_boost(
        rows=400, epsilon=np.inf, rounds=20, density=0.3, relation="replace_one"
    )
    error_of_rows = label_noise.fit_with_label_noise(key, table, recipe, 0.2)
    # The model learns the clean concept from noisy labels: it errs on the flipped labels.
    assert np.mean(error_of_rows(table)) < 0.1
    assert np.mean(error_of_rows(flipped)) > 0.1
    flip_key, learner_key = jax.random.split(key)
    model = dpbt.fit(learner_key, label_noise.flip_labels(flip_key, table, 0.2), recipe)
    score = np.asarray(dpbt.decision_function(model, table))
    is_wrong = np.where(table.target, score, -score) <= 0
    np.testing.assert_array_equal(error_of_rows(table), is_wrong)
    with pytest.raises(ValueError, match="noise"):
        label_noise.flip_labels(key, table, 0.5)


def test_a_mixture_over_flips_loses_no_more_than_the_learner():
    """Section 3.4, exactly: a selection among x, -x, 1 and -1 by the errors on three rows."""
    noise, eta = 0.2, 1.5
    predictions = np.array([[1, -1, 1], [-1, 1, -1], [1, 1, 1], [-1, -1, -1]])

    def law(label):
        scores = -eta * np.sum(predictions != label, axis=1)
        return np.exp(scores) / np.exp(scores).sum()

    def mixture(label):
        total = np.zeros(4)
        for flips in itertools.product((1, -1), repeat=3):
            chance = np.prod([noise if flip < 0 else 1 - noise for flip in flips])
            total += chance * law(np.array(flips) * label)
        return total

    labels = [np.array(label) for label in itertools.product((1, -1), repeat=3)]
    neighbours = [(a, b) for a in labels for b in labels if np.sum(a != b) == 1]
    clean, noisy = (
        max(np.abs(np.log(of_labels(a) / of_labels(b))).max() for a, b in neighbours)
        for of_labels in (law, mixture)
    )
    assert 0.5 < noisy < clean <= 2 * eta
