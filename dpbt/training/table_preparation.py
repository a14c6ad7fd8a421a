"""Preparation of a table for a run.

Its arrays move to the device, and they get the layout of the learner. Rows beyond the bound are
masked out.
"""

import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from dpbt.data.blocks import BlockRows
from dpbt.privacy.isolation import evaluate_in_isolated_trace
from dpbt.public_types import Splits
from dpbt.training.checks import check_table_and_recipe, table_with_checked_arrays
from dpbt.types import Array, MultiProgramRecipe, PreparedRows, Recipe, Table

HasDomain = TypeVar("HasDomain", Table, Recipe, MultiProgramRecipe)


def move_table_to_device(table: Table) -> Table:
    """Move the arrays of a table to the device, after a check that they are arrays.

    Raises:
        ValueError: as `checks.table_with_checked_arrays`.
    """
    return jax.tree.map(jnp.asarray, table_with_checked_arrays(table))


def without_domain(carrier: HasDomain) -> HasDomain:
    """A table or a recipe without its domain, as compiled programs take it.

    A program whose arguments carried a domain would be compiled anew for each domain. Domains are
    compared before a program runs (`checks.check_table_and_recipe`).
    """
    if isinstance(carrier, Table):
        return carrier._replace(domain=None)
    if isinstance(carrier, MultiProgramRecipe):
        programs = tuple(dataclasses.replace(each, domain=None) for each in carrier.programs)
        return dataclasses.replace(carrier, programs=programs)
    return dataclasses.replace(carrier, domain=None)


def keep_first_present_rows(present: Array, recipe: Recipe) -> Bool[Array, "N"]:
    """bool[N]: whether a row is one of the first `rows` present rows, in order.

    The noise was set for `rows` rows. Beyond that bound, a row more or less moves at most one other
    row out or in. So a larger table costs what two rows cost: 2 epsilon, or 4 rho.
    """
    rank = jnp.cumsum(present.astype(jnp.int32))
    return present & (rank <= jnp.asarray(recipe.rows).astype(jnp.int32))


def prepare_table(table: Table, recipe: Recipe) -> PreparedRows:
    """Lay out a table for the learner of a recipe, and mask rows beyond the recipe's `rows`.

    Raises:
        ValueError: as `check_table_and_recipe`; and if the hypotheses leave weights of rows out.
    """
    check_table_and_recipe(table, recipe)
    prepared = evaluate_in_isolated_trace(recipe.learner.training.prepare, table)
    if table.weight is not None and getattr(prepared, "weight", None) is None:
        raise ValueError(
            "Training.prepare must return the `weight` of the table, since its rows have weights"
        )
    return prepared._replace(present=keep_first_present_rows(prepared.present, recipe))


def prepare_rows_of_block(block: BlockRows, splits: Splits, recipe: Recipe) -> PreparedRows:
    """Lay out the rows of a block for the learner."""
    bins, target, present, weight = jax.tree.map(jnp.asarray, block)
    table = Table(bins=bins.T, target=target, present=present, splits=splits, weight=weight)
    return recipe.learner.training.prepare(table)
