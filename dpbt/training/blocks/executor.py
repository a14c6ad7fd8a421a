"""The executor of a run over blocks: passes over the rows, draws from their sums, and releases.

`training.phases` calls it, as it calls the executor of a run in memory.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common import compilation
from dpbt.common.progress import Progress, ReportProgress
from dpbt.models.model import FittedParts
from dpbt.privacy import draws_from_sums
from dpbt.privacy.draw_dependencies import draw_specs_of_phase, priced_draws_of_phase
from dpbt.privacy.pass_stages import stages_of_phase
from dpbt.privacy.phase_views import PhaseContext
from dpbt.public_types import redacted_repr
from dpbt.training import steps
from dpbt.training.blocks import absent_row, processes
from dpbt.training.blocks.checkpoint import (
    DAMAGE_REMEDY,
    CappedRelease,
    Checkpoint,
    Releases,
)
from dpbt.training.blocks.passes import Passes, RoundsOfPass, UnscoredRound
from dpbt.training.phases import (
    LearnedModel,
    PhaseValues,
    PublicSteps,
    RoundRelease,
    fitted_parts_without_withheld_sites,
    round_step,
)
from dpbt.training.steps import RoundState
from dpbt.types import (
    Array,
    Hypotheses,
    Phase,
    Prologue,
    Public,
    Recipe,
    ScoreLine,
    Site,
    Table,
)

# The public steps, each of which is compiled once for a recipe. They read releases of 32 bits.


_compiled_finish_prologue = compilation.jit_with_bounded_cache()(steps.finish_prologue)
_compiled_finish_round = compilation.jit_with_bounded_cache()(steps.finish_round)
_compiled_score_line = compilation.jit_with_bounded_cache()(steps.score_line)


_compiled_draw_specs = compilation.jit_with_bounded_cache(
    static_argnames=("phase",), cache_key_argnames=("priced",)
)(absent_row.draw_specs_given_release)
_compiled_public_draws = compilation.jit_with_bounded_cache(static_argnames=("phase",))(
    absent_row.sample_public_draws
)


def _finish_prologue_of_rounded_sums(recipe: Recipe, prologue: Releases) -> steps.AfterPrologue:
    """Finish a prologue by a compiled program, with its 64-bit sums rounded to float32."""
    return _compiled_finish_prologue(
        recipe, draws_from_sums.round_int64_release_to_float32(prologue)
    )


def _finish_round_of_rounded_sums(
    recipe: Recipe, release: Releases, public: Public, state: RoundState
) -> steps.LearnedRound:
    """Finish a round by a compiled program, with 64-bit sums of its release rounded to float32."""
    return _compiled_finish_round(
        recipe, draws_from_sums.round_int64_release_to_float32(release), public, state
    )


def _score_line_of_rounded_sums(
    recipe: Recipe, prologue: Releases, epilogue: Releases
) -> ScoreLine:
    """Compute the score line by a compiled program, with 64-bit sums rounded to float32."""
    return _compiled_score_line(
        recipe,
        draws_from_sums.round_int64_release_to_float32(prologue),
        draws_from_sums.round_int64_release_to_float32(epilogue),
    )


_COMPILED_STEPS = PublicSteps(
    finish_prologue=_finish_prologue_of_rounded_sums,
    begin_round=compilation.jit_with_bounded_cache()(steps.begin_round),
    finish_round=_finish_round_of_rounded_sums,
    score_line=_score_line_of_rounded_sums,
    merge_and_scale_hypotheses=compilation.jit_with_bounded_cache()(
        steps.merge_and_scale_hypotheses
    ),
)


class _RoundOfPass(NamedTuple):
    """A round that a pass over the rows serves, with its keys and public draws.

    A prologue or an epilogue counts as a round, too.

    Attributes:
        context: what is public when it begins.
        noise_key: the key of its noise.
        public_draws: what the public key draws in it.
    """

    context: PhaseContext
    noise_key: Array
    public_draws: Releases


@dataclasses.dataclass(kw_only=True)
class BlockExecutor:
    """The executor of a run over a table in blocks, and what the run has released so far.

    It is a `phases.Executor`.

    Attributes:
        recipe: of the run, without an axis of settings.
        passes: the passes over the rows, which hold their scores.
        checkpoint: the checkpoint that keeps releases; None without one.
        num_recorded_rounds: how many of the first rounds the checkpoints of all processes have the
            releases of.
        has_small_sums: whether its sums have 32 bits.
        noise_keys: the keys of the noise of each phase.
        structure_keys: the keys of the public structure of each phase.
        absent_row_table: one absent row.
        max_rounds_of_pass: how many rounds may share a pass.
        report: the function that is called with the progress of the run.
        public_steps: the functions of `training.steps`, each compiled by itself.
        phase_releases: name of a prologue or an epilogue -> its release.
        round_releases: the releases of the rounds so far.
        ready_releases: the releases of rounds that have not begun yet.
        unscored_rounds: the rounds whose hypotheses the scores do not have yet.
    """

    recipe: Recipe
    passes: Passes
    checkpoint: Checkpoint | None
    num_recorded_rounds: int
    has_small_sums: bool
    noise_keys: PhaseValues
    structure_keys: PhaseValues
    absent_row_table: Table
    max_rounds_of_pass: int
    report: ReportProgress
    public_steps: PublicSteps = _COMPILED_STEPS
    phase_releases: dict[str, Releases] = dataclasses.field(default_factory=dict)
    round_releases: list[Releases] = dataclasses.field(default_factory=list)
    ready_releases: list[CappedRelease] = dataclasses.field(default_factory=list)
    unscored_rounds: list[UnscoredRound] = dataclasses.field(default_factory=list)

    __repr__ = redacted_repr

    # The executor.

    def release_prologue_or_epilogue(self, phase: Phase, context: PhaseContext) -> Any:
        """Release a prologue or an epilogue, from the checkpoint or by passes over the rows."""
        self.report(Progress(phase.name, 0, 1))
        capped = self._checked_release_of_checkpoint(phase.name, phase)
        if not processes.min_over_processes(capped is not None):  # then all draw it again
            capped = None
        if capped is None:
            (capped,) = self._release_in_shared_passes(phase, [context])
        self.report(Progress(phase.name, 1, 1))
        self.phase_releases[phase.name] = capped.release
        return capped.release

    def set_initial_scores(self, initial_score: Array) -> None:
        """Set the score of every row to the initial one, if scores are read."""
        if not self.recipe.has_independent_rounds:
            self.passes.set_initial_scores(initial_score)

    def run_rounds(self, public: Public, state: RoundState) -> tuple[RoundState, Hypotheses]:
        """Run all rounds, and return the last state and the hypotheses of all rounds.

        Rounds that do not wait for each other share passes.
        """
        recipe = self.recipe
        num_rounds = int(recipe.rounds)
        hypotheses: list[Any] = []

        def release_round(context: PhaseContext) -> RoundRelease:
            if not self.ready_releases:
                self.ready_releases = self._releases_of_next_pass(public, state.bound, context)
            release, cap = self.ready_releases.pop(0)
            self.round_releases.append(release)
            public_of_round = context.public._replace(cap=cap)
            return RoundRelease(
                release=release,
                public=public_of_round,
                executor_data=public_of_round.structure,
            )

        for round_index in range(num_rounds):
            outcome = round_step(
                recipe,
                public=public,
                state=state,
                round_index=jnp.int32(round_index),
                release_round=release_round,
                public_steps=self.public_steps,
            )
            state = outcome.state
            hypotheses.append(outcome.hypothesis)
            if not recipe.has_independent_rounds:
                self.unscored_rounds.append(
                    UnscoredRound(outcome.executor_data, outcome.hypothesis)
                )
        self.report(Progress("rounds", num_rounds, num_rounds))
        stacked = _stack_pytrees_on_host(hypotheses)
        return state, jax.tree.map(lambda array: jnp.asarray(self._pad_rounds(array)), stacked)

    def fitted_parts(self, learned: LearnedModel) -> FittedParts:
        """The parts of the model, padded with zeros up to the `max_rounds` of the recipe."""
        releases = PhaseValues(
            prologue=self.phase_releases.get("prologue", {}),
            rounds=jax.tree.map(self._pad_rounds, _stack_pytrees_on_host(self.round_releases)),
            epilogue=self.phase_releases.get("epilogue", {}),
        )
        # Releases of 64 bits stay with NumPy.
        releases = jax.tree.map(
            lambda array: array if array.dtype == np.int64 else jnp.asarray(array), releases
        )
        return fitted_parts_without_withheld_sites(
            self.recipe,
            releases=releases,
            hypotheses=learned.hypotheses,
            intercept=learned.line.intercept,
        )

    def _pad_rounds(self, array: np.ndarray) -> np.ndarray:
        """Pad an array of the rounds with zeros up to `max_rounds`."""
        missing = self.recipe.max_rounds - len(array)
        return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

    # Releases.

    def _releases_of_next_pass(
        self, public: Public, bound: Array, context: PhaseContext
    ) -> list[CappedRelease]:
        """Release the round that begins, and later rounds that share its pass.

        The checkpoint has them already, or passes over the rows make them.
        """
        recipe = self.recipe
        num_rounds = int(recipe.rounds)
        first = len(self.round_releases)
        if first < self.num_recorded_rounds:
            capped = self._checked_release_of_checkpoint(str(first), recipe.learner.round)
            if capped is not None:
                return [capped]
        self.report(Progress("rounds", first, num_rounds))
        later_rounds = range(first + 1, min(first + self.max_rounds_of_pass, num_rounds))
        later_contexts = [
            self.public_steps.begin_round(recipe, public, bound, jnp.int32(round_index), None)
            for round_index in later_rounds
        ]
        return self._release_in_shared_passes(recipe.learner.round, [context, *later_contexts])

    def _release_in_shared_passes(
        self, phase: Phase, contexts_of_pass: list[PhaseContext]
    ) -> list[CappedRelease]:
        """Release rounds that share their passes over the rows, or a prologue or an epilogue.

        Each stage of the phase has a pass over the rows. The checkpoint has the releases before the
        run reads them.
        """
        rounds_of_pass = [
            self._keys_and_public_draws(phase, context) for context in contexts_of_pass
        ]
        releases = [dict(round_of_pass.public_draws) for round_of_pass in rounds_of_pass]
        stacked_context = _stack_contexts(contexts_of_pass)
        noise_keys = jnp.stack([round_of_pass.noise_key for round_of_pass in rounds_of_pass])
        stages = stages_of_phase(self.recipe, phase)
        cap = contexts_of_pass[0].public.cap
        unscored = (
            self._stack_and_clear_unscored_rounds(phase, contexts_of_pass[0]) if stages else None
        )
        for stage in stages:
            earlier = _stack_pytrees_on_host(
                [draws_from_sums.round_int64_release_to_float32(release) for release in releases]
            )
            public_rounds = RoundsOfPass(stacked_context, earlier, unscored)
            sums, cap = self.passes.update_scores_and_sum_rows(
                phase, stage, rounds=public_rounds, noise_keys=noise_keys
            )
            unscored = None  # the scores have them now
            for index, release in enumerate(releases):
                self._draw_stage(
                    phase,
                    stage,
                    round_of_pass=rounds_of_pass[index],
                    sums=jax.tree.map(lambda array, index=index: array[index], sums),
                    into=release,
                )
        capped_releases = [CappedRelease(release, cap) for release in releases]
        self._add_releases_to_checkpoint(phase, contexts_of_pass, capped_releases)
        return capped_releases

    def _keys_and_public_draws(self, phase: Phase, context: PhaseContext) -> _RoundOfPass:
        """The noise key of a round, and what its public key draws."""
        noise_key = _key_of_phase_or_round(self.noise_keys, phase, context)
        public_key = _key_of_phase_or_round(self.structure_keys, phase, context)
        if public_key is None:
            return _RoundOfPass(context, noise_key, {})
        draws = _compiled_public_draws(
            phase, self.recipe, self.absent_row_table, context, public_key
        )
        return _RoundOfPass(
            context, noise_key, {site: np.asarray(array) for site, array in draws.items()}
        )

    def _draw_stage(
        self,
        phase: Phase,
        stage: tuple[Site, ...],
        *,
        round_of_pass: _RoundOfPass,
        sums: draws_from_sums.SumsBySite,
        into: Releases,
    ) -> None:
        """Draw the sites of a stage from the sums over all rows, and add them to a release.

        The scale and the public inputs of a draw may depend on the draws before it. Zeros stand for
        the draws after it, so that one compiled program serves all stages.
        """
        zeros = steps.zero_release_of_phase(self.recipe, phase, has_small_sums=self.has_small_sums)
        priced = priced_draws_of_phase(self.recipe, phase)
        for site in stage:
            specs = _compiled_draw_specs(
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

    def _stack_and_clear_unscored_rounds(
        self, phase: Phase, context: PhaseContext
    ) -> UnscoredRound | None:
        """Stack the rounds whose hypotheses the next pass adds to the scores, and clear their list.

        Before the first round it is a hypothesis of zeros, and None where no scores are read.
        """
        if isinstance(phase, Prologue) or self.recipe.has_independent_rounds:
            return None
        unscored_rounds = self.unscored_rounds
        self.unscored_rounds = []
        if not unscored_rounds:
            shapes = jax.eval_shape(steps.hypothesis_shapes_after_zero_prologue, self.recipe)
            zeros = jax.tree.map(jnp.zeros_like, shapes)
            unscored_rounds = [UnscoredRound(context.public.structure, zeros)]
        return _stack_pytrees_on_host(unscored_rounds)

    # The checkpoint.

    def _checked_release_of_checkpoint(self, name: str, phase: Phase) -> CappedRelease | None:
        """Read a release from the checkpoint, and check that it is what the phase draws.

        It is None if the checkpoint holds none under that name.

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
            raise ValueError(
                f"{self.checkpoint.path}: a release was changed or damaged; {DAMAGE_REMEDY}"
            )
        return CappedRelease(release, jnp.asarray(cap))

    def _add_releases_to_checkpoint(
        self, phase: Phase, contexts: list[PhaseContext], capped_releases: list[CappedRelease]
    ) -> None:
        """Write the releases of a phase to the checkpoint, if there is one."""
        if self.checkpoint is None:
            return
        for context, (release, cap) in zip(contexts, capped_releases, strict=True):
            name = str(int(context.public.round)) if phase.repeats else phase.name
            self.checkpoint.add_release(name, release, float(cap))


def _key_of_phase_or_round(keys_of_run: PhaseValues, phase: Phase, context: PhaseContext) -> Any:
    """The key of a prologue or an epilogue, or that of the round of the context."""
    key = keys_of_run.of_phase(phase)
    return key[int(context.public.round)] if phase.repeats and key is not None else key


def _stack_contexts(contexts: list[PhaseContext]) -> PhaseContext:
    """Stack the contexts of the rounds of one pass to one context.

    Its index and structure have a leading axis.
    """
    first = contexts[0]
    round_indices, structures = _stack_pytrees_on_host(
        [(context.public.round, context.public.structure) for context in contexts]
    )
    return first._replace(public=first.public._replace(round=round_indices, structure=structures))


def _stack_pytrees_on_host(pytrees: list[Any]) -> Any:
    """Stack the arrays of pytrees on a new leading axis, by NumPy.

    On the host that costs no program.
    """

    def stack(*pytrees: Any) -> np.ndarray:
        return np.stack([np.asarray(array) for array in pytrees])

    return jax.tree.map(stack, *pytrees)
