"""Shapes that programs are compiled for: few of them, so that most fits find theirs compiled.

Padding adds absent rows and rounds beyond the number of rounds. Neither changes what is learned or
predicted.
"""

from typing import TypeVar

import jax
import numpy as np

from dpbt.common.types import Array, Table

MIN_ROWS = 64
"""Fewest rows that a table is padded to."""

MAX_PADDED_ROWS = 2**20
"""Larger tables are not padded: a copy costs more there than compiling does."""

Arrays = TypeVar("Arrays")
"""A pytree of arrays."""


def bucket(count: int) -> int:
    """The smallest size that is at least `count`, with four sizes in each octave.

    The sizes are 1 to 8, then 10, 12, 14, 16, 20 and so on: at most a quarter more than `count`.
    """
    step = 2 ** max(int(count - 1).bit_length() - 3, 0)
    return -(-count // step) * step


def row_bucket(rows: int) -> int:
    """How many rows a table of `rows` rows is padded to."""
    return rows if rows > MAX_PADDED_ROWS else max(bucket(rows), MIN_ROWS)


def padded(table: Table) -> Table:
    """The table with absent rows added, up to the size that programs are compiled for."""
    rows = table.bins.shape[0]
    padding = row_bucket(rows) - rows
    if padding <= 0:
        return table

    def pad(array: Array) -> Array:
        host = np.asarray(array)
        return jax.device_put(np.pad(host, [(0, padding)] + [(0, 0)] * (host.ndim - 1)))

    return table._replace(
        bins=pad(table.bins),
        target=pad(table.target),
        present=pad(table.present),
        weight=None if table.weight is None else pad(table.weight),
    )


def first(tree: Arrays, count: int) -> Arrays:
    """The first `count` entries on the leading axis of every array; it compiles no program."""

    def cut(array: Array) -> Array:
        return array if array.shape[0] == count else jax.device_put(np.asarray(array)[:count])

    return jax.tree.map(cut, tree)
