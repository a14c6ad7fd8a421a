"""The private side of a run on a table in chunks: its rows, their scores, and sums over them.

A round is one pass over the chunks: each adds the last hypothesis to the scores of its rows, weighs
them, and sums up what the learner's program draws from. All sums are of integers, so neither the
size of the chunks nor their order changes a sum. Rows are read and worked on in blocks of one
shape, by several threads, so one thread reads while another one computes.
"""

import dataclasses
import functools
import os
import queue
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import processes
from dpbt.base import Array, Hypothesis, Prepared, Public, Questions, Recipe, Release, Table
from dpbt.data.chunks import ChunkedTable, Rows
from dpbt.privacy import totals
from dpbt.privacy.boundary import Asked
from dpbt.privacy.totals import Totals
from dpbt.reweighting import counted_weights
from dpbt.rounds import after_rounds, before_rounds, placed_by
from dpbt.storage import naming


class Block(NamedTuple):
    """Some rows of a chunk, which are worked on at once.

    Attributes:
        number: of the block in the table.
        chunk: the number of the chunk.
        first: its first row in the chunk.
        rows: how many rows it has.
        admitted: how many of its present rows count; None if all do. Private.
    """

    number: int
    chunk: int
    first: int
    rows: int
    admitted: int | None = None


class Turn(NamedTuple):
    """What is public in a round.

    Attributes:
        opening: what is public in all rounds.
        bound: f32[], an upper bound on the scores of all rows.
        number: i32[], the number of the round.
        structure: of the round; None where the learner has none.
        last_structure: of the round before, and in the first one that of this round.
        last: the hypothesis of the round before, which the scores do not have yet; zeros in the
            first round.
    """

    opening: Public
    bound: Array
    number: Array
    structure: Any
    last_structure: Any
    last: Hypothesis


class Summed(NamedTuple):
    """What a pass found.

    Attributes:
        totals: private sums over all rows.
        asked: what each draw asks for; public.
        cap: f32[], the public bound on the weights of the round.
    """

    totals: Totals
    asked: Mapping[str, Asked]
    cap: Array


# What is done with one block; each is compiled once for a shape.


def _rows(block: Rows, questions: Questions, recipe: Recipe) -> Prepared:
    """The rows of a block, laid out for the learner."""
    cells, target, present, weight = jax.tree.map(jnp.asarray, block)
    table = Table(cells.T, target, present, questions, weight)
    return recipe.learner.hypotheses.prepare(table)


def _split(sites: Mapping[str, tuple[Array, Asked]]) -> tuple[dict[str, Array], dict[str, Asked]]:
    return {s: part for s, (part, _) in sites.items()}, {s: ask for s, (_, ask) in sites.items()}


@jax.jit
def _opening(block: Rows, questions: Questions, recipe: Recipe) -> Any:
    prologue = recipe.learner.prologue
    assert prologue is not None
    assert prologue.program.sums is not None
    _, weights, budget, public = before_rounds(rows := _rows(block, questions, recipe), recipe)
    return _split(prologue.program.sums(rows, weights, budget, public)), public.cap


def _advanced(scores: Array, rows: Prepared, turn: Turn, recipe: Recipe) -> Array:
    """The scores with the hypothesis of the round before."""
    learner = recipe.learner
    placed = placed_by(learner, turn.opening._replace(structure=turn.last_structure), rows)
    return scores + learner.hypotheses.predict(turn.last, placed)


@functools.partial(jax.jit, donate_argnums=1)
def _round(block: Rows, scores: Array, questions: Questions, turn: Turn, recipe: Recipe) -> Any:
    learner = recipe.learner
    assert learner.program.sums is not None
    rows = _rows(block, questions, recipe)
    scores = _advanced(scores, rows, turn, recipe)
    weighted = recipe.reweighter.weigh(scores, turn.bound, rows, turn.opening)
    public = turn.opening._replace(cap=weighted.cap, round=turn.number, structure=turn.structure)
    weights = counted_weights(weighted.weight, rows, learner.hypotheses.response)
    placed = placed_by(learner, public, rows)
    sums = learner.program.sums(placed, weights, recipe.budget, public)
    return scores, (_split(sums), weighted.cap)


@functools.partial(jax.jit, donate_argnums=1)
def _closing(
    block: Rows,
    scores: Array,
    questions: Questions,
    turn: Turn,
    prologue: Release,
    recipe: Recipe,
) -> Any:
    epilogue = recipe.learner.epilogue
    assert epilogue is not None
    assert epilogue.program.sums is not None
    rows = _rows(block, questions, recipe)
    scores = _advanced(scores, rows, turn, recipe)
    read = after_rounds(rows, scores, recipe, prologue)
    return scores, (_split(epilogue.program.sums(*read)), read[3].cap)


