"""Readings of Nock & Henecka: the second option costs everything, and tables follow from fits."""

from pathlib import Path

import jax
import numpy as np
import pytest

import dpbt
from dpbt import boosting, losses
from dpbt.data.splits import splits_of
from experiments.common import pages, results
from experiments.papers.nock_henecka_2020 import (
    reading_fits,
    reading_pages,
    reading_tables,
    second_option,
    step_tables,
)
from tests.tables import random_table

PAGE = Path(__file__).parents[2] / "docs" / "nock_henecka.md"
ALL_NOISE = second_option.Noise(splits=True, leaves=True, each_leaf=True, before=True)


def recipe(noise=ALL_NOISE, **changed):
    usual = {"epsilon": 4.0, "rows": 12, "rounds": 1, "depth": 1, "alpha": 1.0, "beta_tree": 0.5}
    return second_option.recipe(noise=noise, **{**usual, **changed})


def test_beta_of_the_second_option_tells_neighbours_apart():
    """The ledger says so by name, and the exact loss between neighbours is infinite."""
    book = dpbt.ledger(recipe())
    assert book.epsilon == np.inf
    assert "UNPROTECTED: beta_t" in str(book)
    finite = [line.site for line in book.lines if np.isfinite(line.epsilon)]
    assert "leaf" in finite
    assert "split_0" in finite

    table = random_table(5, rows=12, splits=3)
    fewer = table._replace(present=table.present.at[0].set(False))
    release = jax.jit(dpbt.boost)(jax.random.key(0), table, recipe()).transcript
    losses_of = jax.jit(boosting.compared)(release, table, fewer, recipe())
    assert float(losses_of["beta"][1].pure[0]) == np.inf
    assert np.isfinite(float(losses_of["leaf"][1].pure[0]))


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "least"), [("objective", np.inf), (0.3, 0.1)])
def test_beta_is_step_2_2_of_algorithm_1_on_the_released_tree(alpha, least):
    """Two trees with noise, against a plain loop over rows."""
    table = random_table(3, rows=40, splits=5)
    setting = recipe(rows=40, rounds=2, depth=2, alpha=alpha, epsilon=200.0, step_clip=least)
    boosted = jax.jit(dpbt.boost)(jax.random.key(1), table, setting)
    release = {site: np.asarray(array) for site, array in boosted.transcript.rounds.items()}
    budget = setting.params
    splits = np.asarray(splits_of(table)).astype(int)
    sign = np.where(np.asarray(table.target), 1.0, -1.0)
    link_alpha = 1.0 if alpha == "objective" else alpha
    loss = losses.m_alpha(link_alpha)

    score = np.zeros(40)
    for t in range(2):
        weight = np.clip(np.round(np.asarray(loss.inverse_link(-sign * score)) * 127), 1, 127) / 127
        right = splits[:, release["split_0"][t, 0]]
        leaf = 2 * right + splits[np.arange(40), release["split_1"][t][right]]
        leaves = np.clip(release["leaf"][t] * float(budget.leaf_step), -10, 10)
        value, bound = leaves[leaf], max(np.max(np.abs(leaves)), min(least, 10))
        beta = link_alpha / bound**2 * np.sum(weight * sign * value) / 40
        assert release["beta"][t] * float(budget.beta_step) == pytest.approx(beta, abs=1e-6)
        score = score + beta * value
    np.testing.assert_allclose(boosted.scores, score, atol=1e-5)


def fits(seed=0, better=0.0):
    """Fits of a domain under two readings, with errors that are made up."""
    rng = np.random.default_rng(seed)
    shape = (3, 5, 3, 4, 6, 10)
    errors = {name: rng.uniform(0.1, 0.5, shape) for name in ("printed", "second option")}
    errors["second option"][1, :, :, 3, 4] = 0.01 - better
    axes = {
        "epsilon": np.array([0.01, 0.1, 1, 10, 25]),
        "beta_tree": np.array([0.1, 0.5, 0.9]),
        "rounds": np.array([2, 5, 10, 20]),
        "depth": np.arange(1, 7),
        "evaluation": np.arange(10),
    }
    forests = {name: rng.uniform(0.45, 0.55, (5, 3, 10)) for name in ("RF-L", "RF-E")}
    return reading_fits.Fits(errors, axes, forests, np.array([2, 4, 6]), ("0" * 40,))


def test_table_4_is_counted_by_both_tests_and_without_an_epsilon():
    """Boosting wins at the largest epsilon alone, by 3 points: many rows tell, or equal folds."""
    one, shape = fits(), (3, 5, 3, 4, 6, 10)
    for forest in one.forests:
        one.forests[forest][:] = 0.5
    errors = np.full(shape, 0.5)
    errors[:, 4] = 0.47
    same = one._replace(errors={"printed": errors})
    lines = list(reading_tables.counted({"banknote": same}, {"banknote": 100_000}))
    assert len(lines) == 2 * 6
    for line in lines:
        assert line["domains"] == 1
        last = line["left_out"] == 25.0
        share = 0.0 if last else 0.25 if line["left_out"] is not None else 0.2
        assert line["significant"] == pytest.approx(share)
        assert line["cells"] == (0 if last else 36)  # all numbers of banknote

    few = reading_tables.counted({"banknote": same}, {"banknote": 100})
    found = {line["test"]: line["significant"] for line in few if line["left_out"] is None}
    assert found == {reading_tables.BY_FOLDS: pytest.approx(0.2), reading_tables.BY_ROWS: 0.0}


@pytest.mark.parametrize("own", [reading_pages.PAGES, step_tables.PAGES])
def test_the_page_is_what_its_summary_says(own):
    lines, text = results.read_csv(PAGE.with_name(own.file), own.command), PAGE.read_text()
    assert pages.filled(own, text, lines, str(PAGE)) == text
    assert len(lines) > 40
