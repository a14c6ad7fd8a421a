"""Checks of numeric arguments; each names the argument that it refuses."""

import numpy as np


def floats(name: str, value: object) -> np.ndarray:
    """`value` as float64, if it is a number or an array of numbers.

    Raises:
        ValueError: naming the parameter and what was given, if that is text, a Boolean, empty, or
            an object of another kind.
    """
    try:
        array = np.asarray(value)
    except ValueError:  # a ragged list
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or array.size == 0:
        raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}")
    return array.astype(np.float64)


def positive(
    name: str, value: object, *, below: float | None = None, finite: bool = False
) -> np.ndarray:
    """`value` as float64, if every entry is above 0, below `below`, and finite where asked.

    Raises:
        ValueError: naming the parameter, what was expected and what was given.
    """
    array = floats(name, value)
    good = array > 0
    expected = "greater than 0"
    if below is not None:
        good &= array < below
        expected += f" and less than {below:g}"
    if finite:
        good &= np.isfinite(array)
        expected += " and finite"
    if not good.all():
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return array
