"""The pure entry `boost`, and runs with fresh draws on a table in memory.

`boost` is traceable: vmap it over keys, `present` masks and recipes.
"""

from __future__ import annotations  # so that help() shows the types by their names

from collections.abc import Sequence
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from dpbt.common import compilation, devices
from dpbt.models.model import Model
from dpbt.privacy import answers
from dpbt.privacy.dependencies import priced_draws, priced_draws_of_phases
from dpbt.privacy.price_check import PricedDraws
from dpbt.public_types import redacted_repr
from dpbt.training import checks, round_reports, run_keys, steps
from dpbt.training.phases import PhaseValues, fitted_parts
from dpbt.training.scan import Answer, RunResult, run_in_memory
from dpbt.training.table_entry import prepare_table, without_domain
from dpbt.types import (
    Array,
    Hypotheses,
    Phase,
    Prepared,
    Recipe,
    Table,
    TableForm,
    Transcript,
    View,
)


class Boosted(NamedTuple):
    """What `boost` returns; its `model` predicts other rows.

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
        run_parts = fitted_parts(releases.values(), self.hypotheses, intercept, recipe)
        return Model.from_run(run_parts, recipe, table)


def boost(key: Array, table: Table, recipe: Recipe, public_key: Array | None = None) -> Boosted:
    """Run T rounds of a recipe. The first T rounds are the same whatever its `max_rounds`.

    The guarantee is that of `ledger(recipe)`, for tables of at most `rows` rows. Of a larger table
    only the first `rows` present rows count (`table_entry.mask_beyond_rows`). The key is a secret
    of the release. Use it on one table only. On two tables it makes the same noise, even if one is
    an update of the other. The same rows under another domain, with other weights or with exchanged
    classes are another table.

    It runs as one compiled program, of which the last used are kept.
    Like any function of JAX it then returns before the work is done; `jax.block_until_ready` waits.

    Args:
        key: a typed key; see `keys`. Recipes that differ in any number have independent noise
            under it (`run_keys.derive_recipe_key`).
        table: N rows.
        recipe: of the run, without an axis of settings.
        public_key: of public structure, such as a random tree's splits; needed if the learner
            draws any. It must be independent of `key`, because what it draws is published.

    Raises:
        ValueError: for public structure without a public key, and as
            `table_entry.prepare_table` and `checks.checked_public_key`. All that is static is
            checked under jit and vmap, too.
    """
    checks.check_run(table, recipe)
    checks.checked_public_key(key, recipe, public_key)
    bare_table, bare_recipe = without_domain(table), without_domain(recipe)
    priced = priced_draws_of_phases(bare_recipe)
    boosted = _compiled_boost(key, bare_table, bare_recipe, public_key, priced=priced)
    transcript = boosted.transcript._replace(recorded_on=TableForm.of(table))
    return boosted._replace(transcript=transcript)


def _boost(
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None,
    priced: tuple[PricedDraws, ...],
) -> Boosted:
    """`boost` of a table whose form the caller records; `priced` is the key of its program."""
    del priced
    class_axes = (None,) * len(recipe.learner.response.axes)
    divisions: tuple[Any, ...] = (  # of the fields of `Boosted`
        devices.REPLICATED,
        devices.REPLICATED,
        PartitionSpec(*class_axes, *devices.division_of(table.present)),
    )
    return devices.run_divided_by_compiler(
        _boost_in_program,
        key,
        table,
        recipe,
        public_key,
        divisions=Boosted(*divisions),
    )


def _boost_in_program(
    key: Array, table: Table, recipe: Recipe, public_key: Array | None
) -> Boosted:
    """`_boost`, in a program that a compiler may divide among devices."""
    inputs = key, table, recipe, public_key
    key, table, recipe, public_key = devices.vary_like(inputs, inputs)
    rows = prepare_table(table, recipe)
    checks.checked_public_key(key, recipe, public_key)
    ran = run_with_fresh_draws(key, rows, recipe, public_key)
    assert ran.scores is not None
    return Boosted(Transcript(*ran.kept), ran.hypotheses, ran.scores[0])


_compiled_boost = compilation.jit_with_bounded_cache(static_argnames=("priced",))(_boost)


def num_compiled_programs() -> int:
    """How many programs `boost` has compiled in this process, without those inside others."""
    return _compiled_boost.num_compiled


def run_with_fresh_draws(
    key: Array,
    rows: Prepared,
    recipe: Recipe,
    public_key: Array | None,
    num_side_by_side: int = 0,
    run_number: Array | None = None,
) -> RunResult:
    """A run in memory whose draws are fresh, and which keeps them; traceable.

    Args:
        key: of the noise.
        rows: the prepared table.
        recipe: of the run, without an axis of settings.
        public_key: of the public structure, if the recipe draws any.
        num_side_by_side: how many rounds run side by side, as `run_in_memory` takes it.
        run_number: i32[] of `round_reports.report_rounds`, to report each round as it draws; None
            to report none.

    Raises:
        ValueError: for public structure without a public key, and for two draws of one name.
    """

    def sample_draws(
        phase: Phase, entry: tuple[Array, Array | None], views: Sequence[View]
    ) -> Answer:
        if run_number is not None and phase.repeats:
            round_reports.report_round(run_number, views[0].public.round)
        key, public_key = entry
        priced = priced_draws(recipe, phase)
        release = answers.sample(phase.program, key, public_key, views[0], priced)
        return Answer(release, release)

    noise = run_keys.phase_keys(run_keys.derive_recipe_key(key, recipe), recipe)
    pairs = zip(noise, run_keys.phase_keys(public_key, recipe), strict=True)
    return run_in_memory(recipe, [rows], sample_draws, PhaseValues(*pairs), num_side_by_side)
