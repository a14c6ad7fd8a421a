"""Readings of Nock & Henecka: their options and recipes, and tables that follow from fits."""

import dataclasses
from collections import Counter
from fractions import Fraction

import jax
import numpy as np
import pytest

import dpbt
from dpbt import losses
from dpbt.data.splits import satisfied_splits, table_of_splits
from dpbt.training.replay import log_ratios_by_site
from experiments.common import aggregated, data, pages, results
from experiments.papers.nock_henecka_2020 import (
    leaf_losses,
    options,
    reading_tables,
    readings,
    saved,
    scan_bins,
    scan_tables,
    significance,
)
from experiments.papers.nock_henecka_2020.options import Reading
from tests.support import ROOT
from tests.support.example_tables import random_table

PAGE = ROOT / "docs" / "nock_henecka.md"
SECOND = Reading(option="second")


def recipe(reading=SECOND, **changed):
    usual = {"epsilon": 4.0, "rows": 12, "rounds": 1, "depth": 1, "alpha": 1.0, "beta_tree": 0.5}
    return options.recipe_of(reading, **{**usual, **changed})


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
    losses_of = jax.jit(log_ratios_by_site)(release, table, fewer, recipe())
    assert float(losses_of["beta"][1].pure[0]) == np.inf
    assert np.isfinite(float(losses_of["leaf"][1].pure[0]))


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "bound"), [("objective", "public"), (0.3, "tree")])
def test_beta_is_step_2_2_of_algorithm_1_on_the_released_tree(alpha, bound):
    """Two trees with noise, against a plain loop over rows."""
    table = random_table(3, rows=40, splits=5)
    reading = dataclasses.replace(SECOND, step_bound=bound)
    setting = recipe(reading, rows=40, rounds=2, depth=2, alpha=alpha, epsilon=200.0)
    least = {"public": 10.0, "tree": 0.1}[bound]
    boosted = jax.jit(dpbt.boost)(jax.random.key(1), table, setting)
    release = {site: np.asarray(array) for site, array in boosted.transcript.rounds.items()}
    params = setting.params
    splits = np.asarray(satisfied_splits(table)).astype(int)
    sign = np.where(np.asarray(table.target), 1.0, -1.0)
    link_alpha = 1.0 if alpha == "objective" else alpha
    loss = losses.m_alpha(link_alpha)

    score = np.zeros(40)
    for t in range(2):
        weight = np.clip(np.round(np.asarray(loss.inverse_link(-sign * score)) * 127), 1, 127) / 127
        right = splits[:, release["split_0"][t, 0]]
        leaf = 2 * right + splits[np.arange(40), release["split_1"][t][right]]
        leaves = np.clip(release["leaf"][t] * float(params.leaf_step), -10, 10)
        value, max_value = leaves[leaf], max(np.max(np.abs(leaves)), least)
        beta = link_alpha / max_value**2 * np.sum(weight * sign * value) / 40
        assert release["beta"][t] * float(params.beta_step) == pytest.approx(beta, abs=1e-6)
        score = score + beta * value
    np.testing.assert_allclose(boosted.scores, score, atol=1e-5)


def leaf_scale(reading):
    """The noise scale of a leaf by the ledger, for T = 3, D = 2 and 12 rows."""
    setting = recipe(reading, rounds=3, depth=2)
    (line,) = [line for line in dpbt.ledger(setting).lines if line.site == "leaf"]
    return float(line.scale) * float(setting.params.leaf_step)


@pytest.mark.parametrize(
    ("choices", "factor"),
    [
        ({"leaf_scale": "M"}, 1 / 2),
        ({"leaf_scale": "2M/m"}, 1 / 12),
        ({"leaf_divisor": "T"}, 1 / 4),
        ({"leaf_divisor": "1"}, 1 / 12),
    ],
)
@pytest.mark.parametrize("option", ["first", "second"])
def test_the_noise_of_a_leaf_is_what_a_reading_says(option, choices, factor):
    usual = Reading(option=option)
    changed = leaf_scale(dataclasses.replace(usual, **choices))
    assert changed == pytest.approx(factor * leaf_scale(usual), rel=1e-3)


