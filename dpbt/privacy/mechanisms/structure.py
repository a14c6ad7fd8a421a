"""Randomness that never reads the rows: public structure, and the part of each place."""

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.types import Array
from dpbt.privacy.keys import words
from dpbt.privacy.mechanism import FREE, Mechanism, Numbers, Sampler, StepLoss


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


def _bits_at(key: Array, place: Array) -> Array:
    """u32[2] for a place u32[]; it has a key of its own."""
    return jax.random.bits(jax.random.fold_in(key, place), (2,), jnp.uint32)


_PLACES = 2**14
"""How many places of a block are drawn at once, so that their keys take little memory."""


def _root_of(key: Array, high: Array) -> Array:
    """The key of 2^32 places that begin at 2^32 high; the first are those of `key` itself.

    The others hang on a child by split, and the first places on children by fold_in. Of a release
    key these never meet (`keys`).
    """
    other = jax.random.fold_in(jax.random.split(key)[1], high)
    data = jnp.where(high == 0, jax.random.key_data(key), jax.random.key_data(other))
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(key))


def _assignment_at(key: Array, value: Array, scale: Numbers, place: Array) -> Array:
    """The parts of some places of a table; each place has its own key, whatever places follow."""
    high, first = place
    here, beyond = (jax.random.key_data(_root_of(key, high + np.uint32(k))) for k in (0, 1))

    def bits_of(low: Array) -> Array:
        data = jnp.where(low < first, beyond, here)  # where the low word began anew
        return _bits_at(jax.random.wrap_key_data(data, impl=jax.random.key_impl(key)), low)

    lows = first + jnp.arange(value.size, dtype=jnp.uint32)
    bits = jax.lax.map(bits_of, lows, batch_size=min(_PLACES, value.size))
    return _remainder(bits[:, 0], bits[:, 1], scale).astype(value.dtype).reshape(value.shape)


def _assignment_sample(key: Array, value: Array, scale: Numbers) -> Array:
    return _assignment_at(key, value, scale, jnp.zeros(2, jnp.uint32))


def _uniform_log_prob(output: Array, value: Array, scale: Numbers) -> Array:
    inside = (output >= 0) & (output < scale)
    return jnp.where(inside, -jnp.log(jnp.asarray(scale, jnp.float32)), -jnp.inf)


def _uniform_loss(
    value: Array, scale: Numbers, other_value: Array, other_scale: Numbers
) -> StepLoss:
    told_apart = jnp.where(scale == other_scale, 0.0, jnp.inf)
    return StepLoss(told_apart, told_apart)


uniform = Mechanism(
    "uniform",
    _uniform_sample,
    _uniform_log_prob,
    _uniform_loss,
    FREE._replace(sampler=Sampler(gap=0.0)),
    public=True,
)
"""Public randomness: reals in [0, scale), or integers 0..scale - 1 where the value holds integers.

It is 0-DP. It reads only the shape and the dtype of the value, which are public, and never what the
value holds. `scale` must be public too. It draws with the public key, because its output is
published, and published output must tell nothing about the key of the noise.

Integers are 64 random bits modulo scale, so they are uniform to within scale 2^-64. If scale is
above 2^16, they are 32 random bits modulo scale. Reals are multiples of 2^-23 times scale.
"""

assignment = uniform._replace(
    name="assignment", sample=_assignment_sample, public=False, at=_assignment_at
)
"""`uniform` integers from the key of the noise, for draws that are withheld from the model.

It is 0-DP as `uniform`. The first outputs do not depend on how many follow. An example is the part
of a table that each place belongs to. So a table that is read in parts has the outputs of the whole
one, if each part knows its first place. There are 2^64 places.
"""
