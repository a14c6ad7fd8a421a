"""How a table enters a run: its arrays on the device, its layout, and the rows of it that count."""

import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from dpbt.privacy.isolation import evaluate_isolated
from dpbt.training.checks import check_run, table_of_checked_arrays
from dpbt.types import Array, MultiProgramRecipe, Prepared, Recipe, Table

HasDomain = TypeVar("HasDomain", Table, Recipe, MultiProgramRecipe)


def table_on_device(table: Table) -> Table:
    """The table with its arrays on the device.

    Raises:
        ValueError: as `checks.table_of_checked_arrays`.
    """
    return jax.tree.map(jnp.asarray, table_of_checked_arrays(table))


def without_domain(carrier: HasDomain) -> HasDomain:
    """A table or a recipe without its domain, as compiled programs take it.

    A program whose arguments carried a domain would be compiled anew for each domain. Domains are
    compared before a program runs (`checks.check_run`).
    """
    if isinstance(carrier, Table):
        return carrier._replace(domain=None)
    if isinstance(carrier, MultiProgramRecipe):
        programs = tuple(dataclasses.replace(each, domain=None) for each in carrier.programs)
        return dataclasses.replace(carrier, programs=programs)
    return dataclasses.replace(carrier, domain=None)


def mask_beyond_rows(present: Array, recipe: Recipe) -> Bool[Array, "N"]:
    """bool[N]: the first `rows` of the present rows, in order.

    The noise was set for `rows` rows. Beyond that bound, a row more or less moves at most one other
    row out or in. So a larger table costs what two rows cost: 2 epsilon, or 4 rho.
    """
    rank = jnp.cumsum(present.astype(jnp.int32))
    return present & (rank <= jnp.asarray(recipe.rows).astype(jnp.int32))


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
