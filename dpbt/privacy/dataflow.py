"""Data flow in a traced program: the inputs that an output depends on, and how it is computed.

A traced program of JAX (a jaxpr) lists the operations that compute its outputs. So the data flow of
a private program is read in its trace, without a run.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxprs_in_params

from dpbt.common.validate import is_traced

_CALLS = ("jit", "pjit", "closed_call")
"""Operations that only call another traced program."""

_MARKS = ("pvary",)
"""Operations that return what they read, marked as varying between the devices of a `shard_map`."""

CALLBACKS = {"pure_callback", "io_callback"}
"""Operations whose results Python computes when a program runs."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def sources_of_outputs(jaxpr: Any, sources_of_inputs: Sequence[set[str]]) -> list[set[str]]:
    """The names of the sources that each output of a jaxpr may depend on.

    The analysis looks into functions that are compiled on their own. It treats each output of a
    loop or a branch as dependent on each of its inputs.

    Args:
        jaxpr: a traced program.
        sources_of_inputs: the names of the sources that each input depends on.
    """
    sources = dict(zip(map(id, jaxpr.invars), sources_of_inputs, strict=True))
    for step in jaxpr.eqns:
        sources_of_read = [sources.get(id(variable), set()) for variable in step.invars]
        inner = _called_program(step)
        if inner is not None:
            sources_of_results = sources_of_outputs(inner.jaxpr, sources_of_read)
        else:
            sources_of_results = [set().union(*sources_of_read)] * len(step.outvars)
        sources |= dict(zip(map(id, step.outvars), sources_of_results, strict=True))
    return [sources.get(id(variable), set()) for variable in jaxpr.outvars]


def formula_digests(
    closed: Any, input_names: Sequence[str], places: Sequence[int], named_outputs: dict[int, str]
) -> list[str]:
    """A digest of the operations that compute each of some outputs of a closed jaxpr.

    Two digests are equal if they are of the same operations on the same inputs, whatever the other
    outputs and the shapes of the other inputs of the programs are.

    Args:
        closed: the program.
        input_names: the name of each input.
        places: the places of those outputs.
        named_outputs: place of an output -> its name. Such an output counts as an input of this
            name, and its own operations do not enter any digest.

    Raises:
        ValueError: for an output that reads what Python holds by a callback.
    """
    jaxpr = closed.jaxpr
    digests = dict(zip(map(id, jaxpr.invars), input_names, strict=True))
    digests |= {id(jaxpr.outvars[place]): name for place, name in named_outputs.items()}
    for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
        digests.setdefault(id(variable), _digest_of_constant(value))
    makers = _operation_by_variable(jaxpr)
    return [_digest_of_variable(jaxpr.outvars[place], makers, digests) for place in places]


def digest_of_program(closed: Any) -> str:
    """A digest of a closed jaxpr: its operations, and the values of its constants.

    Two programs with the same operations and constants have one digest. It holds no memory address,
    so it is the same in every process.
    """
    consts = [_digest_of_constant(value) for value in closed.consts]
    within = [
        digest_of_program(inner)
        for step in closed.jaxpr.eqns
        for value in step.params.values()
        for inner in (value if isinstance(value, tuple | list) else (value,))
        if isinstance(inner, ClosedJaxpr)
    ]
    return _digest("program", _ADDRESS.sub("", str(closed.jaxpr)), *consts, *within)


def operation_names(jaxpr: Any) -> set[str]:
    """The names of all operations of a jaxpr, including those of the programs within it."""
    names = {step.primitive.name for step in jaxpr.eqns}
    return names.union(*map(_operations_within, jaxpr.eqns))


def _operations_within(step: Any) -> set[str]:
    """The names of the operations of the programs within an operation."""
    return set().union(*map(operation_names, jaxprs_in_params(step.params)))


def _called_program(step: Any) -> Any:
    """The closed jaxpr that an operation only calls; None for other operations."""
    if step.primitive.name not in _CALLS:
        return None
    return step.params.get("jaxpr") or step.params.get("call_jaxpr")


class _Maker(NamedTuple):
    """The operation that computes a variable.

    Attributes:
        step: the operation.
        place: the place of the variable among its outputs.
    """

    step: Any
    place: int


def _operation_by_variable(jaxpr: Any) -> dict[int, _Maker]:
    """Id of a variable -> the operation that computes it."""
    return {
        id(variable): _Maker(step, place)
        for step in jaxpr.eqns
        for place, variable in enumerate(step.outvars)
    }


def _digest_of_variable(variable: Any, makers: dict[int, _Maker], digests: dict[int, str]) -> str:
    """The digest of the operations that compute a variable.

    Args:
        variable: a variable of a jaxpr.
        makers: id -> operation, of all variables that are no inputs.
        digests: id of a variable -> its digest. It holds those of inputs; the function adds others.
    """
    waiting = [variable]
    while waiting:
        current = waiting[-1]
        if id(current) in digests:
            waiting.pop()
            continue
        if isinstance(current, Literal):
            digests[id(current)] = _digest_of_constant(current.val, str(current.aval))
            continue
        maker = makers[id(current)]
        missing = [read for read in maker.step.invars if id(read) not in digests]
        if missing:
            waiting.extend(missing)
            continue
        digests[id(current)] = _digest_of_result(maker, [digests[id(v)] for v in maker.step.invars])
    return digests[id(variable)]


def _digest_of_result(maker: _Maker, digests_of_read: list[str]) -> str:
    """The digest of a variable, from its operation and the digests of the variables it reads."""
    step, place = maker
    if step.primitive.name in _MARKS:
        return digests_of_read[place]
    inner = _called_program(step)
    if inner is not None and place < len(inner.jaxpr.outvars):
        return formula_digests(inner, digests_of_read, [place], {})[0]
    if (_operations_within(step) | {step.primitive.name}) & CALLBACKS:
        raise ValueError(
            "a sensitivity or a scale reads what Python holds by a callback, which may change "
            "after it was priced; it may follow from the numbers of the recipe alone"
        )
    params = sorted((name, _ADDRESS.sub("", str(value))) for name, value in step.params.items())
    return _digest("step", step.primitive.name, str(place), str(params), *digests_of_read)


def _digest_of_constant(value: Any, kind: str = "") -> str:
    if is_traced(value):
        return _digest("a value from outside of the program", str(id(value)))
    try:
        array = np.asarray(value)
    except TypeError:  # keys, which are no numbers
        return _digest("constant", str(value))
    return _digest("constant", kind, str(array.dtype), str(array.shape), array.tobytes().hex())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
