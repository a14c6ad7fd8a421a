"""From released sums to the leaves of an oblivious tree: public post-processing."""

import functools
import math

import jax.numpy as jnp
import numpy as np

from dpbt.arithmetic import rounded
from dpbt.base import GRID, NUMBER, Array, Numbers, Public, Response

_LN2 = math.log(2.0)


@functools.cache
def _neighbour_weights(depth: int, smoothing: float) -> np.ndarray:
    """f32[2^D, 2^D]: the weight of one leaf in another, by the number of bits they differ in."""
    leaves = np.arange(2**depth)
    bits = np.bitwise_count(leaves[:, None] ^ leaves[None, :])
    return (float(smoothing) ** bits).astype(np.float32)


def steps(
    sums: Array,
    rows: Array,
    smoothing: float,
    response: Response,
    deviation: Numbers,
    step: Numbers,
    limit: Numbers,
    curvature: Numbers,
    public: Public,
) -> Array:
    """f32[2^D], or f32[K, 2^D] with several classes: what each leaf adds to the score.

    Let G be the released sum in rows, sigma the standard deviation of its noise, and m the public
    estimate of the leaf's rows. A leaf is clip(s G / max(sigma + m h / 3, 1), -v, v). G, sigma and
    m add up other leaves too, with the weights of `smoothing`.

    - Two classes: the step is turned from nats into bits.
    - Several classes: residuals add up to 0 over classes, so what noise adds to all classes alike
      is taken off, and sigma becomes sqrt((K - 1) / K) of what it was. The step of each class is
      (K - 1) / K of that above, as for two classes scores of +H / 2 and -H / 2 differ by H.
    - A number: the step is in units of residuals (`Public.unit`).

    Args:
        sums: i32[2^D] or i32[K, 2^D], released, in grid units.
        rows: f32[2^D], m.
        smoothing: the weight of a leaf that differs in one bit.
        response: what is predicted.
        deviation: the standard deviation of the noise of a sum, in grid units.
        step: s.
        limit: v.
        curvature: h.
        public: of the round.
    """
    depth = sums.shape[-1].bit_length() - 1
    unit = jnp.asarray(public.cap, jnp.float32) / GRID
    near = jnp.asarray(_neighbour_weights(depth, smoothing))
    spread = jnp.sqrt(jnp.sum(near**2, axis=1))

    signal = (near @ (sums.astype(jnp.float32) * unit).T).T
    noise = rounded(rounded(deviation * unit) * spread)
    share = 1.0
    if response.axes:
        share = (response.classes - 1) / response.classes
        signal = signal - rounded(jnp.mean(signal, axis=0, keepdims=True))
        noise = rounded(noise * np.float32(math.sqrt(share)))

    expected = rounded((near @ rows) * curvature / 3)
    denominator = jnp.maximum(noise + expected, 1.0)
    found = jnp.clip(step * signal / jnp.broadcast_to(denominator, signal.shape), -limit, limit)
    if response == NUMBER:
        return rounded((found * public.unit).astype(jnp.float32))
    return rounded((found / _LN2 * np.float32(share)).astype(jnp.float32))


def monotone(leaf: Array, direction: Array) -> Array:
    """f32[2^D]: the leaves, made monotone in the levels that have a direction.

    A leaf is at most another if they differ only in levels with a direction, and the other is on
    the side of larger values at each of them. A leaf becomes the mean of two numbers: the largest
    leaf that is at most it, and the smallest that is at least it. Both are monotone, and so is
    their mean. Leaves that are monotone already stay as they are.

    Args:
        leaf: f32[2^D].
        direction: i32[D]: 1 where the right side must not be lower, -1 where it must not be higher,
            and 0 for a level without a constraint.
    """
    depth = direction.shape[0]
    highest = lowest = leaf
    for level in range(depth):
        shape = (2**level, 2, 2 ** (depth - level - 1))
        highest = _running(highest.reshape(shape), direction[level], jnp.maximum).reshape(-1)
        lowest = _running(lowest.reshape(shape), -direction[level], jnp.minimum).reshape(-1)
    return (highest + lowest) / 2


def _running(sides: Array, direction: Array, best: "np.ufunc | object") -> Array:
    """f32[A, 2, B]: the best of a side and of the one before it in the direction."""
    left, right = sides[:, 0], sides[:, 1]
    both = best(left, right)  # type: ignore[operator]
    new_left = jnp.where(direction < 0, both, left)
    new_right = jnp.where(direction > 0, both, right)
    return jnp.stack([new_left, new_right], axis=1)
