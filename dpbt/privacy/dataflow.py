"""Data flow in a traced program: the inputs that an output depends on, and how it is computed.

A traced program of JAX (a jaxpr) lists the operations that compute its outputs. So the data flow of
a private program is read in its trace, without a run.
"""

import hashlib
import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params

from dpbt.common.validate import is_traced

_CALLS = ("jit", "pjit", "closed_call")
"""Operations that only call another traced program."""

_CALLS_WITH_DERIVATIVES = ("custom_jvp_call", "custom_vjp_call")
"""Operations that call another traced program, and say how its derivative is computed."""

_IDENTITIES = ("pvary", "reshard", "sharding_constraint")
"""Operations that return what they read, marked or divided among devices in another way."""

_DIVISIONS = ("mesh", "out_sharding", "sharding")
"""Parameters of operations that say how arrays are divided among devices."""

CALLBACKS = {"pure_callback", "io_callback"}
"""Operations whose results Python computes when a program runs."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def sources_of_outputs(jaxpr: Any, sources_of_inputs: Sequence[set[str]]) -> list[set[str]]:
    """The sources, such as inputs, that each output of a jaxpr may depend on.

    Sources are given by their names. The analysis looks into functions that are compiled on their
    own. It treats each output of a loop or a branch as dependent on each of its inputs.

    Args:
        jaxpr: a traced program.
        sources_of_inputs: the names of the sources that each input depends on.
    """
    sources = dict(zip(map(id, jaxpr.invars), sources_of_inputs, strict=True))
    for operation in jaxpr.eqns:
        sources_of_read = [sources.get(id(variable), set()) for variable in operation.invars]
        inner = _program_of_plain_call(operation)
        if inner is not None:
            sources_of_results = sources_of_outputs(inner.jaxpr, sources_of_read)
        else:
            sources_of_results = [set().union(*sources_of_read)] * len(operation.outvars)
        sources |= dict(zip(map(id, operation.outvars), sources_of_results, strict=True))
    return [sources.get(id(variable), set()) for variable in jaxpr.outvars]


def formula_digests(
    closed_jaxpr: Any,
    input_names: Sequence[str],
    output_indices: Sequence[int],
    input_name_by_output_index: dict[int, str],
) -> list[str]:
    """Digests of the operations that compute some outputs of a closed jaxpr, one for each output.

    Two digests are equal if they are of the same operations on the same inputs, whatever the other
    outputs and the shapes of the other inputs of the programs are.

    Args:
        closed_jaxpr: the program.
        input_names: the name of each input.
        output_indices: the index of each of those outputs.
        input_name_by_output_index: index of an output -> a name. Such an output counts as an input
            of this name, and its own operations do not enter any digest.

    Raises:
        ValueError: for an output that reads what Python holds by a callback.
    """
    jaxpr = closed_jaxpr.jaxpr
    digests = dict(zip(map(id, jaxpr.invars), input_names, strict=True))
    digests |= {
        id(jaxpr.outvars[output_index]): name
        for output_index, name in input_name_by_output_index.items()
    }
    for variable, value in zip(jaxpr.constvars, closed_jaxpr.consts, strict=True):
        digests.setdefault(id(variable), _digest_of_constant(value))
    operation_by_variable = _operation_by_variable(jaxpr)
    return [
        _digest_of_variable(jaxpr.outvars[output_index], operation_by_variable, digests)
        for output_index in output_indices
    ]


def digest_of_program(closed_jaxpr: Any) -> str:
    """A digest of what a closed jaxpr computes.

    It is of the operations, their data flow and the constants. Names of functions and of variables
    do not enter, nor do rules of derivatives and addresses in memory. So two functions that compute
    the same under different names have one digest, in every process, and a function keeps its
    digest when it is renamed.
    """
    constants = [_digest_of_constant(value) for value in closed_jaxpr.consts]
    return _digest("program", *constants, *_operation_texts(closed_jaxpr.jaxpr))


def _operation_texts(jaxpr: Any) -> list[str]:
    """The texts of the operations of a jaxpr in order, and of its outputs.

    There is one text for each, and those of the outputs are last. Variables are numbered by first
    appearance. A text has the operation's name, its parameters, the variables or literals that it
    reads, and the types of what it returns. How arrays are divided among devices does not enter.
    """
    text_by_variable: dict[int, str] = {}
    numbers = itertools.count()

    def number_variables(variables: Sequence[Any]) -> str:
        for variable in variables:
            text_by_variable[id(variable)] = str(next(numbers))
        return " ".join(map(_type_text, variables))

    def text_of_read(variable: Any) -> str:
        if isinstance(variable, Literal):
            return _digest_of_constant(variable.val, _type_text(variable))
        return text_by_variable[id(variable)]

    texts = [number_variables([*jaxpr.constvars, *jaxpr.invars])]
    for operation in jaxpr.eqns:
        read = list(map(text_of_read, operation.invars))
        if operation.primitive.name in _IDENTITIES:
            text_by_variable |= dict(zip(map(id, operation.outvars), read, strict=True))
            continue
        params = _texts_of_params(operation)
        texts.append(
            f"{operation.primitive.name} {params} {read} -> {number_variables(operation.outvars)}"
        )
    return [*texts, *map(text_of_read, jaxpr.outvars)]


def _texts_of_params(operation: Any) -> list[str]:
    """The texts of the parameters that change the results of an operation.

    Programs stand in them as their digests.
    """
    is_call = (
        operation.primitive.name in _CALLS or operation.primitive.name in _CALLS_WITH_DERIVATIVES
    )
    return [
        f"{name}={_parameter_text_with_digests(value)}"
        for name, value in sorted(operation.params.items())
        if (name in ("jaxpr", "call_jaxpr") if is_call else name not in _DIVISIONS)
    ]


def _type_text(variable: Any) -> str:
    """The text of a variable's shape and dtype, and of whether that dtype is weak."""
    aval = variable.aval
    return f"{aval.dtype}{aval.shape}{getattr(aval, 'weak_type', False)}"


