"""Small tables for attacks, and words of random bits that force an outcome of a sampler."""

import functools
import inspect
import math

import jax
import numpy as np
import pytest

import dpbt
from dpbt.data.splits import table_of_splits
from dpbt.privacy import mechanisms

GRID = 127


@functools.cache
def sampler_on_words(mechanism):
    """The mechanism on chosen words: one program of (words, value, scale) for all of them."""
    sample = inspect.unwrap(mechanism.sample)  # JAX would keep its trace, with these words

    def run(words, value, scale):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mechanisms, "random_words", lambda key, count, shape: words)
            return sample(jax.random.key(0), value, scale)

    return jax.jit(run)


def table_of_one_split(rows: int = 300, seed: int = 0) -> dpbt.Table:
    """A table of one split, so that every tree of depth one has the same leaves."""
    rng = np.random.default_rng(seed)
    side = rng.random(rows) < 0.4
    label = side ^ (rng.random(rows) < 0.3)
    return table_of_splits(side[:, None], label, np.ones(rows, bool))


def class_counts_by_side(table: dpbt.Table) -> np.ndarray:
    """i64[2, 2]: the rows of each side of the first split and each class."""
    side, label, present = (np.asarray(array).astype(bool) for array in table[:3])
    side = side[:, 0]
    return np.array(
        [[np.sum(present & (side == s) & (label == y)) for y in (0, 1)] for s in (0, 1)], np.int64
    )


def exponential_words(target: np.ndarray, positive: np.ndarray | bool = True) -> np.ndarray:
    """u32[4, ...]: words that make an exponential variable `target`, and a sign.

    The variable is -log(U). The first bit says from which end of (0, 1) U is measured, the second
    is the sign (set for a minus), and 126 bits are the distance from that end.
    """
    target = np.asarray(target, np.float64)
    near_one = target < math.log(2)
    distance = np.where(near_one, -np.expm1(-target), np.exp(-target))
    lattice = [int(d * 2.0**31 * 2.0**96) for d in distance.reshape(-1)]
    signs = np.broadcast_to(~np.asarray(positive, bool), target.shape).reshape(-1)
    return words_of_lattice(lattice, near_one.reshape(-1), signs).reshape(4, *target.shape)


def words_of_lattice(lattice: list[int], near_one: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """u32[4, n] from 126-bit distances, the end that they are measured from, and signs."""
    top = np.array([min(point >> 96, 2**30 - 1) for point in lattice], np.uint64)
    rest = [
        np.array([(point >> shift) & 0xFFFFFFFF for point in lattice], np.uint64)
        for shift in (64, 32, 0)
    ]
    first = (near_one.astype(np.uint64) << 31) | (minus.astype(np.uint64) << 30) | top
    return np.stack([first, *rest]).astype(np.uint32)


def unit_words(share: np.ndarray) -> np.ndarray:
    """u32[2, ...]: words of a uniform variable `share` in (0, 1)."""
    scaled = np.asarray(share, np.float64) * 2.0**32
    high = np.floor(scaled)
    low = np.floor((scaled - high) * 2.0**32)
    return np.stack([high, np.minimum(low, 2.0**32 - 1)]).astype(np.uint32)


def laplace_words(noise: np.ndarray, scale: float) -> np.ndarray:
    """u32[8, ...]: words that make discrete Laplace noise exactly `noise`."""
    noise = np.asarray(noise, np.int64)
    size = np.abs(noise).astype(np.float64)
    if scale < 2.0**13:
        shift = math.log(2) - math.log1p(math.exp(-1 / scale))
        waiting_time = np.maximum((size + 0.5) / scale - shift, 0.2 / scale)
        return np.concatenate(
            [
                exponential_words(waiting_time, noise >= 0),
                unit_words(np.full((2, *noise.shape), 0.5)).reshape(4, *noise.shape),
            ]
        )
    step = 2.0 ** (math.floor(math.log2(scale)) - 12)
    high, low = np.divmod(np.maximum(size - 1, 0), step)
    waiting_time = (high + 0.5) * step / scale
    share = -np.expm1(-(low + 0.5) / scale) / -math.expm1(-step / scale)
    is_zero = np.where(size == 0, 2.0**-64, 0.999)
    parts = [exponential_words(waiting_time, noise >= 0), unit_words(share), unit_words(is_zero)]
    return np.concatenate(parts)


def gaussian_words(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """u32[6, ...]: words that make a pair of standard normal variables."""
    half_square = (first**2 + second**2) / 2
    turn = np.mod(np.arctan2(second, first) / (2 * math.pi), 1.0)
    return np.concatenate([exponential_words(half_square), unit_words(turn)])
