"""Learning from a table in chunks, which may be larger than memory.

`fit_chunks` learns what `dpbt.fit` learns from the same rows in memory, under the same keys: the
same releases, bit for bit. Each round has a pass over the chunks (`passes`), a draw from the sums
over all rows (`privacy.totals`), and the same post-processing. Trees of a random forest do not wait
for each other, so one pass serves many of them. A greedy tree has a pass for each level, and one
for its leaves.

With several processes (`jax.distributed`) each has a folder of its own, and their rows are one
table, in the order of the processes. A process sends its sums to the others (`processes`). All draw
the same noise under the same key, and all end with the same model.
"""

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import absent, boosting, checks, processes, storage
from dpbt.absent import Told
from dpbt.base import (
    MAX_ROWS,
    Array,
    Hypotheses,
    Hypothesis,
    Public,
    Recipe,
    Release,
    Transcript,
)
from dpbt.boosting import RunKeys
from dpbt.checkpoints import AGAIN, Checkpoint, Releases, key_words, public_words, recipe_words
from dpbt.data.blocks import BlockTable
from dpbt.memory import Room, room_for
from dpbt.passes import Passes, Summed, Turn
from dpbt.postprocessing import Last, Rounds, line_of, opened, scaled, stacked
from dpbt.privacy import boundary, keys, pricing, totals
from dpbt.privacy.totals import Totals
from dpbt.processes import Place
from dpbt.release.model import Model
from dpbt.validate import as_path, positive, whole


class Progress(NamedTuple):
    """How far a run is; all of it is public.

    Attributes:
        stage: "checking" the chunks, "prologue", "replaying" what a checkpoint has, "rounds" or
            "epilogue".
        done: how much of the stage is done.
        all: how much the stage is.
    """

    stage: str
    done: int
    all: int


Report = Callable[[Progress], None]
"""Called as a run goes on."""


def fit_chunks(
    key: Array,
    table: BlockTable,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    memory: float = 4 * 2**30,
    checkpoint: str | Path | None = None,
    progress: Report | None = None,
    threads: int | None = None,
) -> Model:
    """`dpbt.fit` for a table in chunks: the same guarantee, and the same releases under one key.

    Of a table of at most `base.MAX_ROWS` rows the releases are those of `dpbt.fit`, and of
    `forests.fit`, bit for bit. Larger tables have sums and releases of 64 bits, and post-processing
    reads the nearest float32. The size of chunks, the memory and the threads change nothing. Nor
    does the order of the rows, unless a forest is `disjoint`. There the place of a row decides
    which tree has it. Greedy trees are worked out in double precision, and two programs may round
    its last bit in different ways. That may show in a leaf, but rarely (docs/scaling.md).

    Args:
        key: one typed key, a secret; see `dpbt.fit`. A run that goes on from a checkpoint is the
            same release, and needs the same key.
        table: from `blocks.open_folder` or `convert`.
        recipe: one setting of `recipes.auto`, `oblivious_boost`, `random_forest`, `rf_l`, `rf_e`,
            or `bdpe` of the tight calibration; or `custom`, of a learner whose statistics are sums
            over rows. Others read no chunks.
        public_key: one typed key that is independent of `key`, of the structure of random trees. A
            run that goes on needs the same one. Other recipes read none.
        memory: bytes that the process may take, Python and JAX among them. Scores of all rows are
            kept in memory if they fit, and else in an unnamed file.
        checkpoint: a folder that keeps what was released so far. A run that was stopped goes on
            from there. What it holds may be published.
        progress: called with a `Progress` before the rounds of each pass. A greedy tree is one
            round, whose passes are not told apart.
        threads: how many blocks of rows are worked on at once; by default one for each processor.

    Raises:
        ValueError: as `dpbt.fit`, for a recipe that reads no chunks, too little memory for the rows
            or the model, a damaged chunk, and a checkpoint of another run or in use. Of what is
            private only the number of present rows is refused.
        OSError: if a file cannot be read or written.
    """
    model = learn(
        key,
        table,
        recipe,
        public_key,
        memory=memory,
        checkpoint=checkpoint,
        progress=progress,
        threads=threads,
    )
    keys.warn_of_research(key)
    return model


