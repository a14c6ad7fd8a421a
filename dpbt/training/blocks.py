"""Learning from a table in blocks, which may be larger than memory.

Each round has a pass over the blocks for each of its stages (`passes`), a draw from the sums over
all rows (`privacy.draws_from_sums`), and the public steps of a round in memory (`steps`). Rounds
that do not wait for each other share a pass. So the releases are those of the same rows in memory.

With several processes (`jax.distributed`) each has a folder of its own, and their rows are one
table, in the order of the processes. A process sends its sums to the others (`processes`). All draw
the same noise under the same key, and all end with the same model.
"""

import contextlib
import dataclasses
import hashlib
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common import compilation
from dpbt.common.progress import Progress, ReportProgress
from dpbt.common.validate import as_path, check_interval
from dpbt.data.blocks import BlockTable
from dpbt.models.model import FittedParts
from dpbt.privacy import boundary, draws_from_sums
from dpbt.privacy.draw_dependencies import draw_specs_of_phase, priced_draws_of_phase
from dpbt.privacy.pass_stages import check_can_run_in_blocks, stages_of_phase
from dpbt.privacy.phase_views import PhaseContext
from dpbt.privacy.price_comparison import PricedDraws
from dpbt.public_types import redacted_repr
from dpbt.training import absent_row, checks, processes, run_keys, steps
from dpbt.training.checkpoint import (
    AGAIN,
    CappedRelease,
    Checkpoint,
    Releases,
    recipe_digest,
    salted_key_digest,
)
from dpbt.training.fit_options import FitOptions
from dpbt.training.passes import Passes, PendingRound, RoundsOfPass, plan_memory
from dpbt.training.phases import (
    LearnedModel,
    PhaseValues,
    PublicSteps,
    RoundRelease,
    fitted_parts,
    round_step,
    run_phases,
)
from dpbt.training.steps import RoundState
from dpbt.training.table_entry import without_domain
from dpbt.types import (
    MAX_ROWS,
    Array,
    Hypotheses,
    Phase,
    Prologue,
    Public,
    Recipe,
    Release,
    Site,
    Table,
)


def fit_in_blocks(
    *,
    key: Array,
    table: BlockTable,
    recipe: Recipe,
    public_key: Array | None,
    options: FitOptions,
) -> FittedParts:
    """Run a recipe on a table in blocks, and return the fitted parts of its model.

    A payment that is refused leaves no checkpoint behind that was not there before.

    Args:
        key: one typed key, as `fit` takes it.
        table: of this process.
        recipe: of the run, without an axis of settings.
        public_key: one typed key, if the recipe draws public structure.
        options: how the fit runs.

    Raises:
        ValueError: for arguments that `check_fit_in_blocks` refuses, for too little memory or too
            many rows, for a damaged block, for a checkpoint of another run, and for what `pay`
            refuses.
        OSError: if a file cannot be read or written.
    """
    check_fit_in_blocks(key=key, table=table, recipe=recipe, public_key=public_key)
    public_key = checks.checked_public_key(key, recipe, public_key)
    place = processes.place_among_processes(
        num_present=_num_present(table), capacity=table.capacity
    )
    checks.check_rows(recipe, num_present=place.total_present, capacity=place.total_capacity)
    recipe = without_domain(recipe)  # so that domains share programs
    memory = float(check_interval("memory", options.memory, "(0, inf)"))
    plan = plan_memory(table, recipe, memory=memory, threads=options.num_threads)
    report = options.report_progress

    with contextlib.ExitStack() as stack:
        run_file = options.checkpoint
        if run_file is not None and not isinstance(run_file, Checkpoint):
            run_file = stack.enter_context(Checkpoint(as_path("checkpoint", run_file)))
        if run_file is not None:
            identities = processes.gather_digests(table.identity)
            run_file.begin(key, recipe, identities, jax.process_index(), public_key)
        try:
            passes = stack.enter_context(Passes(table, recipe, plan, place.first_row))
            for num_verified in passes.verify_blocks():
                report(Progress("checking", num_verified, len(table.blocks)))
            if options.pay is not None:
                options.pay(None if run_file is None else run_file.run)
        except ValueError:
            if run_file is not None:
                run_file.give_up()
            raise
        recipe_key = run_keys.derive_recipe_key(key, recipe)
        num_kept_rounds = 0 if run_file is None else run_file.num_rounds
        executor = _BlockExecutor(
            recipe=recipe,
            passes=passes,
            checkpoint=run_file,
            num_kept_rounds=processes.min_over_processes(num_kept_rounds),
            has_small_sums=place.total_capacity <= MAX_ROWS,
            noise_keys=run_keys.phase_keys(recipe_key, recipe),
            structure_keys=run_keys.phase_keys(public_key, recipe),
            absent_row_table=without_domain(absent_row.absent_row_like(table)),
            max_rounds_of_pass=plan.max_rounds_of_pass,
            report=report,
        )
        return executor.fitted_parts(run_phases(recipe, executor))


