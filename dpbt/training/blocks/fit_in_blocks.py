"""A fit on a table in blocks: its checks, its checkpoint and its payment, and then the run.

`executor` runs the rounds. Each has a pass over the blocks for each of its stages (`passes`), a
draw from the sums over all rows (`privacy.draws_from_sums`), and the public steps of a round in
memory (`training.steps`). Rounds that do not wait for each other share a pass. So the releases are
those of the same rows in memory.

With several processes (`jax.distributed`) each has a folder of its own, and their rows are one
table, in the order of the processes. A process sends its sums to the others (`processes`). All draw
the same noise under the same key, and all end with the same model.
"""

import contextlib
import hashlib
import os
from pathlib import Path

import jax

from dpbt.common.progress import Progress
from dpbt.common.validate import as_path, check_interval
from dpbt.data.blocks import BlockTable
from dpbt.models.model import FittedParts
from dpbt.privacy.pass_stages import check_can_run_in_blocks
from dpbt.training import checks, run_keys
from dpbt.training.blocks import absent_row, processes
from dpbt.training.blocks.checkpoint import (
    Checkpoint,
    recipe_digest,
    salted_key_digest,
)
from dpbt.training.blocks.executor import BlockExecutor
from dpbt.training.blocks.memory_plan import plan_memory
from dpbt.training.blocks.passes import Passes
from dpbt.training.fit_options import FitOptions
from dpbt.training.phases import (
    run_phases,
)
from dpbt.training.table_preparation import without_domain
from dpbt.types import (
    MAX_ROWS,
    Array,
    Recipe,
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
    public_key = checks.public_key_if_drawn(recipe, public_key)
    rows_of_processes = processes.count_rows_of_all_processes(
        num_present=_num_present_rows(table), capacity=table.capacity
    )
    checks.check_number_of_rows(
        recipe,
        num_present=rows_of_processes.total_present,
        capacity=rows_of_processes.total_capacity,
    )
    recipe = without_domain(recipe)  # so that domains share programs
    memory = float(check_interval("memory", options.memory, "(0, inf)"))
    plan = plan_memory(table, recipe, memory=memory, threads=options.num_threads)

    with contextlib.ExitStack() as stack:
        checkpoint = _open_checkpoint(options.checkpoint, stack)
        if checkpoint is not None:
            checkpoint.begin_or_resume(
                key=key,
                public_key=public_key,
                recipe=recipe,
                table_identities=processes.gather_digests_from_processes(table.identity),
                process_index=jax.process_index(),
            )
        try:
            passes = stack.enter_context(Passes(table, recipe, plan, rows_of_processes.first_row))
            for num_verified in passes.verify_blocks():
                options.report_progress(Progress("checking", num_verified, len(table.blocks)))
            if options.pay is not None:
                options.pay(None if checkpoint is None else checkpoint.run)
        except ValueError:
            if checkpoint is not None:
                checkpoint.discard_new_run()
            raise
        recipe_key = run_keys.derive_recipe_key(key, recipe)
        num_recorded_rounds = 0 if checkpoint is None else checkpoint.num_recorded_rounds
        executor = BlockExecutor(
            recipe=recipe,
            passes=passes,
            checkpoint=checkpoint,
            num_recorded_rounds=processes.min_over_processes(num_recorded_rounds),
            has_small_sums=rows_of_processes.total_capacity <= MAX_ROWS,
            noise_keys=run_keys.derive_phase_keys(recipe_key, recipe),
            structure_keys=run_keys.derive_phase_keys(public_key, recipe),
            absent_row_table=without_domain(absent_row.absent_row_like(table)),
            max_rounds_of_pass=plan.max_rounds_of_pass,
            report=options.report_progress,
        )
        return executor.fitted_parts(run_phases(recipe, executor))


def check_fit_in_blocks(
    *, key: Array, table: BlockTable, recipe: Recipe, public_key: Array | None = None
) -> None:
    """Check the arguments of a fit in blocks, before a row is read.

    Args:
        key: one typed key.
        table: of this process.
        recipe: of the run, without an axis of settings.
        public_key: another typed key, or None.

    Raises:
        ValueError: for what `checks.check_table_and_recipe`, `checks.check_keys` and
            `checks.check_declared_independence_of_scores` refuse, for a recipe that reads all rows
            at once, and for processes that do not run one recipe under one key on tables of their
            own.
    """
    checks.check_table_and_recipe(absent_row.absent_row_like(table), recipe)
    try:
        check_can_run_in_blocks(recipe)
    except ValueError as error:
        raise ValueError(
            f"{recipe.name} of the {recipe.calibration} calibration reads all rows at once, and "
            f"learns from no blocks, as recipes.auto does: {error}"
        ) from None
    checks.check_keys(key, recipe, public_key)
    checks.check_declared_independence_of_scores(recipe)
    if jax.process_count() > 1:
        public_key = checks.public_key_if_drawn(recipe, public_key)
        _check_same_run_on_processes(key, table, recipe, public_key)
        _check_different_tables_on_processes(table)


def _open_checkpoint(
    checkpoint: str | Path | Checkpoint | None, stack: contextlib.ExitStack
) -> Checkpoint | None:
    """Open the checkpoint of a run, or return the one that is open; None without one.

    The stack closes it if it is opened here.
    """
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    return stack.enter_context(Checkpoint(as_path("checkpoint", checkpoint)))


def _num_present_rows(table: BlockTable) -> int:
    """How many rows of a table in blocks are present, a private number."""
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
        "table": hashlib.sha256(table.public_declarations_json.encode()).hexdigest(),
    }
    for name, digest in digests.items():
        if len(set(processes.gather_digests_from_processes(digest))) > 1:  # on every process
            raise ValueError(f"the processes have different values of {name}; give the same")


def _check_different_tables_on_processes(table: BlockTable) -> None:
    """Refuse processes of which two were given the same table."""
    identity = table.identity
    if not _num_present_rows(table):  # such folders may be alike
        identity = hashlib.sha256(os.fsencode(table.folder.resolve())).hexdigest()
    identities = processes.gather_digests_from_processes(identity)
    if len(set(identities)) < len(identities):
        raise ValueError("two processes were given the same table; give each its own rows")
