"""What one fit refuses, before a mechanism runs: public things by name, and of private ones the number of rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import keys
from dpbt.base import REPLACE_ONE, Array, Recipe, Table, dtype_and_rank


def as_array(name: str, value: Any) -> Array:
    """`value` as a device array.

    Raises:
        ValueError: naming the argument, unless it is an array of numbers or Booleans. What it holds
            is not shown, and neither are its lengths: JAX's own errors may show both.
    """
    if not isinstance(value, jax.Array):
        value = np.asarray(value) if hasattr(value, "__array__") else value
        if not isinstance(value, np.ndarray | np.generic):
            raise ValueError(f"{name} must be an array, got {type(value).__name__}")
        if value.dtype.kind not in "biufcV":  # V: bfloat16 and the like
            raise ValueError(f"{name} must hold numbers or Booleans, got {dtype_and_rank(np.asarray(value))}")
    return jnp.asarray(value)


def on_device(table: Table) -> Table:
    """The table's fields as device arrays; ValueError as `as_array`."""
    offered = None if table.offered is None else as_array("table.offered", table.offered)
    return Table(
        as_array("table.splits", table.splits),
        as_array("table.label", table.label),
        as_array("table.present", table.present),
        offered,
    )


def refuse_sample_weight(sample_weight: Any) -> None:
    """Refuse weights of rows, whatever they are.

    Raises:
        ValueError: unless it is None.
    """
    if sample_weight is not None:
        raise ValueError(
            "sample_weight is not supported: a row's weight would be its sensitivity, and no "
            "mechanism here is calibrated for it"
        )


def check(key: Array, table: Table, recipe: Recipe, public_key: Array | None = None) -> None:
    """Refuse what one fit cannot take.

    Of private things only the number of present rows is looked at, and only that it is beyond a
    bound is said.

    Raises:
        ValueError: unless there are one typed key, another one or none for public structure, one
            setting, and a table that its hypotheses read, of at most `rows` present rows and under
            replace-one of at least `rows` places.
    """
    splits, label, present = table[:3]
    keys.check(key)
    for name, array in (("label", label), ("present", present)):
        if array.dtype != bool or array.ndim != 1:
            raise ValueError(f"table.{name} must be bool of rank 1, got {dtype_and_rank(array)}")
    recipe.learner.hypotheses.check(table)
    rows = splits.shape[0]
    if label.shape[0] != rows or present.shape[0] != rows:
        raise ValueError("splits, label and present must have the same rows, and do not")
    if np.ndim(recipe.rows) > 0:
        raise ValueError("fit takes one setting; vmap dpbt.boost over a recipe with several")
    _check_public_key(key, public_key)
    _check_rows(int(np.sum(np.asarray(present))), rows, recipe)


def _check_public_key(key: Array, public_key: Array | None) -> None:
    """Refuse a public key that is no key, or that is the secret one.

    That one is missing is refused where it is asked for, by `boundary.sample`.

    Raises:
        ValueError: saying which.
    """
    if public_key is None:
        return
    keys.check(public_key, "public_key")
    same_kind = keys.kind(key) == keys.kind(public_key)
    if same_kind and np.array_equal(jax.random.key_data(key), jax.random.key_data(public_key)):
        raise ValueError("public_key must be independent of key: what it says is published")


def _check_rows(present: int, places: int, recipe: Recipe) -> None:
    """Refuse a table that the noise was not set for, without any number of its rows.

    Under replace-one the number of places is compared too, which is public there. The number of
    present rows may be smaller: a row whose label is neither class is absent, by itself.

    Raises:
        ValueError: saying so.
    """
    rows = int(recipe.rows)
    if present > rows:
        raise ValueError(f"the recipe's noise was set for at most rows={rows}, the table has more rows present")
    if recipe.relation is REPLACE_ONE and places < rows:
        raise ValueError(
            f"under replace_one rows is the public number of rows, and the table has room for fewer than "
            f"rows={rows}; set rows to their number, or choose relation='add_remove' for a bound on it"
        )
