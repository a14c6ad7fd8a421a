"""Tags of learners that declare none: made of what their draws follow from."""

import enum
import hashlib
import types
from collections.abc import Callable, Iterator

import numpy as np

Part = Callable[..., object]
"""A function of a learner, whose code is read; it is not called."""


def code_tag(program: Part, *parts: Part) -> str:
    """A tag for a learner that declares none: names, code, defaults and what they close over.

    Args:
        program: the program of a round, which names the learner.
        parts: other functions that the values of its draws follow from.

    Raises:
        ValueError: if the code depends on an object whose content cannot be read. Two learners that
            differ in it could have one tag.
    """
    contents = "\n".join(text for function in (program, *parts) for text in _contents(function))
    digest = hashlib.sha256(contents.encode()).hexdigest()[:16]
    return f"{program.__module__}.{program.__qualname__} {digest}"


def _contents(value: object, within: tuple[int, ...] = ()) -> Iterator[str]:
    """The content of a value as texts; of a function its code, defaults and what it closes over.

    Containers state their type and their length, so that different ones give different texts.
    """
    if id(value) in within:
        yield "itself"
        return
    within = (*within, id(value))

    if isinstance(value, types.FunctionType):
        yield f"function {value.__module__}.{value.__qualname__}"
        closed = tuple(cell.cell_contents for cell in value.__closure__ or ())
        by_name = tuple(sorted((value.__kwdefaults__ or {}).items()))
        for part in (value.__code__, closed, value.__defaults__ or (), by_name):
            yield from _contents(part, within)
    elif isinstance(value, types.CodeType):
        yield f"code {value.co_code!r} {value.co_names!r}"
        yield from _contents(value.co_consts, within)
    elif isinstance(value, tuple | frozenset):
        yield f"{type(value).__name__} of {len(value)}"
        for part in value if isinstance(value, tuple) else sorted(value, key=repr):
            yield from _contents(part, within)
    elif isinstance(value, np.generic | np.ndarray):
        yield f"{value.dtype} {np.shape(value)} {np.asarray(value).tobytes()!r}"
    elif isinstance(value, str | bytes | int | float | complex | enum.Enum | None | type(...)):
        yield repr(value)
    else:
        raise ValueError(
            f"a weak learner needs a tag: its code depends on a {type(value).__name__}, whose "
            "content cannot be read; declare tag=, a text that names the learner and every static "
            "part of it"
        )
