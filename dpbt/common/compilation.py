"""Functions compiled by JAX, with a bounded number of programs in memory.

`jax.jit` keeps every program that it has compiled until the process ends. A program takes some
hundreds of the memory maps that a process may have (65,530 on Linux), so a service that fits
tables of many domains would end in a crash. `jit_with_bounded_cache` drops the programs that were
not used for the longest time. If such a program is needed again, it is compiled again, and computes
the same.

The options of the compiler that the library chooses are here, too, with their reason.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import inspect
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import jax

from dpbt.common import forks
from dpbt.common.extras import package_version
from dpbt.common.validate import is_traced

R = TypeVar("R")

MAX_PROGRAMS_OF_FUNCTION = 16
"""How many programs of one function stay in memory, unless its decorator has another number."""

MAX_PROGRAMS = 96
"""How many programs of all functions together stay in memory.

At 350 memory maps each, they take half of those that a process may have.
"""

_LOCK = threading.RLock()
_compiled_programs: collections.OrderedDict[tuple[Any, Hashable], Any] = collections.OrderedDict()
"""(function, what its program depends on) -> the program; the one used last is last."""


@contextlib.contextmanager
def paused_garbage_collection() -> Iterator[None]:
    """A scope in which Python's garbage collection is paused.

    Python does not look there for cycles of objects that nobody uses. Tracing makes so many objects
    that Python would look through all objects of JAX several times, and finds little. Memory that
    is not part of a cycle is freed as ever.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_MIN_SECONDS_ON_DISK = "jax_persistent_cache_min_compile_time_secs"
"""The flag of JAX for how long a program must compile to be kept on disk, by default 1 s."""

_lowered_minimum: dict[str, float] = {"number": 0, "former": 0.0}
"""How many threads have lowered the flag now, and what it was before the first of them."""


@contextlib.contextmanager
def short_programs_kept_on_disk() -> Iterator[None]:
    """A scope in which JAX also keeps programs on disk that compile in a short time.

    They compile in a tenth of the usual minimum. A run that is split into several programs would
    otherwise be compiled anew in each process, since none of them may take as long as the minimum.
    Without a folder JAX keeps nothing.
    """
    with _LOCK:
        if not _lowered_minimum["number"]:
            _lowered_minimum["former"] = getattr(jax.config, _MIN_SECONDS_ON_DISK)
            jax.config.update(_MIN_SECONDS_ON_DISK, _lowered_minimum["former"] / 10)
        _lowered_minimum["number"] += 1
    try:
        yield
    finally:
        with _LOCK:
            _lowered_minimum["number"] -= 1
            if not _lowered_minimum["number"]:
                jax.config.update(_MIN_SECONDS_ON_DISK, _lowered_minimum["former"])


@contextlib.contextmanager
def _while_compiling() -> Iterator[None]:
    """A scope to compile in: no garbage collection, and short programs are kept on disk."""
    with paused_garbage_collection(), short_programs_kept_on_disk():
        yield


