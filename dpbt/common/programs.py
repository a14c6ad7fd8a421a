"""Compiled programs that are kept, of which there are at most a given number.

`jax.jit` keeps every program that it has compiled until the process ends. A program takes some
hundreds of the memory maps that a process may have (65,530 on Linux), so a service that fits
tables of many domains would end in a crash. `keep_compiled` gives back the programs that were not
used for the longest time. A program that is asked for again is compiled again, and does the same.
"""

from __future__ import annotations

import collections
import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

import jax

R = TypeVar("R")

KEPT = 16
"""How many programs of one function are kept, if its module names no other number."""


MAX_PROGRAMS = 96
"""How many programs of all functions together are kept; at 350 memory maps each, half of those that
a process may have."""

_LOCK = threading.RLock()
_KEPT: collections.OrderedDict[tuple[Any, Hashable], Any] = collections.OrderedDict()
"""(function, what its program depends on) -> the program; the last used is last."""


class Programs(Generic[R]):
    """A function that runs compiled, as under `jax.jit`, with the programs used last.

    There is one program for each set of static arguments, and of the structure, shapes and types
    of the others. It is found by these alone, so nothing that is kept depends on a value.

    Attributes:
        most: how many programs are kept.
        compiled: how many were made so far, those that were given back among them.
    """

    def __init__(self, function: Callable[..., R], most: int, **options: Any) -> None:
        """Wrap a function; `options` are those of `jax.jit`, with static arguments by name."""
        functools.update_wrapper(self, function)
        self.most = most
        self.compiled = 0
        self._function, self._options = function, options
        self._static = options.get("static_argnames", ())
        self._positions = tuple(inspect.signature(function).parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Run the program of these arguments; compile it if it is not kept."""
        given = dict(zip(self._positions, args, strict=False)) | kwargs
        with jax.disable_jit(False):  # op by op, an author's classes would be handed rows' values
            return self._program(given)(*args, **kwargs)

    def __len__(self) -> int:
        """How many programs are kept now."""
        return len(self._entries())

    def clear(self) -> None:
        """Give all programs back."""
        with _LOCK:
            for entry in self._entries():
                _KEPT.pop(entry).clear_cache()

    def _entries(self) -> list[tuple[Any, Hashable]]:
        """The entries of this function, the one that was not used for the longest time first."""
        with _LOCK:
            return [entry for entry in _KEPT if entry[0] is self]

    def _program(self, given: Mapping[str, Any]) -> Callable[..., R]:
        static = tuple((name, given[name]) for name in self._static if name in given)
        leaves, tree = jax.tree.flatten({n: v for n, v in given.items() if n not in self._static})
        entry = self, (static, tree, tuple(jax.typeof(leaf) for leaf in leaves))
        with _LOCK:
            if entry in _KEPT:
                _KEPT.move_to_end(entry)
                return _KEPT[entry]
            own = self._entries()
            for oldest in own[: max(0, len(own) - self.most + 1)]:
                _KEPT.pop(oldest).clear_cache()
            while len(_KEPT) >= MAX_PROGRAMS:
                _KEPT.popitem(last=False)[1].clear_cache()
            self.compiled += 1
            _KEPT[entry] = program = self._fresh()
            return program

    def _fresh(self) -> Any:
        # JAX keeps programs by the function. One of its own is given back with its program.
        @functools.wraps(self._function)
        def function(*args: Any, **kwargs: Any) -> R:
            return self._function(*args, **kwargs)

        return jax.jit(function, **self._options)


def keep_compiled(*, most: int = KEPT, **options: Any) -> Callable[[Callable[..., R]], Programs[R]]:
    """A decorator: the function runs compiled, and at most `most` of its programs are kept.

    Args:
        most: at least 1.
        options: those of `jax.jit`. Static arguments are given by `static_argnames`, a tuple.
    """
    return lambda function: Programs(function, most, **options)
