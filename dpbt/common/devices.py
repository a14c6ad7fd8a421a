"""Programs whose arrays lie on several devices.

JAX has two ways to divide arrays among the devices of a mesh. With `jax.device_put` an array has
its parts on the devices, and a program reads it as one array. Where the axes of the mesh are
explicit, as those of `jax.make_mesh` are, the type of every array says how it is divided, and many
functions of JAX refuse divided arrays. `run_divided_by_compiler` leaves the division within a
program to the compiler.

Within `jax.shard_map` a program runs on each device, and the type of every array says whether
devices hold different values of it. A loop must begin with the types that it ends with, so what
starts as a constant is marked by `vary_like`.

Neither changes a value, and programs on one device are as they are without them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

R = TypeVar("R")

REPLICATED = PartitionSpec()
"""The division of an array of which every device has a copy."""


def run_divided_by_compiler(
    function: Callable[..., R], *arguments: Any, divisions: Any = REPLICATED
) -> R:
    """Run a function, divided by the compiler among devices where arguments have explicit axes.

    Args:
        function: from pytrees of arrays to a pytree of arrays; it closes over no traced array.
        arguments: pytrees of arrays, traced.
        divisions: a `PartitionSpec` for each array of the result, or for each part of its pytree.
    """
    mesh = _explicit_mesh(arguments)
    if mesh is None:
        return function(*arguments)
    shardings = jax.tree.map(
        lambda division: NamedSharding(mesh, division),
        divisions,
        is_leaf=lambda node: isinstance(node, PartitionSpec),
    )
    axes = tuple(
        name
        for name, axis_type in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if axis_type == AxisType.Explicit
    )
    divided: Any = jax.sharding.auto_axes(function, axes=axes, out_sharding=shardings)
    return divided(*arguments)


def _explicit_mesh(arguments: Any) -> AbstractMesh | None:
    """The mesh with explicit axes that an argument lies on, or that is set.

    It is None if there is no such mesh.
    """
    meshes = [jax.typeof(leaf).sharding.mesh for leaf in jax.tree.leaves(arguments)]
    meshes.append(jax.sharding.get_abstract_mesh())
    return next((mesh for mesh in meshes if AxisType.Explicit in mesh.axis_types), None)


def division_of(array: Any) -> PartitionSpec:
    """How an array is divided among devices where its axes are explicit.

    It is `REPLICATED` elsewhere.
    """
    return jax.typeof(array).sharding.spec


def is_within_shard_map() -> bool:
    """Whether the program that is being traced runs on each device of a mesh by itself."""
    return AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types


def vary_like(arrays: Any, reference: Any) -> Any:
    """Mark arrays to vary over the devices over which any array of the reference varies.

    Args:
        arrays: a pytree of arrays.
        reference: a pytree of arrays, or of their `jax.ShapeDtypeStruct`.
    """
    axes = _varying_axes(reference)
    return jax.tree.map(lambda array: _mark_as_varying(array, axes), arrays) if axes else arrays


def _varying_axes(tree: Any) -> frozenset[Any]:
    """The axes of the mesh of a `shard_map` over which any array of a pytree varies."""
    return frozenset().union(*map(_varying_axes_of_array, jax.tree.leaves(tree)))


def _varying_axes_of_array(array: Any) -> frozenset[Any]:
    """The axes of the mesh over which an array varies.

    They are read from its type in any supported version of JAX.
    """
    array_type = array if isinstance(array, jax.ShapeDtypeStruct) else jax.typeof(array)
    if (manual_type := getattr(array_type, "manual_axis_type", None)) is not None:
        return manual_type.varying
    return getattr(array_type, "vma", None) or frozenset()  # before JAX 0.10


def _mark_as_varying(array: Any, axes: frozenset[Any]) -> Any:
    """Mark an array to vary over these axes, too."""
    missing = tuple(sorted(axes - _varying_axes_of_array(array)))
    if not missing:
        return array
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, missing, to="varying")
    return jax.lax.pvary(array, missing)  # pyright: ignore  # before JAX 0.9
