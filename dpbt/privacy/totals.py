"""Drawing once from sums over all rows, which were added up in parts.

The sums are int64 on the host. The noise is that of `boundary.sample` under the same key, and is
added exactly. So a table that is read in parts has the releases of the same table in memory.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.types import Array
from dpbt.privacy import variates
from dpbt.privacy.boundary import DrawSpec, site_key
from dpbt.privacy.mechanism import Mechanism
from dpbt.privacy.mechanisms.additive import SATURATION

Totals = dict[str, Any]
"""Site -> int64[...], or a pytree of such arrays: private sums over rows."""

Drawn = dict[str, np.ndarray]
"""Site -> int32[...] or int64[...]: what was drawn from the sums."""

MOST = 2**52
"""Releases of large tables are clamped to +-MOST, which float64 and int64 hold exactly."""


def add(first: Totals | None, second: Mapping[str, Any]) -> Totals:
    """The sums over two sets of rows, in int64."""
    wide = jax.tree.map(lambda part: np.asarray(part).astype(np.int64), dict(second))
    return wide if first is None else jax.tree.map(np.add, first, wide)


def draw(key: Array, totals: Totals, asked: Mapping[str, DrawSpec], *, small: bool) -> Drawn:
    """The release of a program from the sums over all rows.

    Args:
        key: the key of the program's noise, as `boundary.sample` takes it.
        totals: the sum of each site that is drawn.
        asked: what the draw of each site asks for.
        small: whether the table has at most `types.MAX_ROWS` rows, so that its releases are int32.

    Returns:
        int32, clamped to +-SATURATION as in memory, or int64 of a large table, clamped to +-`MOST`.
        The output of a selection is int32.
    """
    release: Drawn = {}
    for site, total in totals.items():
        spec = asked[site]
        leaves, form = jax.tree.flatten(total)
        limbs = [(leaf >> _LIMB, leaf & (2**_LIMB - 1)) for leaf in map(np.asarray, leaves)]
        limbs = jax.tree.map(lambda limb: limb.astype(np.int32), limbs)
        assert spec.after is not None  # as `pricing.stages` says
        sampler = _sampler(spec.mechanism, spec.after, form)
        high, low = sampler(site_key(key, site), limbs, spec.told, spec.scale)
        if spec.mechanism.selects:
            release[site] = np.asarray(low)
            continue
        noisy = (np.asarray(high).astype(np.int64) << _LIMB) + np.asarray(low).astype(np.int64)
        most = SATURATION if small else MOST
        release[site] = np.clip(noisy, -most, most).astype(np.int32 if small else np.int64)
    return release


_LIMB = 30
"""Whole numbers beyond int32 are two int32: high 2^30 + low, with low in 0..2^30 - 1."""


@functools.cache
def _sampler(mechanism: Mechanism, after: Callable[..., Any], form: Any) -> Callable[..., Any]:
    """(key, limbs of a sum, told, scale) -> limbs of the output, compiled once for each shape.

    The index of a selection is a low limb.
    """
    base = np.float64(2**_LIMB)

    def sample(key: Array, limbs: Any, told: tuple[Any, ...], scale: Array) -> tuple[Array, Array]:
        with variates.double_precision():
            wholes = [base * variates.double(high) + variates.double(low) for high, low in limbs]
            value = after(jax.tree.unflatten(form, wholes), *told)
            if not mechanism.selects and value.dtype != np.float64:
                raise ValueError(
                    f"the value of a draw from large sums must be float64, got {value.dtype}"
                )
        output = mechanism.sample(key, value, scale)
        if mechanism.selects:
            return jnp.zeros_like(output), output
        with variates.double_precision():
            above = jnp.floor(output / base)
            return above.astype(jnp.int32), (output - base * above).astype(jnp.int32)

    return jax.jit(sample)


def read(release: Mapping[str, np.ndarray]) -> dict[str, Array]:
    """The release as post-processing reads it: int64 as the nearest float32, others as they are."""
    return {
        site: jnp.asarray(array.astype(np.float32) if array.dtype == np.int64 else array)
        for site, array in release.items()
    }
