"""`boost` and `fit`: the two entries to a run.

`boost` is pure and traceable: vmap it over keys, `present` masks and recipes. `fit` takes every
recipe and every table. It checks its input on the host, and lets a filter pay. It chooses how the
rounds run: in one compiled program on a table in memory, side by side where they do not wait for
each other, or in passes over a table in blocks.
"""

from __future__ import annotations  # so that help() shows the types by their names

import contextlib
import dataclasses
import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpbt.common import compilation
from dpbt.common.progress import Progress, ReportProgress, ignore_progress
from dpbt.common.validate import check_interval, is_traced
from dpbt.data import tables
from dpbt.data.blocks import BlockTable
from dpbt.models.model import Model
from dpbt.privacy import keys
from dpbt.privacy.dependencies import draw_specs_of_phase
from dpbt.privacy.payment import PrivacyFilter
from dpbt.privacy.stages import pass_stages
from dpbt.public_types import redacted_repr
from dpbt.training import absent_row, checks, steps
from dpbt.training.boosting import run_with_fresh_draws
from dpbt.training.round_reports import report_rounds
from dpbt.training.run import FittedParts, fitted_parts
from dpbt.types import Array, Hypotheses, Recipe, Table, TableForm, Transcript

if TYPE_CHECKING:
    from dpbt.training.blocks import Pay
    from dpbt.training.checkpoint import Checkpoint


class Boosted(NamedTuple):
    """What `boost` returns; its `model` predicts other rows.

    Attributes:
        transcript: all that left the private side, with the sites that the learner withholds from a
            model.
        hypotheses: what follows from it, such as trees, with a leading axis for rounds. They are
            those of the model, after the epilogue.
        scores: f32[N], or f32[K, N] with several classes, of every row, absent ones too (such as a
            test fold): the model applied to private rows. They are for evaluation and are not part
            of the release.
    """

    transcript: Transcript
    hypotheses: Hypotheses
    scores: Array

    __repr__ = redacted_repr

    def model(self, table: Table, recipe: Recipe) -> Model:
        """The model, which predicts other rows. It is pure, so it can be jitted and vmapped.

        Args:
            table: as `boost` was given it; its public splits are kept.
            recipe: as `boost` was given it.

        Raises:
            ValueError: for another table or recipe, as far as that is static, as `replay`.
        """
        checks.check_run(table, recipe)
        checks.check_transcript(self.transcript, table, recipe)
        releases = self.transcript.releases
        intercept = steps.score_line(recipe, releases["prologue"], releases["epilogue"]).intercept
        learned = fitted_parts(releases.values(), self.hypotheses, intercept, recipe)
        return Model.of(learned, recipe, table)


def boost(key: Array, table: Table, recipe: Recipe, public_key: Array | None = None) -> Boosted:
    """Run T rounds of a recipe. The first T rounds are the same whatever the recipe's capacity.

    The guarantee is that of `ledger(recipe)`, for tables of at most `rows` rows. Of a larger table
    only the first `rows` present rows count (`checks.mask_beyond_rows`). The key is a secret of the
    release. Use it on one table only. On two tables it makes the same noise, even if one is an
    update of the other. The same rows under another domain, with other weights or with exchanged
    classes are another table.

    It runs as one compiled program, of which the last used are kept.
    Like any function of JAX it then returns before the work is done; `jax.block_until_ready` waits.

    Args:
        key: a typed key; see `keys`. Recipes that differ in any number have independent noise
            under it (`run_keys.derive_recipe_key`).
        table: N rows.
        recipe: one setting (no leading axes).
        public_key: of public structure, such as a random tree's splits; needed if the learner
            draws any. It must be independent of `key`, because what it draws is published.

    Raises:
        ValueError: for public structure without a public key, and as `checks.prepare_table` and
            `checks.check_keys`. All that is static is checked under jit and vmap, too.
    """
    checks.check_run(table, recipe)
    checks.check_keys(key, recipe, public_key)
    bare_table, bare_recipe = checks.without_domain(table), checks.without_domain(recipe)
    boosted = _compiled_boost(key, bare_table, bare_recipe, public_key)
    transcript = boosted.transcript._replace(recorded_on=TableForm.of(table))
    return boosted._replace(transcript=transcript)


