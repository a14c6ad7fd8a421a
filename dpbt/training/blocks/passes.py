"""Passes over the rows of a table in blocks, and the scores of the rows.

A pass adds hypotheses to the scores of the rows, weighs the rows, and sums up what the learner's
program draws from. All sums are of integers, so neither the size of the blocks nor their order
changes a sum. Rows are worked on in slices of one shape, by several threads, so one thread reads
while another one computes. `memory_plan` chooses the rows of a slice.
"""

import collections
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common import compilation
from dpbt.data.blocks import BlockRows, BlockTable
from dpbt.privacy import draws_from_sums, program_interpreters
from dpbt.privacy.draw_dependencies import priced_draws_of_phase
from dpbt.privacy.draws_from_sums import SumsBySite
from dpbt.privacy.phase_views import (
    PhaseContext,
    RecipePhase,
    assign_leaves,
    view_of_phase,
    weigh_rows,
)
from dpbt.privacy.price_comparison import PricedDraws
from dpbt.public_types import Splits
from dpbt.training.blocks import processes
from dpbt.training.blocks.memory_plan import MAX_WAITING_SLICES_PER_THREAD, MemoryPlan
from dpbt.training.row_scores import predict_rows
from dpbt.training.table_preparation import prepare_rows_of_block
from dpbt.types import (
    Array,
    Phase,
    PreparedRows,
    Prologue,
    Recipe,
    Release,
    Site,
    StageInputs,
)


class Slice(NamedTuple):
    """Some rows of a block, which are worked on at once.

    Attributes:
        slice_index: the index of the slice in the table.
        block_index: the index of the block.
        first_row_in_block: the index of its first row in the block.
        num_rows: how many rows it has.
        first_row: the index of its first row among the rows of all processes.
    """

    slice_index: int
    block_index: int
    first_row_in_block: int
    num_rows: int
    first_row: int


class UnscoredRound(NamedTuple):
    """A round whose hypothesis is not in the scores of the rows yet.

    Attributes:
        structure: the structure of the round.
        hypothesis: the hypothesis of the round.
    """

    structure: Any
    hypothesis: Any


class RoundsOfPass(NamedTuple):
    """The public inputs of the B rounds of a pass.

    A prologue or an epilogue is alone in its pass.

    Attributes:
        context: of all rounds; their indices and structures have a leading axis.
        earlier_release: the public randomness of the rounds, and what earlier stages of them
            released, with a leading axis.
        unscored: the rounds whose hypotheses are not in the scores yet, with a leading axis; None
            in a later stage, where they are, and where no scores are read.
    """

    context: PhaseContext
    earlier_release: Release
    unscored: UnscoredRound | None


class CappedSums(NamedTuple):
    """Sums over rows, and the public bound on the weights of these.

    Attributes:
        sums: by site, with a leading axis for rounds; private.
        cap: f32[], the bound on the weight of a row.
    """

    sums: Any
    cap: Array


class _PassInput(NamedTuple):
    """The inputs that all slices of a pass share.

    Attributes:
        recipe: of the run, without an axis of settings.
        splits: the public splits of the table.
        rounds: what is public in the rounds.
        noise_keys: B keys, one for the noise of each round; private.
    """

    recipe: Recipe
    splits: Splits
    rounds: RoundsOfPass
    noise_keys: Array


class _RowsOfSlice(NamedTuple):
    """The rows of a slice.

    Attributes:
        block: the rows.
        first_row: u32[2], the index of the first row in the table, as
            `Mechanism.sample_at_row_indices` takes it.
    """

    block: BlockRows
    first_row: Any


class _ResultOfSlice(NamedTuple):
    """The updated scores of the rows of a slice, and their sums.

    Attributes:
        scores: the scores of the rows of the slice, with the unscored rounds; None where none are
            read.
        capped_sums: the sums over the rows of the slice.
    """

    scores: Array | None
    capped_sums: CappedSums


