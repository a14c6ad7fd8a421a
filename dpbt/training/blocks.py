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
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.types import MAX_ROWS, Array, Recipe, Release, Transcript
from dpbt.common.validate import as_path, positive, whole
from dpbt.data.blocks import BlockTable
from dpbt.privacy import pricing, totals
from dpbt.training import boosting, checks, processes, step
from dpbt.training.boosting import Learned
from dpbt.training.checkpoint import AGAIN, Checkpoint, Releases, key_words, recipe_words
from dpbt.training.passes import Batch, Passes, plan_for
from dpbt.training.processes import Place
from dpbt.training.step import Context


class Progress(NamedTuple):
    """How far a run is; all of it is public.

    Attributes:
        stage: "checking" the blocks, "prologue", "rounds" or "epilogue".
        done: how much of the stage is done.
        all: how much the stage is.
    """

    stage: str
    done: int
    all: int


Report = Callable[[Progress], None]
"""Called as a run goes on."""

Pay = Callable[[str | None], None]
"""Called before anything is drawn, with the name of the run in a checkpoint, if there is one."""


def learn(
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
) -> Learned:
    """`fit.learn` of a table in blocks.

    A payment that is refused leaves no checkpoint behind that was not there before.

    Raises:
        ValueError: as `fit`.
        OSError: as `fit`.
    """
    place, public_key = check(key, table, recipe, public_key)
    workers = os.cpu_count() or 1 if threads is None else whole("threads", threads)
    plan = plan_for(table, recipe, float(positive("memory", memory, finite=True)), workers)
    report = progress or (lambda state: None)

    with contextlib.ExitStack() as stack:
        kept = checkpoint if isinstance(checkpoint, Checkpoint) else None
        if kept is None and checkpoint is not None:
            kept = stack.enter_context(Checkpoint(as_path("checkpoint", checkpoint)))
        if kept is not None:
            identities = processes.digests(table.identity)
            kept.begin(key, recipe, identities, jax.process_index(), public_key)
        try:
            passes = stack.enter_context(Passes(table, recipe, plan, place.first))
            for done in passes.verified():
                report(Progress("checking", done, len(table.blocks)))
            if pay is not None:
                pay(None if kept is None else kept.run)
        except ValueError:
            if kept is not None:
                kept.give_up()
            raise
        run = _Run(key, table, recipe, public_key, passes, kept, place.capacity <= MAX_ROWS)
        return run.learn(plan.rounds, report)


