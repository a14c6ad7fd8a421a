"""Learning from a table in blocks, which may be larger than memory.

Each round has a pass over the blocks for each of its stages (`passes`), a draw from the sums over
all rows (`privacy.totals`), and the public steps of a round in memory (`steps`). Rounds that do not
wait for each other share a pass. So the releases are those of the same rows in memory.

With several processes (`jax.distributed`) each has a folder of its own, and their rows are one
table, in the order of the processes. A process sends its sums to the others (`processes`). All draw
the same noise under the same key, and all end with the same model.
"""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common import compilation
from dpbt.common.progress import Progress, ReportProgress
from dpbt.common.validate import as_path, check_interval, check_positive_integer
from dpbt.data.blocks import BlockTable
from dpbt.privacy import boundary, totals
from dpbt.privacy.dependencies import draw_specs_of_phase
from dpbt.privacy.phase_views import PhaseContext
from dpbt.privacy.stages import check_in_parts, pass_stages
from dpbt.public_types import redacted_repr
from dpbt.training import absent_row, checks, processes, run_keys, steps
from dpbt.training.checkpoint import AGAIN, Checkpoint, Releases, describe_key, describe_recipe
from dpbt.training.passes import Batch, Passes, plan_for
from dpbt.training.run import (
    FittedParts,
    LearnedModel,
    PhaseValues,
    PublicSteps,
    RoundRelease,
    fitted_parts,
    round_step,
    run_phases,
)
from dpbt.training.steps import RoundState
from dpbt.types import (
    MAX_ROWS,
    Array,
    Hypotheses,
    Phase,
    Prologue,
    Public,
    Recipe,
    Release,
    Table,
)

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
    progress: ReportProgress | None = None,
) -> FittedParts:
    """`fit.fit_unwarned` of a table in blocks.

    A payment that is refused leaves no checkpoint behind that was not there before.

    Raises:
        ValueError: as `fit`.
        OSError: as `fit`.
    """
    capacity, first, public_key = check_fit_in_blocks(key, table, recipe, public_key)
    recipe = checks.without_domain(recipe)  # so that domains share programs
    workers = os.cpu_count() or 1 if threads is None else check_positive_integer("threads", threads)
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
        recipe_key = run_keys.derive_recipe_key(key, recipe)
        executor = _BlockExecutor(
            recipe=recipe,
            passes=passes,
            checkpoint=kept,
            num_kept_rounds=processes.min_over_processes(0 if kept is None else kept.rounds),
            small=capacity <= MAX_ROWS,
            noise_keys=run_keys.phase_keys(recipe_key, recipe),
            structure_keys=run_keys.phase_keys(public_key, recipe),
            dummy=checks.without_domain(absent_row.absent_row(table)),
            rounds_of_pass=plan.rounds,
            report=report,
        )
        return executor.fitted(run_phases(recipe, executor))


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
    like = absent_row.absent_row(table)
    checks.check_run(like, recipe)
    try:
        check_in_parts(recipe)
    except ValueError as error:
        raise ValueError(
            f"{recipe.name} of the {recipe.calibration} calibration reads all rows at once, and "
            f"learns from no blocks, as recipes.auto does: {error}"
        ) from None
    public_key = checks.check_fit(key, recipe, public_key)
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
    checks.check_rows(present, capacity, recipe)
    return capacity, first, public_key


# The public steps, each of which is compiled once for a recipe. They read releases of 32 bits.


_compiled_after_prologue = compilation.jit_with_bounded_cache()(steps.after_prologue)
_compiled_finish_round = compilation.jit_with_bounded_cache()(steps.finish_round)
_compiled_score_line = compilation.jit_with_bounded_cache()(steps.score_line)
_draw_specs = compilation.jit_with_bounded_cache(static_argnames=("phase",))(
    absent_row.draw_specs_after_release
)
_public_draws = compilation.jit_with_bounded_cache(static_argnames=("phase",))(
    absent_row.public_draws
)


def _after_prologue(recipe: Recipe, prologue: Releases) -> steps.AfterPrologue:
    return _compiled_after_prologue(recipe, totals.release_as_float32(prologue))


def _finish_round(
    recipe: Recipe, release: Releases, public: Public, state: RoundState
) -> steps.LearnedRound:
    return _compiled_finish_round(recipe, totals.release_as_float32(release), public, state)


def _score_line(recipe: Recipe, prologue: Releases, epilogue: Releases) -> steps.ScoreLine:
    once = (totals.release_as_float32(release) for release in (prologue, epilogue))
    return _compiled_score_line(recipe, *once)


_COMPILED_STEPS = PublicSteps(
    after_prologue=_after_prologue,
    begin_round=compilation.jit_with_bounded_cache()(steps.begin_round),
    finish_round=_finish_round,
    score_line=_score_line,
    model_hypotheses=compilation.jit_with_bounded_cache()(steps.model_hypotheses),
)


