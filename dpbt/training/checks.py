"""Checks of the inputs of a run, all made before anything is drawn.

Public arguments are refused by name. Of private ones only the number of rows is refused, and it is
not shown.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import types
from dpbt.common.validate import is_traced, show_value
from dpbt.data import column_types, domains
from dpbt.data.blocks import BlockTable
from dpbt.data.splits import as_array
from dpbt.privacy import boundary, keys
from dpbt.privacy.draw_dependencies import draw_specs_of_phase
from dpbt.privacy.jax_flags import check_jax_flags
from dpbt.types import (
    Array,
    MultiProgramRecipe,
    Phase,
    Recipe,
    Site,
    Table,
    TableForm,
    Transcript,
)

_ARRAYS = ("bins", "target", "present", "weight", "declared")
"""The fields of a table that are arrays."""


def table_with_checked_arrays(table: Table) -> Table:
    """Check that the fields and the splits of a table are arrays, and return it with arrays.

    Raises:
        ValueError: naming a field that is no array, as `as_array`.
    """
    arrays = {
        name: as_array(f"table.{name}", getattr(table, name))
        for name in _ARRAYS
        if getattr(table, name) is not None
    }
    if table.splits is None:
        return table._replace(**arrays)
    arrays_of_splits = {
        name: as_array(f"splits.{name}", array)
        for name, array in table.splits._asdict().items()
        if array is not None
    }
    return table._replace(**arrays, splits=table.splits._replace(**arrays_of_splits))


def check_table(table: object) -> None:
    """Check that an argument is a table in memory, and that its arrays have the same rows.

    Raises:
        ValueError: naming the type of another argument, or saying that the rows differ. No length
            is shown.
    """
    if isinstance(table, BlockTable):
        raise ValueError(
            "only dpbt.fit learns from a table in blocks; give a table of dpbt.table here"
        )
    if not isinstance(table, Table):
        raise ValueError(f"expected a table, as dpbt.table makes it, got {type(table).__name__}")
    weight = () if table.weight is None else (table.weight,)
    if len({np.shape(array)[:1] for array in (*table[:3], *weight)}) > 1:
        raise ValueError("bins, target, present and weight must have the same rows, and do not")
    shape = np.shape(table.bins)
    domain = table.domain
    if domain is None or len(shape) != 2 or not hasattr(table.bins, "dtype"):
        return  # what reads the table refuses it, if it is none
    has_exact_cells = table.splits is None and table.bins.dtype == np.float32
    num_columns = len(domains.splits(domain).attribute) if has_exact_cells else len(domain)
    if shape[1] != num_columns:
        raise ValueError(
            f"table.bins must have {num_columns} columns, as the table's domain says, got "
            f"{shape[1]}"
        )


def check_table_and_recipe(table: object, recipe: object) -> None:
    """Check that a table and a recipe fit each other, as far as their static parts say.

    The recipe must hold one setting. Every entry calls it, under tracing too: shapes, dtypes and
    domains are known there. What public arrays hold, such as splits, is checked where they are not
    traced.

    Raises:
        ValueError: saying what was expected, or as `check_jax_flags`, `check_table` and
            `Training.check_table`. Also for a table of another domain or target than the recipe's,
            for a site that two phases draw or that is withheld and not drawn, and for a recipe of
            fewer rows of a user than the table has.
    """
    check_jax_flags()
    check_table(table)
    assert isinstance(table, Table)
    if isinstance(recipe, MultiProgramRecipe):
        raise ValueError(
            "of settings that run several programs only dpbt.boost takes all; "
            "recipes.setting(recipe, index) has the recipe of one setting"
        )
    if not isinstance(recipe, Recipe):
        raise ValueError(f"expected a recipe of dpbt.recipes, got {type(recipe).__name__}")
    if np.ndim(recipe.rows) > 0:
        raise ValueError("a run takes one setting; vmap dpbt.boost, or take one by recipes.setting")
    phases = recipe.learner.phases
    if len(phases) > 1:
        boundary.check_sites_differ_between_phases(
            **{phase.name: sites_of_phase(recipe, phase) for phase in phases}
        )
    check_withheld_sites(recipe)
    domains.check_same_domain(table.domain, recipe.domain, "the table", "the recipe")
    table = table_with_checked_arrays(table)
    with contextlib.suppress(*_NEEDS_VALUES):  # of a user's check that reads traced splits
        recipe.learner.training.check_table(_with_one_absent_row(table))
    _check_array_types(table, recipe)
    _check_same_target_if_known(table, recipe)
    if (table.rows_per_user or 0) > recipe.max_rows_per_user:
        raise ValueError(
            f"the table has up to {table.rows_per_user} rows of a user, so give the recipe "
            f"max_rows_per_user={table.rows_per_user}; it was made for {recipe.max_rows_per_user}"
        )
    if table.weight is not None and recipe.weight_update.coupled:
        raise ValueError(
            f"{recipe.name} derives the weights of all rows together, so the table must not have "
            "weights of rows; make it without `sample_weight` and `class_weight`"
        )


def _check_array_types(table: Table, recipe: Recipe) -> None:
    """Refuse a table whose arrays of rows have another dtype or rank than the recipe reads."""
    response = recipe.learner.response
    dtypes = {"target": response.target_dtype, "present": "bool", "weight": "float32"}
    for name, dtype in dtypes.items():
        array = getattr(table, name)
        if array is not None and (array.dtype != dtype or array.ndim != 1):
            raise ValueError(
                f"table.{name} must be {dtype} of rank 1, got "
                f"{types.describe_dtype_and_rank(array)}; "
                f"{recipe.name} predicts {response.description}, so give both the same target="
            )


def _check_same_target_if_known(table: Table, recipe: Recipe) -> None:
    """Refuse a table that was declared with another target than the recipe's.

    Where either target is unknown or traced, nothing is refused.
    """
    if table.declared is None or recipe.target is None or is_traced(table.declared):
        return
    fingerprint = column_types.target_fingerprint(recipe.target)
    if not np.array_equal(np.asarray(table.declared), fingerprint):
        raise ValueError(
            f"the table was made with another target than the recipe's, {show_value(recipe.target)}"
        )


_NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""What JAX raises where a function reads the values of a traced array."""


