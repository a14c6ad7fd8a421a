"""Learning from a table in blocks, which may be larger than memory.

Each round has a pass over the blocks for each of its stages, a draw from the sums over all rows
(`privacy.totals`), and the steps of a round in memory (`step`). Rounds that do not wait for each
other share a pass. So the releases are those of the same rows in memory.

A pass adds hypotheses to the scores of the rows, weighs them, and sums up what the learner's
program draws from. All sums are of integers, so neither the size of the blocks nor their order
changes a sum. Rows are worked on in slices of one shape, by several threads, so one thread reads
while another one computes. How it fits into memory is a plan from public numbers, and not a limit
that the system keeps (docs/scaling.md).

With several processes (`jax.distributed`) each has a folder of its own, and their rows are one
table, in the order of the processes. A process sends its sums to the others (`processes`). All draw
the same noise under the same key, and all end with the same model.
"""

import collections
import contextlib
import dataclasses
import hashlib
import math
import os
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common import programs
from dpbt.common.validate import as_path, check_interval, check_whole_number
from dpbt.common.watching import Progress, Report
from dpbt.data.blocks import BlockRows, BlockTable
from dpbt.privacy import boundary, pricing, totals
from dpbt.privacy.totals import Totals
from dpbt.public_types import Splits, redacted_repr
from dpbt.training import processes, step
from dpbt.training.checkpoint import AGAIN, Checkpoint, Releases, describe_key, describe_recipe
from dpbt.training.step import Context, FittedParts
from dpbt.types import MAX_ROWS, Array, Given, Prepared, Recipe, Release, Table

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
    classes = math.prod(recipe.learner.hypotheses.response.axes)
    scores = 0 if recipe.independent else 4 * classes
    row, together = _bytes_of_work(table, recipe)
    each = threads * (table.features + row + 12 * scores + 40)
    sums = _num_sums_of_pass(table, recipe) * (_SUM_BYTES * AHEAD * threads + _TOTAL_BYTES)
    outputs = sum(spec.output.size for spec in pricing.draw_specs_of_phase(recipe, "rounds"))
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
    if recipe.learner.traits.work is not None:
        return recipe.learner.traits.work(laid)
    size = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(laid))
    return -(-size // _MIN_BLOCK), 0


def _num_sums_of_pass(table: BlockTable, recipe: Recipe) -> int:
    """How many numbers a round sums up and draws in its largest pass."""
    found = jax.eval_shape(lambda: step.first_round_draw_specs(recipe, step.absent_row(table))[1])
    stages = pricing.pass_stages(recipe, "rounds")
    public = sum(draw.output.size for draw in found.values() if draw.mechanism.public)
    parts = [jax.tree.leaves([found[site].parts for site in stage]) for stage in stages]
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


class Batch(NamedTuple):
    """What is public in the B rounds of a pass; a prologue and an epilogue are one of one.

    Attributes:
        context: of all rounds; their numbers and structures have a leading axis.
        sites: the public randomness of the rounds, and what earlier stages of them released, with a
            leading axis.
        pending: (structures, hypotheses) that the scores do not have yet, with a leading axis; None
            in a later stage, where the scores have them, and where no scores are read.
    """

    context: Context
    sites: Release
    pending: Any


def prepare_block(block: BlockRows, splits: Splits, recipe: Recipe) -> Prepared:
    """The rows of a block, laid out for the learner."""
    bins, target, present, weight = jax.tree.map(jnp.asarray, block)
    table = Table(bins.T, target, present, splits, weight)
    return recipe.learner.hypotheses.prepare(table)


def _sums_of_slice(
    block: BlockRows,
    scores: Array | None,
    noise: Array,
    place: Array,
    splits: Splits,
    batch: Batch,
    recipe: Recipe,
    part: str,
    wanted: tuple[str, ...],
) -> Any:
    """(new scores or None, sums, cap); compiled once for a shape."""
    learner, context = recipe.learner, batch.context
    rows = prepare_block(block, splits, recipe)

    def add(number: Any, scores: Array) -> Array:
        structure, hypothesis = jax.tree.map(lambda array: array[number], batch.pending)
        placed = step.assign_leaves(recipe, structure, rows)
        return scores + step.predict_rows(recipe, hypothesis, placed)

    if scores is not None and batch.pending is not None:
        count = jax.tree.leaves(batch.pending)[0].shape[0]
        scores = add(0, scores) if count == 1 else jax.lax.fori_loop(0, count, add, scores)
    read = scores
    if read is None:
        axes = learner.hypotheses.response.axes
        read = jnp.zeros((*axes, *rows.present.shape), jnp.float32)
    weighed = step.weigh_rows(part, recipe, rows, read, context)

    def one(entry: tuple[Array, Any, Release, Array]) -> Any:
        number, structure, sites, key = entry
        public = context.public._replace(round=number, structure=structure)
        view = step.program_view(part, recipe, rows, weighed, context._replace(public=public))
        given = Given(sites, key, place)
        program, priced = (
            pricing.program_of_phase(learner, part),
            pricing.priced_draws(recipe, part),
        )
        return boundary.sums(program, wanted, given, view, priced)

    entries = context.public.round, context.public.structure, batch.sites, noise
    if len(noise) > 1:
        sums = jax.lax.map(one, entries)
    else:  # a single one needs no loop
        sums = one(jax.tree.map(lambda array: array[0], entries))
        sums = jax.tree.map(lambda array: array[None], sums)
    return scores, sums, weighed[1]


# The new scores take the place of the old ones.
_summed = programs.keep_compiled(donate_argnames=("scores",), static_argnames=("part", "wanted"))(
    _sums_of_slice
)


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

    def verified(self) -> Iterator[int]:
        """Compare every block with its checksum; yields how many were compared.

        Raises:
            ValueError: naming a block that is not what its manifest says.
            OSError: if a block cannot be read.
        """
        for number, _ in enumerate(
            self._pool.map(self._table.verify_block, range(len(self._table.blocks)))
        ):
            yield number + 1

    def start(self, start: Array) -> None:
        """Set the score of every row to f32[], or f32[K] with several classes."""
        shape = *start.shape, self._plan.block
        self._scores = [jnp.broadcast_to(start[..., None], shape) for _ in self._slices]

    def sums(
        self, part: str, batch: Batch, noise: Array, stage: tuple[str, ...]
    ) -> tuple[Totals, Array]:
        """(sums, cap) of a stage of a part, after adding what is pending to the scores.

        The sums over all rows are private, with a leading axis for the rounds. The cap is the
        public bound on the weights of the rounds.

        Args:
            part: "prologue", "rounds" or "epilogue".
            batch: what is public in its rounds.
            noise: B keys, of the noise of each round; private.
            stage: the sites that are summed.
        """
        columns = None if part == "prologue" else self._columns(batch)
        told = self._splits, *jax.tree.map(jnp.asarray, (batch, self._recipe))
        scored = part != "prologue" and not self._recipe.independent

        @jax.enable_x64(False)  # threads do not have the caller's context
        def work(piece: Slice) -> tuple[Totals, Array]:
            rows = self._rooms.get()
            try:
                self._table.read_rows(
                    piece.block, first=piece.first, count=piece.rows, into=rows, columns=columns
                )
                scores = self._scores[piece.number] if scored else None
                words = np.array([piece.place >> 32, piece.place & (2**32 - 1)], np.uint32)
                found = _summed(rows, scores, noise, words, *told, part, stage)
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
        partition = self._recipe.learner.hypotheses.partition
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


# Runs.


Pay = Callable[[str | None], None]
"""Called before anything is drawn, with the name of the run in a checkpoint, if there is one."""


def fit_in_blocks(
    key: Array,
    table: BlockTable,
    recipe: Recipe,
    public_key: Array | None,
    *,
    pay: Pay | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
    memory: float,
    threads: int | None = None,
    progress: Report | None = None,
) -> FittedParts:
    """`fit.fit_unwarned` of a table in blocks.

    A payment that is refused leaves no checkpoint behind that was not there before.

    Raises:
        ValueError: as `fit`.
        OSError: as `fit`.
    """
    capacity, first, public_key = check_fit_in_blocks(key, table, recipe, public_key)
    recipe = step.without_domain(recipe)  # so that domains share programs
    workers = os.cpu_count() or 1 if threads is None else check_whole_number("threads", threads)
    plan = plan_for(table, recipe, float(check_interval("memory", memory, "(0, inf)")), workers)
    report = progress or (lambda state: None)

    with contextlib.ExitStack() as stack:
        kept = checkpoint if isinstance(checkpoint, Checkpoint) else None
        if kept is None and checkpoint is not None:
            kept = stack.enter_context(Checkpoint(as_path("checkpoint", checkpoint)))
        if kept is not None:
            identities = processes.gather_digests(table.identity)
            kept.begin(key, recipe, identities, jax.process_index(), public_key)
        try:
            passes = stack.enter_context(Passes(table, recipe, plan, first))
            for done in passes.verified():
                report(Progress("checking", done, len(table.blocks)))
            if pay is not None:
                pay(None if kept is None else kept.run)
        except ValueError:
            if kept is not None:
                kept.give_up()
            raise
        own = step.derive_recipe_key(key, recipe)
        keys = step.phase_keys(own, recipe), step.phase_keys(public_key, recipe)
        small, dummy = capacity <= MAX_ROWS, step.without_domain(step.absent_row(table))
        return _Run(recipe, passes, kept, small, *keys, dummy, []).learn(plan.rounds, report)


def check_fit_in_blocks(
    key: Array, table: BlockTable, recipe: Recipe, public_key: Array | None = None
) -> tuple[int, int, Array | None]:
    """Refuse what a run in blocks cannot take, before a row is read.

    Returns:
        The room of all processes for rows, that of the processes before this one, and the public
        key, if the recipe draws public structure.

    Raises:
        ValueError: as `fit`.
    """
    like = step.absent_row(table)
    step.check_run(like, recipe)
    try:
        pricing.check_in_parts(recipe)
    except ValueError as error:
        raise ValueError(
            f"{recipe.name} of the {recipe.calibration} calibration reads all rows at once, and "
            f"learns from no blocks, as recipes.auto does: {error}"
        ) from None
    public_key = step.check_fit(key, recipe, public_key)
    if jax.process_count() > 1:
        if table.rows_per_user is not None:
            raise ValueError(
                "a limit on rows of a user holds within one folder: learn in one process from a "
                "folder that has all rows"
            )
        words = {
            "recipe": describe_recipe(recipe),
            "key": describe_key(key, recipe.name),
            "public_key": describe_key(public_key, recipe.name),
            "table": hashlib.sha256(table.declarations_text.encode()).hexdigest(),
        }
        for name, text in words.items():
            if len(set(processes.gather_digests(text))) > 1:  # on every process
                raise ValueError(f"the processes have different values of {name}; give the same")
        own = table.identity
        if not any(block.present for block in table.blocks):  # such folders may be alike
            own = hashlib.sha256(os.fsencode(table.folder.resolve())).hexdigest()
        tables = processes.gather_digests(own)
        if len(set(tables)) < len(tables):
            raise ValueError("two processes were given the same table; give each its own rows")
    own = sum(block.present for block in table.blocks)
    present, capacity, first = processes.place_among_processes(own, table.capacity)
    step.check_rows(present, capacity, recipe)
    return capacity, first, public_key


# The steps, each of which is compiled once for a recipe.
_specs = programs.keep_compiled(static_argnames=("part",))(step.draw_specs)
_public_draws = programs.keep_compiled(static_argnames=("part",))(step.public_draws)
_begun, _opened = (
    programs.keep_compiled()(step.round_context),
    programs.keep_compiled()(step.after_prologue),
)
_learned, _line_of = (
    programs.keep_compiled()(step.hypothesis_and_bound_of_round),
    programs.keep_compiled()(step.score_line),
)
_finished = programs.keep_compiled()(step.model_hypotheses)


@dataclasses.dataclass
class _Run:
    """The public side of one run."""

    _recipe: Recipe
    _passes: Passes
    _kept: Checkpoint | None
    _small: bool  # whether its sums have 32 bits
    _noise: step.PhaseValues
    _structure: step.PhaseValues
    _dummy: Table
    _waiting: list[Any]  # (structure, hypothesis) that the scores do not have yet

    __repr__ = redacted_repr

    def learn(self, at_once: int, report: Report) -> FittedParts:
        """What is learned, in passes that serve some rounds at once."""
        recipe, rounds = self._recipe, int(self._recipe.rounds)
        before = Context(recipe.public(), jnp.float32(0))
        prologue = self._once("prologue", before, report)
        public, start, state = _opened(recipe, totals.narrow_release(prologue))
        bound = jnp.max(jnp.abs(start))
        if not recipe.independent:
            self._passes.start(start)

        released: list[Releases] = []
        learned: list[Any] = []
        kept = processes.min_over_processes(0 if self._kept is None else self._kept.rounds)
        while len(learned) < rounds:
            first = len(learned)
            known = self._known(str(first), "rounds") if first < kept else None
            if known is None:
                report(Progress("rounds", first, rounds))
            count = at_once if known is None else 1
            contexts = [
                _begun(recipe, public, bound, jnp.int32(number))
                for number in range(first, min(first + count, rounds))
            ]
            releases, cap = known or self._released("rounds", contexts)
            for context, release in zip(contexts, releases, strict=True):
                told = context.public._replace(cap=cap)
                hypothesis, more, state = _learned(
                    recipe, totals.narrow_release(release), told, state
                )
                bound = bound + more
                released.append(release)
                learned.append(hypothesis)
                if not recipe.independent:
                    self._waiting.append((told.structure, hypothesis))
        report(Progress("rounds", rounds, rounds))

        last = public._replace(round=jnp.asarray(rounds, jnp.int32))
        epilogue = self._once("epilogue", Context(last, bound), report)
        return self._learned(prologue, released, learned, epilogue)

    def _once(self, part: str, context: Context, report: Report) -> Releases:
        """The release of a prologue or of an epilogue; empty where there is none."""
        if part not in self._recipe.learner.parts:
            return {}
        report(Progress(part, 0, 1))
        known = self._known(part, part)
        if not processes.min_over_processes(known is not None):  # then all draw it again
            known = None
        (release,), _ = known or self._released(part, [context])
        report(Progress(part, 1, 1))
        return release

    def _released(self, part: str, contexts: list[Context]) -> tuple[list[Releases], Any]:
        """The releases of some rounds, or of what takes place once, and the cap on their weights.

        Each stage has a pass over the rows. What one draw asks for may follow from the draws before
        it. Zeros stand for those after it, so that one compiled program serves all stages.
        """
        recipe, first = self._recipe, contexts[0]
        cap: Any = None
        noise = [_key_of_phase(self._noise, part, context) for context in contexts]
        released: list[Releases] = [{} for _ in contexts]
        for release, context in zip(released, contexts, strict=True):
            own = _key_of_phase(self._structure, part, context)
            if own is not None:
                draws = _public_draws(part, recipe, self._dummy, context, own)
                release |= {site: np.asarray(array) for site, array in draws.items()}

        zeros = self._zeros(part)
        own = [(each.public.round, each.public.structure) for each in contexts]
        numbers, structures = _stack_on_host(own)
        public = first.public._replace(round=numbers, structure=structures)
        pending = self._pending(part, first)
        for stage in pricing.pass_stages(recipe, part):
            sites = _stack_on_host([totals.narrow_release(release) for release in released])
            batch = Batch(Context(public, first.bound), sites, pending)
            sums, cap = self._passes.sums(part, batch, jnp.stack(noise), stage)
            pending = None  # the scores have it now
            for place, (release, context) in enumerate(zip(released, contexts, strict=True)):
                for site in stage:
                    known = {**zeros, **totals.narrow_release(release)}
                    asked = _specs(part, recipe, self._dummy, context, known)
                    own = jax.tree.map(lambda array, place=place: array[place], sums[site])
                    release |= totals.draw_from_sums(
                        noise[place], {site: own}, asked, small=self._small
                    )
        for release, context in zip(released, contexts, strict=True):
            if self._kept is not None:
                name = str(int(context.public.round)) if part == "rounds" else part
                self._kept.add(name, release, float(cap))
        return released, cap

    def _pending(self, part: str, context: Context) -> Any:
        """What the scores do not have yet, and will have now; zeros before the first round."""
        if part == "prologue" or self._recipe.independent:
            return None
        waiting, self._waiting = self._waiting, []
        if not waiting:
            told = self._recipe, self._zeros("rounds"), context.public, None
            hypothesis = jax.tree.map(
                jnp.zeros_like, jax.eval_shape(step.hypothesis_and_bound_of_round, *told)[0]
            )
            waiting = [(context.public.structure, hypothesis)]
        return _stack_on_host(waiting)

    def _zeros(self, part: str) -> Release:
        """Zeros in place of the release of a part, as post-processing reads it."""

        def zeros(spec: boundary.DrawSpec) -> Array:
            noisy = spec.mechanism.price.reads_rows and not spec.mechanism.selects
            wide = noisy and not self._small
            return jnp.zeros(spec.output.shape, jnp.float32 if wide else spec.output.dtype)

        return {spec.site: zeros(spec) for spec in pricing.draw_specs_of_phase(self._recipe, part)}

    def _known(self, name: str, part: str) -> tuple[list[Releases], Any] | None:
        """What the checkpoint has of a part of the run, by its name there.

        Raises:
            ValueError: if it is not what the part draws.
        """
        found = None if self._kept is None else self._kept.get(name)
        if self._kept is None or found is None:
            return None
        release, cap = found
        specs = pricing.draw_specs_of_phase(self._recipe, part)
        drawn = {spec.site: spec.output for spec in specs if not spec.for_places}
        alike = release.keys() == drawn.keys() and all(
            array.shape == drawn[site].shape and array.dtype in (drawn[site].dtype, np.int64)
            for site, array in release.items()
        )
        if not alike or not 0 < cap < np.inf:
            raise ValueError(f"{self._kept.path}: a release was changed or damaged; {AGAIN}")
        return [release], jnp.asarray(cap)

    def _learned(
        self, prologue: Releases, released: list[Releases], learned: list[Any], epilogue: Releases
    ) -> FittedParts:
        """What is learned, with zeros for the rounds that the recipe has room for besides."""
        recipe = self._recipe
        missing = recipe.capacity - len(released)

        def padded(array: np.ndarray) -> np.ndarray:
            return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

        slope, intercept = _line_of(
            recipe, totals.narrow_release(prologue), totals.narrow_release(epilogue)
        )
        hypotheses = jax.tree.map(lambda array: jnp.asarray(padded(array)), _stack_on_host(learned))
        rounds = jax.tree.map(padded, _stack_on_host(released))
        # Releases of 64 bits stay with NumPy.
        transcript = jax.tree.map(
            lambda array: array if array.dtype == np.int64 else jnp.asarray(array),
            (prologue, rounds, epilogue),
        )
        public = _opened(recipe, totals.narrow_release(prologue))[0]
        hypotheses = _finished(recipe, public, hypotheses, slope)
        return step.fitted_parts(transcript, hypotheses, intercept, recipe)


def _key_of_phase(keys_of_run: step.PhaseValues, part: str, context: Context) -> Any:
    """The key of a part of a run; of a round it is that of its number."""
    own = getattr(keys_of_run, part)
    return own[int(context.public.round)] if part == "rounds" and own is not None else own


def _stack_on_host(arrays: list[Any]) -> Any:
    """Pytrees of arrays with a leading axis for rounds, on the host, where it costs no program."""
    return jax.tree.map(lambda *each: np.stack([np.asarray(array) for array in each]), *arrays)