@functools.partial(jax.jit, donate_argnums=1)
def _replayed(
    block: Rows,
    scores: Array,
    questions: Questions,
    opening: Public,
    structures: Any,
    hypotheses: Any,
    rounds: Array,
    recipe: Recipe,
) -> Array:
    """The scores after the first rounds, added in the order of the rounds."""
    rows = _rows(block, questions, recipe)

    def one(number: Array, scores: Array) -> Array:
        structure, last = jax.tree.map(lambda array: array[number], (structures, hypotheses))
        public = opening._replace(structure=structure)
        placed = placed_by(recipe.learner, public, rows)
        return scores + recipe.learner.hypotheses.predict(last, placed)

    return jax.lax.fori_loop(0, rounds, one, scores)


# Memory.

BASE_BYTES = 700 * 2**20
"""What Python, JAX and compiled programs take, whatever the table is (docs/scaling.md)."""

_LEAST_BLOCK, _MOST_BLOCK = 2**14, 2**19
"""Fewest and most rows of a block. Larger ones are no faster, because arrays leave the caches."""


@dataclasses.dataclass(frozen=True)
class Room:
    """How a run fits into memory.

    Attributes:
        block: the most rows of a block.
        threads: how many blocks are worked on at once.
        scratch: whether scores lie in a file instead of in memory.
    """

    block: int
    threads: int
    scratch: bool


def room_for(table: ChunkedTable, recipe: Recipe, memory: float, threads: int) -> Room:
    """The largest blocks that fit into the memory, with scores in memory if they fit as well.

    Args:
        table: what is learned from.
        recipe: how.
        memory: in bytes.
        threads: how many blocks are worked on at once.

    Raises:
        ValueError: with the least memory, if it is too little.
    """
    scores = 4 * int(np.prod(recipe.learner.hypotheses.response.axes))
    each = threads * (2 * table.features + 12 * scores + 40)
    largest = min(_MOST_BLOCK, max(table.rows_per_chunk, _LEAST_BLOCK))
    left = memory - BASE_BYTES
    if left < each * _LEAST_BLOCK:
        least = (BASE_BYTES + each * _LEAST_BLOCK) / 2**20
        raise ValueError(
            f"memory must be at least {least:.0f} MB here, got {memory / 2**20:.0f} MB"
        )
    all_scores = scores * table.capacity
    in_memory = left - all_scores >= each * min(largest, 2**17)
    rows = (left - all_scores if in_memory else left) / each
    block = 2 ** int(np.log2(min(rows, largest)))
    return Room(max(block, _LEAST_BLOCK), threads, not in_memory)


class _Scores:
    """The scores of all rows, a block at a time: in memory, or in a file that has no name."""

    def __init__(self, shape: tuple[int, ...], blocks: int, folder: Path | None):
        self._shape, self._kept = shape, [None] * blocks
        self._file = None
        if folder is not None:
            # An unnamed file of mode 0600, which the system drops when the process ends.
            self._folder = folder
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            self._size = 4 * int(np.prod(shape))

    def __getitem__(self, number: int) -> Any:
        if self._file is None:
            return self._kept[number]
        data = os.pread(self._file.fileno(), self._size, number * self._size)
        return jnp.asarray(np.frombuffer(data, np.float32).reshape(self._shape))

    def __setitem__(self, number: int, scores: Any) -> None:
        if self._file is None:
            self._kept[number] = scores
            return
        view = np.ascontiguousarray(scores).data.cast("B")
        place = number * self._size
        while view:
            with naming(self._folder):
                count = os.pwrite(self._file.fileno(), view, place)
            view, place = view[count:], place + count

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


Step = Callable[[Rows, Block], tuple[Any, Any]]
"""What is done with one block: (its new scores, or None to keep them; what was found)."""


