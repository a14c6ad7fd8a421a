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

from dpbt.base import Array
from dpbt.privacy import draws, variates
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.mechanism import LIMB, Mechanism
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
        small: whether the table has at most `base.MAX_ROWS` rows, so that its releases are int32.

    Returns:
        int32, clamped to +-SATURATION as in memory, or int64 of a large table, clamped to +-`MOST`.
        The output of a selection is int32.
    """
    release: Drawn = {}
    for site, total in totals.items():
        own, ask = draws.site_key(key, site), asked[site]
        if ask.mechanism.selects:
            release[site] = _selected(own, total, ask)
        else:
            release[site] = _noisy(own, total, ask, small)
    return release


def _noisy(key: Array, total: Any, asked: DrawSpec, small: bool) -> np.ndarray:
    """A sum with noise, which is added exactly."""
    assert asked.after is not None
    value = np.asarray(asked.after(total, *asked.told))
    assert value.dtype == np.int64
    high, low = _drawn(asked.mechanism)(key, *_limbs(value), asked.scale)
    noisy = (np.asarray(high).astype(np.int64) << LIMB) + np.asarray(low).astype(np.int64)
    most = SATURATION if small else MOST
    return np.clip(noisy, -most, most).astype(np.int32 if small else np.int64)


def _limbs(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """i32[...] high and low, for int64 value = 2^`LIMB` high + low."""
    return (value >> LIMB).astype(np.int32), (value & (2**LIMB - 1)).astype(np.int32)


@functools.cache
def _drawn(mechanism: Mechanism) -> Callable[..., tuple[Array, Array]]:
    """The draw of a mechanism from large totals, compiled once for each shape."""
    assert mechanism.wide is not None  # as `tracing.stages` says
    return jax.jit(mechanism.wide)


def _selected(key: Array, total: Any, asked: DrawSpec) -> np.ndarray:
    """The candidate that is drawn by scores of a sum, which float64 holds exactly."""
    assert asked.after is not None
    leaves, form = jax.tree.flatten(total)
    limbs = [_limbs(np.asarray(leaf)) for leaf in leaves]
    select = _selection(asked.mechanism, asked.after, form)
    return np.asarray(select(key, limbs, asked.told, asked.scale))


@functools.cache
def _selection(mechanism: Mechanism, after: Callable[..., Any], form: Any) -> Callable[..., Array]:
    """(key, limbs of a sum, told, scale) -> the output, compiled once for each shape."""

    def select(key: Array, limbs: Any, told: tuple[Any, ...], scale: Array) -> Array:
        with variates.double_precision():
            wholes = [
                variates.double(high) * np.float64(2**LIMB) + variates.double(low)
                for high, low in limbs
            ]
            value = after(jax.tree.unflatten(form, wholes), *told)
        return mechanism.sample(key, value, scale)

    return jax.jit(select)


def read(release: Mapping[str, np.ndarray]) -> dict[str, Array]:
    """The release as post-processing reads it: int64 as the nearest float32, others as they are."""
    return {
        site: jnp.asarray(array.astype(np.float32) if array.dtype == np.int64 else array)
        for site, array in release.items()
    }