def check_fit_in_blocks(
    *, key: Array, table: BlockTable, recipe: Recipe, public_key: Array | None = None
) -> None:
    """Refuse what a run in blocks cannot take, before a row is read.

    Args:
        key: one typed key.
        table: of this process.
        recipe: of the run, without an axis of settings.
        public_key: another typed key, or None.

    Raises:
        ValueError: for what `checks.check_run`, `checks.checked_public_key` and
            `checks.check_declared_independence_of_scores` refuse, for a recipe that reads all rows
            at once, and for processes that do not run one recipe under one key on tables of their
            own.
    """
    checks.check_run(absent_row.absent_row_like(table), recipe)
    try:
        check_can_run_in_blocks(recipe)
    except ValueError as error:
        raise ValueError(
            f"{recipe.name} of the {recipe.calibration} calibration reads all rows at once, and "
            f"learns from no blocks, as recipes.auto does: {error}"
        ) from None
    public_key = checks.checked_public_key(key, recipe, public_key)
    checks.check_declared_independence_of_scores(recipe)
    if jax.process_count() > 1:
        _check_same_run_on_processes(key, table, recipe, public_key)
        _check_different_tables_on_processes(table)


def _num_present(table: BlockTable) -> int:
    """How many rows of a table are present; private."""
    return sum(block.present for block in table.blocks)


def _check_same_run_on_processes(
    key: Array, table: BlockTable, recipe: Recipe, public_key: Array | None
) -> None:
    """Refuse processes that do not run one recipe with one key on tables of one declaration."""
    if table.rows_per_user is not None:
        raise ValueError(
            "a limit on rows of a user holds within one folder: learn in one process from a "
            "folder that has all rows"
        )
    digests = {
        "recipe": recipe_digest(recipe),
        "key": salted_key_digest(key, recipe.name),
        "public_key": salted_key_digest(public_key, recipe.name),
        "table": hashlib.sha256(table.declarations_text.encode()).hexdigest(),
    }
    for name, digest in digests.items():
        if len(set(processes.gather_digests(digest))) > 1:  # on every process
            raise ValueError(f"the processes have different values of {name}; give the same")


def _check_different_tables_on_processes(table: BlockTable) -> None:
    """Refuse two processes that have one table."""
    identity = table.identity
    if not _num_present(table):  # such folders may be alike
        identity = hashlib.sha256(os.fsencode(table.folder.resolve())).hexdigest()
    identities = processes.gather_digests(identity)
    if len(set(identities)) < len(identities):
        raise ValueError("two processes were given the same table; give each its own rows")


# The public steps, each of which is compiled once for a recipe. They read releases of 32 bits.


_compiled_after_prologue = compilation.jit_with_bounded_cache()(steps.after_prologue)
_compiled_finish_round = compilation.jit_with_bounded_cache()(steps.finish_round)
_compiled_score_line = compilation.jit_with_bounded_cache()(steps.score_line)


@compilation.jit_with_bounded_cache(static_argnames=("phase", "priced"))
def _draw_specs(
    phase: Phase,
    recipe: Recipe,
    absent_row_table: Table,
    context: PhaseContext,
    earlier_release: Release,
    priced: PricedDraws,
) -> dict[Site, boundary.DrawSpec]:
    """`absent_row.draw_specs_given_release`; `priced` is in the key of the compiled program."""
    del priced
    return absent_row.draw_specs_given_release(
        phase, recipe, absent_row_table, context, earlier_release
    )


_public_draws = compilation.jit_with_bounded_cache(static_argnames=("phase",))(
    absent_row.public_draws
)


def _after_prologue(recipe: Recipe, prologue: Releases) -> steps.AfterPrologue:
    return _compiled_after_prologue(
        recipe, draws_from_sums.round_int64_release_to_float32(prologue)
    )


