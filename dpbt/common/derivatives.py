"""Derivatives of programs that hold arrays of 64 bits inside of a program of 32 bits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.extend.core import jaxpr_as_fun

R = TypeVar("R")


def with_derivative_in_64_bits(function: Callable[..., R]) -> Callable[..., R]:
    """Wrap a function so that its derivative is computed where arrays may have 64 bits.

    A program of 32 bits may hold operations of 64 bits, which were traced in a scope of their own
    (`privacy.variates.double_precision`). JAX differentiates such a program after all of it was
    traced, outside of that scope, and there its rules would mix arrays of both widths.

    The operations of the function and their order stay as they are, and so do their bits.

    Args:
        function: from pytrees of arrays to a pytree of arrays; it closes over no traced array.
    """
    differentiable = jax.custom_jvp(function)

    @differentiable.defjvp
    def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[R, R]:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*primals)
        with jax.enable_x64(True):
            results = jax.jvp(
                jaxpr_as_fun(closed), jax.tree.leaves(primals), jax.tree.leaves(tangents)
            )
        structure = jax.tree.structure(shapes)
        primal, tangent = (jax.tree.unflatten(structure, leaves) for leaves in results)
        return primal, tangent

    @functools.wraps(function)
    def call_by_position(*arguments: Any) -> R:
        return differentiable(*arguments)

    return call_by_position
