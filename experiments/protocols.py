"""Evaluation protocols, as `present` masks over one table."""

import numpy as np


def stratified_folds(label: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """i32[N]: the fold of each row; every class is spread evenly, and so are the rows as a whole.

    Args:
        label: bool[N].
        folds: K, at least 2 and at most the number of rows.
        seed: of the shuffle.

    Raises:
        ValueError: if K is out of range, or there is one class only.
    """
    label = np.asarray(label, bool)
    if not 2 <= folds <= len(label):
        raise ValueError(f"folds must be between 2 and the number of rows, {len(label)}; got {folds}")
    if label.all() or not label.any():
        raise ValueError("all rows are of one class; stratified folds need two")
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(np.flatnonzero(label == value)) for value in (False, True)])
    fold = np.empty(len(label), np.int32)
    fold[order] = np.arange(len(label), dtype=np.int32) % folds
    return fold
