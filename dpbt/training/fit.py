"""`fit`: the entry to a run for every recipe and every table.

It checks its input on the host, and lets a filter pay. It chooses how a run is compiled: for
a table in memory as one program, or as three (`staged_run`), with rounds side by side where they do
not wait for each other; for a table in blocks as passes over its rows.
"""

from __future__ import annotations  # so that help() shows the types by their names

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from dpbt.common import compilation, forks
from dpbt.common.progress import Progress, ReportProgress, ignore_progress
from dpbt.common.validate import is_traced
from dpbt.data import tables
from dpbt.data.blocks import BlockTable
from dpbt.models.model import FittedParts, Model
from dpbt.privacy import keys
from dpbt.privacy.draw_dependencies import draw_specs_of_phase, priced_draws_of_all_phases
from dpbt.privacy.filter_protocol import PrivacyFilter
from dpbt.privacy.pass_stages import stages_of_phase
from dpbt.training import checks, staged_run
from dpbt.training.blocks import absent_row
from dpbt.training.boost import run_in_memory_with_fresh_draws
from dpbt.training.fit_options import DEFAULT_MEMORY_BYTES, DEFAULT_OPTIONS, FitOptions, Pay
from dpbt.training.phases import fitted_parts_without_withheld_sites
from dpbt.training.round_reports import register_round_reporter
from dpbt.training.staged_run import run_in_three_programs
from dpbt.training.table_preparation import move_table_to_device, prepare_table, without_domain
from dpbt.types import Array, Recipe, Table


def fit(
    key: Array,
    table: Table | BlockTable,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    filter: PrivacyFilter | None = None,
    checkpoint: str | Path | None = None,
    memory: float = DEFAULT_MEMORY_BYTES,
    threads: int | None = None,
    progress: ReportProgress | None = None,
) -> Model:
    """Learn a private ensemble from a table, with the guarantee of the recipe's ledger.

    The model is a function of noisy releases alone.

    A table in blocks has the releases of the same rows in memory under the same keys, bit for bit,
    if it has at most `types.MAX_ROWS` rows. Larger ones have sums and releases of 64 bits, and
    post-processing reads the nearest float32. The size of blocks, the memory and the threads change
    nothing. Nor does the order of the rows, unless a forest is `disjoint`, where the position of a
    row decides which tree has it. Greedy trees are computed in double precision, and two programs
    may round the last bit of a leaf in different ways, though rarely (docs/scaling.md).

    It returns when the work is done. The programs of the last
    `compilation.MAX_PROGRAMS_OF_FUNCTION` kinds of recipes and tables stay in memory, and those
    that were not used for the longest time are dropped.

    Args:
        key: one typed key, a secret: whoever has it can subtract the noise. `keys.fresh_key()`
            makes one for a release. A key of a seed is for research, and a warning says so once.
            Use it on one table only. A run that resumes from a checkpoint is the same release, and
            needs the same key.
        table: from `dpbt.table`: bins u8[N, F], present bool[N], and target bool[N], or u8[N] or
            f32[N] as its declared target says, which must be the recipe's. At most the recipe's
            `rows` rows may be present. Under replace-one `rows` is their public number,
            and N must be at least `rows`. Or a table in blocks, from `blocks.open_folder` or
            `convert`, for recipes whose draws are from sums over rows (docs/scaling.md).
        recipe: of the run, without an axis of settings.
        public_key: one typed key that is independent of `key`, if the recipe draws public
            structure.
        filter: pays for the recipe under this key, after all checks that may refuse the fit. What
            it cannot pay is refused before the table is read. A run that resumes is paid for once.
        checkpoint: a file that keeps what was released so far, of a table in blocks. A run that was
            stopped resumes from there. What it holds may be published.
        memory: bytes that the process may take, Python and JAX among them. A table in memory has a
            sixteenth of them for rounds side by side; one in blocks has blocks that fit beside the
            scores of all rows.
        threads: how many blocks of rows are worked on at once; by default one for each processor.
        progress: called with a `progress.Progress`, of public numbers alone, as the run advances.
            With a table in memory only long runs report, and their programs are not kept on disk.

    Raises:
        ValueError: if any of these does not hold, for what the filter does not pay, for a recipe
            that reads no blocks, a damaged block, and a checkpoint of another run or in use. Of
            what is private only the number of present rows is refused
            (`checks.check_number_of_rows`). No cell and no length of the table is shown.
        OSError: if a file cannot be read or written.
        RuntimeError: in a process that was forked after JAX had run, before anything is paid.
    """
    options = FitOptions(checkpoint=checkpoint, memory=memory, threads=threads, progress=progress)
    if filter is not None:
        pay = _checked_payment_callback(
            filter, key=key, table=table, recipe=recipe, checkpoint=checkpoint
        )
        options = dataclasses.replace(options, pay=pay)
    model = fit_without_key_warning(
        key=key, table=table, recipe=recipe, public_key=public_key, options=options
    )
    keys.warn_if_research_key(key)
    return model


