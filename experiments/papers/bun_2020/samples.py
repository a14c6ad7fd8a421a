"""Samples of rows with a margin, and with a direction that misleads."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from dpbt.base import Table
from experiments.papers.bun_2020.settings import AGREEING, DIMENSION, SPURIOUS, TEST_ROWS


def sample(
    seed: Sequence[int], rows: int, tau: float, noise: float, tests: int = TEST_ROWS
) -> tuple[Table, np.ndarray]:
    """Training rows, then test rows, with a margin of tau; and the target u f64[d].

    A row is x = y m u + y a c w + r. The margin m is uniform in [tau, 2 tau], and c = SPURIOUS. The
    sign a is 1 with probability AGREEING, and else -1. The direction w is orthogonal to u. The rest
    r is uniform in the orthogonal complement of u and w, and makes x a unit vector.

    Args:
        seed: the seed of all draws.
        rows: the number of training rows.
        tau: the margin, in (0, 0.4].
        noise: the probability that a training row's label is flipped.
        tests: the number of test rows, which have clean labels.

    Raises:
        ValueError: if the margin leaves no room on the unit sphere.
    """
    if not 0 < tau <= 0.4:
        raise ValueError(f"tau must be in (0, 0.4], got {tau}")
    rng, count = np.random.default_rng(seed), rows + tests
    basis = np.linalg.qr(rng.normal(size=(DIMENSION, DIMENSION)))[0]
    sign = rng.choice([-1.0, 1.0], count)
    margin = rng.uniform(tau, 2 * tau, count)
    agrees = np.where(rng.random(count) < AGREEING, SPURIOUS, -SPURIOUS)
    rest = rng.normal(size=(count, DIMENSION - 2))
    rest *= (np.sqrt(1 - margin**2 - SPURIOUS**2) / np.linalg.norm(rest, axis=1))[:, None]
    features = np.column_stack([sign * margin, sign * agrees, rest]) @ basis.T

    flipped = (rng.random(count) < noise) & (np.arange(count) < rows)
    label = jnp.asarray((sign > 0) ^ flipped)
    table = Table(jnp.asarray(features, jnp.float32), label, jnp.ones(count, bool))
    return table, basis[:, 0]
