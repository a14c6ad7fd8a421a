"""What docstrings say of shapes, checked whenever a test calls a function of the library.

Docstrings state arrays as `f32[N, F]`: what a function returns in its first words, and what it
takes under `Args:`. Each function that does so is wrapped as its module is imported, and jaxtyping
compares the arrays of every call, traced ones too. One letter means one length within a call. What
is no array, such as a Python number for `f32[]`, is not looked at.
"""

import functools
import importlib.abc
import importlib.machinery
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import jax
import jaxtyping
import numpy as np

_KINDS = {
    "bool": "Bool",
    "i8": "Int8",
    "i32": "Int32",
    "u8": "UInt8",
    "u32": "UInt32",
    "f32": "Float32",
    "f64": "Float64",
    "f": "Float",
    "i16": "Int16",
    "u16": "UInt16",
    "u64": "UInt64",
    "i64": "Int64",
}
_STATED = re.compile(r"(bool|[iuf]\d+|f)((?: or (?:[iuf]\d+))*)\[([^\]]*)\]")
_ARGUMENT = re.compile(r"^ {4}(\w+): (.*)$", re.MULTILINE)


def stated(words: str) -> Any | None:
    """The type of the array that words begin with; None without one, or with a choice of two."""
    found = _STATED.match(words)
    if found is None or re.match(r",? or ", words[found.end() :]):
        return None
    kind, others, axes = found.groups()
    lengths = [axis.strip() for axis in axes.split(",")] if axes else []
    if any(axis.startswith("*") for axis in lengths):
        return None
    plain = [axis if re.fullmatch(r"\w+|\.\.\.", axis) else "_" for axis in lengths]
    return getattr(jaxtyping, "Shaped" if others else _KINDS[kind])[Any, " ".join(plain)]


def declared(function: Callable) -> dict[str, Any]:
    """The types of arguments, and of what it returns under "return", that a docstring states."""
    text = inspect.getdoc(function) or ""
    _, _, after = text.partition("\nArgs:\n")
    arguments = _ARGUMENT.findall(after.split("\nReturns:")[0].split("\nRaises:")[0])
    returns = text.partition("\nReturns:\n")[2].strip()
    words = dict(arguments) | {"return": text if stated(text) is not None else returns}
    names = {*inspect.signature(function).parameters, "return"}
    found = {name: stated(words[name]) for name in names & set(words)}
    return {name: kind for name, kind in found.items() if kind is not None}


class Compared:
    """A function, whose arrays are compared with what it says of them."""

    def __init__(self, function: Callable, kinds: dict[str, Any]):
        functools.update_wrapper(self, function)
        self.function, self.kinds = function, kinds
        self.signature = inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        returned = self.function(*args, **kwargs)  # first, since what it refuses may be anything
        given = self.signature.bind(*args, **kwargs).arguments | {"return": returned}
        with jaxtyping.jaxtyped("context"):
            for name in self.kinds.keys() & given.keys():
                value, kind = given[name], self.kinds[name]
                if isinstance(value, jax.Array | np.ndarray):
                    words = f"{self.__name__}: {name} is {value.dtype}{value.shape}, not {kind}"
                    assert isinstance(value, kind), words
        return returned


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: types.ModuleType) -> None:
        super().exec_module(module)
        for name, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                kinds = declared(value)
                setattr(module, name, Compared(value, kinds) if kinds else value)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if not name.startswith("dpbt."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def watch() -> None:
    """Compare the functions of all modules of the library that are imported from now on."""
    assert not any(name.startswith("dpbt.") for name in sys.modules), "dpbt was imported before"
    sys.meta_path.insert(0, _Finder())
