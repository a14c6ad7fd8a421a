"""Randomness that never reads the rows: public structure, and the part of each place."""

import jax
import jax.numpy as jnp

from dpbt.base import Array
from dpbt.privacy.keys import words
from dpbt.privacy.mechanism import Mechanism, Numbers, Sampler
from dpbt.privacy.mechanisms.common import no_tail
from dpbt.privacy.mechanisms.prices import FREE


def _remainder(high: Array, low: Array, scale: Numbers) -> Array:
    """u32[...]: 2^32 high + low modulo scale; low modulo scale if scale is above 2^16."""
    count = jnp.asarray(scale).astype(jnp.uint32)
    radix = 2**16 % count
    return ((high % count) * (radix * radix % count) + low % count) % count


def _uniform_sample(key: Array, value: Array, scale: Numbers) -> Array:
    if jnp.issubdtype(value.dtype, jnp.integer):
        high, low = words(key, 2, value.shape)
        return _remainder(high, low, scale).astype(value.dtype)
    return jax.random.uniform(key, value.shape, value.dtype) * scale


def _assignment_sample(key: Array, value: Array, scale: Numbers) -> Array:
    """Each place has its own key, so that its part does not depend on how many places follow."""
    places = jnp.arange(value.size, dtype=jnp.uint32)

    def bits_of(place: Array) -> Array:
        return jax.random.bits(jax.random.fold_in(key, place), (2,), jnp.uint32)

    high, low = jax.vmap(bits_of)(places).T
    return _remainder(high, low, scale).astype(value.dtype).reshape(value.shape)


def _uniform_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    del value
    inside = (output >= 0) & (output < scale)
    return jnp.where(inside, -jnp.log(jnp.asarray(scale, jnp.float32)), -jnp.inf)


def _uniform_divergence(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> Array:
    del value, other_value
    return jnp.where(scale == other_scale, 0.0, jnp.inf)


uniform = Mechanism(
    "uniform",
    _uniform_sample,
    _uniform_log_prob,
    _uniform_divergence,
    _uniform_divergence,
    FREE,
    Sampler(gap=0.0, tail=no_tail),
    public=True,
)
"""Public randomness: reals in [0, scale), or integers 0..scale - 1 where the value holds integers.

It is 0-DP. It reads only the shape and the dtype of the value, which are public, and never what the
value holds. `scale` must be public too. It draws with the public key, because its output is
published, and published output must tell nothing about the key of the noise.

Integers are 64 random bits modulo scale, so they are uniform to within scale 2^-64. If scale is
above 2^16, they are 32 random bits modulo scale. Reals are multiples of 2^-23 times scale.
"""

assignment = uniform._replace(name="assignment", sample=_assignment_sample, public=False)
"""`uniform` integers from the key of the noise, for draws that are withheld from the model.

It is 0-DP as `uniform`. The first outputs do not depend on how many follow. An example is the part
of a table that each place belongs to.
"""
