"""The attack that reconstructs a table: it knows what is released, and noise stops it."""

import numpy as np
import pytest

from dpbt import recipes
from dpbt.data.domains import Boolean
from experiments.audits import reconstruction
from experiments.common import pages, results
from tests.support import ROOT

PAGE = ROOT / "docs" / "audits.md"


@pytest.fixture
def small(monkeypatch):
    """12 rows of 3 attributes to learn from, and others."""
    monkeypatch.setattr(reconstruction, "ROWS", 12)
    drawn = np.random.default_rng(0).random((200, 4)) < 0.5
    return reconstruction.BinaryRows(drawn[:, :3], drawn[:, 3])


def test_without_noise_every_row_comes_back_and_with_much_noise_none_is_known(small):
    exact = reconstruction.attack_line("random_forest", epsilon=np.inf, rows=small, seed=0)
    assert (exact["most likely"], exact["whole"]) == (0.0, 1.0)
    noisy = [
        reconstruction.attack_line("random_forest", epsilon=0.1, rows=small, seed=seed)
        for seed in range(12)
    ]
    mean = {key: np.mean([result[key] for result in noisy]) for key in noisy[0]}
    assert mean["most likely"] > mean["shuffled"] - 0.03
    assert abs(mean["memorised"]) < 0.08


@pytest.mark.slow
def test_released_sums_of_boosted_trees_are_linear_in_the_rows(small):
    bits, labels = small
    domain = {f"x{k}": Boolean() for k in range(3)}
    options = {"rounds": 3, "depth": 3, "marginals_fraction": 0.1, "scores_fraction": 0.1}
    recipe = recipes.oblivious_boost(epsilon=np.inf, rows=12, domain=domain, **options)
    linear_release = reconstruction.release_of_recipe(
        recipe, reconstruction.BinaryRows(bits[:36], labels[:36]), seed=0
    )
    cell_indices = np.column_stack([bits, labels])[:12] @ [8, 4, 2, 1]
    sums = np.zeros(len(linear_release.released))
    np.add.at(sums, linear_release.cell[cell_indices], linear_release.amount[cell_indices])
    np.testing.assert_array_equal(sums, linear_release.released)


def test_the_page_shows_what_was_measured():
    text = PAGE.read_text()
    lines = results.read_csv(PAGE.with_name(reconstruction.PAGES.file), "reconstruction")
    assert pages.fill_tables(reconstruction.PAGES, text, lines, "page") == text
