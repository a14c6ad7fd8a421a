"""Randomness that never reads the rows: public structure, and which part each place belongs to."""

import jax
import jax.numpy as jnp

from dpbt.base import Array
from dpbt.privacy.keys import words
from dpbt.privacy.mechanism import Mechanism, Numbers, Sampler
from dpbt.privacy.mechanisms.common import no_tail
from dpbt.privacy.mechanisms.prices import FREE


def _remainder(high: Array, low: Array, scale: Numbers) -> Array:
    """u32[...]: 2^32 high + low modulo scale; of low alone where scale is above 2^16."""
    count = jnp.asarray(scale).astype(jnp.uint32)
    radix = 2**16 % count
    return ((high % count) * (radix * radix % count) + low % count) % count


def _uniform_sample(key: Array, value: Array, scale: Numbers) -> Array:
    if jnp.issubdtype(value.dtype, jnp.integer):
        high, low = words(key, 2, value.shape)
        return _remainder(high, low, scale).astype(value.dtype)
    return jax.random.uniform(key, value.shape, value.dtype) * scale


def _assignment_sample(key: Array, value: Array, scale: Numbers) -> Array:
    """Each place has a key of its own, so that it does not depend on how many places follow."""
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

0-DP: only the shape and the dtype of the value are read, which are public, and never what it holds.
`scale` must be public too. It is drawn with the public key, as what it says is published: known
output must tell nothing of the key that the noise comes from. Integers are drawn from 64 random
bits modulo scale, so uniform to within scale * 2^-64 (from 32 bits where scale is above 2^16);
reals are multiples of 2^-23 times scale.
"""

assignment = uniform._replace(name="assignment", sample=_assignment_sample, public=False)
"""`uniform` integers from the key of the noise, for what never reads the rows and is withheld.

0-DP as `uniform`. The first outputs do not depend on how many follow. Which part of a table a place
belongs to is an example.
"""
