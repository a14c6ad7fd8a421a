"""What follows from public questions and private cells: the splits of each row, and its places.

A table holds one cell for each feature of a row, and learners derive from the cells what they read:
trees the splits that the row satisfies, random trees and halfspaces its places in the ranges of the
attributes. `dpbt.domains.questions` makes the questions of a domain.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import (
    CELLS,
    MAX_ROWS,
    AnyArray,
    Array,
    Questions,
    Table,
    dtype_and_rank,
)


def columns_of(table: Table) -> Array:
    """bool[S, N]: which split is satisfied by which row; the transpose of `splits_of`."""
    asked = _asked(table)
    cell = jnp.asarray(table.cells).T[jnp.asarray(asked.feature)]
    low, high = (jnp.asarray(bound)[:, None] for bound in (asked.low, asked.high))
    return (low <= cell) & (cell <= high)


def splits_of(table: Table) -> Array:
    """bool[N, S]: which row satisfies which split.

    Raises:
        ValueError: if the table holds exact numbers, of which no splits are asked.
    """
    return columns_of(table).T


def positions_of(table: Table) -> Array:
    """f32[N, A]: the place of each row in the range of each attribute; exact numbers as they are.

    Raises:
        ValueError: if the table holds cells and has no questions.
    """
    cells = jnp.asarray(table.cells)
    if cells.dtype == jnp.float32:
        return cells
    asked = _asked(table)
    cell = cells[:, jnp.asarray(asked.attribute)].astype(jnp.int32)
    first = CELLS * jnp.arange(len(asked.attribute), dtype=jnp.int32)
    return jnp.asarray(asked.position).reshape(-1)[first[None] + cell]


def _asked(table: Table) -> Questions:
    if table.questions is None:
        raise ValueError("the table has no questions")
    return table.questions


def of_bits(count: int) -> Questions:
    """The questions of `count` features of two cells: split and attribute s are feature s."""
    features = np.arange(count, dtype=np.int32)
    ones = np.ones(count, np.uint8)
    position = np.zeros((count, CELLS), np.float32)
    position[:, 1] = 1
    return Questions(features, ones, ones, features, position)


def of_splits(splits: AnyArray, target: AnyArray, present: AnyArray) -> Table:
    """A table of rows that are known by their splits; each is a feature of two cells, 0 and 1.

    Args:
        splits: bool[N, S].
        target: bool[N].
        present: bool[N].

    Raises:
        ValueError: unless splits is bool of rank 2.
    """
    if splits.dtype != bool or splits.ndim != 2:
        raise ValueError(f"splits must be bool of rank 2, got {dtype_and_rank(splits)}")
    cells = jnp.asarray(splits).astype(jnp.uint8)
    asked = jax.tree.map(jnp.asarray, of_bits(splits.shape[1]))
    return Table(cells, jnp.asarray(target), jnp.asarray(present), asked)


def example() -> Table:
    """A table of one absent row and one split."""
    nobody = np.zeros(1, bool)
    return of_splits(nobody[:, None], nobody, nobody)


def are_bits(questions: Questions) -> bool:
    """Whether the questions are those of `of_bits`, so that rows may be given as Booleans."""
    bits = of_bits(len(questions.feature))
    return same(questions._replace(allowed=None), bits)


def same(questions: Questions, other: Questions) -> bool:
    """Whether two sets of questions are equal; which splits are allowed does not count."""
    pairs = zip(questions[:-1], other[:-1], strict=True)
    return all(np.array_equal(np.asarray(here), np.asarray(there)) for here, there in pairs)


def check(table: Table) -> None:
    """Refuse a table whose cells and questions do not fit each other.

    Of the cells the dtype, the rank and the number of features are looked at, and whether there are
    rows, of at most MAX_ROWS. Questions are public.

    Raises:
        ValueError: saying what was expected; no number of rows is shown.
    """
    cells, asked = table.cells, table.questions
    if cells.dtype not in (jnp.uint8, jnp.float32) or cells.ndim != 2:
        expected = "table.cells must be uint8, or float32 numbers, of rank 2"
        raise ValueError(f"{expected}; got {dtype_and_rank(cells)}")
    rows, features = cells.shape
    if rows == 0 or features == 0:
        raise ValueError("a table needs a row and a feature, and has none of one of them")
    if rows > MAX_ROWS:
        raise ValueError(f"a table has at most {MAX_ROWS} rows, and this one has more")
    if cells.dtype == jnp.float32:
        if asked is not None:
            raise ValueError("questions are asked of uint8 cells: with float32, must be None")
        return
    if asked is None:
        words = "`dpbt.table` makes them, and `dpbt.questions.of_splits` for Boolean splits"
        raise ValueError(f"a table of uint8 cells needs questions; {words}")
    _check_questions(asked, features)


def _check_questions(asked: Questions, features: int) -> None:
    """Refuse questions that are none of `features` features.

    Raises:
        ValueError: naming the field.
    """
    splits, attributes = np.shape(asked.feature)[:1], np.shape(asked.attribute)[:1]
    expected = {
        "feature": (jnp.int32, splits),
        "low": (jnp.uint8, splits),
        "high": (jnp.uint8, splits),
        "attribute": (jnp.int32, attributes),
        "position": (jnp.float32, (*attributes, CELLS)),
    }
    for field, (dtype, shape) in expected.items():
        array = getattr(asked, field)
        if array.dtype != dtype or array.shape != shape or 0 in shape or not shape:
            words = f"{jnp.dtype(dtype)}, one for each split or attribute"
            raise ValueError(f"questions.{field} must be {words}; got {array.dtype}{array.shape}")
    for field in ("feature", "attribute"):
        read = np.asarray(getattr(asked, field))
        if read.min() < 0 or read.max() >= features:
            words = "must number features that the table has, from 0 on"
            raise ValueError(f"questions.{field} {words}, got {read!r}")
    allowed = asked.allowed
    if allowed is None:
        return
    if allowed.dtype != bool or allowed.shape != splits or not np.asarray(allowed).any():
        words = f"bool[{splits[0]}] with a split that may be chosen"
        raise ValueError(f"questions.allowed must be {words}, got {allowed!r}")