def _update_scores_and_sum_slice(
    rows: _RowsOfSlice,
    scores: Array | None,
    pass_input: _PassInput,
    *,
    phase: Phase,
    stage: tuple[str, ...],
    priced: PricedDraws,
) -> _ResultOfSlice:
    """Update the scores of the rows of a slice, and sum up one stage over the rows.

    It is compiled once for a shape.

    Args:
        rows: the rows of the slice.
        scores: the scores of the rows, without the unscored rounds; None where none are read.
        pass_input: what all slices read.
        phase: the phase of the learner that is summed.
        stage: the sites that are summed.
        priced: the draws of the phase as the ledger prices them.
    """
    recipe, splits, rounds, noise_keys = pass_input
    prepared = prepare_rows_of_block(rows.block, splits, recipe)
    if scores is not None and rounds.unscored is not None:
        scores = _add_unscored_rounds(scores, rounds.unscored, prepared, recipe)
    scores_or_zeros = scores
    if scores_or_zeros is None:
        axes = recipe.learner.response.score_axes
        scores_or_zeros = jnp.zeros((*axes, *prepared.present.shape), jnp.float32)
    recipe_phase = RecipePhase.of_recipe(recipe, phase)
    context = rounds.context
    weighed = weigh_rows(recipe_phase, prepared, scores_or_zeros, context)

    def sums_of_round(round_inputs: tuple[Array, Any, Release, Array]) -> Any:
        round_index, structure, earlier_release, noise_key = round_inputs
        public = context.public._replace(round=round_index, structure=structure)
        view = view_of_phase(recipe_phase, prepared, weighed, recipe.params, public)
        stage_inputs = StageInputs(earlier_release, noise_key, rows.first_row)
        return program_interpreters.sum_rows_of_stage(
            phase.program, stage, stage_inputs, view, priced
        )

    inputs = context.public.round, context.public.structure, rounds.earlier_release, noise_keys
    if len(noise_keys) > 1:
        sums = jax.lax.map(sums_of_round, inputs)
    else:  # a single one needs no loop
        sums = sums_of_round(jax.tree.map(lambda array: array[0], inputs))
        sums = jax.tree.map(lambda array: array[None], sums)
    return _ResultOfSlice(scores, CappedSums(sums, weighed.cap))


def _add_unscored_rounds(
    scores: Array, unscored: UnscoredRound, rows: PreparedRows, recipe: Recipe
) -> Array:
    """Add the predictions of the unscored rounds to the scores of rows.

    The rounds have a leading axis.
    """

    def add_round(index: Any, scores: Array) -> Array:
        structure, hypothesis = jax.tree.map(lambda array: array[index], unscored)
        rows_with_leaves = assign_leaves(recipe.learner, structure, rows)
        return scores + predict_rows(recipe, hypothesis, rows_with_leaves)

    num_unscored = jax.tree.leaves(unscored)[0].shape[0]
    if num_unscored == 1:  # a single one needs no loop
        return add_round(0, scores)
    return jax.lax.fori_loop(0, num_unscored, add_round, scores)


# The new scores take the place of the old ones.
_compiled_sum_over_slice = compilation.jit_with_bounded_cache(
    donate_argnames=("scores",), static_argnames=("phase", "stage", "priced")
)(_update_scores_and_sum_slice)


