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
from dpbt.privacy import boundary
from dpbt.privacy.boundary import Asked
from dpbt.privacy.mechanism import LIMB, Mechanism
from dpbt.privacy.mechanisms.additive import SATURATION

Totals = dict[str, np.ndarray]
"""Site -> int64[...]: private sums over rows."""

MOST = 2**52
"""Releases of large tables are clamped to +-MOST, which float64 and int64 hold exactly."""


def add(first: Totals | None, second: Mapping[str, Any]) -> Totals:
    """The sums over two sets of rows, in int64."""
    wide = {site: np.asarray(part).astype(np.int64) for site, part in second.items()}
    return wide if first is None else {site: first[site] + part for site, part in wide.items()}


def draw(key: Array, totals: Totals, asked: Mapping[str, Asked], *, small: bool) -> Totals:
    """The release of a program from the sums over all rows.

    Args:
        key: the key of the program's noise, as `boundary.sample` takes it.
        totals: the sum of each site.
        asked: what the draw of each site asks for.
        small: whether the table has at most `base.MAX_ROWS` rows, so that its releases are int32.

    Returns:
        int32, clamped to +-SATURATION as in memory, or int64 of a large table, clamped to +-`MOST`.
    """
    release: Totals = {}
    for site, ask in asked.items():
        value = np.asarray(ask.after(totals[site]))
        assert value.dtype == np.int64, site
        high, low = (value >> LIMB).astype(np.int32), (value & (2**LIMB - 1)).astype(np.int32)
        high, low = _drawn(ask.mechanism)(boundary.site_key(key, site), high, low, ask.scale)
        noisy = (np.asarray(high).astype(np.int64) << LIMB) + np.asarray(low).astype(np.int64)
        most = SATURATION if small else MOST
        release[site] = np.clip(noisy, -most, most).astype(np.int32 if small else np.int64)
    return release


@functools.cache
def _drawn(mechanism: Mechanism) -> Callable[..., tuple[Array, Array]]:
    """The draw of a mechanism from large totals, compiled once for each shape."""
    assert mechanism.wide is not None  # as `boundary.additive_sites` says
    return jax.jit(mechanism.wide)


def read(release: Mapping[str, np.ndarray]) -> dict[str, Array]:
    """The release as post-processing reads it: int64 as the nearest float32, others as they are."""
    return {
        site: jnp.asarray(array.astype(np.float32) if array.dtype == np.int64 else array)
        for site, array in release.items()
    }