def learn(
    key: Array,
    table: BlockTable,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    memory: float = 4 * 2**30,
    checkpoint: str | Path | Checkpoint | None = None,
    progress: Report | None = None,
    threads: int | None = None,
    ready: Callable[[str | None], None] | None = None,
) -> Model:
    """`fit_chunks` without its warning of a research key.

    Args: as `fit_chunks`. A `Checkpoint` is one that the caller holds. `ready` is called when all
        that can be refused has been, before anything is drawn. It is told the name of the run in
        the checkpoint's folder, if there is one, so that a filter pays once. If it refuses,
        a folder that had no run before is left to another one.

    Raises:
        ValueError: as `fit_chunks`.
        OSError: as `fit_chunks`.
    """
    place = check(key, table, recipe, public_key)
    public_key = public_key if _public_site(recipe) else None
    room = room_of(table, recipe, memory, threads)
    report = progress or (lambda state: None)

    def checking(done: int, every: int) -> None:
        report(Progress("checking", done, every))

    with contextlib.ExitStack() as stack:
        kept, scratch = None, Path(tempfile.gettempdir())
        if isinstance(checkpoint, Checkpoint):
            kept, scratch = checkpoint, checkpoint.folder
        elif checkpoint is not None:
            scratch = as_path("checkpoint", checkpoint)
            scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(storage.held(scratch))
            kept = checkpoint_of(scratch, key, recipe, table, public_key)
        passes = stack.enter_context(Passes(table, recipe, room, scratch, checking, place))
        if ready is not None:
            _ask(ready, kept)
        small = place.capacity <= MAX_ROWS
        run = _Run(key, public_key, table, recipe, passes, kept, report, small, room.rounds)
        return run.learn()


def room_of(table: BlockTable, recipe: Recipe, memory: float, threads: int | None = None) -> Room:
    """How a run fits into memory; its arguments are those of `fit_chunks`.

    Raises:
        ValueError: for too little memory, and for numbers out of their range.
    """
    workers = os.cpu_count() or 1 if threads is None else whole("threads", threads)
    return room_for(table, recipe, float(positive("memory", memory, finite=True)), workers)


def _ask(ready: Callable[[str | None], None], kept: Checkpoint | None) -> None:
    """Call `ready` with the name of the run; if it refuses, leave the folder to another run.

    Raises:
        ValueError: as `ready` says.
    """
    try:
        ready(None if kept is None else kept.run)
    except ValueError:
        if kept is not None:
            kept.give_up()
        raise


def _public_site(recipe: Recipe) -> str | None:
    """The first site of public randomness that a recipe draws; None if it draws none."""
    for part in recipe.learner.parts:
        for site, draw in pricing.drawn(recipe, part).items():
            if draw.mechanism.public:
                return site
    return None


def checkpoint_of(
    folder: Path, key: Array, recipe: Recipe, table: BlockTable, public_key: Array | None
) -> Checkpoint:
    """The checkpoint of a run, for the tables of all processes.

    Raises:
        ValueError: as `Checkpoint`.
        OSError: as `Checkpoint`.
    """
    tables = processes.digests(table.identity)
    public_key = public_key if _public_site(recipe) else None
    return Checkpoint(folder, key, recipe, tables, jax.process_index(), public_key)


def check(key: Array, table: object, recipe: object, public_key: Array | None = None) -> Place:
    """Refuse what a run on chunks cannot take, before a row is read.

    Returns:
        Where the rows of this process are among those of all.

    Raises:
        ValueError: as `fit_chunks`.
    """
    if not isinstance(table, BlockTable):
        raise ValueError(
            f"expected a table in blocks, as dpbt.blocks.open_folder finds it, got "
            f"{type(table).__name__}; dpbt.fit learns from a table in memory"
        )
    like = absent.row_of(table)
    checks.check_run(like, recipe)
    assert isinstance(recipe, Recipe)
    try:
        pricing.check_in_parts(recipe)
    except ValueError as error:
        raise ValueError(
            f"{recipe.name} of the {recipe.calibration} calibration reads all rows at once, and "
            f"learns from no chunks: {error}; recipes.auto does, and others that docs/scaling.md "
            f"names; dpbt.fit learns from a table of at most {MAX_ROWS} rows"
        ) from None
    checks.check_independent(recipe)
    checks.check_kind(key, like, recipe, public_key)
    site = _public_site(recipe)
    if site is not None and public_key is None:
        raise boundary.no_public_key(site)
    if jax.process_count() > 1:
        processes.check_same(
            recipe=recipe_words(recipe),
            key=key_words(key, recipe.name),
            public_key=public_words(None if site is None else public_key, recipe.name),
            table=hashlib.sha256(table.declared.encode()).hexdigest(),
        )
        some = any(chunk.present for chunk in table.blocks)
        tables = processes.digests(table.identity if some else str(table.folder.resolve()))
        if len(set(tables)) < len(tables):
            raise ValueError(
                "two processes were given the same table, so its rows would count twice; give each "
                "a folder of its own rows"
            )
    place = processes.place_of(sum(chunk.present for chunk in table.blocks), table.capacity)
    checks.check_rows(place.present, place.capacity, recipe)
    return place