def check(
    key: Array, table: BlockTable, recipe: Recipe, public_key: Array | None = None
) -> tuple[Place, Array | None]:
    """Refuse what a run in blocks cannot take, before a row is read.

    Returns:
        Where the rows of this process are among those of all; and the public key, if the recipe
        draws public structure.

    Raises:
        ValueError: as `fit`.
    """
    like = step.dummy_row(table)
    checks.check_run(like, recipe)
    try:
        pricing.check_in_parts(recipe)
    except ValueError as error:
        raise ValueError(
            f"{recipe.name} of the {recipe.calibration} calibration reads all rows at once, and "
            f"learns from no blocks: {error}; recipes.auto does, and others that docs/scaling.md "
            f"names; a table in memory has at most {MAX_ROWS} rows"
        ) from None
    public_key = checks.check(key, like, recipe, public_key)
    if jax.process_count() > 1:
        processes.check_same(
            recipe=recipe_words(recipe),
            key=key_words(key, recipe.name),
            public_key=key_words(public_key, recipe.name),
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
    return place, public_key


def _learned_of(recipe: Recipe, context: Context, cap: Array, release: Release) -> Any:
    return step.learned(recipe, release, step.public_of(context, cap))


# The steps, each of which is compiled once for a recipe.
_specs = jax.jit(step.specs, static_argnums=0)
_public_draws = jax.jit(step.public_draws, static_argnums=0)
_begun, _opened, _learned = jax.jit(step.begun), jax.jit(step.opened), jax.jit(_learned_of)
_line_of, _scaled = jax.jit(step.line_of), jax.jit(step.scaled)


class _Run:
    """The public side of one run."""

    def __init__(
        self,
        key: Array,
        table: BlockTable,
        recipe: Recipe,
        public_key: Array | None,
        passes: Passes,
        kept: Checkpoint | None,
        small: bool,
    ):
        self._recipe, self._passes, self._kept, self._small = recipe, passes, kept, small
        self._noise = boosting.noise_keys(key, recipe)
        self._structure = boosting.structure_keys(public_key, recipe)
        self._dummy = step.dummy_row(table)
        self._waiting: list[Any] = []  # (structure, hypothesis) that the scores do not have yet

    def learn(self, at_once: int, report: Report) -> Learned:
        """What is learned, in passes that serve some rounds at once."""
        recipe, rounds = self._recipe, int(self._recipe.rounds)
        prologue = self._once("prologue", step.before(recipe), report)
        public, start = _opened(recipe, totals.read(prologue))
        bound = jnp.max(jnp.abs(start))
        if not recipe.independent:
            self._passes.start(start)

        released: list[Releases] = []
        learned: list[Any] = []
        kept = processes.least(0 if self._kept is None else self._kept.rounds)
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
                self._keep(str(len(learned)), release, cap)
                hypothesis, more = _learned(recipe, context, cap, totals.read(release))
                bound = bound + more
                released.append(release)
                learned.append(hypothesis)
                if not recipe.independent:
                    self._waiting.append((context.structure, hypothesis))
        report(Progress("rounds", rounds, rounds))

        epilogue = self._once("epilogue", step.closing(recipe, public, bound), report)
        return self._learned(prologue, released, learned, epilogue)

    def _once(self, part: str, context: Context, report: Report) -> Releases:
        """The release of a prologue or of an epilogue; empty where there is none."""
        if part not in self._recipe.learner.parts:
            return {}
        report(Progress(part, 0, 1))
        known = self._known(part, part)
        if not processes.least(known is not None):  # then all draw it again
            known = None
        (release,), cap = known or self._released(part, [context])
        self._keep(part, release, cap)
        report(Progress(part, 1, 1))
        return release

    def _released(self, part: str, contexts: list[Context]) -> tuple[list[Releases], Any]:
        """The releases of some rounds, or of what takes place once, and the cap on their weights.

        Each stage has a pass over the rows. What one draw asks for may follow from the draws before
        it. Zeros stand for those after it, so that one compiled program serves all stages.
        """
        recipe, first, cap = self._recipe, contexts[0], None
        noise = [_own(self._noise, part, context) for context in contexts]
        released: list[Releases] = [{} for _ in contexts]
        for release, context in zip(released, contexts, strict=True):
            own = _own(self._structure, part, context)
            if own is not None:
                draws = _public_draws(part, recipe, self._dummy, context, own)
                release |= {site: np.asarray(array) for site, array in draws.items()}

        zeros = self._zeros(part)
        numbers, structures = (_on_host([context[k] for context in contexts]) for k in (2, 3))
        together = first._replace(number=numbers, structure=structures)
        pending = self._pending(part, first)
        for stage in pricing.stages(recipe, part):
            sites = _on_host([totals.read(release) for release in released])
            batch = Batch(together, sites, pending)
            sums, cap = self._passes.sums(part, batch, jnp.stack(noise), stage)
            pending = None  # the scores have it now
            for place, (release, context) in enumerate(zip(released, contexts, strict=True)):
                for site in stage:
                    known = {**zeros, **totals.read(release)}
                    asked = _specs(part, recipe, self._dummy, context, known)
                    own = jax.tree.map(lambda array, place=place: array[place], sums[site])
                    release |= totals.draw(noise[place], {site: own}, asked, small=self._small)
        return released, cap

    def _pending(self, part: str, context: Context) -> Any:
        """What the scores do not have yet, and will have now; zeros before the first round."""
        if part == "prologue" or self._recipe.independent:
            return None
        waiting, self._waiting = self._waiting, []
        if not waiting:
            zeros = self._zeros("rounds")
            hypothesis, _ = _learned(self._recipe, context, jnp.float32(1), zeros)
            waiting = [(context.structure, jax.tree.map(jnp.zeros_like, hypothesis))]
        return _on_host(waiting)

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

    def _keep(self, name: str, release: Releases, cap: Any) -> None:
        if self._kept is not None:
            self._kept.add(name, release, float(cap))

    def _known(self, name: str, part: str) -> tuple[list[Releases], Any] | None:
        """What the checkpoint has of a part of the run, by its name there.

        Raises:
            ValueError: if it is not what the part draws.
        """
        found = None if self._kept is None else self._kept.get(name)
        if self._kept is None or found is None:
            return None
        release, cap = found
        specs = pricing.sites(self._recipe, part)
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
    ) -> Learned:
        """What is learned, with zeros for the rounds that the recipe has room for besides."""
        recipe = self._recipe
        missing = recipe.capacity - len(released)

        def padded(array: np.ndarray) -> np.ndarray:
            return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

        slope, intercept = _line_of(recipe, totals.read(prologue), totals.read(epilogue))
        hypotheses = jax.tree.map(lambda array: jnp.asarray(padded(array)), _on_host(learned))
        rounds = jax.tree.map(padded, _on_host(released))
        transcript = Transcript(*(_on_device(once) for once in (prologue, rounds, epilogue)))
        hypotheses = _scaled(recipe, hypotheses, slope)
        return boosting.learned_of(transcript, hypotheses, intercept, recipe)


def _own(keys_of_run: boosting.Parts, part: str, context: Context) -> Any:
    """The key of a part of a run; of a round it is that of its number."""
    own = getattr(keys_of_run, part)
    return own[int(context.number)] if part == "rounds" and own is not None else own


def _on_host(arrays: list[Any]) -> Any:
    """Pytrees of arrays with a leading axis for rounds, on the host, where it costs no program."""
    return jax.tree.map(lambda *each: np.stack([np.asarray(array) for array in each]), *arrays)


def _on_device(release: Releases) -> Release:
    """A release as arrays of JAX; those of 64 bits stay with NumPy."""
    return {
        site: array if array.dtype == np.int64 else jnp.asarray(array)  # type: ignore[misc]
        for site, array in release.items()
    }