def test_noise_on_shares_goes_through_the_link():
    """With next to no noise, leaves are the links of the exact shares of the rows, clamped to M."""
    table = random_table(5, rows=12, splits=3)
    reading = Reading(option="second", leaf_scale="1/m on q", noisy_splits=False)
    exact = Reading(option="second", noisy_splits=False, noisy_leaves=False)
    trees = []
    for one in (reading, exact):
        setting = recipe(one, epsilon=1e5)
        boosted = jax.jit(dpbt.boost)(jax.random.key(0), table, setting)
        trees.append(np.asarray(boosted.scores))
    np.testing.assert_allclose(trees[0], trees[1], rtol=1e-2)
    assert dpbt.ledger(recipe(reading)).epsilon == np.inf


def test_choices_that_no_program_has_are_refused():
    for choices in (
        {"option": "third"},
        {"leaf_scale": "3M"},
        {"option": "first", "noisy_leaves": False},
        {"option": "first", "clip": None},
        {"option": "tight", "leaf_divisor": "T"},
    ):
        with pytest.raises(ValueError, match=r"option|leaf_scale"):
            Reading(**choices)


def test_every_reading_of_the_grid_has_a_name_of_its_own():
    assert len(options.READINGS) == sum(
        map(len, (options.NOISE_READINGS, options.STEP_READINGS, options.LEAF_READINGS))
    )
    assert len(set(options.LEAF_READINGS.values())) == 2 * 4 * 3 * 3


def test_cuts_of_the_data_lie_between_its_numbers():
    columns = {"x": np.array([0.0, 1, 1, 1, 2, 3, np.nan, 8]), "y": np.zeros(8)}
    numeric = dpbt.domains.Numeric(0, 100, bins=4)
    dataset = data.Dataset("d", {"x": numeric, "y": numeric}, columns, np.arange(8) > 3)
    assert options.cut_dataset(dataset, "declared", 4) is dataset
    even, quantiles = (
        options.cut_dataset(dataset, cuts, 4).domain for cuts in ("data", "quantiles")
    )
    assert (even["x"].low, even["x"].high, even["x"].bins) == (0, 8, 4)
    assert quantiles["x"].cuts == (1, 2.5)
    assert even["y"] == quantiles["y"] == numeric


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
    return saved.ReadingFits(errors, axes, forests, np.array([2, 4, 6]), ("0" * 40,))


def test_table_4_is_counted_by_both_tests_and_without_an_epsilon():
    """Boosting wins at the largest epsilon alone, by 3 points: many rows tell, or equal folds."""
    one, shape = fits(), (3, 5, 3, 4, 6, 10)
    for forest in one.forests:
        one.forests[forest][:] = 0.5
    errors = np.full(shape, 0.5)
    errors[:, 4] = 0.47
    same = one._replace(errors={"printed": errors})
    lines = list(reading_tables.counted_table_4_lines({"banknote": same}, {"banknote": 100_000}))
    assert len(lines) == 2 * 6
    for line in lines:
        assert line["domains"] == 1
        last = line["left_out"] == 25.0
        share = 0.0 if last else 0.25 if line["left_out"] is not None else 0.2
        assert line["significant"] == pytest.approx(share)
        assert line["cells"] == (0 if last else 36)  # all numbers of banknote

    few = reading_tables.counted_table_4_lines({"banknote": same}, {"banknote": 100})
    found = {line["test"]: line["significant"] for line in few if line["left_out"] is None}
    assert found == {reading_tables.BY_FOLDS: pytest.approx(0.2), reading_tables.BY_ROWS: 0.0}


def percentages(counts):
    """The whole percentages k / n strictly between 0 and 100, of any n of `counts`."""
    return {round(Fraction(100 * k, n)) for n in counts for k in range(1, n)}


def test_a_cell_of_table_4_counts_twelve_runs():
    """All interior percentages are k / n with n <= 12, and n = 12 is needed.

    If a cell had 13 to 15 runs, others would have to occur. A half is rounded to the even number.
    """
    cells = aggregated.printed_numbers("nock_henecka_2020", "table-4")
    printed = Counter(int(cell.number) for cell in cells if 0 < cell.number < 100)
    assert printed.total() == 290
    at_most = {n: percentages(range(2, n + 1)) for n in (11, 12, 15)}
    assert set(printed) <= at_most[12]
    assert len(at_most[12]) == 45
    needing_twelve = at_most[12] - at_most[11]
    assert needing_twelve == {8, 42, 58, 92}
    assert sum(printed[number] for number in needing_twelve) == 47
    assert len(at_most[15] - at_most[12]) == 16
    assert {12, 38, 62, 88} <= set(printed)  # eighths

    # A cell of fewer runs than twelve has lost some to the test, and few are lost.
    fewest = Counter()
    for number, times in printed.items():
        fewest[min(n for n in range(2, 13) if number in percentages([n]))] += times
    assert fewest[12] == 47
    assert fewest[11] == 57
    assert sum(fewest[n] for n in (7, 8, 9, 10)) == 18


