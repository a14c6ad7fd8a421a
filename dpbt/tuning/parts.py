"""Which rows a score reads: a rule on the row alone, under a public seed."""

import numpy as np

from dpbt.base import Table

_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mixed(words: np.ndarray) -> np.ndarray:
    """u64[...]: the finaliser of SplitMix64 (Steele, Lea & Flood, 2014), a bijection."""
    words = (words ^ (words >> np.uint64(30))) * _MULTIPLIERS[0]
    words = (words ^ (words >> np.uint64(27))) * _MULTIPLIERS[1]
    return words ^ (words >> np.uint64(31))


def held_out(table: Table, share: float, seed: int) -> np.ndarray:
    """bool[N]: whether each row is scored on instead of learned from.

    It is a hash of the row's cells and target under a public seed, so it depends on that row alone.
    Equal rows go together. No secret is needed: any rule on one row serves the proof.

    Args:
        table: N rows.
        share: of all possible rows, in (0, 1).
        seed: public, a whole number in 0..2^32 - 1.
    """
    with np.errstate(over="ignore"):  # arithmetic is modulo 2^64
        target = np.asarray(table.target)
        state = _mixed(np.full(target.shape, seed, np.uint64) + _STEP)
        arrays = [np.asarray(table.cells).T, target[None]]
        for array in arrays:
            for column in array:
                words = column.view(np.uint32) if column.dtype == np.float32 else column
                state = _mixed((state ^ words.astype(np.uint64)) + _STEP)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
