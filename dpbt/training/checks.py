"""What a run refuses before anything is drawn, and how a table enters it.

Public arguments are refused by name. Of private ones only the number of rows is refused, and it is
not shown.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from dpbt import types
from dpbt.common.validate import is_traced, show_value
from dpbt.data import domains, kinds
from dpbt.data.blocks import BlockTable
from dpbt.data.splits import as_device_array, check_array
from dpbt.privacy import boundary, keys
from dpbt.privacy.dependencies import draw_specs_of_phase
from dpbt.privacy.flags import check_flags
from dpbt.privacy.isolation import evaluate_isolated
from dpbt.types import Array, Phase, Prepared, Recipe, Site, Table, TableForm, Transcript

Domained = TypeVar("Domained", Table, Recipe)


def table_on_device(table: Table) -> Table:
    """The table's fields as device arrays.

    Raises:
        ValueError: as `as_device_array`.
    """
    return _with_arrays(table, as_device_array)


_ARRAYS = ("bins", "target", "present", "weight", "declared")
"""The fields of a table that are arrays."""


def _with_arrays(table: Table, change: Callable[[str, Any], Any]) -> Table:
    """The table with other arrays, of its splits, too; `change` is given the name of each."""
    splits = table.splits
    if splits is not None:
        splits = splits._replace(
            **{
                name: change(f"splits.{name}", array)
                for name, array in splits._asdict().items()
                if array is not None
            }
        )
    arrays = {name: getattr(table, name) for name in _ARRAYS}
    changed_arrays = {
        name: change(f"table.{name}", array) for name, array in arrays.items() if array is not None
    }
    return table._replace(**changed_arrays, splits=splits)


def without_domain(parts: Domained) -> Domained:
    """A table or a recipe that does not carry its domain, for programs that are compiled.

    The entries compare domains before, and a program that carried one would be compiled anew for
    each domain.
    """
    if isinstance(parts, Table):
        return parts._replace(domain=None)
    return dataclasses.replace(parts, domain=None)


def check_table(table: object) -> None:
    """Check that an argument is a table, whose arrays have the same rows; no length is shown.

    Raises:
        ValueError: saying what it is instead, or that they have not.
    """
    if isinstance(table, BlockTable):
        raise ValueError("a table in blocks is learned from by dpbt.fit alone")
    if not isinstance(table, Table):
        raise ValueError(f"expected a table, as dpbt.table makes it, got {type(table).__name__}")
    weight = () if table.weight is None else (table.weight,)
    if len({np.shape(array)[:1] for array in (*table[:3], *weight)}) > 1:
        raise ValueError("bins, target, present and weight must have the same rows, and do not")
    shape, domain = np.shape(table.bins), table.domain
    if domain is None or len(shape) != 2 or not hasattr(table.bins, "dtype"):
        return  # what reads the table refuses it, if it is none
    exact = table.splits is None and table.bins.dtype == np.float32
    width = len(domains.splits(domain).attribute) if exact else len(domain)
    if shape[1] != width:
        raise ValueError(
            f"table.bins must have {width} columns, as the table's domain says, got {shape[1]}"
        )


def check_run(table: object, recipe: object) -> None:
    """Check all that is static of what a run reads, and that the recipe holds one setting.

    Every entry calls it, under tracing too: shapes, dtypes and domains are known there. What public
    arrays hold, such as splits, is checked where they are not traced.

    Raises:
        ValueError: saying what was expected, or as `check_flags`, `check_table` and the check
            of the hypotheses. Also for a table of another domain or target than the recipe's, for a
            site that two parts of the run draw, and for a recipe of fewer rows of a user than the
            table has.
    """
    check_flags()
    check_table(table)
    assert isinstance(table, Table)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"expected a recipe of dpbt.recipes, got {type(recipe).__name__}")
    if np.ndim(recipe.rows) > 0:
        raise ValueError("a run takes one setting; vmap dpbt.boost, or take one by recipes.setting")
    phases = recipe.learner.phases
    if len(phases) > 1:
        boundary.check_sites(**{phase.name: sites_of_phase(recipe, phase) for phase in phases})

    # The domains, and the arrays of the table.
    domains.check_same_domain(table.domain, recipe.domain, "the table", "the recipe")
    table = _with_arrays(table, check_array)
    with contextlib.suppress(*_NEEDS_VALUES):  # of a user's check that reads traced splits
        recipe.learner.training.check_table(_without_rows(table))
    response = recipe.learner.response
    dtypes = {"target": response.dtype, "present": "bool", "weight": "float32"}
    for name, dtype in dtypes.items():
        array = getattr(table, name)
        if array is not None and (array.dtype != dtype or array.ndim != 1):
            raise ValueError(
                f"table.{name} must be {dtype} of rank 1, got {types.dtype_and_rank(array)}; "
                f"{recipe.name} predicts {response.words}, so give both the same target="
            )
    _check_same_target(table, recipe)
    if (table.rows_per_user or 0) > recipe.max_rows_per_user:
        raise ValueError(
            f"the table has up to {table.rows_per_user} rows of a user, so give the recipe "
            f"max_rows_per_user={table.rows_per_user}; it was made for {recipe.max_rows_per_user}"
        )
    if table.weight is not None and recipe.weight_update.coupled:
        raise ValueError(f"{recipe.name}: rows have no weights of their own there")


def _check_same_target(table: Table, recipe: Recipe) -> None:
    """Refuse a table of another declared target than the recipe's, where both are known."""
    if table.declared is None or recipe.target is None or is_traced(table.declared):
        return
    fingerprint = kinds.target_fingerprint(recipe.target)
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


