"""The plan of the memory of a run over blocks: the rows of a slice, and the rounds of a pass.

It follows from public numbers, and is not a limit that the system keeps (docs/scaling.md).
"""

import math
from typing import NamedTuple

import jax
import numpy as np

from dpbt.data.blocks import BlockTable
from dpbt.privacy.draw_dependencies import draw_specs_of_phase
from dpbt.privacy.pass_stages import stages_of_phase
from dpbt.training.blocks import absent_row
from dpbt.training.table_preparation import prepare_rows_of_block
from dpbt.types import (
    Recipe,
    WorkBytes,
)

BASE_BYTES = 700 * 2**20
"""What Python, JAX and compiled programs take, whatever the table is (docs/scaling.md)."""

_MIN_ROWS_OF_SLICE = 2**14
"""The fewest rows of a slice."""

_PREFERRED_ROWS_OF_SLICE = 2**17
"""The rows of a slice that rounds which share a pass leave room for."""

_MAX_ROWS_OF_SLICE = 2**19
"""The most rows of a slice. Larger slices are no faster, because their arrays leave the caches."""

_MAX_SCORES_OF_SLICE = 2**21
"""The most scores of a slice of several classes, unless it has the fewest rows.

More of them took 1.4 to 1.6 times as long for a row.
"""

MAX_WAITING_SLICES_PER_THREAD = 3
"""For each thread, the most slices whose sums wait to be added up."""

_BYTES_PER_SUM_OF_SLICE = 4
"""Bytes per sum over the rows of a slice."""

_BYTES_PER_TOTAL = 128
"""Bytes per sum over all rows: the running total, its successor and the draw."""

_BYTES_PER_OUTPUT = 36
"""Bytes of an output of a round, in its release and its hypothesis.

At the end these are in memory three times: one by one, stacked, and filled up and scaled.
"""


class MemoryPlan(NamedTuple):
    """The sizes of slices and passes with which a run over blocks fits into memory.

    Attributes:
        max_rows_of_slice: the most rows of a slice.
        threads: how many slices are worked on at once.
        max_rounds_of_pass: the most rounds that one pass serves.
    """

    max_rows_of_slice: int
    threads: int
    max_rounds_of_pass: int = 1


def plan_memory(table: BlockTable, recipe: Recipe, *, memory: float, threads: int) -> MemoryPlan:
    """Plan the largest slices that fit into the memory beside the scores of all rows.

    Where rounds do not depend on each other, a pass serves as many of them as fit beside slices of
    a good size.

    Args:
        table: the table that the run learns from.
        recipe: of the run, without an axis of settings.
        memory: in bytes.
        threads: how many slices are worked on at once.

    Raises:
        ValueError: with the least memory, if it is too little; also for the model.
    """
    num_classes = math.prod(recipe.learner.response.score_axes)
    score_bytes = 0 if recipe.has_independent_rounds else 4 * num_classes
    work = _work_bytes_of_slice(table, recipe)
    bytes_of_row = threads * (table.features + work.of_row + 12 * score_bytes + 40)
    num_sums = _max_num_sums_of_stage(table, recipe)
    bytes_of_waiting_sum = _BYTES_PER_SUM_OF_SLICE * MAX_WAITING_SLICES_PER_THREAD * threads
    bytes_of_sums = num_sums * (bytes_of_waiting_sum + _BYTES_PER_TOTAL)
    specs = draw_specs_of_phase(recipe, recipe.learner.round)
    model_bytes = _BYTES_PER_OUTPUT * int(recipe.rounds) * sum(spec.output.size for spec in specs)
    bytes_beside_rows = threads * work.of_all_rows + score_bytes * table.capacity
    free_bytes = memory - BASE_BYTES - model_bytes - bytes_of_sums - bytes_beside_rows
    if free_bytes < bytes_of_row * _MIN_ROWS_OF_SLICE:
        min_memory = memory - free_bytes + bytes_of_row * _MIN_ROWS_OF_SLICE
        raise ValueError(
            f"memory must be at least {min_memory / 2**20:.0f} MB here, got "
            f"{memory / 2**20:.0f} MB; the model takes {model_bytes / 2**20:.0f} MB of it, and "
            "less depth and fewer rounds take less"
        )

    # More rounds in a pass, beside good slices.
    max_rounds_of_pass = 1
    if recipe.has_independent_rounds:
        max_more_rounds = (free_bytes - bytes_of_row * _PREFERRED_ROWS_OF_SLICE) // bytes_of_sums
        max_rounds_of_pass = int(np.clip(1 + max_more_rounds, 1, int(recipe.rounds)))
        free_bytes -= (max_rounds_of_pass - 1) * bytes_of_sums

    max_rows = min(
        _MAX_ROWS_OF_SLICE, _MAX_SCORES_OF_SLICE // num_classes, table.manifest.rows_per_block
    )
    rows_that_fit = np.clip(free_bytes / bytes_of_row, 1, max(max_rows, _MIN_ROWS_OF_SLICE))
    rows_of_slice = max(2 ** int(np.log2(rows_that_fit)), _MIN_ROWS_OF_SLICE)
    return MemoryPlan(rows_of_slice, threads, max_rounds_of_pass)


def _work_bytes_of_slice(table: BlockTable, recipe: Recipe) -> WorkBytes:
    """The bytes that the work on a slice takes, for each row and for all rows together.

    The learner states them, or else they are those of the prepared rows.
    """
    block = table.new_absent_rows(_MIN_ROWS_OF_SLICE)
    splits = table.splits
    prepared = jax.eval_shape(lambda block: prepare_rows_of_block(block, splits, recipe), block)
    if recipe.learner.work_bytes is not None:
        return recipe.learner.work_bytes(prepared)
    size = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(prepared))
    return WorkBytes(of_row=-(-size // _MIN_ROWS_OF_SLICE), of_all_rows=0)


def _max_num_sums_of_stage(table: BlockTable, recipe: Recipe) -> int:
    """The most numbers that a round sums up in one of its stages, with its public draws."""
    one_row = absent_row.absent_row_like(table)
    specs = jax.eval_shape(lambda: absent_row.round_draw_specs_after_zero_prologue(recipe, one_row))
    num_public = sum(spec.output.size for spec in specs.values() if spec.mechanism.public)
    sums_of_stages = [
        jax.tree.leaves([specs[site].private_input for site in stage])
        for stage in stages_of_phase(recipe, recipe.learner.round)
    ]
    return num_public + max(sum(array.size for array in stage) for stage in sums_of_stages)
