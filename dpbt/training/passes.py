"""The private side of a run on a table in blocks: its rows, their scores, and sums over them.

A pass over the blocks adds the last hypothesis to the scores of the rows, weighs them, and sums up
what the learner's program draws from. It serves one round, or several where rounds do not depend on
each other (`Recipe.independent`). Then no scores are kept. All sums are of integers, so neither the
size of the blocks nor their order changes a sum. Rows are read and worked on in slices of one
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

from dpbt.base import AnyArray, Array, Given, Hypothesis, Public, Questions, Recipe, Release
from dpbt.data.blocks import BlockTable, Rows
from dpbt.privacy import boundary, pricing, totals
from dpbt.privacy.totals import Totals
from dpbt.public import without_values
from dpbt.storage import naming
from dpbt.training import processes, step
from dpbt.training.memory import AHEAD, MemoryPlan, rows_of
from dpbt.training.step import Context


class Slice(NamedTuple):
    """Some rows of a block, which are worked on at once.

    Attributes:
        number: of the slice in the table.
        block: the number of the block.
        first: its first row in the block.
        rows: how many rows it has.
        place: of its first row in the whole table, of all processes.
        admitted: how many of its present rows count; None if all do. Private.
    """

    number: int
    block: int
    first: int
    rows: int
    place: int
    admitted: int | None = None

    __repr__ = without_values


class Pending(NamedTuple):
    """The hypothesis that the scores do not have yet; zeros before the first round.

    Attributes:
        structure: of its round; None where the learner has none.
        hypothesis: of that round.
    """

    structure: Any
    hypothesis: Hypothesis


class Batch(NamedTuple):
    """What is public in the B rounds of a pass; a prologue and an epilogue are one of one.

    Attributes:
        public: what is public in all rounds.
        bound: f32[], an upper bound on the scores of all rows.
        numbers: i32[B], the numbers of the rounds; as other arrays of B rounds, of JAX or NumPy.
        structures: of the rounds, with a leading axis; None where the learner has none.
        sites: the public randomness of the rounds, and what earlier stages of them released, with a
            leading axis.
        pending: None in a later stage, where the scores have it, and where no scores are read.
    """

    public: Public
    bound: Array
    numbers: AnyArray
    structures: Any
    sites: Release
    pending: Pending | None


class Summed(NamedTuple):
    """What a pass found.

    Attributes:
        totals: private sums over all rows, with a leading axis for the rounds.
        cap: f32[], the public bound on the weights of its rounds.
    """

    totals: Totals
    cap: Array

    __repr__ = without_values

    def of(self, number: int) -> Totals:
        """The sums of one of the rounds."""
        return jax.tree.map(lambda sums: sums[number], self.totals)


# What is done with one block; each is compiled once for a shape.


def _sums(
    block: Rows,
    scores: Array | None,
    noise: Array,
    place: Array,
    questions: Questions,
    batch: Batch,
    recipe: Recipe,
    part: str,
    wanted: tuple[str, ...],
) -> Any:
    """(new scores, (sums, cap)); the scores are None where they stay."""
    learner = recipe.learner
    rows = rows_of(block, questions, recipe)
    new, read = None, scores
    if read is None:
        axes = learner.hypotheses.response.axes
        read = jnp.zeros((*axes, *rows.present.shape), jnp.float32)
    elif batch.pending is not None:
        before = step.placed(learner, batch.pending.structure, rows)
        new = read = step.added(recipe, read, batch.pending.hypothesis, before)
    context = Context(batch.public, batch.bound, batch.public.round)
    weighed = step.weigh(part, recipe, rows, read, context)

    def one(entry: tuple[Array, Any, Release, Array]) -> Any:
        number, structure, sites, key = entry
        own = context._replace(number=number, structure=structure)
        view = step.view(part, recipe, rows, weighed, own)
        given = Given(sites, key, place)
        return boundary.sums(pricing.program_of(learner, part), wanted, given, view)

    found = _for_each(one, (batch.numbers, batch.structures, batch.sites, noise))
    return new, (found, weighed[1])


_sums_after = jax.jit(_sums, donate_argnums=1, static_argnames=("part", "wanted"))
"""`_sums` with the new scores in place of the old ones."""

_sums_alone = jax.jit(_sums, static_argnames=("part", "wanted"))
"""`_sums` where the scores stay."""


def _for_each(function: Callable[[Any], Any], entries: Any) -> Any:
    """`function` of each entry on the leading axis; a single one needs no loop."""
    if jax.tree.leaves(entries)[0].shape[0] > 1:
        return jax.lax.map(function, entries)
    found = function(jax.tree.map(lambda array: array[0], entries))
    return jax.tree.map(lambda array: array[None], found)


@functools.partial(jax.jit, donate_argnums=1)
def _replayed(
    block: Rows,
    scores: Array,
    questions: Questions,
    rounds: Pending,
    count: Array,
    recipe: Recipe,
) -> Array:
    """The scores with the hypotheses of the first `count` rounds, in their order."""
    rows = rows_of(block, questions, recipe)

    def one(number: Array, scores: Array) -> Array:
        structure, hypothesis = jax.tree.map(lambda array: array[number], rounds)
        placed = step.placed(recipe.learner, structure, rows)
        return step.added(recipe, scores, hypothesis, placed)

    return jax.lax.fori_loop(0, count, one, scores)


class _Scores:
    """The scores of all rows, a slice at a time: in memory, or in a file that has no name."""

    def __init__(self, shape: tuple[int, ...], slices: int, folder: Path | None):
        self._shape, self._kept = shape, [None] * slices
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


Step = Callable[[Rows, Slice], tuple[Any, Any]]
"""What is done with one slice: (its new scores, or None to keep them; what was found)."""


class Passes:
    """The rows of a table in blocks, and their scores; all of it is private.

    Only `Summed` leaves, and `privacy.totals.draw` adds the noise. Use it as a context. A pass that
    finds a changed block raises a ValueError, and nothing is drawn from its sums.
    """

    def __init__(
        self,
        table: BlockTable,
        recipe: Recipe,
        plan: MemoryPlan,
        folder: Path,
        progress: Callable[[int, int], None] = lambda done, all: None,
        place: processes.Place | None = None,
    ):
        """Compare every block with its checksum, and find which rows count.

        Args:
            table: the rows.
            recipe: one setting.
            plan: how it fits into memory.
            folder: where a file of scores may lie.
            progress: called with how many blocks were compared, and how many there are.
            place: of these rows among those of all processes; None if there are no others.

        Raises:
            ValueError: naming a block that is not what its manifest says.
            OSError: if a block cannot be read.
        """
        self._table, self._recipe, self._plan = table, recipe, plan
        self._questions = jax.tree.map(jnp.asarray, table.questions)
        self._pool = ThreadPoolExecutor(plan.threads)
        for number, _ in enumerate(self._pool.map(table.verify, range(len(table.blocks)))):
            progress(number + 1, len(table.blocks))
        before, first = (0, 0) if place is None else (place.before, place.first)
        self._slices = list(_slices(table, int(recipe.rows), plan.block, before, first))
        self._rooms: queue.SimpleQueue[Rows] = queue.SimpleQueue()
        for _ in range(plan.threads):
            self._rooms.put(table.room(plan.block))
        axes = recipe.learner.hypotheses.response.axes
        shape = (*axes, plan.block)
        self._scores = _Scores(shape, len(self._slices), folder if plan.scratch else None)

    def __enter__(self) -> "Passes":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._scores.close()

    def start(self, start: Array) -> None:
        """Set the score of every row to f32[], or f32[K] with several classes."""
        for piece in self._slices:
            self._scores[piece.number] = _everywhere(start, self._plan.block)

    def replay(self, rounds: Pending, count: int) -> None:
        """Add the hypotheses of the first rounds to the scores, in their order.

        Args:
            rounds: their structures and hypotheses, with a leading axis.
            count: how many of them are added.
        """
        told = jax.tree.map(jnp.asarray, (rounds, np.int32(count), self._recipe))

        def work(rows: Rows, piece: Slice) -> tuple[Any, Any]:
            return _replayed(rows, self._scores[piece.number], self._questions, *told), None

        for _ in self._each(work, None):
            pass

    def sums(self, part: str, batch: Batch, noise: Array, stage: tuple[str, ...]) -> Summed:
        """The sums of a stage of a part, after adding what is pending to the scores.

        Args:
            part: "prologue", "rounds" or "epilogue".
            batch: what is public in its rounds.
            noise: B keys, of the noise of each round; private.
            stage: the sites that are summed.
        """
        columns = None if part == "prologue" else self._columns(batch)
        told = self._questions, *jax.tree.map(jnp.asarray, (batch, self._recipe))
        scored = part != "prologue" and not self._recipe.independent
        summed = _sums_alone if batch.pending is None else _sums_after

        def work(rows: Rows, piece: Slice) -> tuple[Any, Any]:
            scores = self._scores[piece.number] if scored else None
            return summed(rows, scores, noise, _place_words(piece), *told, part, stage)

        sums: Totals | None = None
        said = None
        for parts, cap in self._each(work, columns):
            sums, said = totals.add(sums, parts), cap  # every slice says the same
        assert sums is not None
        assert said is not None
        return Summed(processes.summed(sums), said)

    def _columns(self, batch: Batch) -> Sequence[int] | None:
        """The columns that some rounds and the one before them ask; None for all."""
        reads = self._recipe.learner.hypotheses.reads
        if reads is None:
            return None
        structures = batch.structures
        rounds = [] if structures is None else range(jax.tree.leaves(structures)[0].shape[0])
        asked = [reads(jax.tree.map(lambda array, k=k: array[k], structures)) for k in rounds]
        asked += [] if batch.pending is None else [reads(batch.pending.structure)]
        return np.unique(np.concatenate([np.asarray(each) for each in asked])).tolist()

    def _each(self, done: Step, columns: Sequence[int] | None) -> Iterator[Any]:
        """What is found in each slice, a few slices ahead of the one that is asked for."""

        @jax.enable_x64(False)  # threads do not have the caller's context
        def work(piece: Slice) -> Any:
            rows = self._rooms.get()
            try:
                self._read(piece, rows, columns)
                # JAX reads `rows` in place, so they are free when all outputs are there.
                scores, found = jax.block_until_ready(done(rows, piece))
            finally:
                self._rooms.put(rows)
            if scores is not None:
                self._scores[piece.number] = scores
            return found

        ahead: collections.deque[Future[Any]] = collections.deque()
        for piece in self._slices:
            if len(ahead) == (AHEAD - 1) * self._plan.threads:
                yield ahead.popleft().result()
            ahead.append(self._pool.submit(work, piece))
        while ahead:
            yield ahead.popleft().result()

    def _read(self, piece: Slice, rows: Rows, columns: Sequence[int] | None) -> None:
        """Read a slice. Rows that do not count are absent."""
        self._table.read(piece.block, piece.first, piece.rows, rows, columns)
        if piece.admitted is not None:
            rank = np.cumsum(rows.present)
            rows.present[:] = rows.present & (rank <= piece.admitted)


_everywhere = jax.jit(step.everywhere, static_argnums=1)


def _place_words(piece: Slice) -> Array:
    """u32[2], (high, low): the place of a slice's first row, as `Given` has it."""
    return jax.device_put(np.array([piece.place >> 32, piece.place & (2**32 - 1)], np.uint32))


def _slices(
    table: BlockTable, most: int, size: int, before: int = 0, place: int = 0
) -> Iterator[Slice]:
    """The slices of a table. The first `most` present rows count, `before` of them elsewhere.

    The table's first row has the place `place` among the rows of all processes.
    """
    number = 0
    for block, (rows, present, _) in enumerate(table.blocks):
        counted = before + present <= most
        for first in range(0, rows, size):
            count = min(size, rows - first)
            admitted = None
            if not counted:
                admitted = max(most - before, 0)
                before += _present(table, block, first, count)
            yield Slice(number, block, first, count, place + first, admitted)
            number += 1
        place += rows
        if counted:
            before += present


def _present(table: BlockTable, block: int, first: int, count: int) -> int:
    """How many rows of a slice are present."""
    rows = table.room(count)
    table.read(block, first, count, rows, columns=())
    return int(np.count_nonzero(rows.present))