class BoundedJit(Generic[R]):
    """A function that runs compiled, as under `jax.jit`, with a bounded cache of programs.

    There is one program for each combination of static arguments, of cache-key arguments, and of
    the structure, shapes and types of the other arguments. The cache is looked up by these alone,
    so no program depends on a value. Cache-key arguments are not passed to the function. They name
    what it reads from elsewhere when it is traced.

    Attributes:
        max_programs: how many programs stay in memory.
        num_compiled: how many programs were compiled so far, those that were dropped among them.
    """

    def __init__(
        self,
        function: Callable[..., R],
        *,
        max_programs: int,
        cache_key_argnames: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        """Wrap a function, with arguments as `jit_with_bounded_cache` takes them."""
        functools.update_wrapper(self, function)
        self.max_programs = max_programs
        self.num_compiled = 0
        self._function, self._options = function, options
        self._static_names = options.get("static_argnames", ())
        self._cache_key_names = cache_key_argnames
        self._positional_names = tuple(inspect.signature(function).parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Run the program of these arguments, and compile it first if it is not in memory.

        Raises:
            RuntimeError: in a process that was forked after JAX had run.
        """
        forks.check_jax_can_run()
        cache_key_arguments = tuple(kwargs.pop(name) for name in self._cache_key_names)
        arguments = dict(zip(self._positional_names, args, strict=False)) | kwargs
        with jax.disable_jit(False):  # op by op, an author's classes would be handed rows' values
            num_compiled_before = self.num_compiled
            program = self._program_for(arguments, cache_key_arguments)
            is_new = self.num_compiled > num_compiled_before
            with _while_compiling() if is_new else contextlib.nullcontext():
                return program(*args, **kwargs)

    def __len__(self) -> int:
        """How many programs of this function are in memory now."""
        return len(self._cache_keys())

    def clear(self) -> None:
        """Drop all programs of this function."""
        with _LOCK:
            for cache_key in self._cache_keys():
                _compiled_programs.pop(cache_key).clear_cache()

    def _cache_keys(self) -> list[tuple[Any, Hashable]]:
        """The keys of this function's programs, the least recently used one first."""
        with _LOCK:
            return [cache_key for cache_key in _compiled_programs if cache_key[0] is self]

    def _program_for(
        self, arguments: Mapping[str, Any], cache_key_arguments: tuple[Hashable, ...]
    ) -> Any:
        """The program for arguments like these, from memory or newly compiled."""
        static = tuple((n, arguments[n]) for n in self._static_names if n in arguments)
        leaves, tree = jax.tree.flatten(
            {name: value for name, value in arguments.items() if name not in self._static_names}
        )
        types = tuple(jax.typeof(leaf) for leaf in leaves)
        cache_key = self, (cache_key_arguments, static, tree, types)
        with _LOCK:
            if cache_key in _compiled_programs:
                _compiled_programs.move_to_end(cache_key)
                return _compiled_programs[cache_key]
            self._make_room()
            self.num_compiled += 1
            _compiled_programs[cache_key] = program = self._new_program()
            return program

    def _make_room(self) -> None:
        """Drop the least recently used programs, until both bounds admit another one."""
        oldest_first = self._cache_keys()
        for cache_key in oldest_first[: max(0, len(oldest_first) - self.max_programs + 1)]:
            _compiled_programs.pop(cache_key).clear_cache()
        while len(_compiled_programs) >= MAX_PROGRAMS:
            _compiled_programs.popitem(last=False)[1].clear_cache()

    def _new_program(self) -> Any:
        # JAX keeps programs by the function. A new function is dropped together with its program.
        @functools.wraps(self._function)
        def function(*args: Any, **kwargs: Any) -> R:
            return self._function(*args, **kwargs)

        options = self._options
        if not may_choose_compiler_options():
            options = {name: options[name] for name in options if name != "compiler_options"}
        return jax.jit(function, **options)


def jit_with_bounded_cache(
    *,
    max_programs: int = MAX_PROGRAMS_OF_FUNCTION,
    cache_key_argnames: tuple[str, ...] = (),
    **options: Any,
) -> Callable[[Callable[..., R]], BoundedJit[R]]:
    """A decorator that compiles a function, with at most `max_programs` programs in memory.

    Args:
        max_programs: at least 1.
        cache_key_argnames: keyword arguments of calls that choose the program and do not reach the
            function, such as the prices that it compares with its draws when it is traced.
        options: those of `jax.jit`. Static arguments are given by `static_argnames`, a tuple.
            `compiler_options` count where the library `may_choose_compiler_options`.
    """
    return lambda function: BoundedJit(
        function, max_programs=max_programs, cache_key_argnames=cache_key_argnames, **options
    )


def reuse_trace(function: Callable[..., R]) -> Callable[..., R]:
    """A decorator that makes programs trace a function once for arrays of the same types.

    A program is the same, equation for equation, and JAX takes a fifth of the time to write it
    down. The function must read nothing but its arguments, and constants that never change. JAX
    keeps the traces that were used last, and they hold no values.

    A call outside of a trace runs the function as it is: `jax.jit` would keep a program for each
    shape until the process ends.
    """
    traced_once = jax.jit(function, inline=True)

    @functools.wraps(function)
    def call(*args: Any) -> R:
        return (traced_once if is_traced(*jax.tree.leaves(args)) else function)(*args)

    return call


OLDER_EMITTER = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
"""XLA's former way to turn loops into code for a processor: it compiles sooner and runs longer.

At LLVM's first level of optimization it compiles in three quarters of the time of its third, and a
fit runs as fast.
"""

OLDER_EMITTER_UNOPTIMIZED = {**OLDER_EMITTER, "xla_backend_optimization_level": 0}
"""The former way without LLVM's optimizations, for what a fit does once.

It compiles in half the time, and runs two to nine times as long.
"""


def may_choose_compiler_options() -> bool:
    """Whether the library may choose options of the compiler here.

    It does not where the user set `JAX_DISABLE_MOST_OPTIMIZATIONS`, nor with versions of jaxlib
    that are not known to take the options, nor for anything but a processor.
    """
    version = tuple(int(part) for part in package_version("jaxlib").split(".")[:2])
    is_set_by_user = jax.config.read("jax_disable_most_optimizations")
    return jax.default_backend() == "cpu" and (0, 8) <= version <= (0, 10) and not is_set_by_user
