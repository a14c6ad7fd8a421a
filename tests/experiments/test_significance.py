"""Tests of the paper's claims over folds, runs, and both."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.common import aggregated
from experiments.common.data import NOCK_HENECKA
from experiments.common.estimates import Estimate
from experiments.papers.nock_henecka_2020 import scan_bins, scan_tables, settings, significance
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    EPSILONS,
    FOREST_DEPTHS,
    FORESTS,
    GRID,
    PRIVATE,
)
from experiments.papers.nock_henecka_2020.significance import Comparison, Count, outcomes

SHAPE = (3, len(EPSILONS), len(PRIVATE["beta_tree"]), len(GRID["rounds"]), len(GRID["depth"]))
RUNS, FOLDS = 12, 10


def both_sides(seed, *, gain=0.0):
    """Errors of twelve runs in ten folds; the own ones are smaller by the gain."""
    other = 0.3 + 0.02 * np.random.default_rng(seed).standard_normal((2, RUNS, FOLDS))
    return other[0] - gain, other[1]


def test_p_values_are_those_of_scipy():
    own, other = both_sides(0, gain=0.01)
    paired = significance.t_test(own, other, is_paired=True)
    student: Any = stats.ttest_rel(own, other, axis=1)
    np.testing.assert_allclose(paired, student.pvalue)
    welch: Any = stats.ttest_ind(own, other, axis=1, equal_var=False)
    np.testing.assert_allclose(significance.t_test(own, other, is_paired=False), welch.pvalue)
    assert np.all(significance.t_test(own, own, is_paired=True) == 1)
    assert np.all(significance.t_test(own - 0.1, own, is_paired=True) < 1e-9)


@pytest.mark.parametrize("kind", significance.KINDS)
def test_a_clear_gain_is_a_win_by_every_test_and_its_reverse_a_loss(kind):
    own, other = both_sides(1, gain=0.1)
    compared = Comparison(own, other, test_rows=10_000)
    number = RUNS if kind in significance.OF_EACH_RUN else 1
    np.testing.assert_array_equal(outcomes(compared, kind), np.ones(number))
    reverse = Comparison(other, own, test_rows=10_000)
    np.testing.assert_array_equal(outcomes(reverse, kind), -np.ones(number))
    same = Comparison(own, own, test_rows=10_000)
    np.testing.assert_array_equal(outcomes(same, kind), np.zeros(number))


def test_tests_over_folds_of_a_best_result_compare_the_best_run_of_each_side():
    own, other = both_sides(2)
    own[5] -= 0.2
    compared = Comparison(own, other, test_rows=10_000, is_of_best=True)
    for kind in significance.OF_EACH_RUN:
        np.testing.assert_array_equal(outcomes(compared, kind), [1])
    np.testing.assert_array_equal(outcomes(compared, significance.RUNS_PAIRED), [0])


def test_folds_that_runs_share_break_the_level_of_all_tests_but_those_over_folds():
    """In every fold one side is ahead by chance, in all runs alike.

    Samples of twelve runs and ten folds are then worth ten, and the t statistic is too large by the
    root of twelve, so that it is beyond 2.6 in 45 % of all cases.
    """
    rng = np.random.default_rng(3)
    share = {}
    for kind in significance.KINDS:
        is_significant = []
        for seed in range(200):
            own, other = both_sides(seed)
            compared = Comparison(own + 0.1 * rng.standard_normal(FOLDS), other, test_rows=1e4)
            equal = compared.without_gain(
                rng.random(FOLDS) < 0.5, of_each_run=kind in significance.OF_EACH_RUN
            )
            is_significant += [*(outcomes(equal, kind) != 0)]
        share[kind] = np.mean(is_significant)
    assert share[significance.FOLDS_PAIRED] < 0.03
    assert share[significance.FOLDS_UNPAIRED] < 0.03
    assert share[significance.RUNS_PAIRED] > 0.5
    assert share[significance.BOTH_PAIRED] > 0.3


@pytest.mark.parametrize("of_each_run", [False, True])
def test_without_gain_both_sides_have_one_mean_and_the_folds_of_either(of_each_run):
    own, other = both_sides(4, gain=0.1)
    equal = Comparison(own, other, 1e4).without_gain(np.zeros(FOLDS, bool), of_each_run=of_each_run)
    np.testing.assert_allclose(equal.other, other)
    np.testing.assert_allclose(equal.own.mean(), other.mean())
    np.testing.assert_allclose(
        equal.own - equal.own.mean(1, keepdims=True), own - own.mean(1, keepdims=True), atol=1e-12
    )
    if of_each_run:
        np.testing.assert_allclose(equal.own.mean(1), other.mean(1))


def test_the_jackknife_error_of_a_mean_is_its_standard_error():
    won = np.array([0, 3, 5, 9, 4])
    counts = [Count(int(one), 0, 10 - int(one)) for one in won]
    estimate = significance.with_jackknife_error(significance.percent_of_all_won, counts)
    assert estimate.value == pytest.approx(10 * won.mean())
    assert estimate.error == pytest.approx(10 * won.std(ddof=1) / np.sqrt(5))
    assert significance.with_jackknife_error(significance.percent_lost, counts[:2]).error is None


def test_counts_become_percentages_and_domains():
    counts = [Count(6, 2, 2), Count(3, 0, 0), Count(0, 1, 0)]
    assert significance.percent_won(counts) == 75
    assert significance.percent_open(counts) == pytest.approx(100 * 2 / 14)
    assert significance.percent_lost(counts) == pytest.approx(100 * 3 / 14)
    assert significance.domains_ahead(counts) == 1 - 2
    assert np.isnan(significance.percent_won([Count(0, 0, 5)]))
    signs = [
        significance.sign_of_all([Count(1, 0, 0), Count(*one)]) for one in ((1, 0, 0), (0, 0, 1))
    ]
    assert signs == [1, 0]
    assert significance.sign_of_all([Count(0, 1, 0), Count(0, 0, 1)]) == -1


@pytest.mark.parametrize(
    ("value", "error", "is_at_most", "words"),
    [
        (60, 4, False, "holds"),
        (60, 6, False, "open"),
        (40, 4, False, "fails"),
        (40, 4, True, "holds"),
        (60, 4, True, "fails"),
        (60, None, False, "holds"),
        (np.nan, 1, False, "open"),
    ],
)
def test_a_claim_holds_or_fails_beyond_two_standard_errors(value, error, is_at_most, words):
    found = significance.verdict(Estimate(value, error), 50.0, is_at_most=is_at_most)
    assert found == words


def errors_of_domain(**choices):
    """Errors that are their own alpha, and 1 for each step of the other axes."""
    boosted = np.zeros((*SHAPE, FOLDS))
    boosted[:] = np.arange(SHAPE[4])[:, None] + 10 * np.arange(SHAPE[3])[:, None, None]
    boosted += 100.0 * np.arange(3)[:, None, None, None, None, None]
    forests = np.zeros((len(FORESTS), 3, len(FOREST_DEPTHS), len(EPSILONS), FOLDS))
    forests += 0.5 + np.arange(len(FOREST_DEPTHS))[:, None, None]
    return significance.Errors(boosted, forests, 1000.0, **choices)


def claim_named(words):
    (claim,) = (claim for claim in significance.claims() if claim.words.startswith(words))
    return claim


def test_a_cell_of_table_4_compares_twelve_runs_at_its_depth_and_number_of_trees():
    compared = claim_named("Table 4: T = 2 wins, percent").comparisons(
        "banknote", errors_of_domain()
    )
    assert len(compared) == 3 * len(FOREST_DEPTHS) * len(FORESTS)
    for place, one in enumerate(compared):
        alpha, rest = divmod(place, len(FOREST_DEPTHS) * len(FORESTS))
        depth = FOREST_DEPTHS[rest // len(FORESTS)]
        assert one.own.shape == one.other.shape == (12, FOLDS)
        assert np.all(one.own == 100 * alpha + depth - 1)
        assert np.all(one.other == 0.5 + rest // len(FORESTS))


@pytest.mark.parametrize(("words", "big", "least"), [("depth", "big d", 3), ("num", "big T", 20)])
def test_table_3_compares_the_printed_sizes_with_the_others(words, big, least):
    """The errors grow with both sizes, so the best run tells which side is that of big ones."""
    claim = claim_named(f"Table 3: {words}")
    printed = {
        at["domain"]: text for at, text in aggregated.printed_texts(settings.NAME, "table-3")
    }
    assert len(printed) == 14
    for name in NOCK_HENECKA:
        compared = claim.comparisons(name, errors_of_domain())
        if name not in printed:
            assert compared == []
            continue
        smallest = [side.min() for side in (compared[0].own, compared[0].other)]
        assert smallest == ([least, 0] if big in printed[name] else [0, least])
        assert compared[0].own.shape == compared[0].other.shape


def test_claims_about_v_q_need_its_fits():
    claim = claim_named("v_q = 50 gains")
    assert claim.comparisons("qsar", errors_of_domain()) == []
    with_fits = errors_of_domain(of_50=np.full((*SHAPE, FOLDS), -1.0))
    assert claim.comparisons("banknote", with_fits) == []
    (compared,) = claim.comparisons("qsar", with_fits)
    assert compared.other.min() == pytest.approx(-0.02)
    np.testing.assert_array_equal(outcomes(compared, significance.FOLDS_PAIRED), [1])


def test_the_gain_of_v_q_is_that_of_the_best_runs():
    errors = errors_of_domain(of_50=errors_of_domain().boosted + 0.01)
    errors.of_50[0, 0, 0, 2, 3] = -0.03
    lines = list(significance.gain_lines("a reading", {"qsar": errors, "eeg": errors_of_domain()}))
    assert [line["claim"] for line in lines] == ["qsar"] * 3
    assert [line["value"] for line in lines] == pytest.approx([3, -1, -1])
    assert [line["paper"] for line in lines] == ["> 2", None, None]


def scanned(error, banknote_error):
    """Domains that have one error, and banknote's grid another."""
    errors = np.full((len(ALPHA_NAMES), len(EPSILONS), 2, FOLDS), error, np.float32)
    forests = np.full((2, len(scan_tables.BUDGETS), len(EPSILONS), FOLDS), 0.3, np.float32)
    banknote = np.full((*SHAPE[1:], FOLDS), banknote_error, np.float32)
    return [scan_tables.DomainErrors(errors, forests, 1e5, banknote) for _ in NOCK_HENECKA]


def test_what_v_q_changes_is_a_difference_of_pairs():
    change = scan_bins.columns_of_change(scanned(0.2, 0.3), scanned(0.25, 0.1))
    assert change["change accurate"] == 1
    assert change["change best objective"] == pytest.approx(5)
    assert change["change_error best objective"] == pytest.approx(0, abs=1e-6)
    assert change["change table_4"] == 0  # boosting wins every run at both