def _checked_payment_callback(
    filter: PrivacyFilter,
    *,
    key: Array,
    table: Table | BlockTable,
    recipe: Recipe,
    checkpoint: str | Path | None,
) -> Pay:
    """Check that a filter can pay for a fit, and return the callback that pays.

    Raises:
        ValueError: as `fit`.
        RuntimeError: as `fit`.
    """
    forks.check_jax_can_run()
    if not isinstance(filter, PrivacyFilter):
        raise ValueError(f"filter must be a dpbt.Filter, got {type(filter).__name__}")
    if jax.process_count() > 1:
        raise ValueError(
            "several processes would each pay for the same fit; let the first one take() the "
            "recipe with the key, and call dpbt.fit without a filter in all"
        )
    checks.check_table_and_recipe(
        absent_row.absent_row_like(table) if isinstance(table, BlockTable) else table, recipe
    )
    keys.check_single_key(key)
    filter.check(recipe, None if checkpoint is None else key)
    return filter.payment_callback(recipe.with_user_limit_of(table), key)


def fit_without_key_warning(
    *,
    key: Array,
    table: Table | BlockTable,
    recipe: Recipe,
    public_key: Array | None = None,
    options: FitOptions = DEFAULT_OPTIONS,
) -> Model:
    """Learn an ensemble as `fit` does, without its warning of a research key.

    It is for callers that warn themselves.

    Args:
        key: as `fit`.
        table: as `fit`.
        recipe: as `fit`.
        public_key: as `fit`.
        options: how the fit runs.

    Raises:
        ValueError: as `fit`.
        OSError: as `fit`.
        RuntimeError: as `fit`.
    """
    forks.check_jax_can_run()
    if is_traced(*jax.tree.leaves((key, table, recipe, public_key))):
        raise ValueError(
            "dpbt.fit cannot be traced; call it outside of jit and vmap, or vmap dpbt.boost"
        )
    if isinstance(table, BlockTable):
        return _fit_in_blocks(
            key=key, table=table, recipe=recipe, public_key=public_key, options=options
        )
    if options.checkpoint is not None:
        raise ValueError("checkpoint is for tables in blocks, which dpbt.convert writes")
    return _fit_in_memory(
        key=key, table=table, recipe=recipe, public_key=public_key, options=options
    )


def _fit_in_blocks(
    *,
    key: Array,
    table: BlockTable,
    recipe: Recipe,
    public_key: Array | None,
    options: FitOptions,
) -> Model:
    """Learn a model from a table in blocks."""
    from dpbt.training.blocks.fit_in_blocks import fit_in_blocks

    fitted_parts = fit_in_blocks(
        key=key, table=table, recipe=recipe, public_key=public_key, options=options
    )
    fitted_parts = jax.block_until_ready(fitted_parts)
    return Model.from_run(
        fitted_parts,
        recipe,
        absent_row.absent_row_like(table),
        key_purpose=keys.key_purpose(key),
    )


def _fit_in_memory(
    *,
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None,
    options: FitOptions,
) -> Model:
    """Check, pay for and run the fit of a table in memory."""
    checks.check_table_and_recipe(table, recipe)
    table = move_table_to_device(table)
    checks.check_keys(key, recipe, public_key)
    checks.check_declared_independence_of_scores(recipe)
    num_present = int(np.sum(np.asarray(table.present)))
    checks.check_number_of_rows(recipe, num_present=num_present, capacity=table.bins.shape[0])
    if options.pay is not None:
        options.pay(None)
    fitted_parts = _run_compiled_program(
        key=key, table=table, recipe=recipe, public_key=public_key, options=options
    )
    return Model.from_run(fitted_parts, recipe, table, key_purpose=keys.key_purpose(key))


def _run_compiled_program(
    *,
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None,
    options: FitOptions,
) -> FittedParts:
    """Run a recipe on a checked table in memory by a compiled program, and wait for its results."""
    max_rounds = _max_rounds_of_program(recipe)
    recipe_with_room = dataclasses.replace(without_domain(recipe), max_rounds=max_rounds)
    num_parallel_rounds = _num_parallel_rounds(
        recipe, num_rows=table.target.shape[0], memory=options.memory
    )
    report_round = None
    if num_parallel_rounds is None and not _is_short_run(recipe):
        report_round = _round_reporter(options.progress, num_rounds=int(recipe.rounds))
    compiled_run = _choose_compiled_run(without_domain(recipe))
    with register_round_reporter(report_round) as reporter_id:
        fitted_parts = compiled_run(
            key=key,
            table=without_domain(tables.pad_rows_to_bucket(table)),
            recipe=recipe_with_room,
            public_key=public_key,
            reporter_id=reporter_id,
            num_parallel_rounds=num_parallel_rounds,
            priced=priced_draws_of_all_phases(recipe_with_room),
        )
        # Block, so that Ctrl-C interrupts the fit and timers measure all of it.
        return jax.block_until_ready(fitted_parts)


