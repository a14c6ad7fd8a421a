"""Functions that are traced apart, so that nothing they hold on to reaches another function.

Authors write functions of private rows, such as a program, and functions of what is public, such as
a hypothesis. Python lets the one keep an array in a list, and the other read it. So each is traced
by itself: what a function keeps of a trace is dead when the trace ends, and JAX refuses to use it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
from jax.extend.core import jaxpr_as_fun

from dpbt.common.validate import is_traced
from dpbt.privacy import dataflow


def evaluate_isolated(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, worked out by its trace; the function sees no array that has values.

    What it keeps of its arguments cannot be read once it returns. The operations are those of a
    direct call, in the same order, so all bits are the same.

    Args:
        function: from pytrees of arrays to a pytree of arrays.
        arguments: pytrees of arrays, traced or not.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    check_references("a function of rows", closed)
    return evaluate_closed(closed, shapes, arguments)


def evaluate_public(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)` for an author's function of what is public, traced apart from rows.

    Its arguments are copies, as far as they are containers.

    Args:
        what: what the function is, for the error.
        function: from pytrees of arrays to a pytree of arrays.
        arguments: what it may read, all of it public.

    Raises:
        ValueError: if it reads an array of a running trace that it was not given, such as one that
            a program kept of its rows.
        jax.errors.UnexpectedTracerError: if it reads one of a trace that has ended.
    """
    traced = trace_public_function(what, function, *arguments)
    if not is_traced(*jax.tree.leaves(arguments)):
        # Outside of a trace the function is called as it is: JAX rounds its own functions as a
        # whole there. What it reads of rows is dead, and a result that is traced does not count.
        result = function(*jax.tree.map(lambda leaf: leaf, arguments))
        if not is_traced(*jax.tree.leaves(result)):
            return result
    return evaluate_closed(traced.closed, traced.shapes, arguments)


class TracedFunction(NamedTuple):
    """The trace of a function.

    Attributes:
        closed: its closed jaxpr.
        shapes: of its result, as a pytree.
    """

    closed: Any
    shapes: Any


def trace_public_function(
    what: str, function: Callable[..., Any], *arguments: Any
) -> TracedFunction:
    """The trace of a function that may read its arguments alone.

    Raises:
        ValueError: as `evaluate_public`.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    check_references(what, closed)
    if reading := sorted(dataflow.operations(closed.jaxpr) & dataflow.READING):
        raise ValueError(f"{what} reads what Python holds by {reading}, which may follow from rows")
    if is_traced(*closed.consts):
        raise ValueError(
            f"{what} reads a traced array that it was not given, which may follow from private "
            "rows; it may read its arguments alone"
        )
    return TracedFunction(closed, shapes)


def check_references(what: str, closed: Any) -> None:
    """Refuse a traced function that reads or writes a mutable array from outside of it.

    Raises:
        ValueError: naming the function.
    """
    if any("Ref" in type(variable.aval).__name__ for variable in closed.jaxpr.constvars):
        raise ValueError(
            f"{what} reads or writes a mutable array (jax.new_ref) that it closes over, which "
            "could carry private rows past every draw"
        )


def evaluate_closed(closed: Any, shapes: Any, arguments: Any) -> Any:
    """What a closed jaxpr works out of pytrees of arguments, in the structure of its shapes."""
    outputs = jaxpr_as_fun(closed)(*jax.tree.leaves(arguments))
    return jax.tree.unflatten(jax.tree.structure(shapes), outputs)


@jax.tree_util.register_pytree_with_keys_class
class ReadOnly(Mapping[str, Any]):
    """A mapping that nobody can change, such as the noise multipliers that a program reads.

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
        return f"ReadOnly({dict(self._items)})"

    def tree_flatten_with_keys(self) -> tuple[Any, tuple[str, ...]]:
        """The entries with their names, and the names."""
        entries = [(jax.tree_util.DictKey(name), value) for name, value in self._items]
        return entries, tuple(self)

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], values: Any) -> "ReadOnly":
        """The mapping of names and values."""
        return cls(dict(zip(names, values, strict=True)))
