"""What one fit refuses, before a mechanism runs.

Public things are refused by name; of private ones only the number of rows, without saying it.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import REPLACE_ONE, Array, Model, Recipe, Table, dtype_and_rank
from dpbt.data.questions import are_bits, same
from dpbt.privacy import keys


def as_array(name: str, value: object) -> Array:
    """`value` as a device array.

    Raises:
        ValueError: naming the argument, unless it is an array of numbers or Booleans. What it holds
            is not shown, and neither are its lengths: JAX's own errors may show both.
    """
    if not isinstance(value, jax.Array):
        value = np.asarray(value) if hasattr(value, "__array__") else value
        if not isinstance(value, np.ndarray | np.generic):
            raise ValueError(f"{name} must be an array, got {type(value).__name__}")
        extended = value.dtype.kind == "V" and value.dtype.names is None  # bfloat16 and the like
        if value.dtype.kind not in "biufc" and not extended:
            raise ValueError(
                f"{name} must hold numbers or Booleans, got {dtype_and_rank(np.asarray(value))}"
            )
    return jnp.asarray(value)


def on_device(table: Table) -> Table:
    """The table's fields as device arrays.

    Raises:
        ValueError: for what is no table, and as `as_array`.
    """
    if not isinstance(table, Table):
        raise ValueError(
            f"expected a table, as dpbt.table makes it, got {type(table).__name__}; the order is "
            "key, table, recipe"
        )
    questions = table.questions
    if questions is not None:
        fields = {name: array for name, array in questions._asdict().items() if array is not None}
        arrays = {name: as_array(f"questions.{name}", array) for name, array in fields.items()}
        questions = questions._replace(**arrays)
    return Table(
        as_array("table.cells", table.cells),
        as_array("table.target", table.target),
        as_array("table.present", table.present),
        questions,
    )


def rows_for(model: Model, rows: object) -> Table:
    """Rows as the model reads them: a table of which only the cells and the questions matter.

    Args:
        model: from `fit`.
        rows: cells u8[N, F], or numbers f32[N, F] if the model was trained on such; a Table of
            either; or splits bool[N, S], if it was trained on a table of raw splits
            (`questions.of_splits`), or of a domain of Booleans alone: each feature has two cells.

    Raises:
        ValueError: if the rows are not of the kind that the model reads, have another number of
            features, or are a table with other questions.
    """
    if isinstance(rows, Table):
        _check_questions(model, rows)
        rows = rows.cells

    # Boolean splits are cells 0 and 1.
    cells = as_array("rows", rows)
    if cells.dtype == bool and model.questions is not None and are_bits(model.questions):
        cells = cells.astype(jnp.uint8)

    if cells.dtype != model.dtype or cells.ndim != 2:
        raise ValueError(
            f"the model reads rows of {model.dtype} and rank 2, got {dtype_and_rank(cells)}"
        )
    if cells.shape[1] != model.features:
        raise ValueError(
            f"the model reads rows of {model.features} features, "
            "and these have another number of them"
        )
    no_rows = jnp.zeros(cells.shape[:1], bool)  # prediction reads neither target nor present
    return Table(cells, no_rows, no_rows, model.questions)


def _check_questions(model: Model, table: Table) -> None:
    """Refuse a table that is asked other questions than the model asks.

    Raises:
        ValueError: saying so.
    """
    trained_on, questions = model.questions, table.questions
    if trained_on is not None and questions is not None and not same(trained_on, questions):
        raise ValueError("the model was trained with other questions than the table has")


def refuse_sample_weight(sample_weight: object) -> None:
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
            replace-one of a capacity of at least `rows`.
    """
    cells, target, present = table[:3]
    keys.check(key)
    for name, array in (("target", target), ("present", present)):
        if array.dtype != bool or array.ndim != 1:
            raise ValueError(f"table.{name} must be bool of rank 1, got {dtype_and_rank(array)}")
    recipe.learner.hypotheses.check(table)
    check_same_rows(table)
    if np.ndim(recipe.rows) > 0:
        raise ValueError("fit takes one setting; vmap dpbt.boost over a recipe with several")
    _check_public_key(key, public_key)
    _check_rows(int(np.sum(np.asarray(present))), cells.shape[0], recipe)


def check_same_rows(table: Table) -> None:
    """Refuse a table whose cells, target and present have different rows; no length is shown.

    Raises:
        ValueError: saying so.
    """
    if len({np.shape(array)[:1] for array in table[:3]}) > 1:
        raise ValueError("cells, target and present must have the same rows, and do not")


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


def _check_rows(present: int, capacity: int, recipe: Recipe) -> None:
    """Refuse a table that the noise was not set for, without any number of its rows.

    Under replace-one the capacity of the table is compared too, which is public there. The number
    of present rows may be smaller: a row whose label is neither class is absent, by itself.

    Raises:
        ValueError: saying so.
    """
    rows = int(recipe.rows)
    if present > rows:
        raise ValueError(
            f"the recipe's noise was set for at most rows={rows}, the table has more rows present"
        )
    if recipe.relation is REPLACE_ONE and capacity < rows:
        raise ValueError(
            "under replace_one rows is the public number of rows, and the table has room for fewer "
            f"than rows={rows}; set rows to their number, or choose relation='add_remove' for a "
            "bound on it"
        )
