"""Protocols: masks partition rows; statistics agree with SciPy and scikit-learn under jit."""

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from experiments.common import protocols

RNG = np.random.default_rng(0)
LABEL = RNG.random(137) < 0.3


def test_folds_are_stratified():
    fold = protocols.stratified_folds(LABEL, 10, seed=1)
    sizes = np.bincount(fold, minlength=10)
    positives = np.bincount(fold[LABEL], minlength=10)
    assert sizes.max() - sizes.min() <= 1
    assert positives.max() - positives.min() <= 1
    for labels_of_one_class in (
        np.ones(11, bool),
        np.zeros(11, bool),
    ):  # an error would tell the labels
        assert sorted(np.bincount(protocols.stratified_folds(labels_of_one_class, 3, seed=0))) == [
            3,
            4,
            4,
        ]
    for folds in (1, 200):
        with pytest.raises(ValueError, match=rf"at most the number of rows, got {folds}$"):
            protocols.stratified_folds(LABEL, folds, seed=0)


def test_cross_validation_tests_every_row_once_in_each_repeat():
    train, test = protocols.cross_validation(LABEL, 10, seeds=(0, 1, 2))
    assert train.shape == test.shape == (30, 137)
    assert (train ^ test).all()
    assert (test.reshape(3, 10, 137).sum(axis=1) == 1).all()
    assert (test[:10] != test[10:20]).any()
    second_repeat = protocols.cross_validation(LABEL, 10, seeds=(1,))
    assert (second_repeat.test == test[10:20]).all()
    with pytest.raises(ValueError, match="at least one seed"):
        protocols.cross_validation(LABEL, 10, seeds=())


@pytest.mark.parametrize("n", [2, 200])
def test_the_paired_t_test_agrees_with_scipy(n):
    a = RNG.normal(0.2, 0.05, (40, n)).astype(np.float32)
    b = (a + RNG.normal(np.linspace(0, 0.05, 40)[:, None], 0.05, (40, n))).astype(np.float32)
    expected = stats.ttest_rel(a.astype(np.float64), b.astype(np.float64), axis=-1).pvalue
    p_values = jax.jit(jax.vmap(protocols.paired_t_p_value))(a, b)
    np.testing.assert_allclose(p_values, expected, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(protocols.paired_t_p_value(a, b), p_values, rtol=1e-5, atol=1e-7)
    clear = np.abs(expected - protocols.LEVEL) > 1e-4
    sign = np.where(expected < protocols.LEVEL, np.sign(a.mean(axis=-1) - b.mean(axis=-1)), 0)
    np.testing.assert_array_equal(np.asarray(protocols.significant_sign(a, b))[clear], sign[clear])


@pytest.mark.parametrize("distinct", [3, 10**6])
def test_auroc_agrees_with_scikit_learn(distinct):
    """Scores have many ties, some or none; masked rows do not count, whatever their scores are."""
    score = (RNG.integers(0, distinct, (20, 150)) / 7).astype(np.float32)
    label = RNG.random((20, 150)) < RNG.uniform(0.1, 0.9, (20, 1))
    mask = RNG.random((20, 150)) < 0.7
    areas = jax.jit(jax.vmap(protocols.auroc))(score, label, mask)
    expected = [roc_auc_score(t[m], s[m]) for s, t, m in zip(score, label, mask, strict=True)]
    np.testing.assert_allclose(areas, expected, atol=1e-6)
    np.testing.assert_allclose(
        protocols.auroc(score[0], label[0]), roc_auc_score(label[0], score[0]), atol=1e-6
    )
