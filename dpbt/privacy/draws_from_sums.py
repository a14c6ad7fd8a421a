"""One draw from the sums over all rows, which are added up block by block.

The sums are int64 on the host. The noise is that of `program_interpreters.sample_release` under the
same key, and is added exactly. So a table that is read in blocks has the releases of the same table
in memory.
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

SumsBySite = dict[Site, Any]
"""Site -> int64[...], or a pytree of such arrays: private sums over rows."""

WideRelease = dict[Site, np.ndarray]
"""Site -> int32[...] or int64[...]: the draws from the sums."""

MAX_LARGE_OUTPUT = 2**52
"""Releases of large tables are clamped to +-2^52, which float64 and int64 hold exactly."""


def add_block_sums(sums_so_far: SumsBySite | None, block_sums: Mapping[Site, Any]) -> SumsBySite:
    """Add the sums over a block of rows to those so far, in int64.

    None stands for no sums so far.
    """
    block_sums_int64 = jax.tree.map(
        lambda array: np.asarray(array).astype(np.int64), dict(block_sums)
    )
    return (
        block_sums_int64
        if sums_so_far is None
        else jax.tree.map(np.add, sums_so_far, block_sums_int64)
    )


def draw_from_sums(
    key: Array, sums: SumsBySite, draw_specs: Mapping[Site, DrawSpec], *, has_small_sums: bool
) -> WideRelease:
    """Draw the release of a program from the sums over all rows.

    Args:
        key: the key of the program's noise, as `program_interpreters.sample_release` takes it.
        sums: the sum over all rows of each site that is drawn.
        draw_specs: the mechanism, the scale and the map `to_statistic` of the draw at each site.
        has_small_sums: whether the table has at most `types.MAX_ROWS` rows, so that its releases
            are int32.

    Returns:
        int32, clamped to +-SATURATION as in memory, or int64 of a large table, clamped to
        +-`MAX_LARGE_OUTPUT`. The output of a selection is int32.
    """
    release: WideRelease = {}
    for site, sum_over_rows in sums.items():
        spec = draw_specs[site]
        # `pass_stages.stages_of_phase` refuses a draw without it.
        assert spec.to_statistic is not None
        scale = jnp.asarray(spec.scale, jnp.float32)
        with variates.double_precision():
            sum_f64 = jax.tree.map(lambda array: np.asarray(array, np.float64), sum_over_rows)
            noise_key = site_key(key, site)
            output = np.asarray(
                _sample_draw_from_sum(
                    noise_key,
                    sum_f64,
                    public_inputs=spec.public_inputs,
                    scale=scale,
                    mechanism=spec.mechanism,
                    to_statistic=spec.to_statistic,
                )
            )
        if spec.mechanism.is_selection:
            release[site] = output
        elif has_small_sums:
            release[site] = np.clip(output, -SATURATION, SATURATION).astype(np.int32)
        else:
            clamped = np.clip(output, -MAX_LARGE_OUTPUT, MAX_LARGE_OUTPUT)
            release[site] = clamped.astype(np.int64)
    return release


@compilation.jit_with_bounded_cache(static_argnames=("mechanism", "to_statistic"))
def _sample_draw_from_sum(
    key: Array,
    sum_over_rows: Any,
    *,
    public_inputs: tuple[Any, ...],
    scale: Array,
    mechanism: Mechanism,
    to_statistic: Callable[..., Any],
) -> Array:
    """Sample the output of one draw from its sum over rows, in float64.

    The sum is f64, and so is the output, unless it is the index of a selection. For use within
    `variates.double_precision`.

    Args:
        key: the key of the site.
        sum_over_rows: f64[...] or a pytree of such arrays.
        public_inputs: what `to_statistic` reads besides the sum.
        scale: of the noise.
        mechanism: of the draw.
        to_statistic: (sum over rows, *public inputs) -> the statistic of the draw.
    """
    statistic = to_statistic(sum_over_rows, *public_inputs)
    if not mechanism.is_selection and statistic.dtype != np.float64:
        raise ValueError(
            f"the value of a draw from large sums must be float64, got {statistic.dtype}"
        )
    return mechanism.sample(key, statistic, scale)


def round_int64_release_to_float32(release: Mapping[Site, np.ndarray]) -> dict[Site, Array]:
    """Round the int64 arrays of a release to float32.

    Other arrays stay as they are.
    """
    return {
        site: jnp.asarray(array.astype(np.float32) if array.dtype == np.int64 else array)
        for site, array in release.items()
    }
