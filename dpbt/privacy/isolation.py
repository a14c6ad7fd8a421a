"""Isolated tracing of authors' functions, so that arrays pass between them as arguments alone.

Authors write functions of private rows, such as a program, and functions of public information,
such as a hypothesis. In Python one of them could keep an array in a list, and the other could read
it. So each is traced by itself: an array that a function keeps is dead when its trace ends, and JAX
refuses to use it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
from jax.extend.core import jaxpr_as_fun

from dpbt.common.validate import is_traced
from dpbt.privacy import dataflow


def evaluate_in_isolated_trace(function: Callable[..., Any], *arguments: Any) -> Any:
    """Evaluate a function on its arguments in a trace of its own, and return the result.

    The function sees tracers alone.

    Nobody can read what it keeps of its arguments after it returns. The operations are those of a
    direct call, in the same order, so all bits are the same.

    Args:
        function: from pytrees of arrays to a pytree of arrays.
        arguments: pytrees of arrays, traced or not.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    check_closes_over_no_mutable_array("a function of rows", closed)
    return evaluate_closed_jaxpr(closed, shapes, arguments)


def evaluate_public_function(
    function_noun: str, function: Callable[..., Any], *arguments: Any
) -> Any:
    """Evaluate an author's function, and refuse it if it reads more than its public arguments.

    The function gets copies of containers.

    Args:
        function_noun: a noun for the function, which errors begin with.
        function: from pytrees of arrays to a pytree of arrays.
        arguments: the public pytrees of arrays that it may read.

    Raises:
        ValueError: if it reads an array of a running trace that is not among its arguments, such as
            one that a program kept of its rows.
        jax.errors.UnexpectedTracerError: if it reads an array of a trace that has ended.
    """
    traced = trace_public_function(function_noun, function, *arguments)
    if not is_traced(*jax.tree.leaves(arguments)):
        # Outside of a trace the function is called directly, because JAX compiles its own functions
        # as a whole there, and rounds them so. Arrays kept of rows are dead, and a traced result
        # is discarded.
        result = function(*jax.tree.map(lambda leaf: leaf, arguments))
        if not is_traced(*jax.tree.leaves(result)):
            return result
    return evaluate_closed_jaxpr(traced.closed_jaxpr, traced.result_shapes, arguments)


class TracedFunction(NamedTuple):
    """The trace of a function: its closed jaxpr and the shapes of its result.

    Attributes:
        closed_jaxpr: its closed jaxpr.
        result_shapes: the pytree of the shapes of its result.
    """

    closed_jaxpr: Any
    result_shapes: Any


def trace_public_function(
    function_noun: str, function: Callable[..., Any], *arguments: Any
) -> TracedFunction:
    """Trace an author's function, and refuse it if it reads more than its arguments.

    Raises:
        ValueError: as `evaluate_public_function`.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    check_closes_over_no_mutable_array(function_noun, closed)
    if reading := sorted(dataflow.operation_names(closed.jaxpr) & dataflow.CALLBACKS):
        raise ValueError(
            f"{function_noun} reads what Python holds by {reading}, which may follow from rows"
        )
    if is_traced(*closed.consts):
        raise ValueError(
            f"{function_noun} reads a traced array that it was not given, which may follow from "
            "private rows; it may read its arguments alone"
        )
    return TracedFunction(closed, shapes)


def check_closes_over_no_mutable_array(function_noun: str, closed_jaxpr: Any) -> None:
    """Refuse a traced function that closes over a mutable array of JAX (`jax.new_ref`).

    Raises:
        ValueError: naming the function.
    """
    if any("Ref" in type(variable.aval).__name__ for variable in closed_jaxpr.jaxpr.constvars):
        raise ValueError(
            f"{function_noun} reads or writes a mutable array (jax.new_ref) that it closes over, "
            "which could carry private rows past every draw"
        )


def evaluate_closed_jaxpr(closed_jaxpr: Any, result_shapes: Any, arguments: Any) -> Any:
    """Evaluate a closed jaxpr on pytrees of arguments.

    The result has the pytree of `result_shapes`.
    """
    outputs = jaxpr_as_fun(closed_jaxpr)(*jax.tree.leaves(arguments))
    return jax.tree.unflatten(jax.tree.structure(result_shapes), outputs)


@jax.tree_util.register_pytree_with_keys_class
class ReadOnlyMapping(Mapping[str, Any]):
    """An immutable mapping, such as the noise multipliers that a program reads.

    It is a pytree, as a dict is. Changing an entry raises TypeError.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any]):
        object.__setattr__(self, "_items", tuple(sorted(items.items())))

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("a read-only mapping cannot be changed")

    def __getitem__(self, name: str) -> Any:
        return dict(self._items)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"ReadOnlyMapping({dict(self._items)})"

    def tree_flatten_with_keys(self) -> tuple[Any, tuple[str, ...]]:
        """The entries with their names, and the names."""
        entries = [(jax.tree_util.DictKey(name), value) for name, value in self._items]
        return entries, tuple(self)

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], values: Any) -> "ReadOnlyMapping":
        """The mapping of names and values."""
        return cls(dict(zip(names, values, strict=True)))
