"""How a run fits into memory: the rows of its blocks that are worked on at once, rounds in a pass.

It is a plan from public numbers, and not a limit that the system keeps (docs/scaling.md).
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import Prepared, Questions, Recipe, Release, Table
from dpbt.data.blocks import BlockTable, Rows
from dpbt.privacy import pricing
from dpbt.privacy.boundary import DrawSpec
from dpbt.training import specs, step

BASE_BYTES = 700 * 2**20
"""What Python, JAX and compiled programs take, whatever the table is (docs/scaling.md)."""

_MIN_BLOCK, _MAX_BLOCK = 2**14, 2**19
"""Fewest and most rows of a block. Larger ones are no faster, because arrays leave the caches."""

_MAX_SCORES = 2**21
"""The most scores of a block of several classes, unless it has the fewest rows.

More of them took 1.4 to 1.6 times as long for a row.
"""


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """How a run fits into memory.

    Attributes:
        block: the most rows of a block.
        threads: how many blocks are worked on at once.
        scratch: whether scores lie in a file instead of in memory.
        rounds: the most rounds that one pass serves.
    """

    block: int
    threads: int
    scratch: bool
    rounds: int = 1


def plan_for(table: BlockTable, recipe: Recipe, memory: float, threads: int) -> MemoryPlan:
    """The largest blocks that fit into the memory, with scores in memory if they fit as well.

    Where rounds do not depend on each other, as many of them are made in a pass as fit beside
    blocks of a good size.

    Args:
        table: what is learned from.
        recipe: how.
        memory: in bytes.
        threads: how many blocks are worked on at once.

    Raises:
        ValueError: with the least memory, if it is too little; also for the model.
    """
    classes = math.prod(recipe.learner.hypotheses.response.axes)
    scores = 0 if recipe.independent else 4 * classes
    row, together = _work_bytes(table, recipe)
    each = threads * (table.features + row + 12 * scores + 40)
    largest = min(_MAX_BLOCK, _MAX_SCORES // classes, table.rows_per_block)
    largest = max(largest, _MIN_BLOCK)
    good = min(largest, 2**17)
    model, one_round = _model_bytes(recipe), _pass_bytes(table, recipe, threads)
    left = memory - BASE_BYTES - model - one_round - threads * together
    if left < each * _MIN_BLOCK:
        least = (memory - left + each * _MIN_BLOCK) / 2**20
        sums = one_round + threads * together
        most = ""
        if max(model, sums) > BASE_BYTES:
            what = "model takes" if model > sums else "sums of a pass take"
            most = f"; the {what} {max(model, sums) / 2**20:.0f} MB of it, so use less depth"
            most += " or fewer rounds" * (model > sums)
        raise ValueError(
            f"memory must be at least {least:.0f} MB here, got {memory / 2**20:.0f} MB{most}"
        )

    # More rounds in a pass, beside good blocks.
    rounds = 1
    if recipe.independent:
        rounds = int(np.clip(1 + (left - each * good) // one_round, 1, int(recipe.rounds)))
        left -= (rounds - 1) * one_round

    # Scores in memory, beside good blocks.
    all_scores = scores * table.capacity
    in_memory = left - all_scores >= each * good or not scores
    rows = (left - all_scores if in_memory else left) / each
    block = 2 ** int(np.log2(min(rows, largest)))
    return MemoryPlan(max(block, _MIN_BLOCK), threads, not in_memory, rounds)


def side_by_side_bytes(rows: int, recipe: Recipe) -> int:
    """Roughly what one of many rounds side by side takes, of a table in memory."""
    private, _ = _outputs(recipe)
    return 64 * rows + 256 * private


def _laid_out(table: BlockTable, recipe: Recipe) -> Any:
    """The shapes of a small block that is laid out for the learner."""
    block, questions = table.room(_MIN_BLOCK), table.questions
    return jax.eval_shape(lambda block: rows_of(block, questions, recipe), block)


def _work_bytes(table: BlockTable, recipe: Recipe) -> tuple[int, int]:
    """How many bytes a row takes in work, and how many all rows of a block take together."""
    laid, work = _laid_out(table, recipe), recipe.learner.traits.work
    if work is not None:
        return work(laid)
    size = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(laid))
    return -(-size // _MIN_BLOCK), 0


def _stages(table: BlockTable, recipe: Recipe) -> list[list[DrawSpec]]:
    """What is drawn from the sums of each pass of a round, in shapes."""
    once = {}
    if recipe.learner.prologue is not None:
        drawn = pricing.drawn(recipe, "prologue")
        once = {site: jax.ShapeDtypeStruct(draw.shape, draw.dtype) for site, draw in drawn.items()}

    def asked(prologue: Release) -> dict[str, DrawSpec]:
        public, _ = step.opened(recipe, prologue)
        context = step.begun(recipe, public, jnp.float32(0), jnp.int32(0))
        return specs.of_part("rounds", recipe, specs.row_of(table), context, {})

    found = jax.eval_shape(asked, once)
    return [[found[site] for site in stage] for stage in pricing.stages(recipe, "rounds")]


def _outputs(recipe: Recipe) -> tuple[int, int]:
    """How many outputs of a round follow from rows, and how many are public randomness."""
    draws = pricing.drawn(recipe, "rounds").values()
    private = sum(draw.outputs for draw in draws if draw.mechanism.price.reads_rows)
    return private, sum(draw.outputs for draw in draws if draw.mechanism.public)


def _model_bytes(recipe: Recipe) -> int:
    """What the releases and the hypotheses of all rounds take while the model is put together."""
    private, public = _outputs(recipe)
    release, hypothesis = _RELEASED * private + _RELEASED * public, _READ * private
    return int(recipe.rounds) * _COPIES * (release + hypothesis)


def _pass_bytes(table: BlockTable, recipe: Recipe, threads: int) -> int:
    """What a round takes in its largest pass: sums of blocks, their total, and its draws."""

    def taken(asked: DrawSpec) -> int:
        total_and_draw = _SELECTED if asked.mechanism.selects else _NOISY
        return asked.numbers * (_READ * AHEAD * threads + _RELEASED * total_and_draw)

    _, public = _outputs(recipe)
    largest = max(sum(map(taken, stage)) for stage in _stages(table, recipe))
    return largest + _RELEASED * public


AHEAD = 3
"""For each thread, the most blocks whose sums wait to be added up."""

_RELEASED, _READ = 8, 4
"""Most bytes of a number that is released, and of one that is summed in a block or is learned."""

_NOISY, _SELECTED = 3, 7
"""How often a sum is in memory in 64 bits: the old total, the new one, and the words of a draw.

A selection also has the sum and its scores in float64.
"""

_COPIES = 3
"""How often the rounds are in memory at the end: one by one, stacked, and filled up and scaled."""


def rows_of(block: Rows, questions: Questions, recipe: Recipe) -> Prepared:
    """The rows of a block, laid out for the learner."""
    cells, target, present, weight = jax.tree.map(jnp.asarray, block)
    table = Table(cells.T, target, present, questions, weight)
    return recipe.learner.hypotheses.prepare(table)
