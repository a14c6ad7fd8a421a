"""The shapes in signatures, checked whenever a test calls a function of the library.

A signature states an array as `Float32[Array, "N F"]`. Functions and methods that do so are wrapped
once their module is imported, and jaxtyping compares the arrays of every call, traced ones too. One
letter means one length within a call. What is no array, such as a Python number, is not looked at.

The import hook of jaxtyping is not used, for two reasons. It compares arguments before a call,
which hides what the function itself raises about them. And it takes milliseconds to wrap each
function, also one within a function, at each call.
"""

import functools
import importlib.abc
import importlib.machinery
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import jax
import jaxtyping
import numpy as np

ARRAY_TYPE = re.compile(r"\b(?:Shaped|Bool|Float|U?Int)(?:\d+)?\[")
"""How the text of a type of an array begins."""

checked_functions: set[tuple[str, str]] = set()
"""(module, qualified name) of each function whose arrays are checked."""


def array_types(annotation: Any, names: dict[str, Any]) -> tuple[Any, ...]:
    """The types of arrays that an annotation allows; none if it names no type of jaxtyping.

    Args:
        annotation: the annotation of an argument or of what is returned, perhaps as text.
        names: the names of the module, which the text may use.
    """
    if isinstance(annotation, str):
        if not ARRAY_TYPE.search(annotation):
            return ()
        annotation = eval(annotation, names)
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    choices = typing.get_args(annotation) if is_union else (annotation,)
    return tuple(
        choice
        for choice in choices
        if inspect.isclass(choice) and issubclass(choice, jaxtyping.AbstractArray)
    )


def check_arrays(function: Callable) -> Callable:
    """The function, which raises TypeError if an array is none of those that its signature states.

    It is the function itself if its signature states no array.
    """
    types_by_name = {
        name: allowed
        for name, annotation in inspect.get_annotations(function).items()
        if (allowed := array_types(annotation, function.__globals__))
    }
    if not types_by_name:
        return function
    checked_functions.add((function.__module__, function.__qualname__))
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        returned = function(*args, **kwargs)  # first, since what it refuses may be anything
        values = signature.bind(*args, **kwargs).arguments | {"return": returned}
        with jaxtyping.jaxtyped("context"):
            for name in types_by_name.keys() & values.keys():
                value = values[name]
                if isinstance(value, jax.Array | np.ndarray) and not isinstance(
                    value, types_by_name[name]
                ):
                    raise TypeError(
                        f"{function.__qualname__}: {name} is {value.dtype}{list(value.shape)}, "
                        f"not {' or '.join(kind.__name__ for kind in types_by_name[name])}"
                    )
        return returned

    return checked


def check_arrays_of_module(module: types.ModuleType) -> None:
    """Replace functions of a module, methods and properties of its classes by ones that check."""
    classes = [member for member in vars(module).values() if inspect.isclass(member)]
    for owner in (module, *(member for member in classes if member.__module__ == module.__name__)):
        for name, value in list(vars(owner).items()):
            replaced = _with_checks(value, module.__name__)
            if replaced is not value:
                setattr(owner, name, replaced)


def _with_checks(value: Any, module_name: str) -> Any:
    """The value, and in place of what a module defines as a function, one that checks."""
    if isinstance(value, property) and value.fget is not None:
        getter = _with_checks(value.fget, module_name)
        return value if getter is value.fget else value.getter(getter)
    if getattr(value, "__module__", None) != module_name:
        return value
    if isinstance(getattr(value, "_function", None), types.FunctionType):  # a `BoundedJit`
        value._function = check_arrays(value._function)
    return check_arrays(value) if isinstance(value, types.FunctionType) else value


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: types.ModuleType) -> None:
        super().exec_module(module)
        check_arrays_of_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if not name.startswith("dpbt."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def check_modules_imported_later() -> None:
    """Check the arrays of all modules of the library that are imported from now on."""
    assert not any(name.startswith("dpbt.") for name in sys.modules), "dpbt was imported before"
    sys.meta_path.insert(0, _Finder())
