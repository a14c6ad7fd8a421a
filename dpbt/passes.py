"""The private side of a run on a table in chunks: its rows, their scores, and sums over them.

A pass over the chunks adds the last hypothesis to the scores of the rows, weighs them, and sums up
what the learner's program draws from. It serves one round, or several where rounds do not depend on
each other (`Recipe.independent`). Then no scores are kept. All sums are of integers, so neither the
size of the chunks nor their order changes a sum. Rows are read and worked on in blocks of one
shape, by several threads, so one thread reads while another one computes.
"""

import collections
import functools
import os
import queue
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import processes
from dpbt.base import (
    AnyArray,
    Array,
    Given,
    Prepared,
    Public,
    Questions,
    Recipe,
    Release,
    View,
)
from dpbt.data.blocks import BlockTable, Rows
from dpbt.memory import AHEAD, Room, rows_of
from dpbt.postprocessing import Last
from dpbt.privacy import boundary, pricing, totals
from dpbt.privacy.totals import Totals
from dpbt.public import without_values
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
        place: of its first row in the whole table, of all processes.
        admitted: how many of its present rows count; None if all do. Private.
    """

    number: int
    chunk: int
    first: int
    rows: int
    place: int
    admitted: int | None = None

    __repr__ = without_values


class Turn(NamedTuple):
    """What is public in the B rounds of a pass.

    Attributes:
        opening: what is public in all rounds.
        bound: f32[], an upper bound on the scores of all rows.
        numbers: i32[B], the numbers of the rounds; as other arrays of B rounds, of JAX or NumPy.
        structures: of the rounds, with a leading axis; None where the learner has none.
        sites: the public randomness of the rounds, and what earlier stages of them released, with a
            leading axis.
        last: what the scores do not have yet; None in a later stage, where they have it, and where
            rounds read no scores.
    """

    opening: Public
    bound: Array
    numbers: AnyArray
    structures: Any
    sites: Release
    last: Last | None


class Summed(NamedTuple):
    """What a pass found.

    Attributes:
        totals: private sums over all rows; of rounds with a leading axis.
        cap: f32[], the public bound on the weights of its rounds.
    """

    totals: Totals
    cap: Array

    __repr__ = without_values

    def of(self, number: int) -> Totals:
        """The sums of one of the rounds."""
        return jax.tree.map(lambda sums: sums[number], self.totals)


# What is done with one block; each is compiled once for a shape.


@functools.partial(jax.jit, static_argnames="wanted")
def _opening(
    block: Rows, given: Given, questions: Questions, recipe: Recipe, wanted: tuple[str, ...]
) -> Any:
    assert recipe.learner.prologue is not None
    view = before_rounds(rows_of(block, questions, recipe), recipe)
    return boundary.sums(recipe.learner.prologue.program, wanted, given, view), view.public.cap


def _advanced(scores: Array, rows: Prepared, opening: Public, last: Last, recipe: Recipe) -> Array:
    """The scores with the hypothesis of the round before."""
    learner = recipe.learner
    placed = placed_by(learner, opening._replace(structure=last.structure), rows)
    return scores + learner.hypotheses.predict(last.hypothesis, placed)


def _for_each(function: Callable[[Any], Any], entries: Any) -> Any:
    """`function` of each entry on the leading axis; a single one needs no loop."""
    if jax.tree.leaves(entries)[0].shape[0] > 1:
        return jax.lax.map(function, entries)
    found = function(jax.tree.map(lambda array: array[0], entries))
    return jax.tree.map(lambda array: array[None], found)


def _sums_of_rounds(
    block: Rows,
    scores: Array | None,
    noise: Array,
    place: Array,
    questions: Questions,
    turn: Turn,
    recipe: Recipe,
    wanted: tuple[str, ...],
) -> Any:
    learner = recipe.learner
    rows = rows_of(block, questions, recipe)
    new, read = None, scores
    if read is None:
        read = jnp.zeros((*learner.hypotheses.response.axes, *rows.present.shape), jnp.float32)
    elif turn.last is not None:
        new = read = _advanced(read, rows, turn.opening, turn.last, recipe)
    weighted = recipe.reweighter.weigh(read, turn.bound, rows, turn.opening)
    weights = counted_weights(weighted.weight, rows, learner.hypotheses.response)

    def one(entry: tuple[Array, Any, Release, Array]) -> Any:
        number, structure, sites, key = entry
        public = turn.opening._replace(cap=weighted.cap, round=number, structure=structure)
        view = View(placed_by(learner, public, rows), weights, recipe.budget, public)
        return boundary.sums(learner.program, wanted, Given(sites, key, place), view)

    found = _for_each(one, (turn.numbers, turn.structures, turn.sites, noise))
    return new, (found, weighted.cap)


_rounds = jax.jit(_sums_of_rounds, donate_argnums=1, static_argnames="wanted")
"""(new scores, (sums, cap)), with the new scores in place of the old ones."""

_later_stage = jax.jit(_sums_of_rounds, static_argnames="wanted")
"""(None, (sums, cap)), where the scores have the last hypothesis already, and stay."""


@functools.partial(jax.jit, donate_argnums=1, static_argnames="wanted")
def _closing(
    block: Rows,
    scores: Array,
    given: Given,
    questions: Questions,
    opening: Public,
    last: Last,
    prologue: Release,
    recipe: Recipe,
    wanted: tuple[str, ...],
) -> Any:
    assert recipe.learner.epilogue is not None
    rows = rows_of(block, questions, recipe)
    scores = _advanced(scores, rows, opening, last, recipe)
    view = after_rounds(rows, scores, recipe, prologue)
    found = boundary.sums(recipe.learner.epilogue.program, wanted, given, view)
    return scores, (found, view.public.cap)


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
    rows = rows_of(block, questions, recipe)

    def one(number: Array, scores: Array) -> Array:
        structure, last = jax.tree.map(lambda array: array[number], (structures, hypotheses))
        public = opening._replace(structure=structure)
        placed = placed_by(recipe.learner, public, rows)
        return scores + recipe.learner.hypotheses.predict(last, placed)

    return jax.lax.fori_loop(0, rounds, one, scores)


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

    Only `Summed` leaves, and `privacy.totals.draw` adds the noise. Use it as a context. A pass that
    finds a changed chunk raises a ValueError, and nothing is drawn from its sums.
    """

    def __init__(
        self,
        table: BlockTable,
        recipe: Recipe,
        room: Room,
        folder: Path,
        progress: Callable[[int, int], None] = lambda done, all: None,
        place: processes.Place | None = None,
    ):
        """Compare every chunk with its checksum, and find which rows count.

        Args:
            table: the rows.
            recipe: one setting.
            room: how it fits into memory.
            folder: where a file of scores may lie.
            progress: called with how many chunks were compared, and how many there are.
            place: of these rows among those of all processes; None if there are no others.

        Raises:
            ValueError: naming a chunk that is not what its manifest says.
            OSError: if a chunk cannot be read.
        """
        self._table, self._recipe, self._room = table, recipe, room
        self._questions = jax.tree.map(jnp.asarray, table.questions)
        self._pool = ThreadPoolExecutor(room.threads)
        for number, _ in enumerate(self._pool.map(table.verify, range(len(table.blocks)))):
            progress(number + 1, len(table.blocks))
        before, first = (0, 0) if place is None else (place.before, place.first)
        self._blocks = list(_blocks(table, int(recipe.rows), room.block, before, first))
        self._rooms: queue.SimpleQueue[Rows] = queue.SimpleQueue()
        for _ in range(room.threads):
            self._rooms.put(table.room(room.block))
        axes = recipe.learner.hypotheses.response.axes
        shape = (*axes, room.block)
        self._scores = _Scores(shape, len(self._blocks), folder if room.scratch else None)

    def __enter__(self) -> "Passes":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._scores.close()

    def opening(self, sites: Release, noise: Array) -> Summed:
        """The sums of the learner's prologue.

        Args:
            sites: its public randomness.
            noise: the key of its noise; private.
        """
        recipe = jax.tree.map(jnp.asarray, self._recipe)
        (wanted,) = pricing.stages(self._recipe, "prologue")

        def step(rows: Rows, block: Block) -> tuple[Any, Any]:
            given = Given(sites, noise, _place_words(block))
            return None, _opening(rows, given, self._questions, recipe, wanted)

        return self._summed(step, None)

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

    def rounds(self, turn: Turn, noise: Array, stage: tuple[str, ...]) -> Summed:
        """The sums of a stage of some rounds, after adding the last hypothesis.

        Args:
            turn: what is public in them.
            noise: B keys, of the noise of each round; private.
            stage: the sites that are summed.
        """
        columns = self._columns(turn.structures, turn.last)
        turn, recipe = jax.tree.map(jnp.asarray, (turn, self._recipe))

        def step(rows: Rows, block: Block) -> tuple[Any, Any]:
            scores = None if self._recipe.independent else self._scores[block.number]
            summed = _later_stage if turn.last is None else _rounds
            place = _place_words(block)
            return summed(rows, scores, noise, place, self._questions, turn, recipe, stage)

        return self._summed(step, columns)

    def closing(
        self, opening: Public, last: Last, prologue: Release, sites: Release, noise: Array
    ) -> Summed:
        """The sums of the learner's epilogue, after adding the last hypothesis.

        Args:
            opening: what is public in all rounds.
            last: what the scores do not have yet.
            prologue: what the learner's prologue released.
            sites: the public randomness of the epilogue.
            noise: the key of its noise; private.
        """
        told = jax.tree.map(jnp.asarray, (opening, last, prologue, self._recipe))
        (wanted,) = pricing.stages(self._recipe, "epilogue")

        def step(rows: Rows, block: Block) -> tuple[Any, Any]:
            given = Given(sites, noise, _place_words(block))
            scores = self._scores[block.number]
            return _closing(rows, scores, given, self._questions, *told, wanted)

        return self._summed(step, self._columns(None, last))

    def _columns(self, structures: Any, last: Last | None) -> Sequence[int] | None:
        """The columns that some rounds and the one before them ask; None for all."""
        reads = self._recipe.learner.hypotheses.reads
        if reads is None:
            return None
        rounds = [] if structures is None else range(jax.tree.leaves(structures)[0].shape[0])
        asked = [reads(jax.tree.map(lambda array, k=k: array[k], structures)) for k in rounds]
        asked += [] if last is None else [reads(last.structure)]
        return np.unique(np.concatenate([np.asarray(each) for each in asked])).tolist()

    def _summed(self, step: Step, columns: Sequence[int] | None) -> Summed:
        """The sums over all blocks of what a step finds, and over all processes."""
        sums: Totals | None = None
        said = None
        for parts, cap in self._each(step, columns):
            sums, said = totals.add(sums, parts), cap  # every block says the same
        assert sums is not None
        assert said is not None
        return Summed(processes.summed(sums), said)

    def _each(self, step: Step, columns: Sequence[int] | None) -> Iterator[Any]:
        """What a step finds in each block, a few blocks ahead of the one that is asked for."""

        @jax.enable_x64(False)  # threads do not have the caller's context
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

        ahead: collections.deque[Future[Any]] = collections.deque()
        for block in self._blocks:
            if len(ahead) == (AHEAD - 1) * self._room.threads:
                yield ahead.popleft().result()
            ahead.append(self._pool.submit(work, block))
        while ahead:
            yield ahead.popleft().result()

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


def _place_words(block: Block) -> Array:
    """u32[2], (high, low): the place of a block's first row, as `Given` has it."""
    return jax.device_put(np.array([block.place >> 32, block.place & (2**32 - 1)], np.uint32))


def _blocks(
    table: BlockTable, most: int, size: int, before: int = 0, place: int = 0
) -> Iterator[Block]:
    """The blocks of a table. The first `most` present rows count, `before` of them elsewhere.

    The table's first row has the place `place` among the rows of all processes.
    """
    number = 0
    for chunk, (rows, present, _) in enumerate(table.blocks):
        counted = before + present <= most
        for first in range(0, rows, size):
            count = min(size, rows - first)
            admitted = None
            if not counted:
                admitted = max(most - before, 0)
                before += _present(table, chunk, first, count)
            yield Block(number, chunk, first, count, place + first, admitted)
            number += 1
        place += rows
        if counted:
            before += present


def _present(table: BlockTable, chunk: int, first: int, count: int) -> int:
    """How many rows of a block are present."""
    rows = table.room(count)
    table.read(chunk, first, count, rows, columns=())
    return int(np.count_nonzero(rows.present))
