"""What recipes share: float32 numbers rounded to the safe side, checks of counts, one setting of many."""

from typing import Any

import jax
import numpy as np

from dpbt.base import MAX_ROWS, Recipe, positive


def down(value) -> np.ndarray:
    """Float32, never above the float64 value."""
    value = np.asarray(value, np.float64)
    rounded = value.astype(np.float32)
    return np.where(rounded > value, np.nextafter(rounded, np.float32(0)), rounded).astype(np.float32)


def noise_scale(bound, epsilon) -> np.ndarray:
    """Float32 noise scale, never below bound / epsilon; 0 for an infinite epsilon."""
    value = np.asarray(bound, np.float64) / np.asarray(epsilon, np.float64)
    with np.errstate(over="ignore"):  # an infinite scale is refused with the whole budget
        rounded = value.astype(np.float32)
    return np.where(rounded < value, np.nextafter(rounded, np.float32(np.inf)), rounded).astype(np.float32)


def whole(name: str, value: Any) -> int:
    """`value`, if it is an integer of at least 1.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    if np.ndim(value) > 0:
        raise ValueError(f"{name} must be one integer of at least 1, got {value!r}")
    return int(wholes(name, value))


def wholes(name: str, value: Any) -> np.ndarray:
    """`value` as i32 array, if every entry is an integer of at least 1.

    Raises:
        ValueError: naming the parameter and what was given.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or array.size == 0 or np.any(array < 1):
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return array.astype(np.int32)


def public_rows(rows: Any) -> np.ndarray:
    """`rows` as float64, if every entry is a whole number in 1..MAX_ROWS.

    Raises:
        ValueError: saying what was given.
    """
    rows = positive("rows", rows, finite=True)
    if np.any(rows != np.floor(rows)):
        raise ValueError(f"rows must be whole numbers, got {rows!r}")
    if np.any(rows > MAX_ROWS):
        raise ValueError(f"rows must be at most {MAX_ROWS}, which int32 sums of weights hold, got {rows!r}")
    return rows


def deltas(delta: Any) -> tuple[np.ndarray, bool]:
    """`delta` as float64, and whether the guarantee is (epsilon, delta) rather than pure.

    Raises:
        ValueError: unless it is 0 for every setting, or in (0, 1) for every setting.
    """
    delta = np.asarray(delta, np.float64)
    if not np.all((delta >= 0) & (delta < 1)) or (np.any(delta > 0) and not np.all(delta > 0)):
        raise ValueError(f"delta must be 0, or in (0, 1) for every setting, got {delta!r}")
    return delta, bool(np.any(delta > 0))


def known_calibration(calibration: str) -> None:
    """Refuse a calibration that there is not.

    Raises:
        ValueError: unless it is "tight" or "published".
    """
    if calibration not in ("tight", "published"):
        raise ValueError(f'calibration must be "tight" or "published", got {calibration!r}')


def setting(recipe: Recipe, index: int | tuple[int, ...]) -> Recipe:
    """One setting of a recipe that holds several."""
    return jax.tree.map(lambda leaf: leaf[index], recipe)