def _boost(key: Array, table: Table, recipe: Recipe, public_key: Array | None) -> Boosted:
    """`boost` of a table whose form the caller records."""
    rows = checks.prepare_table(table, recipe)
    checks.check_keys(key, recipe, public_key)
    ran = run_with_fresh_draws(key, rows, recipe, public_key)
    assert ran.scores is not None
    return Boosted(Transcript(*ran.kept), ran.hypotheses, ran.scores[0])


_compiled_boost = compilation.jit_with_bounded_cache()(_boost)


MEMORY = 4 * 2**30
"""How many bytes a fit may take by default."""


def fit(
    key: Array,
    table: Table | BlockTable,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    filter: PrivacyFilter | None = None,
    checkpoint: str | Path | None = None,
    memory: float = MEMORY,
    threads: int | None = None,
    progress: ReportProgress | None = None,
) -> Model:
    """Learn an ensemble: a function of noisy releases alone, with the guarantee of its ledger.

    A table in blocks has the releases of the same rows in memory under the same keys, bit for bit,
    if it has at most `types.MAX_ROWS` rows. Larger ones have sums and releases of 64 bits, and
    post-processing reads the nearest float32. The size of blocks, the memory and the threads change
    nothing. Nor does the order of the rows, unless a forest is `disjoint`, where the place of a row
    decides which tree has it. Greedy trees are worked out in double precision, and two programs
    may round the last bit of a leaf in different ways, though rarely (docs/scaling.md).

    It returns when the work is done. The programs of the last
    `compilation.MAX_PROGRAMS_OF_FUNCTION` kinds of recipes and tables stay in memory, and those
    that were not used for the longest time are dropped.

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
        progress: called with a `progress.Progress`, of public numbers alone, as the rounds go on.
            Of a table in memory only long runs tell, whose program is then not kept on disk.

    Raises:
        ValueError: if any of these does not hold, for what the filter does not pay, for a recipe
            that reads no blocks, a damaged block, and a checkpoint of another run or in use. Of
            what is private only the number of present rows is refused (`checks.check_fit`). No cell
            and no length of the table is shown.
        OSError: if a file cannot be read or written.
    """
    pay = None
    if filter is not None:
        if not isinstance(filter, PrivacyFilter):
            raise ValueError(f"filter must be a dpbt.Filter, got {type(filter).__name__}")
        if jax.process_count() > 1:
            raise ValueError(
                "several processes would each pay for the same fit; let the first one take() the "
                "recipe with the key, and call dpbt.fit without a filter in all"
            )
        checks.check_run(
            absent_row.absent_row(table) if isinstance(table, BlockTable) else table, recipe
        )
        keys.check_single_key(key)
        filter.check(recipe, None if checkpoint is None else key)
        pay = filter.payment_callback(recipe.on(table), key)
    more: dict[str, Any] = {"threads": threads, "progress": progress, "checkpoint": checkpoint}
    model = fit_unwarned(key, table, recipe, public_key, pay=pay, memory=memory, **more)
    keys.warn_of_research_key(key)
    return model