class Passes:
    """The rows of a table in chunks, and their scores; all of it is private.

    Only `Summed` leaves, and `privacy.totals.draw` adds the noise. Use it as a context.
    """

    def __init__(
        self,
        table: ChunkedTable,
        recipe: Recipe,
        room: Room,
        folder: Path,
        progress: Callable[[int, int], None] = lambda done, all: None,
        before: int = 0,
    ):
        """Compare every chunk with its checksum, and find which rows count.

        Args:
            table: the rows.
            recipe: one setting.
            room: how it fits into memory.
            folder: where a file of scores may lie.
            progress: called with how many chunks were compared, and how many there are.
            before: how many rows are present in the processes before this one.

        Raises:
            ValueError: naming a chunk that is not what its manifest says.
            OSError: if a chunk cannot be read.
        """
        self._table, self._recipe, self._room = table, recipe, room
        self._questions = jax.tree.map(jnp.asarray, table.questions)
        self._blocks = list(_blocks(table, int(recipe.rows), room.block, before))
        self._pool = ThreadPoolExecutor(room.threads)
        self._rooms: queue.SimpleQueue[Rows] = queue.SimpleQueue()
        for _ in range(room.threads):
            self._rooms.put(table.room(room.block))
        axes = recipe.learner.hypotheses.response.axes
        shape = (*axes, room.block)
        self._scores = _Scores(shape, len(self._blocks), folder if room.scratch else None)
        for number, _ in enumerate(self._pool.map(table.verify, range(len(table.chunks)))):
            progress(number + 1, len(table.chunks))

    def __enter__(self) -> "Passes":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._scores.close()

    def opening(self) -> Summed:
        """The sums of the learner's prologue."""
        recipe = jax.tree.map(jnp.asarray, self._recipe)
        return self._summed(lambda rows, _: (None, _opening(rows, self._questions, recipe)), None)

    def start(self, start: Array) -> None:
        """Set the score of every row to f32[], or f32[K] with several classes."""
        for block in self._blocks:
            self._scores[block.number] = _everywhere(start, self._room.block)

    def replay(self, opening: Public, structures: Any, hypotheses: Any, rounds: int) -> None:
        """Add the hypotheses of the first rounds to the scores, in their order.

        Args:
            opening: what is public in all rounds.
            structures: of the rounds, with a leading axis; None where the learner has none.
            hypotheses: likewise.
            rounds: how many of them are added.
        """
        public, recipe, count = jax.tree.map(jnp.asarray, (opening, self._recipe, np.int32(rounds)))

        def step(rows: Rows, block: Block) -> tuple[Any, Any]:
            scores = self._scores[block.number]
            told = public, structures, hypotheses, count, recipe
            return _replayed(rows, scores, self._questions, *told), None

        for _ in self._each(step, None):
            pass

    def round(self, turn: Turn) -> Summed:
        """The sums of a round, after adding the hypothesis of the round before."""
        turn, recipe = jax.tree.map(jnp.asarray, (turn, self._recipe))

        def step(rows: Rows, block: Block) -> tuple[Any, Any]:
            return _round(rows, self._scores[block.number], self._questions, turn, recipe)

        return self._summed(step, self._columns(turn))

    def closing(self, turn: Turn, prologue: Release) -> Summed:
        """The sums of the learner's epilogue, after adding the last hypothesis."""
        turn, prologue, recipe = jax.tree.map(jnp.asarray, (turn, prologue, self._recipe))

        def step(rows: Rows, block: Block) -> tuple[Any, Any]:
            scores = self._scores[block.number]
            return _closing(rows, scores, self._questions, turn, prologue, recipe)

        return self._summed(step, self._columns(turn))

    def _columns(self, turn: Turn) -> Sequence[int] | None:
        """The columns that the round and the one before it ask; None for all."""
        reads = self._recipe.learner.hypotheses.reads
        if reads is None:
            return None
        asked = [np.asarray(reads(each)) for each in (turn.structure, turn.last_structure)]
        return np.unique(np.concatenate(asked)).tolist()

    def _summed(self, step: Step, columns: Sequence[int] | None) -> Summed:
        """The sums over all blocks of what a step finds, and over all processes."""
        sums: Totals | None = None
        said = None
        for (parts, asked), cap in self._each(step, columns):
            sums, said = totals.add(sums, parts), (asked, cap)  # every block says the same
        assert sums is not None
        assert said is not None
        return Summed(processes.summed(sums), *said)

    def _each(self, step: Step, columns: Sequence[int] | None) -> Iterator[Any]:
        """What a step finds in each block."""

        def work(block: Block) -> Any:
            rows = self._rooms.get()
            try:
                self._read(block, rows, columns)
                # JAX reads `rows` in place, so they are free when all outputs are there.
                scores, found = jax.block_until_ready(step(rows, block))
            finally:
                self._rooms.put(rows)
            if scores is not None:
                self._scores[block.number] = scores
            return found

        return self._pool.map(work, self._blocks)

    def _read(self, block: Block, rows: Rows, columns: Sequence[int] | None) -> None:
        """Read a block. Rows that do not count are absent."""
        self._table.read(block.chunk, block.first, block.rows, rows, columns)
        if block.admitted is not None:
            rank = np.cumsum(rows.present)
            rows.present[:] = rows.present & (rank <= block.admitted)


@functools.partial(jax.jit, static_argnums=1)
def _everywhere(start: Array, rows: int) -> Array:
    """f32[N], or f32[K, N]: the same score for every row, in memory of its own."""
    return jnp.broadcast_to(start[..., None], (*start.shape, rows))


def _blocks(table: ChunkedTable, most: int, size: int, before: int = 0) -> Iterator[Block]:
    """The blocks of a table. The first `most` present rows count, `before` of them elsewhere."""
    number = 0
    for chunk, (rows, present, _) in enumerate(table.chunks):
        counted = before + present <= most
        for first in range(0, rows, size):
            count = min(size, rows - first)
            admitted = None
            if not counted:
                admitted = max(most - before, 0)
                before += _present(table, chunk, first, count)
            yield Block(number, chunk, first, count, admitted)
            number += 1
        if counted:
            before += present


def _present(table: ChunkedTable, chunk: int, first: int, count: int) -> int:
    """How many rows of a block are present."""
    rows = table.room(count)
    table.read(chunk, first, count, rows, columns=())
    return int(np.count_nonzero(rows.present))