@dataclasses.dataclass(kw_only=True)
class _BlockExecutor:
    """The executor of a run over blocks (`run.Executor`), and what it has released.

    Attributes:
        recipe: one setting.
        passes: over the rows, with their scores.
        checkpoint: keeps releases, if there is one.
        num_kept_rounds: how many rounds the checkpoints of all processes have.
        small: whether its sums have 32 bits.
        noise_keys: the keys of the noise of each phase.
        structure_keys: the keys of the public structure of each phase.
        dummy: one absent row.
        rounds_of_pass: how many rounds share a pass.
        report: is told of the progress.
        public_steps: each compiled by itself.
        once: name of a prologue or an epilogue -> its release.
        of_rounds: the releases of the rounds so far.
        ready: what a pass released of rounds that have not begun yet.
        pending: (structure, hypothesis) of rounds that the scores do not have yet.
    """

    recipe: Recipe
    passes: Passes
    checkpoint: Checkpoint | None
    num_kept_rounds: int
    small: bool
    noise_keys: PhaseValues
    structure_keys: PhaseValues
    dummy: Table
    rounds_of_pass: int
    report: ReportProgress
    public_steps: PublicSteps = _COMPILED_STEPS
    once: dict[str, Releases] = dataclasses.field(default_factory=dict)
    of_rounds: list[Releases] = dataclasses.field(default_factory=list)
    ready: list[tuple[Releases, Array]] = dataclasses.field(default_factory=list)
    pending: list[Any] = dataclasses.field(default_factory=list)

    __repr__ = redacted_repr

    def release_once(self, phase: Phase, context: PhaseContext) -> Any:
        """The release of a prologue or of an epilogue."""
        self.report(Progress(phase.name, 0, 1))
        kept = self._kept_release(phase.name, phase)
        if not processes.min_over_processes(kept is not None):  # then all draw it again
            kept = None
        release, _ = kept or self._release(phase, [context])[0]
        self.report(Progress(phase.name, 1, 1))
        self.once[phase.name] = release
        return release

    def start_scores(self, initial_score: Array) -> None:
        """Let the score of every row be the initial one, if scores are read."""
        if not self.recipe.independent:
            self.passes.start(initial_score)

    def run_rounds(self, public: Public, state: RoundState) -> tuple[RoundState, Hypotheses]:
        """Run all rounds, some of them in one pass where they do not wait for each other."""
        recipe, rounds, hypotheses = self.recipe, int(self.recipe.rounds), []

        def release_round(context: PhaseContext) -> RoundRelease:
            if not self.ready:
                self.ready = self._next_releases(public, state.bound, context)
            release, cap = self.ready.pop(0)
            self.of_rounds.append(release)
            public_of_round = context.public._replace(cap=cap)
            return RoundRelease(release, public_of_round, kept=public_of_round.structure)

        for number in range(rounds):
            outcome = round_step(
                recipe,
                public,
                state,
                jnp.int32(number),
                release_round,
                public_steps=self.public_steps,
            )
            state = outcome.state
            hypotheses.append(outcome.hypothesis)
            if not recipe.independent:
                self.pending.append((outcome.kept, outcome.hypothesis))
        self.report(Progress("rounds", rounds, rounds))
        stacked = _stack_on_host(hypotheses)
        return state, jax.tree.map(lambda array: jnp.asarray(self._padded(array)), stacked)

    def fitted(self, learned: LearnedModel) -> FittedParts:
        """What is in the model, with zeros for the rounds that the recipe has room for besides."""
        rounds = jax.tree.map(self._padded, _stack_on_host(self.of_rounds))
        releases = self.once.get("prologue", {}), rounds, self.once.get("epilogue", {})
        # Releases of 64 bits stay with NumPy.
        releases = jax.tree.map(
            lambda array: array if array.dtype == np.int64 else jnp.asarray(array), releases
        )
        return fitted_parts(releases, learned.hypotheses, learned.line.intercept, self.recipe)

    def _padded(self, array: np.ndarray) -> np.ndarray:
        """The values of the rounds, and zeros up to the capacity."""
        missing = self.recipe.capacity - len(array)
        return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

    def _next_releases(
        self, public: Public, bound: Array, context: PhaseContext
    ) -> list[tuple[Releases, Array]]:
        """(release, cap) of the round that begins, and of those that share its pass."""
        recipe, first, rounds = self.recipe, len(self.of_rounds), int(self.recipe.rounds)
        if first < self.num_kept_rounds:
            kept = self._kept_release(str(first), recipe.learner.round)
            if kept is not None:
                return [kept]
        self.report(Progress("rounds", first, rounds))
        later = range(first + 1, min(first + self.rounds_of_pass, rounds))
        contexts = [
            self.public_steps.begin_round(recipe, public, bound, jnp.int32(number), None)
            for number in later
        ]
        return self._release(recipe.learner.round, [context, *contexts])

    def _release(self, phase: Phase, contexts: list[PhaseContext]) -> list[tuple[Releases, Array]]:
        """(release, cap) of some rounds that share a pass, or of what takes place once.

        Each stage has a pass over the rows. What one draw asks for may follow from the draws before
        it. Zeros stand for those after it, so that one compiled program serves all stages.
        """
        recipe, first = self.recipe, contexts[0]
        cap: Any = None
        noise = [_key_of_phase(self.noise_keys, phase, context) for context in contexts]
        released: list[Releases] = [{} for _ in contexts]
        for release, context in zip(released, contexts, strict=True):
            public_key = _key_of_phase(self.structure_keys, phase, context)
            if public_key is not None:
                draws = _public_draws(phase, recipe, self.dummy, context, public_key)
                release |= {site: np.asarray(array) for site, array in draws.items()}

        zeros = self._zeros(phase)
        numbers, structures = _stack_on_host(
            [(context.public.round, context.public.structure) for context in contexts]
        )
        public = first.public._replace(round=numbers, structure=structures)
        pending = self._take_pending(phase, first)
        for stage in pass_stages(recipe, phase):
            sites = _stack_on_host([totals.release_as_float32(release) for release in released])
            batch = Batch(PhaseContext(public, first.bound), sites, pending)
            sums, cap = self.passes.sums(phase, batch, jnp.stack(noise), stage)
            pending = None  # the scores have it now
            for place, (release, context) in enumerate(zip(released, contexts, strict=True)):
                for site in stage:
                    earlier_release = {**zeros, **totals.release_as_float32(release)}
                    specs = _draw_specs(phase, recipe, self.dummy, context, earlier_release)
                    sum_of_round = jax.tree.map(lambda array, k=place: array[k], sums[site])
                    release |= totals.draw_from_sums(
                        noise[place], {site: sum_of_round}, specs, small=self.small
                    )
        for release, context in zip(released, contexts, strict=True):
            if self.checkpoint is not None:
                name = str(int(context.public.round)) if phase.repeats else phase.name
                self.checkpoint.add(name, release, float(cap))
        return [(release, cap) for release in released]

    def _take_pending(self, phase: Phase, context: PhaseContext) -> Any:
        """What the scores do not have yet, and will have now; zeros before the first round."""
        if isinstance(phase, Prologue) or self.recipe.independent:
            return None
        pending, self.pending = self.pending, []
        if not pending:
            shapes = jax.eval_shape(absent_row.first_hypothesis_shapes, self.recipe)
            zeros = jax.tree.map(jnp.zeros_like, shapes)
            pending = [(context.public.structure, zeros)]
        return _stack_on_host(pending)

    def _zeros(self, phase: Phase) -> Release:
        """Zeros in place of the release of a phase, as post-processing reads it."""

        def zeros(spec: boundary.DrawSpec) -> Array:
            noisy = spec.mechanism.price.reads_rows and not spec.mechanism.selects
            wide = noisy and not self.small
            return jnp.zeros(spec.output.shape, jnp.float32 if wide else spec.output.dtype)

        return {spec.site: zeros(spec) for spec in draw_specs_of_phase(self.recipe, phase)}

    def _kept_release(self, name: str, phase: Phase) -> tuple[Releases, Array] | None:
        """What the checkpoint has of a phase of the run, by its name there.

        Raises:
            ValueError: if it is not what the phase draws.
        """
        kept = None if self.checkpoint is None else self.checkpoint.get(name)
        if self.checkpoint is None or kept is None:
            return None
        release, cap = kept
        specs = draw_specs_of_phase(self.recipe, phase)
        drawn = {spec.site: spec.output for spec in specs if not spec.for_places}
        alike = release.keys() == drawn.keys() and all(
            array.shape == drawn[site].shape and array.dtype in (drawn[site].dtype, np.int64)
            for site, array in release.items()
        )
        if not alike or not 0 < cap < np.inf:
            raise ValueError(f"{self.checkpoint.path}: a release was changed or damaged; {AGAIN}")
        return release, jnp.asarray(cap)


def _key_of_phase(keys_of_run: PhaseValues, phase: Phase, context: PhaseContext) -> Any:
    """The key of a phase of a run; of a round it is that of its number."""
    key = keys_of_run.of_phase(phase)
    return key[int(context.public.round)] if phase.repeats and key is not None else key


def _stack_on_host(arrays: list[Any]) -> Any:
    """Pytrees of arrays with a leading axis for rounds, on the host, where it costs no program."""
    return jax.tree.map(lambda *each: np.stack([np.asarray(array) for array in each]), *arrays)
