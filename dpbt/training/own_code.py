"""What a run of an author's own functions does, as a digest that enters the keys of its noise.

Name and config are the identity of a learner, and an author states them. Two runs that differ and
are called the same would draw the same noise under one key, and the difference of their releases
would be free of it. So a recipe with functions from outside of the library is traced on absent
rows, and what the trace does is part of its identity. The functions of the library need no trace:
their name and config say what they do. It is a net for mistakes and no proof: a function may look
at the shape of its table, and only the shapes of one and of three rows are traced.
"""

import dataclasses
import functools
import types as python_types
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.privacy import boundary, dataflow
from dpbt.privacy.keys import research_key
from dpbt.training.run import PhaseValues
from dpbt.training.scan import Answer, run
from dpbt.types import Phase, Recipe

_LIBRARIES = {"builtins", "dpbt", "functools", "jax", "jaxlib", "numpy", "optax"}
"""Packages whose functions are known by their names."""


def digest_of_own_code(recipe: Recipe) -> str:
    """A digest of what a run does, in hexadecimal digits; empty if all of it is the library's.

    It is the same for every table, number of rounds and value of the recipe's numbers.

    Args:
        recipe: one setting; its numbers may be traced.
    """
    if all(
        map(
            _is_function_of_library,
            _functions_within((recipe.learner, recipe.weight_update), set()),
        )
    ):
        return ""
    one_round = dataclasses.replace(recipe, domain=None, capacity=1, rounds=np.int32(1))
    leaves, structure = jax.tree.flatten(one_round)
    shapes = [jax.ShapeDtypeStruct(np.shape(leaf), jnp.asarray(leaf).dtype) for leaf in leaves]
    digests = []
    for count in _ROWS_TRACED:
        with jax.enable_x64(False):
            run_on_rows = functools.partial(_run_on_absent_rows, structure, count)
            digests.append(dataflow.digest_of_program(jax.make_jaxpr(run_on_rows)(*shapes)))
    return " ".join(digests)


_ROWS_TRACED = (1, 3)
"""The numbers of absent rows that a run is traced on; one is seldom like many."""


def _run_on_absent_rows(structure: Any, count: int, *numbers: Any) -> Any:
    """All that a run of one round gives away and learns, on some absent rows."""
    recipe: Recipe = jax.tree.unflatten(structure, numbers)
    key, public_key = research_key(0), research_key(1)

    def answer(phase: Phase, entry: Any, views: Any) -> Answer:
        del entry
        release = boundary.sample(phase.program, key, public_key, views[0])
        return Answer(release, release)

    training = recipe.learner.training
    entries = PhaseValues(None, jnp.zeros(1), None)
    table = training.example_table()
    fields = {name: getattr(table, name) for name in ("bins", "target", "present", "weight")}
    rows = {
        name: np.repeat(field, count, axis=0) for name, field in fields.items() if field is not None
    }
    ran = run(recipe, [training.prepare(table._replace(**rows))], answer, entries)
    return ran.kept, ran.hypotheses, ran.intercept, ran.scores


def _functions_within(value: Any, seen: set[int]) -> Iterator[Any]:
    """The functions that a value holds, and those that these close over or are given."""
    if id(value) in seen:
        return
    seen.add(id(value))
    inner: list[Any] = []
    if isinstance(value, functools.partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, python_types.MethodType):
        inner = [value.__func__, value.__self__]
    elif isinstance(value, tuple | list | frozenset | set):
        inner = list(value)
    elif isinstance(value, dict):
        inner = list(value.values())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif callable(value):
        yield value
        inner = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        inner.append(getattr(value, "__wrapped__", None))
    for part in inner:
        yield from _functions_within(part, seen)


def _is_function_of_library(function: Any) -> bool:
    """Whether a function or a class is one of the library, or of those that it is built on."""
    if isinstance(function, python_types.FunctionType):
        module = function.__globals__.get("__name__", "")  # whatever it wraps
    else:
        module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).split(".")[0] in _LIBRARIES
