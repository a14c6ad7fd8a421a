"""What recipes share: float32 numbers rounded to the safe side, checks of counts, one setting of many."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from dpbt import accounting
from dpbt.base import MAX_ROWS, Mechanism, Recipe, Sampler, positive


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


MOST_OF_EPSILON, MOST_OF_DELTA = 0.005, 0.01
"""What finite bits of the samplers may cost at most, as a share of the budget."""

MOST_DELTA = 1e-6
"""What finite bits may cost a pure guarantee at most, in delta; it is below 1e-15 for epsilon up to 10."""


class Moved(NamedTuple):
    """Draws that one row moves, of one mechanism.

    Attributes:
        mechanism: of the draws.
        count: how many of them, in all rounds.
        share: which share of the budget (of epsilon, or of rho under zCDP) each has; for noise.
        together: how many outputs have that share together.
    """

    mechanism: Mechanism
    count: Any
    share: Any = 0.0
    together: int = 1


def after_samplers(epsilon: Any, delta: Any, draws: Sequence[Moved]) -> tuple[np.ndarray, np.ndarray]:
    """(epsilon, delta) that are left for the laws, once the samplers' finite bits are paid for.

    See `accounting.Ledger` for why 2 G of epsilon, and (1 - e^-G) delta + t of delta, pay for it.
    A Gaussian that has a share of a budget moves by at most mu sqrt(share) scales, mu that of the
    Gaussian that has all of it: zCDP, by which budgets are set, allows it no more.

    Raises:
        ValueError: if that is more than `MOST_OF_EPSILON` or `MOST_OF_DELTA` of the budget, or more
            than `MOST_DELTA` for a pure guarantee.
    """
    epsilon, delta = np.asarray(epsilon, np.float64), np.asarray(delta, np.float64)
    finite = np.where(np.isfinite(epsilon), epsilon, 1.0)
    gap, tail = np.zeros(()), np.zeros(())
    private = np.isfinite(epsilon)
    approximate = private & (delta > 0)
    whole = np.zeros(())
    if np.any(approximate):
        some = np.where(approximate, delta, 0.5)
        largest = np.vectorize(accounting.gdp_mu, otypes=[float])(finite, some)
        whole = np.where(approximate, largest, 0.0)
    for draw in draws:
        sampler, share = cast(Sampler, draw.mechanism.sampler), np.asarray(draw.share, np.float64)
        gap = gap + sampler.gap * np.asarray(draw.count, np.float64)
        shift = np.where(approximate, whole * np.sqrt(share), np.where(private, epsilon, 0) * share)
        far = np.vectorize(accounting.tail_of_many, otypes=[float], excluded=(0, 2))
        tail = tail + far(sampler, shift, draw.together) * (draw.count / draw.together)

    if np.any(private & (2 * gap > MOST_OF_EPSILON * finite)):
        raise ValueError(
            f"epsilon is too small for so many draws: their finite bits cost {np.max(2 * gap):.2g}; ask "
            f"for at least {np.max(2 * gap) / MOST_OF_EPSILON:.2g}, or for fewer rounds"
        )
    if np.any(approximate & (tail > MOST_OF_DELTA * delta)):
        raise ValueError(
            f"delta is too small for this epsilon: finite bits cost {np.max(tail):.2g}, "
            f"more than {MOST_OF_DELTA:g} of it; ask for a larger delta, a smaller epsilon or more rounds"
        )
    if np.any(private & (delta == 0) & (tail > MOST_DELTA)):
        raise ValueError(
            f"epsilon is too large for samplers of finitely many bits: they cost a delta of "
            f"{min(np.max(tail), 1.0):.2g}; ask for a smaller epsilon, more rounds, or no privacy (epsilon=inf)"
        )
    left = np.where(delta > 0, (delta - tail) * np.exp(-gap), 0.0)
    return np.where(private, epsilon - 2 * gap, epsilon), np.where(private, left, delta)


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
