"""The pure entry `boost`, and runs with fresh draws on a table in memory.

`boost` is traceable: vmap it over keys, `present` masks and recipes.
"""

from __future__ import annotations  # so that help() shows the types by their names

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from dpbt.common import compilation, devices
from dpbt.common.validate import is_traced, show_value
from dpbt.models.model import Model
from dpbt.privacy import program_interpreters
from dpbt.privacy.draw_dependencies import priced_draws_of_all_phases, priced_draws_of_phase
from dpbt.public_types import redacted_repr
from dpbt.training import checks, round_reports, run_keys, steps
from dpbt.training.lanes import run_in_lanes_that_need_it
from dpbt.training.phases import PhaseValues, fitted_parts_without_withheld_sites
from dpbt.training.scan import InterpretedPhase, PhaseInterpreter, RunResult, run_in_memory
from dpbt.training.table_preparation import prepare_table, without_domain
from dpbt.types import (
    Array,
    Hypotheses,
    MultiProgramRecipe,
    Phase,
    PreparedRows,
    Recipe,
    Table,
    TableForm,
    Transcript,
    View,
)


class Boosted(NamedTuple):
    """The transcript, the hypotheses and the scores of a run, as `boost` returns them.

    Its `model` predicts other rows.

    Attributes:
        transcript: all that left the private side, with the sites that the learner withholds from a
            model.
        hypotheses: what follows from the transcript, such as trees, with a leading axis for rounds.
            They are those of the model, after the epilogue.
        scores: f32[N], or f32[K, N] with several classes, of every row, absent ones too (such as a
            test fold): the model applied to private rows. They are for evaluation and are not part
            of the release.
    """

    transcript: Transcript
    hypotheses: Hypotheses
    scores: Array

    __repr__ = redacted_repr

    def model(self, table: Table, recipe: Recipe) -> Model:
        """The model of the run, which predicts other rows.

        It is pure, so it can be jitted and vmapped.

        Args:
            table: as `boost` was given it; its public splits are kept.
            recipe: as `boost` was given it.

        Raises:
            ValueError: for another table or recipe, as far as that is static, as `replay`.
        """
        checks.check_table_and_recipe(table, recipe)
        checks.check_transcript(self.transcript, table, recipe)
        releases = PhaseValues(**self.transcript.releases)
        line = steps.score_line(recipe, releases.prologue, releases.epilogue)
        fitted_parts = fitted_parts_without_withheld_sites(
            recipe, releases=releases, hypotheses=self.hypotheses, intercept=line.intercept
        )
        return Model.from_run(fitted_parts, recipe, table)


class BoostedByProgram(NamedTuple):
    """The runs of a `MultiProgramRecipe`, as `boost` returns them.

    Each setting has the run of its program.

    Attributes:
        program: i32[], the place of the program that the setting runs.
        runs: for each program of the recipe what it made; zeros but for that of the setting.
        scores: f32[N], or f32[K, N] with several classes, as `Boosted` has them, of the run of the
            setting.
    """

    program: Array
    runs: tuple[Boosted, ...]
    scores: Array

    __repr__ = redacted_repr

    def setting(self, index: int | np.integer | tuple[int | np.integer, ...] = ()) -> Boosted:
        """The result of one setting, as `boost` returns it for the recipe of that setting.

        `recipes.setting` has that recipe.

        Args:
            index: the place on the leading axis, or a place on each of several leading axes, of
                results that `jax.vmap` made; none for the result of one setting.

        Raises:
            ValueError: for an index that does not lead to one setting, and in a function that JAX
                traces, since the type of the result follows from the program.
        """
        if is_traced(self.program):
            raise ValueError("setting needs the values of results, so call it outside of jit")
        try:
            programs = np.unique(np.asarray(self.program)[index])
        except IndexError:
            programs = np.zeros(0)
        if len(programs) != 1:
            raise ValueError(
                f"index must lead to one setting of results of shape {np.shape(self.program)}, got "
                f"{show_value(index)}"
            )
        return jax.tree.map(lambda array: array[index], self.runs[int(programs[0])])


@overload
def boost(key: Array, table: Table, recipe: Recipe, public_key: Array | None = None) -> Boosted: ...
@overload
def boost(
    key: Array, table: Table, recipe: MultiProgramRecipe, public_key: Array | None = None
) -> BoostedByProgram: ...


