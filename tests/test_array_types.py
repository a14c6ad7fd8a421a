"""In tests, the arrays of each call are checked against the signature of the function."""

import ast
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Bool, Float32, Int32

import dpbt
from dpbt.data.splits import table_of_splits
from dpbt.models.measures import pinball_loss
from tests.support import ROOT
from tests.support.array_types import ARRAY_TYPE, check_arrays, checked_functions


@check_arrays
def count_columns(
    rows: Float32[jax.Array, "N F"],
    weight: Float32[jax.Array | np.ndarray, "N"] | None = None,
    factor: Any = 1,
) -> Int32[jax.Array, "F"]:
    """Accepts any arrays, so that nothing but the check refuses one."""
    return jnp.full(rows.shape[-1], rows.shape[0] * factor, jnp.int32)


ROWS = jnp.ones((3, 2), jnp.float32)


def test_arrays_that_agree_with_the_signature_pass():
    assert count_columns(ROWS).shape == (2,)
    assert count_columns(ROWS, jnp.ones(3, jnp.float32)).shape == (2,)
    assert count_columns(ROWS, np.ones(3, np.float32), factor=2).shape == (2,)
    assert jax.jit(count_columns)(ROWS).shape == (2,)


@pytest.mark.parametrize(
    ("messages", "rows", "weight"),
    [
        ("rows is float32[1, 3, 2]", ROWS[None], None),
        ("rows is int32[3, 2]", ROWS.astype(jnp.int32), None),
        ("weight is float16[3]", ROWS, np.ones(3, np.float16)),
        ("is float32[4]|is float32[3, 2]", ROWS, np.ones(4, np.float32)),
    ],
    ids=["a wrong shape", "a wrong dtype", "a wrong dtype beside None", "two lengths of a letter"],
)
def test_arrays_of_a_wrong_shape_or_type_are_refused(messages, rows, weight):
    with pytest.raises(TypeError) as caught:
        count_columns(rows, weight)
    assert any(message in str(caught.value) for message in messages.split("|"))


def test_a_wrong_array_is_caught_while_traced():
    with pytest.raises(TypeError, match="rows is int32"):
        jax.jit(count_columns)(ROWS.astype(jnp.int32))


def test_a_wrong_array_that_is_returned_is_caught():
    @check_arrays
    def as_booleans(values: Any) -> Bool[jax.Array, "N"]:
        return values

    with pytest.raises(TypeError, match="return is float32"):
        as_booleans(jnp.ones(2, jnp.float32))


def test_annotations_that_are_text_are_checked():
    def negative(values):
        return -values

    negative.__annotations__ = {"return": 'Float32[jax.Array, "N"] | None', "values": "Unknown"}
    with pytest.raises(TypeError, match="return is int32"):
        check_arrays(negative)(jnp.arange(2, dtype=jnp.int32))


def test_a_function_that_states_no_array_stays_as_it_is():
    def negative(values: jax.Array) -> "Unknown":
        return -values

    assert check_arrays(negative) is negative


def test_functions_of_the_library_are_checked():
    with pytest.raises(TypeError, match="pinball_loss: return is int64"):
        pinball_loss(np.arange(3), level=1)


def test_an_error_of_the_function_itself_comes_before_that_of_the_check():
    with pytest.raises(ValueError, match="splits"):
        table_of_splits(np.ones(3, bool), np.ones(3, bool), np.ones(3, bool))


def test_every_function_that_states_arrays_is_checked():
    functions_with_arrays = set()
    for module in pkgutil.walk_packages(dpbt.__path__, "dpbt."):
        path = ROOT / module.name.replace(".", "/")
        file = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
        functions = {(module.name, name) for name in _functions_stating_arrays(file.read_text())}
        if functions:
            import_module(module.name)
        functions_with_arrays |= functions
    assert len(functions_with_arrays) > 50
    assert functions_with_arrays - checked_functions == set()


def _functions_stating_arrays(source: str) -> Iterator[str]:
    """The qualified names of the functions of a source, in classes and functions too."""

    def walk(node: ast.AST, prefix: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{prefix}{child.name}."
            if isinstance(child, ast.FunctionDef):
                arguments = [*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs]
                annotations = [child.returns, *(argument.annotation for argument in arguments)]
                if any(ARRAY_TYPE.match(ast.unparse(text)) for text in annotations if text):
                    yield f"{prefix}{child.name}"
                inner += "<locals>."
            yield from walk(child, inner)

    return walk(ast.parse(source), "")
