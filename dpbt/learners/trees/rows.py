"""The rows of a table as trees read them, and the kind of hypotheses that they train."""

from typing import NamedTuple

import jax.numpy as jnp

from dpbt import types
from dpbt.data import splits
from dpbt.learners.trees import model
from dpbt.learners.trees.model import ONE_HOT_NODES, BinsAndSplits
from dpbt.public_types import redacted_repr
from dpbt.types import Array

MANY_CELLS = 2**14
"""From this many rows on, sums by bin are faster on CPUs if features have many splits."""

SPLITS_OF_A_FEATURE = 16
"""From this many splits per feature on, sums by bin are faster on CPUs for many rows.

Seconds of processor time of ten trees in memory, by product / by bin, on 2 cores with AVX2:

| rows x features | depth | splits of a feature | seconds    |
|-----------------|-------|---------------------|------------|
| 32000 x 14      | 3     | 9                   | .03 / .05  |
| 32000 x 14      | 3     | 63                  | .15 / .05  |
| 200000 x 20     | 5     | 31                  | 2.26 / .66 |
"""


class TreeRows(NamedTuple):
    """The rows of a table with every split evaluated on them, as the rounds read them.

    `evaluate_splits_of_rows` makes it once, outside all loops.

    Attributes:
        splits_of_rows: i8[S, N] of 0 and 1, which split is satisfied by which row. Where products
            are slower, the rows by their bins.
        target, present: as in `Table`.
        allowed: bool[S] or None, as in `Splits`.
        weight: f32[N] or None, as in `Table`.
    """

    splits_of_rows: Array | BinsAndSplits
    target: Array
    present: Array
    allowed: types.AnyArray | None = None
    weight: Array | None = None

    __repr__ = redacted_repr


def evaluate_splits_of_rows(table: types.Table) -> TreeRows:
    """Evaluate every public split on every row, or lay out the bins where that is faster."""
    table_splits, (rows, features) = table.splits, table.bins.shape
    assert table_splits is not None  # as `check_table_has_uint8_bins_and_splits` says
    if rows >= MANY_CELLS and len(table_splits.feature) >= SPLITS_OF_A_FEATURE * features:
        splits_of_rows = BinsAndSplits(
            table.bins.T,
            *map(jnp.asarray, (table_splits.feature, table_splits.low, table_splits.high)),
        )
    else:
        splits_of_rows = splits.satisfied_rows_by_split(table).astype(jnp.int8)
    return TreeRows(
        splits_of_rows,
        target=table.target,
        present=table.present,
        allowed=table_splits.allowed,
        weight=table.weight,
    )


def work_bytes_of_level_sums(table: TreeRows, num_nodes: int) -> types.WorkBytes:
    """Estimate the memory that summing the splits of a level takes.

    That of the rows is not part of it.

    Args:
        table: the shapes of rows that are laid out.
        num_nodes: how many nodes the level has.
    """
    compared_bytes = 4 * min(
        2 * num_nodes, 2 * ONE_HOT_NODES
    )  # of each, its bin and three Booleans
    if not isinstance(table.splits_of_rows, BinsAndSplits):
        bytes_of_splits = 6 * table.splits_of_rows.shape[0] + 2 * num_nodes
        return types.WorkBytes(bytes_of_splits + compared_bytes + _ROW_BYTES, 0)
    features = table.splits_of_rows.bins.shape[0]
    return types.WorkBytes(
        of_row=features + compared_bytes + _ROW_BYTES,
        of_all_rows=4 * 3 * features * 2 * num_nodes * types.MAX_BINS,
    )


_ROW_BYTES = 40
"""What a row takes for its node, its weight and its place, with room for copies."""


def check_table_has_uint8_bins_and_splits(table: types.Table) -> None:
    """Refuse a table without uint8 bins and valid splits of them.

    Raises:
        ValueError: as `splits.check_bins_and_splits`, and unless the table holds uint8 bins with
            splits.
    """
    splits.check_bins_and_splits(table)
    if table.bins.dtype != jnp.uint8:
        dtype_words = types.describe_dtype_and_rank(table.bins)
        raise ValueError(f"trees ask splits of uint8 table.bins, got {dtype_words}")


TREES = model.TREES.with_training(
    example_table=splits.absent_row_table,
    check_table=check_table_has_uint8_bins_and_splits,
    prepare=evaluate_splits_of_rows,
    prediction_input=lambda rows: rows.splits_of_rows,
    bound=lambda tree: jnp.max(jnp.abs(tree.leaf)),
)
"""Trees of any depth over public splits."""
