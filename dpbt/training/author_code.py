"""The identity of a recipe as text, with digests of what an author's functions do in a run.

It enters the keys of the noise.

Name and config are the identity of a learner, and an author states them. Two runs that differ and
are called the same would draw the same noise under one key, and the difference of their releases
would be free of it. So a recipe that the library did not make alone is traced on absent rows, and
what the trace does is part of its identity. A learner of the library needs no trace: its name and
config state what it does. The trace is a net for mistakes and no proof: a function may look at the
shape of its table, and only the shapes of one and of three rows are traced.
"""

import dataclasses
import functools
import types as python_types
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.privacy import dataflow, program_interpreters
from dpbt.privacy.keys import research_key
from dpbt.training.phases import PhaseValues
from dpbt.training.scan import InterpretedPhase, run_in_memory
from dpbt.types import Phase, Recipe
from dpbt.types.weight_update import is_library_weight_update

_LIBRARIES = {"builtins", "dpbt", "functools", "jax", "jaxlib", "numpy", "optax"}
"""Packages whose functions are known by their names."""


def recipe_identity_texts(recipe: Recipe) -> list[str]:
    """The identity of a recipe besides its numbers and its target, as text that enters keys.

    It has the identities that the recipe states. For a recipe that the library did not make alone
    it has two digests of what its run does, too. All of it is the same for every table, number of
    rounds and value of its numbers.

    Args:
        recipe: one setting; its numbers may be traced.
    """
    digests = [] if _is_made_by_library(recipe) else _digests_of_traced_runs(recipe)
    return [*recipe.component_identities, *digests]


def _is_made_by_library(recipe: Recipe) -> bool:
    """Whether all functions of a recipe are the library's, so that its names identify them.

    An author may put a learner together of the library's functions under a name of one's own, and
    then no config of the library's says which they are. So may a weight update be put together
    under the identity of another.
    """
    functions = functions_held_by((recipe.learner, recipe.weight_update))
    return (
        _is_class_of_dpbt(type(recipe.learner.config))
        and is_library_weight_update(recipe.weight_update)
        and all(map(is_function_of_library, functions))
    )


def _is_class_of_dpbt(cls: type) -> bool:
    """Whether a class is defined in dpbt."""
    return cls.__module__.split(".")[0] == "dpbt"


def _digests_of_traced_runs(recipe: Recipe) -> list[str]:
    """Digests of the traces of runs of one round, one for each number of absent rows."""
    one_round = dataclasses.replace(recipe, domain=None, max_rounds=1, rounds=np.int32(1))
    leaves, structure = jax.tree.flatten(one_round)
    shapes = [jax.ShapeDtypeStruct(np.shape(leaf), jnp.asarray(leaf).dtype) for leaf in leaves]
    digests = []
    for num_rows in _NUMBERS_OF_TRACED_ROWS:
        with jax.enable_x64(False):
            run_on_rows = functools.partial(_run_one_round_on_absent_rows, structure, num_rows)
            digests.append(dataflow.digest_of_program(jax.make_jaxpr(run_on_rows)(*shapes)))
    return digests


_NUMBERS_OF_TRACED_ROWS = (1, 3)
"""The numbers of absent rows that a run is traced on; one is seldom like many."""


def _run_one_round_on_absent_rows(
    recipe_structure: Any, num_rows: int, *recipe_leaves: Any
) -> tuple[Any, ...]:
    """Run one round on some absent rows, and return its records, its model and its scores."""
    recipe: Recipe = jax.tree.unflatten(recipe_structure, recipe_leaves)
    key = research_key(0)
    public_key = research_key(1)

    def sample_draws(phase: Phase, phase_input: Any, views: Any) -> InterpretedPhase:
        del phase_input
        release = program_interpreters.sample_release(phase.program, key, public_key, views[0])
        return InterpretedPhase(release=release, record=release)

    training = recipe.learner.training
    unread_inputs = PhaseValues(prologue=None, rounds=jnp.zeros(1), epilogue=None)
    table = training.example_table()
    fields = {name: getattr(table, name) for name in ("bins", "target", "present", "weight")}
    rows = {
        name: np.repeat(field, num_rows, axis=0)
        for name, field in fields.items()
        if field is not None
    }
    return tuple(
        run_in_memory(
            recipe,
            [training.prepare(table._replace(**rows))],
            interpret_phase=sample_draws,
            phase_inputs=unread_inputs,
        )
    )


def functions_held_by(value: Any, visited_ids: set[int] | None = None) -> Iterator[Any]:
    """Iterate over the functions that a value holds, and those that they close over or wrap.

    The class of a tuple or of a dataclass counts, too, as its objects may be called.

    Args:
        value: any object.
        visited_ids: the ids of objects that were looked into before.
    """
    visited_ids = set() if visited_ids is None else visited_ids
    if id(value) in visited_ids:
        return
    visited_ids.add(id(value))
    held_objects: list[Any] = []
    if isinstance(value, functools.partial):
        held_objects = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, python_types.MethodType):
        held_objects = [value.__func__, value.__self__]
    elif isinstance(value, tuple | list | frozenset | set):
        held_objects = [type(value), *value]
    elif isinstance(value, dict):
        held_objects = list(value.values())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        held_objects = [type(value), *(getattr(value, field.name) for field in fields)]
    elif callable(value):
        yield value
        held_objects = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        held_objects.append(getattr(value, "__wrapped__", None))
    for held_object in held_objects:
        yield from functions_held_by(held_object, visited_ids)


def is_function_of_library(function: Any) -> bool:
    """Whether a function or class is dpbt's, or that of a library which dpbt is built on."""
    if isinstance(function, python_types.FunctionType):
        module = function.__globals__.get("__name__", "")  # whatever it wraps
    else:
        module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).split(".")[0] in _LIBRARIES
