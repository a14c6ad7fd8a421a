"""Evaluation protocols: the rows that train and test, and statistics of errors.

Cross-validation and canonical test rows are `Folds`, masks [B, N] to vmap over:
`present = table.present & folds.train`. The statistics are pure, have static shapes and reduce the
last axis, so they can be jitted and vmapped.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, ndtri

LEVEL = 0.01
"""The level of the paired tests of Nock & Henecka (2020)."""


class Folds(NamedTuple):
    """Which rows train and which test, in B evaluations.

    Attributes:
        train: bool[B, N].
        test: bool[B, N], disjoint from train.
    """

    train: np.ndarray
    test: np.ndarray

    def splits(self) -> list["Split"]:
        """The evaluations one by one."""
        return [Split(train, test) for train, test in zip(self.train, self.test, strict=True)]


class Split(NamedTuple):
    """The rows that train and test in one evaluation, bool[N] each."""

    train: np.ndarray
    test: np.ndarray


def stratified_folds(label: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """i32[N]: the fold of each row; each class, and all rows together, are spread evenly.

    Args:
        label: bool[N].
        folds: K, at least 2 and at most the number of rows. Rows that all have one class are no
            error, because an error would tell it.
        seed: the seed of the shuffle.

    Raises:
        ValueError: if K is out of range. The number of rows is not shown.
    """
    label = np.asarray(label, bool)
    if not 2 <= folds <= len(label):
        raise ValueError(f"folds must be at least 2 and at most the number of rows, got {folds}")
    rng = np.random.default_rng(seed)
    order = np.concatenate(
        [rng.permutation(np.flatnonzero(label == value)) for value in (False, True)]
    )
    fold = np.empty(len(label), np.int32)
    fold[order] = np.arange(len(label), dtype=np.int32) % folds
    return fold


def fold_masks(fold: np.ndarray, folds: int) -> Folds:
    """K evaluations: each fold tests once, and the others train; `fold` is i32[N] in 0..K-1."""
    test = np.asarray(fold)[None, :] == np.arange(folds, dtype=np.int32)[:, None]
    return Folds(~test, test)


def cross_validation(label: np.ndarray, folds: int, seeds: Sequence[int]) -> Folds:
    """R x K evaluations: stratified k-fold cross-validation, repeated with R seeds in turn.

    Args:
        label: bool[N].
        folds: K.
        seeds: one for each repeat; folds of different seeds are independent.

    Raises:
        ValueError: as `stratified_folds`, and if there are no seeds.
    """
    if not len(seeds):
        raise ValueError("cross-validation needs at least one seed")
    repeats = [fold_masks(stratified_folds(label, folds, seed), folds) for seed in seeds]
    return Folds(
        np.concatenate([repeat.train for repeat in repeats]),
        np.concatenate([repeat.test for repeat in repeats]),
    )


def canonical_folds(test: np.ndarray | None) -> Folds:
    """One evaluation on a data set's own test rows, bool[N].

    Raises:
        ValueError: if the data set has no test rows.
    """
    if test is None:
        raise ValueError("the data set has no canonical test rows; use cross_validation")
    test = np.asarray(test, bool)[None, :]
    return Folds(~test, test)


def paired_t_p_value(a: jax.Array, b: jax.Array) -> jax.Array:
    """f32[...]: two-sided p-value of Student's paired t-test that a and b have the same mean.

    If all differences are equal, it is 1 if they are zero and else 0. Errors of overlapping
    training sets are not independent, so the p-value over folds is optimistic, as in the
    literature.

    Args:
        a: f32[..., n] with n >= 2, such as test errors by fold.
        b: f32[..., n], of the same folds.

    Raises:
        ValueError: if shapes differ, or if there are fewer than two pairs.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    if a.shape != b.shape or a.ndim == 0 or a.shape[-1] < 2:
        raise ValueError(
            "a paired test needs two arrays of one shape [..., n >= 2], "
            f"got {a.shape} and {b.shape}"
        )
    degrees = a.shape[-1] - 1
    signal, noise = jnp.mean(a - b, axis=-1) ** 2, jnp.var(a - b, axis=-1)
    # P(|t| > t') = I_x(degrees / 2, 1/2) with x = degrees / (degrees + t'^2). The form below does
    # not divide by a variance of 0.
    x = jnp.where(signal > 0, noise / jnp.where(signal > 0, noise + signal, 1.0), 1.0)
    return betainc(jnp.asarray(degrees / 2, x.dtype), jnp.asarray(0.5, x.dtype), x)


def significant_sign(a: jax.Array, b: jax.Array, level: float = LEVEL) -> jax.Array:
    """i32[...]: -1 if a's mean is significantly smaller than b's, 1 if it is larger, else 0."""
    sign = jnp.sign(jnp.mean(jnp.asarray(a) - jnp.asarray(b), axis=-1)).astype(jnp.int32)
    return jnp.where(paired_t_p_value(a, b) < level, sign, 0)


def normal_half_width(errors: jax.Array, trials: jax.Array, level: float = 0.95) -> jax.Array:
    """f32[...]: z sqrt(p (1 - p) / n), which Bojarski et al. print after each error.

    Args:
        errors: [...], the number of trials that are errors.
        trials: [...], at least 1.
        level: the level of confidence, in (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level}")
    errors, trials = jnp.asarray(errors, jnp.float32), jnp.asarray(trials, jnp.float32)
    rate, z = errors / trials, ndtri(jnp.float32((1 + level) / 2))
    return z * jnp.sqrt(rate * (1 - rate) / trials)


def auroc(score: jax.Array, label: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """f32[]: the probability that a positive row scores above a negative one; ties count half.

    It is NaN if the rows in the mask have one class. It takes a sort, O(N log N).

    Args:
        score: f32[N], finite.
        label: bool[N].
        mask: bool[N], the rows that are ranked; all by default.
    """
    score, label = jnp.asarray(score), jnp.asarray(label, bool)
    mask = jnp.ones(label.shape, bool) if mask is None else mask
    positive, negative = mask & label, mask & ~label
    order = jnp.argsort(score)
    ranked = score[order]
    negatives_before = jnp.concatenate(
        [jnp.zeros(1, jnp.int32), jnp.cumsum(negative[order].astype(jnp.int32))]
    )
    below = negatives_before[jnp.searchsorted(ranked, score, side="left")]
    not_above = negatives_before[jnp.searchsorted(ranked, score, side="right")]
    num_negatives = negatives_before[-1].astype(jnp.float32)
    share_below = (below + not_above).astype(jnp.float32) / (2 * num_negatives)
    return jnp.sum(jnp.where(positive, share_below, 0.0)) / jnp.sum(positive).astype(jnp.float32)
