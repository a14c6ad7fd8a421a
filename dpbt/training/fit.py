"""`fit`: one entry for every recipe and every table.

It checks its input on the host, and lets a filter pay. It chooses how the rounds run: in one
compiled program on a table in memory, side by side where they do not wait for each other, or in
passes over a table in blocks.
"""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dpbt.common.types import Array, Hypotheses, Recipe, Table, Transcript
from dpbt.common.validate import is_traced, positive
from dpbt.data import tables
from dpbt.data.blocks import BlockTable
from dpbt.privacy import keys, pricing
from dpbt.privacy.filter import Filter
from dpbt.release.model import Model
from dpbt.training import blocks, checks, step
from dpbt.training.blocks import Pay, Report
from dpbt.training.boosting import model_of, sampled, without_withheld
from dpbt.training.checkpoint import Checkpoint

MEMORY = 4 * 2**30
"""How many bytes a fit may take by default."""


def fit(
    key: Array,
    table: Table | BlockTable,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    filter: Filter | None = None,
    checkpoint: str | Path | None = None,
    memory: float = MEMORY,
    threads: int | None = None,
    progress: Report | None = None,
) -> Model:
    """Learn an ensemble: a function of noisy releases alone, with the guarantee of its ledger.

    A table in blocks has the releases of the same rows in memory under the same keys, bit for bit,
    if it has at most `types.MAX_ROWS` rows. Larger ones have sums and releases of 64 bits, and
    post-processing reads the nearest float32. The size of blocks, the memory and the threads change
    nothing. Nor does the order of the rows, unless a forest is `disjoint`, where the place of a row
    decides which tree has it. Greedy trees are worked out in double precision, and two programs
    may round the last bit of a leaf in different ways, though rarely (docs/scaling.md).

    Args:
        key: one typed key, a secret: whoever has it can subtract the noise. `keys.fresh_key()`
            makes one for a release. A key of a seed is for research, and a warning says so once.
            Use it on one table only. A run that goes on from a checkpoint is the same release, and
            needs the same key.
        table: from `dpbt.table`: bins u8[N, F], present bool[N], and target bool[N], or u8[N] or
            f32[N] as its declared target says, which must be the recipe's. At most the recipe's
            `rows` rows may be present. Under replace-one `rows` is their public number,
            and N must be at least `rows`. Or a table in blocks, from `blocks.open_folder` or
            `convert`, for recipes whose draws are from sums over rows (docs/scaling.md).
        recipe: one setting.
        public_key: one typed key that is independent of `key`, if the recipe draws public
            structure.
        filter: pays for the recipe, under this key, when all that can be refused has been. What it
            cannot pay is refused before the table is read. A run that goes on is paid for once.
        checkpoint: a file that keeps what was released so far, of a table in blocks. A run that was
            stopped goes on from there. What it holds may be published.
        memory: bytes that the process may take, Python and JAX among them. A table in memory has a
            sixteenth of them for rounds side by side; one in blocks has blocks that fit beside the
            scores of all rows.
        threads: how many blocks of rows are worked on at once; by default one for each processor.
        progress: called with a `blocks.Progress` before the rounds of each pass over blocks.

    Raises:
        ValueError: if any of these does not hold, for what the filter does not pay, for a recipe
            that reads no blocks, a damaged block, and a checkpoint of another run or in use. Of
            what is private only the number of present rows is refused (`checks.check`). No cell
            and no length of the table is shown.
        OSError: if a file cannot be read or written.
    """
    pay = None
    if filter is not None:
        if not isinstance(filter, Filter):
            raise ValueError(f"filter must be a dpbt.Filter, got {type(filter).__name__}")
        if jax.process_count() > 1:
            raise ValueError(
                "several processes would each pay for the same fit; let the first one take() the "
                "recipe with the key, and call dpbt.fit without a filter in all"
            )
        read = step.dummy_row(table) if isinstance(table, BlockTable) else table
        checks.check_run(read, recipe)
        keys.check(key)
        filter.check(recipe, None if checkpoint is None else key)
        pay = filter.paying(recipe, key)
    in_blocks: dict[str, Any] = {"threads": threads, "progress": progress, "checkpoint": checkpoint}
    model = learn(key, table, recipe, public_key, pay=pay, memory=memory, **in_blocks)
    keys.warn_of_research(key)
    return model


def learn(
    key: Array,
    table: Table | BlockTable,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    pay: Pay | None = None,
    memory: float = MEMORY,
    checkpoint: str | Path | Checkpoint | None = None,
    **in_blocks: Any,
) -> Model:
    """`fit` for callers that warn of a research key, and hold a checkpoint, in their own words.

    Args: as `fit`. `pay` is called when all that can be refused has been, before anything is drawn,
        with the name of the run in the checkpoint, if there is one.

    Raises:
        ValueError: as `fit`.
        OSError: as `fit`.
    """
    if is_traced(*jax.tree.leaves((key, table, recipe, public_key))):
        raise ValueError(
            "dpbt.fit checks and pads its table on the host, so it runs outside of jit and vmap; "
            "map dpbt.boost over keys, tables and recipes, and take boosted.model(table, recipe)"
        )
    if isinstance(table, BlockTable):
        in_blocks |= {"pay": pay, "memory": memory, "checkpoint": checkpoint}
        return blocks.learn(key, table, recipe, public_key, **in_blocks)
    if checkpoint is not None:
        raise ValueError("checkpoint is for tables in blocks, which dpbt.convert writes")

    # A table in memory.
    checks.check_run(table, recipe)
    table = checks.on_device(table)
    checks.check(key, table, recipe, public_key)
    checks.check_rows(int(np.sum(np.asarray(table.present))), table.bins.shape[0], recipe)
    limit = float(positive("memory", memory))
    if pay is not None:
        pay(None)

    padded = tables.padded(table)
    room = dataclasses.replace(recipe, capacity=tables.bucket(recipe.capacity))
    batch = 0
    if recipe.independent:
        batch = int(np.clip(limit / 16 / _side_by_side_bytes(table, recipe), 1, 64))
    transcript, hypotheses, intercept = _compiled(key, padded, room, public_key, batch=batch)
    return model_of(transcript, hypotheses, intercept, recipe, table, keys.kind(key))


def _side_by_side_bytes(table: Table, recipe: Recipe) -> int:
    """Roughly what one of many rounds side by side takes."""
    specs = pricing.sites(recipe, "rounds")
    private = sum(spec.output.size for spec in specs if spec.mechanism.price.reads_rows)
    return 64 * table.target.shape[0] + 256 * private


_Ran = tuple[Transcript, Hypotheses, Array]
"""(transcript without what is withheld, hypotheses, intercept): all that a model reads."""


def _run(key: Array, table: Table, recipe: Recipe, public_key: Array | None, batch: int) -> _Ran:
    """A run in one program."""
    ran = sampled(key, step.prepared_table(table, recipe), recipe, public_key, batch)
    transcript = without_withheld(Transcript(*ran.kept), recipe.learner)  # may be of many rows
    return transcript, ran.hypotheses, ran.intercept


_compiled = jax.jit(_run, static_argnames="batch")