def _without_rows(table: Table) -> Table:
    """The table with one absent row in place of its rows, for checks that an author wrote.

    Arrays of rows may be private, or traced; a check reads their dtypes and widths.
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


def check_independent(recipe: Recipe) -> None:
    """Refuse a weight update that declares `reads_scores=False` and reads scores or their bound.

    Its rounds would be made side by side, from other scores than those of one after the other.

    Raises:
        ValueError: saying so.
    """
    weight_update, training = recipe.weight_update, recipe.learner.training
    rows, public = training.prepare(training.example_table()), recipe.public()
    scores = jnp.zeros((*weight_update.response.axes, *rows.present.shape), jnp.float32)

    def weigh(scores: Array, bound: Array) -> object:
        return weight_update.weigh(scores, bound, rows, public)

    jaxpr = jax.make_jaxpr(weigh)(scores, jnp.float32(0)).jaxpr
    variables_read = [variable for step in jaxpr.eqns for variable in step.invars] + jaxpr.outvars
    if set(map(id, variables_read)) & set(map(id, jaxpr.invars)):
        raise ValueError(f"{weight_update.identity} declares reads_scores=False, and reads scores")


def check_transcript(transcript: object, table: Table, recipe: Recipe) -> None:
    """Check that an argument is a transcript of such a recipe on a table of such a form.

    Args:
        transcript: what may be one.
        table: that it is scored on, as `check_run` takes it.
        recipe: one setting.

    Raises:
        ValueError: saying what it is instead, naming the sites that it lacks or has besides, or the
            first difference of the tables.
    """
    if not isinstance(transcript, Transcript):
        raise ValueError(f"expected a transcript of a run, got {type(transcript).__name__}")
    boundary.check_sites(**transcript.releases)
    _check_sites_and_rounds(transcript, recipe)
    if transcript.recorded_on is not None:
        _check_same_form(TableForm.of(table), transcript.recorded_on)


def _check_sites_and_rounds(transcript: Transcript, recipe: Recipe) -> None:
    """Refuse a transcript of other sites than the recipe draws, or of another capacity."""
    sites_by_phase = {
        phase.name: set(sites_of_phase(recipe, phase)) for phase in recipe.learner.phases
    }
    for phase_name, release in transcript.releases.items():
        sites = sites_by_phase.get(phase_name, set())
        if set(release) == sites:
            continue
        words = (
            f"the transcript is of another recipe: sites {sorted(release)} of its {phase_name}, "
            f"where {recipe.name} draws {sorted(sites)}"
        )
        if left_out := sites & set(recipe.learner.withheld) - set(release):
            words += f"; a model leaves out {sorted(left_out)}, and dpbt.boost returns all"
        raise ValueError(words)
    for site, array in transcript.rounds.items():
        rounds = np.shape(array)[:1]
        if rounds != (recipe.capacity,):
            raise ValueError(
                f"the transcript is of another recipe: {site!r} has {rounds[0] if rounds else 'no'}"
                f" rounds, and the recipe has room for {recipe.capacity}"
            )


def _check_same_form(form: TableForm, recorded_form: TableForm) -> None:
    """Refuse a table of another form than the one that a transcript was recorded on."""
    domains.check_same_domain(form.domain, recorded_form.domain, "the table", "the transcript")
    for field, words in (
        ("features", "columns"),
        ("dtype", "as the dtype of bins"),
        ("splits", "splits"),
        ("attributes", "attributes"),
    ):
        value, recorded_value = getattr(form, field), getattr(recorded_form, field)
        if value != recorded_value:
            raise ValueError(
                f"the transcript was recorded on another table: this one has {value} {words}, and "
                f"that one had {recorded_value}"
            )


def check_fit(key: Array, recipe: Recipe, public_key: Array | None) -> Array | None:
    """Refuse what one fit cannot take, besides `check_run`, as far as that reads no private row.

    Args:
        key: one typed key.
        recipe: one setting.
        public_key: another typed key, or None.

    Returns:
        The public key, if the recipe draws public structure; None if it draws none.

    Raises:
        ValueError: as `check_keys` and `check_independent`.
    """
    public_key = check_keys(key, recipe, public_key)
    if not recipe.weight_update.reads_scores and recipe.learner.prologue is None:
        check_independent(recipe)  # after a prologue, weights may follow from its release
    return public_key


def check_keys(key: Array, recipe: Recipe, public_key: Array | None) -> Array | None:
    """Check the keys of a run; traceable, and what traced keys hold is not compared.

    Args:
        key: one typed key.
        recipe: one setting.
        public_key: another typed key that is independent of `key`, or None.

    Returns:
        The public key, if the recipe draws public structure; None if it draws none.

    Raises:
        ValueError: if one of these does not hold, and for a site that is withheld and not drawn.
    """
    keys.check_single_key(key)
    if public_key is not None:
        keys.check_single_key(public_key, "public_key")
        same_kind = keys.key_purpose(key) == keys.key_purpose(public_key)
        if (
            same_kind
            and not is_traced(key, public_key)
            and np.array_equal(jax.random.key_data(key), jax.random.key_data(public_key))
        ):
            raise ValueError("public_key must be independent of key: what it says is published")
    draws = [draw for phase in recipe.learner.phases for draw in draw_specs_of_phase(recipe, phase)]
    names = {draw.site for draw in draws}
    if unknown := set(recipe.learner.withheld) - names:
        raise ValueError(f"the learner withholds {sorted(unknown)}, its sites are {sorted(names)}")
    public = [draw.site for draw in draws if draw.mechanism.public]
    if public and public_key is None:
        raise boundary.missing_public_key_error(public[0])
    return public_key if public else None


def check_rows(present: int, capacity: int, recipe: Recipe) -> None:
    """Refuse a table that the noise was not set for, without showing any number of its rows.

    Under replace-one the capacity of the table is public, and is compared too. The number of
    present rows may be smaller: a row whose label is neither class is absent by itself.

    Raises:
        ValueError: saying so.
    """
    rows = int(recipe.rows)
    if present > rows:
        raise ValueError(
            f"the recipe's noise was set for at most rows={rows}, the table has more rows present"
        )
    if recipe.relation is types.REPLACE_ONE and capacity < rows:
        raise ValueError(
            f"under replace_one the table has room for fewer than rows={rows}; set rows to their "
            "number, or choose relation='add_remove' for a bound on it"
        )


def mask_beyond_rows(present: Array, recipe: Recipe) -> Bool[Array, "N"]:
    """bool[N]: the first `rows` of the present rows, in order.

    The noise was set for `rows` rows. Beyond that bound, a row more or less moves at most one other
    row out or in. So a larger table costs what two rows cost: 2 epsilon, or 4 rho.
    """
    rank = jnp.cumsum(present.astype(jnp.int32))
    return present & (rank <= jnp.asarray(recipe.rows).astype(jnp.int32))


def check_predictions(predictions: Array, recipe: Recipe, rows: Prepared) -> Array:
    """The predictions, if their shape and dtype are those of scores; traceable.

    Args:
        predictions: what an author's function returned for one hypothesis.
        recipe: one setting.
        rows: the rows that the function read.

    Raises:
        ValueError: naming the function, and the shape that it should have returned. The shape that
            it did return is shown for the few absent rows that are traced before a run. For a table
            only its rank is shown, as the number of rows is private.
    """
    axes, (num_rows,) = recipe.learner.response.axes, rows.present.shape
    if predictions.shape == (*axes, num_rows) and _keeps_float32(predictions):
        return predictions
    is_prepared = recipe.learner.training.predict_prepared is not None
    function = "Training.predict_prepared" if is_prepared else "HypothesisKind.predict"
    expected = f"float32[{axes[0]}, N]" if axes else "float32[N]"
    returned = types.dtype_and_rank(predictions)
    if num_rows <= MAX_SHOWN_ROWS:
        returned = f"{_dtype_and_shape(predictions)} for N = {num_rows}"
    raise ValueError(
        f"{function} must return {expected}: what the hypothesis adds to the score of each of the "
        f"N rows that it reads; it returned {returned}"
    )


MAX_SHOWN_ROWS = 3
"""The largest number of rows that an error shows; `own_code` traces as many absent rows."""


def check_bound(bound: Array) -> Array:
    """What an author's `Training.bound` returned, if it is one number; traceable.

    Raises:
        ValueError: naming the function, the shape that it should have returned, and that it did.
    """
    if jnp.shape(bound) == () and _keeps_float32(bound):
        return bound
    raise ValueError(
        "Training.bound must return float32[]: one bound on what the hypothesis predicts for every "
        f"possible row; it returned {_dtype_and_shape(bound)}"
    )


def _keeps_float32(array: Array) -> bool:
    """Whether a sum of the array and of float32 scores has the dtype of the scores."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.promote_types(jnp.result_type(array), jnp.float32) == jnp.float32


def _dtype_and_shape(array: Array) -> str:
    return f"{jnp.result_type(array)}[{', '.join(map(str, jnp.shape(array)))}]"


def prepare_table(table: Table, recipe: Recipe) -> Prepared:
    """The table laid out for the loops, with the rows that count.

    Raises:
        ValueError: as `check_run`; and if the hypotheses leave weights of rows out.
    """
    check_run(table, recipe)
    prepared = evaluate_isolated(recipe.learner.training.prepare, table)
    if table.weight is not None and getattr(prepared, "weight", None) is None:
        raise ValueError("rows have weights, and prepare leaves them out: lay out `weight`")
    return prepared._replace(present=mask_beyond_rows(prepared.present, recipe))