def boost(
    key: Array,
    table: Table,
    recipe: Recipe | MultiProgramRecipe,
    public_key: Array | None = None,
) -> Boosted | BoostedByProgram:
    """Run T rounds of a recipe on a table in memory.

    The first T rounds are the same whatever its `max_rounds`.

    The guarantee is that of `ledger(recipe)`, for tables of at most `rows` rows. Of a larger table
    only the first `rows` present rows count (`table_preparation.keep_first_present_rows`). The key
    is a secret of the release. Use it on one table only. On two tables it makes the same noise,
    even if one is an update of the other. The same rows under another domain, with other weights or
    with exchanged classes are another table.

    It runs as one compiled program, of which the last used are kept. Like any function of JAX it
    then returns before the work is done; `jax.block_until_ready` waits.

    A `MultiProgramRecipe` has the guarantee of the recipe of each setting. Under `jax.vmap` each of
    its programs runs for all settings if any of them needs it, so it takes up to as many times as
    long as there are programs. `recipes.settings_by_program` makes groups that take no longer.

    Args:
        key: a typed key; see `keys`. Recipes that differ in any number have independent noise
            under it (`run_keys.derive_recipe_key`).
        table: N rows.
        recipe: of the run, without an axis of settings.
        public_key: of public structure, such as a random tree's splits; needed if the learner
            draws any. It must be independent of `key`, because what it draws is published.

    Returns:
        A `Boosted`, or for a `MultiProgramRecipe` a `BoostedByProgram`.

    Raises:
        ValueError: for public structure without a public key, and as
            `table_preparation.prepare_table` and `checks.check_keys`. All that is static is
            checked under jit and vmap, too.
    """
    if isinstance(recipe, MultiProgramRecipe):
        return _boost_by_program(key, table, recipe, public_key)
    checks.check_table_and_recipe(table, recipe)
    checks.check_keys(key, recipe, public_key)
    bare_table, bare_recipe = without_domain(table), without_domain(recipe)
    priced = priced_draws_of_all_phases(bare_recipe)
    boosted = _compiled_boost(key, bare_table, bare_recipe, public_key, priced=priced)
    return _with_table_form_in_transcript(table, boosted)


def _boost_by_program(
    key: Array, table: Table, recipe: MultiProgramRecipe, public_key: Array | None
) -> BoostedByProgram:
    """Check the arguments of `boost` for a recipe of several programs, and run it."""
    for program in recipe.programs:
        checks.check_table_and_recipe(table, program)
        checks.check_keys(key, program, public_key)
    bare_table, bare_recipe = without_domain(table), without_domain(recipe)
    priced = tuple(map(priced_draws_of_all_phases, bare_recipe.programs))
    boosted = _compiled_boost_by_program(key, bare_table, bare_recipe, public_key, priced=priced)
    return boosted._replace(
        runs=tuple(_with_table_form_in_transcript(table, run) for run in boosted.runs)
    )


def _with_table_form_in_transcript(table: Table, boosted: Boosted) -> Boosted:
    """Note in the transcript of a run on which form of table it was recorded."""
    transcript = boosted.transcript._replace(recorded_on=TableForm.of_table(table))
    return boosted._replace(transcript=transcript)


def _boost(key: Array, table: Table, recipe: Recipe, public_key: Array | None) -> Boosted:
    """Run a recipe on checked arguments, divided among devices as the table is; traceable."""
    return devices.run_divided_by_compiler(
        _boost_in_sharded_program,
        key,
        table,
        recipe,
        public_key,
        divisions=_divisions_of_result(table, recipe),
    )


def _run_by_program(
    key: Array,
    table: Table,
    recipe: MultiProgramRecipe,
    public_key: Array | None,
) -> BoostedByProgram:
    """Run each setting's program on checked arguments, divided among devices as the table is."""
    divisions = [_divisions_of_result(table, program) for program in recipe.programs]
    fields: tuple[Any, ...] = devices.REPLICATED, tuple(divisions), divisions[0].scores
    return devices.run_divided_by_compiler(
        _run_by_program_in_sharded_program,
        key,
        table,
        recipe,
        public_key,
        divisions=BoostedByProgram(*fields),
    )


def _divisions_of_result(table: Table, recipe: Recipe) -> Any:
    """How each field of a `Boosted` is divided among the devices of a mesh."""
    class_axes = (None,) * len(recipe.learner.response.score_axes)
    replicated: Any = devices.REPLICATED
    division_of_scores: Any = PartitionSpec(*class_axes, *devices.division_of(table.present))
    return Boosted(transcript=replicated, hypotheses=replicated, scores=division_of_scores)


def _run_by_program_in_sharded_program(
    key: Array, table: Table, recipe: MultiProgramRecipe, public_key: Array | None
) -> BoostedByProgram:
    """Run each setting's program within one that the compiler may divide among devices."""
    runs = tuple(
        _run_or_zeros(recipe.program == number, key, table, program, public_key)
        for number, program in enumerate(recipe.programs)
    )
    scores = runs[0].scores
    for number, run in enumerate(runs[1:], start=1):
        scores = jnp.where(recipe.program == number, run.scores, scores)
    return BoostedByProgram(recipe.program, runs, scores)


