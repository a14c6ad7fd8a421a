"""Passes over a table in blocks: the rows, their scores, and how both fit into memory.

A pass adds hypotheses to the scores of the rows, weighs them, and sums up what the learner's
program draws from. All sums are of integers, so neither the size of the blocks nor their order
changes a sum. Rows are worked on in slices of one shape, by several threads, so one thread reads
while another one computes. How it fits into memory is a plan from public numbers, and not a limit
that the system keeps (docs/scaling.md).
"""

import collections
import math
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common import compilation
from dpbt.data.blocks import BlockRows, BlockTable
from dpbt.privacy import boundary, totals
from dpbt.privacy.dependencies import draw_specs_of_phase, priced_draws
from dpbt.privacy.phase_views import (
    PhaseContext,
    RecipePhase,
    assign_leaves,
    program_view,
    weigh_rows,
)
from dpbt.privacy.stages import pass_stages
from dpbt.privacy.totals import Totals
from dpbt.public_types import Splits
from dpbt.training import absent_row, processes, steps
from dpbt.types import (
    Array,
    Given,
    Phase,
    Prepared,
    Prologue,
    Recipe,
    Release,
    Table,
)

# How a run fits into memory.

BASE_BYTES = 700 * 2**20
"""What Python, JAX and compiled programs take, whatever the table is (docs/scaling.md)."""

_MIN_BLOCK, _GOOD_BLOCK, _MAX_BLOCK = 2**14, 2**17, 2**19
"""Fewest and most rows of a slice. Larger ones are no faster, because arrays leave the caches."""

_MAX_SCORES = 2**21
"""The most scores of a slice of several classes, unless it has the fewest rows.

More of them took 1.4 to 1.6 times as long for a row.
"""

AHEAD = 3
"""For each thread, the most slices whose sums wait to be added up."""

_SUM_BYTES, _TOTAL_BYTES = 4, 128
"""Of a number that is summed in a slice; and of its total, the new one and the words of a draw."""

_OUTPUT_BYTES = 36
"""Of an output of a round: in its release and its hypothesis, which are in memory three times at
the end, one by one, stacked, and filled up and scaled."""


class MemoryPlan(NamedTuple):
    """How a run fits into memory.

    Attributes:
        block: the most rows of a slice.
        threads: how many slices are worked on at once.
        rounds: the most rounds that one pass serves.
    """

    block: int
    threads: int
    rounds: int = 1


