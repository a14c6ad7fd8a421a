"""What a fit and a prediction refuse, before anything runs.

Public arguments are refused by name. Of private ones only the number of rows is refused, and it is
not shown.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.types import (
    REPLACE_ONE,
    Array,
    Recipe,
    Table,
    Transcript,
    dtype_and_rank,
)
from dpbt.data.blocks import BlockTable
from dpbt.data.splits import as_array
from dpbt.data.targets import fingerprint
from dpbt.privacy import boundary, keys, pricing


def on_device(table: Table) -> Table:
    """The table's fields as device arrays.

    Raises:
        ValueError: as `as_array`.
    """

    def arrays(name: str, held: Any) -> Any:
        fields = {field: array for field, array in held._asdict().items() if array is not None}
        fields.pop("splits", None)
        return held._replace(
            **{field: as_array(f"{name}.{field}", array) for field, array in fields.items()}
        )

    splits = None if table.splits is None else arrays("splits", table.splits)
    return arrays("table", table)._replace(splits=splits)


def check_table(table: object) -> None:
    """Check that an argument is a table.

    Raises:
        ValueError: saying what it is instead.
    """
    if isinstance(table, BlockTable):
        raise ValueError(
            "a table in blocks is learned from by dpbt.fit(key, table, recipe, public_key) alone"
        )
    if not isinstance(table, Table):
        raise ValueError(
            f"expected a table, as dpbt.table makes it, got {type(table).__name__}; "
            "the order is key, table, recipe; or transcript, table, recipe"
        )


def check_precision() -> None:
    """Refuse runs under other flags of JAX than its own. Every run comes through here.

    Under `jax_enable_x64` some sums would round otherwise, and without `jax_threefry_partitionable`
    public structure would be another, while the noise of a key is the same. So the difference of
    two runs with one key would show exact sums. As all runs have the same flags, what names a run,
    such as a checkpoint or the plan of a sweep, need not name them.

    Raises:
        ValueError: if a flag is not as it should be, for the process or in this context.
    """
    if not jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
        raise ValueError(
            "jax_threefry_partitionable is off, and runs draw public structure with it, so that a "
            "key draws its noise for one structure; turn it on"
        )
    if jax.config.read("jax_enable_x64"):
        raise ValueError(
            "jax_enable_x64 is on, and runs are in single precision, so that a key draws its noise "
            "for one of them; run within `with jax.enable_x64(False):`"
        )


def check_run(table: object, recipe: object) -> None:
    """Check what every run reads, and that the recipe holds one setting; traceable.

    Raises:
        ValueError: saying what was expected, or as `check_precision` and `check_same_rows`. Also
            for a site that two parts of the run draw.
    """
    check_precision()
    check_table(table)
    assert isinstance(table, Table)
    if not isinstance(recipe, Recipe):
        raise ValueError(
            f"expected a recipe, as dpbt.recipes makes it, got {type(recipe).__name__}; "
            "the order is key, table, recipe; or transcript, table, recipe"
        )
    if np.ndim(recipe.rows) > 0:
        raise ValueError(
            "a run takes one setting, and the recipe holds several; vmap dpbt.boost over it, "
            "or take one by dpbt.recipes.setting(recipe, index)"
        )
    parts = recipe.learner.parts
    if len(parts) > 1:
        drawn = {part: [draw.site for draw in pricing.sites(recipe, part)] for part in parts}
        boundary.check_sites(**drawn)

    # The arrays of the table.
    check_same_rows(table)
    response = recipe.learner.hypotheses.response
    dtypes = {"target": response.dtype, "present": "bool", "weight": "float32"}
    for name, dtype in dtypes.items():
        given = getattr(table, name)
        array = given if given is None or hasattr(given, "dtype") else np.asarray(given)
        if array is not None and (array.dtype != dtype or array.ndim != 1):
            raise ValueError(
                f"table.{name} must be {dtype} of rank 1, got {dtype_and_rank(array)}; "
                f"{recipe.name} predicts {response.words}, so give dpbt.table and the recipe the "
                "same target="
            )
    if table.weight is not None and recipe.weight_update.coupled:
        raise ValueError(
            f"{recipe.name} keeps the total weight of its rows, so rows have no weights of their "
            "own there; recipes.auto and recipes.bdpe take them"
        )


def check_independent(recipe: Recipe) -> None:
    """Refuse a weight update that declares `reads_scores=False` and reads scores or their bound.

    Its rounds would be made side by side, from other scores than those of one after the other. Not
    checked after a prologue, whose release a weight update may read.

    Raises:
        ValueError: saying so.
    """
    weight_update, hypotheses = recipe.weight_update, recipe.learner.hypotheses
    if weight_update.reads_scores or recipe.learner.prologue is not None:
        return
    rows, public = hypotheses.prepare(hypotheses.example()), recipe.public()
    scores = jnp.zeros((*weight_update.response.axes, *rows.present.shape), jnp.float32)

    def weigh(scores: Array, bound: Array) -> object:
        return weight_update.weigh(scores, bound, rows, public)

    traced = jax.make_jaxpr(weigh)(scores, jnp.float32(0)).jaxpr
    read = [entry for step in traced.eqns for entry in step.invars] + traced.outvars
    if {id(entry) for entry in read} & {id(entry) for entry in traced.invars}:
        raise ValueError(
            f"the weight update {weight_update.tag} declares reads_scores=False, and reads scores "
            "or their bound; leave it True"
        )


def check_transcript(transcript: object) -> None:
    """Check that an argument is a transcript, each of whose sites one part of the run drew.

    Raises:
        ValueError: saying what it is instead, or as `boundary.check_sites`.
    """
    if not isinstance(transcript, Transcript):
        raise ValueError(
            "expected a transcript, as boost returns it or model.transcript holds it, "
            f"got {type(transcript).__name__}"
        )
    boundary.check_sites(**transcript._asdict())


def check(key: Array, table: Table, recipe: Recipe, public_key: Array | None) -> Array | None:
    """Refuse what one fit cannot take, as far as that reads no private row.

    Args:
        key: one typed key.
        table: on the device, as `check_run` takes it. The hypotheses must be able to read it.
        recipe: one setting.
        public_key: another typed key, or None.

    Returns:
        The public key, if the recipe draws public structure; None if it draws none.

    Raises:
        ValueError: if one of these does not hold. Also for classes or a range that were declared
            otherwise than the recipe's, and a site that is withheld and not drawn.
    """
    keys.check(key)
    recipe.learner.hypotheses.check(table)
    told, target = table.declared, recipe.target
    known = None if target is None else fingerprint(target)
    if not (told is None or known is None or np.array_equal(np.asarray(told), known)):
        raise ValueError(
            "the table was made with another target than the recipe's: other classes, another "
            "order of them, or another range; give both the same target="
        )
    check_independent(recipe)

    # The public key, which is independent of the secret one.
    if public_key is not None:
        keys.check(public_key, "public_key")
        same_kind = keys.kind(key) == keys.kind(public_key)
        if same_kind and np.array_equal(jax.random.key_data(key), jax.random.key_data(public_key)):
            raise ValueError("public_key must be independent of key: what it says is published")
    draws = [draw for part in recipe.learner.parts for draw in pricing.sites(recipe, part)]
    names = {draw.site for draw in draws}
    if unknown := set(recipe.learner.traits.withheld) - names:
        raise ValueError(f"the learner withholds {sorted(unknown)}, its sites are {sorted(names)}")
    public = [draw.site for draw in draws if draw.mechanism.public]
    if public and public_key is None:
        raise boundary.no_public_key(public[0])
    return public_key if public else None


def check_same_rows(table: Table) -> None:
    """Refuse a table whose arrays have different rows; no length is shown.

    Raises:
        ValueError: saying so.
    """
    weight = () if table.weight is None else (table.weight,)
    if len({np.shape(array)[:1] for array in (*table[:3], *weight)}) > 1:
        raise ValueError("bins, target, present and weight must have the same rows, and do not")


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
    if recipe.relation is REPLACE_ONE and capacity < rows:
        raise ValueError(
            "under replace_one rows is the public number of rows, and the table has room for fewer "
            f"than rows={rows}; set rows to their number, or choose relation='add_remove' for a "
            "bound on it"
        )
