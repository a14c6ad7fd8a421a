"""What follows from what in a traced program, and how: names and formulas of its outputs.

A traced program of JAX (a jaxpr) says which operations make its outputs. So what a private program
asks for is read off its trace, and nothing runs.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxprs_in_params

from dpbt.common.validate import is_traced

_INLINED = ("jit", "pjit", "closed_call")
"""Operations that only call another traced program."""

READING = {"pure_callback", "io_callback"}
"""Operations whose results are worked out by Python when a program runs."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def dependencies(traced: Any, inputs: Sequence[set[str]]) -> list[set[str]]:
    """The names that each output of a jaxpr may follow from, by those of its inputs.

    Functions that are compiled on their own are looked into; of loops and branches each output may
    follow from each input.
    """
    known = dict(zip(map(id, traced.invars), inputs, strict=True))
    for step in traced.eqns:
        read = [known.get(id(entry), set()) for entry in step.invars]
        inner = _inlined(step)
        each = [set().union(*read)] * len(step.outvars)
        if inner is not None:
            each = dependencies(inner.jaxpr, read)
        known |= dict(zip(map(id, step.outvars), each, strict=True))
    return [known.get(id(entry), set()) for entry in traced.outvars]


def formulas(
    closed: Any, inputs: Sequence[str], wanted: Sequence[int], cuts: dict[int, str]
) -> list[str]:
    """What works out some outputs of a closed jaxpr, each as a digest of its operations.

    Two formulas are equal if they are the same operations on the same inputs, whatever else the
    programs work out and whatever the shapes of their other inputs are.

    Args:
        closed: the program.
        inputs: the name of each input.
        wanted: the numbers of the outputs that are asked for.
        cuts: number of an output -> its name: it counts as an input, however it is made.
    """
    jaxpr = closed.jaxpr
    known = dict(zip(map(id, jaxpr.invars), inputs, strict=True))
    known |= {id(jaxpr.outvars[number]): name for number, name in cuts.items()}
    for entry, value in zip(jaxpr.constvars, closed.consts, strict=True):
        known.setdefault(id(entry), _constant(value))
    makers = _makers(jaxpr)
    return [_formula(jaxpr.outvars[number], makers, known) for number in wanted]


def digest_of_program(closed: Any) -> str:
    """A digest of a closed jaxpr: its operations, and the values of its constants.

    Two programs have one digest if they do the same. It has no address of memory, so it is the same
    in every process.
    """
    consts = [_constant(value) for value in closed.consts]
    within = [
        digest_of_program(inner)
        for step in closed.jaxpr.eqns
        for value in step.params.values()
        for inner in (value if isinstance(value, tuple | list) else (value,))
        if isinstance(inner, ClosedJaxpr)
    ]
    return _digest("program", _ADDRESS.sub("", str(closed.jaxpr)), *consts, *within)


def operations(jaxpr: Any) -> set[str]:
    """The names of all operations of a jaxpr, those of the programs within it, too."""
    found = {step.primitive.name for step in jaxpr.eqns}
    return found.union(*map(_names_within, jaxpr.eqns))


def _names_within(step: Any) -> set[str]:
    """The names of the operations of the programs within an operation."""
    return set().union(*map(operations, jaxprs_in_params(step.params)))


def _inlined(step: Any) -> Any:
    """The closed jaxpr of an operation that only calls it; None for other operations."""
    if step.primitive.name not in _INLINED:
        return None
    return step.params.get("jaxpr") or step.params.get("call_jaxpr")


def _makers(jaxpr: Any) -> dict[int, tuple[Any, int]]:
    """Id of a variable -> the operation that makes it, and which of its outputs it is."""
    return {id(out): (step, k) for step in jaxpr.eqns for k, out in enumerate(step.outvars)}


def _formula(entry: Any, makers: dict[int, tuple[Any, int]], known: dict[int, str]) -> str:
    """The digest of what makes one variable; `known` has those of inputs, and gets all others."""
    waiting = [entry]
    while waiting:
        now = waiting[-1]
        if id(now) in known:
            waiting.pop()
            continue
        if isinstance(now, Literal):
            known[id(now)] = _constant(now.val, str(now.aval))
            continue
        step, place = makers[id(now)]
        inner = _inlined(step)
        if inner is not None and place < len(inner.jaxpr.outvars):
            read, names = _names_of(step, known)
            if names is None:
                waiting.extend(each for each in read if id(each) not in known)
                continue
            known[id(now)] = formulas(inner, names, [place], {})[0]
            continue
        read, names = _names_of(step, known)
        if names is None:
            waiting.extend(each for each in read if id(each) not in known)
            continue
        if (_names_within(step) | {step.primitive.name}) & READING:
            raise ValueError(
                "a sensitivity or a scale reads what Python holds by a callback, which may change "
                "after it was priced; it may follow from the numbers of the recipe alone"
            )
        params = sorted((name, _ADDRESS.sub("", str(each))) for name, each in step.params.items())
        known[id(now)] = _digest("step", step.primitive.name, str(place), str(params), *names)
    return known[id(entry)]


def _names_of(step: Any, known: dict[int, str]) -> tuple[Sequence[Any], list[str] | None]:
    """What an operation reads, and the digests of it; None while some are not known."""
    read = step.invars
    if all(id(each) in known for each in read):
        return read, [known[id(each)] for each in read]
    return read, None


def _constant(value: Any, kind: str = "") -> str:
    if is_traced(value):
        return _digest("a value from outside of the program", str(id(value)))
    try:
        array = np.asarray(value)
    except TypeError:  # keys, which are no numbers
        return _digest("constant", str(value))
    return _digest("constant", kind, str(array.dtype), str(array.shape), array.tobytes().hex())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
