"""Arrays on a mesh of devices, and of processes: settings along one axis, rows along the other."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dpbt.base import AnyArray, Array, Table
from dpbt.validate import shown

SETTINGS_AXIS, ROWS_AXIS = "settings", "rows"


def device_mesh(devices: Sequence[Any] | None = None, row_shards: int = 1) -> Mesh:
    """A mesh of all devices of all processes, for settings and for `row_shards` shards of rows.

    Raises:
        ValueError: if the devices are not a multiple of `row_shards`.
    """
    devices = jax.devices() if devices is None else list(devices)
    if row_shards < 1 or len(devices) % row_shards:
        raise ValueError(
            f"row_shards must divide the number of devices, {len(devices)}, got {shown(row_shards)}"
        )
    return Mesh(np.asarray(devices).reshape(-1, row_shards), (SETTINGS_AXIS, ROWS_AXIS))


def place(array: AnyArray, mesh: Mesh, *axes: str | None) -> Array:
    """A host array, the same in every process, on the mesh: dimension k is cut along axes[k]."""
    array = np.asarray(array)
    sharding = NamedSharding(mesh, PartitionSpec(*axes))
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def shard_rows(table: Table, mesh: Mesh) -> Table:
    """The table, filled up with absent rows and spread over the mesh.

    A table may so be larger than one device. `boost` under jit then sums every level statistic over
    the shards (an integer all-reduce), and keeps each row's score where the row is. The sums are
    exact, so releases do not depend on the number of shards.
    """
    absent = -table.target.shape[0] % mesh.shape[ROWS_AXIS]

    def spread(rows: AnyArray) -> Array:
        filled = np.pad(np.asarray(rows), [(0, absent)] + [(0, 0)] * (rows.ndim - 1))
        return place(filled, mesh, ROWS_AXIS)

    questions = jax.tree.map(lambda array: place(array, mesh), table.questions)
    return Table(spread(table.cells), spread(table.target), spread(table.present), questions)


def gathered(array: Array) -> np.ndarray:
    """The whole array, on every process."""
    if jax.process_count() > 1:
        array = multihost_utils.process_allgather(array, tiled=True)
    return np.asarray(array)
