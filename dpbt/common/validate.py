"""Checks of arguments; each names the argument that it refuses."""

import os
import sys
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_LONGEST = 100
"""Most characters of a value in an error."""


def show_value(value: object) -> str:
    """`value` on one line, as errors show it.

    Numbers and arrays of NumPy and JAX are shown as plain numbers. A value whose text is longer
    than 100 characters, or has several lines, is shown by the name of its type.
    """
    text = repr(_plain(value))
    return text if len(text) <= _LONGEST and text.isprintable() else type(value).__name__


def _plain(value: Any) -> Any:
    """`value` with plain numbers in place of the numbers and arrays of NumPy and JAX."""
    if type(value) in (list, tuple):
        entries = [_plain(entry) for entry in value]
        return entries if type(value) is list else tuple(entries)
    try:
        return getattr(value, "tolist", lambda: value)()
    except TypeError:  # a traced array, or a class of arrays
        return value


def as_path(name: str, value: object) -> Path:
    """`value` as a path.

    Raises:
        ValueError: naming the argument and the type of what was given, if that is neither a path
            nor a text.
    """
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"{name} must be a path or its text, got {type(value).__name__}")
    return Path(value)


def check_floats(name: str, value: object) -> np.ndarray:
    """`value` as float64, if it is a number or an array of numbers.

    Raises:
        ValueError: naming the parameter and what was given, if that is text, a Boolean, empty, or
            an object of another kind.
    """
    array = _array(name, value)
    if array.dtype.kind not in "iuf" or array.size == 0:
        raise ValueError(f"{name} must be a number or an array of numbers, got {show_value(value)}")
    return array.astype(np.float64)


def _array(name: str, value: object) -> np.ndarray:
    """`value` as an array, of None for a ragged list.

    Raises:
        ValueError: for a traced array, whose numbers are not there to be checked or rounded.
    """
    if is_traced(value):
        raise ValueError(
            f"{name} is traced, and noise is set from numbers that are known: build the recipe "
            "outside of jit and vmap, with an array of all values, and map over the recipe"
        )
    try:
        return np.asarray(value)
    except ValueError:
        return np.asarray(None)


def is_traced(*values: object) -> bool:
    """Whether one of some values is an array that JAX traces, under jit, vmap or grad."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(value, jax.core.Tracer) for value in values)


def check_interval(name: str, value: object, interval: str, *, whole: bool = False) -> np.ndarray:
    """`value` as float64, if every entry is in an interval.

    Args:
        name: of the parameter.
        value: a number or an array of numbers.
        interval: as in "[0, 1)", "(0, inf]".
        whole: whether entries must be whole numbers, too.

    Raises:
        ValueError: naming the parameter, the interval and what was given.
    """
    array = check_floats(name, value)
    low, high = map(float, interval[1:-1].split(","))
    good = (array >= low) & (array <= high)
    good &= (array > low) | (interval[0] == "[")
    good &= (array < high) | (interval[-1] == "]")
    good &= (array == np.floor(array)) | (not whole)
    if not good.all():
        kind = "a whole number in" if whole else "in"
        raise ValueError(f"{name} must be {kind} {interval}, got {show_value(value)}")
    return array


_MAX_INT32 = 2**31 - 1


def check_whole_number(name: str, value: ArrayLike, most: int = _MAX_INT32) -> int:
    """`value`, if it is an integer from 1 to `most`.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    array = check_whole_numbers(name, value, most)
    if array.ndim > 0:
        raise ValueError(f"{name} must be one integer of at least 1, got {show_value(value)}")
    return int(array)


def check_whole_numbers(name: str, value: ArrayLike, most: int = _MAX_INT32) -> np.ndarray:
    """`value` as an array of integers, if every entry is from 1 to `most`.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    array = _array(name, value)
    if array.dtype.kind not in "iu" or array.size == 0 or np.any(array < 1):
        raise ValueError(f"{name} must be an integer of at least 1, got {show_value(value)}")
    if np.any(array > most):
        raise ValueError(f"{name} must be at most {most}, got {show_value(value)}")
    return array


def check_boolean(name: str, value: Any) -> None:
    """Check an option that is either on or off.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {show_value(value)}")


def check_choice(name: str, value: Any, known: Collection[str]) -> None:
    """Check an option that is one of some names.

    Raises:
        ValueError: naming the parameter, the known names and what was given.
    """
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {sorted(known)}, got {show_value(value)}")


def warn_of_delta(delta: ArrayLike, rows: ArrayLike) -> None:
    """Warn of a delta of 1 / rows or more, as it protects nobody; at the line that calls dpbt.

    Args:
        delta: of the guarantee.
        rows: m, the public bound on the number of rows, or their number.
    """
    deltas, bounds = np.broadcast_arrays(np.asarray(delta, np.float64), np.asarray(rows))
    worst = np.argmax(deltas * bounds)
    given, count = float(deltas.flat[worst]), float(bounds.flat[worst])
    if given * count < 1:
        return
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("dpbt."):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"delta = {given:g} is 1 / rows or more, with rows = {count:.0f}: publishing each row with "
        f"probability delta would keep this guarantee, and expose {given * count:.3g} rows on "
        f"average; give a delta far below {1 / count:.2g}",
        UserWarning,
        stacklevel=level,
    )
