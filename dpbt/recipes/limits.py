"""What every function that makes recipes says of its epsilon and of its delta."""

import contextvars
import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpbt.base import Recipe
from dpbt.validate import floats, shown

P = ParamSpec("P")
Made = TypeVar("Made", bound=Recipe | list[Recipe])

MOST_EPSILON = 1e6
"""The largest finite epsilon of any recipe."""

_TRIED = sorted((10.0**power for power in range(-9, 7)), key=lambda each: abs(math.log(each)))
"""Where a search looks for an epsilon that is accepted."""

_CLOSE = 5e-3
"""How near an epsilon that is accepted is to one that is not, as logarithms."""

_INSIDE = contextvars.ContextVar("inside a function that makes recipes", default=False)


class EpsilonRefusedError(ValueError):
    """An epsilon is outside the range that the other arguments allow; the words say why."""


def makes_recipes(make: Callable[P, Made]) -> Callable[P, Made]:
    """A function that makes recipes, and says what its epsilon and its delta mean.

    A refusal of epsilon names the largest or the least one that the other arguments allow, and why.
    A delta of 1 / rows or more is a UserWarning. Of functions that call each other the outermost
    one speaks, so it speaks once, and of what the caller gave.
    """

    @functools.wraps(make)
    def speaking(*arguments: P.args, **options: P.kwargs) -> Made:
        given: Any = options.get("epsilon")
        program: Callable[..., Made] = make

        def made(**changes: Any) -> Made:
            token = _INSIDE.set(True)
            try:
                return program(*arguments, **(options | changes))
            finally:
                _INSIDE.reset(token)

        if _INSIDE.get():
            return made()
        try:
            _check_finite(given)
            found = made()
        except EpsilonRefusedError as refusal:
            if given is None:
                raise
            words = _range_words(lambda epsilon: made(epsilon=epsilon), given, str(refusal))
            raise ValueError(words) from None
        one = found[0] if isinstance(found, list) else found
        warn_of_delta(one.delta, one.rows)
        return found

    return speaking


def _check_finite(epsilon: Any) -> None:
    """Refuse a finite epsilon above `MOST_EPSILON`.

    Raises:
        EpsilonRefusedError: if an entry is.
    """
    numbers = np.asarray(np.inf if epsilon is None else floats("epsilon", epsilon))
    if np.any(np.isfinite(numbers) & (numbers > MOST_EPSILON)):
        raise EpsilonRefusedError("a larger one protects nothing; infinity says so")


def _range_words(make: Callable[[Any], Any], given: ArrayLike, reason: str) -> str:
    """The refusal of an epsilon: the nearest one that is accepted, of three digits, and why.

    Args:
        make: epsilon -> recipes; it raises a ValueError where epsilon is refused.
        given: the epsilon that was refused; its infinite entries stay as they are.
        reason: why.
    """
    numbers = np.asarray(given, np.float64)
    finite = numbers[np.isfinite(numbers)]

    def accepted(epsilon: float) -> bool:
        asked = np.where(np.isfinite(numbers), epsilon, numbers)[()]
        try:
            _check_finite(asked)
            make(asked)
        except ValueError:
            return False
        return True

    inside = next(filter(accepted, _TRIED), None)
    if inside is None:
        return f"no epsilon is accepted with these arguments, got {shown(given)}: {reason}"
    good = math.log(inside)
    refused = max(np.log(finite), key=lambda each: abs(each - good))
    while abs(refused - good) > _CLOSE:
        middle = (good + refused) / 2
        good, refused = (middle, refused) if accepted(math.exp(middle)) else (good, middle)
    word, rest = ("at most", 0.994) if refused > good else ("at least", 1.006)
    rounded = (f"{factor * math.exp(good):.3g}" for factor in (1, rest))
    nearest = next((text for text in rounded if accepted(float(text))), f"{math.exp(good):.6g}")
    return f"epsilon must be {word} {nearest} with these arguments, got {shown(given)}: {reason}"


def warn_of_delta(delta: ArrayLike, rows: ArrayLike) -> None:
    """Warn of a delta of 1 / rows or more, as it protects nobody.

    Args:
        delta: of the guarantee.
        rows: m, the public bound on the number of rows, or their number.
    """
    exposed = np.asarray(delta, np.float64) * np.asarray(rows, np.float64)
    if np.any(exposed >= 1):
        place = np.argmax(exposed)
        given, count = (np.broadcast_to(each, exposed.shape).flat[place] for each in (delta, rows))
        warnings.warn(
            f"delta = {given:g} is 1 / rows or more, with rows = {count:.0f}: publishing each row "
            "with probability delta would keep this guarantee, and expose "
            f"{np.max(exposed):.3g} rows on average; give a delta far below {1 / count:.2g}",
            UserWarning,
            stacklevel=3,
        )