def _finish_round(
    recipe: Recipe, release: Releases, public: Public, state: RoundState
) -> steps.LearnedRound:
    return _compiled_finish_round(
        recipe, draws_from_sums.round_int64_release_to_float32(release), public, state
    )


def _score_line(recipe: Recipe, prologue: Releases, epilogue: Releases) -> steps.ScoreLine:
    return _compiled_score_line(
        recipe,
        draws_from_sums.round_int64_release_to_float32(prologue),
        draws_from_sums.round_int64_release_to_float32(epilogue),
    )


_COMPILED_STEPS = PublicSteps(
    after_prologue=_after_prologue,
    begin_round=compilation.jit_with_bounded_cache()(steps.begin_round),
    finish_round=_finish_round,
    score_line=_score_line,
    model_hypotheses=compilation.jit_with_bounded_cache()(steps.model_hypotheses),
)


class _RoundOfPass(NamedTuple):
    """A round that a pass over the rows serves; a prologue or an epilogue counts as one, too.

    Attributes:
        context: what is public when it begins.
        noise_key: the key of its noise.
        public_draws: what the public key draws in it.
    """

    context: PhaseContext
    noise_key: Array
    public_draws: Releases


@dataclasses.dataclass(kw_only=True)
class _BlockExecutor:
    """The executor of a run over blocks (`phases.Executor`), and what it has released.

    Attributes:
        recipe: of the run, without an axis of settings.
        passes: the passes over the rows, which hold their scores.
        checkpoint: the checkpoint that keeps releases; None without one.
        num_kept_rounds: how many of the first rounds the checkpoints of all processes have.
        has_small_sums: whether its sums have 32 bits.
        noise_keys: the keys of the noise of each phase.
        structure_keys: the keys of the public structure of each phase.
        absent_row_table: one absent row.
        max_rounds_of_pass: how many rounds may share a pass.
        report: the function that is called with the progress of the run.
        public_steps: the functions of `training.steps`, each compiled by itself.
        phase_releases: name of a prologue or an epilogue -> its release.
        round_releases: the releases of the rounds so far.
        ready: the releases of rounds that have not begun yet.
        pending: the rounds whose hypotheses the scores do not have yet.
    """

    recipe: Recipe
    passes: Passes
    checkpoint: Checkpoint | None
    num_kept_rounds: int
    has_small_sums: bool
    noise_keys: PhaseValues
    structure_keys: PhaseValues
    absent_row_table: Table
    max_rounds_of_pass: int
    report: ReportProgress
    public_steps: PublicSteps = _COMPILED_STEPS
    phase_releases: dict[str, Releases] = dataclasses.field(default_factory=dict)
    round_releases: list[Releases] = dataclasses.field(default_factory=list)
    ready: list[CappedRelease] = dataclasses.field(default_factory=list)
    pending: list[PendingRound] = dataclasses.field(default_factory=list)

    __repr__ = redacted_repr

    # The executor.

    def release_once(self, phase: Phase, context: PhaseContext) -> Any:
        """The release of a prologue or of an epilogue."""
        self.report(Progress(phase.name, 0, 1))
        capped = self._release_in_checkpoint(phase.name, phase)
        if not processes.min_over_processes(capped is not None):  # then all draw it again
            capped = None
        if capped is None:
            (capped,) = self._release_in_passes(phase, [context])
        self.report(Progress(phase.name, 1, 1))
        self.phase_releases[phase.name] = capped.release
        return capped.release

    def set_initial_scores(self, initial_score: Array) -> None:
        """Let the score of every row be the initial one, if scores are read."""
        if not self.recipe.has_independent_rounds:
            self.passes.set_initial_scores(initial_score)

    def run_rounds(self, public: Public, state: RoundState) -> tuple[RoundState, Hypotheses]:
        """Run all rounds, some of them in one pass where they do not wait for each other."""
        recipe, num_rounds, hypotheses = self.recipe, int(self.recipe.rounds), []

        def release_round(context: PhaseContext) -> RoundRelease:
            if not self.ready:
                self.ready = self._next_releases(public, state.bound, context)
            release, cap = self.ready.pop(0)
            self.round_releases.append(release)
            public_of_round = context.public._replace(cap=cap)
            return RoundRelease(release, public_of_round, kept=public_of_round.structure)

        for number in range(num_rounds):
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
            if not recipe.has_independent_rounds:
                self.pending.append(PendingRound(outcome.kept, outcome.hypothesis))
        self.report(Progress("rounds", num_rounds, num_rounds))
        stacked = _stack_on_host(hypotheses)
        return state, jax.tree.map(lambda array: jnp.asarray(self._pad_rounds(array)), stacked)

    def fitted_parts(self, learned: LearnedModel) -> FittedParts:
        """The parts of the model, padded with zeros up to the `max_rounds` of the recipe."""
        rounds = jax.tree.map(self._pad_rounds, _stack_on_host(self.round_releases))
        prologue, epilogue = (self.phase_releases.get(n, {}) for n in ("prologue", "epilogue"))
        # Releases of 64 bits stay with NumPy.
        releases = jax.tree.map(
            lambda array: array if array.dtype == np.int64 else jnp.asarray(array),
            (prologue, rounds, epilogue),
        )
        return fitted_parts(releases, learned.hypotheses, learned.line.intercept, self.recipe)

    def _pad_rounds(self, array: np.ndarray) -> np.ndarray:
        """The values of the rounds, and zeros up to `max_rounds`."""
        missing = self.recipe.max_rounds - len(array)
        return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

    # Releases.

    def _next_releases(
        self, public: Public, bound: Array, context: PhaseContext
    ) -> list[CappedRelease]:
        """The release of the round that begins, and those of rounds that share its pass."""
        recipe, first, num_rounds = self.recipe, len(self.round_releases), int(self.recipe.rounds)
        if first < self.num_kept_rounds:
            capped = self._release_in_checkpoint(str(first), recipe.learner.round)
            if capped is not None:
                return [capped]
        self.report(Progress("rounds", first, num_rounds))
        later_rounds = range(first + 1, min(first + self.max_rounds_of_pass, num_rounds))
        later_contexts = [
            self.public_steps.begin_round(recipe, public, bound, jnp.int32(number), None)
            for number in later_rounds
        ]
        return self._release_in_passes(recipe.learner.round, [context, *later_contexts])

    def _release_in_passes(self, phase: Phase, contexts: list[PhaseContext]) -> list[CappedRelease]:
        """The releases of rounds that share their passes, or of a prologue or an epilogue.

        Each stage of the phase has a pass over the rows. The checkpoint has the releases before the
        run goes on.
        """
        rounds_of_pass = [self._keys_and_public_draws(phase, context) for context in contexts]
        releases = [dict(round_of_pass.public_draws) for round_of_pass in rounds_of_pass]
        context_of_pass = _stack_contexts(contexts)
        noise_keys = jnp.stack([round_of_pass.noise_key for round_of_pass in rounds_of_pass])
        stages, cap = stages_of_phase(self.recipe, phase), contexts[0].public.cap
        pending = self._take_pending_rounds(phase, contexts[0]) if stages else None
        for stage in stages:
            earlier = _stack_on_host(
                [draws_from_sums.round_int64_release_to_float32(release) for release in releases]
            )
            public_rounds = RoundsOfPass(context_of_pass, earlier, pending)
            sums, cap = self.passes.sum_over_rows(phase, stage, public_rounds, noise_keys)
            pending = None  # the scores have it now
            pairs = zip(rounds_of_pass, releases, strict=True)
            for place, (round_of_pass, release) in enumerate(pairs):
                sums_of_round = jax.tree.map(lambda array, place=place: array[place], sums)
                self._draw_stage(phase, round_of_pass, stage, sums_of_round, into=release)
        capped_releases = [CappedRelease(release, cap) for release in releases]
        self._add_to_checkpoint(phase, contexts, capped_releases)
        return capped_releases

    def _keys_and_public_draws(self, phase: Phase, context: PhaseContext) -> _RoundOfPass:
        """The keys of a round, and its public draws."""
        noise_key = _key_of_phase(self.noise_keys, phase, context)
        public_key = _key_of_phase(self.structure_keys, phase, context)
        if public_key is None:
            return _RoundOfPass(context, noise_key, {})
        draws = _public_draws(phase, self.recipe, self.absent_row_table, context, public_key)
        return _RoundOfPass(
            context, noise_key, {site: np.asarray(array) for site, array in draws.items()}
        )

    def _draw_stage(
        self,
        phase: Phase,
        round_of_pass: _RoundOfPass,
        stage: tuple[Site, ...],
        sums: draws_from_sums.Totals,
        *,
        into: Releases,
    ) -> None:
        """Draw the sites of a stage from the sums over all rows, and add them to a release.

        What one draw asks for may follow from the draws before it. Zeros stand for those after it,
        so that one compiled program serves all stages.
        """
        zeros, priced = (
            self._zero_release_of_phase(phase),
            priced_draws_of_phase(self.recipe, phase),
        )
        for site in stage:
            specs = _draw_specs(
                phase,
                self.recipe,
                self.absent_row_table,
                round_of_pass.context,
                {**zeros, **draws_from_sums.round_int64_release_to_float32(into)},
                priced=priced,
            )
            into |= draws_from_sums.draw_from_sums(
                round_of_pass.noise_key,
                {site: sums[site]},
                specs,
                has_small_sums=self.has_small_sums,
            )

    def _zero_release_of_phase(self, phase: Phase) -> Release:
        """Zeros in place of the release of a phase, in the dtypes that post-processing reads."""

        def zeros_of_draw(spec: boundary.DrawSpec) -> Array:
            is_sum = spec.mechanism.price.reads_rows and not spec.mechanism.is_selection
            is_float32 = is_sum and not self.has_small_sums
            return jnp.zeros(spec.output.shape, jnp.float32 if is_float32 else spec.output.dtype)

        specs = draw_specs_of_phase(self.recipe, phase)
        return {spec.site: zeros_of_draw(spec) for spec in specs}

    def _take_pending_rounds(self, phase: Phase, context: PhaseContext) -> PendingRound | None:
        """The rounds that the scores will have now, stacked; zeros before the first round."""
        if isinstance(phase, Prologue) or self.recipe.has_independent_rounds:
            return None
        pending, self.pending = self.pending, []
        if not pending:
            shapes = jax.eval_shape(absent_row.first_hypothesis_shapes, self.recipe)
            zeros = jax.tree.map(jnp.zeros_like, shapes)
            pending = [PendingRound(context.public.structure, zeros)]
        return _stack_on_host(pending)

    # The checkpoint.

    def _release_in_checkpoint(self, name: str, phase: Phase) -> CappedRelease | None:
        """The release that the checkpoint holds under a name; None if it holds none.

        Raises:
            ValueError: if it is not what the phase draws.
        """
        if self.checkpoint is None or (entry := self.checkpoint.recorded_release(name)) is None:
            return None
        release, cap = entry
        specs = draw_specs_of_phase(self.recipe, phase)
        outputs = {spec.site: spec.output for spec in specs if not spec.has_output_per_row_index}
        has_outputs = release.keys() == outputs.keys() and all(
            array.shape == outputs[site].shape and array.dtype in (outputs[site].dtype, np.int64)
            for site, array in release.items()
        )
        if not has_outputs or not 0 < cap < np.inf:
            raise ValueError(f"{self.checkpoint.path}: a release was changed or damaged; {AGAIN}")
        return CappedRelease(release, jnp.asarray(cap))

    def _add_to_checkpoint(
        self, phase: Phase, contexts: list[PhaseContext], capped_releases: list[CappedRelease]
    ) -> None:
        """Put the releases of a phase on the disk, if there is a checkpoint."""
        if self.checkpoint is None:
            return
        for context, (release, cap) in zip(contexts, capped_releases, strict=True):
            name = str(int(context.public.round)) if phase.repeats else phase.name
            self.checkpoint.add_release(name, release, float(cap))


def _key_of_phase(keys_of_run: PhaseValues, phase: Phase, context: PhaseContext) -> Any:
    """The key of a phase of a run; each round has a key of its own, by its number."""
    key = keys_of_run.of_phase(phase)
    return key[int(context.public.round)] if phase.repeats and key is not None else key


def _stack_contexts(contexts: list[PhaseContext]) -> PhaseContext:
    """The context of rounds of one pass: their numbers and structures get a leading axis."""
    first = contexts[0]
    numbers, structures = _stack_on_host(
        [(context.public.round, context.public.structure) for context in contexts]
    )
    return first._replace(public=first.public._replace(round=numbers, structure=structures))


def _stack_on_host(arrays: list[Any]) -> Any:
    """Pytrees of arrays with a leading axis for rounds, on the host, where it costs no program."""
    return jax.tree.map(lambda *each: np.stack([np.asarray(array) for array in each]), *arrays)