def _with_one_absent_row(table: Table) -> Table:
    """A copy of a table that has one absent row in place of its rows.

    It is for checks that an author wrote. Arrays of rows may be private, or traced; a check reads
    their dtypes and widths.
    """
    arrays = {name: getattr(table, name) for name in ("bins", "target", "present", "weight")}
    absent = {
        name: np.zeros((1, *array.shape[1:]), array.dtype)
        for name, array in arrays.items()
        if array is not None
    }
    return table._replace(**absent)


def sites_of_phase(recipe: Recipe, phase: Phase) -> list[Site]:
    """The names of the draws of a phase, in their order."""
    return [draw.site for draw in draw_specs_of_phase(recipe, phase)]


def check_declared_independence_of_scores(recipe: Recipe) -> None:
    """Refuse a weight update that reads scores or their bound, and declares that it does not.

    The declaration is `reads_scores=False`. Its rounds would run side by side, and read other
    scores than rounds that run one after the other. After a prologue rounds do not run side by
    side, because weights may follow from its release.

    Raises:
        ValueError: saying so.
    """
    if recipe.weight_update.reads_scores or recipe.learner.prologue is not None:
        return
    weight_update = recipe.weight_update
    training = recipe.learner.training
    rows = training.prepare(training.example_table())
    public = recipe.public()
    scores = jnp.zeros((*weight_update.response.score_axes, *rows.present.shape), jnp.float32)

    def weigh(scores: Array, bound: Array) -> object:
        return weight_update.weigh(scores, bound, rows, public)

    jaxpr = jax.make_jaxpr(weigh)(scores, jnp.float32(0)).jaxpr
    variables_read = [variable for step in jaxpr.eqns for variable in step.invars] + jaxpr.outvars
    if set(map(id, variables_read)) & set(map(id, jaxpr.invars)):
        raise ValueError(f"{weight_update.identity} declares reads_scores=False, and reads scores")


def check_transcript(transcript: object, table: Table, recipe: Recipe) -> None:
    """Check that an argument is a transcript of a recipe on a table of this form.

    Args:
        transcript: the argument to check.
        table: the table that it is scored on.
        recipe: of the run, without an axis of settings.

    Raises:
        ValueError: saying what it is instead, naming the sites that it lacks or has besides, or the
            first difference of the tables.
    """
    if not isinstance(transcript, Transcript):
        raise ValueError(f"expected a transcript of a run, got {type(transcript).__name__}")
    boundary.check_sites_differ_between_phases(**transcript.releases)
    _check_sites_and_rounds(transcript, recipe)
    if transcript.recorded_on is not None:
        _check_table_form_of_transcript(TableForm.of_table(table), transcript.recorded_on)


def _check_sites_and_rounds(transcript: Transcript, recipe: Recipe) -> None:
    """Refuse a transcript of other sites than the recipe draws, or of another `max_rounds`."""
    sites_by_phase = {
        phase.name: set(sites_of_phase(recipe, phase)) for phase in recipe.learner.phases
    }
    for phase_name, release in transcript.releases.items():
        sites = sites_by_phase.get(phase_name, set())
        if set(release) == sites:
            continue
        message = (
            f"the transcript is of another recipe: sites {sorted(release)} of its {phase_name}, "
            f"where {recipe.name} draws {sorted(sites)}"
        )
        if left_out := sites & set(recipe.learner.withheld) - set(release):
            message += f"; a model leaves out {sorted(left_out)}, and dpbt.boost returns all"
        raise ValueError(message)
    for site, array in transcript.rounds.items():
        rounds = np.shape(array)[:1]
        if rounds != (recipe.max_rounds,):
            raise ValueError(
                f"the transcript is of another recipe: {site!r} has {rounds[0] if rounds else 'no'}"
                f" rounds, and the recipe has room for {recipe.max_rounds}"
            )