def fit_unwarned(
    key: Array,
    table: Table | BlockTable,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    pay: Pay | None = None,
    memory: float = MEMORY,
    checkpoint: str | Path | Checkpoint | None = None,
    progress: ReportProgress | None = None,
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
        raise ValueError("dpbt.fit runs outside of jit and vmap; map dpbt.boost")
    if isinstance(table, BlockTable):
        from dpbt.training import blocks

        in_blocks |= {"pay": pay, "memory": memory, "checkpoint": checkpoint, "progress": progress}
        learned = blocks.fit_in_blocks(key, table, recipe, public_key, **in_blocks)
        learned = jax.block_until_ready(learned)
        return Model.of(learned, recipe, absent_row.absent_row(table), keys.kind_of_key(key))
    if checkpoint is not None:
        raise ValueError("checkpoint is for tables in blocks, which dpbt.convert writes")

    # A table in memory.
    checks.check_run(table, recipe)
    table = checks.table_on_device(table)
    checks.check_fit(key, recipe, public_key)
    checks.check_rows(int(np.sum(np.asarray(table.present))), table.bins.shape[0], recipe)
    memory = float(check_interval("memory", memory, "(0, inf]"))
    if pay is not None:
        pay(None)
    bare_recipe = checks.without_domain(recipe)  # so that domains share programs
    recipe_with_room = dataclasses.replace(
        bare_recipe, capacity=tables.round_up_to_bucket(recipe.capacity)
    )
    is_short = int(recipe_with_room.rows) * recipe_with_room.capacity <= SHORT_RUN
    run = _compiled_sooner if is_short and _may_compile_sooner(recipe_with_room) else _compiled
    batch = _num_rounds_side_by_side(recipe, num_rows=table.target.shape[0], memory=memory)
    report_progress = None if progress is None or progress is ignore_progress else progress
    report_round = None
    if report_progress is not None and not (is_short or batch):
        num_rounds = int(recipe.rounds)
        report_round = lambda done: report_progress(Progress("rounds", done, num_rounds))  # noqa: E731
    with report_rounds(report_round) as run_number:
        rows = checks.without_domain(tables.pad_to_bucket(table))
        learned = run(key, rows, recipe_with_room, public_key, run_number, batch=batch)
        # A Ctrl-C during the work ends the fit, and a clock around it sees all of the work.
        learned = jax.block_until_ready(learned)
    return Model.of(learned, recipe, table, keys.kind_of_key(key))


def _num_rounds_side_by_side(recipe: Recipe, *, num_rows: int, memory: float) -> int:
    """How many rounds of a table in memory run side by side; 0 to run one after the other.

    Args:
        recipe: one setting.
        num_rows: of the table.
        memory: in bytes; rounds side by side take about a sixteenth of it.
    """
    if not recipe.independent:
        return 0
    specs = draw_specs_of_phase(recipe, recipe.learner.round)
    num_outputs = sum(spec.output.size for spec in specs if spec.mechanism.price.reads_rows)
    bytes_of_round = 64 * num_rows + 256 * num_outputs
    return int(np.clip(memory / 16 / bytes_of_round, 1, 64))


def _may_compile_sooner(recipe: Recipe) -> bool:
    """Whether the older emitter gives the same releases, bit for bit; it is public.

    It does if all draws of a round are from sums that do not wait for each other. Those of a number
    are not the same, as the start and the unit that follow from its histogram round in another way.
    So do scores of greedy trees, and programs of weights that depend on all rows take longer to
    compile.
    """
    if recipe.learner.response.is_number or recipe.weight_update.coupled:
        return False
    if not may_choose_compiler_options():
        return False
    with contextlib.suppress(ValueError):  # reads all rows at once
        return len(pass_stages(recipe, recipe.learner.round)) == 1
    return False


def _run(
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None,
    run_number: Array | None,
    batch: int,
) -> FittedParts:
    """A run in one program."""
    rows = checks.prepare_table(table, recipe)
    ran = run_with_fresh_draws(key, rows, recipe, public_key, batch, run_number)
    return fitted_parts(ran.kept, ran.hypotheses, ran.intercept, recipe)


OLDER_EMITTER = {"xla_cpu_use_fusion_emitters": False}
"""XLA's former way to turn loops into code for a processor: it compiles sooner and runs longer."""

_compiled = compilation.jit_with_bounded_cache(static_argnames=("batch",))(_run)
_compiled_sooner = compilation.jit_with_bounded_cache(
    static_argnames=("batch",), compiler_options=OLDER_EMITTER
)(_run)


def num_compiled_programs() -> int:
    """How many programs `fit` in memory and `boost` have compiled so far in this process."""
    return sum(run.num_compiled for run in (_compiled, _compiled_sooner, _compiled_boost))


SHORT_RUN = 2**23
"""A fit of at most so many rows times rounds is compiled sooner, if it may be.

A fit of oblivious trees then compiles in about two thirds of the time, and takes 1.3 to 1.8 times
as long to run. That is at most 50 ms more for each fit, and seconds less for the first one.
"""


def may_choose_compiler_options() -> bool:
    """Whether programs are compiled in a way of our choice.

    They are not where the user set `JAX_DISABLE_MOST_OPTIMIZATIONS`, nor by versions of jaxlib that
    are not known to take the options, nor for anything but a processor.
    """
    version = tuple(int(part) for part in importlib.metadata.version("jaxlib").split(".")[:2])
    chosen = jax.config.read("jax_disable_most_optimizations")
    return jax.default_backend() == "cpu" and (0, 8) <= version <= (0, 10) and not chosen
