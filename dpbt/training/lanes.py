"""Work that only some lanes of a `jax.vmap` need."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from dpbt.types import Array


def run_in_lanes_that_need_it(
    is_needed: Array,
    run: Callable[..., Any],
    skip: Callable[..., Any],
    *inputs: Any,
) -> Any:
    """Run work in the lanes of a vmap that need it, and take what `skip` returns in the others.

    If no lane needs it, `run` does not run. (A cond on a batched flag would run both functions, and
    copy their inputs for every lane.)

    Args:
        is_needed: bool[].
        run: the work. It is traced first.
        skip: the result of a lane that does not need it, of the structure, shapes and types of what
            `run` returns.
        inputs: of both functions.
    """

    def run_and_select(*inputs: Any) -> Any:
        result = run(*inputs)
        return jax.tree.map(
            lambda ran, skipped: jnp.where(is_needed, ran, skipped), result, skip(*inputs)
        )

    return jax.lax.cond(_any_lane(is_needed), run_and_select, skip, *inputs)


@jax.custom_batching.custom_vmap
def _any_lane(flag: Array) -> Array:
    """The flag itself, or under vmap whether any lane has it.

    So a cond on it stays a cond under vmap.
    """
    return flag


@_any_lane.def_vmap
def _batch_any_lane(axis_size: int, in_batched: Sequence[bool], flag: Array) -> tuple[Array, bool]:
    return (_any_lane(jnp.any(flag, axis=0)) if in_batched[0] else flag), False