class _Run:
    """One run, from the prologue to the model."""

    def __init__(
        self,
        key: Array,
        public_key: Array | None,
        table: BlockTable,
        recipe: Recipe,
        passes: Passes,
        kept: Checkpoint | None,
        report: Report,
        small: bool,
        at_once: int,
    ):
        self._kind, self._noise = keys.kind(key), boosting.noise_keys(key, recipe)
        self._structure = boosting.structure_keys(public_key, recipe)
        self._table, self._recipe, self._nobody = table, recipe, absent.row_of(table)
        self._passes, self._kept, self._report = passes, kept, report
        self._small, self._at_once = small, at_once

    def learn(self) -> Model:
        """The model."""
        recipe, learner = self._recipe, self._recipe.learner
        prologue: Releases = {}
        if learner.prologue is not None:
            with self._stage("prologue"):
                prologue = self._once("prologue", self._opening)
        opening, start = opened(recipe, totals.read(prologue))
        if not recipe.independent:
            self._passes.start(start)
        done = self._rounds(opening, jnp.max(jnp.abs(start)), prologue)
        epilogue: Releases = {}
        if learner.epilogue is not None:
            told = opening, done.last, totals.read(prologue)
            with self._stage("epilogue"):
                closing = functools.partial(self._closing, *told)
                epilogue = self._once("epilogue", closing)
        return self._model(prologue, done.released, epilogue, done.learned)

    @contextlib.contextmanager
    def _stage(self, stage: str) -> Iterator[None]:
        self._report(Progress(stage, 0, 1))
        yield
        self._report(Progress(stage, 1, 1))

    def _opening(self) -> Releases:
        """The release of the prologue."""
        sites = self._public("prologue", Told())
        sums = self._passes.opening(sites, self._noise.opening).totals
        return {**_kept(sites), **self._drawn("prologue", Told(), sites, sums)}

    def _closing(self, opening: Public, last: Last, prologue: Release) -> Releases:
        """The release of the epilogue."""
        told = Told(prologue=prologue)
        sites = self._public("epilogue", told)
        sums = self._passes.closing(opening, last, prologue, sites, self._noise.closing).totals
        return {**_kept(sites), **self._drawn("epilogue", told, sites, sums)}

    def _public(self, part: str, told: Told) -> Release:
        """The public randomness of a prologue, an epilogue or a round."""
        if self._structure is None:
            return {}
        key = _own_key(self._structure, part, told)
        return absent.public_draws(key, self._nobody, self._recipe, part, told)

    def _drawn(self, part: str, told: Told, known: Release, sums: Totals) -> Releases:
        """A draw from each of the sums over all rows, in a part whose other draws are known."""
        specs = absent.specs(known, self._nobody, self._recipe, part, told)
        key = _own_key(self._noise, part, told)
        return totals.draw(key, sums, specs, small=self._small)

    def _once(self, part: str, found: Callable[[], Releases]) -> Releases:
        """The release of a prologue or of an epilogue."""
        release = self._known(part, part)
        everywhere = processes.least(release is not None)
        if release is None or not everywhere:
            release = found()
            self._keep(part, release)
        return release

    def _known(self, name: str, part: str) -> Releases | None:
        """What the checkpoint has of a part of the run, by its name there; None if it has nothing.

        Raises:
            ValueError: if it is not what the part draws.
        """
        release = None if self._kept is None else self._kept.get(name)
        if self._kept is None or release is None:
            return None
        specs = pricing.drawn(self._recipe, part)
        drawn = {site: spec for site, spec in specs.items() if not spec.for_places}
        alike = release.keys() == drawn.keys() and all(
            array.shape == drawn[site].shape and array.dtype in (drawn[site].dtype, np.int64)
            for site, array in release.items()
        )
        if not alike or not 0 < self._kept.cap(name) < np.inf:
            raise ValueError(f"{self._kept.folder}: a release was changed or damaged; {AGAIN}")
        return release

    def _keep(self, part: str, release: Releases, cap: Array | float = 1.0) -> None:
        if self._kept is not None:
            self._kept.add(part, release, float(cap))

    def _rounds(self, opening: Public, bound: Array, prologue: Releases) -> Rounds:
        """All rounds: those that the checkpoints have, and then the others."""
        rounds = int(self._recipe.rounds)
        done = Rounds(self._recipe, opening, bound)
        self._replay(done, self._known_rounds(rounds))
        for first in range(len(done.learned), rounds, self._at_once):
            self._report(Progress("rounds", first, rounds))
            self._pass(done, range(first, min(first + self._at_once, rounds)), prologue)
        self._report(Progress("rounds", rounds, rounds))
        return done

    def _replay(self, done: Rounds, known: int) -> None:
        """Learn the rounds that all checkpoints have, and add all but the last to the scores."""
        for number in range(known):
            assert self._kept is not None
            kept = self._known(str(number), "rounds")
            assert kept is not None
            done.begin()
            done.learn(kept, jnp.asarray(self._kept.cap(str(number))))
        if known > 1 and not self._recipe.independent:
            with self._stage("replaying"):
                before = stacked(done.structures[:-1]), stacked(done.learned[:-1])
                self._passes.replay(done.opening, *before, known - 1)

    def _pass(self, done: Rounds, numbers: range, prologue: Releases) -> None:
        """Make the next rounds in one pass; they are several where none depends on another.

        A learner with stages has a pass for each of them.
        """
        for _ in numbers:
            done.begin()
        released = [_kept(self._public("rounds", self._told(done, k))) for k in numbers]
        last = None
        if not self._recipe.independent:
            last = done.last if done.learned else done.nothing(self._small)
        found = None
        for stage in pricing.stages(self._recipe, "rounds"):
            found = self._summed(done, numbers, released, last, stage)
            for place, number in enumerate(numbers):
                self._release(done, number, stage, found.of(place), released[place])
            last = None  # the scores have it now
        assert found is not None
        for number, release in zip(numbers, released, strict=True):
            boundary.check_sites(prologue=prologue, rounds=release)
            self._keep(str(number), release, found.cap)
            done.learn(release, found.cap)

    def _summed(
        self,
        done: Rounds,
        numbers: range,
        released: list[Releases],
        last: Last | None,
        stage: tuple[str, ...],
    ) -> Summed:
        """The sums of a stage of some rounds, over all rows."""
        turn = Turn(
            done.opening,
            done.bound,
            np.asarray(numbers, np.int32),
            _on_host(done.structures[numbers.start :]),
            _on_host([totals.read(each) for each in released]),
            last,
        )
        return self._passes.rounds(turn, self._noise.rounds[np.asarray(numbers)], stage)

    def _release(
        self, done: Rounds, number: int, stage: tuple[str, ...], sums: Totals, released: Releases
    ) -> None:
        """Add the draws of a stage to the release of its round.

        What one draw asks for may follow from the draws before it. Zeros stand for those after it,
        so that one compiled program serves all stages.
        """
        told = self._told(done, number)
        for site in stage:
            known = {**done.zero_release(self._small), **totals.read(released)}
            released |= self._drawn("rounds", told, known, {site: sums[site]})

    def _told(self, done: Rounds, number: int) -> Told:
        return Told(done.opening, done.bound, jnp.int32(number), done.structures[number])

    def _known_rounds(self, rounds: int) -> int:
        """How many of the first rounds every process has the releases of."""
        known = 0
        while self._kept is not None and known < rounds and self._kept.get(str(known)) is not None:
            known += 1
        return processes.least(known)

    def _model(
        self,
        prologue: Releases,
        released: list[Releases],
        epilogue: Releases,
        learned: list[Hypothesis],
    ) -> Model:
        """The model, as `boosting.model_of` makes it."""
        recipe, table = self._recipe, self._table
        missing = recipe.capacity - len(released)

        def padded(array: Any) -> Any:
            array = np.asarray(array)
            return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

        slope, intercept = line_of(recipe, totals.read(prologue), totals.read(epilogue))
        hypotheses: Hypotheses = jax.tree.map(padded, stacked(learned))
        hypotheses = scaled(recipe, jax.tree.map(jnp.asarray, hypotheses), slope)
        rounds = {site: padded(np.stack([each[site] for each in released])) for site in released[0]}
        drawn = pricing.drawn(recipe, "rounds")
        transcript = Transcript(*(_on_device(once) for once in (prologue, rounds, epilogue)))
        checks.check_transcript(transcript)
        return Model(
            hypotheses,
            intercept,
            boosting.without_withheld(transcript, recipe.learner, drawn),
            recipe,
            jax.tree.map(jnp.asarray, table.questions),
            features=table.features,
            dtype="uint8",
            key=self._kind,
        )


def _own_key(keys_of_run: RunKeys, part: str, told: Told) -> Array:
    """The key of a part of a run; of a round it is that of its number."""
    if part == "rounds":
        return keys_of_run.rounds[int(told.number)]
    return keys_of_run.opening if part == "prologue" else keys_of_run.closing


def _on_host(arrays: list[Any]) -> Any:
    """`stacked` of a few arrays on the host, where it costs no program."""
    return jax.tree.map(lambda *each: np.stack([np.asarray(array) for array in each]), *arrays)


def _kept(sites: Release) -> Releases:
    """Public randomness, as a release keeps it."""
    return {site: np.asarray(array) for site, array in sites.items()}


def _on_device(release: Releases) -> Release:
    """A release as arrays of JAX; those of 64 bits stay with NumPy."""
    return {
        site: array if array.dtype == np.int64 else jnp.asarray(array)  # type: ignore[misc]
        for site, array in release.items()
    }