def plan_for(table: BlockTable, recipe: Recipe, memory: float, threads: int) -> MemoryPlan:
    """The largest slices that fit into the memory beside the scores of all rows.

    Where rounds do not depend on each other, as many of them are made in a pass as fit beside
    slices of a good size.

    Args:
        table: what is learned from.
        recipe: how.
        memory: in bytes.
        threads: how many slices are worked on at once.

    Raises:
        ValueError: with the least memory, if it is too little; also for the model.
    """
    classes = math.prod(recipe.learner.response.axes)
    scores = 0 if recipe.independent else 4 * classes
    row, together = _bytes_of_work(table, recipe)
    each = threads * (table.features + row + 12 * scores + 40)
    sums = _num_sums_of_pass(table, recipe) * (_SUM_BYTES * AHEAD * threads + _TOTAL_BYTES)
    outputs = sum(spec.output.size for spec in draw_specs_of_phase(recipe, recipe.learner.round))
    model = _OUTPUT_BYTES * int(recipe.rounds) * outputs
    left = memory - BASE_BYTES - model - sums - threads * together - scores * table.capacity
    if left < each * _MIN_BLOCK:
        least = (memory - left + each * _MIN_BLOCK) / 2**20
        raise ValueError(
            f"memory must be at least {least:.0f} MB here, got {memory / 2**20:.0f} MB; the model "
            f"takes {model / 2**20:.0f} MB of it, and less depth and fewer rounds take less"
        )

    # More rounds in a pass, beside good slices.
    rounds = 1
    if recipe.independent:
        rounds = int(np.clip(1 + (left - each * _GOOD_BLOCK) // sums, 1, int(recipe.rounds)))
        left -= (rounds - 1) * sums

    largest = min(_MAX_BLOCK, _MAX_SCORES // classes, table.manifest.rows_per_block)
    block = 2 ** int(np.log2(np.clip(left / each, 1, max(largest, _MIN_BLOCK))))
    return MemoryPlan(max(block, _MIN_BLOCK), threads, rounds)


def _bytes_of_work(table: BlockTable, recipe: Recipe) -> tuple[int, int]:
    """How many bytes a row takes in work, and how many all rows of a slice take together."""
    block, splits = table.new_absent_rows(_MIN_BLOCK), table.splits
    laid = jax.eval_shape(lambda block: prepare_block(block, splits, recipe), block)
    if recipe.learner.work_bytes is not None:
        return recipe.learner.work_bytes(laid)
    size = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(laid))
    return -(-size // _MIN_BLOCK), 0


def _num_sums_of_pass(table: BlockTable, recipe: Recipe) -> int:
    """How many numbers a round sums up and draws in its largest pass."""
    dummy = absent_row.absent_row(table)
    specs = jax.eval_shape(lambda: absent_row.first_round_draw_specs(recipe, dummy))
    stages = pass_stages(recipe, recipe.learner.round)
    public = sum(draw.output.size for draw in specs.values() if draw.mechanism.public)
    parts = [jax.tree.leaves([specs[site].total for site in stage]) for stage in stages]
    return public + max(sum(part.size for part in stage) for stage in parts)


# Passes.


class Slice(NamedTuple):
    """Some rows of a block, which are worked on at once.

    Attributes:
        number: of the slice in the table.
        block: the number of the block.
        first: its first row in the block.
        rows: how many rows it has.
        place: of its first row in the whole table, of all processes.
    """

    number: int
    block: int
    first: int
    rows: int
    place: int


class PendingRound(NamedTuple):
    """A round that the scores of the rows do not have yet.

    Attributes:
        structure: of the round.
        hypothesis: of the round.
    """

    structure: Any
    hypothesis: Any


class Batch(NamedTuple):
    """What is public in the B rounds of a pass; a prologue and an epilogue are one of one.

    Attributes:
        context: of all rounds; their numbers and structures have a leading axis.
        sites: the public randomness of the rounds, and what earlier stages of them released, with a
            leading axis.
        pending: the rounds that the scores do not have yet, with a leading axis; None in a later
            stage, where the scores have them, and where no scores are read.
    """

    context: PhaseContext
    sites: Release
    pending: PendingRound | None


def prepare_block(block: BlockRows, splits: Splits, recipe: Recipe) -> Prepared:
    """The rows of a block, laid out for the learner."""
    bins, target, present, weight = jax.tree.map(jnp.asarray, block)
    table = Table(bins.T, target, present, splits, weight)
    return recipe.learner.training.prepare(table)


def _sums_of_slice(
    block: BlockRows,
    scores: Array | None,
    noise: Array,
    place: Array,
    splits: Splits,
    batch: Batch,
    recipe: Recipe,
    phase: Phase,
    wanted: tuple[str, ...],
) -> Any:
    """(new scores or None, sums, cap); compiled once for a shape."""
    learner, context = recipe.learner, batch.context
    rows, recipe_phase = prepare_block(block, splits, recipe), RecipePhase.of_recipe(recipe, phase)

    def add(number: Any, scores: Array) -> Array:
        structure, hypothesis = jax.tree.map(lambda array: array[number], batch.pending)
        placed = assign_leaves(learner, structure, rows)
        return scores + steps.predict_rows(recipe, hypothesis, placed)

    if scores is not None and batch.pending is not None:
        count = jax.tree.leaves(batch.pending)[0].shape[0]
        scores = add(0, scores) if count == 1 else jax.lax.fori_loop(0, count, add, scores)
    read = scores
    if read is None:
        axes = learner.response.axes
        read = jnp.zeros((*axes, *rows.present.shape), jnp.float32)
    weighed = weigh_rows(recipe_phase, rows, read, context)

    def one(entry: tuple[Array, Any, Release, Array]) -> Any:
        number, structure, sites, key = entry
        public = context.public._replace(round=number, structure=structure)
        view = program_view(recipe_phase, rows, weighed, recipe.params, public)
        given = Given(sites, key, place)
        priced = priced_draws(recipe, phase)
        return boundary.sums(phase.program, wanted, given, view, priced)

    entries = context.public.round, context.public.structure, batch.sites, noise
    if len(noise) > 1:
        sums = jax.lax.map(one, entries)
    else:  # a single one needs no loop
        sums = one(jax.tree.map(lambda array: array[0], entries))
        sums = jax.tree.map(lambda array: array[None], sums)
    return scores, sums, weighed.cap


# The new scores take the place of the old ones.
_summed = compilation.jit_with_bounded_cache(
    donate_argnames=("scores",), static_argnames=("phase", "wanted")
)(_sums_of_slice)


class Passes:
    """The rows of a table in blocks, and their scores; all of it is private.

    Only `sums` leave, and `privacy.totals.draw_from_sums` adds the noise. Use it as a context. A
    pass that finds a changed block raises a ValueError, and nothing is drawn from its sums.
    """

    def __init__(self, table: BlockTable, recipe: Recipe, plan: MemoryPlan, place: int = 0):
        """Make room for the rows that are worked on.

        Args:
            table: the rows.
            recipe: one setting.
            plan: how it fits into memory.
            place: of the first row among those of all processes.
        """
        self._table, self._recipe, self._plan = table, recipe, plan
        self._splits = jax.tree.map(jnp.asarray, table.splits)
        self._pool = ThreadPoolExecutor(plan.threads)
        self._slices = list(_slices_of_table(table, plan.block, place))
        self._rooms: queue.SimpleQueue[BlockRows] = queue.SimpleQueue()
        for _ in range(plan.threads):
            self._rooms.put(table.new_absent_rows(plan.block))
        self._scores: list[Any] = [None] * len(self._slices)

    def __enter__(self) -> "Passes":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def verify_blocks(self) -> Iterator[int]:
        """Compare every block with its checksum; yields how many were compared so far.

        Raises:
            ValueError: naming a block that is not what its manifest says.
            OSError: if a block cannot be read.
        """
        for number, _ in enumerate(
            self._pool.map(self._table.verify_block, range(len(self._table.blocks)))
        ):
            yield number + 1

    def start_scores(self, initial_score: Array) -> None:
        """Set the score of every row to f32[], or f32[K] with several classes."""
        shape = *initial_score.shape, self._plan.block
        self._scores = [jnp.broadcast_to(initial_score[..., None], shape) for _ in self._slices]

    def sums(
        self, phase: Phase, batch: Batch, noise: Array, stage: tuple[str, ...]
    ) -> tuple[Totals, Array]:
        """(sums, cap) of a stage of a phase, after adding what is pending to the scores.

        The sums over all rows are private, with a leading axis for the rounds. The cap is the
        public bound on the weights of the rounds.

        Args:
            phase: of the learner.
            batch: what is public in its rounds.
            noise: B keys, of the noise of each round; private.
            stage: the sites that are summed.
        """
        columns = None if isinstance(phase, Prologue) else self._columns(batch)
        told = self._splits, *jax.tree.map(jnp.asarray, (batch, self._recipe))
        scored = not isinstance(phase, Prologue) and not self._recipe.independent

        @jax.enable_x64(False)  # threads do not have the caller's context
        def work(piece: Slice) -> tuple[Totals, Array]:
            rows = self._rooms.get()
            try:
                self._table.read_rows(
                    piece.block, first=piece.first, count=piece.rows, into=rows, columns=columns
                )
                scores = self._scores[piece.number] if scored else None
                words = np.array([piece.place >> 32, piece.place & (2**32 - 1)], np.uint32)
                found = _summed(rows, scores, noise, words, *told, phase, stage)
                # JAX reads `rows` in place, so they are free when all outputs are there.
                new, sums, cap = jax.block_until_ready(found)
            finally:
                self._rooms.put(rows)
            if scored:
                self._scores[piece.number] = new
            return sums, cap

        sums: Totals | None = None
        caps = []
        for more, cap in self._each(work):
            sums = totals.add_sums(sums, more)
            caps.append(cap)
        assert sums is not None
        return processes.sum_over_processes(sums), caps[0]  # every slice says the same

    def _columns(self, batch: Batch) -> Sequence[int] | None:
        """The columns that some rounds and the pending ones ask; None for all."""
        partition = self._recipe.learner.partition
        if partition is None:
            return None
        reads, asked = partition.reads, []
        for structures in (batch.context.public.structure, *(batch.pending or ())[:1]):
            rounds = jax.tree.leaves(structures)[0].shape[0] if structures is not None else 0
            asked += [reads(jax.tree.map(lambda a, k=k: a[k], structures)) for k in range(rounds)]
        return np.unique(np.concatenate([np.asarray(each) for each in asked])).tolist()

    def _each(self, work: Callable[[Slice], Any]) -> Iterator[Any]:
        """What is found in each slice, a few slices ahead of the one that is asked for."""
        ahead: collections.deque[Future[Any]] = collections.deque()
        for piece in self._slices:
            if len(ahead) == (AHEAD - 1) * self._plan.threads:
                yield ahead.popleft().result()
            ahead.append(self._pool.submit(work, piece))
        while ahead:
            yield ahead.popleft().result()


def _slices_of_table(table: BlockTable, size: int, place: int) -> Iterator[Slice]:
    """The slices of a table, whose first row has a place among the rows of all processes."""
    number = 0
    for block, (rows, _, _) in enumerate(table.blocks):
        for first in range(0, rows, size):
            count = min(size, rows - first)
            yield Slice(number, block, first, count, place)
            number, place = number + 1, place + count
