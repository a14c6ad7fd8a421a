"""Checks of arguments; each names the argument that it refuses."""

import os
import sys
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_MAX_SHOWN_LENGTH = 100
"""The largest number of characters of a value that an error shows."""


def show_value(value: object) -> str:
    """The text of a value on one line, as errors show it.

    Numbers and arrays of NumPy and JAX are shown as plain numbers. A value whose text is longer
    than 100 characters, or has several lines, is shown by the name of its type.
    """
    text = repr(_as_plain_numbers(value))
    return text if len(text) <= _MAX_SHOWN_LENGTH and text.isprintable() else type(value).__name__


def _as_plain_numbers(value: Any) -> Any:
    """Replace the numbers and arrays of NumPy and JAX in a value by plain numbers."""
    if type(value) in (list, tuple):
        entries = [_as_plain_numbers(entry) for entry in value]
        return entries if type(value) is list else tuple(entries)
    try:
        return getattr(value, "tolist", lambda: value)()
    except TypeError:  # a traced array, or a class of arrays
        return value


def as_path(name: str, value: object) -> Path:
    """Convert a text or a path to a path.

    A leading `~` or `~name` is the home of a user.

    Raises:
        ValueError: naming the argument and the type of what was given, if that is neither a path
            nor a text.
    """
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"{name} must be a path or its text, got {type(value).__name__}")
    return Path(os.path.expanduser(value))


def check_floats(name: str, value: object) -> np.ndarray:
    """Refuse what is no number or array of numbers, and return the value as float64.

    Raises:
        ValueError: naming the parameter and what was given, if that is text, a Boolean, empty, or
            an object of another kind.
    """
    array = _as_untraced_array(name, value)
    if array.dtype.kind not in "iuf" or array.size == 0:
        raise ValueError(f"{name} must be a number or an array of numbers, got {show_value(value)}")
    return array.astype(np.float64)


def _as_untraced_array(name: str, value: object) -> np.ndarray:
    """Convert a value to an array of NumPy, and refuse a traced one.

    A ragged list becomes an array of None.

    Raises:
        ValueError: for a traced array, whose numbers cannot be checked or rounded yet.
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
    """Whether any of the values is an array that JAX traces, under jit, vmap or grad."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(value, jax.core.Tracer) for value in values)


def check_interval(
    name: str, value: object, interval: str, *, whole_numbers: bool = False
) -> np.ndarray:
    """Refuse numbers out of an interval, and return the value as float64.

    Args:
        name: the name of the parameter.
        value: a number or an array of numbers.
        interval: as in "[0, 1)", "(0, inf]".
        whole_numbers: whether every entry must be a whole number, too.

    Raises:
        ValueError: naming the parameter, the interval and what was given.
    """
    array = check_floats(name, value)
    low, high = map(float, interval[1:-1].split(","))
    is_valid = (array >= low) & (array <= high)
    is_valid &= (array > low) | (interval[0] == "[")
    is_valid &= (array < high) | (interval[-1] == "]")
    is_valid &= (array == np.floor(array)) | (not whole_numbers)
    if not is_valid.all():
        requirement = "a whole number in" if whole_numbers else "in"
        raise ValueError(f"{name} must be {requirement} {interval}, got {show_value(value)}")
    return array


_MAX_INT32 = 2**31 - 1


def check_positive_integer(name: str, value: ArrayLike, max_value: int = _MAX_INT32) -> int:
    """Refuse what is no integer from 1 to `max_value`, and return the integer.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    array = check_positive_integers(name, value, max_value)
    if array.ndim > 0:
        raise ValueError(f"{name} must be one integer of at least 1, got {show_value(value)}")
    return int(array)


def check_positive_integers(name: str, value: ArrayLike, max_value: int = _MAX_INT32) -> np.ndarray:
    """Refuse entries that are no integers from 1 to `max_value`, and return the array.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    array = _as_untraced_array(name, value)
    if array.dtype.kind not in "iu" or array.size == 0 or np.any(array < 1):
        raise ValueError(f"{name} must be an integer of at least 1, got {show_value(value)}")
    if np.any(array > max_value):
        raise ValueError(f"{name} must be at most {max_value}, got {show_value(value)}")
    return array


def check_boolean(name: str, value: Any) -> None:
    """Refuse an option that is neither True nor False.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {show_value(value)}")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Refuse an option that is not one of some names.

    Raises:
        ValueError: naming the parameter, the names and what was given.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {sorted(choices)}, got {show_value(value)}")


def check_delta_below_inverse_rows(
    delta: ArrayLike, rows: ArrayLike, *, delta_anyway: bool
) -> None:
    """Refuse a delta of 1 / rows or more, or warn of it if it is accepted.

    Such a delta protects nobody. A warning is at the line that calls dpbt.

    Args:
        delta: the delta of the guarantee.
        rows: m, the public bound on the number of rows, or their number.
        delta_anyway: whether the caller accepts such a delta.

    Raises:
        ValueError: for such a delta that the caller does not accept.
    """
    deltas, bounds = np.broadcast_arrays(np.asarray(delta, np.float64), np.asarray(rows))
    worst = np.argmax(deltas * bounds)
    worst_delta, num_rows = float(deltas.flat[worst]), float(bounds.flat[worst])
    if worst_delta * num_rows < 1:
        return
    message = (
        f"delta = {worst_delta:g} is 1 / rows or more, with rows = {num_rows:.0f}: publishing each "
        f"row with probability delta would keep this guarantee, and expose "
        f"{worst_delta * num_rows:.3g} rows on average; give a delta far below {1 / num_rows:.2g}"
    )
    if not delta_anyway:
        raise ValueError(f"{message}, or accept it by delta_anyway=True")
    frame = sys._getframe()
    level = 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("dpbt."):
        frame = frame.f_back
        level += 1
    warnings.warn(message, UserWarning, stacklevel=level)
