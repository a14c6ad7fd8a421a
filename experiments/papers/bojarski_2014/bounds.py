"""Bounds on the error that the theorems prove from the trees' average training accuracy."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import AnyArray
from experiments.common import forest_bounds
from experiments.papers.bojarski_2014.settings import ANALYSIS, SURE


def bounds(
    voting: str,
    private: bool,
    epsilon: AnyArray,
    rows: int,
    eta: float,
    heights: Sequence[int],
    sizes: Sequence[int],
) -> forest_bounds.Bound:
    """f32[trees, heights]: the empirical error's bound (Theorems 5.4 to 5.6 and 5.8).

    Args:
        voting: the voting rule.
        private: whether the forest is private.
        epsilon: f32[heights], one minus the average accuracy.
        rows: the number of training rows.
        eta: the budget.
        heights: the heights of the trees.
        sizes: the numbers of trees.
    """
    trees = jnp.asarray(sizes, jnp.float32)[:, None]
    height, epsilon = jnp.asarray(heights, jnp.float32)[None], jnp.asarray(epsilon)[None]
    constants = (ANALYSIS["delta"], ANALYSIS["big_k"], ANALYSIS["c"])
    bound = _bound(voting, private, epsilon, rows, eta, height, trees, *constants)
    return jax.tree.map(lambda x: np.broadcast_to(x, (len(sizes), len(heights))), bound)


def _bound(
    voting, private, epsilon, rows, eta, height, trees, delta, big_k, c
) -> forest_bounds.Bound:
    if private:
        more = {"height": height, "big_k": big_k, "c": c}
        return forest_bounds.private_by_accuracy(voting, epsilon, rows, trees, eta, delta, **more)
    # The theorem has k = (1 + C) ln n / (2 delta^2) trees; solve for the C of its probability.
    big_c = 2 * trees * delta**2 / np.log(rows) - 1
    return forest_bounds.by_accuracy(voting, epsilon, rows, delta, big_c, c=c)


def least_bounds(
    voting: str,
    private: bool,
    epsilon: AnyArray,
    rows: int,
    eta: float,
    heights: Sequence[int],
    sizes: Sequence[int],
) -> np.ndarray:
    """f32[trees, heights]: the smallest error proved with probability SURE for any constants.

    It is NaN where no error is proved. The constants are 97 values of delta, 24 of K (if private),
    and the c at which the coins fail with probability 1 %. Arguments are those of `bounds`.
    """
    c = float(np.sqrt(np.log(100) / (2 * rows)))
    many = np.geomspace(3, 3000, 24) if private else [1.0]
    axes = [
        jnp.asarray(x, jnp.float32) for x in (np.linspace(0.01, 0.49, 97), many, sizes, heights)
    ]
    delta, big_k, trees, height = jnp.meshgrid(*axes, indexing="ij", sparse=True)
    epsilon = jnp.asarray(epsilon, jnp.float32)[None, None, None]
    found = _bound(voting, private, epsilon, rows, eta, height, trees, delta, big_k, c)
    best = np.min(np.where(found.probability >= SURE, found.error, np.inf), axis=(0, 1))
    return np.where(np.isfinite(best), best, np.nan)