def _run_or_zeros(is_chosen: Array, *run_inputs: Any) -> Boosted:
    """The run of a program in the settings that choose it, and zeros in all others.

    What the program makes of the rows of another setting is dropped here, and never released.
    Without a setting that chooses it, no lane of a vmap runs it.

    Args:
        is_chosen: bool[], whether the setting runs the program.
        run_inputs: of `_boost_in_sharded_program`.
    """

    def run(*run_inputs: Any) -> Boosted:
        return _boost_in_sharded_program(*run_inputs)

    traced_once: Any = jax.jit(run, inline=True)  # its shapes and its run have one trace

    def zeros(*run_inputs: Any) -> Boosted:
        shapes = jax.eval_shape(traced_once, *run_inputs)
        no_run = jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), shapes)
        return devices.vary_like(no_run, run_inputs)

    return run_in_lanes_that_need_it(is_chosen, traced_once, zeros, *run_inputs)


def _boost_in_sharded_program(
    key: Array, table: Table, recipe: Recipe, public_key: Array | None
) -> Boosted:
    """Run a recipe within a program that the compiler may divide among devices."""
    inputs = key, table, recipe, public_key
    key, table, recipe, public_key = devices.vary_like(inputs, inputs)
    rows = prepare_table(table, recipe)
    checks.check_keys(key, recipe, public_key)
    run_result = run_in_memory_with_fresh_draws(key, rows, recipe, public_key)
    assert run_result.scores is not None
    return Boosted(
        transcript=Transcript(**run_result.records._asdict()),
        hypotheses=run_result.hypotheses,
        scores=run_result.scores[0],
    )


_compiled_boost = compilation.jit_with_bounded_cache(cache_key_argnames=("priced",))(_boost)
_compiled_boost_by_program = compilation.jit_with_bounded_cache(cache_key_argnames=("priced",))(
    _run_by_program
)


def num_compiled_programs() -> int:
    """How many programs `boost` has compiled in this process, without those inside others."""
    return _compiled_boost.num_compiled + _compiled_boost_by_program.num_compiled


def run_in_memory_with_fresh_draws(
    key: Array,
    rows: PreparedRows,
    recipe: Recipe,
    public_key: Array | None,
    *,
    num_parallel_rounds: int | None = None,
    reporter_id: Array | None = None,
) -> RunResult:
    """Run a recipe on a table in memory with fresh draws, and record these; traceable.

    Args:
        key: of the noise.
        rows: the prepared table.
        recipe: of the run, without an axis of settings.
        public_key: of the public structure, if the recipe draws any.
        num_parallel_rounds: how many rounds run side by side, as `run_in_memory` takes it.
        reporter_id: i32[] of `round_reports.register_round_reporter`, to report each round as it
            draws; None to report none.

    Raises:
        ValueError: for public structure without a public key, and for two draws of one name.
    """
    return run_in_memory(
        recipe,
        [rows],
        interpret_phase=interpreter_with_fresh_draws(recipe, reporter_id),
        phase_inputs=keys_of_all_phases(key, recipe, public_key),
        num_parallel_rounds=num_parallel_rounds,
    )


def keys_of_all_phases(key: Array, recipe: Recipe, public_key: Array | None) -> PhaseValues:
    """Derive a pair of noise key and public key for each phase and round of a run.

    `interpreter_with_fresh_draws` reads them. Without a public key the second of a pair is None.

    Args:
        key: of the noise.
        recipe: of the run, without an axis of settings.
        public_key: of the public structure, if the recipe draws any.
    """
    noise_keys = run_keys.derive_phase_keys(run_keys.derive_recipe_key(key, recipe), recipe)
    public_keys = run_keys.derive_phase_keys(public_key, recipe)
    return PhaseValues(*zip(noise_keys, public_keys, strict=True))


def interpreter_with_fresh_draws(recipe: Recipe, reporter_id: Array | None) -> PhaseInterpreter:
    """Make an interpreter that draws the release of a phase from its keys, and records it.

    Args:
        recipe: of the run, without an axis of settings.
        reporter_id: as `run_in_memory_with_fresh_draws` takes it.
    """

    def sample_draws(
        phase: Phase, keys: tuple[Array, Array | None], views: Sequence[View]
    ) -> InterpretedPhase:
        if reporter_id is not None and phase.repeats:
            round_reports.report_round(reporter_id, views[0].public.round)
        noise_key, public_key = keys
        priced = priced_draws_of_phase(recipe, phase)
        release = program_interpreters.sample_release(
            phase.program, noise_key, public_key, views[0], priced
        )
        return InterpretedPhase(release=release, record=release)

    return sample_draws
