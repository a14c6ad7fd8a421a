"""What the entries of files must be: shapes of JSON content, and that of a ledger. It needs no JAX.

A shape is a `Kind` of one value. Or it is a list of one shape, for all entries of a list, or a
mapping of names to the shapes of an object's entries. A name that ends in a question mark may be
absent. Entries that are not named are not looked at.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from dpbt.public import MOST_CHUNKED_ROWS


class Kind(NamedTuple):
    """Values of one kind.

    Attributes:
        words: what they are, for errors.
        good: whether a value is one of them.
    """

    words: str
    good: Callable[[Any], bool]


ANY = Kind("a value", lambda value: True)
NULL = Kind("null", lambda value: value is None)
_OBJECT = Kind("an object", lambda value: isinstance(value, dict))
_LIST = Kind("a list", lambda value: isinstance(value, list))
TEXT = Kind("text", lambda value: isinstance(value, str))
TRUTH = Kind("true or false", lambda value: isinstance(value, bool))
DIGITS = Kind(
    "256 bits in hexadecimal digits",
    lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None,
)


def whole(most: int = 2**62, least: int = 1) -> Kind:
    """Whole numbers in least..most."""
    words = f"a whole number in {least}..{most}"
    return Kind(words, lambda value: type(value) is int and least <= value <= most)


def number(low: float = 0.0, high: float = 1e100) -> Kind:
    """Numbers in low..high. The square of the largest is finite by default."""
    words = f"a number in {low:g}..{high:g}"
    return Kind(words, lambda value: type(value) in (int, float) and low <= value <= high)


def among(*known: str | None) -> Kind:
    """Some words; None stands for null."""
    return Kind(f"one of {list(known)}", lambda value: value in known)


def either(*kinds: Kind) -> Kind:
    """What is of one of the kinds."""
    words = " or ".join(kind.words for kind in kinds)
    return Kind(words, lambda value: any(kind.good(value) for kind in kinds))


def check(name: str, value: Any, shape: Any) -> None:
    """Refuse a value that has not the shape.

    Raises:
        ValueError: naming the entry, and not its value.
    """
    kind: Kind = {dict: _OBJECT, list: _LIST}.get(type(shape)) or shape
    if not kind.good(value):
        raise ValueError(f"{name} must be {kind.words}, and is something else")
    if isinstance(shape, list):
        for entry in value:
            check(f"an entry of {name}", entry, shape[0])
    elif isinstance(shape, dict):
        for field, of_field in shape.items():
            needed = field.removesuffix("?")
            if needed in value:
                check(f"{needed} of {name}", value[needed], of_field)
            elif needed == field:
                raise ValueError(f"{name} lacks the entry {field}")


_COST = either(number(), among("inf"))
_SHARE = number(0, 1)
LEDGER: dict[str, Any] = {
    "relation": among("add_remove", "replace_one"),
    "rows": either(whole(MOST_CHUNKED_ROWS), NULL),
    "rows_per_person": whole(2**31 - 1),
    "epsilon": _COST,
    "delta": _SHARE,
    "sampler_delta": _SHARE,
    "exact": TRUTH,
    "unprotected": [TEXT],
    "key": among("release", "research", None),
    "lines": [
        {
            **dict.fromkeys(("site", "mechanism", "releases", "theorem", "unit"), TEXT),
            **dict.fromkeys(("sensitivity", "scale", "gap", "tail"), _COST),
            **dict.fromkeys(("count", "times"), whole()),
            "moved": either(whole(), NULL),
            "exact": TRUTH,
        }
    ],
    "choice?": {
        **dict.fromkeys(("epsilon", "rho", "mu", "gap", "tail"), _COST),
        "gamma": number(1e-5, 1),
        "eta": number(-0.99, 1000),
        "candidates": whole(),
        "score": TEXT,
        **dict.fromkeys(("disjoint", "gaussian", "exact"), TRUTH),
    },
}
"""The shape of a ledger, as `accounting.to_json` keeps it."""

LEDGER["parts?"] = [LEDGER]