def _round_reporter(
    progress: ReportProgress | None, *, num_rounds: int
) -> Callable[[int], None] | None:
    """Make the function that tells a progress callback how many rounds are done.

    It is None without a progress callback.
    """
    if progress is None or progress is ignore_progress:
        return None

    def report_round(num_done: int) -> None:
        progress(Progress("rounds", num_done, num_rounds))

    return report_round


MIN_ROUNDS_OF_PROGRAM = 128
"""The rounds that a program has room for, at least: the most that pure recipes of `auto` have."""

_MAX_BYTES_OF_ROOM = 2**26
"""A program has room for as many rounds only if what they release has at most so many bytes."""


def _max_rounds_of_program(recipe: Recipe) -> int:
    """The number of rounds for which the run of a recipe is compiled.

    Rounds beyond those of the recipe are skipped, which takes no time that can be measured, and
    change no bit of the others. So recipes of few rounds share one program: the rounds that `auto`
    sets follow from epsilon, and each number of them would have a program of its own.
    """
    max_rounds = tables.round_up_to_bucket(recipe.max_rounds)
    if recipe.has_independent_rounds:  # all rounds of the program run, side by side
        return max_rounds
    specs = draw_specs_of_phase(recipe, recipe.learner.round)
    bytes_of_round = 4 * sum(spec.output.size for spec in specs)
    has_room = MIN_ROUNDS_OF_PROGRAM * bytes_of_round <= _MAX_BYTES_OF_ROOM
    return max(max_rounds, MIN_ROUNDS_OF_PROGRAM) if has_room else max_rounds


def _num_parallel_rounds(recipe: Recipe, *, num_rows: int, memory: float) -> int | None:
    """How many rounds of a run in memory run side by side; None if one follows the other.

    Args:
        recipe: of the run, without an axis of settings.
        num_rows: of the table.
        memory: in bytes; rounds side by side take about a sixteenth of it.
    """
    if not recipe.has_independent_rounds:
        return None
    specs = draw_specs_of_phase(recipe, recipe.learner.round)
    num_outputs = sum(spec.output.size for spec in specs if spec.mechanism.price.reads_rows)
    bytes_of_round = 64 * num_rows + 256 * num_outputs
    return int(np.clip(memory / 16 / bytes_of_round, 1, 64))


MAX_ROW_ROUNDS_OF_SHORT_RUN = 2**26
"""A fit of at most so many rows times rounds is compiled sooner, if it may be.

A fit of oblivious trees then compiles in about two thirds of the time, and takes 1.3 to 1.8 times
as long to run. For 50,000 rows and 1,024 rounds that is 0.13 s more for each fit, and 2.7 s less
for the first one, of the processor's time.
"""


def _is_short_run(recipe: Recipe) -> bool:
    """Whether a run of a recipe takes less time than compiling its program with all care."""
    max_rounds = tables.round_up_to_bucket(recipe.max_rounds)
    return int(recipe.rows) * max_rounds <= MAX_ROW_ROUNDS_OF_SHORT_RUN


def _choose_compiled_run(recipe: Recipe) -> Callable[..., FittedParts]:
    """Choose the compiled run that takes less time in all, to compile and to run a recipe."""
    if _is_short_run(recipe) and _has_same_bits_in_three_programs(recipe):
        return run_in_three_programs
    return _compiled_run


def _has_same_bits_in_three_programs(recipe: Recipe) -> bool:
    """Whether a run may be three programs of the older emitter, with the same bits of releases.

    It may on a processor, if all draws of a round are from sums that do not wait for each other. A
    recipe that predicts a number has other bits by the older emitter, because the start and the
    unit that follow from its histogram are rounded in another way. So are the scores of greedy
    trees. Programs of weights that depend on all rows take longer to compile. The answer is public.
    """
    if recipe.learner.response.is_number or recipe.weight_update.coupled:
        return False
    if jax.default_backend() != "cpu":
        return False
    with contextlib.suppress(ValueError):  # reads all rows at once
        return len(stages_of_phase(recipe, recipe.learner.round)) == 1
    return False


def _run_in_one_program(
    *,
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None,
    reporter_id: Array | None,
    num_parallel_rounds: int | None,
) -> FittedParts:
    """Run a recipe on a table in memory, and return the fitted parts of its model; traceable."""
    run_result = run_in_memory_with_fresh_draws(
        key,
        prepare_table(table, recipe),
        recipe,
        public_key,
        num_parallel_rounds=num_parallel_rounds,
        reporter_id=reporter_id,
    )
    return fitted_parts_without_withheld_sites(
        recipe,
        releases=run_result.records,
        hypotheses=run_result.hypotheses,
        intercept=run_result.intercept,
    )


_compiled_run = compilation.jit_with_bounded_cache(
    static_argnames=("num_parallel_rounds",), cache_key_argnames=("priced",)
)(_run_in_one_program)


def num_compiled_programs() -> int:
    """How many runs in memory `fit` has compiled so far in this process."""
    return _compiled_run.num_compiled + staged_run.num_compiled_programs()
