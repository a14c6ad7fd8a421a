"""One draw from the sums over all rows, which are added up block by block.

The sums are int64 on the host. The noise is that of `program_interpreters.sample` under the same
key, and is added exactly. So a table that is read in blocks has the releases of the same table in
memory.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common import compilation
from dpbt.privacy import variates
from dpbt.privacy.boundary import DrawSpec, site_key
from dpbt.privacy.mechanism_types import Mechanism
from dpbt.privacy.mechanisms import SATURATION
from dpbt.types import Array, Site

Totals = dict[Site, Any]
"""Site -> int64[...], or a pytree of such arrays: private sums over rows."""

WideRelease = dict[Site, np.ndarray]
"""Site -> int32[...] or int64[...]: the draws from the sums."""

MAX_LARGE_OUTPUT = 2**52
"""Releases of large tables are clamped to +-2^52, which float64 and int64 hold exactly."""


def add_sums(first: Totals | None, second: Mapping[Site, Any]) -> Totals:
    """The sums over two sets of rows, in int64; of the second alone if the first is None."""
    second_int64 = jax.tree.map(lambda array: np.asarray(array).astype(np.int64), dict(second))
    return second_int64 if first is None else jax.tree.map(np.add, first, second_int64)


def draw_from_sums(
    key: Array, totals: Totals, specs: Mapping[Site, DrawSpec], *, has_small_sums: bool
) -> WideRelease:
    """The release of a program from the sums over all rows.

    Args:
        key: the key of the program's noise, as `program_interpreters.sample` takes it.
        totals: the sum of each site that is drawn.
        specs: the mechanism, scale and value of the draw at each site.
        has_small_sums: whether the table has at most `types.MAX_ROWS` rows, so that its releases
            are int32.

    Returns:
        int32, clamped to +-SATURATION as in memory, or int64 of a large table, clamped to
        +-`MAX_LARGE_OUTPUT`. The output of a selection is int32.
    """
    release: WideRelease = {}
    for site, total in totals.items():
        spec = specs[site]
        assert spec.after is not None  # `pass_stages.pass_stages` refuses a draw without it
        scale = jnp.asarray(spec.scale, jnp.float32)
        with variates.double_precision():
            total_f64 = jax.tree.map(lambda array: np.asarray(array, np.float64), total)
            noise_key = site_key(key, site)
            output = np.asarray(
                _sample_from_sum(
                    noise_key, total_f64, spec.public, scale, spec.mechanism, spec.after
                )
            )
        if spec.mechanism.selects:
            release[site] = output
        elif has_small_sums:
            release[site] = np.clip(output, -SATURATION, SATURATION).astype(np.int32)
        else:
            clamped = np.clip(output, -MAX_LARGE_OUTPUT, MAX_LARGE_OUTPUT)
            release[site] = clamped.astype(np.int64)
    return release


@compilation.jit_with_bounded_cache(static_argnames=("mechanism", "after"))
def _sample_from_sum(
    key: Array,
    total: Any,
    public_inputs: tuple[Any, ...],
    scale: Array,
    mechanism: Mechanism,
    after: Callable[..., Any],
) -> Array:
    """The output of a draw from a sum in f64: in f64, or an index.

    For use within `variates.double_precision`.

    Args:
        key: the key of the site.
        total: the sum, f64[...] or a pytree of such arrays.
        public_inputs: what `after` reads besides the sum.
        scale: of the noise.
        mechanism: of the draw.
        after: (total, *public inputs) -> the value of the draw.
    """
    value = after(total, *public_inputs)
    if not mechanism.selects and value.dtype != np.float64:
        raise ValueError(f"the value of a draw from large sums must be float64, got {value.dtype}")
    return mechanism.sample(key, value, scale)


def release_as_float32(release: Mapping[Site, np.ndarray]) -> dict[Site, Array]:
    """The release for post-processing: int64 as the nearest float32, other arrays as they are."""
    return {
        site: jnp.asarray(array.astype(np.float32) if array.dtype == np.int64 else array)
        for site, array in release.items()
    }
