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
from dpbt.privacy import answers, totals
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
    Phase,
    Prepared,
    Prologue,
    Recipe,
    Release,
    Site,
    StageInputs,
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
    num_classes = math.prod(recipe.learner.response.axes)
    score_bytes = 0 if recipe.has_independent_rounds else 4 * num_classes
    work = _bytes_of_work(table, recipe)
    bytes_of_row = threads * (table.features + work.of_row + 12 * score_bytes + 40)
    num_sums = _num_sums_of_pass(table, recipe)
    bytes_of_sums = num_sums * (_SUM_BYTES * AHEAD * threads + _TOTAL_BYTES)
    specs = draw_specs_of_phase(recipe, recipe.learner.round)
    model_bytes = _OUTPUT_BYTES * int(recipe.rounds) * sum(spec.output.size for spec in specs)
    bytes_beside_rows = threads * work.of_slice + score_bytes * table.capacity
    free_bytes = memory - BASE_BYTES - model_bytes - bytes_of_sums - bytes_beside_rows
    if free_bytes < bytes_of_row * _MIN_BLOCK:
        min_memory = memory - free_bytes + bytes_of_row * _MIN_BLOCK
        raise ValueError(
            f"memory must be at least {min_memory / 2**20:.0f} MB here, got "
            f"{memory / 2**20:.0f} MB; the model takes {model_bytes / 2**20:.0f} MB of it, and "
            "less depth and fewer rounds take less"
        )

    # More rounds in a pass, beside good slices.
    rounds = 1
    if recipe.has_independent_rounds:
        max_more_rounds = (free_bytes - bytes_of_row * _GOOD_BLOCK) // bytes_of_sums
        rounds = int(np.clip(1 + max_more_rounds, 1, int(recipe.rounds)))
        free_bytes -= (rounds - 1) * bytes_of_sums

    max_block = min(_MAX_BLOCK, _MAX_SCORES // num_classes, table.manifest.rows_per_block)
    num_rows = np.clip(free_bytes / bytes_of_row, 1, max(max_block, _MIN_BLOCK))
    block = 2 ** int(np.log2(num_rows))
    return MemoryPlan(max(block, _MIN_BLOCK), threads, rounds)


class _BytesOfWork(NamedTuple):
    """How many bytes the work on a slice takes.

    Attributes:
        of_row: for each row.
        of_slice: for all rows of a slice together, however many.
    """

    of_row: int
    of_slice: int


def _bytes_of_work(table: BlockTable, recipe: Recipe) -> _BytesOfWork:
    """How many bytes the work on a slice takes, as the learner says or as its rows take."""
    block, splits = table.new_absent_rows(_MIN_BLOCK), table.splits
    prepared = jax.eval_shape(lambda block: prepare_block(block, splits, recipe), block)
    if recipe.learner.work_bytes is not None:
        return _BytesOfWork(*recipe.learner.work_bytes(prepared))
    size = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(prepared))
    return _BytesOfWork(of_row=-(-size // _MIN_BLOCK), of_slice=0)


def _num_sums_of_pass(table: BlockTable, recipe: Recipe) -> int:
    """How many numbers a round sums up and draws in its largest pass."""
    one_row = absent_row.absent_row(table)
    specs = jax.eval_shape(lambda: absent_row.first_round_draw_specs(recipe, one_row))
    num_public = sum(spec.output.size for spec in specs.values() if spec.mechanism.public)
    totals_of_stages = [
        jax.tree.leaves([specs[site].total for site in stage])
        for stage in pass_stages(recipe, recipe.learner.round)
    ]
    return num_public + max(sum(total.size for total in stage) for stage in totals_of_stages)


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


class _SumsOfSlice(NamedTuple):
    """What work on a slice of rows gives.

    Attributes:
        scores: of its rows, with the pending rounds; None where none are read.
        sums: over its rows, by site, with a leading axis for rounds; private.
        cap: f32[], the public bound on the weights.
    """

    scores: Array | None
    sums: Any
    cap: Array


def _sums_of_slice(
    block: BlockRows,
    scores: Array | None,
    noise: Array,
    place: Array,
    splits: Splits,
    batch: Batch,
    recipe: Recipe,
    phase: Phase,
    stage: tuple[Site, ...],
) -> _SumsOfSlice:
    """The sums of one stage over the rows of a slice; compiled once for a shape.

    Args:
        block: the rows.
        scores: of the rows, without the pending rounds; None where none are read.
        noise: B keys, of the noise of each round.
        place: u32[2], of the first row in the table, as `Mechanism.sample_places` takes it.
        splits: of the table.
        batch: what is public in the rounds.
        recipe: one setting.
        phase: of the learner.
        stage: the sites that are summed.
    """
    learner, context = recipe.learner, batch.context
    rows, recipe_phase = prepare_block(block, splits, recipe), RecipePhase.of_recipe(recipe, phase)

    def add_pending(place: Any, scores: Array) -> Array:
        structure, hypothesis = jax.tree.map(lambda array: array[place], batch.pending)
        placed_rows = assign_leaves(learner, structure, rows)
        return scores + steps.predict_rows(recipe, hypothesis, placed_rows)

    if scores is not None and batch.pending is not None:
        num_pending = jax.tree.leaves(batch.pending)[0].shape[0]
        if num_pending == 1:
            scores = add_pending(0, scores)
        else:
            scores = jax.lax.fori_loop(0, num_pending, add_pending, scores)
    scores_or_zeros = scores
    if scores_or_zeros is None:
        axes = learner.response.axes
        scores_or_zeros = jnp.zeros((*axes, *rows.present.shape), jnp.float32)
    weighed = weigh_rows(recipe_phase, rows, scores_or_zeros, context)

    def sums_of_round(entry: tuple[Array, Any, Release, Array]) -> Any:
        number, structure, sites, key = entry
        public = context.public._replace(round=number, structure=structure)
        view = program_view(recipe_phase, rows, weighed, recipe.params, public)
        stage_inputs = StageInputs(sites, key, place)
        priced = priced_draws(recipe, phase)
        return answers.sums_of_stage(phase.program, stage, stage_inputs, view, priced)

    entries = context.public.round, context.public.structure, batch.sites, noise
    if len(noise) > 1:
        sums = jax.lax.map(sums_of_round, entries)
    else:  # a single one needs no loop
        sums = sums_of_round(jax.tree.map(lambda array: array[0], entries))
        sums = jax.tree.map(lambda array: array[None], sums)
    return _SumsOfSlice(scores, sums, weighed.cap)


# The new scores take the place of the old ones.
_compiled_sums_of_slice = compilation.jit_with_bounded_cache(
    donate_argnames=("scores",), static_argnames=("phase", "stage")
)(_sums_of_slice)


class CappedSums(NamedTuple):
    """Sums over rows, and the public bound on the weights of these.

    Attributes:
        sums: by site, with a leading axis for rounds; private.
        cap: f32[].
    """

    sums: Totals
    cap: Array


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

    def sums(self, phase: Phase, batch: Batch, noise: Array, stage: tuple[Site, ...]) -> CappedSums:
        """The sums of a stage of a phase, after adding the pending rounds to the scores.

        Args:
            phase: of the learner.
            batch: what is public in its rounds.
            noise: B keys, of the noise of each round; private.
            stage: the sites that are summed.
        """
        columns = None if isinstance(phase, Prologue) else self._columns_of_batch(batch)
        batch, recipe = jax.tree.map(jnp.asarray, (batch, self._recipe))
        reads_scores = not isinstance(phase, Prologue) and not self._recipe.has_independent_rounds

        @jax.enable_x64(False)  # threads do not have the caller's context
        def work_on_slice(piece: Slice) -> CappedSums:
            rows = self._rooms.get()
            try:
                self._table.read_rows(
                    piece.block, first=piece.first, count=piece.rows, into=rows, columns=columns
                )
                result = _compiled_sums_of_slice(
                    rows,
                    self._scores[piece.number] if reads_scores else None,
                    noise,
                    np.array([piece.place >> 32, piece.place & (2**32 - 1)], np.uint32),
                    self._splits,
                    batch,
                    recipe,
                    phase,
                    stage,
                )
                # JAX reads `rows` in place, so they are free when all outputs are there.
                result = jax.block_until_ready(result)
            finally:
                self._rooms.put(rows)
            if reads_scores:
                self._scores[piece.number] = result.scores
            return CappedSums(result.sums, result.cap)

        sums: Totals | None = None
        caps = []
        for sums_of_slice, cap in self._results_of_slices(work_on_slice):
            sums = totals.add_sums(sums, sums_of_slice)
            caps.append(cap)
        assert sums is not None
        return CappedSums(processes.sum_over_processes(sums), caps[0])  # all slices have one cap

    def _columns_of_batch(self, batch: Batch) -> Sequence[int] | None:
        """The columns that the structures of some rounds and of pending ones read; None for all."""
        partition = self._recipe.learner.partition
        if partition is None:
            return None
        columns: list[np.ndarray] = []
        pending = None if batch.pending is None else batch.pending.structure
        for structures in (batch.context.public.structure, pending):
            rounds = 0 if structures is None else jax.tree.leaves(structures)[0].shape[0]
            for number in range(rounds):
                structure = jax.tree.map(lambda array, number=number: array[number], structures)
                columns.append(np.asarray(partition.reads(structure)))
        return np.unique(np.concatenate(columns)).tolist()

    def _results_of_slices(self, work: Callable[[Slice], CappedSums]) -> Iterator[CappedSums]:
        """The result of the work on each slice, a few slices ahead of the one that is read."""
        waiting: collections.deque[Future[CappedSums]] = collections.deque()
        for piece in self._slices:
            if len(waiting) == (AHEAD - 1) * self._plan.threads:
                yield waiting.popleft().result()
            waiting.append(self._pool.submit(work, piece))
        while waiting:
            yield waiting.popleft().result()


def _slices_of_table(table: BlockTable, size: int, place: int) -> Iterator[Slice]:
    """The slices of a table, whose first row has a place among the rows of all processes."""
    number = 0
    for block, (rows, _, _) in enumerate(table.blocks):
        for first in range(0, rows, size):
            count = min(size, rows - first)
            yield Slice(number, block, first, count, place)
            number, place = number + 1, place + count