def _parameter_text_with_digests(value: Any) -> str:
    """The text of a parameter of an operation, with programs as their digests."""
    if isinstance(value, ClosedJaxpr):
        return digest_of_program(value)
    if isinstance(value, Jaxpr):
        return _digest("program", *_operation_texts(value))
    if isinstance(value, tuple | list):
        return " ".join(map(_parameter_text_with_digests, value))
    return _ADDRESS.sub("", str(value))


def operation_names(jaxpr: Any) -> set[str]:
    """The names of all operations of a jaxpr and of the programs within it."""
    names = {operation.primitive.name for operation in jaxpr.eqns}
    return names.union(*map(_operation_names_within, jaxpr.eqns))


def _operation_names_within(operation: Any) -> set[str]:
    """The names of the operations of the programs within an operation."""
    return set().union(*map(operation_names, jaxprs_in_params(operation.params)))


def _program_of_plain_call(operation: Any) -> Any:
    """The closed jaxpr that an operation calls, if the operation is no more than a call.

    It is None for other operations.
    """
    if operation.primitive.name not in _CALLS:
        return None
    return operation.params.get("jaxpr") or operation.params.get("call_jaxpr")


class _OperationOutput(NamedTuple):
    """The operation that computes a variable.

    Attributes:
        operation: the operation.
        output_index: the index of the variable among its outputs.
    """

    operation: Any
    output_index: int


def _operation_by_variable(jaxpr: Any) -> dict[int, _OperationOutput]:
    """The operation that computes each variable of a jaxpr, by the id of the variable."""
    return {
        id(variable): _OperationOutput(operation, output_index)
        for operation in jaxpr.eqns
        for output_index, variable in enumerate(operation.outvars)
    }


def _digest_of_variable(
    variable: Any, operation_by_variable: dict[int, _OperationOutput], digests: dict[int, str]
) -> str:
    """The digest of the operations that compute a variable.

    Args:
        variable: a variable of a jaxpr.
        operation_by_variable: id -> operation, of all variables that are no inputs.
        digests: id of a variable -> its digest. It holds those of inputs; the function adds others.
    """
    waiting = [variable]
    while waiting:
        current = waiting[-1]
        if id(current) in digests:
            waiting.pop()
            continue
        if isinstance(current, Literal):
            digests[id(current)] = _digest_of_constant(current.val, _type_text(current))
            continue
        computed_by = operation_by_variable[id(current)]
        missing = [read for read in computed_by.operation.invars if id(read) not in digests]
        if missing:
            waiting.extend(missing)
            continue
        digests[id(current)] = _digest_of_result(
            computed_by, [digests[id(v)] for v in computed_by.operation.invars]
        )
    return digests[id(variable)]


def _digest_of_result(computed_by: _OperationOutput, input_digests: list[str]) -> str:
    """The digest of a variable, from its operation and the digests of the variables it reads."""
    operation, output_index = computed_by
    if operation.primitive.name in _IDENTITIES:
        return input_digests[output_index]
    inner = _program_of_plain_call(operation)
    if inner is not None and output_index < len(inner.jaxpr.outvars):
        return formula_digests(inner, input_digests, [output_index], {})[0]
    if (_operation_names_within(operation) | {operation.primitive.name}) & CALLBACKS:
        raise ValueError(
            "a sensitivity or a scale reads what Python holds by a callback, which may change "
            "after it was priced; it may follow from the numbers of the recipe alone"
        )
    params = _texts_of_params(operation)
    return _digest("step", operation.primitive.name, str(output_index), *params, *input_digests)


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