PAGES = {study: readings.STUDIES[study].page for study in ("noise", "steps")}


OTHER_PAGES = {module.PAGE.file: module.PAGE for module in (scan_tables, scan_bins, significance)}


@pytest.mark.parametrize(
    "page", [*PAGES.values(), *OTHER_PAGES.values()], ids=[*PAGES, *OTHER_PAGES]
)
def test_the_page_is_what_its_summary_says(page):
    lines, text = results.read_csv(PAGE.with_name(page.file), page.command), PAGE.read_text()
    assert pages.fill_tables(page, text, lines, str(PAGE)) == text
    assert len(lines) > 30


def scanned(boosted, forests):
    """A domain of 100,000 test rows with these errors in all runs, but boosting wins at 0.01."""
    errors = np.full((3, 5, 2, 10), boosted, np.float32)
    errors[:, 0] = forests - 0.1
    forest = np.full((2, len(scan_tables.BUDGETS), 5, 10), forests, np.float32)
    return scan_tables.DomainErrors(errors, forest, 100_000, None)


def test_cells_of_the_scan_count_wins_of_four_epsilons():
    losing, tied = scanned(boosted=0.4, forests=0.3), scanned(boosted=0.3001, forests=0.3)
    cells = scan_tables.cells_of_table_4([losing, tied], 0)
    assert cells.shape == (2, 2, 3, 2)
    assert np.all(cells[0] == 25)
    assert np.all(cells[1] == 100)  # a ten-thousandth is no loss
    assert np.all(scan_tables.cells_of_table_4([losing, tied], 0, limit=0.0) == 25)
    with_all = scan_tables.cells_of_table_4([losing], 0, left_out=None)
    assert np.all(with_all == 20)


def test_distances_to_table_4_are_those_of_printed_cells():
    printed = scan_tables.printed_table_4()
    assert printed.shape == (19, 2, 3, 2)
    assert np.isnan(printed[0, :, :, 1]).all()  # transfusion has none at T = 20
    np.testing.assert_array_equal(scan_tables.distances(printed + 3, printed), np.full(19, 3.0))
    constant = scan_tables.constant_distances(printed)
    for value in (0.0, 50.0, 100.0):
        other = scan_tables.distances(np.full(printed.shape, value), printed)
        cells = np.sum(~np.isnan(printed), axis=(1, 2, 3))
        assert np.average(constant, weights=cells) <= np.average(other, weights=cells)


def test_noise_of_2_m_over_m_costs_m_times_its_claim():
    """A leaf of one row, whose label is flipped: its exact loss is m times the leaf's budget."""
    rows, leaf_epsilon = 12, 0.5
    for scale in ("2M/m", "1/m on q"):
        reading = Reading(option="second", leaf_scale=scale)
        assert leaf_losses.leaf_loss(reading, (1, 0), (0, 1), rows=rows) == pytest.approx(rows)
        assert leaf_losses.leaf_loss(reading, (6, 6), (5, 7), rows=rows) < rows
    honest = leaf_losses.leaf_loss(SECOND, (1, 0), (0, 1), rows=rows)
    assert honest == pytest.approx(1)

    # The library's program: one split that one row satisfies, and the best split.
    satisfied = np.arange(rows)[:, None] == 0
    label, present = np.arange(rows) < 6, np.ones(rows, bool)
    table = table_of_splits(satisfied, label, present)
    flipped = table_of_splits(satisfied, label & (np.arange(rows) > 0), present)
    reading = Reading(option="second", noisy_splits=False, leaf_scale="2M/m", leaf_divisor="1")
    setting = recipe(reading, epsilon=2 * leaf_epsilon, rows=rows)
    (line,) = [line for line in dpbt.ledger(setting).lines if line.site == "leaf"]
    assert line.epsilon == pytest.approx(rows * leaf_epsilon, rel=1e-3)
    ratios = jax.jit(log_ratios_by_site)
    found = []
    for key in range(6):
        release = jax.jit(dpbt.boost)(jax.random.key(key), table, setting).transcript
        found.append(float(ratios(release, table, flipped, setting)["leaf"][1].pure[0]))
    assert max(found) == pytest.approx(rows * leaf_epsilon, rel=0.15)
    assert max(found) > 5 * leaf_epsilon