class Passes:
    """Passes over the rows of a table in blocks, which hold the scores of the rows.

    All of it is private. Only the sums leave, and `privacy.draws_from_sums.draw_from_sums` adds the
    noise. Use it as a context. A pass that finds a changed block raises a ValueError, and nothing
    is drawn from its sums.
    """

    def __init__(self, table: BlockTable, recipe: Recipe, plan: MemoryPlan, first_row: int = 0):
        """Allocate the memory of the slices, and start the threads.

        Args:
            table: the rows.
            recipe: of the run, without an axis of settings.
            plan: how it fits into memory.
            first_row: the index of the first row among the rows of all processes.
        """
        self._table = table
        self._recipe = recipe
        self._plan = plan
        self._splits = jax.tree.map(jnp.asarray, table.splits)
        self._pool = ThreadPoolExecutor(plan.threads)
        self._slices = list(_slices_of_table(table, plan.max_rows_of_slice, first_row))
        self._buffers: queue.SimpleQueue[BlockRows] = queue.SimpleQueue()
        for _ in range(plan.threads):
            self._buffers.put(table.new_absent_rows(plan.max_rows_of_slice))
        self._scores: list[Any] = [None] * len(self._slices)

    def __enter__(self) -> "Passes":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def verify_blocks(self) -> Iterator[int]:
        """Compare every block with its checksum, and yield how many were compared so far.

        Raises:
            ValueError: naming a block that is not what its manifest says.
            OSError: if a block cannot be read.
        """
        verifications = self._pool.map(self._table.verify_block, range(len(self._table.blocks)))
        for num_verified, _ in enumerate(verifications, start=1):
            yield num_verified

    def set_initial_scores(self, initial_score: Array) -> None:
        """Set the score of every row to the initial one, f32[], or f32[K] with several classes."""
        shape = *initial_score.shape, self._plan.max_rows_of_slice
        self._scores = [jnp.broadcast_to(initial_score[..., None], shape) for _ in self._slices]

    def update_scores_and_sum_rows(
        self,
        phase: Phase,
        stage: tuple[Site, ...],
        *,
        rounds: RoundsOfPass,
        noise_keys: Array,
    ) -> CappedSums:
        """Add the unscored rounds to the scores of all rows, and return the sums of a stage.

        Args:
            phase: the phase of the learner that is summed.
            stage: the sites that are summed.
            rounds: what is public in its rounds.
            noise_keys: B keys, one for the noise of each round; private.
        """
        columns = None if isinstance(phase, Prologue) else self._columns_read_by_rounds(rounds)
        rounds, recipe = jax.tree.map(jnp.asarray, (rounds, self._recipe))
        pass_input = _PassInput(recipe, self._splits, rounds, noise_keys)
        priced = priced_draws_of_phase(self._recipe, phase)
        reads_scores = not isinstance(phase, Prologue) and not self._recipe.has_independent_rounds

        @jax.enable_x64(False)  # threads do not have the caller's context
        def work_on_slice(piece: Slice) -> CappedSums:
            block = self._buffers.get()
            try:
                self._table.read_rows(
                    piece.block_index,
                    first=piece.first_row_in_block,
                    count=piece.num_rows,
                    into=block,
                    columns=columns,
                )
                first_row = np.array([piece.first_row >> 32, piece.first_row % 2**32], np.uint32)
                result = _compiled_sum_over_slice(
                    _RowsOfSlice(block, first_row),
                    self._scores[piece.slice_index] if reads_scores else None,
                    pass_input,
                    phase=phase,
                    stage=stage,
                    priced=priced,
                )
                # JAX reads `block` in place, so it is free when all outputs are there.
                result = jax.block_until_ready(result)
            finally:
                self._buffers.put(block)
            if reads_scores:
                self._scores[piece.slice_index] = result.scores
            return result.capped_sums

        sums: SumsBySite | None = None
        caps = []
        for sums_of_slice, cap in self._map_slices(work_on_slice):
            sums = draws_from_sums.add_block_sums(sums, sums_of_slice)
            caps.append(cap)
        assert sums is not None
        return CappedSums(processes.sum_over_processes(sums), caps[0])  # all slices have one cap

    def _columns_read_by_rounds(self, rounds: RoundsOfPass) -> Sequence[int] | None:
        """The columns that rounds and unscored rounds read, by their structures; None for all."""
        partition = self._recipe.learner.partition
        if partition is None:
            return None
        columns: list[np.ndarray] = []
        unscored = None if rounds.unscored is None else rounds.unscored.structure
        for structures in (rounds.context.public.structure, unscored):
            num_structures = 0 if structures is None else jax.tree.leaves(structures)[0].shape[0]
            for index in range(num_structures):
                structure = jax.tree.map(lambda array, index=index: array[index], structures)
                columns.append(np.asarray(partition.reads(structure)))
        return np.unique(np.concatenate(columns)).tolist()

    def _map_slices(self, work: Callable[[Slice], CappedSums]) -> Iterator[CappedSums]:
        """Call `work` on each slice in the threads, and yield the results in the order of slices.

        The threads are a few slices ahead of the result that is read.
        """
        waiting: collections.deque[Future[CappedSums]] = collections.deque()
        for piece in self._slices:
            if len(waiting) == (MAX_WAITING_SLICES_PER_THREAD - 1) * self._plan.threads:
                yield waiting.popleft().result()
            waiting.append(self._pool.submit(work, piece))
        while waiting:
            yield waiting.popleft().result()


def _slices_of_table(table: BlockTable, max_rows: int, first_row: int) -> Iterator[Slice]:
    """The slices of a table, each within one block.

    Args:
        table: the table.
        max_rows: the most rows of a slice.
        first_row: the index of the first row of the table among the rows of all processes.
    """
    slice_index = 0
    for block_index, (rows_of_block, _, _) in enumerate(table.blocks):
        for start in range(0, rows_of_block, max_rows):
            num_rows = min(max_rows, rows_of_block - start)
            yield Slice(
                slice_index=slice_index,
                block_index=block_index,
                first_row_in_block=start,
                num_rows=num_rows,
                first_row=first_row,
            )
            slice_index += 1
            first_row += num_rows