def _check_table_form_of_transcript(form: TableForm, transcript_form: TableForm) -> None:
    """Refuse a table of another form than the one that a transcript was recorded on."""
    domains.check_same_domain(form.domain, transcript_form.domain, "the table", "the transcript")
    for field, description in (
        ("features", "columns"),
        ("dtype", "as the dtype of bins"),
        ("splits", "splits"),
        ("attributes", "attributes"),
    ):
        value = getattr(form, field)
        recorded_value = getattr(transcript_form, field)
        if value != recorded_value:
            raise ValueError(
                f"the transcript was recorded on another table: this one has {value} "
                f"{description}, and that one had {recorded_value}"
            )


def check_keys(key: Array, recipe: Recipe, public_key: Array | None) -> None:
    """Check the noise key and the public key of a run.

    It is traceable; what traced keys hold is not compared.

    Args:
        key: one typed key.
        recipe: of the run, without an axis of settings.
        public_key: another typed key that is independent of `key`; or None, if the recipe draws no
            public structure.

    Raises:
        ValueError: if one of these does not hold.
    """
    keys.check_single_key(key)
    if public_key is not None:
        keys.check_single_key(public_key, "public_key")
        has_same_purpose = keys.key_purpose(key) == keys.key_purpose(public_key)
        if (
            has_same_purpose
            and not is_traced(key, public_key)
            and np.array_equal(jax.random.key_data(key), jax.random.key_data(public_key))
        ):
            raise ValueError("public_key must be independent of key: what it draws is published")
    public_sites = _public_sites(recipe)
    if public_sites and public_key is None:
        raise boundary.missing_public_key_error(public_sites[0])


def public_key_if_drawn(recipe: Recipe, public_key: Array | None) -> Array | None:
    """The public key if the recipe draws public structure, or else None."""
    return public_key if _public_sites(recipe) else None


def _public_sites(recipe: Recipe) -> list[Site]:
    """The names of the public draws of a recipe, in their order."""
    return [
        spec.site
        for phase in recipe.learner.phases
        for spec in draw_specs_of_phase(recipe, phase)
        if spec.mechanism.public
    ]


def check_withheld_sites(recipe: Recipe) -> None:
    """Check that a learner draws all the sites that it withholds.

    Raises:
        ValueError: naming the sites that it withholds and does not draw.
    """
    if not recipe.learner.withheld:
        return
    sites = {site for phase in recipe.learner.phases for site in sites_of_phase(recipe, phase)}
    if unknown := set(recipe.learner.withheld) - sites:
        raise ValueError(
            f"the learner withholds {sorted(unknown)}, which it does not draw; its sites are "
            f"{sorted(sites)}"
        )


def check_number_of_rows(recipe: Recipe, *, num_present: int, capacity: int) -> None:
    """Refuse a table with more present rows than the noise was set for.

    The error does not show how many there are. Under replace-one the capacity of the table is
    public, and is compared too. The number of present rows may be smaller, because a row with an
    undeclared label is masked out.

    Args:
        recipe: of the run, without an axis of settings.
        num_present: how many rows are present; private.
        capacity: how many rows the table has room for.

    Raises:
        ValueError: for too many present rows; under replace-one also for too little capacity.
    """
    rows = int(recipe.rows)
    if num_present > rows:
        raise ValueError(
            f"the recipe's noise was set for at most rows={rows}, the table has more rows present"
        )
    if recipe.relation is types.REPLACE_ONE and capacity < rows:
        raise ValueError(
            f"under replace_one the table has room for fewer than rows={rows}; set rows to their "
            "number, or choose relation='add_remove' for a bound on it"
        )


def check_bound_is_one_number(bound: Array) -> Array:
    """Check that an author's `Training.bound` returned one float32, and return it.

    It is traceable.

    Raises:
        ValueError: naming the function, the shape that it should have returned, and that it did.
    """
    if jnp.shape(bound) == () and is_promoted_to_float32(bound):
        return bound
    raise ValueError(
        "Training.bound must return float32[]: one bound on what the hypothesis predicts for every "
        f"possible row; it returned {dtype_and_shape(bound)}"
    )


def is_promoted_to_float32(array: Array) -> bool:
    """Whether the sum of an array and of float32 scores is float32."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.promote_types(jnp.result_type(array), jnp.float32) == jnp.float32


def dtype_and_shape(array: Array) -> str:
    """The dtype and the shape of an array of public shape, as errors show them."""
    return f"{jnp.result_type(array)}[{', '.join(map(str, jnp.shape(array)))}]"
