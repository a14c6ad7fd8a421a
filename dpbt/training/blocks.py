"""Learning from a table in blocks, which may be larger than memory.

Each round has a pass over the blocks for each of its stages (`passes`), a draw from the sums over
all rows (`privacy.totals`), and the steps of a round in memory (`step`). Rounds that do not wait
for each other share a pass. So the releases are those of the same rows in memory.

With several processes (`jax.distributed`) each has a folder of its own, and their rows are one
table, in the order of the processes. A process sends its sums to the others (`processes`). All draw
the same noise under the same key, and all end with the same model.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import storage
from dpbt.base import MAX_ROWS, Array, Hypothesis, Public, Recipe, Release, Transcript
from dpbt.data.blocks import BlockTable
from dpbt.privacy import boundary, keys, pricing, totals
from dpbt.release.model import Model
from dpbt.training import boosting, checks, processes, specs, step
from dpbt.training.checkpoint import (
    AGAIN,
    Checkpoint,
    Releases,
    key_words,
    public_words,
    recipe_words,
)
from dpbt.training.memory import MemoryPlan, plan_for
from dpbt.training.passes import Batch, Passes, Pending
from dpbt.training.processes import Place
from dpbt.training.step import Context
from dpbt.validate import as_path, positive, whole


class Progress(NamedTuple):
    """How far a run is; all of it is public.

    Attributes:
        stage: "checking" the blocks, "prologue", "replaying" what a checkpoint has, "rounds" or
            "epilogue".
        done: how much of the stage is done.
        all: how much the stage is.
    """

    stage: str
    done: int
    all: int


Report = Callable[[Progress], None]
"""Called as a run goes on."""


def _learned_of(
    recipe: Recipe, context: Context, cap: Array, release: Release
) -> tuple[Hypothesis, Array]:
    _, _, number, structure = context
    public = context.public._replace(cap=cap, round=number, structure=structure)
    return step.learned(recipe, release, public)


# The steps, each of which is compiled once for a recipe.
_specs = jax.jit(specs.of_part, static_argnums=0)
_public_draws = jax.jit(specs.public_draws, static_argnums=0)
_begun, _opened, _learned = jax.jit(step.begun), jax.jit(step.opened), jax.jit(_learned_of)
_line_of, _scaled = jax.jit(step.line_of), jax.jit(step.scaled)


class _Rounds:
    """The rounds of one run so far, as far as they are public.

    Attributes:
        public: what is public in all rounds.
        bound: f32[], an upper bound on the scores of all rows after the learned rounds.
        contexts: of each round that has begun.
        released: the release of each learned round.
        learned: its hypothesis.
    """

    def __init__(self, recipe: Recipe, public: Public, bound: Array, zeros: Release):
        self._recipe, self._zeros = recipe, zeros
        self.public, self.bound = public, bound
        self.contexts: list[Context] = []
        self.released: list[Releases] = []
        self.learned: list[Hypothesis] = []

    def begin(self) -> Context:
        """What is public as the next round begins."""
        number = jnp.int32(len(self.contexts))
        self.contexts.append(_begun(self._recipe, self.public, self.bound, number))
        return self.contexts[-1]

    def learn(self, release: Releases, cap: Array) -> None:
        """Learn the hypothesis of the next round, which has begun, from its release."""
        context = self.contexts[len(self.learned)]
        hypothesis, more = _learned(self._recipe, context, cap, totals.read(release))
        self.bound = self.bound + more
        self.released.append(release)
        self.learned.append(hypothesis)

    @property
    def pending(self) -> Pending | None:
        """What the scores do not have yet: the last hypothesis, or zeros, which change no score."""
        if self._recipe.independent:
            return None
        if self.learned:
            return Pending(self.contexts[len(self.learned) - 1].structure, self.learned[-1])
        first = self.contexts[0]
        hypothesis, _ = _learned(self._recipe, first, jnp.float32(1), self._zeros)
        return Pending(first.structure, jax.tree.map(jnp.zeros_like, hypothesis))


class Run:
    """One run, from its checks to the model."""

    def __init__(
        self,
        key: Array,
        table: BlockTable,
        recipe: Recipe,
        public_key: Array | None,
        memory: float,
        threads: int | None = None,
        progress: Report | None = None,
    ):
        """Refuse what a run cannot take, before a row is read. The arguments are those of `fit`.

        Raises:
            ValueError: as `fit`.
        """
        self.place = check(key, table, recipe, public_key)
        self.plan = plan_of(table, recipe, memory, threads)
        self._key, self._table, self._recipe = key, table, recipe
        self._public_key = specs.check_public_key(recipe, public_key)
        self._dummy, self._small = specs.row_of(table), self.place.capacity <= MAX_ROWS
        self._noise = boosting.noise_keys(key, recipe)
        self._structure = boosting.structure_keys(self._public_key, recipe)
        self._report = progress or (lambda state: None)
        self._kept: Checkpoint | None = None

    def checkpoint(self, folder: Path) -> Checkpoint:
        """The checkpoint of the run, for the tables of all processes.

        Raises:
            ValueError: as `Checkpoint`.
            OSError: as `Checkpoint`.
        """
        tables = processes.digests(self._table.identity)
        return Checkpoint(
            folder, self._key, self._recipe, tables, jax.process_index(), self._public_key
        )

    def learn(
        self,
        checkpoint: str | Path | Checkpoint | None = None,
        pay: Callable[[str | None], None] | None = None,
    ) -> Model:
        """The model.

        Args:
            checkpoint: where releases are kept: a folder, or one that the caller holds.
            pay: as `fit.learn` has it. If it refuses, a folder that had no run before is left to
                another one.

        Raises:
            ValueError: as `fit`.
            OSError: as `fit`.
        """

        def checking(done: int, every: int) -> None:
            self._report(Progress("checking", done, every))

        with contextlib.ExitStack() as stack:
            scratch = Path(tempfile.gettempdir())
            if isinstance(checkpoint, Checkpoint):
                self._kept, scratch = checkpoint, checkpoint.folder
            elif checkpoint is not None:
                scratch = as_path("checkpoint", checkpoint)
                scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(storage.held(scratch))
                self._kept = self.checkpoint(scratch)
            self._passes = stack.enter_context(
                Passes(self._table, self._recipe, self.plan, scratch, checking, self.place)
            )
            if pay is not None:
                _ask(pay, self._kept)
            return self._learn()

    def _learn(self) -> Model:
        recipe = self._recipe
        prologue = self._once("prologue", step.before(recipe), None)
        public, start = _opened(recipe, totals.read(prologue))
        if not recipe.independent:
            self._passes.start(start)

        bound = jnp.max(jnp.abs(start))
        done = _Rounds(recipe, public, bound, self._zeros("rounds"))
        rounds = int(recipe.rounds)
        self._replay(done, self._known_rounds(rounds))
        for first in range(len(done.learned), rounds, self.plan.rounds):
            self._report(Progress("rounds", first, rounds))
            numbers = range(first, min(first + self.plan.rounds, rounds))
            contexts = [done.begin() for _ in numbers]
            released, cap = self._released("rounds", contexts, done.pending)
            for number, release in zip(numbers, released, strict=True):
                boundary.check_sites(prologue=prologue, rounds=release)
                self._keep(str(number), release, cap)
                done.learn(release, cap)
        self._report(Progress("rounds", rounds, rounds))

        closing = step.closing(recipe, public, done.bound)
        epilogue = self._once("epilogue", closing, done.pending)
        return self._model(prologue, done, epilogue)

    def _once(self, part: str, context: Context, pending: Pending | None) -> Releases:
        """The release of a prologue or of an epilogue; empty where there is none."""
        if part not in self._recipe.learner.parts:
            return {}
        self._report(Progress(part, 0, 1))
        release = self._known(part, part)
        everywhere = processes.least(release is not None)
        if release is None or not everywhere:
            (release,), _ = self._released(part, [context], pending)
            self._keep(part, release)
        self._report(Progress(part, 1, 1))
        return release

    def _released(
        self, part: str, contexts: list[Context], pending: Pending | None
    ) -> tuple[list[Releases], Array]:
        """The releases of some rounds, or of what takes place once, and the cap on their weights.

        Each stage has a pass over the rows. What one draw asks for may follow from the draws before
        it. Zeros stand for those after it, so that one compiled program serves all stages.
        """
        recipe, first = self._recipe, contexts[0]
        noise = [self._own(self._noise, part, context) for context in contexts]
        released: list[Releases] = [{} for _ in contexts]
        if self._public_key is not None:
            for release, context in zip(released, contexts, strict=True):
                own = self._own(self._structure, part, context)
                draws = _public_draws(part, recipe, self._dummy, context, own)
                release |= {site: np.asarray(array) for site, array in draws.items()}

        zeros = self._zeros(part)
        numbers = np.asarray([np.asarray(context.number) for context in contexts], np.int32)
        structures = _on_host([context.structure for context in contexts])
        cap = None
        for stage in pricing.stages(recipe, part):
            sites = _on_host([totals.read(release) for release in released])
            batch = Batch(first.public, first.bound, numbers, structures, sites, pending)
            found = self._passes.sums(part, batch, jnp.stack(noise), stage)
            pending, cap = None, found.cap  # the scores have it now
            for place, (release, context) in enumerate(zip(released, contexts, strict=True)):
                for site in stage:
                    known = {**zeros, **totals.read(release)}
                    asked = _specs(part, recipe, self._dummy, context, known)
                    sums = {site: found.of(place)[site]}
                    release |= totals.draw(noise[place], sums, asked, small=self._small)
        assert cap is not None
        return released, cap

    def _own(self, keys_of_run: boosting.Parts, part: str, context: Context) -> Array:
        """The key of a part of a run; of a round it is that of its number."""
        own = getattr(keys_of_run, part)
        return own[int(context.number)] if part == "rounds" else own

    def _zeros(self, part: str) -> Release:
        """Zeros in place of the release of a part, as post-processing reads it."""
        found = {}
        for spec in pricing.sites(self._recipe, part):
            noisy = spec.mechanism.price.reads_rows and not spec.mechanism.selects
            wide = noisy and not self._small
            dtype = jnp.float32 if wide else spec.output.dtype
            found[spec.site] = jnp.zeros(spec.output.shape, dtype)
        return found

    # What a checkpoint has.

    def _keep(self, name: str, release: Releases, cap: Array | float = 1.0) -> None:
        if self._kept is not None:
            self._kept.add(name, release, float(cap))

    def _known(self, name: str, part: str) -> Releases | None:
        """What the checkpoint has of a part of the run, by its name there; None if it has nothing.

        Raises:
            ValueError: if it is not what the part draws.
        """
        release = None if self._kept is None else self._kept.get(name)
        if self._kept is None or release is None:
            return None
        specs = pricing.sites(self._recipe, part)
        drawn = {spec.site: spec.output for spec in specs if not spec.for_places}
        alike = release.keys() == drawn.keys() and all(
            array.shape == drawn[site].shape and array.dtype in (drawn[site].dtype, np.int64)
            for site, array in release.items()
        )
        if not alike or not 0 < self._kept.cap(name) < np.inf:
            raise ValueError(f"{self._kept.folder}: a release was changed or damaged; {AGAIN}")
        return release

    def _known_rounds(self, rounds: int) -> int:
        """How many of the first rounds every process has the releases of."""
        known = 0
        while self._kept is not None and known < rounds and self._kept.get(str(known)) is not None:
            known += 1
        return processes.least(known)

    def _replay(self, done: _Rounds, known: int) -> None:
        """Learn the rounds that all checkpoints have, and add all but the last to the scores."""
        for number in range(known):
            assert self._kept is not None
            release = self._known(str(number), "rounds")
            assert release is not None
            done.begin()
            done.learn(release, jnp.asarray(self._kept.cap(str(number))))
        if known > 1 and not self._recipe.independent:
            self._report(Progress("replaying", 0, 1))
            structures = [context.structure for context in done.contexts[:-1]]
            self._passes.replay(
                Pending(_stacked(structures), _stacked(done.learned[:-1])), known - 1
            )
            self._report(Progress("replaying", 1, 1))

    def _model(self, prologue: Releases, done: _Rounds, epilogue: Releases) -> Model:
        """The model, with zeros for the rounds that the recipe has room for besides."""
        recipe, table = self._recipe, self._table
        missing = recipe.capacity - len(done.released)

        def padded(array: Any) -> Any:
            array = np.asarray(array)
            return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

        slope, intercept = _line_of(recipe, totals.read(prologue), totals.read(epilogue))
        hypotheses = jax.tree.map(lambda array: jnp.asarray(padded(array)), _stacked(done.learned))
        rounds = jax.tree.map(padded, _on_host(done.released))
        transcript = Transcript(*(_on_device(once) for once in (prologue, rounds, epilogue)))
        checks.check_transcript(transcript)
        drawn = {spec.site for spec in pricing.sites(recipe, "rounds")}
        return Model(
            _scaled(recipe, hypotheses, slope),
            intercept,
            boosting.without_withheld(transcript, recipe.learner, drawn),
            recipe,
            jax.tree.map(jnp.asarray, table.questions),
            features=table.features,
            dtype="uint8",
            key=keys.kind(self._key),
        )


def plan_of(
    table: BlockTable, recipe: Recipe, memory: float, threads: int | None = None
) -> MemoryPlan:
    """How a run fits into memory; the arguments are those of `fit`.

    Raises:
        ValueError: for too little memory, and for numbers out of their range.
    """
    workers = os.cpu_count() or 1 if threads is None else whole("threads", threads)
    return plan_for(table, recipe, float(positive("memory", memory, finite=True)), workers)


def check(key: Array, table: object, recipe: object, public_key: Array | None = None) -> Place:
    """Refuse what a run in blocks cannot take, before a row is read.

    Returns:
        Where the rows of this process are among those of all.

    Raises:
        ValueError: as `fit`.
    """
    assert isinstance(table, BlockTable)
    like = specs.row_of(table)
    checks.check_run(like, recipe)
    assert isinstance(recipe, Recipe)
    try:
        pricing.check_in_parts(recipe)
    except ValueError as error:
        raise ValueError(
            f"{recipe.name} of the {recipe.calibration} calibration reads all rows at once, and "
            f"learns from no blocks: {error}; recipes.auto does, and others that docs/scaling.md "
            f"names; a table in memory has at most {MAX_ROWS} rows"
        ) from None
    checks.check_independent(recipe)
    checks.check_kind(key, like, recipe, public_key)
    public_key = specs.check_public_key(recipe, public_key)
    if jax.process_count() > 1:
        processes.check_same(
            recipe=recipe_words(recipe),
            key=key_words(key, recipe.name),
            public_key=public_words(public_key, recipe.name),
            table=hashlib.sha256(table.declared.encode()).hexdigest(),
        )
        own = table.identity
        if not any(block.present for block in table.blocks):  # such folders may be alike
            own = hashlib.sha256(os.fsencode(table.folder.resolve())).hexdigest()
        tables = processes.digests(own)
        if len(set(tables)) < len(tables):
            raise ValueError(
                "two processes were given the same table, so its rows would count twice; give each "
                "a folder of its own rows"
            )
    place = processes.place_of(sum(block.present for block in table.blocks), table.capacity)
    checks.check_rows(place.present, place.capacity, recipe)
    return place


def _ask(pay: Callable[[str | None], None], kept: Checkpoint | None) -> None:
    """Call `pay` with the name of the run; if it refuses, leave the folder to another run.

    Raises:
        ValueError: as `pay` says.
    """
    try:
        pay(None if kept is None else kept.run)
    except ValueError:
        if kept is not None:
            kept.give_up()
        raise


def _stacked(arrays: list[Any]) -> Any:
    """Pytrees of arrays with a leading axis for rounds."""
    return jax.tree.map(lambda *each: jnp.stack(each), *arrays)


def _on_host(arrays: list[Any]) -> Any:
    """`_stacked` on the host, where it costs no program."""
    return jax.tree.map(lambda *each: np.stack([np.asarray(array) for array in each]), *arrays)


def _on_device(release: Mapping[str, np.ndarray]) -> Release:
    """A release as arrays of JAX; those of 64 bits stay with NumPy."""
    return {
        site: array if array.dtype == np.int64 else jnp.asarray(array)  # type: ignore[misc]
        for site, array in release.items()
    }
