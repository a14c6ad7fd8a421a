"""Shapes that programs are compiled for: few of them, so that most fits find theirs compiled.

Padding adds absent rows and rounds beyond the number of rounds. Neither changes what is learned or
predicted.
"""

from typing import TypeVar

import jax
import numpy as np

from dpbt.arithmetic import LEAST_ROWS as LEAST_ROWS
from dpbt.arithmetic import MOST_PADDED_ROWS as MOST_PADDED_ROWS
from dpbt.arithmetic import bucket as bucket
from dpbt.arithmetic import row_bucket
from dpbt.base import Array, Table

Arrays = TypeVar("Arrays")
"""A pytree of arrays."""


def padded(table: Table) -> Table:
    """The table with absent rows added, up to the size that programs are compiled for."""
    rows = table.cells.shape[0]
    padding = row_bucket(rows) - rows
    if padding <= 0:
        return table

    def pad(array: Array) -> Array:
        host = np.asarray(array)
        return jax.device_put(np.pad(host, [(0, padding)] + [(0, 0)] * (host.ndim - 1)))

    return table._replace(
        cells=pad(table.cells),
        target=pad(table.target),
        present=pad(table.present),
        weight=None if table.weight is None else pad(table.weight),
    )


def first(tree: Arrays, count: int) -> Arrays:
    """The first `count` entries on the leading axis of every array; it compiles no program."""

    def cut(array: Array) -> Array:
        return array if array.shape[0] == count else jax.device_put(np.asarray(array)[:count])

    return jax.tree.map(cut, tree)
