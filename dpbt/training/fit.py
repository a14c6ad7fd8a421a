"""`fit`: one entry for every recipe and every table.

It checks its input on the host, lets a filter pay, and chooses how the rounds run: in one compiled
program on a table in memory, side by side where they do not wait for each other, or in passes over
a table in blocks.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import NUMBER, Array, Hypotheses, Recipe, Release, Table, Transcript
from dpbt.data import shapes
from dpbt.data.blocks import BlockTable
from dpbt.privacy import keys, pricing
from dpbt.privacy.filter import Filter
from dpbt.release.model import Model
from dpbt.training import blocks, checks, compiling, specs
from dpbt.training.blocks import Report
from dpbt.training.boosting import sampled, without_withheld
from dpbt.training.checkpoint import Checkpoint
from dpbt.training.memory import side_by_side_bytes
from dpbt.training.step import prepared_table
from dpbt.validate import flag, is_traced, positive

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
    sample_weight: Any = None,
    keep_withheld: bool = False,
) -> Model:
    """Learn an ensemble: a function of noisy releases alone, with the guarantee of its ledger.

    A table in blocks has the releases of the same rows in memory under the same keys, bit for bit,
    if it has at most `base.MAX_ROWS` rows. Larger ones have sums and releases of 64 bits, and
    post-processing reads the nearest float32. The size of blocks, the memory and the threads change
    nothing. Nor does the order of the rows, unless a forest is `disjoint`, where the place of a row
    decides which tree has it. Greedy trees are worked out in double precision, and two programs
    may round the last bit of a leaf in different ways, though rarely (docs/scaling.md).

    Args:
        key: one typed key, a secret: whoever has it can subtract the noise. `keys.fresh_key()`
            makes one for a release. A key of a seed is for research, and a warning says so once.
            Use it on one table only. A run that goes on from a checkpoint is the same release, and
            needs the same key.
        table: from `dpbt.table`: cells u8[N, F], present bool[N], and target bool[N], or u8[N] or
            f32[N] as its declared target says, which must be the recipe's. At most the recipe's
            `rows` rows may be present. Under replace-one `rows` is their public number,
            and N must be at least `rows`. Or a table in blocks, from `blocks.open_folder` or
            `convert`, for recipes whose draws are from sums over rows (docs/scaling.md).
        recipe: one setting.
        public_key: one typed key that is independent of `key`, if the recipe draws public
            structure.
        filter: pays for the recipe, under this key, when all that can be refused has been. What it
            cannot pay is refused before the table is read. A run that goes on is paid for once.
        checkpoint: a folder that keeps what was released so far, of a table in blocks. A run that
            was stopped goes on from there. What it holds may be published.
        memory: bytes that the process may take, Python and JAX among them. A table in memory has a
            sixteenth of them for rounds side by side; one in blocks has blocks that fit, and scores
            in memory or else in an unnamed file.
        threads: how many blocks of rows are worked on at once; by default one for each processor.
        progress: called with a `blocks.Progress` before the rounds of each pass over blocks.
        sample_weight: refused; `dpbt.table` takes it, with its public bound.
        keep_withheld: leave the sites that the learner withholds in `Model.releases`, for `replay`
            and audits. The site "part" of disjoint forests is i32[T, N]: its length is the private
            number of rows. Publish such a model only if the places of the rows are public.

    Raises:
        ValueError: if any of these does not hold, for what the filter does not pay, for a recipe
            that reads no blocks, a damaged block, and a checkpoint of another run or in use. Of
            what is private only the number of present rows is refused (`checks.check`). No cell
            and no length of the table is shown.
        OSError: if a file cannot be read or written.
    """
    checks.refuse_sample_weight(sample_weight)
    pay = None
    if filter is not None:
        _check_filter(filter, key, table, recipe, goes_on=checkpoint is not None)
        pay = filter.paying(recipe, key)
    model = learn(
        key,
        table,
        recipe,
        public_key,
        pay=pay,
        checkpoint=checkpoint,
        memory=memory,
        threads=threads,
        progress=progress,
        keep_withheld=keep_withheld,
    )
    keys.warn_of_research(key)
    return model


def _check_filter(
    filter: object, key: Array, table: Table | BlockTable, recipe: Recipe, goes_on: bool
) -> None:
    """Refuse a recipe that a filter cannot pay, before a row is read.

    Raises:
        ValueError: as `Filter.check`, for what is no filter or no recipe, and for several
            processes.
    """
    if not isinstance(filter, Filter):
        raise ValueError(f"filter must be a dpbt.Filter, got {type(filter).__name__}")
    if jax.process_count() > 1:
        raise ValueError(
            "several processes would each pay for the same fit; let the first one take() the "
            "recipe with the key, and call dpbt.fit without a filter in all"
        )
    checks.check_run(specs.row_of(table) if isinstance(table, BlockTable) else table, recipe)
    keys.check(key)
    filter.check(recipe, key if goes_on else None)


def learn(
    key: Array,
    table: Table | BlockTable,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    pay: Callable[[str | None], None] | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
    memory: float = MEMORY,
    threads: int | None = None,
    progress: Report | None = None,
    keep_withheld: bool = False,
) -> Model:
    """`fit` for callers that warn of a research key, and hold a checkpoint, in their own words.

    Args: as `fit`. `pay` is called when all that can be refused has been, before anything is drawn,
        with the name of the run in the checkpoint, if there is one.

    Raises:
        ValueError: as `fit`.
        OSError: as `fit`.
    """
    flag("keep_withheld", keep_withheld)
    if is_traced(*jax.tree.leaves((key, table, recipe, public_key))):
        raise ValueError(
            "dpbt.fit checks and pads its table on the host, so it runs outside of jit and vmap; "
            "map dpbt.boost over keys, tables and recipes, and take boosted.model(table, recipe)"
        )
    if isinstance(table, BlockTable):
        if keep_withheld:
            raise ValueError("keep_withheld is for tables in memory")
        run = blocks.Run(key, table, recipe, public_key, float(memory), threads, progress)
        return run.learn(checkpoint, pay)
    if checkpoint is not None:
        raise ValueError("checkpoint is for tables in blocks, which dpbt.convert writes")
    return _in_memory(key, table, recipe, public_key, pay, memory, keep_withheld)


# Tables in memory.

_Ran = tuple[Transcript, Hypotheses, Array]
"""(transcript, hypotheses, intercept): all that a model reads."""


def _run(key: Array, table: Table, recipe: Recipe, public_key: Array | None, batch: int) -> _Ran:
    """A run in one program."""
    ran = sampled(key, prepared_table(table, recipe), recipe, public_key, batch)
    return Transcript(*ran.kept), ran.hypotheses, ran.line[1]


_compiled = jax.jit(_run, static_argnames="batch")
_compiled_sooner = jax.jit(_run, static_argnames="batch", compiler_options=compiling.OLDER_EMITTER)


def _in_memory(
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None,
    pay: Callable[[str | None], None] | None,
    memory: float,
    keep_withheld: bool,
) -> Model:
    checks.check_run(table, recipe)
    table = checks.on_device(table)
    checks.check(key, table, recipe, public_key)
    checks.check_independent(recipe)
    specs.check_public_key(recipe, public_key)
    limit = float(positive("memory", memory))
    if pay is not None:
        pay(None)

    padded = shapes.padded(table)
    room = dataclasses.replace(recipe, capacity=shapes.bucket(recipe.capacity))
    batch = 0
    if recipe.independent:
        each = side_by_side_bytes(table.target.shape[0], recipe)
        batch = int(np.clip(limit / 16 / each, 1, 64))
    run = _compiled_for(padded, room)
    transcript, hypotheses, intercept = run(key, padded, room, public_key, batch=batch)
    return model_of(hypotheses, transcript, recipe, table, keep_withheld, keys.kind(key), intercept)


def _compiled_for(table: Table, recipe: Recipe) -> Callable[..., _Ran]:
    """The program that runs a recipe on a table, compiled sooner where the run is short.

    Only oblivious and random trees are compiled sooner, and 1-rules on weights of their own row.
    Their releases are the same, bit for bit, as they are draws from exact sums. Those of a number
    are not, as the start and the unit that follow from its histogram round in another way. So do
    scores of greedy trees, and programs of LazyBB take longer to compile. The choice follows from
    what is public.
    """
    device = next(iter(table.cells.devices()))
    short = compiling.is_short(int(recipe.rows), recipe.capacity)
    learner = recipe.learner
    exact = pricing.in_one_pass(recipe)
    same_bits = exact and learner.hypotheses.response != NUMBER
    sooner = short and same_bits and compiling.may_choose(device.platform)
    return _compiled_sooner if sooner else _compiled


def model_of(
    hypotheses: Hypotheses,
    transcript: Transcript,
    recipe: Recipe,
    table: Table,
    keep_withheld: bool,
    key: str | None,
    intercept: Array,
) -> Model:
    """The model of a run on a padded table, with room for more rounds than the recipe has.

    Of the table it keeps the public questions and the kind of its rows; of the key, its kind.
    """
    rows = table.cells.shape[0]

    def of_rows(release: Release, axis: int) -> Release:
        """The release. Arrays of withheld sites lose the places of padded rows on the axis."""
        padded = shapes.row_bucket(rows)
        return {
            site: jnp.take(array, jnp.arange(rows), axis=axis)
            if site in recipe.learner.traits.withheld and array.shape[axis : axis + 1] == (padded,)
            else array
            for site, array in release.items()
        }

    rounds = shapes.first(of_rows(transcript.rounds, 1), recipe.capacity)
    opening, closing = (of_rows(once, 0) for once in (transcript.prologue, transcript.epilogue))
    transcript = Transcript(opening, rounds, closing)
    if not keep_withheld:
        transcript = without_withheld(transcript, recipe.learner)
    return Model(
        shapes.first(hypotheses, recipe.capacity),
        intercept,
        transcript,
        recipe,
        table.questions,
        features=table.cells.shape[1],
        dtype=str(table.cells.dtype),
        key=key,
    )
